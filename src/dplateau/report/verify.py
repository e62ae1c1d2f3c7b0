"""``verify``: recompute a certificate from its run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from dplateau.account import Report, account
from dplateau.report.certificate import Certificate, Testimony, make_certificate
from dplateau.report.words import cut

TOLERANCE: Final = 1e-6
"""How far two computations of one epsilon may be apart on two machines: the width of an enclosure."""
COMPUTED: Final = ("epsilon", "enclosure", "mu")
"""Keys of numbers that are computed with rounding."""
IGNORED: Final = ("versions", "statement")
"""The software of the machine, and the sentence that follows from other entries."""


@dataclass(frozen=True)
class Difference:
    """One entry of a certificate that a recomputation does not confirm."""

    entry: str
    claimed: Any
    recomputed: Any

    def __str__(self) -> str:
        # JSON, so that no control character of a forged file reaches a terminal.
        claimed, recomputed = (f"{x:.9g}" if isinstance(x, float) else cut(json.dumps(x)) for x in (self.claimed, self.recomputed))
        return f"{self.entry}: {claimed} in the certificate, {recomputed} recomputed"


@dataclass(frozen=True)
class Verdict:
    """What a recomputation says of a certificate.

    Attributes
    ----------
    claimed, recomputed : float
        The certificate's epsilon, and the one that follows from its run, both at ``delta``.
    delta : float
        The certificate's delta.
    differences : tuple of Difference
        Entries that are not confirmed.
    certifies : bool
        Whether the certificate agrees and its noise was secret. One whose noise was not certifies nothing, however right its
        numbers.
    """

    claimed: float
    recomputed: float
    delta: float
    differences: tuple[Difference, ...]
    certifies: bool

    @property
    def agrees(self) -> bool:
        """Whether everything that can be recomputed is as the certificate says."""
        return not self.differences

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "agrees": self.agrees,
            "certifies": self.certifies,
            "delta": self.delta,
            "claimed": self.claimed,
            "recomputed": self.recomputed,
            "differences": [asdict(difference) for difference in self.differences],
        }


def verify(certificate: Certificate, report: Report | None = None) -> Verdict:
    """Recompute everything in a certificate that follows from its run.

    It finds a changed epsilon, curve, bound, digest or run. It cannot know whether the run is what really happened: that, the
    assumptions and the generator are the testimony of whoever made the certificate.

    Parameters
    ----------
    certificate : Certificate
        What is claimed.
    report : Report, optional
        What ``dplateau.account`` says of its run at its delta, if that is known already.

    Raises
    ------
    UncertifiedError
        The run has no finite proved epsilon at all.
    """
    testimony = Testimony(certificate.run, certificate.assumptions, certificate.generator, certificate.arithmetic)
    again = make_certificate(report or account(certificate.run, certificate.delta), testimony)
    claimed, recomputed = ({k: v for k, v in c.to_dict().items() if k not in IGNORED} for c in (certificate, again))
    differences = tuple(_differences("", claimed, recomputed))
    return Verdict(
        certificate.epsilon, again.epsilon, certificate.delta, differences, certifies=not differences and certificate.certifies
    )


def _differences(where: str, claimed: Any, recomputed: Any, computed: bool = False) -> Iterator[Difference]:
    if isinstance(claimed, dict) and isinstance(recomputed, dict) and claimed.keys() == recomputed.keys():
        for key in claimed:
            yield from _differences(f"{where}.{key}".lstrip("."), claimed[key], recomputed[key], key in COMPUTED)
    elif isinstance(claimed, list) and isinstance(recomputed, list) and len(claimed) == len(recomputed):
        for i, (one, other) in enumerate(zip(claimed, recomputed, strict=True)):
            yield from _differences(f"{where}[{i}]", one, other, computed)
    elif not _same(claimed, recomputed, computed):
        yield Difference(where, claimed, recomputed)


def _same(claimed: Any, recomputed: Any, computed: bool) -> bool:
    if computed and all(isinstance(value, int | float) for value in (claimed, recomputed)):
        return abs(claimed - recomputed) <= TOLERANCE * max(1.0, abs(recomputed))
    return claimed == recomputed
