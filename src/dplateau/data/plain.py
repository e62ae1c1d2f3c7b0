"""Columns of plain floats, fast: the arithmetic of the general way, in stretches of rows that stay in the processor's cache.

Nothing here is needed for the result. What is not plain (texts, whole numbers, missing or infinite values) is left to the general
way, which also finds the right words for an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from dplateau.data.rows import SLACK, clip_rows, parts
from dplateau.data.schema import Feature, Number, Schema, Vector
from dplateau.spec.columns import Placing

if TYPE_CHECKING:
    import pyarrow as pa

STRETCH: Final = 16384
"""Rows of a stretch: enough of them to outweigh the calls for each column, and the threads' taking turns between calls."""


WIDEST: Final = 2048
"""Features of a row that the compiled loop makes: it is compiled for their number, which takes longer for more of them."""
SMALL, LARGE = 1e-9, 1e9
"""Public numbers that are not 0 and beyond these may make numbers below 2^-126, of which compiled code may make 0."""


def is_plain(column: Feature) -> bool:
    """Whether the column is a number that is only moved to its place in the range."""
    return isinstance(column, Number) and column.transform == "linear" and not column.bins


def placing_of(schema: Schema, feature_norm: float, intercept: float) -> Placing | None:
    """How rows of the schema, each scaled to ``feature_norm``, become single precision; None if not all columns are plain."""
    columns = [column for column in schema.features if isinstance(column, Number) and is_plain(column)]
    ends = [end for column in columns for end in (column.low, column.high, column.high - column.low)]
    widths = [1 + column.unknown for column in columns]
    d = sum(widths) + bool(intercept)
    if len(columns) < len(schema.features) or d > WIDEST:
        return None
    if any(end and not SMALL <= abs(end) <= LARGE for end in (*ends, feature_norm, intercept)):
        return None
    return Placing(
        low=tuple(column.low for column in columns),
        high=tuple(column.high for column in columns),
        places=tuple(int(place) for place in np.cumsum(widths) - widths),
        d=d,
        constant=intercept,
        length=feature_norm * (1 - SLACK["float32"]),
    )


def plain_numbers(table: pa.Table, names: Sequence[str]) -> tuple[NDArray[Any], ...] | None:
    """The columns as arrays, without a copy, if the table is in one piece and they hold finite numbers and nothing else."""
    import pyarrow as pa

    batches = table.select(names).to_batches()
    if len(batches) != 1:
        return None
    floats = (pa.float32(), pa.float64())
    if not all(kind in floats or pa.types.is_integer(kind) for kind in set(batches[0].schema.types)):
        return None
    if any(column.null_count for column in batches[0].columns):
        return None
    arrays = tuple(column.to_numpy() for column in batches[0].columns)
    return arrays if all(array.dtype.kind != "f" or np.isfinite(array).all() for array in arrays) else None


def fill_numbers(out: NDArray[Any], columns: Sequence[Number], values: Sequence[pa.ChunkedArray]) -> bool:
    """Write the features of plain numeric columns into ``out``, shape (n, width), which is zero.

    Returns
    -------
    bool
        Whether it was done: every column holds finite floats, and nothing else.
    """
    arrays = [array for entries in values if (array := floats(entries)) is not None]
    if len(arrays) < len(columns):
        return False
    # A column that may be missing has a second feature, the indicator of that, which stays zero.
    widths = [1 + column.unknown for column in columns]
    places: Any = slice(None) if len(columns) == out.shape[1] else np.cumsum(widths) - widths
    numbers = np.empty(min(STRETCH, len(out)))
    features = np.empty((len(columns), len(numbers)), dtype=out.dtype)
    for start in range(0, len(out), STRETCH):
        end = min(start + STRETCH, len(out))
        for column, array, feature in zip(columns, arrays, features, strict=True):
            # The operations of one column alone, in their order, so that the results are the same to the last bit.
            place = numbers[: end - start]
            place[:] = array[start:end]
            place.clip(column.low, column.high, out=place)
            width = column.high - column.low
            place -= column.low
            place *= 2
            place -= width
            place *= 1 / width
            feature[: end - start] = place
        out[start:end, places] = features[:, : end - start].T
    return True


def fill_vector(out: NDArray[Any], column: Vector, values: pa.ChunkedArray, magnitude: float) -> bool:
    """Write the features of a vector column into ``out``, shape (n, size); whether it was done, as for ``fill_numbers``."""
    import pyarrow as pa

    if not pa.types.is_fixed_size_list(values.type) or values.type.list_size != column.size or values.null_count:
        return False
    flat = floats(pa.chunked_array([chunk.flatten() for chunk in values.chunks], type=values.type.value_type))
    if flat is None:
        return False
    array = flat.reshape(out.shape)
    for part in parts(*out.shape):
        block = array[part].astype(np.float64)
        block.clip(column.low, column.high, out=block)
        block /= magnitude
        out[part] = block if column.norm is None else clip_rows(block, column.norm / magnitude)
    return True


def floats(values: pa.ChunkedArray) -> NDArray[Any] | None:
    """The column as an array, if it holds finite floats and nothing else."""
    import pyarrow as pa

    if values.type not in (pa.float32(), pa.float64()) or values.null_count:
        return None
    array = values.to_numpy()
    return array if np.isfinite(array).all() else None
