# pyright: basic
"""Theorem 4.2 and its kin: values by hand, simulations on smooth problems that are not convex, and what is printed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dplateau as dp
from dplateau.algorithms import adagrad_noise
from dplateau.spec import InputError
from dplateau_papers.utility import (
    adagrad_stationarity,
    adp_sgd_stationarity,
    adp_sgd_stationarity_of,
    noisy_adagrad_stationarity,
    polynomial_stationarity,
    printed_adagrad_stationarity,
    printed_adp_sgd_stationarity,
    printed_constant_stationarity,
    printed_polynomial_stationarity,
)

PROBLEM = {"d": 20, "gap": 3.0, "smoothness": 0.5, "gradient_norm": 2.0}
PAPER = {"n": 1000, "epsilon": 2.0, "delta": 1e-5, **PROBLEM}
REPEATS = 300


def squared_gradients(step_sizes, noise, start, *, seed=0):
    """Mean and standard error of the weighted mean of |grad F|^2, F the sum of 1 - cos w_j: 1-smooth, infimum 0."""
    rng = np.random.default_rng(seed)
    w, total, weight = np.tile(start, (REPEATS, 1)), np.zeros(REPEATS), 0.0
    for eta, s in zip(step_sizes, noise, strict=True):
        gradient = np.sin(w)
        total += eta * (1 - eta / 2) * (gradient**2).sum(axis=1)
        weight += eta * (1 - eta / 2)
        w = w - eta * (gradient + s * rng.normal(size=w.shape))
    return total.mean() / weight, total.std() / weight / math.sqrt(REPEATS)


def polynomial(steps, a=20.0, c=1.0):
    return np.sqrt(a + c * np.arange(1, steps + 1))


def test_two_steps_by_hand() -> None:
    # sum eta = 3, sum eta^2 (G^2 + d s^2) = 1 (4 + 20) + 4 (4 + 80): 0.25 of it, and the gap, over 3.
    found = adp_sgd_stationarity([1.0, 2.0], [1.0, 2.0], **PROBLEM)
    assert found == pytest.approx((3 + 0.25 * (24 + 4 * 84)) / 3)
    # Variances 1 and 2 in place of G^2: 1 (1 + 20) + 4 (2 + 80), over 1 (3/4) + 2 (1/2).
    without = {name: value for name, value in PROBLEM.items() if name != "gradient_norm"}
    varied = adp_sgd_stationarity([1.0, 2.0], [1.0, 2.0], variance=[1.0, 2.0], **without)
    assert varied == pytest.approx((3 + 0.25 * (21 + 4 * 82)) / 1.75)
    both = adp_sgd_stationarity([1.0, 2.0], [1.0, 2.0], variance=[1.0, 2.0], **PROBLEM)
    assert both == min(found, varied)
    # At 2/smoothness only the second moment helps.
    assert adp_sgd_stationarity([4.0], 0.0, variance=0.0, **PROBLEM) == pytest.approx((3 + 0.25 * 16 * 4) / 4)


@pytest.mark.parametrize("adapted", [True, False])
@pytest.mark.parametrize("start", [0.0, 1.5])
def test_simulated_steps_meet_the_bound_and_nearly_reach_it(adapted, start) -> None:
    d, b = 20, polynomial(1500)
    eta, noise = 1 / b, 0.4 * (np.sqrt(b) / 3 if adapted else np.ones(b.size))
    found, error = squared_gradients(eta, noise, np.full(d, start))
    options = {"d": d, "gap": d * (1 - math.cos(start)), "smoothness": 1.0}
    bound = adp_sgd_stationarity(eta, noise, variance=0.0, **options)
    assert found + 3 * error < bound
    assert found - 3 * error > 0.6 * bound
    # Power: noise of twice the deviation breaks the bound, where noise is what there is.
    louder, error = squared_gradients(eta, 2 * noise, np.full(d, start))
    assert start or louder - 3 * error > bound
    assert adp_sgd_stationarity(eta, noise, gradient_norm=math.sqrt(d), **options) > found


def test_a_run_with_random_batches_meets_its_bound() -> None:
    """Records 1 - cos(<u, w> - y), |u| = 1: gradients and their Lipschitz constants are at most 1, the infimum at least 0."""
    n, d, steps = 60, 5, 400
    rng = np.random.default_rng(1)
    u = rng.normal(size=(n, d))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    y = u @ rng.normal(size=d) + 0.3 * rng.normal(size=n)
    eta = tuple((1.5 / polynomial(steps)).tolist())
    gap = float(np.mean(1 - np.cos(y)))
    for sampling in (dp.Poisson(6), dp.FixedSize(6)):
        run = dp.Run(n=n, sampling=sampling, steps=steps, noise_multiplier=1.2, step_size=eta, smoothness=1.0)
        w, means = np.zeros((100, d)), []
        for step in eta:
            sines = np.sin(w @ u.T - y)
            means.append(((sines @ u / n) ** 2).sum(axis=1).mean())
            draws = rng.random((100, n))
            drawn = draws < 0.1 if sampling == dp.Poisson(6) else draws.argsort(axis=1).argsort(axis=1) < 6
            w = w - step * ((drawn * sines) @ u + 1.2 * rng.normal(size=w.shape)) / 6
        bound = adp_sgd_stationarity_of(run, d=d, gap=gap)
        assert 0.05 * bound < np.mean(means) < bound
        assert bound < adp_sgd_stationarity(eta, 0.2, d=d, gap=gap, smoothness=1.0, gradient_norm=1.1)


def test_the_bound_of_a_run_is_that_of_its_noise() -> None:
    run = dp.Run(n=100, sampling=dp.FullBatch(), steps=3, noise_multiplier=5.0, clip_norm=2.0, step_size=0.5, smoothness=0.5)
    direct = adp_sgd_stationarity([0.5] * 3, 0.1, variance=0.0, **PROBLEM)
    assert adp_sgd_stationarity_of(run, d=20, gap=3.0) == direct
    with_l2 = run.replace(strong_convexity=0.1, l2=0.1)
    assert adp_sgd_stationarity_of(with_l2, d=20, gap=3.0) >= direct


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 50), st.floats(0.01, 3), st.floats(0, 2), st.floats(1.01, 3))
def test_more_noise_gap_weights_or_smoothness_is_never_better(steps, eta, noise, factor) -> None:
    sizes = np.geomspace(eta, eta / 3, steps)
    for more in ({"gap": 3.0 * factor}, {"smoothness": 0.5 * factor}, {"d": 60}, {"gradient_norm": 2 * factor}):
        assert adp_sgd_stationarity(sizes, noise, **PROBLEM) <= adp_sgd_stationarity(sizes, noise, **(PROBLEM | more))
    assert adp_sgd_stationarity(sizes, noise, **PROBLEM) <= adp_sgd_stationarity(sizes, noise * factor, **PROBLEM)


@settings(max_examples=60, deadline=None)
@given(st.floats(0.1, 50), st.floats(0.01, 5), st.integers(0, 3000), st.floats(0, 1), st.booleans())
def test_the_closed_form_lies_above_the_sum(a, c, more, sigma, adapted) -> None:
    steps = math.ceil(5 + 4 * a / c) + more
    b = polynomial(steps, a, c)
    exact = adp_sgd_stationarity(0.7 / b, sigma * (np.sqrt(b) if adapted else np.ones(steps)), **PROBLEM)
    closed = polynomial_stationarity(steps, a, c, sigma, step_size=0.7, adapted=adapted, **PROBLEM)
    assert exact <= closed * (1 + 1e-12)


def budget(steps: int) -> float:
    """The paper's sigma^2 over the sum of 1/alpha_t^2."""
    return 32**2 * math.log(16 * steps / (1000 * 1e-5)) * math.log(1.25e5) / 2000**2


