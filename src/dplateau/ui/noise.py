"""The least certified noise, as ``calibrate`` finds it, and the step size."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from dplateau._account import leading_analyses
from dplateau.accounting import Bound, NotApplicable, gdp_mu
from dplateau.analyses import FixedOrderBound
from dplateau.calibration import least_noise, rough_noise
from dplateau.spec import Cyclic, InputError, Run
from dplateau.ui.settings import LIPSCHITZ, RISK_AT_START, Settings
from dplateau.utility.dp_sgld_settings import regularised_radius
from dplateau.utility.fixed_step_strongly_convex import start_weight

_SHARES: Final = tuple(0.25 / 4**k for k in range(8))
"""Step sizes that the automatic one is chosen from first, in units of 2/smoothness."""
_FINER: Final = (0.5, 0.7, 1.0, 1.4, 2.0)
"""And then around the best of them."""


@dataclass(frozen=True)
class Calibrated:
    """A run with the least noise, and the bound that certifies it.

    Attributes
    ----------
    run : Run
        With its noise.
    epsilon : float
        What it certifiedly costs, at most what was asked for.
    best : Bound
        The bound that says so.
    """

    run: Run
    epsilon: float
    best: Bound

    @property
    def noise(self) -> float:
        """The noise multiplier."""
        return float(self.run.noise_multiplier)  # type: ignore[arg-type]


@lru_cache(maxsize=256)
def calibrated(run: Run, epsilon: float, delta: float) -> Calibrated:
    """What ``calibrate`` makes of ``run``, and what the leading bounds say of that.

    Raises
    ------
    InputError
        No noise reaches the target, or hardly any is needed.
    """
    return Calibrated(*least_noise(run, epsilon, delta))


def spent_by(run: Run, delta: float) -> list[tuple[Bound, float]]:
    """Every bound that ``calibrate`` asks, in its order, with its epsilon."""
    said = [analysis.bound(run) for analysis in leading_analyses()]
    return [(bound, bound.guarantee.upper(delta)) for bound in said if not isinstance(bound, NotApplicable)]


@lru_cache(maxsize=256)
def step_size_of(settings: Settings) -> float:
    """The step size: the given share of 2/smoothness, or the one for which the risk is about least, rounded down."""
    unit = 2 / settings.smoothness
    if not settings.automatic:
        return _rounded_down(settings.step * unit)
    mu = gdp_mu(settings.epsilon, settings.delta)
    try:
        noise = rough(settings)
    except InputError:
        noise = composition(settings).noise

    def risk(share: float) -> float:
        return _rough_risk(settings, share * unit, mu, noise)

    best = min(_SHARES, key=risk)
    return _rounded_down(min((best * finer for finer in _FINER), key=risk) * unit)


def _rounded_down(value: float, digits: int = 4) -> float:
    scale = 10.0 ** (digits - 1 - math.floor(math.log10(value)))
    return float(f"{math.floor(value * scale * (1 + 1e-12)) / scale:.{digits}g}")


def found(settings: Settings) -> Calibrated:
    """The run of these settings with its noise."""
    return at_step_size(settings, step_size_of(settings))


def at_step_size(settings: Settings, step_size: float) -> Calibrated:
    """The run of these settings with another step size, with its noise."""
    run = settings.run(step_size)
    if settings.counts_on_last:
        return calibrated(run, settings.epsilon, settings.delta)
    composed = composition(settings)  # which no step size changes
    return replace(composed, run=run.replace(noise_multiplier=composed.noise))


def composition(settings: Settings) -> Calibrated:
    """The least noise if nothing were known but the noise: all iterates are released, of any loss."""
    return calibrated(settings.without(last=False).run(1.0), settings.epsilon, settings.delta)


def rough(settings: Settings) -> float:
    """About the noise that composition needs, within some hundredths of a second. Nothing is certified by it."""
    return rough_noise(settings.without(last=False).run(1.0), settings.epsilon, settings.delta)


def _rough_risk(settings: Settings, eta: float, mu: float, noise: float) -> float:
    """About what the excess risk is, to compare step sizes with: no bound."""
    if settings.counts_on_last and settings.by_lot:
        noise *= math.sqrt(min(1.0, _remembered(settings, eta) / settings.steps))
    elif settings.counts_on_last:
        order = settings.without(sampling=Cyclic.kind) if settings.scheme.shuffled else settings
        noise = min(noise, (FixedOrderBound().guarantee(order.run(eta)).mu or math.inf) / mu)
    free, m = has_free_minimiser(settings), settings.strong_convexity
    variance = settings.d * (noise * LIPSCHITZ / settings.size) ** 2
    variance += 0.0 if settings.scheme.full else LIPSCHITZ**2 / settings.size
    steps = min(float(settings.steps), 1 / (eta * m)) if m else float(settings.steps)
    logarithm = 1 + math.log(1 + steps) / 4
    start = start_weight(settings.steps, eta, m) * distance_of(settings) ** 2
    if not free:
        return start + eta * (variance + LIPSCHITZ**2) * logarithm
    return (start + 2 * eta * variance * logarithm) / (1 - min(0.9, eta * settings.smoothness)) ** 2


def _remembered(settings: Settings, eta: float) -> float:
    """About how many steps of random batches the last iterate remembers, by what calibrations found."""
    contracted = 2.6 / (eta * settings.strong_convexity) if settings.shrunk else math.inf
    crossed = 2 * settings.radius * settings.size / (eta * LIPSCHITZ) if settings.ball else math.inf
    return min(contracted, crossed)


def has_free_minimiser(settings: Settings) -> bool:
    """Whether weights are known to be best of all, and to lie within the ball if there is one: the gradient is zero there."""
    whole = settings.without(ball=False, inside=False)
    return settings.inside or (settings.shrunk and (not settings.ball or settings.radius >= distance_of(whole)))


def distance_of(settings: Settings) -> float:
    """How far from the start the weights may be that a model is compared with."""
    if not settings.shrunk:
        return settings.radius
    # With an l2 term the best weights of all are no further from zero than this.
    near = regularised_radius(LIPSCHITZ, settings.l2, RISK_AT_START)
    return min(settings.radius, near) if settings.ball or settings.inside else near
