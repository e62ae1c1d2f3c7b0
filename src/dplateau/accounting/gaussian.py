"""Gaussian differential privacy: the trade-off between N(0, 1) and N(mu, 1), in closed form.

Source: Dong, Roth, Su, "Gaussian differential privacy" (JRSS B 2022); P2, section 2.3.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx, log_ndtr

_LOG_SQRT_2PI = math.log(2 * math.pi) / 2
_SQRT_HALF_PI = math.sqrt(math.pi / 2)
_UNIT_NODES, _UNIT_WEIGHTS = (np.polynomial.legendre.leggauss(20)[0] + 1) / 2, np.polynomial.legendre.leggauss(20)[1] / 2

SLACK = 1e-12
"""Relative room for rounding in the closed forms below; the tests compare with 50-digit arithmetic."""


def log_gdp_delta(mu: float, epsilon: float) -> float:
    """``log delta`` of mu-GDP at ``epsilon`` (any sign): ``delta = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)``."""
    if epsilon < 0:  # G_mu is symmetric, so delta(-e) = 1 - e^-e + e^-e delta(e): a sum, which does not cancel.
        return math.log(-math.expm1(epsilon) + math.exp(epsilon + log_gdp_delta(mu, -epsilon)))
    if mu == 0:
        return -math.inf
    x = epsilon / mu - mu / 2
    if mu >= 1:
        first = float(log_ndtr(-x))
        return first + math.log1p(-math.exp(epsilon + float(log_ndtr(-x - mu)) - first))
    # phi(x + mu) e^epsilon = phi(x), so delta = phi(x) (R(x) - R(x + mu)) with Mills' ratio R, and R' = t R - 1.
    t = x + mu * _UNIT_NODES
    slope = 1 - t * _SQRT_HALF_PI * erfcx(t * math.sqrt(0.5))
    return -x * x / 2 - _LOG_SQRT_2PI + math.log(mu * float(_UNIT_WEIGHTS @ slope))


def gdp_delta(mu: float, epsilon: float) -> float:
    """``delta`` of mu-GDP at ``epsilon``."""
    return math.exp(min(log_gdp_delta(mu, epsilon), 0.0))


def gdp_epsilon(mu: float, delta: float) -> float:
    """The least ``epsilon >= 0`` at which mu-GDP has the given ``delta`` (to rounding)."""
    target = math.log(delta)
    if log_gdp_delta(mu, 0.0) <= target:
        return 0.0
    high = mu * (mu / 2 + math.sqrt(-2 * target) + 1)
    while log_gdp_delta(mu, high) > target:
        high *= 2
    return float(brentq(lambda e: log_gdp_delta(mu, e) - target, 0.0, high, xtol=1e-300, rtol=1e-14))


def gdp_mu(epsilon: float, delta: float) -> float:
    """The largest ``mu`` that is (epsilon, delta)-DP (to rounding): the exact Gaussian mechanism, Balle and Wang 2018."""
    target = math.log(delta)
    low, high = 1e-12, 1.0
    while log_gdp_delta(high, epsilon) < target:
        low, high = high, 2 * high
    while log_gdp_delta(low, epsilon) > target:
        low /= 1e3
    return float(brentq(lambda m: log_gdp_delta(m, epsilon) - target, low, high, xtol=1e-300, rtol=1e-14))
