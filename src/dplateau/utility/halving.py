"""How phases of localisation share out the records: each has half as many as the one before.

Source: Feldman, Koren, Talwar 2020, Algorithms 2 and 3.
"""

from __future__ import annotations

from dplateau.spec import InputError
from dplateau.spec.arguments import integer


def halving_sizes(n: int, phases: int | None = None) -> tuple[int, ...]:
    """Phase i has ``n / 2^i`` records, rounded down. By default there are ``ceil(log2(n) / 2)`` phases, half of the paper's.

    By the last of them the steps have shrunk by n and the noise with them: its part ``4^-k L D = L D / n`` of the excess risk is no
    more than the rest. The paper's second half, of about ``sqrt(n)`` records in all, would shrink steps by n^2, where a step is
    lost in the rounding of the weights.
    """
    most = integer("n", n, low=2).bit_length() - 1  # floor(log2 n): the last phase needs a record
    number = max(1, (most + 1 + (n & (n - 1) > 0)) // 2) if phases is None else integer("phases", phases)
    if number > most:
        raise InputError(f"{number} phases need 2^{number} records, there are {n}: ask for at most {most} phases.")
    return tuple(n >> i for i in range(1, number + 1))
