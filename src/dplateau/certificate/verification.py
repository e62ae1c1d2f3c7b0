"""``verify``: recompute a certificate from its run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, NamedTuple

from dplateau._account import Report, account
from dplateau.certificate.certificate import Certificate
from dplateau.certificate.make import claim_of
from dplateau.certificate.outward import confirms_lower, confirms_upper
from dplateau.spec.arguments import of_type
from dplateau.spec.strict_json import same

TOLERANCE: Final = 1e-6
"""How far numbers of format 1 may be from those that are recomputed."""
LONG: Final = 120
"""Texts of a forged file are cut off after so many characters."""
FOLLOWS: Final = ("epsilon", "delta", "enclosure", "bound", "status", "source", "mu", "curve", "bounds", "run_digest")
"""Keys of what follows from the run and delta."""
COMPUTED: Final = ("epsilon", "enclosure", "mu")
"""Keys of numbers that are computed with rounding."""


@dataclass(frozen=True)
class Difference:
    """One entry of a certificate that a recomputation does not confirm."""

    entry: str
    claimed: Any
    recomputed: Any

    def __str__(self) -> str:
        # JSON, so that no control character of a forged file reaches a terminal.
        claimed, recomputed = (f"{x:.9g}" if isinstance(x, float) else _cut(json.dumps(x)) for x in (self.claimed, self.recomputed))
        return f"{self.entry}: {claimed} in the certificate, {recomputed} recomputed"


def _cut(text: str) -> str:
    """The beginning of a text that might be anything."""
    return text if len(text) <= LONG else f"{text[:LONG]} ... ({len(text):,} characters)"


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
        Whether the certificate agrees and nothing voids it. One whose noise can be computed certifies nothing, however right its
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

    It finds a changed epsilon, curve, bound, digest or run, and assumptions that cannot be those of such a training. It cannot know
    whether the run is what really happened: that, the assumptions and the generator are the testimony of the person who made the
    certificate. ``check_weights`` tells whether it is about the weights at hand.

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
    of_type("certificate", certificate, Certificate)
    report = report or account(certificate.run, certificate.delta)
    both = certificate, replace(certificate, **claim_of(report))
    claimed, recomputed = ({key: data[key] for key in FOLLOWS} for data in map(Certificate.to_dict, both))
    if certificate.format == 1:
        _drop_what_versions_word(claimed, recomputed)
    differences = list(_differences("", claimed, recomputed, Reading(certificate.format, report.delta)))
    differences += [Difference("assumptions", wrong, "what such a training rests on") for wrong in certificate.problems]
    certifies = not differences and certificate.certifies
    return Verdict(certificate.epsilon, report.epsilon, certificate.delta, tuple(differences), certifies)


def _drop_what_versions_word(claimed: dict[str, Any], recomputed: dict[str, Any]) -> None:
    """Leave of a file of format 1 and its recomputation what both versions of the software know: bounds by name, and no words."""
    names = [{row["name"] for row in entries["bounds"]} for entries in (claimed, recomputed)]
    for entries in (claimed, recomputed):
        del entries["source"]
        rows = [{key: row[key] for key in ("name", "status", "epsilon", "enclosure")} for row in entries["bounds"]]
        entries["bounds"] = [row for row in rows if row["name"] in names[0] & names[1]]


class Reading(NamedTuple):
    """How numbers are compared: in which format, at which delta, and, for ends of enclosures, whether it is the lower or upper."""

    format: int
    delta: float
    end: int | None = None


def _differences(where: str, claimed: Any, recomputed: Any, reading: Reading) -> Iterator[Difference]:
    """Entries that are not confirmed."""
    if isinstance(claimed, dict) and isinstance(recomputed, dict) and claimed.keys() == recomputed.keys():
        delta = recomputed.get("delta", reading.delta)
        for key in claimed:
            end = 1 if key in COMPUTED else None
            yield from _differences(
                f"{where}.{key}".lstrip("."), claimed[key], recomputed[key], Reading(reading.format, delta, end)
            )
    elif isinstance(claimed, list) and isinstance(recomputed, list) and len(claimed) == len(recomputed):
        for i, (one, other) in enumerate(zip(claimed, recomputed, strict=True)):
            yield from _differences(f"{where}[{i}]", one, other, reading._replace(end=None if reading.end is None else i))
    elif not _confirmed(claimed, recomputed, reading):
        yield Difference(where, claimed, recomputed)


def _confirmed(claimed: Any, recomputed: Any, reading: Reading) -> bool:
    if reading.end is None or not all(isinstance(value, int | float) for value in (claimed, recomputed)):
        return same(claimed, recomputed)
    if reading.format == 1:
        return abs(claimed - recomputed) <= TOLERANCE * max(1.0, abs(recomputed))
    return (confirms_upper if reading.end else confirms_lower)(recomputed, claimed, reading.delta)
