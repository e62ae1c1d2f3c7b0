"""How good the model is at least: a proved bound on the expected excess risk of exactly these steps, where there is one.

Every bound is on the last iterate of projected steps along gradients that are unbiased given the past. That holds for full batches
and those that are drawn afresh (Poisson, fixed size) and the mean loss on the rows; for batches in a fixed or a shuffled order it
holds in the first epoch, for the mean loss in the population that the rows are independent draws of; under random allocation it
does not hold. Proofs: ``docs/explanation/utility.md``, ``docs/explanation/dp-sgld.md``. Gradients are clipped to their largest
norm, so never shortened; rounding, and the little room that the training loop leaves for it, are left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from dplateau.spec import Run
from dplateau.ui.noise import distance_of, has_free_minimiser
from dplateau.ui.settings import LIPSCHITZ, RISK_AT_START, Settings
from dplateau.utility import langevin_risk, last_iterate_risk, poisson_gradient_variance, poisson_smoothness

_MANY: Final = 30_000
"""Of longer runs only so many last steps are followed one by one."""
_BOTH: Final = 5_000
"""Up to so many steps the bound for Lipschitz losses is computed beside a better one."""


@dataclass(frozen=True)
class Risk:
    """What is proved of the excess risk.

    Attributes
    ----------
    bound : float or None
        It is at most this in expectation; None where no theorem applies, or none says anything.
    of : str
        "rows" or "population": whose mean loss it is; with the l2 term, if there is one.
    against : str
        "all" weights, or those within the "radius", of which the best are compared with.
    theorem : str
        Which one.
    why_not : str
        Why there is no bound.
    """

    bound: float | None
    of: str = "rows"
    against: str = "all"
    theorem: str = ""
    why_not: str = ""

    @property
    def says_something(self) -> bool:
        """Whether it is below the loss at the start: no model is needed for that."""
        return self.bound is not None and self.bound < RISK_AT_START


@dataclass(frozen=True)
class _Steps:
    """What the theorems ask of the steps: T, eta, the variance of a gradient, the distance, M, m, d and the noise's deviation."""

    count: int
    eta: float
    variance: float
    distance: float
    smoothness: float
    batch_smoothness: float
    convexity: float
    d: int
    sigma: float

    @property
    def noisy(self) -> float:
        """The variance of a gradient with its noise."""
        return self.variance + self.d * self.sigma**2


def excess_risk(settings: Settings, run: Run) -> Risk:
    """The least proved bound on the expected excess risk of the last iterate of ``run``, which has its noise."""
    if not settings.convex:
        return Risk(None, why_not="the loss is not known to be convex.")
    if settings.scheme.allocated:
        return Risk(
            None,
            why_not="under random allocation, batches are not unbiased given the past: a row that was used waits for the next "
            "epoch. No theorem of this library covers them. Full batches, batches drawn afresh, and one epoch in order are.",
        )
    in_order = settings.scheme.ordered or settings.scheme.shuffled
    if in_order and run.steps > settings.batches_an_epoch:
        return Risk(
            None,
            why_not="from the second epoch on, batches in a fixed or shuffled order are not unbiased given the past, and no "
            "theorem of this library covers them. One epoch, full batches, Poisson and fixed-size batches are covered.",
        )
    of = "population" if in_order else "rows"
    steps = _steps_of(settings, run)
    found: list[tuple[float, str]] = []
    free = has_free_minimiser(settings)
    if free:
        found.append((_smooth(steps), "last iterate, smooth losses"))
        if settings.shrunk:
            found.append((_langevin(steps), "Langevin steps, strongly convex losses"))
    if (not settings.shrunk or settings.ball) and (not free or steps.count <= _BOTH):
        found.append((_lipschitz(settings, steps), "last iterate, Lipschitz losses"))
    bound, theorem = min(found, default=(math.inf, ""))
    if not math.isfinite(bound):
        why = (
            "with an l2 term, the loss is Lipschitz on a ball only: project the iterates on one."
            if not found
            else "the step is longer than 1/smoothness, and no theorem of this library covers it here: shorten it."
        )
        return Risk(None, of, why_not=why)
    return Risk(bound * (1 + 1e-9), of, "all" if free else "radius", theorem)


