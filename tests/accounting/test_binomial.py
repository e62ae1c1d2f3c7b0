"""Tails of the binomial distribution against exact sums."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest

from dplateau.accounting import binomial


def exact(k, n, rate):
    """P[Bin(n, rate) = k] for k in a range, exactly."""
    p = Fraction(rate)
    return float(sum(comb(n, j) * p**j * (1 - p) ** (n - j) for j in k))


@pytest.mark.parametrize(("n", "rate"), [(1, 0.25), (7, 0.5), (60, 0.03125), (200, 0.125)])
def test_tails_are_exact_and_rounded_up(n, rate):
    for k in range(-1, n + 2):
        above, below = exact(range(max(k + 1, 0), n + 1), n, rate), exact(range(max(min(k, n + 1), 0)), n, rate)
        assert above * (1 - 1e-12) <= float(binomial.more_than(k, n, rate)) <= above * (1 + 3e-6)
        assert below * (1 - 1e-12) <= float(binomial.fewer_than(k, n, rate)) <= below * (1 + 3e-6)
    assert float(binomial.more_than(2.7, n, rate)) == float(binomial.more_than(2, n, rate))
    assert float(binomial.fewer_than(2.2, n, rate)) == float(binomial.fewer_than(3, n, rate))


@pytest.mark.parametrize("tail", [1e-2, 1e-6, 1e-20])
def test_sizes_are_the_closest_that_are_safe(tail):
    rates = np.array([0.001, 0.1, 0.9])
    low, high = binomial.fewest(1000, rates, tail), binomial.most(1000, rates, tail)
    assert (binomial.fewer_than(low, 1000, rates) <= tail).all()
    assert (binomial.fewer_than(low + 1, 1000, rates) > tail).all()
    assert (binomial.more_than(high, 1000, rates) <= tail).all()
    assert (binomial.more_than(high - 1, 1000, rates) > tail).all()


def test_sizes_beyond_whole_numbers_of_double_precision_are_found():
    for n in (2**53 + 2, 10**17, 10**30):
        assert float(binomial.fewest(n, 0.5, 1e-6)) == pytest.approx(n / 2, rel=1e-6)
        assert float(binomial.most(n, 0.5, 1e-6)) == pytest.approx(n / 2, rel=1e-6)
