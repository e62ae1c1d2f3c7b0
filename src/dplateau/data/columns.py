"""Columns of a table as the schema's types: numbers, codes of declared values, vectors, targets."""

# pyarrow makes its compute functions at run time, where pyright cannot see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dplateau.data.rows import count_not_finite
from dplateau.data.schema import Category, Column, Date, Number, Schema, Target, Vector
from dplateau.spec import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    Reader: TypeAlias = Callable[[pa.ChunkedArray], NDArray[np.float64]]


def column_of(table: pa.Table, name: str, schema: Schema) -> pa.ChunkedArray:
    """A column with the schema's ideas of text applied: spaces stripped, markers of missing values turned into nulls."""
    import pyarrow as pa

    if len(table.schema.get_all_field_indices(name)) != 1:
        raise InputError(f"the table has no column, or several, named {name!r}, which the schema declares.")
    try:
        values = table.column(name)
        if pa.types.is_boolean(values.type):
            _check_spelt(next(column for column in schema.columns if column.name == name))
        return _text_in_order(values, schema)
    except pa.ArrowException:
        raise InputError(
            f"column {name!r} holds text that cannot be read: expected UTF-8, and at most 2 GiB of it. Repair it, or leave it out."
        ) from None


def _check_spelt(column: Column) -> None:
    """Raise ``InputError`` where a column of truth values has declared values that none of them can be: all would be unknown."""
    if isinstance(column, Category) and not {"true", "false"} & {*column.values, *dict(column.aliases)}:
        raise InputError(
            f'column {column.name!r} holds truth values, which are read as "true" and "false", and the schema declares neither, so'
            ' that every row would be unknown: declare both, or aliases = { "true" = ..., "false" = ... }.'
        )


def _text_in_order(values: pa.ChunkedArray, schema: Schema) -> pa.ChunkedArray:
    import pyarrow as pa
    from pyarrow import compute

    if pa.types.is_dictionary(values.type):
        values = _decoded(values)
    if pa.types.is_boolean(values.type) or pa.types.is_null(values.type):
        values = values.cast(pa.string())  # "true" and "false", as TOML spells them; nulls stay nulls
    if is_text(values):
        values = values.cast(pa.string())
        if schema.strip:
            values = compute.utf8_trim_whitespace(values)
        markers = compute.is_in(values, value_set=pa.array(schema.missing, pa.string()))
        values = compute.if_else(markers, pa.scalar(None, pa.string()), values)
    return values


