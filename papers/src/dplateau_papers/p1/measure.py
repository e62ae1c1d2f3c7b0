"""Measured excess risks: means over seeds with their standard errors, the worst of a family, and slopes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from dplateau_papers.p1.problems import SIGNALS, Family, Linear, Problem, linear_family
from dplateau_papers.p1.schedules import Rule, Schedule
from dplateau_papers.p1.settings import SIGNAL, Along

_PILOT: Final = 1000
"""First seed of the runs that choose a problem: others than those that measure it."""


@dataclass(frozen=True)
class Measured:
    """An excess risk, measured.

    Attributes
    ----------
    mean, error : float
        Mean over the seeds, and its standard error.
    seeds : int
        How many.
    signal : float or None
        Of the worst problem, where there was a family.
    """

    mean: float
    error: float
    seeds: int
    signal: float | None = None

    def __str__(self) -> str:
        """Mean and standard error, with as many digits as there are."""
        digits = max(0, 1 - math.floor(math.log10(self.error))) if self.error > 0 else 6
        return f"{self.mean:.{digits}f} +- {self.error:.{digits}f}"

    def over(self, unit: float) -> Measured:
        """The same in another unit."""
        return Measured(self.mean / unit, self.error / unit, self.seeds, self.signal)

    def below(self, bound: float) -> bool:
        """Whether the mean does not exceed a bound by more than three standard errors."""
        return self.mean - 3 * self.error <= bound

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"mean": self.mean, "standard_error": self.error, "seeds": self.seeds, "signal": self.signal}


def measure(schedule: Schedule, problem: Problem, seeds: int, signal: float | None = None) -> Measured:
    """Train once for each seed, on records of its own."""
    found = np.array([schedule.excess(problem, seed) for seed in range(seeds)])
    return Measured(float(found.mean()), float(found.std(ddof=1)) / math.sqrt(seeds), seeds, signal)


def measure_worst(schedule: Schedule, family: Family, seeds: int, signals: Sequence[float] = SIGNALS, pilots: int = 2) -> Measured:
    """The worst problem of a family by a few runs each, measured by other runs: choosing it does not bias the mean."""
    means = [np.mean([schedule.excess(family(signal), _PILOT + i) for i in range(pilots)]) for signal in signals]
    worst = signals[int(np.argmax(means))]
    return measure(schedule, family(worst), seeds, worst)


@dataclass(frozen=True)
class Slope:
    """A power of one parameter, by least squares on logarithms.

    Attributes
    ----------
    value, error : float
        The power that the measured risks show, and its standard error.
    proved : float
        That of the proved bounds at the same points.
    claimed : float
        The theorem's, without its logarithms.
    """

    value: float
    error: float
    proved: float
    claimed: float

    @property
    def agrees(self) -> bool:
        """Whether the claimed power is nearer than any other multiple of 1/2, with an error small enough to tell them apart."""
        return abs(self.value - self.claimed) < 0.25 and self.error <= 0.125

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "measured": self.value,
            "standard_error": self.error,
            "proved": self.proved,
            "claimed": self.claimed,
            "agrees": self.agrees,
        }


def slope(places: Sequence[float], measured: Sequence[Measured], proved: Sequence[float], claimed: float) -> Slope:
    """Fit one."""
    logs = np.log(np.asarray(places, dtype=float))
    weights = (logs - logs.mean()) / np.sum((logs - logs.mean()) ** 2)
    means, errors = np.array([each.mean for each in measured]), np.array([each.error for each in measured])
    error = float(np.linalg.norm(weights * errors / means))
    return Slope(float(weights @ np.log(means)), error, float(weights @ np.log(np.asarray(proved))), claimed)


@dataclass(frozen=True)
class Sweep:
    """One algorithm at several values of one parameter.

    Attributes
    ----------
    name : str
        The theorem or algorithm.
    against : {"n", "d", "rho"}
        The parameter.
    places : tuple of float
        Its values.
    fixed : str
        What the others are.
    measured : tuple of Measured
        The excess risk of the worst problem, or of the problem.
    proved : tuple of float
        Its bounds.
    slope : Slope
        The power.
    """

    name: str
    against: str
    places: tuple[float, ...]
    fixed: str
    measured: tuple[Measured, ...]
    proved: tuple[float, ...]
    slope: Slope

    @property
    def holds(self) -> bool:
        """Whether no measured risk exceeds its bound by more than three standard errors."""
        return all(m.below(bound) for m, bound in zip(self.measured, self.proved, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "name": self.name,
            "against": self.against,
            "places": list(self.places),
            "fixed": self.fixed,
            "measured": [each.to_dict() for each in self.measured],
            "proved": list(self.proved),
            "slope": self.slope.to_dict(),
        }


def sweep(name: str, rule: Rule, along: Along) -> Sweep:
    """Measure ``rule`` along one parameter: the worst linear problem, or the strongly convex one."""
    fixed = {"n": along.n, "d": along.d, "rho": along.rho}
    measured, proved = list[Measured](), list[float]()
    for place in along.places:
        at = fixed | {along.against: place}
        problem = Linear(int(at["d"]), SIGNAL, along.strength)
        schedule = rule(problem, int(at["n"]), float(at["rho"]))
        if along.strength:
            measured.append(measure(schedule, problem, along.seeds))
        else:
            measured.append(measure_worst(schedule, linear_family(problem.d), along.seeds))
        proved.append(schedule.proved)
    others = ", ".join(f"{key} = {value:g}" for key, value in fixed.items() if key != along.against)
    fitted = slope(along.places, measured, proved, along.claimed)
    return Sweep(name, along.against, tuple(map(float, along.places)), others, tuple(measured), tuple(proved), fitted)
