"""The noise of Phased-ERM (Feldman, Koren, Talwar 2020, Lemma 4.6): gamma sqrt(ln(1/delta))/epsilon is too small."""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from dplateau.accounting import gdp_delta, gdp_epsilon, gdp_mu


def direct_delta(sigma: float, epsilon: float) -> float:
    """The hockey-stick integral of N(1, sigma^2) and N(0, sigma^2)."""
    start = 0.5 + sigma**2 * epsilon
    value, _ = quad(
        lambda x: norm.pdf(x, 1, sigma) - math.exp(epsilon) * norm.pdf(x, 0, sigma), start, start + 30 * sigma, epsabs=1e-14
    )
    return value


@pytest.mark.parametrize(("epsilon", "true_delta"), [(1.0, 4.3e-5), (4.0, 6.6e-4)])
def test_the_printed_noise_is_too_small(epsilon: float, true_delta: float) -> None:
    delta = 1e-5
    sigma = math.sqrt(math.log(1 / delta)) / epsilon
    assert gdp_delta(1 / sigma, epsilon) == pytest.approx(true_delta, rel=0.02)
    assert direct_delta(sigma, epsilon) == pytest.approx(gdp_delta(1 / sigma, epsilon), rel=1e-7)
    assert gdp_epsilon(1 / sigma, delta) > epsilon
    enough = 1 / gdp_mu(epsilon, delta)
    assert enough > sigma
    assert direct_delta(enough, epsilon) == pytest.approx(delta, rel=1e-6)


def test_epsilon_at_the_promised_delta() -> None:
    assert gdp_epsilon(1 / math.sqrt(math.log(1e5)), 1e-5) == pytest.approx(1.11, abs=0.005)
    assert np.isfinite(gdp_mu(4.0, 1e-5))
