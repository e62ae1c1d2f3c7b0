"""One pass over the records of several processes: which of them each step takes, from public numbers alone.

The records of all processes stand in one order in which those of each are spread evenly: of a process with n of them, number i
(from 0) stands at (2 i + 1) / (2 n), and of two at one place that of the lower process comes first. A step takes the next ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def shares(held: NDArray[np.int64], taken: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many of the first ``taken`` records in that order are those of each process.

    Parameters
    ----------
    held : array of shape (P,)
        How many records each process has.
    taken : array of shape (k,)
        Numbers from 0 to the sum of ``held``.

    Returns
    -------
    array of shape (P, k)
    """
    n, processes = int(held.sum()), len(held)
    if 4 * n * n >> 63:
        held, taken = held.astype(object), taken.astype(object)
    found: list[NDArray[Any]] = []
    for place, own in enumerate(held):
        # At most half a record for each process is the place of a record off its share: that bounds the answer.
        low = np.maximum(0, (2 * taken - processes) * own // (2 * n) - 1)
        high = np.minimum(own, (2 * taken + processes) * own // (2 * n) + 2)
        while (low < high).any():
            middle = (low + high) // 2
            more = (_before(held, place, middle) < taken) & (low < high)
            low, high = np.where(more, middle + 1, low), np.where(more, high, np.minimum(middle, high))
        found.append(low.astype(np.int64))
    return np.stack(found)


def _before(held: NDArray[Any], place: int, number: NDArray[Any]) -> NDArray[Any]:
    """How many records of all processes stand before record ``number`` of one of them."""
    own, total = held[place], number
    for other, many in enumerate(held):
        # Record j of another process stands before it where (2 j + 1) own < (2 number + 1) many.
        scaled = (2 * number + 1) * many
        if other < place:
            total = total + (scaled // own + 1) // 2
        elif other > place:
            total = total + -(-scaled // own) // 2
    return total
