"""The least certified noise, within a fraction of a tenth of a second."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from dplateau._account import leading_analyses
from dplateau.accounting import Bound, GaussianDP, Guarantee
from dplateau.accounting.gaussian import gdp_mu
from dplateau.accounting.mixture import MixtureOfGaussianDP
from dplateau.accounting.roots import root
from dplateau.analyses import Analysis, FixedOrderBound, RenyiCompositionBound, ShuffledBound
from dplateau.calibration import calibrate
from dplateau.spec import ROUND_OFF, InputError, PrivacyWarning, Run
from dplateau.ui.sampled import least_noise
from dplateau.ui.settings import LIPSCHITZ, RISK_AT_START, Settings
from dplateau.utility.dp_sgld_settings import regularised_radius
from dplateau.utility.fixed_step_strongly_convex import start_weight

_NUDGES: Final = (0.0, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3)
_SHARES: Final = tuple(0.25 / 4**k for k in range(8))
"""Step sizes that the automatic one is chosen from first, in units of 2/smoothness."""
_FINER: Final = (0.5, 0.7, 1.0, 1.4, 2.0)
"""And then around the best of them."""
_ROOM: Final = 3e-9
"""The search aims a little below delta, so that what it finds is certified at once."""


@dataclass(frozen=True)
class Calibrated:
    """A run with the least noise, and the bounds that certify it.

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
    """The least noise for ``run``, as ``calibrate`` finds it, up to a relative 1e-8.

    Last-iterate bounds cost mu in inverse proportion to the noise, up to round-off: one evaluation tells all of them, and a second
    one certifies what was found. Under Poisson sampling the noise may be that of Renyi divergences, see ``sampled``.

    Raises
    ------
    InputError
        No noise reaches the target, or hardly any is needed.
    """
    leading = [analysis for analysis in leading_analyses() if analysis.why_not(run) is None]
    bare = Run(n=run.n, sampling=run.sampling, steps=run.steps, noise_multiplier=1.0, adjacency=run.adjacency)
    composed, exact = _composed(bare, epsilon, delta)
    if not exact:
        return _certified(run.replace(noise_multiplier=composed), [RenyiCompositionBound()], delta)
    faster = next((analysis for analysis in leading if isinstance(analysis, (FixedOrderBound, ShuffledBound))), None)
    if faster is None:
        return _certified(run.replace(noise_multiplier=composed), leading, delta)
    least = _least(faster.guarantee(run.replace(noise_multiplier=1.0)), run.steps, epsilon, delta, composed)
    for nudge in _NUDGES:
        answer = _certified(run.replace(noise_multiplier=min(least * math.exp(nudge), composed)), leading, delta)
        if answer.epsilon <= epsilon:
            return answer
    return _certified(run.replace(noise_multiplier=composed), leading, delta)


@lru_cache(maxsize=256)
def _composed(run: Run, epsilon: float, delta: float) -> tuple[float, bool]:
    """The least noise by composition alone, and whether that is the exact one."""
    if run.sampling.random_size and run.sampling.divisors(run.n) != run.n:
        return least_noise(run, epsilon, delta)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # The page says itself where delta is too large.
        return float(calibrate(run, epsilon=epsilon, delta=delta).noise_multiplier), True  # type: ignore[arg-type]


def _certified(run: Run, leading: Sequence[Analysis], delta: float) -> Calibrated:
    bounds = [bound for analysis in leading if isinstance(bound := analysis.bound(run), Bound)]
    epsilons = [bound.guarantee.epsilon(delta).upper for bound in bounds]
    least = min(range(len(bounds)), key=epsilons.__getitem__)
    return Calibrated(run, epsilons[least], bounds[least])


def _least(unit: Guarantee, steps: int, epsilon: float, delta: float, composed: float) -> float:
    """The least noise by a guarantee at noise 1 whose mus fall as 1/noise, apart from the room for round-off."""
    room, target = 2 * ROUND_OFF * math.sqrt(steps), math.log(delta) - _ROOM

    def excess(log_noise: float) -> float:
        spent = _scaled(unit, room, math.exp(log_noise)).delta(epsilon).upper
        return max(math.log(max(spent, 1e-300)) - target, -50.0)

    high = math.log(composed)
    if excess(high) > 0:
        return composed
    low = high - 1
    while excess(low) <= 0:
        high, low = low, low - 2
        if low < -14:
            raise InputError(f"epsilon {epsilon:g} needs almost no noise here: lower epsilon.")
    return math.exp(root(excess, low, high, xtol=1e-10))


def _scaled(unit: Guarantee, room: float, noise: float) -> Guarantee:
    if isinstance(unit, MixtureOfGaussianDP):
        return MixtureOfGaussianDP(tuple(((np.array(unit.mus) - room) / noise + room).tolist()), unit.weights)
    return GaussianDP(((unit.mu or 0.0) - room) / noise + room)


@lru_cache(maxsize=256)
def step_size_of(settings: Settings) -> float:
    """The step size: the given share of 2/smoothness, or the one for which the risk is about least, rounded down."""
    unit = 2 / settings.smoothness
    if not settings.automatic:
        return _rounded_down(settings.step * unit)
    rough = gdp_mu(settings.epsilon, settings.delta), composition(settings).noise

    def risk(share: float) -> float:
        return _rough_risk(settings, share * unit, *rough)

    best = min(_SHARES, key=risk)
    return _rounded_down(min((best * finer for finer in _FINER), key=risk) * unit)


def _rounded_down(value: float, digits: int = 4) -> float:
    scale = 10.0 ** (digits - 1 - math.floor(math.log10(value)))
    return float(f"{math.floor(value * scale * (1 + 1e-12)) / scale:.{digits}g}")


def found(settings: Settings) -> Calibrated:
    """The run of these settings with its noise."""
    return calibrated(settings.run(step_size_of(settings)), settings.epsilon, settings.delta)


def composition(settings: Settings) -> Calibrated:
    """The least noise if nothing were known but the noise: all iterates are released, of any loss."""
    return calibrated(settings.without(last=False).run(1.0), settings.epsilon, settings.delta)


def _rough_risk(settings: Settings, eta: float, mu: float, noise: float) -> float:
    """About what the excess risk is, to compare step sizes with: no bound."""
    if settings.counts_on_last:
        order = settings.without(sampling="cyclic") if settings.sampling == "shuffled" else settings
        noise = min(noise, (FixedOrderBound().guarantee(order.run(eta)).mu or math.inf) / mu)
    free, m = has_free_minimiser(settings), settings.strong_convexity
    variance = settings.d * (noise * LIPSCHITZ / settings.size) ** 2
    variance += 0.0 if settings.sampling == "full" else LIPSCHITZ**2 / settings.size
    steps = min(float(settings.steps), 1 / (eta * m)) if m else float(settings.steps)
    logarithm = 1 + math.log(1 + steps) / 4
    start = start_weight(settings.steps, eta, m) * distance_of(settings) ** 2
    if not free:
        return start + eta * (variance + LIPSCHITZ**2) * logarithm
    return (start + 2 * eta * variance * logarithm) / (1 - min(0.9, eta * settings.smoothness)) ** 2


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
