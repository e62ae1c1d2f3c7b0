"""The taut string in rational numbers: what is least, that nothing is less, and published closed forms, without a rounding."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dplateau.accounting.taut_string import taut_string
from dplateau.analyses import last_uses
from dplateau.analyses.last_uses import ConstantSteps, rounded_mu

from .exact_strings import by_segments, noisy_cgd, noisy_gd, rational, wrapped

DIGITS = 1e-12
"""What double precision may lose of strings whose numbers are within a factor of 100: short ones take differences of sums."""
strings = st.integers(1, 8).flatmap(
    lambda k: st.tuples(
        st.lists(st.one_of(st.just(0.0), st.floats(0.1, 10.0)), min_size=k, max_size=k),
        st.lists(st.one_of(st.just(0.0), st.floats(0.1, 10.0)), min_size=k, max_size=k),
    )
)


@settings(max_examples=150, deadline=None)
@given(strings)
def test_the_least_of_all_segmentations(string):
    rise, room = map(rational, string)
    least, _ = wrapped(rise, room)
    assert least == by_segments(rise, room)
    found = float(taut_string(np.array(string[0]), np.array(string[1])))
    if least == math.inf:
        assert found == math.inf
        return
    assert found == pytest.approx(float(least), rel=DIGITS)
    # More than six jumps take another path: leading ones of nothing change nothing.
    long = [np.append(np.zeros(7), part) for part in string]
    long[1][0] = 1.0
    assert float(taut_string(*long)) == pytest.approx(float(wrapped(*map(rational, long))[0]), rel=DIGITS)


@settings(max_examples=100, deadline=None)
@given(strings)
def test_nothing_costs_less(string):
    """Weak duality: ``a^2/r >= 2 x a - x^2 r``, so with slopes x that do not fall every legal a costs at least the sum below."""
    rise, room = map(rational, string)
    least, slopes = wrapped(rise, room)
    if least == math.inf:
        return
    assert all(before <= after for before, after in pairwise(slopes))
    # Legal: never more absorbed than has arrived, and all of it in the end.
    arrived = absorbed = Fraction(0)
    for jump, space, steep in zip(rise, room, slopes, strict=True):
        arrived, absorbed = arrived + jump, absorbed + steep * space
        assert absorbed <= arrived
    assert absorbed == arrived
    assert least == sum(steep**2 * space for steep, space in zip(slopes, room, strict=True))
    # By Abel's summation, sum x a >= sum x rise for all that is legal.
    assert least == sum(2 * steep * jump - steep**2 * space for jump, space, steep in zip(rise, room, slopes, strict=True))


@pytest.mark.parametrize("c", [Fraction(7, 8), Fraction(1, 3), Fraction(99, 100)])
@pytest.mark.parametrize("steps", [1, 2, 9, 40])
def test_noisy_gd_of_bok_su_altschuler(c, steps, monkeypatch):
    rise, room = [c**t for t in range(steps - 1, -1, -1)], [c ** (2 * t) for t in range(steps - 1, -1, -1)]
    square = noisy_gd(c, steps)
    assert wrapped(rise, room)[0] == square
    assert float(taut_string(*(np.array(part, dtype=float) for part in (rise, room)))) == pytest.approx(float(square), rel=DIGITS)
    equal = ConstantSteps(float(c), 1.0, 1.0, math.inf, 1, steps)
    monkeypatch.setattr(last_uses, "ROUND_OFF", 0.0)
    assert float(equal.cost(np.asarray(0.0), np.asarray(1.0), steps)) == pytest.approx(
        float(rounded_mu(float(square), steps)), rel=1e-12
    )


@pytest.mark.parametrize("c", [Fraction(7, 8), Fraction(1, 3), Fraction(99, 100)])
@pytest.mark.parametrize(("length", "epochs"), [(2, 6), (3, 1), (3, 7), (5, 4)])
def test_noisy_cgd_of_bok_su_altschuler(c, length, epochs, monkeypatch):
    steps = length * epochs
    weights = [c**t for t in range(steps - 1, -1, -1)]
    room = [w**2 for w in weights]
    square = noisy_cgd(c, length, epochs)
    costs = [wrapped([w * (t % length == place) for t, w in enumerate(weights)], room)[0] for place in range(length)]
    assert max(costs) == costs[-1] == square
    equal = ConstantSteps(float(c), 1.0, 1.0, math.inf, length, steps)
    monkeypatch.setattr(last_uses, "ROUND_OFF", 0.0)
    assert float(equal.cost(np.asarray(0.0), np.asarray(float(length)), epochs)) == pytest.approx(
        float(rounded_mu(float(square), steps)), rel=1e-12
    )


def test_one_pass_of_feldman_koren_talwar():
    """Theorem 3.1, at c = 1: the squared gap over the variance of all steps from it on."""
    rng = np.random.default_rng(5)
    gaps, variances = rational(rng.exponential(size=12)), rational(rng.exponential(size=12))
    for place, gap in enumerate(gaps):
        rise = [gap * (t == place) for t in range(12)]
        square = gap**2 / sum(variances[place:])
        assert wrapped(rise, variances)[0] == square
        found = taut_string(np.array(rise, dtype=float), np.array(variances, dtype=float))
        assert float(found) == pytest.approx(float(square), rel=DIGITS)
