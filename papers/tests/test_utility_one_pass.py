# pyright: basic
"""Fixed steps on strongly convex functions, and the growing batches: formulas, privacy of the schedules, limits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dplateau.spec import InputError
from dplateau.utility import (
    DECAYING_STEPS,
    jnn_step_sizes,
    last_iterate_risk,
    snowball_batch_sizes,
    snowball_strongly_convex_step_size,
)
from dplateau_papers.utility import (
    fixed_step_risk,
    fixed_step_weights,
    shamir_zhang_step_size,
    snowball_decaying_risk,
    snowball_decaying_risk_of_records,
    snowball_fixed_risk,
    snowball_fixed_risk_of_records,
    snowball_strongly_convex_risk,
    snowball_strongly_convex_risk_of_records,
)

RHO = st.floats(0.01, 20)
DIMENSION = st.integers(1, 10**5)


@pytest.mark.parametrize("T", [1, 2, 5, 50, 2_000])
def test_last_iterate_bound_proves_the_snowball_theorems(T: int) -> None:
    L, D = 2.0, 3.0
    norm = math.sqrt(2) * L  # one L^2 for the mean gradient, one for the noise: d (L/sqrt(d))^2
    fixed = last_iterate_risk(np.full(T, shamir_zhang_step_size(T, D, norm)), 2 * L**2, D)
    assert fixed <= snowball_fixed_risk(T, L, D) == pytest.approx(math.sqrt(2) * D * L * (2 + math.log(T)) / math.sqrt(T))
    halving = last_iterate_risk(jnn_step_sizes(T, D / norm), 2 * L**2, D)
    assert halving <= snowball_decaying_risk(T, L, D) == pytest.approx(15 * math.sqrt(2) * D * L / math.sqrt(T))
    if T > 1:
        m = 0.4
        eta = np.full(T, snowball_strongly_convex_step_size(T, m))
        convex = last_iterate_risk(eta, 2 * L**2, L / m, lipschitz=L, strong_convexity=m)
        ours, printed = snowball_strongly_convex_risk(T, L, m), 20 * L**2 * math.log(T) ** 2 / (m * T)
        assert convex <= ours <= printed
        harmonic = float((1 / np.arange(1, T + 1)).sum())  # the sum that the proof bounds
        unrolled = fixed_step_risk(T + 1, float(eta[0]), norm, L / m, m) + float(eta[0]) * norm**2 / 2 * harmonic
        assert unrolled <= ours <= 3 * unrolled


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 400), DIMENSION, RHO)
def test_risk_in_steps_is_below_risk_in_records_and_that_below_the_print(T: int, d: int, rho: float) -> None:
    n, wide = int(snowball_batch_sizes(T, d, rho).sum()), int(snowball_batch_sizes(T, d, rho, DECAYING_STEPS).sum())
    slack = 1 + 1e-9
    fixed = snowball_fixed_risk_of_records(n, d, rho, 1.0, 1.0)
    assert snowball_fixed_risk(T, 1.0, 1.0) <= fixed * slack
    assert fixed <= math.sqrt(32) * math.log(10 * n) * (1 / math.sqrt(n) + 2 * math.sqrt(d) / (rho * n))
    decaying = snowball_decaying_risk_of_records(wide, d, rho, 1.0, 1.0)
    assert snowball_decaying_risk(T, 1.0, 1.0) <= decaying * slack
    assert decaying <= 30 * math.sqrt(2) * (1 / math.sqrt(wide) + 4 * math.sqrt(3 * d) / (rho * wide))
    strong = snowball_strongly_convex_risk_of_records(n, d, rho, 1.0, 1.0)
    assert snowball_strongly_convex_risk(T, 1.0, 1.0) <= strong * slack
    assert strong <= 40 * math.log(n) ** 2 * (1 / n + 16 * d / (rho * n) ** 2)


@given(st.integers(10, 10**7), DIMENSION, RHO)
def test_monotone_in_records_dimension_and_privacy(n: int, d: int, rho: float) -> None:
    for risk in (
        lambda n, d, rho: snowball_fixed_risk_of_records(n, d, rho, 1.0, 1.0),
        lambda n, d, rho: snowball_decaying_risk_of_records(n, d, rho, 1.0, 1.0),
        lambda n, d, rho: snowball_strongly_convex_risk_of_records(n, d, rho, 1.0, 1.0),
    ):
        base = risk(n, d, rho)
        assert risk(n + 7, d, rho) < base < risk(n, d + 1, rho)
        assert risk(n, d, rho * 1.1) < base


def test_the_smoothness_of_corollary_3_7() -> None:
    # Printed: 2 D sqrt(2 T)/L. By eta_1 <= 2/beta, D and L change places.
    T, L, D = 100, 1.0, 10.0
    snowball_decaying_risk(T, L, D, smoothness=2 * L * math.sqrt(2 * T) / D * (1 - 1e-12))
    for smoothness in (2 * L * math.sqrt(2 * T) / D * 1.001, 2 * D * math.sqrt(2 * T) / L):
        with pytest.raises(InputError, match="exceeds 2/smoothness"):
            snowball_decaying_risk(T, L, D, smoothness=smoothness)


def test_smoothness_is_checked() -> None:
    eta = shamir_zhang_step_size(100, 3.0, 2 * math.sqrt(2))
    assert snowball_fixed_risk(100, 2.0, 3.0, smoothness=1.99 / eta) == snowball_fixed_risk(100, 2.0, 3.0)
    for risk in (snowball_fixed_risk, snowball_decaying_risk):
        with pytest.raises(InputError, match="exceeds 2/smoothness"):
            risk(100, 2.0, 3.0, smoothness=2.01 / eta)
    for risk in (snowball_fixed_risk_of_records, snowball_decaying_risk_of_records):
        with pytest.raises(InputError, match="exceeds 2/smoothness"):
            risk(200, 10, 1.0, 2.0, 3.0, smoothness=50 / eta)
    with pytest.raises(InputError, match="exceeds 2/smoothness"):
        snowball_strongly_convex_risk(100, 1.0, 0.1, smoothness=10.0)


@pytest.mark.parametrize("m", [0.0, 0.3, 2.0])
@pytest.mark.parametrize("seed", range(6))
def test_fixed_steps_on_an_exact_walk(seed: int, m: float) -> None:
    """The weighted mean of the excess along all paths of a walk on ``w |x| + m x^2/2``; by Jensen, that of the mean is less."""
    rng = np.random.default_rng(seed)
    T, eta, slope = int(rng.integers(1, 11)), float(rng.uniform(0.01, 0.45)), float(rng.uniform(0, 1))
    chance, size, start = float(rng.uniform(0.1, 0.9)), float(rng.uniform(0, 2)), float(rng.uniform(-1, 1))
    offsets, chances = np.array([size * (1 - chance), -size * chance]), np.array([chance, 1 - chance])
    x, p, excess = np.array([start]), np.array([1.0]), []
    for _ in range(T):
        excess.append(float(p @ (slope * np.abs(x) + m / 2 * x**2)))
        step = eta * (slope * np.sign(x) + m * x)[:, None] + eta * offsets
        x, p = np.clip(x[:, None] - step, -1, 1).ravel(), (p[:, None] * chances).ravel()
    norm = math.sqrt((slope + m) ** 2 + size**2 * chance * (1 - chance))
    weights = fixed_step_weights(T, eta, m)
    assert weights.sum() == pytest.approx(1)
    np.testing.assert_allclose(weights[1:] * (1 - eta * m), weights[:-1])
    assert float(weights @ excess) <= fixed_step_risk(T, eta, norm, abs(start), m) * (1 + 1e-12)


def test_fixed_steps_closed_form() -> None:
    T, eta, m, G, D = 50, 0.1, 0.5, 2.0, 3.0
    by_hand = m / 2 * D**2 / ((1 - eta * m) ** -T - 1) + eta * G**2 / 2
    assert fixed_step_risk(T, eta, G, D, m) == pytest.approx(by_hand)
    assert fixed_step_risk(T, eta, G, D, 1e-9) == pytest.approx(fixed_step_risk(T, eta, G, D))
    assert fixed_step_risk(10**6, 0.1, G, D, 1.0) == pytest.approx(eta * G**2 / 2)
    printed = m * D**2 / (math.exp(eta * m * T) - 1) + eta * G**2 / 2
    assert fixed_step_risk(T, eta, G, D, m) <= printed
    with pytest.raises(InputError, match="expected less than 1"):
        fixed_step_risk(10, 1.0, 1.0, 1.0, 1.0)
