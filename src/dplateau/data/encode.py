"""``encode``: rows to feature vectors of bounded norm, by the public schema alone.

Every row is encoded by itself. Nothing is learnt from the rows (no mean, no range, no list of values): no budget is used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dplateau.data import columns as read
from dplateau.data.person import persons_in
from dplateau.data.plain import fill_numbers, fill_vector, is_plain, plain_numbers
from dplateau.data.rows import LARGEST, SMALLEST, bounded_rows, clip_rows, parts
from dplateau.data.schema import Category, Date, Feature, Number, Schema, Vector
from dplateau.spec import InputError
from dplateau.spec.arguments import real
from dplateau.spec.columns import Columns, Placing

if TYPE_CHECKING:
    import pyarrow as pa

ROWS: Final = ("unit", "scale")
INTERCEPT: Final = "intercept"


@dataclass(frozen=True, eq=False)
class Dataset:
    """Encoded rows, and the public facts about them.

    Parameters
    ----------
    features : array, shape (n, d)
        One row a record, of Euclidean norm at most ``feature_norm``.
    target : array, shape (n,)
        Index of the class (int64), or the number (float64), clipped to ``target_range`` for training.
    feature_names : tuple of str
        d names.
    classes : tuple of str or None
        The declared classes in the order of their indices; None for a regression target.
    target_range : (float, float) or None
        The declared range of a regression target.
    feature_norm : float
        The public bound.
    groups : array, shape (n,), optional
        Whose each row is, where that was read.
    """

    features: NDArray[Any]
    target: NDArray[Any]
    feature_names: tuple[str, ...]
    classes: tuple[str, ...] | None
    target_range: tuple[float, float] | None
    feature_norm: float
    groups: NDArray[Any] | None = None

    @property
    def n(self) -> int:
        """Number of records: of persons where groups say whose the rows are."""
        return len(self.target) if self.groups is None else len(set(self.groups.tolist()))


def encode(
    table: pa.Table,
    schema: Schema,
    *,
    feature_norm: float = 1.0,
    rows: str | None = None,
    intercept: float = 1.0,
    dtype: DTypeLike = np.float32,
    clip_target: bool = True,
) -> Dataset:
    """Encode a table.

    A number becomes its place in the declared range, in [-1, 1], or indicators of its declared bins, or both; a date becomes its
    place in the range; a category becomes indicators; a vector is divided by the largest magnitude of its range. Numbers out of
    range are clipped; undeclared categories and missing values become the indicator "unknown". Then rows are scaled to
    ``feature_norm``.

    Parameters
    ----------
    table : pyarrow.Table
        What ``read_table`` returns.
    schema : Schema
        The public schema.
    feature_norm : float, default 1.0
        The public bound on the norm of a row.
    rows : {"unit", "scale"}, optional
        "unit" divides every row by its own norm, "scale" divides all by the largest norm that the schema allows. "unit" uses the
        whole norm and leaves a row on its side of every hyperplane through 0, so it is the default for classes; it changes the size
        of a linear prediction, so "scale" is the default for a regression target.
    intercept : float, default 1.0
        Value, before scaling, of a constant last feature, which counts in the norm; 0 leaves it out.
    dtype : float32 or float64, default float32
        Type of the features.
    clip_target : bool, default True
        Whether a regression target is clipped to its range, as training needs it; errors of predictions are those of the true one.

    Returns
    -------
    Dataset
        Features, target, and the public facts about them.

    Raises
    ------
    InputError
        A column has the wrong type, contains what the schema does not allow, or rows have targets that are not declared. Messages
        count rows and quote none.
    """
    if not hasattr(table, "num_rows"):
        raise InputError(f"the table is of type {type(table).__name__}: expected what read_table returns, or pyarrow.table(rows).")
    features = encode_features(table, schema, feature_norm=feature_norm, rows=rows, intercept=intercept, dtype=dtype)
    target = schema.target
    return Dataset(
        features=features,
        target=read.target_of(read.column_of(table, target.name, schema), schema, clip=clip_target),
        feature_names=feature_names(schema, intercept=intercept),
        classes=target.classes or None,
        target_range=target.range,
        feature_norm=float(feature_norm),
        groups=persons_in(table, schema),
    )


def encode_features(
    table: pa.Table,
    schema: Schema,
    *,
    feature_norm: float = 1.0,
    rows: str | None = None,
    intercept: float = 1.0,
    dtype: DTypeLike = np.float32,
) -> NDArray[Any]:
    """The features of a table, which needs no target; see ``encode``."""
    bound, weight = check_options(feature_norm, rows, intercept, dtype)
    if table.num_rows == 0:
        raise InputError("the table has no rows: expected at least one.")
    names = feature_names(schema, intercept=weight)
    raw = np.zeros((table.num_rows, len(names)), dtype=dtype)
    start = 0
    for plain, group in groupby(schema.features, is_plain):
        run = list(group)
        width = sum(len(_names(column)) for column in run)
        _fill_run(raw[:, start : start + width], run, plain, [read.column_of(table, c.name, schema) for c in run], schema)
        start += width
    unit = to_unit(rows, schema)
    scale = 1.0 if unit else public_scale(schema, bound, weight)
    constant = weight * scale if weight else None
    for part in parts(*raw.shape):
        raw[part] = bounded_rows(raw[part, :start] * scale, bound, unit=unit, constant=constant, counted=True)
    return raw


def columns_of(table: pa.Table, schema: Schema, placing: Placing, feature_norm: float) -> tuple[Columns, NDArray[Any]] | None:
    """The columns of a table and its target, where nothing keeps the compiled loop from encoding them; None otherwise."""
    names = [column.name for column in schema.features]
    if len(set(table.column_names)) < table.num_columns or not set(names) <= set(table.column_names):
        return None
    arrays = plain_numbers(table, names)
    if arrays is None:
        return None

    def encoded(values: tuple[NDArray[Any], ...]) -> NDArray[np.float32]:
        import pyarrow as pa

        found = pa.table(list(values), names=names)
        return encode_features(found, schema, feature_norm=feature_norm, rows="unit", intercept=placing.constant)

    return Columns(arrays, placing, encoded), read.target_of(read.column_of(table, schema.target.name, schema), schema)


def to_unit(rows: str | None, schema: Schema) -> bool:
    """Whether rows are divided by their own norms."""
    return (rows or ("unit" if schema.target.classes else "scale")) == "unit"


def public_scale(schema: Schema, feature_norm: float, intercept: float) -> float:
    """What all features are multiplied by where rows are scaled by the largest norm that the schema allows."""
    return feature_norm / math.sqrt(sum(_largest_square(column) for column in schema.features) + intercept**2)


def check_options(feature_norm: float, rows: str | None, intercept: float, dtype: DTypeLike) -> tuple[float, float]:
    """The norm and the constant feature as floats, after checking the options of ``encode``."""
    bound = real("feature_norm", feature_norm, low=SMALLEST, inclusive=True, high=LARGEST)
    weight = real("intercept", float(intercept), inclusive=True)
    if rows not in (None, *ROWS):
        raise InputError(f"rows is {rows!r}: expected one of {', '.join(ROWS)}.")
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise InputError(f"dtype is {np.dtype(dtype)}: expected float32 or float64.")
    return bound, weight


def feature_names(schema: Schema, *, intercept: float = 1.0) -> tuple[str, ...]:
    """The names of the encoded features, in order; their number is public."""
    return tuple(name for column in schema.features for name in _names(column)) + ((INTERCEPT,) if intercept else ())


def _names(column: Feature) -> tuple[str, ...]:
    if isinstance(column, Vector):
        return tuple(f"{column.name}[{i}]" for i in range(1, column.size + 1))
    unknown = (f"{column.name} unknown",) if column.unknown else ()
    if isinstance(column, Category):
        return tuple(f"{column.name} = {value}" for value in column.values) + unknown
    value = () if column.transform == "none" else (column.name,)
    edges = (column.low, *column.bins, column.high)
    indicators = tuple(f"{column.name} from {a:.15g} to {b:.15g}" for a, b in pairwise(edges)) if column.bins else ()
    return value + indicators + unknown


def _largest_square(column: Feature) -> float:
    """The largest squared norm of the column's features over all rows that the schema allows."""
    if isinstance(column, Vector):
        return column.size if column.norm is None else min(column.size, (column.norm / _magnitude(column)) ** 2)
    if isinstance(column, Category):
        return 1.0
    return (column.transform != "none") + bool(column.bins)


