"""What Bu, Dong, Long and Su 2020 prove about both accountants, at the finite T of their own models.

Figure A.1 (how close the composition is to its limit), Theorem 2 and inequality (B.2), and the least sum of both errors (section
4.1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from dplateau.accounting import Enclosure, ExactComposition, Guarantee, RenyiDP, compositions
from dplateau.accounting.enclosure import rounded_up
from dplateau.accounting.gaussian import Array
from dplateau.accounting.renyi import renyi_divergence
from dplateau.accounting.terms import Composition
from dplateau.accounting.trade_offs import Gaussian, TradeOff, epsilon_delta
from dplateau.analyses import ExactCompositionBound, GaussianCLT
from dplateau.spec import Run
from dplateau_papers.p2.settings import ERRORS, LIMIT_STEPS, ORDERS, SETTINGS, sampling_rate, trained
from dplateau_papers.page import Table

DELTA: Final = 1e-5
ALPHAS: Final = np.linspace(0, 1, 2001)
DELTAS: Final = (1e-1, 1e-3, 1e-8)
"""Exact deltas at which (B.2) is looked at, besides the model's own."""
_LAMBDAS: Final = np.geomspace(0.02, 200, 120)
"""Where the infimum over lambda is sought."""
_STEP: Final = 1e-3
LARGE: Final = (0.4, 100)
"""A noise multiplier and epochs, with the rows and batches of MNIST, for which Theorem 2 has not set in."""


@dataclass(frozen=True)
class Limit:
    """``f = (p G_{1/sigma} + (1 - p) Id)^T`` against its limit ``G_mu``.

    Attributes
    ----------
    steps, rate, mu : int, float, float
        T, p, and the limit's mu.
    distance : tuple of float
        Largest ``|f - G_mu|`` on a grid of 2,001 type I errors, for f and for its inverse.
    below : tuple of float
        Largest ``G_mu - f``: by so much the limit promises too much.
    epsilon : tuple of float
        At delta 1e-5: of f, of its inverse, of the limit.
    """

    steps: int
    rate: float
    mu: float
    distance: tuple[float, float]
    below: tuple[float, float]
    epsilon: tuple[float, float, float]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        both = {"f": 0, "inverse": 1}
        return {
            "steps": self.steps,
            "rate": self.rate,
            "mu": self.mu,
            "largest_distance": {name: self.distance[i] for name, i in both.items()},
            "largest_excess_of_the_limit": {name: self.below[i] for name, i in both.items()},
            "epsilon": {**{name: self.epsilon[i] for name, i in both.items()}, "limit": self.epsilon[2]},
        }


@dataclass(frozen=True)
class Inequality:
    """(B.2): ``delta_MA(epsilon) > delta_exact(epsilon) + e^epsilon x_T``, x_T the type I error of the exact curve's test.

    Attributes
    ----------
    name : str
        The model.
    delta : float
        Its delta.
    places : tuple of (float, float, float)
        epsilon, the left side, and the right side, rounded up; first where the exact delta is ``delta``.
    accountants : tuple of float
        Epsilon at ``delta``: of the limit theorem and of the moments accountant (Theorem 2).
    """

    name: str
    delta: float
    places: tuple[tuple[float, float, float], ...]
    accountants: tuple[float, float]

    @property
    def least_ratio(self) -> float:
        """The left side over the right side, where that is least; above 1 the inequality holds."""
        return min(left / right for _, left, right in self.places)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        places = [{"epsilon": e, "moments_accountant": left, "exact_and_error": right} for e, left, right in self.places]
        theorem = {"delta": self.delta, "gdp-clt": self.accountants[0], "moments-accountant": self.accountants[1]}
        return {"name": self.name, "places": places, "least_ratio": self.least_ratio, "theorem_2": theorem}


