"""The words for bounds that the terminal, the pictures and the pages share."""

from __future__ import annotations

import math
import re

from dplateau._account import Report

PROVED = "Proved"
OTHER_SAMPLING = re.compile(r"it is for sampling (.+), the run's is (\w+)\.")
"""A reason that many analyses have, with the schemes that each is for."""


def percent(value: float, digits: int = 1) -> str:
    """A probability in per cent, never smaller than it is."""
    unit = 10.0**-digits
    units = 100 * value / unit
    # What a computer adds by rounding is not a reason for a further digit; being above 0 is one.
    return f"{min(math.ceil(units - 1e-9 * min(units, 1.0)) * unit, 100.0):.{digits}f} %"


def declined(report: Report) -> list[tuple[str, list[str]]]:
    """Why analyses say nothing: each reason, with those that share it; those of another sampling come last, whichever it is."""
    reasons: dict[str, list[str]] = {}
    elsewhere: list[str] = []
    sampling = ""
    for row in report.bounds:
        if row.epsilon is not None:
            continue
        covered = OTHER_SAMPLING.fullmatch(row.why_not or "")
        remarks = [covered[1]] if covered else []
        sampling = covered[2] if covered else sampling
        remarks += [row.status] if row.status != PROVED else []
        shown = f"{row.name} ({'; '.join(remarks)})" if remarks else row.name
        (elsewhere if covered else reasons.setdefault(row.why_not or "", [])).append(shown)
    if elsewhere:
        reasons[f"the run's sampling is {sampling}, and each of these is for another one."] = elsewhere
    return list(reasons.items())
