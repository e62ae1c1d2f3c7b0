"""``table_of``: a table in memory as one with the schema's columns, as ``read_table`` gives it of a file."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dplateau.data.objects import array_of_objects, native, objects_in
from dplateau.data.read_csv import check_columns, used_names
from dplateau.data.schema import Schema, Vector
from dplateau.spec import InputError

if TYPE_CHECKING:
    import pyarrow as pa

NAME: Final = "the table"
"""What a table in memory is called in errors."""


def table_of(rows: Any, schema: Schema) -> pa.Table:
    """The columns of ``schema`` from a table in memory.

    Parameters
    ----------
    rows : pandas.DataFrame or Series, pyarrow.Table, dict, or any table with ``__arrow_c_stream__`` (Polars, DuckDB)
        The rows; a Series, or a dict of single values, is one row. Columns that the schema does not declare are ignored. In pandas
        and in a dict NaN is a missing value.
    schema : Schema
        The public schema.

    Returns
    -------
    pyarrow.Table
        One column for each declared one; nothing is converted or clipped yet.

    Raises
    ------
    InputError
        It is no such table, lacks a column or has one twice, has no rows, or columns of several lengths or types. No message quotes
        a row.
    """
    import pyarrow as pa

    pandas = sys.modules.get("pandas")  # a table of pandas is there only if pandas is
    if pandas is not None and isinstance(rows, pandas.DataFrame):
        check_columns(NAME, schema, list(rows.columns))
        table = _table({name: rows[name] for name in used_names(schema)})
    elif pandas is not None and isinstance(rows, pandas.Series):
        check_columns(NAME, schema, list(rows.index))
        table = _table(_of_dict({name: rows[name] for name in used_names(schema)}, schema))
    elif isinstance(rows, Mapping):
        check_columns(NAME, schema, list(rows))
        table = _table(_of_dict({name: rows[name] for name in used_names(schema)}, schema))
    elif isinstance(rows, pa.Table | pa.RecordBatch) or hasattr(rows, "__arrow_c_stream__"):
        whole = _arrow(rows)
        check_columns(NAME, schema, whole.column_names)
        table = pa.table({name: whole.column(name) for name in used_names(schema)})
    else:
        raise InputError(
            f"the rows are of type {type(rows).__name__}: expected the path of a file, a DataFrame, an Arrow table, or a dict"
            " of columns."
        )
    if not table.num_rows:
        raise InputError(f"{NAME} has no rows: expected at least one.")
    return table


def _arrow(rows: Any) -> Any:
    """An Arrow table as it is, and another one as an Arrow table."""
    import pyarrow as pa

    if isinstance(rows, pa.Table | pa.RecordBatch):
        return rows
    try:
        return pa.table(rows)
    except (pa.ArrowException, TypeError, ValueError):
        raise InputError(
            f"{NAME} is of type {type(rows).__name__} and has a column that Arrow cannot read: cast that column, or leave it out."
        ) from None


def _table(columns: dict[str, Any]) -> pa.Table:
    """Columns as a table, after checking that they are equally long."""
    import pyarrow as pa

    arrays = {name: _array(name, values) for name, values in columns.items()}
    (first, array), *others = arrays.items()
    for name, other in others:
        if len(other) != len(array):
            raise InputError(f"the columns differ in length: {first!r} has {len(array)} rows, and {name!r} {len(other)}.")
    return pa.table(arrays)


def _array(name: str, values: Any) -> Any:
    import pyarrow as pa

    try:
        if isinstance(values, pa.Array | pa.ChunkedArray):
            return values
        if isinstance(values, np.ndarray) and values.ndim == 2:
            flat = values.ravel() if isinstance(values, np.ma.MaskedArray) else np.asarray(values).ravel()
            return pa.FixedSizeListArray.from_arrays(_flat(flat), values.shape[1])
        return _flat(values)
    except (pa.ArrowException, TypeError, ValueError, ArithmeticError):
        raise InputError(
            f"column {name!r} has values of several types, or neither numbers nor texts: expected one entry a row, all of one type."
        ) from None


def _flat(values: Any) -> Any:
    import pyarrow as pa

    objects = objects_in(values)
    if objects is not None:
        return array_of_objects(objects)
    return pa.array(native(values) if isinstance(values, np.ndarray) else values, from_pandas=True)


def _of_dict(columns: dict[str, Any], schema: Schema) -> dict[str, Any]:
    """Columns as they are; or one row, every value of which becomes a column."""
    vectors = {column.name for column in schema.features if isinstance(column, Vector)}
    single = {name for name, value in columns.items() if name not in vectors and _is_single(value)}
    if not single:
        return columns
    if lists := [name for name in columns if name not in vectors | single]:
        raise InputError(
            f"{min(single)!r} is a single value, and {lists[0]!r} a column: give one row as single values, or lists of one length."
        )
    return {name: [value] for name, value in columns.items()}


def _is_single(value: Any) -> bool:
    if isinstance(value, list | tuple):  # NumPy would make an array of it, and fails where only some entries are lists
        return False
    return value is None or isinstance(value, str | bytes) or np.ndim(value) == 0