@pytest.mark.parametrize("adapted", [True, False])
def test_the_proposition_prints_half_of_what_its_proof_gives_and_twice(adapted) -> None:
    steps, a, c = 10**6, 20.0, 1.0
    b = polynomial(steps, a, c)
    sigma = math.sqrt(budget(steps) * (np.sum(1 / b) if adapted else steps))
    quiet = polynomial_stationarity(steps, a, c, 0.0, **PROBLEM)
    proved = polynomial_stationarity(steps, a, c, sigma, adapted=adapted, **PROBLEM) - quiet
    printed = printed_polynomial_stationarity(steps, a, c, adapted=adapted, **PAPER) - quiet
    exact = adp_sgd_stationarity(1 / b, sigma * (np.sqrt(b) if adapted else np.ones(steps)), **PROBLEM)
    exact -= adp_sgd_stationarity(1 / b, 0.0, **PROBLEM)
    # The closed form bounds 1/sum eta_t by up to twice its value; with adapted noise the noise term is free of it.
    assert proved == pytest.approx(exact * (1 if adapted else 2), rel=0.01)
    assert printed / proved == pytest.approx(0.5 if adapted else 2.0, rel=0.01)


@pytest.mark.parametrize(("steps", "eta", "batch"), [(400, 0.05, 1), (10_000, 0.01, 16)])
def test_equal_steps_as_printed_are_twice_the_bound(steps, eta, batch) -> None:
    budget = math.log(16 * steps * batch / (1000 * 1e-5)) * math.log(1.25e5) / (1000 * 2.0) ** 2
    noise = 16 * PAPER["gradient_norm"] * math.sqrt(budget * steps)
    printed = printed_constant_stationarity(steps, step_size=eta, batch_size=batch, **PAPER)
    assert printed == pytest.approx(2 * adp_sgd_stationarity([eta] * steps, noise, **PROBLEM))
    if eta * math.sqrt(steps) == 1:  # (17): the noise of one weight, where there are 20.
        gap, smoothness, norm = PAPER["gap"], PAPER["smoothness"], PAPER["gradient_norm"]
        front = (2 * gap + smoothness * norm**2) / math.sqrt(steps)
        seventeen = front + smoothness * (16 * norm) ** 2 * budget * math.sqrt(steps)
        assert printed - front == pytest.approx(20 * (seventeen - front))
        assert seventeen < adp_sgd_stationarity([eta] * steps, noise, **PROBLEM)


