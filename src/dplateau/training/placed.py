"""Columns of plain numbers become rows in the compiled loop: placed in their ranges and scaled to one length, in the cache.

The result is that of ``dplateau.data.encode`` to the last bit, wherever a row stands. A compiler may compute a value several times,
round a product together with the sum that it feeds, and make of a quotient by one number for many a product with its inverse. So
every product that feeds a sum is exact here (twice a number, the square of one in single precision), inverses are taken before, and
the sum of squares is made in one fixed order.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dplateau.spec.columns import Placing
from dplateau.training.integers import Array

_LANES = 8
_LEAF = 128
"""NumPy adds up so many numbers at once, in so many sums side by side; of more it adds up two halves."""


class Ranges(NamedTuple):
    """The numbers of a ``Placing``: ``low``, ``high``, ``width`` and its ``inverse``, shape (p, 1), ``constant`` and ``length``."""

    low: Array
    high: Array
    width: Array
    inverse: Array
    constant: Array
    length: Array


class Layout(NamedTuple):
    """The rest of a ``Placing``, which a loop is compiled for: the features that are not always zero, and how many there are."""

    places: tuple[int, ...]
    d: int


def ranges_of(placing: Placing) -> tuple[Ranges, Layout]:
    """The public numbers of a ``Placing``, for the compiled loop."""
    low, high = (np.array(ends, np.float64)[:, None] for ends in (placing.low, placing.high))
    last = (placing.d - 1,) if placing.constant else ()
    numbers = Ranges(low, high, high - low, 1 / (high - low), np.float32(placing.constant), np.float64(placing.length))
    return numbers, Layout(placing.places + last, placing.d)


def placed(columns: Array, ranges: Ranges, layout: Layout) -> Array:
    """Columns, shape (p, n), as the features that are not always zero: shape (len(places), n), float32."""
    wide = jnp.clip(columns.astype(jnp.float64), ranges.low, ranges.high)
    places = (((wide - ranges.low) * 2 - ranges.width) * ranges.inverse).astype(jnp.float32)
    if len(layout.places) > len(places):
        places = jnp.concatenate([places, jnp.full((1, places.shape[1]), ranges.constant)])
    wide = places.astype(jnp.float64)
    norm = jnp.sqrt(_added_up(_spread(wide * wide, layout)))
    return (wide * jnp.where(norm > 0, ranges.length / norm, 0)).astype(jnp.float32)


def _spread(squares: Array, layout: Layout) -> Array:
    """The squares of all features, with those that are always zero: they decide which sums are made side by side."""
    if layout.places == tuple(range(layout.d)):
        return squares
    source = np.full(layout.d, len(squares))
    source[list(layout.places)] = range(len(squares))
    return jnp.concatenate([squares, jnp.zeros((1, squares.shape[1]))]).at[source].get(mode="promise_in_bounds")


def _added_up(numbers: Array) -> Array:
    """The sums of columns, shape (n,), in the order in which ``numpy.add.reduce`` adds up a row."""
    count = len(numbers)
    if count > _LEAF:
        half = count // 2 - count // 2 % _LANES
        return _added_up(numbers[:half]) + _added_up(numbers[half:])
    whole = count - count % _LANES
    total = jax.numpy.zeros(numbers.shape[1])
    if whole:
        sums = numbers[:_LANES]
        for start in range(_LANES, whole, _LANES):
            sums = sums + numbers[start : start + _LANES]
        total = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]))
    for place in range(whole, count):
        total = total + numbers[place]
    return total
