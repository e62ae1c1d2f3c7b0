"""The taut string against brute force, and the steps with a shift against direct integration."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, minimize

from dplateau.accounting.taut_string import taut_string

sizes = st.floats(0.01, 10.0)
strings = st.integers(1, 9).flatmap(
    lambda k: st.tuples(st.lists(sizes, min_size=k, max_size=k), st.lists(sizes, min_size=k, max_size=k))
)


def brute_force(rise: np.ndarray, room: np.ndarray) -> float:
    """Absorb in each stretch what was not absorbed before, at the least sum of squares."""
    count = len(rise)
    lower = np.tril(np.ones((count, count)))
    limits = np.cumsum(rise)
    constraint = LinearConstraint(lower, np.append(np.zeros(count - 1), limits[-1]), limits)
    start = rise.astype(float)
    found = minimize(
        lambda a: (a**2 / room).sum(),
        start,
        jac=lambda a: 2 * a / room,
        bounds=[(0, None)] * count,
        constraints=[constraint],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    return float(found.fun)


@settings(max_examples=60, deadline=None)
@given(strings)
def test_the_string_is_the_cheapest_way(string):
    rise, room = (np.array(part) for part in string)
    least = float(taut_string(rise, room))
    # The optimiser stays a little above the minimum, and may break its constraints by a rounding.
    assert least <= brute_force(rise, room) * (1 + 1e-6)
    assert least >= brute_force(rise, room) * (1 - 1e-4)


@pytest.mark.parametrize("count", [2, 6, 7, 40])
def test_small_jumps_and_rooms_after_large_ones_keep_their_digits(count):
    scale = 10.0 ** -np.linspace(0, 10, count)
    # Slopes rise, so every jump is absorbed at once.
    assert float(taut_string(scale, scale**2 / 3)) == pytest.approx(3 * count, rel=1e-12)
    large = np.append(1e20, np.full(count - 1, 0.3))
    assert float(taut_string(np.ones(count), large)) == pytest.approx((count - 1) / 0.3, rel=1e-12)


@given(strings, st.integers(0, 8), sizes)
def test_moving_a_jump_later_or_enlarging_it_never_helps(string, place, more):
    rise, room = (np.array(part) for part in string)
    place %= len(rise)
    cost = float(taut_string(rise, room))
    larger, later = rise.copy(), rise.copy()
    larger[place] += more
    target = min(place + 1, len(rise) - 1)
    later[target] += later[place] if target != place else 0.0
    later[place] = 0.0 if target != place else later[place]
    assert float(taut_string(larger, room)) >= cost * (1 - 1e-9)
    assert float(taut_string(later, room)) >= cost * (1 - 1e-9)


@given(strings)
def test_short_and_long_strings_agree(string):
    rise, room = (np.array(part) for part in string)
    padded = np.append(np.zeros(7), rise), np.append(np.zeros(7), room)
    assert float(taut_string(*padded)) == pytest.approx(float(taut_string(rise, room)), rel=1e-9)


def test_rows_are_solved_side_by_side():
    rng = np.random.default_rng(0)
    rise, room = rng.exponential(size=(5, 4, 3)), rng.exponential(size=(5, 4, 3))
    whole = taut_string(rise, room)
    assert whole.shape == (5, 4)
    assert whole[2, 1] == pytest.approx(float(taut_string(rise[2, 1], room[2, 1])))


@pytest.mark.parametrize("count", [3, 12])
def test_a_jump_without_room_waits_for_the_next_one(count):
    rise, room = np.ones(count), np.ones(count)
    room[1] = 0.0
    merged_rise, merged_room = np.delete(rise, 1), np.delete(room, 1)
    merged_rise[1] += rise[1]
    assert float(taut_string(rise, room)) == pytest.approx(float(taut_string(merged_rise, merged_room)))


@pytest.mark.parametrize("count", [3, 12])
def test_a_last_jump_without_room_costs_infinitely_much(count):
    room = np.ones(count)
    room[-1] = 0.0
    assert float(taut_string(np.ones(count), room)) == math.inf
    assert float(taut_string(np.zeros(count), room)) == 0.0


def test_equal_steps_with_rising_slopes_are_absorbed_one_by_one():
    rise, room = np.arange(1.0, 11.0), np.ones(10)
    assert float(taut_string(rise, room)) == pytest.approx(float((rise**2).sum()))
    assert float(taut_string(rise[::-1], room)) == pytest.approx(rise.sum() ** 2 / 10)
