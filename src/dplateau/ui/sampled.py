"""Composition of Poisson batches within a tenth of a second: exactly where that is fast, else by Renyi divergences.

The exact composition takes milliseconds where the sum of the steps' privacy losses is nearly Gaussian around its saddle point, and
up to seconds where a few draws of a record decide. Skewness and kurtosis at the saddle point tell the two apart. Both are proved;
Renyi divergences give some percent to some tens of percent more noise.
"""

from __future__ import annotations

import math
import warnings
from functools import lru_cache
from typing import Final

import numpy as np

from dplateau.accounting import compositions
from dplateau.accounting.contour import RealAxis, log_saddle_delta
from dplateau.accounting.gaussian import gdp_mu
from dplateau.accounting.mechanism import sensitivity
from dplateau.accounting.terms import Composition
from dplateau.analyses import RenyiCompositionBound
from dplateau.calibration import calibrate
from dplateau.spec import InputError, PrivacyWarning, Run

_NEAR: Final = 0.01
"""Most squared skewness and kurtosis of what counts as nearly Gaussian."""
_STEEP: Final = 4.0
"""A saddle point beyond this times the squared noise needs many nodes."""
_OFF: Final = 5.0
"""How far log delta may be from what the approximation says at its saddle point: 2 to 4 where all is Gaussian."""
_FEW: Final = 20
"""Fewer steps than this have characteristic functions that fall off slowly."""
_CLOSE: Final = 5e-3
"""How close to its target, as a share of epsilon, the noise by Renyi divergences comes: the search of the order leaves jumps."""
_MOST: Final = 9
"""Most noises that are tried, once one of them is enough."""


def least_noise(run: Run, epsilon: float, delta: float) -> tuple[float, bool]:
    """The least noise by composition, and whether it is that of the exact one."""
    start = _by_the_limit(run, gdp_mu(epsilon, delta))
    if is_nearly_gaussian(run.replace(noise_multiplier=start), delta):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)
            exact = calibrate(run.replace(noise_multiplier=start), epsilon=epsilon, delta=delta)
        return float(exact.noise_multiplier), True  # type: ignore[arg-type]
    return _by_renyi(run, epsilon, delta, start), False


def _by_the_limit(run: Run, mu: float) -> float:
    """The noise at which the limit theorem says mu: a start for a search, no bound."""
    rate = float(run.sampling.divisors(run.n)) / run.n  # type: ignore[arg-type]
    # Under replacement a record is exchanged for another one: about sqrt(2) as much as its absence for small rates, 2 for rate 1.
    moved = sensitivity(run) if rate > 0.5 else math.sqrt(sensitivity(run))
    return min(max(1 / math.sqrt(math.log1p((mu / (rate * moved)) ** 2 / run.steps)) * (moved if rate > 0.5 else 1), 0.02), 1e6)


def _by_renyi(run: Run, epsilon: float, delta: float, start: float) -> float:
    """About the least noise by Renyi divergences, never too small, by secants on a logarithmic scale."""

    def excess(log_noise: float) -> float:
        spent = RenyiCompositionBound().guarantee(run.replace(noise_multiplier=math.exp(log_noise))).epsilon(delta).upper
        return min(max(math.log(max(spent, 1e-12) / epsilon), -30.0), 30.0)

    x = math.log(start)
    low, high = -math.inf, math.inf
    value = excess(x)
    slope = -1.0
    for tried in range(40):
        if value > 0:
            low = x
        else:
            high = min(x, high)
            if value > -_CLOSE:
                break
        if math.isfinite(high) and (tried >= _MOST or high - low < _CLOSE):
            break
        aim = x - (value + _CLOSE / 2) / slope
        limited = min(max(aim, x - 1.5), x + 1.5)
        if math.isfinite(low) and math.isfinite(high) and not low < limited < high:
            limited = (low + high) / 2
        if not -14 < limited < 30:
            break
        found = excess(limited)
        change = (found - value) / (limited - x) if limited != x else slope
        slope = min(max(change, -20.0), -0.05)
        x, value = limited, found
    if math.isfinite(high):
        return math.exp(high)
    raise InputError(
        f"epsilon {epsilon:g} is beyond the Renyi divergences that this page uses where few draws of a row decide: raise epsilon, "
        "delta or the batch size, or use dplateau calibrate, which takes seconds."
    )


@lru_cache(maxsize=1024)
def is_nearly_gaussian(run: Run, delta: float) -> bool:
    """Whether the exact composition of ``run`` is fast at this delta."""
    with np.errstate(all="ignore"):
        try:
            z = float(run.noise_multiplier)  # type: ignore[arg-type]
            return all(not one.terms or _is_smooth(one, delta, z) for one in compositions(run)[0])
        except (ArithmeticError, ValueError):
            return False


def _is_smooth(composition: Composition, delta: float, z: float) -> bool:
    """By the third and the fourth cumulant at the saddle point, in units of the second."""
    if composition.steps < _FEW:
        return composition.steps == 1  # which has a closed form
    axis, wide = RealAxis(composition), -2 * math.log(delta)
    # A Gaussian loss of variance v has its saddle point at about sqrt(2 log(1/delta)/v).
    c = math.sqrt(wide / axis(1e-2)[2])
    c = math.sqrt(wide / axis(c)[2])
    if c > _STEEP * z**2 or abs(log_saddle_delta(c, *axis(c)) - math.log(delta)) > _OFF:
        return False
    step = 0.05 * c
    before, here, after = (axis(c + k * step)[2] for k in (-1, 0, 1))
    third, fourth = (after - before) / (2 * step), (after - 2 * here + before) / step**2
    return max(third**2 / here**3, abs(fourth) / here**2) <= _NEAR