def _steps_of(settings: Settings, run: Run) -> _Steps:
    poisson = settings.scheme.drawn and settings.scheme.random_size
    if settings.scheme.full:
        variance = 0.0
    elif poisson:
        variance = poisson_gradient_variance(settings.n, settings.batch, LIPSCHITZ)
    else:
        variance = LIPSCHITZ**2 / settings.batch  # Of a subset without replacement it is less by a factor (n - batch)/(n - 1).
    m, smooth = settings.strong_convexity, settings.smoothness
    spread = poisson_smoothness(settings.n, settings.batch, smooth, m) if poisson and m else smooth
    eta, sigma = float(run.step_size or 0.0), float(run.noise_multiplier) * LIPSCHITZ / settings.size  # type: ignore[arg-type]
    return _Steps(run.steps, eta, variance, distance_of(settings), smooth, spread, m, settings.d, sigma)


def _smooth(steps: _Steps) -> float:
    """For a minimiser of zero gradient; of long runs the last steps, from the distance that is left before them."""
    if steps.eta * steps.smoothness > 1:
        return math.inf
    count = min(steps.count, _MANY)
    before = _left(steps, steps.count - count)
    sizes = np.full(count, steps.eta)
    return last_iterate_risk(sizes, steps.noisy, before, smoothness=steps.smoothness, strong_convexity=steps.convexity)


def _left(steps: _Steps, count: int) -> float:
    """Distance after so many steps, by inequality (1) of the theorem with the minimiser itself."""
    rate, added = steps.eta * steps.convexity, steps.eta**2 * steps.noisy
    if not count:
        return steps.distance
    if rate == 0:
        return math.sqrt(steps.distance**2 + count * added)
    left = count * math.log1p(-rate) if rate < 1 else -math.inf
    return math.sqrt(math.exp(left) * steps.distance**2 + added * -math.expm1(left) / rate)


def _langevin(steps: _Steps) -> float:
    if steps.eta * (steps.batch_smoothness + steps.convexity) > 2 - 1e-12:  # as ``langevin_risk`` refuses it
        return math.inf
    return langevin_risk(
        steps.count,
        steps.eta,
        steps.sigma * math.sqrt(steps.eta / 2),
        d=steps.d,
        distance=steps.distance,
        smoothness=steps.batch_smoothness,
        strong_convexity=steps.convexity,
        variance=steps.variance,
    )


def _lipschitz(settings: Settings, steps: _Steps) -> float:
    """For the best weights within the radius; the gradient of the l2 term is at most l2 times the radius of the ball."""
    slope = LIPSCHITZ + (settings.l2 * settings.radius if settings.shrunk else 0.0)
    # A batch of fixed size has a mean gradient, which is no longer than one row's; a Poisson batch may be larger than its divisor.
    second = slope**2 + (steps.noisy if settings.scheme.random_size else steps.d * steps.sigma**2)
    closed = _equal_steps(steps.count, steps.eta, second, steps.distance, slope)
    if steps.count > _MANY:
        return closed
    sizes = np.full(steps.count, steps.eta)
    found = last_iterate_risk(sizes, second, steps.distance, lipschitz=slope, strong_convexity=steps.convexity)
    return min(closed, found)


def _equal_steps(count: int, eta: float, second: float, distance: float, slope: float) -> float:
    """(3) of ``docs/explanation/utility.md`` for T equal steps, with ``s^2 = r eta`` for the best of some r.

    ``S_t^2 >= eta (r + 2 (T + 1 - t))`` bounds the sum over 1/S_t^2 by ``(1/r + log(1 + 2 (T - 1)/r)/2)/eta``.
    """
    r = np.geomspace(1e-3, 1e7, 400)
    total = distance**2 / (eta * (r + 2 * count)) + eta * second * (1 / r + np.log1p(2 * (count - 1) / r) / 2) + eta * r * slope**2
    return float(total.min()) / 2


def drift(steps: int, step_size: float, sigma: float, strong_convexity: float) -> float:
    """Standard deviation of a coordinate, and of the score of a row of norm 1, if nothing but noise and the l2 term moved it."""
    keep = (1 - step_size * strong_convexity) ** 2
    total = float(steps) if keep == 1 else (1 - keep**steps) / (1 - keep)
    return step_size * sigma * math.sqrt(total)