@dataclass(frozen=True)
class Errors:
    """The least sum of type I and type II error, for row 2 of Table 1: 1 minus the advantage.

    Attributes
    ----------
    limit, point, accountant : float
        By the limit theorem, by the moments accountant's (epsilon, delta), by all of its (epsilon, delta) together.
    certified : Enclosure
        The truth.
    """

    limit: float
    point: float
    accountant: float
    certified: Enclosure

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "source": "section 4.1, row 2 of Table 1",
            "printed": ERRORS,
            "computed": {"gdp-clt": self.limit, "moments-accountant": self.point, "moments-accountant, all": self.accountant},
            "certified": [self.certified.lower, self.certified.upper],
        }


def theorems(runs: Sequence[tuple[str, Run, float]]) -> tuple[tuple[Limit, ...], tuple[Inequality, ...], Errors]:
    """Everything of this file; ``runs`` are the paper's models."""
    more = (f"z = {LARGE[0]:g}", trained(*LARGE), DELTA)
    second = SETTINGS[1].run
    rate = sampling_rate(second)
    limits = tuple(limit(rate * math.sqrt(second.steps / steps), steps) for steps in (LIMIT_STEPS, second.steps))
    return limits, tuple(inequality(*each) for each in [*runs, more]), errors(second)


def limit(rate: float, steps: int) -> Limit:
    """Figure A.1, for row 2's noise."""
    z = SETTINGS[1].noise_multiplier
    g = Gaussian(rate * math.sqrt(steps * math.expm1(1 / z**2)))
    f = Gaussian(1 / z).subsampled(rate) ** steps
    sides: tuple[TradeOff, TradeOff] = f, f.inverse
    gaps = [side(ALPHAS) - g(ALPHAS) for side in sides]
    distance, below = ([float(np.max(of(gap))) for gap in gaps] for of in (np.abs, np.negative))
    epsilon = f.epsilon(DELTA), f.inverse.epsilon(DELTA), g.epsilon(DELTA)
    return Limit(steps, rate, g.mu, (distance[0], distance[1]), (below[0], below[1]), epsilon)


def inequality(name: str, run: Run, delta: float) -> Inequality:
    """(B.2) in the direction that the paper takes, the record's presence as the alternative; and Theorem 2."""
    directions = compositions(run)[0]
    exact, back = ExactComposition(directions[:1]), ExactComposition(directions[1:])
    accountant = _moments(directions, 1 + _LAMBDAS)
    places = tuple(_sides(exact, back, accountant, exact.epsilon(each).upper) for each in (delta, *DELTAS))
    both = GaussianCLT().guarantee(run).epsilon(delta).upper, RenyiDP(directions, classical=True).epsilon(delta).upper
    return Inequality(name, delta, places, both)


def _moments(directions: Sequence[Composition], orders: Sequence[float] | Array) -> Callable[[float], float]:
    """delta_nMA of Appendix B.3: the moments accountant's delta at any epsilon, by the best of some orders lambda + 1."""
    lambdas = np.asarray(orders) - 1
    divergence = np.array([max(renyi_divergence(each, float(order)) for each in directions) for order in orders])
    return lambda epsilon: math.exp(min(float(np.min(lambdas * (divergence - epsilon))), 0.0))


def _sides(exact: Guarantee, back: Guarantee, accountant: Callable[[float], float], epsilon: float) -> tuple[float, float, float]:
    """Both sides of (B.2), the right one rounded up: -x_T is delta's slope in e^epsilon, and delta is convex in it.

    ``back`` is the other direction, which says what delta is at epsilons below 0.
    """
    here, before = exact.delta(epsilon), epsilon - _STEP
    steep = exact.delta(before).upper if before >= 0 else math.exp(before) * back.delta(-before).upper - math.expm1(before)
    # e^epsilon x_T, by the chord to the left.
    error = (steep - here.lower) / -math.expm1(-_STEP)
    return epsilon, accountant(epsilon), here.upper + error


