"""Gaussian differential privacy: the trade-off between N(0, 1) and N(mu, 1), in closed form.

Source: Dong, Roth, Su, "Gaussian differential privacy" (JRSS B 2022); Bu, Dong, Long, Su 2020, section 2.3.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from scipy.special import erfcx, log_ndtr

from dplateau.accounting.roots import Array as Array
from dplateau.accounting.roots import root
from dplateau.spec import InputError
from dplateau.spec.arguments import real

ULP: Final = 2.0**-52
LOG_SQRT_2PI: Final = math.log(2 * math.pi) / 2
_SQRT_HALF_PI: Final = math.sqrt(math.pi / 2)
_UNIT_NODES, _UNIT_WEIGHTS = (np.polynomial.legendre.leggauss(8)[0] + 1) / 2, np.polynomial.legendre.leggauss(8)[1] / 2
"""On an interval of length 1 or less from -1/2 on, 8 points integrate a Mills ratio's slope to 1.4e-15 of it."""

LEAST: Final = 5e-324
"""The least double above 0: no delta that is not 0 is rounded down to it."""
_LARGEST_MU: Final = 1e100
_FARTHEST: Final = 1e150
"""So many standard deviations away there is nothing, and squares are still numbers."""
SLACK: Final = 1e-12
"""Relative room for rounding in the closed forms below; the tests compare with 50-digit arithmetic."""


@np.errstate(under="ignore")
def log_gdp_delta(mu: Array | float, epsilon: Array | float) -> Array:
    """``log delta`` of mu-GDP at ``epsilon``, arrays broadcast: ``Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)``."""
    epsilon = np.asarray(epsilon, dtype=float)
    size = np.abs(epsilon)
    if isinstance(mu, np.ndarray):
        mu, size = np.broadcast_arrays(mu, size)
        log_delta = np.full(size.shape, -np.inf)
        for some, formula in ((mu >= 1, _log_delta_large), ((mu > 0) & (mu < 1), _log_delta_small)):
            log_delta[some] = formula(mu[some], size[some])
    else:
        log_delta = np.full(size.shape, -np.inf) if mu == 0 else (_log_delta_large if mu >= 1 else _log_delta_small)(mu, size)
    return symmetric_log_delta(epsilon, log_delta)


def _log_delta_large(mu: Array | float, size: Array) -> Array:
    """``Phi(-x)`` less a share of it, with Mills' ratio R: ``R(x + mu) / R(x)``."""
    x = size / mu - mu / 2
    share = erfcx((x + mu) * math.sqrt(0.5)) / erfcx(x * math.sqrt(0.5))
    return log_ndtr(-x) + np.log1p(-np.minimum(share, 1 - ULP))


def _log_delta_small(mu: Array | float, size: Array) -> Array:
    """``phi(x + mu) e^epsilon = phi(x)``, so ``delta = phi(x) (R(x) - R(x + mu))`` with Mills' ratio R, and ``R' = t R - 1``."""
    with np.errstate(over="ignore"):
        x = np.minimum(size / mu - mu / 2, _FARTHEST)
    t = x[..., None] + np.multiply.outer(mu, _UNIT_NODES)
    slope = 1 - t * _SQRT_HALF_PI * erfcx(t * math.sqrt(0.5))
    with np.errstate(divide="ignore"):  # Beyond 1e7 standard deviations the slope rounds to 0, and delta to e^-inf.
        return -x * x / 2 - LOG_SQRT_2PI + np.log(mu * np.maximum(slope @ _UNIT_WEIGHTS, 0.0))


def log_within(x: Array, width: float) -> Array:
    """``log(Phi(x + width) - Phi(x - width))`` for ``x`` >= 0, also where the two hardly differ."""
    near = x * width < 1.0 if width < 0.5 else np.zeros(np.shape(x), bool)
    t = min(width, 0.5) * (2 * _UNIT_NODES - 1)
    start = np.where(near, x, 0.0)
    slope = np.exp(-t * (start[..., None] + t / 2)) @ _UNIT_WEIGHTS
    close = math.log(2 * width) - start * start / 2 - LOG_SQRT_2PI + np.log(slope)
    return np.where(near, close, log_subtract(log_ndtr(width - x), 1.0, log_ndtr(-width - x)))


