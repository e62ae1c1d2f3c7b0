"""``read_table``: a file of any supported format, or a table in memory, as a table with the schema's columns."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dplateau.data.files import TEXTS, existing_file, format_of
from dplateau.data.objects import native
from dplateau.data.read_csv import csv_pieces
from dplateau.data.read_jsonl import jsonl_pieces
from dplateau.data.read_libsvm import read_libsvm
from dplateau.data.read_numpy import read_numpy
from dplateau.data.read_parquet import read_parquet
from dplateau.data.schema import Schema, Target, Vector
from dplateau.data.tables import NAME, table_of
from dplateau.spec import InputError
from dplateau.spec.arguments import integer, of_type

if TYPE_CHECKING:
    import pyarrow as pa


def read_table(path: Any, schema: Schema, *, n: int | None = None) -> pa.Table:
    """Read the columns of ``schema`` from a CSV, JSON lines, Parquet, LIBSVM or NumPy file, or take them from a table in memory.

    CSV and JSON lines may be packed by gzip. The format is told by the suffix, else by the file's first bytes, else by
    ``schema.format``, else by the look of its first line.

    Parameters
    ----------
    path : str, Path, DataFrame, Arrow table or dict of columns
        The file, or the table: of pandas or Polars, of Arrow, or a dict of lists or arrays. In pandas and in a dict NaN is a
        missing value.
    schema : Schema
        The public schema.
    n : int, optional
        The number of rows, which is public: with another number they are refused. By default the rows that are found are counted.

    Returns
    -------
    pyarrow.Table
        One column for each declared one. Columns of CSV and JSON lines are text; those of a LIBSVM or NumPy file are its features
        in order, a ``Vector`` taking as many as its size. Nothing is converted or clipped yet: ``encode`` does that.

    Raises
    ------
    InputError
        The file is missing, unreadable, empty or damaged, or does not fit the schema. No message quotes a row.
    """
    of_type("schema", schema, Schema)
    declared = None if n is None else integer("n", n)
    stored = isinstance(path, str | PathLike)
    table = _read(existing_file(Path(path)), schema) if stored else table_of(path, schema)
    if declared not in (None, table.num_rows):
        raise InputError(
            f"{path if stored else NAME} has {table.num_rows} rows where n = {declared} is declared: declare its true number, or"
            " repair it."
        )
    return table


def _read(path: Path, schema: Schema) -> pa.Table:
    kind = format_of(path, schema)
    if kind in TEXTS:
        import pyarrow as pa

        pieces = list((csv_pieces if kind == "csv" else jsonl_pieces)(path, schema))
        if not pieces:
            header = " after the header line" if kind == "csv" and schema.csv.header else ""
            raise InputError(f"{path} has no rows: expected at least one{header}.")
        return pa.concat_tables(pieces)
    if kind == "parquet":
        return read_parquet(path, schema)
    width = array_width(schema)
    arrays = read_libsvm(path, width) if kind == "libsvm" else read_numpy(path, width, labelled=bool(schema.targets))
    return array_table(schema, *arrays)


def array_width(schema: Schema) -> int:
    """The number of features of an array that the schema describes."""
    return sum(_width(column) for column in schema.columns)


def _width(column: object) -> int:
    return 0 if isinstance(column, Target) else column.size if isinstance(column, Vector) else 1


def _target(values: NDArray[Any]) -> pa.Array:
    import pyarrow as pa

    try:
        return pa.array(native(values))
    except UnicodeError:
        raise InputError("the target holds text with half a character: expected Unicode text.") from None


def array_table(schema: Schema, features: NDArray[Any], target: NDArray[Any]) -> pa.Table:
    """Arrays as a table: the features are the declared columns in order."""
    import pyarrow as pa

    columns, start, features = {}, 0, native(features)
    for column in schema.columns:
        block = features[:, start : start + _width(column)]
        start += _width(column)
        if isinstance(column, Target):
            columns[column.name] = _target(target)
        elif isinstance(column, Vector):
            columns[column.name] = pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(block).ravel()), column.size)
        else:
            columns[column.name] = pa.array(np.ascontiguousarray(block[:, 0]))
    return pa.table(columns)