def errors(run: Run) -> Errors:
    """The least sum of both errors is ``1 - delta(0)``."""
    exact = ExactCompositionBound().guarantee(run).delta(0.0)
    accountant = RenyiDP(compositions(run)[0], classical=True, orders=ORDERS)
    point, delta = epsilon_delta(accountant.epsilon(DELTA).upper, DELTA), _moments(accountant.directions, ORDERS)
    # Every (epsilon, delta) gives a lower bound on the sum: 2 (1 - delta) / (1 + e^epsilon).
    grid = np.linspace(0.05, 6, 120).tolist()
    best = max(2 * (1 - delta(epsilon)) / (1 + math.exp(epsilon)) for epsilon in grid)
    limit = GaussianCLT().guarantee(run).delta(0.0).upper
    return Errors(1 - limit, 1 - point.delta(0.0), best, Enclosure(1 - exact.upper, 1 - exact.lower))


def theorem_tables(limits: Sequence[Limit], inequalities: Sequence[Inequality], errors: Errors) -> tuple[Table, Table, Table]:
    """Three tables."""
    return _limit_table(limits), _inequality_table(inequalities), _errors_table(errors)


def _limit_table(limits: Sequence[Limit]) -> Table:
    rows = tuple(
        (str(x.steps), f"{x.rate:.5f}", *(f"{v:.4f}" for v in (*x.distance, *x.below)), *(f"{v:.3f}" for v in x.epsilon))
        for x in limits
    )
    heads = ("T", "p", "f to G", "inverse", "G - f", "inverse", "epsilon of f", "inverse", "of G")
    first = limits[0]
    sentence = (
        f"At T = {first.steps} the curves are {max(first.distance):.3f} apart, no more than a line's width in the figure; "
        f"yet at delta {DELTA:g} f has epsilon {rounded_up(max(first.epsilon[:2]), 3)}, "
        f"where the limit says {first.epsilon[2]:.2f}: "
        "a small distance says nothing about small deltas."
    )
    return Table("How close the composition is to its limit: Figure A.1, row 2's noise", heads, rows, (sentence,))


def _inequality_table(inequalities: Sequence[Inequality]) -> Table:
    rows = tuple(
        (
            x.name,
            *(f"{x.places[0][0]:.3f}", f"{x.places[0][1]:.2e}", f"{x.places[0][2]:.2e}", f"{x.least_ratio:.2f}"),
            *(f"{value:.2f}" for value in x.accountants),
        )
        for x in inequalities
    )
    heads = ("", "epsilon", "delta MA", "right side", "least ratio", "CLT epsilon", "MA epsilon")
    holds = [x for x in inequalities if x.least_ratio > 1]
    not_yet = [x.name for x in inequalities if x.accountants[0] >= x.accountants[1]]
    sentences = (
        f"(B.2), delta MA > delta exact + e^epsilon x_T, holds in {len(holds)} of {len(inequalities)} runs, at all of "
        f"{len(DELTAS) + 1} deltas; the columns are for the models' own.",
        "Theorem 2 says that in the limit the CLT's epsilon is below the moments accountant's. "
        + (
            f"At finite T it need not be: {', '.join(not_yet)} and {LARGE[1]:g} epochs of MNIST."
            if not_yet
            else "It is, in all of these runs."
        ),
    )
    return Table("Theorem 2 and inequality (B.2) at finite T", heads, rows, sentences)


def _errors_table(errors: Errors) -> Table:
    rows = (
        ("CLT", f"{100 * ERRORS['gdp-clt']:.1f} %", f"{100 * errors.limit:.1f} %"),
        ("MA, one (epsilon, delta)", f"{100 * ERRORS['moments-accountant']:.1f} %", f"{100 * errors.point:.1f} %"),
        ("MA, all of them", "", f"{100 * errors.accountant:.1f} %"),
        ("certified", "", f"{math.floor(1e3 * errors.certified.lower) / 10:.1f} %"),
    )
    sentence = (
        f"No attack on row 2 has a smaller sum than {100 * errors.certified.lower:.2f} %; "
        f"the limit theorem says {100 * errors.limit:.2f} %, and the printed {100 * ERRORS['gdp-clt']:.1f} % with mu rounded to "
        f"{SETTINGS[1].mu:.2f}."
    )
    return Table("The least sum of both errors, row 2 (section 4.1)", ("", "printed", "ours"), rows, (sentence,))