def test_theorem_4_2_as_printed_is_false() -> None:
    """b_t = 10, F = w^2/2 from w = 1: w shrinks by .9 a step. Next to no noise is wanted where epsilon is large."""
    steps, b = 10, [10.0] * 10
    options = {"d": 1, "gap": 0.5, "smoothness": 1.0, "gradient_norm": 1.0}
    printed = printed_adp_sgd_stationarity(b, [1.0] * steps, n=1000, epsilon=1e9, delta=1e-5, **options)
    true = 0.9 ** (2 * (steps - 1))  # the least squared gradient, at the last iterate from which a step is taken
    assert printed < true / 20
    assert adp_sgd_stationarity([0.1] * steps, 0.0, **options) > true


def adagrad(noise, b0, floor, eta, *, noisy):
    """Least mean of |grad F|^p over the iterates, p = 4/3 for noisy steps and 2 otherwise, F as in ``squared_gradients``."""
    rng, d, power = np.random.default_rng(2), 10, 4 / 3 if noisy else 2
    w, squares, least = np.full((REPEATS, d), 1.5), np.full(REPEATS, b0**2), math.inf
    for s in noise:
        gradient = np.sin(w)
        least = min(least, float(np.mean(np.sum(gradient**2, axis=1) ** (power / 2)) ** (2 / power)))
        step = gradient + s * rng.normal(size=w.shape)
        squares += np.maximum(np.sum((step if noisy else gradient) ** 2, axis=1), floor)
        w = w - eta * step / np.sqrt(squares)[:, None]
    return least


@pytest.mark.parametrize("s", [0.0, 0.05, 1.0])
@pytest.mark.parametrize("steps", [30, 600])
def test_adagrad_from_noisy_gradients_meets_its_bound(s, steps) -> None:
    noise = s * (2.0 + np.arange(steps)) ** 0.25
    options = {"b0": 1.0, "floor": 1e-3, "step_size": 1.0}
    problem = {"d": 10, "gap": 10 * (1 - math.cos(1.5)), "smoothness": 1.0, "gradient_norm": math.sqrt(10)}
    found = adagrad(noise, 1.0, 1e-3, 1.0, noisy=True)
    bound = noisy_adagrad_stationarity(noise, **options, **problem)
    assert found < bound
    # With much noise the steps are those of a schedule, and the bound is about as good as that of one.
    if s == 1.0:
        assert found > 0.02 * bound
    assert adagrad(noise, 1.0, 1e-3, 1.0, noisy=False) < adagrad_stationarity(noise, **options, **problem)


