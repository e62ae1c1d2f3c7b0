"""Parquet to a table, with the columns that the schema declares and no others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dplateau.data.files import existing_file
from dplateau.data.read_csv import check_columns, used_names
from dplateau.data.schema import Schema
from dplateau.spec import InputError

if TYPE_CHECKING:
    import pyarrow as pa


def read_parquet(path: Path, schema: Schema) -> pa.Table:
    """Read the schema's columns of a Parquet file, with the types that they have there.

    Raises
    ------
    InputError
        The file is not Parquet or is damaged, lacks a column, or has no rows.
    """
    import pyarrow as pa
    from pyarrow import parquet

    existing_file(path)
    try:
        with path.open("rb") as file:  # Arrow opens no path that is not UTF-8
            check_columns(path, schema, parquet.read_schema(file).names)
            table = parquet.read_table(file, columns=used_names(schema))
    except (pa.ArrowException, OSError):
        raise InputError(f"{path} is not a Parquet file, or is damaged: expected one that pyarrow can read.") from None
    if table.num_rows == 0:
        raise InputError(f"{path} has no rows: expected at least one.")
    return table
