"""What every analysis says of several runs on the same records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dplateau.accounting import Bound, Guarantee, NotApplicable, Proved, Refuted
from dplateau.accounting.tensor import tensor
from dplateau.analyses.base import Analysis
from dplateau.spec import Run, Runs

NAME: Final = "composed-runs"
SOURCE: Final = "composition of each run's own least bound; docs/proofs/exact-composition.md, section 1"


def composed(analysis: Analysis, runs: Runs) -> Bound | NotApplicable:
    """One analysis, of every run, composed. The status is the analysis' own, and what is refuted is not composed."""
    if analysis.status is Refuted:
        return analysis.declined("it is refuted, and what is refuted is not composed.")
    for number, run in enumerate(runs.runs, start=1):
        if (reason := analysis.why_not(run)) is not None:
            return analysis.declined(f"of run {number}: {reason}")
    return analysis.status(analysis.name, analysis.source, tensor([analysis.guarantee(run) for run in runs.runs]))


def each_by_its_best(runs: Runs, leading: Sequence[Analysis], delta: float) -> Bound | NotApplicable:
    """Every run by the proved bound that is least for its share of delta, composed. **Proved** as these are.

    Parameters
    ----------
    runs : Runs
        The runs.
    leading : sequence of Analysis
        Proved analyses, the general one first.
    delta : float
        Of the whole.
    """
    chosen: list[tuple[Analysis, Guarantee]] = [_least(run, leading, delta / len(runs.runs)) for run in runs.runs]
    if len({analysis.name for analysis, _ in chosen}) == 1:
        name = chosen[0][0].name
        return NotApplicable(NAME, SOURCE, Proved.__name__, f"{name} is the least bound of every run: its own row says the same.")
    return Proved(NAME, SOURCE, tensor([guarantee for _, guarantee in chosen]))


def _least(run: Run, leading: Sequence[Analysis], delta: float) -> tuple[Analysis, Guarantee]:
    found = [(analysis, analysis.guarantee(run)) for analysis in leading if analysis.why_not(run) is None]
    return min(found, key=lambda pair: pair[1].epsilon(delta).upper)