def test_what_adapted_noise_gains_in_the_bound_for_noisy_gradients() -> None:
    steps, b0 = 11_760, math.sqrt(20)
    setting = {"b0": b0, "floor": 1e-5, "d": 10**5, "gap": 1.0, "smoothness": 1.0, "gradient_norm": 1.0}
    assert noisy_adagrad_stationarity([0.01] * steps, **setting) == pytest.approx(0.209, abs=5e-4)
    growths = [10.0**k for k in range(-5, 1)]
    adapted = [noisy_adagrad_stationarity(0.01 * np.array(adagrad_noise(steps, b0, c)), **setting) for c in growths]
    assert min(adapted) == adapted[growths.index(0.01)] == pytest.approx(0.195, abs=5e-4)


def test_adagrad_by_hand() -> None:
    # One step: (3 + (2 + .5)/2 log(1 + 4/9) + .5 20 .04/2 /(9 + 1)) 2 sqrt(13)
    expected = (3 + 1.25 * math.log(1 + 4 / 9) + 0.5 * 20 * 0.04 / 2 / 10) * 2 * math.sqrt(13)
    assert adagrad_stationarity([0.2], b0=3.0, floor=1.0, **PROBLEM) == pytest.approx(expected)
    # V^2 = 4 + 1 + 20 .04 = 5.8; C = sqrt(5.8) - 1, since .2 20/sqrt(22) = .85
    expected = (3 + (math.sqrt(5.8) - 1 + 0.25) * math.log(1 + 5.8 / 9)) * 2 * math.sqrt(14.8)
    assert noisy_adagrad_stationarity([0.2], b0=3.0, floor=1.0, **PROBLEM) == pytest.approx(expected)


def test_the_second_proposition_prints_an_eighth_of_what_its_appendix_has() -> None:
    """4 G K eta d L T/(nu sqrt(T - 1)) and G K eta d L T log(1 + T nu/b0^2)/(nu sqrt(T - 1)) with K = (16 G)^2 B/(n eps)^2."""
    steps, b0, floor = 10**6, 1.0, 0.5
    for adapted, factor in ((True, 4.0), (False, math.log1p(steps * floor / b0**2))):
        printed = printed_adagrad_stationarity(steps, b0=b0, floor=floor, adapted=adapted, **PAPER)
        no_noise = printed_adagrad_stationarity(steps, b0=b0, floor=floor, adapted=adapted, **(PAPER | {"epsilon": 1e9}))
        proved = factor * 2 * budget(steps) * 20 * 0.5 * math.sqrt(steps) / floor
        assert (printed - no_noise) / proved == pytest.approx(1 / 8, rel=1e-3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: adp_sgd_stationarity([0.1], 0.1, d=1, gap=1.0, smoothness=1.0), "no bound holds"),
        (lambda: adp_sgd_stationarity([3.0], 0.1, d=1, gap=1.0, smoothness=1.0, variance=1.0), "no bound holds"),
        (lambda: adp_sgd_stationarity([0.1] * 3, [0.1] * 2, **PROBLEM), "noise has 2 entries"),
        (lambda: adp_sgd_stationarity([0.1], math.nan, **PROBLEM), "noise"),
        (lambda: adp_sgd_stationarity([0.1], 0.1, **(PROBLEM | {"gap": -1.0})), "gap"),
        (lambda: polynomial_stationarity(84, 20.0, 1.0, 0.1, **PROBLEM), r"at least 5 \+ 4 a/c = 85"),
        (lambda: adagrad_stationarity([0.1], b0=1.0, floor=5.0, **PROBLEM), "floor 5 exceeds"),
    ],
)
def test_what_has_no_bound_is_refused(call, message) -> None:
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"step_size": None}, "no step_size"),
        ({"smoothness": None}, "no smoothness"),
        ({"update": "post-processed"}, "plain steps"),
        ({"diameter": 3.0}, "projection"),
        ({"sampling": dp.Cyclic(10)}, "not unbiased"),
        ({"sampling": dp.RandomAllocation(10)}, "not unbiased"),  # a record that was used waits for the next epoch
    ],
)
def test_runs_of_another_kind_are_refused(changes, message) -> None:
    run = dp.Run(n=100, sampling=dp.Poisson(10), steps=3, noise_multiplier=5.0, step_size=0.5, smoothness=0.5)
    with pytest.raises(InputError, match=message):
        adp_sgd_stationarity_of(run.replace(**changes), d=2, gap=1.0)
