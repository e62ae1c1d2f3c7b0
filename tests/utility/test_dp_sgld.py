# pyright: basic
"""DP-SGLD: exact moments on quadratics, a simulation with projection, what is printed, and the settings."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import dplateau as dp
from dplateau.utility import (
    langevin_noise,
    langevin_renyi_noise,
    langevin_risk,
    langevin_step_sizes,
    langevin_steps,
    langevin_steps_decaying,
    poisson_gradient_variance,
    poisson_smoothness,
)


def test_the_printed_recursion_is_false_and_ours_is_not() -> None:
    """Two kinds of records, a part p of them with h = 1 and b = 1, the others with h = 0 (nearly) and b = -p/(1 - p)."""
    p, eta, u, m = 0.27, 0.5, 0.2, 1e-6
    b = -p / (1 - p)
    xi2 = p + (1 - p) * b**2
    after = p * ((1 - eta) * u - eta) ** 2 + (1 - p) * ((1 - eta * m) * u - eta * b) ** 2
    printed = (1 - eta * m) * u**2 + eta**2 * xi2
    assert after / printed == pytest.approx(1.143, abs=0.001)
    kw = {"d": 1, "distance": u, "smoothness": 1.0, "strong_convexity": m, "variance": xi2}
    assert after <= 2 * langevin_risk(1, eta, 0.0, **kw)


@pytest.mark.parametrize("missing", [1e-6, 1e-8, 1e-9, 1e-12])
def test_a_step_that_leaves_nearly_nothing_is_not_said_to_leave_less(missing) -> None:
    """The exact risk of one step on a parabola: the bound was 0 where 1 - step_size is 1e-9, and 0.013 % too small at 1e-6."""
    step = 1 - missing
    exact = float((1 - Fraction(step)) ** 2) * 1e16 / 2
    bound = langevin_risk(1, step, 0.0, d=1, distance=1e8, smoothness=1.0, strong_convexity=1.0)
    assert exact <= bound <= 1.01 * exact + 3.0


@pytest.mark.parametrize("decaying", [False, True])
def test_the_noise_is_private_with_full_batches(decaying) -> None:
    n, steps, m, smooth = 500, 40, 0.05, 0.3
    s = langevin_noise(n, 1.0, 1e-5, 1.0, m)
    eta = langevin_step_sizes(steps, smooth, m) if decaying else np.full(steps, 1 / (2 * smooth))
    run = dp.Run(
        n=n,
        sampling=dp.FullBatch(),
        steps=steps,
        step_size=tuple(eta.tolist()),
        noise_multiplier=tuple((s * np.sqrt(2 / eta) * n).tolist()),
        smoothness=smooth,
        strong_convexity=m,
        adjacency="replace",
        released="last",
    )
    assert 0 < dp.account(run, delta=1e-5).epsilon < 1


@pytest.mark.parametrize("seed", range(12))
def test_batches_that_are_only_convex_against_exact_moments(seed: int) -> None:
    """Batches of curvatures between 0 and M on a line: the mean and the mean square of the iterate, step by step."""
    rng = np.random.default_rng(seed)
    chances, h, b = rng.dirichlet(np.ones(4)), rng.uniform(0, 2, 4) * rng.integers(0, 2, 4), rng.normal(size=4)
    h[0], M = rng.uniform(0.1, 2), 2.0
    b -= chances @ b
    eta, s, mean = rng.uniform(0.01, 0.99) / M, float(rng.choice([0.0, 0.3])), float(rng.normal())
    square, start = mean**2, abs(mean)
    for steps in range(1, 30):
        square = (
            float(chances @ ((1 - eta * h) ** 2 * square - 2 * eta * b * (1 - eta * h) * mean + (eta * b) ** 2)) + 2 * eta * s**2
        )
        mean *= float(chances @ (1 - eta * h))
        bound = langevin_risk(
            steps, eta, s, d=1, distance=start, smoothness=M, strong_convexity=float(chances @ h), variance=float(chances @ b**2),
            convex_batches=True,
        )  # fmt: skip
        assert M / 2 * square <= bound * (1 + 1e-12)
    m = float(chances @ h)
    kept, added = 1 - 2 * eta * m * (1 - eta * M), eta * float(chances @ b**2) + s**2
    assert bound == pytest.approx(M / 2 * (kept**29 * start**2 + (1 - kept**29) * added / (m * (1 - eta * M))))


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: langevin_noise(100, 1.0, 1.0, 1.0, 0.1), "delta is 1"),
        (lambda: langevin_renyi_noise(100, 2.0, 1e-200, 1.0, 0.1), "epsilon is 1e-200"),
        (lambda: langevin_renyi_noise(100, 2.0, 1.0, 1.0, 1e-200), "strong_convexity is 1e-200"),
        (lambda: langevin_steps(100, 3, 1.0, 1.0, 1.0, 0.1), "delta is 1"),
        (lambda: langevin_step_sizes(10, 1.0, 2.0), "strong_convexity 2 exceeds smoothness 1"),
        (lambda: langevin_risk(1, 1.0, 0.0, d=1, distance=1.0, smoothness=1.0, strong_convexity=1.5), "exceeds smoothness"),
        (lambda: langevin_risk(1, 1.0, 0.0, d=1, distance=1.0, smoothness=1.5, strong_convexity=0.5), "is not below 2/"),
        (
            lambda: langevin_risk(1, 0.5, 0.0, d=1, distance=1.0, smoothness=2.0, strong_convexity=0.5, convex_batches=True),
            "is not below 1/smoothness = 0.5",
        ),
        (lambda: langevin_steps_decaying(10**9, 1, 10.0, 1e-5, 1.0, 1e-9), "the theorem asks for"),
        (lambda: poisson_gradient_variance(10, 11, 1.0), "batch_size 11 exceeds n = 10"),
        (lambda: poisson_smoothness(10, 11, 1.0, 0.1), "batch_size 11 exceeds n = 10"),
    ],
)
def test_where_no_theorem_holds_there_is_no_number(ask, words: str) -> None:
    with pytest.raises(dp.InputError, match=words):
        ask()


def one_step(eta, s, d, distance, smooth, convex, variance, convex_batches):
    """The theorem after one step, in exact numbers; None where the step is too long for it."""
    eta, s, distance, smooth, convex, variance = map(Fraction, (eta, s, distance, smooth, convex, variance))
    room = 1 - eta * smooth if convex_batches else 2 - eta * (smooth + convex)
    if room <= 0:
        return None
    if convex_batches:
        return smooth / 2 * ((1 - 2 * eta * convex * room) * distance**2 + 2 * eta**2 * variance + 2 * eta * d * s**2)
    left = 1 - eta * convex
    return smooth / 2 * (left**2 * distance**2 + 2 * left / room * eta**2 * variance + 2 * eta * d * s**2)


@pytest.mark.parametrize("convex_batches", [False, True])
def test_next_to_the_longest_step_rounding_is_on_the_safe_side(convex_batches) -> None:
    """There the variance counts without end, and a rounded difference would be any number."""
    rng, refused = np.random.default_rng(5), 0
    for _ in range(400):
        smooth = float(10 ** rng.uniform(-3, 3))
        convex = smooth * float(rng.choice([1.0, 0.5, 1e-3, 1e-9]))
        eta = 1 / smooth if convex_batches else 2 / (smooth + convex)
        eta *= 1 + float(rng.choice([-1e-9, -1e-14, -4e-16, -2e-16, 0.0]))
        distance, s, variance = (float(value) for value in rng.choice([0.0, 1.0, 0.3], 3))
        true = one_step(eta, s, 3, distance, smooth, convex, variance, convex_batches)
        given = {"d": 3, "distance": distance, "smoothness": smooth, "strong_convexity": convex, "variance": variance}
        try:
            said = langevin_risk(1, eta, s, convex_batches=convex_batches, **given)
        except dp.InputError:
            refused += 1
            assert true is None or eta * smooth > 1 - 1e-12 or eta * (smooth + convex) > 2 - 1e-12
            continue
        assert true is not None
        assert Fraction(said) >= true
    assert 0 < refused < 400


@pytest.mark.parametrize(
    ("ask", "expected"),
    [
        (lambda: langevin_steps(10, 10, 1e-200, 1e-5, 1.0, 0.1), 1),
        (lambda: langevin_steps(10, 10, 1e200, 1e-5, 1.0, 0.1), "asks for inf steps"),
        (lambda: langevin_steps_decaying(10**100, 10, 1.0, 1e-5, 1.0, 0.1), "asks for inf steps"),
        (lambda: langevin_risk(1, 1.0, 1.0, d=1, distance=1e200, smoothness=1.0, strong_convexity=0.5), "distance is 1e"),
        (lambda: langevin_risk(1, 1.0, 1e200, d=1, distance=1.0, smoothness=1.0, strong_convexity=0.5), "noise is 1e"),
        (lambda: langevin_risk(1, 1e-200, 1.0, d=1, distance=1.0, smoothness=1.0, strong_convexity=0.5), "step_size is 1e"),
        (lambda: langevin_risk(1, 1.0, 1.0, d=1, distance=1.0, smoothness=1.0, strong_convexity=1e-200), "strong_convexity is 1e"),
        (lambda: poisson_gradient_variance(10, 5, 1e200), "lipschitz is 1e"),
        (lambda: langevin_risk(0, 1.0, 1e100, d=10**100, distance=2.0, smoothness=0.5, strong_convexity=0.5), 1.0),
    ],
)
def test_numbers_whose_squares_are_none_end_in_one_line(ask, expected) -> None:
    if isinstance(expected, str):
        with pytest.raises(dp.InputError, match=expected):
            ask()
    else:
        assert ask() == pytest.approx(expected)