def symmetric_log_delta(epsilon: Array, log_delta: Array) -> Array:
    """``log delta(epsilon)`` of a symmetric trade-off from ``log delta(|epsilon|)``: delta(-e) = 1 - e^-e + e^-e delta(e)."""
    below = np.minimum(epsilon, -1e-300)
    return np.where(epsilon < 0, np.logaddexp(np.log(-np.expm1(below)), below + log_delta), log_delta)


def _number(name: str, value: Any, low: float = -math.inf) -> float:
    """``value`` as a float, which may be infinite or not a number: then a bound becomes infinite too."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating) or value < low:
        raise InputError(f"{name} is {value!r}: expected a number" + (f" >= {low:g}." if low > -math.inf else "."))
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def gdp_delta(mu: float, epsilon: float) -> float:
    """``delta`` of mu-GDP at ``epsilon``; 1 where mu exceeds double precision, and the least double where delta falls below it."""
    mu, epsilon = _number("mu", mu, 0.0), _number("epsilon", epsilon)
    if not mu < _LARGEST_MU or math.isnan(epsilon) or epsilon == -math.inf:
        return 1.0
    if epsilon == math.inf:
        return LEAST if mu else 0.0
    return math.exp(min(float(log_gdp_delta(mu, epsilon)), 0.0)) + (LEAST if mu else 0.0)


def gdp_delta_above(mu: float, epsilon: float) -> float:
    """``delta`` of mu-GDP at ``epsilon``, rounded up."""
    return min(gdp_delta(mu, epsilon) * (1 + delta_slack(mu)), 1.0)


def delta_slack(mu: float) -> float:
    """Relative room for rounding in delta: epsilon / mu and mu / 2 nearly agree."""
    return SLACK * (1 + mu)


def gdp_epsilon(mu: float, delta: float) -> float:
    """The least ``epsilon >= 0`` at which mu-GDP has the given ``delta`` (to rounding); infinite where it exceeds double
    precision, or nothing is left of delta.
    """
    mu, delta = _number("mu", mu, 0.0), _number("delta", delta)
    if not (mu < _LARGEST_MU and delta > 0):
        return math.inf
    target = math.log(delta)
    if log_gdp_delta(mu, 0.0) <= target:
        return 0.0
    high = mu * (mu / 2 + math.sqrt(-2 * target) + 1)
    while log_gdp_delta(mu, high) > target:
        high *= 2
    return root(lambda e: float(log_gdp_delta(mu, e)) - target, 0.0, high)


def gdp_mu(epsilon: float, delta: float) -> float:
    """The largest ``mu`` that is (epsilon, delta)-DP (to rounding): the exact Gaussian mechanism, Balle and Wang 2018.

    ``epsilon`` >= 0, and ``delta`` in (0, 1).
    """
    epsilon, delta = real("epsilon", epsilon, inclusive=True), real("delta", delta, high=1 - ULP)
    target = math.log(delta)
    low, high = 1e-12, 1.0
    while log_gdp_delta(high, epsilon) < target:
        low, high = high, 2 * high
    while log_gdp_delta(low, epsilon) > target:
        low, high = low / 1e3, low
    return root(lambda m: float(log_gdp_delta(m, epsilon)) - target, low, high)


def sums_from(x: Array) -> Array:
    """The sums from each place on."""
    return np.cumsum(x[::-1])[::-1]


def log_expm1(x: Array) -> Array:
    """``log(e^x - 1)`` for ``x`` >= 0, however large."""
    with np.errstate(divide="ignore"):
        return x + np.log(-np.expm1(-x))


def magnified(epsilon: Array, q: float) -> Array:
    """``log(1 + (e^epsilon - 1) / q)``, ``-inf`` where that is no number: what a step that is drawn with probability q reaches."""
    with np.errstate(divide="ignore"):
        small = np.log1p(np.maximum(np.expm1(np.minimum(epsilon, 700.0)) / q, -1.0))
        # Of rates near 1 the two parts of a small ratio nearly cancel.
        far = np.log(np.maximum((np.exp(np.minimum(epsilon, 0.0)) - (1 - q)) / q, 0.0))
    return np.where(epsilon < -0.5, far, np.where(epsilon < 700, small, epsilon - math.log(q)))


def log_subtract(log_a: Array, factor: Array | float, log_b: Array) -> Array:
    """``log(exp(log_a) - factor exp(log_b))``, ``-inf`` where rounding leaves nothing positive."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        share = np.where(np.isneginf(log_a), 1.0, factor * np.exp(log_b - log_a))
        return log_a + np.log1p(-np.minimum(share, 1.0))
