"""Every measurement of ``p1``: risks of the theorems' schedules, slopes, schedules at equal privacy, and d = n."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from dplateau.accounting import gdp_epsilon
from dplateau.algorithms import PNSGD, PhasedSGD
from dplateau.calibration import calibrate
from dplateau_papers.p1 import PAPER
from dplateau_papers.p1.measure import Measured, Sweep, measure, measure_worst, sweep
from dplateau_papers.p1.privacy import Privacy, privacy
from dplateau_papers.p1.problems import Linear, OneHot, Problem, linear_family
from dplateau_papers.p1.schedules import (
    DELTA,
    Rule,
    Schedule,
    falling_pnsgd,
    phased_sgd,
    phased_sgd_as_printed,
    schedule_risk,
    silent_linear,
    snowball_falling,
    snowball_fixed,
)
from dplateau_papers.p1.settings import FULL, OURS, SIGNAL, STRENGTH, THEOREMS, Sizes, Theorem


@dataclass(frozen=True)
class Risk:
    """One theorem on one problem.

    Attributes
    ----------
    theorem : Theorem
        Which.
    problem : str
        "linear" (the worst of the family), "logistic", "hinge" or "strong".
    steps : int
        Of the run: gradient steps, or phases.
    printed : float or None
        The bound that the paper prints.
    proved : float
        The bound that is proved for the schedule that ran.
    measured : Measured
        The excess risk.
    """

    theorem: Theorem
    problem: str
    steps: int
    printed: float | None
    proved: float
    measured: Measured

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "theorem": self.theorem.name,
            "algorithm": self.theorem.title,
            "formula": self.theorem.formula,
            "problem": self.problem,
            "steps": self.steps,
            "printed": self.printed,
            "proved": self.proved,
            "measured": self.measured.to_dict(),
        }


@dataclass(frozen=True)
class Equal:
    """Schedules that cost the same, on the same problems. Risks are in units of D L.

    Attributes
    ----------
    name : str
        The schedule.
    n, d, rho : int, int, float
        Where; all but the one with printed noise are calibrated to rho-GDP.
    proved : float
        Bound.
    linear, logistic : Measured
        On the worst linear problem and on the logistic one.
    """

    name: str
    n: int
    d: int
    rho: float
    proved: float
    linear: Measured
    logistic: Measured

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        numbers = {"name": self.name, "n": self.n, "d": self.d, "rho": self.rho, "proved": self.proved}
        return numbers | {"linear": self.linear.to_dict(), "logistic": self.logistic.to_dict()}


@dataclass(frozen=True)
class Free:
    """Private and not, as n grows.

    Attributes
    ----------
    n : int
        Records.
    silent, few, many : (float, Measured)
        Bound and worst excess risk: not private at d = 10; private with rho = 1 at d = 10; private at d = n.
    """

    n: int
    silent: tuple[float, Measured]
    few: tuple[float, Measured]
    many: tuple[float, Measured]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        series = (("not_private", self.silent), ("d_10", self.few), ("d_n", self.many))
        return {"n": self.n} | {name: {"proved": bound, "measured": m.to_dict()} for name, (bound, m) in series}


@dataclass(frozen=True)
class Found:
    """All numbers of ``p1``."""

    sizes: Sizes
    risks: tuple[Risk, ...]
    sweeps: tuple[Sweep, ...]
    equal: tuple[Equal, ...]
    free: tuple[Free, ...]
    privacy: Privacy

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "paper": PAPER,
            "theorems": {"n": self.sizes.n, "n_erm": self.sizes.n_erm, "d": self.sizes.d, "rho": self.sizes.rho}
            | {"rows": [each.to_dict() for each in self.risks]},
            "slopes": [each.to_dict() for each in self.sweeps],
            "equal_privacy": [each.to_dict() for each in self.equal],
            "d_up_to_n": [each.to_dict() for each in self.free],
            "privacy": self.privacy.to_dict(),
        }


def compute(sizes: Sizes = FULL) -> Found:
    """Measure everything."""
    sweeps = tuple(sweep(name, rule, along) for along in sizes.sweeps for name, rule in along.rules)
    equal = tuple(each for n, d, rho in sizes.equal for each in equals(n, d, rho, sizes.seeds))
    free = tuple(_free(n, sizes.seeds) for n in sizes.free)
    return Found(sizes, risks(sizes), sweeps, equal, free, privacy(_runs(sizes)))


def _problem(name: str, d: int) -> Problem:
    if name == "strong":
        return Linear(d, SIGNAL, STRENGTH)
    return Linear(d, SIGNAL) if name == "linear" else OneHot(d, smooth=name == "logistic")


def risks(sizes: Sizes) -> tuple[Risk, ...]:
    """Every theorem, and ours, on every problem that it is for."""
    cases = [(theorem, name) for theorem in THEOREMS for name in theorem.problems]
    cases += [(OURS, name) for name in OURS.problems]
    return tuple(_risk(theorem, name, sizes) for theorem, name in cases)


def _risk(theorem: Theorem, name: str, sizes: Sizes) -> Risk:
    problem = _problem(name, sizes.d)
    schedule = theorem.rule(problem, sizes.n_erm if name == "hinge" else sizes.n, sizes.rho)
    if name == "linear":
        found = measure_worst(schedule, linear_family(sizes.d), sizes.seeds)
    else:
        found = measure(schedule, problem, sizes.seeds)
    return Risk(theorem, name, schedule.run.steps, schedule.printed, schedule.proved, found)


def _runs(sizes: Sizes) -> list[tuple[str, Any, float]]:
    """Every private schedule, by its theorem, with its rho."""
    made = [(f"Theorem {t.name}", t.rule(_problem(t.problems[0], sizes.d), sizes.n, sizes.rho)) for t in THEOREMS]
    made.append(("4.4 as printed", phased_sgd_as_printed(_problem("linear", sizes.d), sizes.n, sizes.rho)))
    made.append(("ours", falling_pnsgd(_problem("linear", sizes.d), sizes.n, sizes.rho)))
    return [(name, schedule.run, schedule.rho) for name, schedule in made if schedule.rho is not None]


RULES: tuple[tuple[str, Rule], ...] = (
    ("Snowball, 3.5", snowball_fixed),
    ("Snowball, 3.6", snowball_falling),
    ("Phased-SGD, 4.4", phased_sgd),
    ("4.4 as printed", phased_sgd_as_printed),
    ("ours", falling_pnsgd),
)


def calibrated(schedule: Schedule, problem: Problem, rho: float) -> Schedule:
    """The schedule with the noise that rho needs, and the bound for that noise; phases have it already."""
    plan = schedule.algorithm
    if isinstance(plan, PhasedSGD):
        return schedule
    assert isinstance(plan, PNSGD)
    run = calibrate(plan.run, epsilon=gdp_epsilon(rho, DELTA), delta=DELTA)
    return Schedule(replace(plan, run=run), schedule_risk(run, problem), schedule.printed, rho)


def equals(n: int, d: int, rho: float, seeds: int) -> tuple[Equal, ...]:
    """All schedules at one place."""
    rows: list[Equal] = []
    for name, rule in RULES:
        line, curve = _problem("linear", d), _problem("logistic", d)
        on_line, on_curve = (calibrated(rule(problem, n, rho), problem, rho) for problem in (line, curve))
        linear, logistic = measure_worst(on_line, linear_family(d), seeds), measure(on_curve, curve, seeds)
        bound = on_line.proved / line.radius
        rows.append(Equal(name, n, d, rho, bound, linear.over(line.radius), logistic.over(curve.radius)))
    return tuple(rows)


def _free(n: int, seeds: int) -> Free:
    def one(rule: Rule, d: int) -> tuple[float, Measured]:
        schedule = rule(Linear(d, SIGNAL), n, 1.0)
        return schedule.proved, measure_worst(schedule, linear_family(d), seeds)

    return Free(n, one(silent_linear, 10), one(falling_pnsgd, 10), one(falling_pnsgd, n))
