# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

import dplateau as dp
from dplateau.accounting.gaussian import log_gdp_delta
from dplateau.accounting.tensor import tensor
from dplateau.analyses import AdaptiveNoiseBound, AdvancedCompositionBound, ExactCompositionBound
from dplateau.analyses.adaptive_noise import AdaptiveNoiseGuarantee

ANALYSIS = AdaptiveNoiseBound()


def bound(rate: float, noise: float, count: int) -> AdaptiveNoiseGuarantee:
    return AdaptiveNoiseGuarantee(*(np.array([float(value)]) for value in (rate, noise, count)))


def least_noise(drawn: float, delta: float) -> float:
    """Condition 1 of the proof."""
    return 2 * math.sqrt(2 * math.log(1.25 * drawn / (0.2 * delta)))


def printed_sigma(n: int, m: int, alphas: np.ndarray, epsilon: float, delta: float) -> float:
    """Theorem C.1 with G = 1."""
    b = math.log(16 * alphas.size * m / (n * delta)) * math.log(1.25 / delta)
    return math.sqrt(16**2 * b / (n * epsilon) ** 2 * float((alphas**-2.0).sum()))


def test_it_is_the_printed_formula() -> None:
    n, m, delta = 1000, 10, 1e-5
    alphas = np.linspace(1, 3, 500)
    sigma = printed_sigma(n, m, alphas, 2.0, delta)
    run = dp.Run(n=n, sampling=dp.Poisson(m), steps=500, noise_multiplier=m * alphas * sigma)
    assert ANALYSIS.guarantee(run).epsilon(delta).upper == pytest.approx(2.0, rel=1e-9)


def test_the_classical_gaussian_mechanism() -> None:
    """sqrt(2 log(1.25/d)) over epsilon is enough up to epsilon 1 for every d, up to 3.78 in fact, and no further."""
    s = np.geomspace(math.sqrt(2 * math.log(1.25)), 36, 20_001)
    for epsilon, holds in ((0.01, True), (0.5, True), (1.0, True), (1.83, True), (3.78, True), (3.79, False)):
        excess = log_gdp_delta(epsilon / s, np.full(s.shape, epsilon)) - (math.log(1.25) - s**2 / 2)
        assert bool((excess <= 0).all()) is holds, epsilon
    # The step of the proof that bounds the first term alone.
    for epsilon in (0.01, 0.3, 1.0):
        assert (np.log(ndtr(epsilon / (2 * s) - s)) <= math.log(1.25) - s**2 / 2).all()


def test_steps_of_the_proof() -> None:
    x = np.linspace(1e-9, 1.25, 1001)
    assert (np.expm1(x) <= 2 * x).all()
    assert math.expm1(1.26) > 2 * 1.26


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_never_below_what_it_is_made_of(adjacency: str) -> None:
    """Runs at the edge of the conditions and inside them: above advanced composition, and 20 times above the exact epsilon."""
    random, held = np.random.default_rng(11), 0
    while held < 12:
        n = int(10 ** random.uniform(1, 4))
        size = max(1, round(n ** random.uniform(0, 1)))
        sampling = [dp.Poisson(size), dp.FixedSize(size), dp.FullBatch()][random.integers(3)]
        steps, delta = int(10 ** random.uniform(0, 3)), 10 ** random.uniform(-9, -1)
        drawn = steps * (1.0 if isinstance(sampling, dp.FullBatch) else size / n)
        if drawn < delta:
            continue
        z = least_noise(drawn, delta) * (1 + 1e-9 + (random.random() < 0.5) * random.exponential(0.5))
        run = dp.Run(n=n, sampling=sampling, steps=steps, noise_multiplier=z, adjacency=adjacency)
        found = ANALYSIS.guarantee(run)
        if found.why_not(delta) is not None:
            continue
        held, epsilon = held + 1, found.epsilon(delta).upper
        assert AdvancedCompositionBound().guarantee(run).epsilon(delta).upper <= epsilon
        assert 20 * ExactCompositionBound().guarantee(run).epsilon(delta).lower <= epsilon


def test_the_conditions_are_those_of_the_proof() -> None:
    delta = 1e-5
    z = least_noise(0.5, delta)
    assert bound(0.01, z * (1 + 1e-9), 50).why_not(delta) is None
    assert "below" in (bound(0.01, z * (1 - 1e-9), 50).why_not(delta) or "")
    # One step below the least of many.
    mixed = AdaptiveNoiseGuarantee(np.array([0.01, 0.01]), np.array([2 * z, z * 0.99]), np.array([40.0, 10.0]))
    assert "below" in (mixed.why_not(delta) or "")
    # Mean above deviation: many full steps.
    many = bound(1.0, 20.0, 10_000)
    assert "bound on the mean privacy loss" in (many.why_not(delta) or "")
    a = 4 / 20 * math.sqrt(2 * math.log(1.25 * 10_000 / (0.2 * delta)))
    assert 10_000 * a * math.tanh(a / 2) > math.sqrt(2 * math.log(1.25 / delta) * 10_000 * a**2)
    assert "too few steps" in (bound(1e-7, 20.0, 1).why_not(delta) or "")
    for refused in (mixed, many, bound(1e-7, 20.0, 1)):
        assert refused.epsilon(delta).upper == math.inf


def test_the_refuted_claim_is_declined() -> None:
    """Theorem 4.1 without a condition: one step, n = 1,000, epsilon 0.5."""
    sigma = printed_sigma(1000, 1, np.ones(1), 0.5, 1e-5)
    run = dp.Run(n=1000, sampling=dp.Poisson(1), steps=1, noise_multiplier=sigma)
    assert ANALYSIS.guarantee(run).epsilon(1e-5).upper == math.inf
    row = next(row for row in dp.account(run, 1e-5).bounds if row.name == ANALYSIS.name)
    assert row.epsilon is None
    assert "noise_multiplier" in (row.why_not or "")


def test_delta_is_the_inverse() -> None:
    found = bound(0.01, 12.0, 1000)
    previous = 1.0
    for delta in (0.5, 1e-2, 1e-4, 1e-5):
        epsilon = found.epsilon(delta).upper
        back = found.delta(epsilon).upper
        assert delta * (1 - 1e-6) <= back <= delta * (1 + 1e-5)
        assert back <= previous
        previous = back
    # Smaller deltas do not meet the condition, and a larger epsilon keeps the least that does.
    least = 6.25 * 10 * math.exp(-(12.0**2) / 8)
    assert found.delta(1e3).upper == pytest.approx(least, rel=1e-6)
    assert found.why_not(found.delta(1e3).upper) is None
    assert found.delta(0.01).upper == 1.0
    assert bound(0.01, 1.0, 1000).delta(5.0).upper == 1.0


def test_runs_join() -> None:
    joined = tensor([bound(0.01, 15.0, 300), bound(0.02, 20.0, 400)])
    logs = math.log(16 * 11 / 1e-5) * math.log(1.25 / 1e-5)
    assert joined.epsilon(1e-5).upper == pytest.approx(16 * math.sqrt(logs * (300 * 1e-4 / 225 + 400 * 4e-4 / 400)))
