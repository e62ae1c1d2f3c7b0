# pyright: basic
"""Fixed steps on strongly convex functions, and the growing batches: formulas, privacy of the schedules, limits."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dplateau.spec import InputError
from dplateau.utility import (
    DECAYING_STEPS,
    FIXED_STEPS,
    jnn_step_sizes,
    snowball_batch_sizes,
    snowball_root,
    snowball_steps,
)
from dplateau.utility.fixed_step_strongly_convex import start_weight

RHO = st.floats(0.01, 20)
DIMENSION = st.integers(1, 10**5)


def test_halving_steps_by_hand() -> None:
    # T = 8: T_i = 0, 4, 6, 7, then 8.
    expected = np.array([1, 1, 1, 1, 0.5, 0.5, 0.25, 0.125]) * 3 / math.sqrt(8)
    np.testing.assert_allclose(jnn_step_sizes(8, 3.0), expected)
    np.testing.assert_allclose(jnn_step_sizes(1, 3.0), [3.0])
    # T = 5: ceil(5/2) = 3, ceil(5/4) = 2, ceil(5/8) = 1, so T_i = 0, 2, 3, 4.
    np.testing.assert_allclose(jnn_step_sizes(5, 1.0), np.array([1, 1, 0.5, 0.25, 0.125]) / math.sqrt(5))


@given(st.integers(1, 3_000))
def test_halving_steps_lie_between_two_lines(T: int) -> None:
    """The two inequalities on which the privacy of the schedule and our constant 4 rest."""
    eta, left = jnn_step_sizes(T, 1.0) * T**1.5, T - np.arange(1, T + 1)
    assert len(eta) == T
    assert (eta >= left * (1 - 1e-12)).all()
    assert (eta[:-1] <= 2 * left[:-1] * (1 + 1e-12)).all()
    assert eta[-1] <= 1 + 1e-12


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 500), DIMENSION, RHO, st.sampled_from([FIXED_STEPS, DECAYING_STEPS]))
def test_batches_have_the_privacy_that_they_are_for(T: int, d: int, rho: float, factor: float) -> None:
    sizes = snowball_batch_sizes(T, d, rho, factor)
    eta = np.full(T, 0.3) if factor == FIXED_STEPS else jnn_step_sizes(T, 0.3)
    # A record of step t moves the iterate by 2 eta L/B, and the noise of steps t, ..., T covers it.
    noise = np.sqrt(np.cumsum((eta**2 / d)[::-1])[::-1])
    assert (2 * eta / sizes / noise).max() <= rho * (1 + 1e-9)
    assert sizes.sum() <= T + 2 * factor * math.sqrt(d * T) / rho
    assert (np.diff(sizes) >= 0).all()
    n = int(sizes.sum())
    assert 1 / math.sqrt(T) <= snowball_root(n, d, rho, factor) * (1 + 1e-12)
    assert snowball_root(n, d, rho, factor) <= 1 / math.sqrt(n) + 2 * factor * math.sqrt(d) / (rho * n)
    if n < 10**6:
        assert snowball_steps(n, d, rho, factor) == T
        assert snowball_steps(n + int(sizes[0]) - 1, d, rho, factor) in (T, T + 1)


def test_too_few_records_for_a_batch() -> None:
    with pytest.raises(InputError, match="fewer than the last batch needs"):
        snowball_steps(10, 10_000, 0.1)
    with pytest.raises(InputError, match="least is 0"):
        snowball_steps(100, 3, 1.0, least=0)


def test_a_step_in_the_proof_of_theorem_5_4_is_false() -> None:
    """From ``n <= T + b sqrt(T)`` it concludes ``T >= min(n, n^2/b^2)/2``; the sum in its result is right all the same."""
    T = 10_000
    b = 1.5 * math.sqrt(T)
    n = T + b * math.sqrt(T)
    assert min(n, n**2 / b**2) / 2 > T
    d, rho = 10_000, 4 * 100 / b
    assert snowball_root(int(n), d, rho) ** 2 == pytest.approx(1 / T)
    assert 2 * T * (1 / n + 16 * d / (rho * n) ** 2) >= 1


def test_batches_beyond_exact_numbers_and_steps_beyond_the_curvature_are_refused() -> None:
    assert snowball_batch_sizes(1, 1, 2.0**-52).tolist() == [2**53]
    with pytest.raises(InputError, match=r"more than 2\^53 records"):
        snowball_batch_sizes(1, 1, 2.0**-53)
    for step in (1.0, 2.0):
        with pytest.raises(InputError, match="expected less than 1"):
            start_weight(3, step, 1.0)
    # The limit without curvature, from nearby.
    assert start_weight(7, 0.3, 0.0) == pytest.approx(start_weight(7, 0.3, 1e-9), rel=1e-6)


@pytest.mark.parametrize("missing", [1e-3, 1e-6, 1e-9, 1e-12, 1e-15, 2.0**-52])
def test_a_step_that_leaves_nearly_nothing_of_the_start_is_not_said_to_leave_less(missing) -> None:
    """``(m/2)/(1/(1 - eta m) - 1)`` in exact numbers: 1 - eta m has few digits left."""
    for m in (1.0, 0.3, 3.0, 0.7, 7.3):
        eta = (1 - missing) / m
        left = 1 - Fraction(eta) * Fraction(m)
        if left > 0 and eta * m < 1:
            true = Fraction(m) / 2 * left / (1 - left)
            assert float(true) * (1 - 1e-14) <= start_weight(1, eta, m) <= float(true) * (1 + 1e-14) + m * 2.0**-51
