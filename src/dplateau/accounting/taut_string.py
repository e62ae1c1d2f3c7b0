"""The least cost of absorbing shifts into noise: a taut string.

Jumps ``rise_k`` >= 0 arrive one after the other, and after jump k there is ``room_k`` of variance to absorb it, and whatever of
the earlier ones is left, before the next. Absorbing ``a_t`` in a step of variance ``v_t`` costs ``a_t^2 / v_t``; nothing can be
absorbed before it arrives, and all of it has to be in the end. With A the absorbed total as a function of the variance spent, the
cost is the integral of its squared slope, A lies below the staircase S of what has arrived, and both end together: the best A is
the greatest convex minorant of S, whose slopes are the isotonic regression of ``rise / room`` with weights ``room``.
Proof: ``docs/proofs/fixed-order.md``, section 3.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from dplateau.accounting.gaussian import Array
from dplateau.accounting.roots import isotonic

_SHORT: Final = 6
"""Strings with at most so many jumps are solved side by side, by the min-max formula."""


def taut_string(rise: Array, room: Array) -> Array:
    """The least cost, for strings along the last axis: shapes ``(..., K)`` to ``(...)``.

    A jump without room of its own is absorbed after the next one; infinite where the last jump has no room.
    """
    rise, room = np.broadcast_arrays(rise, room)
    if rise.shape[-1] <= _SHORT:
        return _short(rise, room)
    flat = zip(rise.reshape(-1, rise.shape[-1]), room.reshape(-1, room.shape[-1]), strict=True)
    return np.array([_long(*string) for string in flat]).reshape(rise.shape[:-1])


def _short(rise: Array, room: Array) -> Array:
    """The slope at k is the max over first <= k of the min over last >= k of the mean slope between the two."""
    rise, room = (np.ascontiguousarray(np.moveaxis(part, -1, 0)) for part in (rise, room))
    slopes = np.full(rise.shape, -np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        for first in range(len(rise)):
            # Sums of each stretch by themselves: differences of longer sums would lose a small jump or room after a large one.
            up, along = np.cumsum(rise[first:], axis=0), np.cumsum(room[first:], axis=0)
            least = np.inf
            for count in reversed(range(len(up))):
                # Without room the jump waits: only longer stretches have a slope.
                least = np.minimum(least, np.where(along[count] > 0, up[count] / along[count], np.inf))
                slopes[first + count] = np.maximum(slopes[first + count], least)
        return np.where(room > 0, slopes**2 * room, np.where(np.isinf(slopes) & (rise > 0), np.inf, 0.0)).sum(axis=0)


def _long(rise: Array, room: Array) -> float:
    has_room = np.flatnonzero(room > 0)
    if not has_room.size or rise[has_room[-1] + 1 :].any():
        return float("inf") if rise.any() else 0.0
    jumps, room = np.add.reduceat(rise, np.append(0, has_room[:-1] + 1)), room[has_room]
    return float((isotonic(jumps / room, room) ** 2) @ room)
