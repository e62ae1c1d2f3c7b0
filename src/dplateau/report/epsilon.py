"""Epsilon against delta, or against whatever runs differ in: the certified one, the limit theorem's, the moments accountant's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from dplateau._account import Report, account
from dplateau.analyses import GaussianCLT, MomentsAccountantBound
from dplateau.report.plateau import Line
from dplateau.report.trade_off import CERTIFIED
from dplateau.spec import InputError, Run, Runs
from dplateau.spec.arguments import sequence
from dplateau.spec.promise import usual_delta

DELTAS: Final = tuple(float(delta) for delta in np.geomspace(1e-10, 1e-2, 33))


@dataclass(frozen=True)
class EpsilonCurves:
    """Epsilons at many places.

    Attributes
    ----------
    against : str
        What the places are: "delta", "epochs", "noise multiplier".
    places : tuple of float
        Rising.
    lines : tuple of Line
        The certified epsilons first, then the limit theorem's and the moments accountant's where they apply.
    """

    against: str
    places: tuple[float, ...]
    lines: tuple[Line, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; None where there is no finite epsilon."""
        return {"against": self.against, "places": list(self.places), "lines": [line.to_dict() for line in self.lines]}


def against_delta(run: Run | Runs, deltas: Sequence[float] = DELTAS) -> EpsilonCurves:
    """What a run costs at every delta.

    Parameters
    ----------
    run : Run or Runs
        What is computed and released.
    deltas : sequence of float
        In (0, 1).

    Raises
    ------
    InputError
        There is no delta, or one is not in (0, 1).

    Examples
    --------
    >>> import dplateau as dp
    >>> run = dp.Run(n=60_000, sampling=dp.Poisson(batch_size=256), steps=3516, noise_multiplier=1.3)
    >>> [round(epsilon, 3) for epsilon in against_delta(run, [1e-8, 1e-5]).lines[0].epsilons]
    [1.227, 0.865]
    """
    places = _rising("deltas", deltas)
    report = account(run, places[0])
    return _curves("delta", places, [report] * len(places))


def against_runs(against: str, runs: Mapping[float, Run | Runs], delta: float | None = None) -> EpsilonCurves:
    """What runs cost that differ in one quantity, such as epochs or noise.

    Parameters
    ----------
    against : str
        The quantity.
    runs : mapping of float to Run or Runs
        A run for each value.
    delta : float, optional
        In (0, 1), as for ``account``.
    """
    places = _rising("runs", tuple(runs))
    delta = usual_delta(max(run.n for run in runs.values())) if delta is None and runs else delta
    return _curves(against, places, [account(runs[place], delta) for place in places])


def _rising(name: str, values: Sequence[float]) -> tuple[float, ...]:
    places = tuple(sorted({float(value) for value in sequence(name, values)}))
    if not places:
        raise InputError(f"{name} is empty: expected at least one.")
    return places


def _curves(against: str, places: tuple[float, ...], reports: list[Report]) -> EpsilonCurves:
    """At the places' deltas, if they are deltas; else at the reports' own."""
    at = list(zip(reports, places if against == "delta" else (report.delta for report in reports), strict=True))
    read: dict[str, Callable[[Report, float], float]] = {CERTIFIED: lambda report, delta: report.profile([delta])[0].upper}
    status = {CERTIFIED: "Proved"}
    for analysis in (GaussianCLT, MomentsAccountantBound):
        if all(_row(report, analysis.name).bound for report in reports):
            read[analysis.name] = lambda report, delta, name=analysis.name: _upper(report, name, delta)
            status[analysis.name] = analysis.status.__name__
    lines = (Line(name, status[name], tuple(value(report, delta) for report, delta in at)) for name, value in read.items())
    return EpsilonCurves(against, places, tuple(lines))


def _row(report: Report, name: str) -> Any:
    return next(row for row in report.bounds if row.name == name)


def _upper(report: Report, name: str, delta: float) -> float:
    return _row(report, name).bound.guarantee.epsilon(delta).upper
