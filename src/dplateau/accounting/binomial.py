"""Tails of the binomial distribution, rounded up, and the sizes beyond which they are small."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from scipy.special import betainc, betaincc

from dplateau.accounting.gaussian import Array

_UP: Final = 1 + 1e-6
"""Room for the rounding of the incomplete beta function."""


def more_than(k: Array | float, n: int, rate: Array | float) -> Array:
    """``P[Bin(n, rate) > k]``, rounded up; arrays are broadcast."""
    k = np.floor(k)
    inside = np.clip(k, 0, n - 1)
    value = np.minimum(betainc(inside + 1, n - inside, rate) * _UP, 1.0)
    return np.where(k < 0, 1.0, np.where(k >= n, 0.0, value))


def fewer_than(k: Array | float, n: int, rate: Array | float) -> Array:
    """``P[Bin(n, rate) < k]``, rounded up; arrays are broadcast."""
    k = np.ceil(k)
    inside = np.clip(k, 1, n)
    value = np.minimum(betaincc(inside, n - inside + 1, rate) * _UP, 1.0)
    return np.where(k <= 0, 0.0, np.where(k > n, 1.0, value))


def fewest(n: int, rate: Array | float, tail: float) -> Array:
    """The largest k with ``P[Bin(n, rate) < k] <= tail``."""
    return _last(lambda k: fewer_than(k, n, rate) <= tail, n, np.shape(rate))


def most(n: int, rate: Array | float, tail: float) -> Array:
    """The least k with ``P[Bin(n, rate) > k] <= tail``."""
    return n - _last(lambda k: more_than(n - k, n, rate) <= tail, n, np.shape(rate))


def _last(holds: Callable[[Array], Array], n: int, shape: tuple[int, ...]) -> Array:
    """The last of 0, ..., n for which a condition holds that holds from 0 on up to somewhere."""
    low, high = np.zeros(shape), np.full(shape, n + 1.0)
    while (((middle := np.floor((low + high) / 2)) > low) & (middle < high)).any():  # neighbours beyond 2^53 are not 1 apart
        good = holds(middle)
        low, high = np.where(good, middle, low), np.where(good, high, middle)
    return low
