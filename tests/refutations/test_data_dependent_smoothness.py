"""Ryffel, Bach, Pointcheval 2022, Lemma 5.1 and section 5: the step size is 1/(2 beta), with beta from the private features.

Printed: beta = lambda_max(X'X/n)/2 + lambda, eta = 1/(2 beta), and the privacy of Corollary 3.2. True: eta scales the noise,
sqrt(2 eta) sigma, so the spread of the output shows lambda_max, whatever sigma is. Exact on the line: logistic loss, n records with
feature 0, one of them replaced by a feature B; one step from the printed start N(0, 2 sigma^2/lambda), far from the projection.
"""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

import dplateau as dp
from dplateau.analyses.langevin import LangevinBound

N, REGULARISER, FEATURE = 10, 0.1, 3.0


def beta(feature: float) -> float:
    """Lemma 5.1 for n records of which one has a feature."""
    return feature**2 / (2 * N) + REGULARISER


def output(feature: float, sigma: float, x: np.ndarray, eta: float) -> np.ndarray:
    """The density of the iterate after one step, integrated over the start."""
    spread = sigma * math.sqrt(2 / REGULARISER)
    start = np.linspace(-10, 10, 4001) * spread
    weight = norm.pdf(start, 0, spread) * (start[1] - start[0])
    centre = start - eta * (REGULARISER * start - feature * expit(-feature * start) / N)
    return np.array([float(weight @ norm.pdf(each, centre, math.sqrt(2 * eta) * sigma)) for each in x])


def delta_of(sigma: float, epsilon: float, steps: tuple[float, float]) -> float:
    spread = sigma * math.sqrt(2 / REGULARISER)
    x = np.linspace(-8, 8, 1201) * spread
    one, other = (output(feature, sigma, x, eta) for feature, eta in zip((FEATURE, 0.0), steps, strict=True))
    factor, width = math.exp(epsilon), x[1] - x[0]
    return float(max(np.maximum(one - factor * other, 0).sum(), np.maximum(other - factor * one, 0).sum()) * width)


def claimed(sigma: float, eta: float) -> float:
    """Corollary 3.2 for one step with the smoothness that the paper declares; the regulariser cancels between the two runs."""
    run = dp.Run(
        n=N,
        sampling=dp.FullBatch(),
        steps=1,
        noise_multiplier=math.sqrt(2 / eta) * sigma * N / FEATURE,
        clip_norm=FEATURE,
        step_size=eta,
        smoothness=1 / (2 * eta),
        strong_convexity=REGULARISER,
        adjacency="replace",
        released="last",
    )
    assert LangevinBound().why_not(run) is None
    return LangevinBound().guarantee(run).epsilon(1e-5).upper


def test_the_step_size_shows_the_features() -> None:
    eta = (1 / (2 * beta(FEATURE)), 1 / (2 * beta(0.0)))
    assert eta[1] / eta[0] == pytest.approx(5.5)
    # However much noise, the spreads differ by a factor: delta does not fall.
    found = [delta_of(sigma, 0.05, eta) for sigma in (3.0, 30.0, 300.0)]
    assert min(found) > 0.005
    assert found[1] == pytest.approx(found[2], rel=0.02)


@pytest.mark.parametrize("sigma", [20.0, 200.0])
def test_against_the_claim(sigma: float) -> None:
    eta = (1 / (2 * beta(FEATURE)), 1 / (2 * beta(0.0)))
    epsilon = max(claimed(sigma, each) for each in eta)
    assert delta_of(sigma, epsilon, eta) > 100 * 1e-5
    # With either step size, if it is public, the claim holds.
    for public in eta:
        assert delta_of(sigma, epsilon, (public, public)) < 1e-5