def _magnitude(column: Vector) -> float:
    return max(abs(column.low), abs(column.high))


def _fill_run(out: NDArray[Any], columns: list[Any], plain: bool, values: list[pa.ChunkedArray], schema: Schema) -> None:
    """Write the features of neighbouring columns, which are all plain or none, into ``out``."""
    if plain and fill_numbers(out, columns, values):
        return
    start = 0
    for column, entries in zip(columns, values, strict=True):
        width = len(_names(column))
        _fill(out[:, start : start + width], column, entries, schema)
        start += width


def _fill(out: NDArray[Any], column: Feature, values: pa.ChunkedArray, schema: Schema) -> None:
    """Write the column's features into ``out``, shape (n, width), which is zero."""
    if isinstance(column, Vector):
        if fill_vector(out, column, values, _magnitude(column)):
            return
        block = np.clip(read.vectors(values, column), column.low, column.high) / _magnitude(column)
        out[:] = block if column.norm is None else clip_rows(block, column.norm / _magnitude(column))
        return
    every = np.arange(len(out))
    if isinstance(column, Category):
        codes = read.codes(values, column)
        unknown, first = codes < 0, 0
    else:
        numbers = read.measured(values, column, schema)
        unknown = np.isnan(numbers)
        numbers = np.clip(numbers, column.low, column.high)
        first = int(column.transform != "none")
        if first:
            out[~unknown, 0] = _place(numbers[~unknown], column)
        codes = np.searchsorted(column.bins, numbers, side="right")
    if column.unknown:
        out[unknown, -1] = 1
    elif unknown.any():
        raise InputError(
            f"column {column.name!r} is missing or undeclared in {int(unknown.sum())} rows, and the schema says unknown = false:"
            " declare unknown = true, or repair these rows."
        )
    if isinstance(column, Category) or column.bins:
        out[every[~unknown], first + codes[~unknown]] = 1


def _place(numbers: NDArray[np.float64], column: Number | Date) -> NDArray[np.float64]:
    """The place in the range, in [-1, 1]."""
    width = column.high - column.low
    if column.transform == "log":
        return 2 * np.log1p(numbers - column.low) / math.log1p(width) - 1
    return (2 * (numbers - column.low) - width) * (1 / width)  # in this order compiled code rounds as NumPy does
