"""The words for a run and its bounds that the terminal, the pictures and the pages share."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Final

from dplateau._account import Report
from dplateau.report.format_1 import Stated
from dplateau.spec import Assumption, By, How, Run, Runs
from dplateau.spec.schedule import Schedule

PROVED = "Proved"
OTHER_SAMPLING = re.compile(r"it is for sampling (.+), the run's is (\w+)\.")
"""A reason that many analyses have, with the schemes that each is for."""
BATCHES = {
    "poisson": "Poisson batches of {size} expected rows",
    "fixed-size": "random batches of {size} rows",
    "cyclic": "batches of {size} rows, in the same public order in every epoch",
    "shuffled": "batches of {size} rows, shuffled in every epoch",
    "one-pass": "batches of {size} rows, every row used once",
    "full": "all rows in every step",
}
RELEASED = {"last": "the last iterate only", "all": "every noisy step, and all that is computed from them"}
FINAL_MODEL = "the final model only"
LONG = 120
"""Texts of a forged file are cut off after so many characters."""
HOW: Final = tuple(How)
BY: Final = {By.DPLATEAU: " by dplateau", By.OPACUS: " by Opacus", By.CALLER: " by whoever trained", None: ""}
ADJACENCY = {"add-remove": "one row added or removed", "replace": "one row replaced by another"}


def percent(value: float, digits: int = 1) -> str:
    """A probability in per cent, never smaller than it is."""
    unit = 10.0**-digits
    # What a computer adds by rounding is no reason for a further digit.
    return f"{min(math.ceil(100 * value / unit - 1e-9) * unit, 100.0):.{digits}f} %"


def spread(value: Schedule, digits: int = 6) -> str:
    """A constant, or the range of a schedule."""
    least, greatest = (min(value), max(value)) if isinstance(value, tuple) else (value, value)
    return f"{least:,.{digits}g}" + ("" if least == greatest else f" to {greatest:,.{digits}g}")


def _count(value: float) -> str:
    """A number of things that need not be whole: four digits, and never a power of ten."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def run_facts(run: Run | Runs) -> list[tuple[str, str]]:
    """What ran, in words."""
    if isinstance(run, Runs):
        return [_protects(run), *(fact for number, one in enumerate(run.runs, start=1) for fact in _phase(number, one))]
    return [_protects(run), *_phase(0, run)]


def _protects(run: Run | Runs) -> tuple[str, str]:
    return "protects", f"{ADJACENCY[run.adjacency]}, among {run.n:,} ({run.adjacency})"


def _phase(number: int, run: Run) -> list[tuple[str, str]]:
    """One run; of several, with its number."""
    batches = BATCHES[run.sampling.kind].format(size=spread(getattr(run.sampling, "batch_size", 0.0)))
    steps = "phases" if run.is_phased else "steps"
    return [
        (f"run {number}" if number else "training", f"{run.steps:,} {steps} ({_count(run.epochs)} epochs), {batches}"),
        ("noise", f"multiplier {spread(run.noise_multiplier)}"),
        ("released", FINAL_MODEL if run.released == "last" and run.update != "sgd" else RELEASED[run.released]),
    ]


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
        reasons[f"the run's sampling is {sampling}, and each is for another one."] = elsewhere
    return list(reasons.items())


def by_whom(assumptions: Sequence[Assumption | Stated]) -> list[tuple[str, list[Assumption | Stated]]]:
    """The assumptions, by how they came to hold and who saw to that, in words."""
    found: dict[str, list[Assumption | Stated]] = {}
    for one in sorted(assumptions, key=lambda one: (HOW.index(one.how), list(BY).index(one.by))):
        found.setdefault(one.how.value + BY[one.by], []).append(one)
    return list(found.items())


def cut(text: str) -> str:
    """The beginning of a text that might be anything."""
    return text if len(text) <= LONG else f"{text[:LONG]} ... ({len(text):,} characters)"