def _decoded(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of indices as the values that they stand for."""
    import pyarrow as pa

    if pa.types.is_string_view(values.type.value_type):  # from Polars; Arrow does not decode these yet
        chunks = [pa.DictionaryArray.from_arrays(one.indices, one.dictionary.cast(pa.string())) for one in values.chunks]
        values = pa.chunked_array(chunks, pa.dictionary(values.type.index_type, pa.string()))
    return values.cast(values.type.value_type)


def is_text(values: pa.ChunkedArray) -> bool:
    """Whether the column holds text."""
    import pyarrow as pa

    return pa.types.is_string(values.type) or pa.types.is_large_string(values.type) or pa.types.is_string_view(values.type)


def numbers(values: pa.ChunkedArray, name: str, schema: Schema) -> NDArray[np.float64]:
    """The column as finite numbers, NaN where missing."""
    import pyarrow as pa
    from pyarrow import compute

    def read(values: pa.ChunkedArray) -> NDArray[np.float64]:
        if is_text(values):
            values = compute.utf8_ltrim(values, "+")
        elif not _is_numeric(values):
            raise pa.ArrowInvalid
        return _doubles(values).to_numpy()

    array = _read(values, read)
    if array is None:
        other = "classes for the target" if schema.targets and name == schema.target.name else 'the column as type = "category"'
        comma = schema.csv.decimal == ","
        like = "12,5, without thousands separators" if comma else "12.5, without thousands separators or decimal commas"
        raise InputError(
            f"column {name!r} holds something that is not a number, {_first_wrong(values, read)}: expected numbers"
            f" like {like}. Add texts that mean missing to the schema's missing = [...], or declare {other}."
        )
    if np.isfinite(array).all():
        return array
    nan = int(np.isnan(array).sum()) - values.null_count
    if infinite := int(np.isinf(array).sum()):
        raise InputError(f"column {name!r} is infinite in {infinite} rows: expected finite numbers. Repair or drop these rows.")
    if nan and not {"NaN", "nan"} & set(schema.missing):
        raise InputError(
            f'column {name!r} is NaN in {nan} rows: expected finite numbers. Repair them, or add "NaN" to the schema\'s missing.'
        )
    return array


def days(values: pa.ChunkedArray, name: str) -> NDArray[np.float64]:
    """The column as days since 1970-01-01, NaN where missing: ISO dates, and the dates and midnights of a Parquet file."""
    import pyarrow as pa
    from pyarrow import compute

    def read(values: pa.ChunkedArray) -> NDArray[np.float64]:
        if not (
            is_text(values) or pa.types.is_date(values.type) or (pa.types.is_timestamp(values.type) and values.type.tz is None)
        ):
            raise pa.ArrowInvalid
        whole = values.cast(pa.date32())
        if compute.any(compute.not_equal(whole.cast(values.type), values)).as_py():
            raise pa.ArrowInvalid
        return whole.cast(pa.int32()).cast(pa.float64()).to_numpy()

    found = _read(values, read)
    if found is None:
        raise InputError(
            f"column {name!r} holds something that is not a date, {_first_wrong(values, read)}: expected dates like 2020-12-31,"
            " without a time of day or a zone. Add texts that mean missing to the schema's missing = [...]."
        )
    return found


def _read(values: pa.ChunkedArray, read: Reader) -> NDArray[np.float64] | None:
    """What ``read`` makes of the entries; None where some are nothing that it reads."""
    import pyarrow as pa

    try:
        return read(values)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _first_wrong(values: pa.ChunkedArray, read: Reader) -> str:
    """The place of the first row that ``read`` cannot read, or their type if it is that."""
    if _read(values.slice(0, 0), read) is None:
        return f"by its type {values.type}"
    low, high = 0, len(values) - 1
    while low < high:
        middle = (low + high) // 2
        good = _read(values.slice(low, middle + 1 - low), read) is not None
        low, high = (middle + 1, high) if good else (low, middle)
    return f"first in row {low + 1:,} of {len(values):,}"


def measured(values: pa.ChunkedArray, column: Number | Date | Target, schema: Schema) -> NDArray[np.float64]:
    """The column as finite numbers, or as days, with NaN where missing."""
    return days(values, column.name) if isinstance(column, Date) else numbers(values, column.name, schema)


def _is_numeric(values: pa.ChunkedArray) -> bool:
    import pyarrow as pa

    return pa.types.is_integer(values.type) or pa.types.is_floating(values.type) or pa.types.is_decimal(values.type)


def _doubles(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """The nearest double of each entry.

    Decimals have a scale in common, that of the one with the most digits. Arrow divides by it and rounds more than once, so one
    entry would change the last bits of the others. Their digits are read one by one.
    """
    import pyarrow as pa

    exact = values.cast(pa.string()) if pa.types.is_decimal(values.type) else values
    return exact.cast(pa.float64(), safe=False)


def codes(values: pa.ChunkedArray, column: Category | Target) -> NDArray[np.int64]:
    """Index of each value among the declared ones, -1 where it is missing or none of them. An alias counts as what it stands for.

    Text is compared with text to the letter: "1.0" is another text than "1", and no row decides how the others are compared. A
    numeric column is compared with the numbers that the declared texts spell.
    """
    declared = column.values if isinstance(column, Category) else column.classes
    aliases = dict(column.aliases)
    # The last entry is for what is not found.
    index = np.array([*range(len(declared)), *(declared.index(name) for name in aliases.values()), -1])
    return index[_codes(values, column.name, declared + tuple(aliases))]


def _codes(values: pa.ChunkedArray, name: str, declared: tuple[str, ...]) -> NDArray[np.int64]:
    import pyarrow as pa
    from pyarrow import compute

    if is_text(values):
        found = compute.index_in(values, value_set=pa.array(declared, pa.string()))
    elif pa.types.is_integer(values.type):  # to the last digit: doubles tell no long numbers apart
        wide, least = (pa.uint64(), 0) if values.type == pa.uint64() else (pa.int64(), -(2**63))
        spelt = pa.array([_whole(text, range(least, least + 2**64)) for text in declared], wide)
        found = compute.index_in(values.cast(wide), value_set=spelt, skip_nulls=True)
    elif _is_numeric(values):
        spelt = pa.array([_number(text) for text in declared], pa.float64())
        found = compute.index_in(_doubles(values), value_set=spelt, skip_nulls=True)
    else:
        raise InputError(f"column {name!r} has type {values.type}: expected text or numbers, to compare with the declared values.")
    return compute.fill_null(found, -1).to_numpy().astype(np.int64)


def _whole(text: str, fitting: range) -> int | None:
    """The whole number that a text spells, if it is one of those that fit."""
    if _number(text) is None or (number := Decimal(text)) != (whole := int(number)):
        return None
    return whole if whole in fitting else None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def vectors(values: pa.ChunkedArray, column: Vector) -> NDArray[np.float64]:
    """A list column as an array, shape (n, size), of finite numbers."""
    import pyarrow as pa
    from pyarrow import compute

    wanted = f"expected lists of {column.size} finite numbers"
    if not (pa.types.is_list(values.type) or pa.types.is_large_list(values.type) or pa.types.is_fixed_size_list(values.type)):
        raise InputError(
            f"column {column.name!r} has type {values.type}: {wanted}. Only Parquet, LIBSVM and NumPy files hold vectors."
        )
    if values.null_count:
        raise InputError(f"column {column.name!r} is missing in {values.null_count} rows: {wanted}.")
    flat = pa.chunked_array([chunk.flatten() for chunk in values.chunks], type=values.type.value_type)
    try:
        array = _doubles(flat).to_numpy()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise InputError(f"column {column.name!r} holds {values.type.value_type}: {wanted}.") from None
    if (
        set(compute.unique(compute.list_value_length(values)).to_pylist()) != {column.size}
        or len(array) != len(values) * column.size
    ):
        raise InputError(f"column {column.name!r} holds lists of another length: {wanted}.")
    array = array.reshape(len(values), column.size)
    if bad := count_not_finite(array):
        raise InputError(f"column {column.name!r} is NaN, infinite or missing in {bad} rows: {wanted}. Repair or drop these rows.")
    return array


def target_of(values: pa.ChunkedArray, schema: Schema, *, clip: bool = True) -> NDArray[Any]:
    """Indices of the declared classes, or numbers, by default clipped to the declared range; anything else is an error."""
    target = schema.target
    if target.range is not None:
        array = numbers(values, target.name, schema)
        if missing := int(np.isnan(array).sum()):
            raise InputError(
                f"target {target.name!r} is missing in {missing} rows: expected a number in every row. Repair or drop these rows."
            )
        return np.clip(array, *target.range) if clip else array
    found = codes(values, target)
    if undeclared := int((found < 0).sum()):
        letter = ' Texts are compared to the letter, and truth values are "true" and "false".' if undeclared == len(found) else ""
        raise InputError(
            f"target {target.name!r} is none of the {len(target.classes)} declared classes in {undeclared} of {len(found)} rows:"
            f" declare every class, and other spellings as aliases, or drop these rows.{letter}"
        )
    return found
