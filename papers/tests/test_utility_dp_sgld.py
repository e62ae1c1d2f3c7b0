# pyright: basic
"""DP-SGLD: exact moments on quadratics, a simulation with projection, what is printed, and the settings."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dplateau.spec import InputError
from dplateau.utility import (
    langevin_noise,
    langevin_renyi_noise,
    langevin_risk,
    langevin_step_sizes,
    langevin_steps,
    langevin_steps_decaying,
    poisson_gradient_variance,
    poisson_smoothness,
    regularised_radius,
)
from dplateau_papers.utility import (
    gradient_variance,
    langevin_average_risk,
    langevin_full_batch_risk,
    langevin_last_iterate_risk,
    langevin_lipschitz_risk,
    langevin_private_average_risk,
    langevin_private_risk,
    langevin_radius,
    langevin_renyi_average_risk,
    langevin_renyi_risk,
    langevin_renyi_steps,
    langevin_renyi_steps_decaying,
    langevin_start_distance,
    printed_langevin_average_risk,
    printed_langevin_lipschitz_risk,
    printed_langevin_private_average_risk,
    printed_langevin_private_risk,
    printed_langevin_renyi_average_risk,
    printed_langevin_renyi_risk,
    printed_langevin_risk,
)
from dplateau_papers.utility.dp_sgld_decaying import _squared_distance

D, STEPS = 3, 60


def problem(rng, *, poisson=False):
    """Records with gradients ``h theta + b`` coordinate by coordinate, h between m and 1, the minimiser at 0.

    Returns m, the moments of the batch's h and b (those of the l2 term's part of h are fixed under Poisson sampling), and xi^2.
    """
    n, m = int(rng.integers(2, 9)), float(rng.choice([1.0, 0.5, 0.1, 0.01]))
    size = int(rng.integers(1, n + 1))
    # The largest and the smallest curvature, in step with the offsets or not, is as bad as it gets; and something in between.
    k = rng.integers(0, 2, (n, D)) * 1.0 if rng.random() < 0.7 else rng.random((n, D))
    b = rng.normal(size=(n, D)) + rng.choice([0.0, 3.0]) * k
    b -= b.mean(axis=0)
    b *= 10 ** rng.uniform(-1, 1)
    h = m + (1 - m) * k
    part = (1 - size / n) / size if poisson else (n - size) / (size * (n - 1))
    centre = (lambda a: a * 0 + m) if poisson else (lambda a: a.mean(axis=0))  # what does not vary with the batch
    h_var, cross = part * np.mean((h - centre(h)) ** 2, axis=0), part * np.mean((h - centre(h)) * b, axis=0)
    b_var = part * np.mean(b**2, axis=0)
    smooth = poisson_smoothness(n, size, 1.0, m) if poisson else 1.0
    return m, smooth, h.mean(axis=0), h_var, cross, b_var


def moments(etas, s, start, h, h_var, cross, b_var):
    """E[theta_k^2] of every coordinate, k = 0, ..., K, exactly."""
    mean, square, found = start.copy(), start**2, [start**2]
    for eta in etas:
        kept = (1 - eta * h) ** 2 + eta**2 * h_var
        square = kept * square + 2 * eta**2 * cross * mean + eta**2 * b_var + 2 * eta * s**2
        mean = (1 - eta * h) * mean
        found.append(square)
    return np.array(found)


def draws(seed, count, **kinds):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        start = rng.normal(size=D) * rng.choice([0.0, 0.3, 3.0])
        yield rng, problem(rng, **kinds), start, float(rng.choice([0.0, 0.1, 1.0]))


@pytest.mark.parametrize("poisson", [False, True])
def test_the_last_iterate_on_random_quadratics(poisson) -> None:
    most = 0.0
    for rng, (m, smooth, h, h_var, cross, b_var), start, s in draws(0, 300, poisson=poisson):
        eta = rng.choice([0.02, 0.3, 0.5, 0.8, 0.99]) * (1 if rng.random() < 0.5 else 2 / (smooth + m) * 0.999)
        squares = moments([eta] * STEPS, s, start, h, h_var, cross, b_var)
        risks = squares @ h / 2
        kw = {"d": D, "distance": math.sqrt(start @ start), "smoothness": smooth, "strong_convexity": m, "variance": b_var.sum()}
        for k in (0, 1, 2, 5, 20, STEPS):
            bound = langevin_risk(k, eta, s, **kw)
            assert risks[k] <= bound * (1 + 1e-9) + 1e-12
            # The squared distance itself is bounded, not only the risk.
            assert smooth / 2 * squares[k].sum() <= bound * (1 + 1e-9) + 1e-12
            most = max(most, risks[k] / (bound + 1e-9)) if k else most
            if eta * smooth < 1:
                assert risks[k] <= langevin_risk(k, eta, s, convex_batches=True, **kw) * (1 + 1e-9) + 1e-12
            if not poisson and eta <= 0.5:
                assert bound <= printed_langevin_risk(k, eta, s, **kw) * (1 + 1e-9) + 1e-12
    assert most > 0.9


@pytest.mark.parametrize("poisson", [False, True])
def test_falling_steps_on_random_quadratics(poisson) -> None:
    most, nearest = 0.0, 0.0
    for _, (m, smooth, h, h_var, cross, b_var), start, s in draws(1, 200, poisson=poisson):
        etas = langevin_step_sizes(STEPS, smooth, m)
        risks = moments(etas, s, start, h, h_var, cross, b_var) @ h / 2
        kw = {"d": D, "distance": math.sqrt(start @ start), "smoothness": smooth, "strong_convexity": m, "variance": b_var.sum()}
        for k in (1, 2, 3, 9, STEPS):
            after, before = risks[1 : k + 1].mean(), risks[:k].mean()
            bound = langevin_average_risk(k, s, **kw)
            assert after <= bound * (1 + 1e-9) + 1e-12
            assert before <= langevin_average_risk(k, s, from_start=True, **kw) * (1 + 1e-9) + 1e-12
            assert bound <= printed_langevin_average_risk(k, s, **kw) * (1 + 1e-9)
            most = max(most, after / (bound + 1e-9))
        # The variance at the minimiser is not that elsewhere, unless only the offsets vary (as with full batches).
        if not h_var.any():
            assert risks[STEPS] <= langevin_last_iterate_risk(STEPS, s, **kw) * (1 + 1e-9) + 1e-12
        nearest = max(nearest, after / (bound + 1e-9))
    assert most > 0.4
    assert nearest > 0.3


def test_full_batches_on_random_quadratics() -> None:
    rng, most = np.random.default_rng(2), 0.0
    for _ in range(200):
        m, d = float(rng.choice([1.0, 0.3, 0.03])), 6
        h = np.concatenate([[m, 1.0], rng.uniform(m, 1, d - 2)])
        eta, s, start = rng.choice([0.05, 0.5, 1.0, 1.3, 1.9]), rng.choice([0.0, 1.0]), rng.normal(size=d) * rng.choice([0.0, 1.0])
        zero = np.zeros(d)
        risks = moments([eta] * STEPS, s, start, h, zero, zero, zero) @ h / 2
        kw = {"d": d, "distance": math.sqrt(start @ start), "smoothness": 1.0, "strong_convexity": m}
        for k in (0, 1, 3, STEPS):
            bound = langevin_full_batch_risk(k, eta, s, **kw)
            assert risks[k] <= bound * (1 + 1e-9) + 1e-12
            most = max(most, risks[k] / (bound + 1e-9)) if k else most
            if eta < 1:
                assert bound <= langevin_risk(k, eta, s, **kw) * (1 + 1e-9)
    assert most > 0.99


def test_the_factor_of_the_condition_number_is_small_for_short_steps() -> None:
    kw = {"d": 1, "distance": 1.0, "smoothness": 1.0, "strong_convexity": 1e-3}
    found = langevin_full_batch_risk(500_000, 0.01, 1.0, **kw)
    assert 1 < found < 10
    assert langevin_risk(500_000, 0.01, 1.0, **kw) == pytest.approx(500, rel=0.01)


def test_a_minimiser_on_the_boundary_refutes_lemma_4_1_as_printed() -> None:
    """F = (theta + 1)^2/2 on [0, 1]: gradient 1 at the minimiser 0, which is xi^2 of the print. One short step from 1."""
    eta = 0.01
    after = 1 - eta * 2
    true = ((after + 1) ** 2 - 1) / 2
    kw = {"d": 1, "distance": 1.0, "smoothness": 1.0, "strong_convexity": 1.0}
    assert true / printed_langevin_risk(1, eta, 0.0, variance=1.0, **kw) == pytest.approx(2.92, abs=0.01)
    assert true <= langevin_risk(1, eta, 0.0, gradient_at_minimiser=1.0, **kw)
    assert true <= langevin_full_batch_risk(1, eta, 0.0, gradient_at_minimiser=1.0, **kw)
    # The mean risk of falling steps: xi^2 with the square of the gradient.
    theta, risks = 1.0, []
    for size in langevin_step_sizes(30, 1.0, 1.0):
        risks.append(((theta + 1) ** 2 - 1) / 2)
        theta = max(0.0, theta - size * (theta + 1))
    for k in (1, 5, 30):
        assert np.mean(risks[:k]) <= langevin_average_risk(k, 0.0, gradient_at_minimiser=1.0, from_start=True, **kw)


def logistic(w, x, y):
    return np.logaddexp(0, -(w @ x.T) * y).mean(axis=-1)


def test_simulated_logistic_regression_with_projection() -> None:
    rng = np.random.default_rng(3)
    n, d, size, m, chains, steps = 40, 4, 4, 0.05, 1500, 80
    x = rng.normal(size=(n, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = np.sign(x[:, 0] + 0.4 * rng.normal(size=n))
    smooth, radius, s = 0.25 + m, regularised_radius(1.0, m, math.log(2)), 0.2
    best = np.zeros(d)
    for _ in range(30):
        p = 1 / (1 + np.exp(x @ best * y))
        best = best - np.linalg.solve((x.T * (p * (1 - p))) @ x / n + m * np.eye(d), -(p * y) @ x / n + m * best)
    assert np.linalg.norm(-(y / (1 + np.exp(x @ best * y))) @ x / n + m * best) < 1e-12
    assert np.linalg.norm(best) <= radius
    records = -(y / (1 + np.exp(x @ best * y)))[:, None] * x
    xi2 = (n - size) / (size * (n - 1)) * np.mean(np.sum((records - records.mean(axis=0)) ** 2, axis=1))
    assert xi2 <= gradient_variance(n, size, 1.0)

    def excess(w):
        return logistic(w, x, y) + m * (w**2).sum(axis=-1) / 2 - (logistic(best, x, y) + m * best @ best / 2)

    def project(w, r):
        return w * np.minimum(1, r / np.linalg.norm(w, axis=1, keepdims=True))

    kw: dict[str, Any] = {"d": d, "smoothness": smooth, "strong_convexity": m}
    touched = 0
    # The ball of the theorem, and one that just holds the minimiser, so that projections are frequent.
    for r, etas in itertools.product(
        (radius, 1.1 * float(np.linalg.norm(best))), ([1 / (2 * smooth)] * steps, langevin_step_sizes(steps, smooth, m))
    ):
        w = project(rng.normal(size=(chains, d)) * s * math.sqrt(2 / m), r)
        distance, risks = langevin_start_distance(r, d, s, m), []
        assert np.mean(((w - best) ** 2).sum(axis=1)) < 1.1 * distance**2
        for eta in etas:
            drawn = rng.random((chains, n)).argsort(axis=1) < size
            slopes = -y / (1 + np.exp((w @ x.T) * y))
            w = w - eta * ((drawn * slopes) @ x / size + m * w) + math.sqrt(2 * eta) * s * rng.normal(size=w.shape)
            touched += (np.linalg.norm(w, axis=1) > r).sum()
            w = project(w, r)
            risks.append(excess(w))
        last, error = risks[-1].mean(), risks[-1].std() / math.sqrt(chains)
        if isinstance(etas, list):
            bound = langevin_risk(steps, etas[0], s, distance=distance, variance=xi2, **kw)
        else:
            bound = langevin_last_iterate_risk(steps, s, distance=distance, variance=gradient_variance(n, size, 1.0), **kw)
            mean = np.mean([risk.mean() for risk in risks])
            assert mean < langevin_average_risk(steps, s, distance=distance, variance=xi2, **kw)
        assert 0 < last - 3 * error < last + 3 * error < bound
    assert touched > 1000


PROBLEM: dict[str, Any] = {"d": 5, "distance": 2.0, "smoothness": 1.0, "strong_convexity": 0.1}


def test_limits_and_powers() -> None:
    still = langevin_risk(50, 0.3, 0.0, **PROBLEM)
    assert still == pytest.approx(2.0 * 0.97**100)
    forever: dict[str, Any] = {"steps": 10**9, "step_size": 0.01, **PROBLEM}
    assert langevin_risk(noise=0.2, **forever) == pytest.approx(4 * langevin_risk(noise=0.1, **forever))
    assert langevin_risk(noise=0.1, **forever) == pytest.approx(5 * 0.01 / (0.1 * (2 - 0.001)))
    assert langevin_risk(noise=0.0, **forever) == 0
    short = langevin_risk(noise=0.0, variance=1.0, **dict(forever, step_size=0.001))
    assert short == pytest.approx(0.001 / (4 * 0.1), rel=0.01)
    # Falling steps: 1/K of the start, log(K)/K of the batches, s^2 d of the noise, whatever M/m.
    for k in (10**4, 10**6):
        assert langevin_average_risk(k, 0.0, **PROBLEM) == pytest.approx(4 / k)
        assert langevin_average_risk(k, 0.0, variance=1.0, **dict(PROBLEM, distance=0.0)) == pytest.approx(
            10 * math.log(1 + (k + 1) / 19.5) / k
        )
    assert langevin_average_risk(10**9, 0.3, **PROBLEM) == pytest.approx(5 * 0.09, rel=1e-5)
    assert langevin_full_batch_risk(50, 0.3, 0.0, **PROBLEM) == still


def test_the_closed_form_of_the_squared_distance_lies_just_above_the_recursion() -> None:
    for m, steps in itertools.product((1.0, 0.1, 1e-3), (1, 2, 10, 1000)):
        squared = 4.0
        for eta in langevin_step_sizes(steps, 1.0, m):
            gain = 2 * (1 - 0.5 * m) / (2 - 0.5 * (1 + m))
            squared = (1 - eta * m) ** 2 * squared + gain * eta**2 * 3.0 + 2 * eta * 5 * 0.04
        assert squared <= _squared_distance(steps, 0.2, 5, 2.0, 1.0, m, 3.0) * (1 + 1e-9) <= 1.1 * squared
    assert langevin_average_risk(2, 0.0, from_start=True, **PROBLEM) == pytest.approx(0.5 * (4 + 4 * 0.95**2) / 2)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 10**6),
    st.floats(1e-4, 0.5),
    st.floats(0, 10),
    st.floats(0, 10),
    st.floats(0, 10),
    st.floats(1e-4, 1),
    st.floats(1, 5),
)
def test_what_is_printed_lies_above_and_worse_settings_give_worse_bounds(steps, eta, s, variance, distance, m, more) -> None:
    kw = {"d": 5, "distance": distance, "smoothness": 1.0, "strong_convexity": m, "variance": variance}
    slack = 1 + 1e-9
    last, mean = langevin_risk(steps, eta, s, **kw), langevin_average_risk(steps, s, **kw)
    assert last <= printed_langevin_risk(steps, eta, s, **kw) * slack
    assert mean <= printed_langevin_average_risk(steps, s, **kw) * slack
    assert mean >= langevin_average_risk(steps, s, from_start=True, **kw) / slack or steps <= 8
    worse_last = [kw | {name: kw[name] * more} for name in ("distance", "variance")] + [kw | {"d": 9}]
    for worse in [*worse_last, kw | {"smoothness": more}]:
        # a longer step than 1/(2 M) may gain from nothing; keep it short
        short = min(eta, 0.4 / more)
        assert langevin_risk(steps, short, s, **kw) <= langevin_risk(steps, short, s, **worse) * slack
    worse: dict[str, Any]
    for worse in worse_last:
        assert mean <= langevin_average_risk(steps, s, **worse) * slack
    assert last <= langevin_risk(steps, eta, s * more, **kw) * slack
    lipschitz = {"d": 5, "lipschitz": 1.0, "smoothness": 1.0, "strong_convexity": m, "variance": variance}
    assert langevin_lipschitz_risk(steps, eta, s, **lipschitz) <= printed_langevin_lipschitz_risk(steps, eta, s, **lipschitz)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 10**4), st.integers(1, 999), st.floats(0.01, 0.99), st.floats(1e-9, 0.5), st.floats(1e-3, 1), st.floats(0, 1))
def test_the_constants_of_the_theorems(n, d, part, delta, m, variance) -> None:
    epsilon = part * 2 * math.log(1 / delta)
    alpha = 1 + 2 / epsilon * math.log(1 / delta)
    kw = {"lipschitz": 1.0, "smoothness": 1.0, "strong_convexity": m, "variance": variance}
    plain = {"lipschitz": 1.0, "strong_convexity": m}
    batches, signal = 0.69 * variance / (4 * m), epsilon / 2 * n**2 / (alpha * d)
    renyi = langevin_renyi_risk(n, d, alpha, epsilon / 2, **kw)
    assert renyi <= 19 / 6 / (m**2 * signal) + batches
    assert renyi <= printed_langevin_renyi_risk(n, d, alpha, epsilon / 2, **kw)
    private = langevin_private_risk(n, d, epsilon, delta, **kw)
    scale = d * math.log(1 / delta) / (epsilon * n) ** 2
    assert private <= 70 / 3 * scale / m**2 + batches
    assert private <= printed_langevin_private_risk(n, d, epsilon, delta, **kw)
    assert langevin_private_risk(n, d, epsilon, delta, distance=0.5, **kw) <= langevin_risk(
        langevin_steps(n, d, epsilon, delta, 1.0, m),
        0.5,
        langevin_noise(n, epsilon, delta, 1.0, m),
        d=d,
        distance=0.5,
        smoothness=1.0,
        strong_convexity=m,
        variance=variance,
    )
    if signal > 1e8:  # so many steps are refused
        return
    mean = langevin_renyi_average_risk(n, d, alpha, epsilon / 2, **kw)
    assert mean <= 10 / (m * signal)
    assert mean <= printed_langevin_renyi_average_risk(n, d, alpha, epsilon / 2, **plain)
    mean = langevin_private_average_risk(n, d, epsilon, delta, **kw)
    assert mean <= 72 * scale / m
    assert mean <= printed_langevin_private_average_risk(n, d, epsilon, delta, **plain)


def test_settings_by_hand() -> None:
    logs = math.log(1e5)
    assert langevin_noise(1000, 0.5, 1e-5, 2.0, 0.1) ** 2 == pytest.approx(8 * 4 * (0.5 + 2 * logs) / (0.25 * 0.1 * 1e6))
    assert langevin_renyi_noise(10, 3.0, 2.0, 2.0, 0.5) == pytest.approx(math.sqrt(4 * 3 * 4 / (2 * 0.5 * 100)))
    signal = 0.25 * 1e6 / (4 * logs * 7)
    assert langevin_steps(1000, 7, 0.5, 1e-5, 3.0, 0.1) == math.ceil(60 * math.log(signal))
    assert langevin_steps(10, 7, 0.5, 1e-5, 3.0, 0.1) == 1
    assert langevin_steps_decaying(1000, 7, 0.5, 1e-5, 3.0, 0.1) == math.ceil(max(30 * signal, signal**2 / 30))
    assert langevin_steps_decaying(1000, 7, 0.5, 1e-5, 3.0, 2.0) == math.ceil(signal**2 * 2 / 3)
    assert langevin_renyi_steps(100, 4, 5.0, 2.0, 3.0, 0.1) == math.ceil(60 * math.log(1000))
    assert langevin_renyi_steps_decaying(100, 4, 5.0, 2.0, 3.0, 3.0) == 10**6
    assert langevin_step_sizes(3, 2.0, 1.0) == pytest.approx([1 / 4, 1 / 4.5, 1 / 5])


def test_radii() -> None:
    assert langevin_radius(1.0, 0.01, math.log(2)) == pytest.approx(math.sqrt(200 * math.log(2)))
    assert langevin_radius(1.0, 1.0, math.log(2)) == 1.0
    assert regularised_radius(1.0, 0.01, math.log(2)) == pytest.approx(10 * math.sqrt(math.log(2)))
    # max(0, L(0) - g theta) attains the second radius, and no smaller one would do.
    theta = np.linspace(0, 60, 600_001)
    for slope, m, loss in ((1.0, 0.01, 0.7), (0.05, 0.01, 0.7), (1.0, 2.0, 0.1)):
        steep = min(slope, math.sqrt(m * loss))
        objective = np.maximum(0, loss - steep * theta) + m * theta**2 / 2
        assert theta[objective.argmin()] == pytest.approx(regularised_radius(slope, m, loss), abs=2e-4)
    assert langevin_start_distance(2.0, 3, 1.0, 100.0) == pytest.approx(math.sqrt(4 + 0.06))
    assert langevin_start_distance(2.0, 3, 100.0, 1.0) == pytest.approx(math.sqrt(8))


def test_variances_by_enumeration() -> None:
    rng = np.random.default_rng(5)
    n, size = 6, 2
    g = rng.normal(size=(n, 3))
    g /= np.linalg.norm(g, axis=1, keepdims=True)
    fixed = np.mean(
        [((g[list(batch)].mean(axis=0) - g.mean(axis=0)) ** 2).sum() for batch in itertools.combinations(range(n), size)]
    )
    spread = np.mean(((g - g.mean(axis=0)) ** 2).sum(axis=1))
    assert fixed == pytest.approx(gradient_variance(n, size, 1.0) * spread)
    coins = np.array(list(itertools.product((0, 1), repeat=n)))
    chance = np.prod(np.where(coins == 1, size / n, 1 - size / n), axis=1)
    poisson = chance @ ((coins @ g / size - g.mean(axis=0)) ** 2).sum(axis=1)
    assert poisson == pytest.approx(poisson_gradient_variance(n, size, 1.0))
    assert gradient_variance(n, n, 1.0) == poisson_gradient_variance(n, n, 1.0) == gradient_variance(1, 1, 1.0) == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: langevin_risk(5, 1.9, 1.0, **PROBLEM), r"not below 2/\(smoothness"),
        (lambda: langevin_risk(5, 1.0, 1.0, convex_batches=True, **PROBLEM), "not below 1/smoothness"),
        (lambda: langevin_full_batch_risk(5, 2.0, 1.0, **PROBLEM), "not below 2/smoothness"),
        (lambda: langevin_risk(5, 0.1, 1.0, **dict(PROBLEM, strong_convexity=2.0)), "exceeds smoothness"),
        (lambda: langevin_risk(5, 0.1, math.nan, **PROBLEM), "noise"),
        (lambda: langevin_average_risk(0, 1.0, **PROBLEM), "steps"),
        (lambda: langevin_average_risk(5, 1.0, variance=-1.0, **PROBLEM), "variance"),
        (lambda: langevin_noise(10, 1.0, 1.0, 1.0, 1.0), "delta is 1"),
        (lambda: langevin_noise(10, 0.0, 1e-5, 1.0, 1.0), "epsilon"),
        (lambda: langevin_renyi_noise(10, 1.0, 1.0, 1.0, 1.0), "alpha"),
        (lambda: langevin_steps(10, 2, 1.0, 1e-5, 1.0, 2.0), "exceeds smoothness"),
        (lambda: langevin_steps_decaying(10**9, 1, 10.0, 1e-5, 1.0, 1.0), "steps. Take fewer"),
        (lambda: langevin_radius(1.0, 0.0, 1.0), "strong_convexity"),
        (lambda: gradient_variance(5, 6, 1.0), "batch_size 6 exceeds n = 5"),
        (lambda: poisson_gradient_variance(5, 6, 1.0), "batch_size 6 exceeds n = 5"),
        (
            lambda: printed_langevin_private_risk(9, 2, 3.0, 0.5, lipschitz=1.0, smoothness=1.0, strong_convexity=1.0),
            r"exceeds 2 log",
        ),
    ],
)
def test_what_has_no_bound_is_refused(call, message) -> None:
    with pytest.raises(InputError, match=message):
        call()
