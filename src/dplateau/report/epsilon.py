"""Epsilon against delta, or against whatever runs differ in: the certified one, the limit theorem's, the moments accountant's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from dplateau._account import Report, account
from dplateau.analyses import GaussianCLT, MomentsAccountantBound
from dplateau.report.plateau import Line
from dplateau.report.trade_off import CERTIFIED
from dplateau.spec import InputError, Run, Runs
from dplateau.spec.arguments import real, sequence
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
    [1.229, 0.865]
    """
    for delta in (given := sequence("deltas", deltas)):
        if real("delta", delta) >= 1:
            raise InputError(f"delta is {delta:g}: expected a number in (0, 1).")
    places = _rising("deltas", given)
    report = account(run, places[0])
    return _curves("delta", places, [(report, delta) for delta in places])


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
    delta = usual_delta(max(run.n for run in runs.values())) if delta is None else delta
    reports = [account(runs[place], delta) for place in places]
    return _curves(against, places, [(report, report.delta) for report in reports])


def _rising(name: str, values: Iterable[float]) -> tuple[float, ...]:
    places = tuple(sorted({float(value) for value in values}))
    if not places:
        raise InputError(f"{name} is empty: expected at least one.")
    return places


def _curves(against: str, places: tuple[float, ...], read: Sequence[tuple[Report, float]]) -> EpsilonCurves:
    """The lines of what was accounted for at each place, and the delta to read it at."""
    lines = [Line(CERTIFIED, "Proved", tuple(report.profile([delta])[0].upper for report, delta in read))]
    for analysis in (GaussianCLT, MomentsAccountantBound):
        bounds = [(row.bound, delta) for report, delta in read for row in report.bounds if row.name == analysis.name]
        epsilons = tuple(bound.guarantee.epsilon(delta).upper for bound, delta in bounds if bound is not None)
        if len(epsilons) == len(places):
            lines.append(Line(analysis.name, analysis.status.__name__, epsilons))
    return EpsilonCurves(against, places, tuple(lines))
