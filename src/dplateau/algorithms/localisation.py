"""The schedules of localisation: how Phased-SGD and Phased-ERM share out the records and how their steps shrink.

Source: Feldman, Koren, Talwar, "Private stochastic convex optimization: optimal rates in linear time" (STOC 2020), Algorithms 2 and
3 with Theorems 4.4, 4.8 and 5.3.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from dplateau.spec import InputError
from dplateau.spec.arguments import integer
from dplateau.utility.halving import halving_sizes


class PhaseSchedule(NamedTuple):
    """Sizes and step sizes of consecutive phases."""

    sizes: tuple[int, ...]
    step_sizes: tuple[float, ...]

    def __add__(self, other: object) -> PhaseSchedule:
        """These phases and then others."""
        if not isinstance(other, PhaseSchedule):
            return NotImplemented
        return PhaseSchedule(self.sizes + other.sizes, self.step_sizes + other.step_sizes)


def halving_phases(n: int, step_size: float, count: int | None = None) -> PhaseSchedule:
    """Phases of ``halving_sizes`` with steps ``step_size / 4^i``; records that are left over go to the first phase."""
    sizes = halving_sizes(n, count)
    steps = tuple(step_size / 4**i for i in range(1, len(sizes) + 1))
    return PhaseSchedule((n - sum(sizes[1:]), *sizes[1:]), steps)


def equal_count(n: int, count: int | None = None) -> int:
    """How many equal phases there are, by default Theorem 5.3's ``ln ln n``, rounded up.

    More phases have a smaller bound only where n is large and rho small.
    """
    if count is None:
        return max(1, math.ceil(math.log(max(math.log(n), 1.0)))) if n > 1 else 1
    k = integer("phases", count)
    if k > min(n, 8):
        raise InputError(f"{k} phases whose steps shrink doubly exponentially: expected at most {min(n, 8)}.")
    return k


def equal_phases(n: int, step_size: float, count: int | None = None) -> PhaseSchedule:
    """Phases of equal size with steps ``step_size / 2^(2^i)``; what is left over goes to the first phase."""
    k = equal_count(n, count)
    return PhaseSchedule((n - (k - 1) * (n // k), *(n // k,) * (k - 1)), tuple(step_size / 2.0 ** (2**i) for i in range(1, k + 1)))


def convex_step(n: int, noise_multiplier: float, weights: int, distance: float, lipschitz: float) -> float:
    """Theorem 4.4's eta for a start at most ``distance`` from the minimiser."""
    return distance / lipschitz * min(4 / math.sqrt(n), 1 / (noise_multiplier * math.sqrt(weights)))
