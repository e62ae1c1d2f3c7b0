"""``Columns``: rows of plain numbers that are not encoded yet, column by column, with the public numbers that encode them.

Whoever reads a file and whoever trains on it share nothing else. The compiled loop makes rows of them, block by block in the
processor's cache; ``Columns.rows`` makes the same rows, to the last bit, without it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Placing:
    """How a row of plain numbers becomes a row of features of one length; all of it is public.

    Attributes
    ----------
    low, high : tuple of float
        The range of each column. A number is clipped to it, and becomes its place in it, in [-1, 1].
    places : tuple of int
        The feature that each column becomes, in order. All others are zero, but for the constant.
    d : int
        The number of features.
    constant : float
        What the last feature is before the row is scaled; 0 where there is no such feature.
    length : float
        What every row is scaled to, in double precision and before it is rounded to single precision; a row of zeros stays.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    places: tuple[int, ...]
    d: int
    constant: float
    length: float


@dataclass(frozen=True, eq=False)
class Columns:
    """Rows that are not encoded yet.

    Attributes
    ----------
    values : tuple of array, shape (k,)
        The columns: finite numbers.
    placing : Placing
        How they are encoded.
    encoded : callable
        Makes rows, shape (k, d), float32, of columns.
    """

    values: tuple[NDArray[Any], ...]
    placing: Placing
    encoded: Callable[[tuple[NDArray[Any], ...]], NDArray[np.float32]]

    def __len__(self) -> int:
        return len(self.values[0])

    def __getitem__(self, part: slice) -> Columns:
        return Columns(tuple(column[part] for column in self.values), self.placing, self.encoded)

    def rows(self) -> NDArray[np.float32]:
        """The rows, encoded."""
        return self.encoded(self.values)
