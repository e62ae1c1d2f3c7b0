# pyright: basic
"""The bound on the last iterate: against its inequalities written out, exact walks, and the theorems that it replaces."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dplateau.spec import InputError
from dplateau.utility import last_iterate_risk

SLACK = 1 + 1e-9


def written_out(
    eta: np.ndarray, noise: np.ndarray, distance: float, m: float, M: float | None, slope: float, omega: float
) -> float:
    """The bound for one weight of the last iterate, from the definitions: O(T^2), nothing scaled, nothing rearranged."""
    T = len(eta)
    gamma = np.cumprod(1 / (1 - m * eta))
    b = 1 - (M or 0.0) * eta
    v = np.full(T + 1, math.nan)  # v_0, ..., v_T
    v[T] = 1.0
    for s in range(T, 0, -1):
        total = sum(gamma[t - 1] * eta[t - 1] * v[t] for t in range(s, T + 1)) + omega * gamma[-1] / v[T]
        v[s - 1] = v[s] - gamma[s - 1] * eta[s - 1] * b[s - 1] * v[s] ** 2 / total
    assert (v > 0).all()
    assert (np.diff(v) >= 0).all()
    # z_t = sum over s of share[t, s] x_s, where s = 0 stands for x*.
    share = np.zeros((T + 1, T + 1))
    share[0, 0] = 1
    for t in range(1, T + 1):
        share[t] = v[t - 1] / v[t] * share[t - 1]
        share[t, t] += 1 - v[t - 1] / v[t]
    np.testing.assert_allclose(share.sum(axis=1), 1)
    left = np.zeros(T + 2)  # the coefficients of the excess of x_1, ..., x_{T+1}
    right = 0.5 * v[0] ** 2 * distance**2
    for t in range(1, T + 1):
        weight = gamma[t - 1] * eta[t - 1] * v[t] ** 2
        left[t] += weight * b[t - 1]
        left[: T + 1] -= weight * share[t]
        right += 0.5 * weight * eta[t - 1] * noise[t - 1]
    weight = omega * gamma[-1]  # F(x_{T+1}) - F(z_T) <= |g| r - m r^2/2, r^2 taken from the last step's inequality
    steepness = m + gamma[-1] * v[T] ** 2 / weight
    left[: T + 1] -= weight * share[T]
    left[T + 1] = weight
    if M is None:
        right += weight * slope / (2 * steepness)
    else:
        left[T + 1] -= weight * M / steepness
    assert (left[1 : T + 1] >= -1e-12).all()
    return right / left[T + 1] if left[T + 1] > 0 else math.inf


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("m", [0.0, 0.4])
@pytest.mark.parametrize("seed", range(4))
def test_is_the_least_of_what_the_inequalities_give(seed: int, m: float, smooth: bool) -> None:
    rng = np.random.default_rng(seed)
    T = int(rng.integers(1, 12))
    eta, noise, distance = 10 ** rng.uniform(-1.5, 0, T), rng.uniform(0.1, 2, T), float(rng.uniform(0.2, 3))
    M = 0.9 if smooth else None
    slope = float(noise.min())
    weights = np.geomspace(1e-5, 1e3, 400)
    least = min(written_out(eta, noise, distance, m, M, slope, w) for w in weights)
    if m and not smooth:
        least = min(least, slope / (2 * m))  # the limit of a large weight
    bound = last_iterate_risk(eta, noise, distance, strong_convexity=m, smoothness=M)
    assert least * (1 - 2e-3) <= bound <= least * (1 + 1e-4)


def last_points(
    gradient: Callable, offsets: np.ndarray, chances: np.ndarray, eta: np.ndarray, start: float, low: float, high: float
):
    """All last iterates of a walk on a line whose gradient noise takes finitely many values, with their probabilities."""
    x, p = np.array([start]), np.array([1.0])
    for size in eta:
        g = gradient(x)[:, None] + offsets
        x = np.clip(x[:, None] - size * g, low, high).ravel()
        p = (p[:, None] * chances).ravel()
    return x, p


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10**6))
def test_never_below_an_exact_walk_on_a_smooth_function(seed: int) -> None:
    rng = np.random.default_rng(seed)
    M = float(rng.uniform(0.3, 3))
    m = float(rng.choice([0.0, 0.3])) * M
    knee = float(rng.uniform(0.05, 2))  # of a Huber function with minimum 0 at 0

    def f(x: np.ndarray) -> np.ndarray:
        inner = np.minimum(np.abs(x), knee)
        return (M - m) * (inner**2 / 2 + knee * (np.abs(x) - inner)) + m / 2 * x**2

    def gradient(x: np.ndarray) -> np.ndarray:
        return (M - m) * np.clip(x, -knee, knee) + m * x

    low, high = -float(rng.uniform(0, 2)), float(rng.uniform(0, 2))
    chance, size = float(rng.uniform(0.05, 0.95)), float(rng.uniform(0, 2))
    offsets, chances = np.array([size * (1 - chance), -size * chance]), np.array([chance, 1 - chance])
    T = int(rng.integers(1, 10))
    eta = rng.uniform(0.02, 1, T) / M
    start = float(rng.choice([low, high]))
    x, p = last_points(gradient, offsets, chances, eta, start, low, high)
    variance = size**2 * chance * (1 - chance)
    assert float(p @ f(x)) <= SLACK * last_iterate_risk(eta, variance, abs(start), strong_convexity=m, smoothness=M) + 1e-12


@pytest.mark.parametrize(("d", "sigma"), [(1, 1.0), (50, 0.2)])
def test_is_close_to_the_truth_on_a_quadratic(d: int, sigma: float) -> None:
    """Noisy gradient descent on ``|x|^2/2``: the mean square of the iterate is known. The bound is above it, and not far."""
    T, distance = 400, 2.0
    for scale in (0.05, 0.3, 1.0):
        eta = scale * np.arange(T, 0, -1) / T
        square = distance**2
        for size in eta:
            square = (1 - size) ** 2 * square + size**2 * d * sigma**2
        bound = last_iterate_risk(eta, d * sigma**2, distance, strong_convexity=1.0, smoothness=1.0)
        assert square / 2 <= bound <= 8 * square / 2


def test_strong_convexity() -> None:
    T = 1_000
    eta = 2 / (0.5 * (T + 2 - np.arange(1, T + 1))) * 0.2
    assert last_iterate_risk(eta, 1.0, 5.0, strong_convexity=0.5) < 0.5 * last_iterate_risk(eta, 1.0, 5.0)
    # Steps 1/(m t) forget the start: without noise nothing is left of it.
    eta = 1 / (0.5 * np.arange(1, T + 1))
    far, near = (last_iterate_risk(eta, 1.0, reach, strong_convexity=0.5) for reach in (1e3, 1.0))
    assert far == pytest.approx(near, rel=1e-3)
    assert near < (1 + math.log(T)) / (0.5 * T) * 2
    for reach in (1e-3, 1e3):  # more is known: no worse
        for m in (1e-6, 1e-2, 1.0):
            sizes = np.linspace(1, 0.1, 30) * 0.3
            assert last_iterate_risk(sizes, 1.0, reach, strong_convexity=m) <= last_iterate_risk(sizes, 1.0, reach) * (1 + 1e-6)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(1e-3, 1.0), min_size=1, max_size=40),
    st.floats(0.01, 10),
    st.floats(0.01, 10),
    st.floats(1.0, 3.0),
    st.sampled_from([None, 0.5, 1.0]),
    st.sampled_from([0.0, 0.2]),
)
def test_monotone_and_homogeneous(
    eta: list[float], noise: float, distance: float, factor: float, smoothness: float | None, m: float
) -> None:
    def risk(noise: float, distance: float, scale: float = 1.0) -> float:
        """Lengths times ``scale``; gradients stay as they are."""
        M = None if smoothness is None else smoothness / scale
        return last_iterate_risk(np.array(eta) * scale, noise, distance * scale, strong_convexity=m / scale, smoothness=M)

    base = risk(noise, distance)
    assert 0 < base < math.inf
    assert risk(noise * factor, distance) >= base * (1 - 1e-4)
    assert risk(noise, distance * factor) >= base * (1 - 1e-4)
    assert risk(noise, distance, factor) == pytest.approx(base * factor, rel=1e-4)


def test_a_smaller_slope_of_the_function_helps() -> None:
    eta = np.full(50, 0.1)
    assert last_iterate_risk(eta, 4.0, 1.0, lipschitz=1.0) < last_iterate_risk(eta, 4.0, 1.0)
    assert last_iterate_risk(eta, 4.0, 1.0, lipschitz=9.0) == last_iterate_risk(eta, 4.0, 1.0)
    assert last_iterate_risk(eta, [4.0] * 50, 1.0) == last_iterate_risk(eta, 4.0, 1.0)


def test_smooth_functions_without_noise() -> None:
    T = 100
    assert last_iterate_risk(np.full(T, 1.0), 0.0, 2.0, smoothness=1.0) < math.inf
    assert last_iterate_risk(np.full(T, 0.5), 0.0, 2.0, smoothness=1.0) < 4 / (T**0.5)
    assert last_iterate_risk(np.full(T, 0.5), 0.0, 0.0, smoothness=1.0) == 0
    assert last_iterate_risk(np.full(T, 1.0 + 1e-9), 0.0, 2.0, smoothness=1.0) == math.inf


def test_noise_may_come_from_an_iterator() -> None:
    assert last_iterate_risk([0.1, 0.2], iter([1.0, 2.0]), 1.0) == last_iterate_risk([0.1, 0.2], [1.0, 2.0], 1.0)
    with pytest.raises(InputError, match="noise has 1 entries, step_sizes 2"):
        last_iterate_risk([0.1, 0.2], iter([1.0]), 1.0)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([], 1.0, 1.0), {}, "step_sizes has shape"),
        (([0.1, -0.1], 1.0, 1.0), {}, r"step_sizes\[1\] is -0.1"),
        (([0.1, math.nan], 1.0, 1.0), {}, "finite"),
        (([0.1, 0.1], [1.0, 1.0, 1.0], 1.0), {}, "noise has 3 entries, step_sizes 2"),
        (([0.1, 0.1], {1.0, 2.0, 3.0}, 1.0), {}, "noise has 3 entries, step_sizes 2"),
        (([0.1, 1e-200], 1.0, 1.0), {}, "beyond 1e"),
        (([0.1], -1.0, 1.0), {}, "noise is -1"),
        (([0.1], 1.0, -1.0), {}, "distance is -1"),
        (([0.1], 1.0, 1.0), {"strong_convexity": 2.0, "smoothness": 1.0}, "no function has both"),
        (([0.1], 1.0, 1.0), {"lipschitz": 2.0, "smoothness": 1.0}, "both given"),
    ],
)
def test_bad_input(arguments: tuple, options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        last_iterate_risk(*arguments, **options)
