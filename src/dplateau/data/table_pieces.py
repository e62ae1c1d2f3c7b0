"""``table_pieces``: the rows of any file that can be read, some at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dplateau.data.files import existing_file, format_of
from dplateau.data.read_csv import csv_pieces
from dplateau.data.read_jsonl import jsonl_pieces
from dplateau.data.readers import read_table
from dplateau.data.schema import Schema
from dplateau.data.stream_numpy import npy_pieces
from dplateau.data.stream_parquet import parquet_groups, parquet_pieces

if TYPE_CHECKING:
    import pyarrow as pa

ROWS: Final = 1 << 16
"""Rows of a piece, where nobody says how many."""


def table_pieces(
    path: str | Path, schema: Schema, rows: int = ROWS, columns: list[str] | None = None, *, parsed: bool = False
) -> Iterator[pa.Table]:
    """The schema's columns of a file, about ``rows`` at a time; LIBSVM and ``.npz`` files are read as a whole.

    Of CSV, JSON lines and Parquet files only ``columns``, if named. Numbers of a CSV file may be ``parsed``: see ``csv_pieces``.

    Raises
    ------
    InputError
        As ``read_table`` does, but a file without rows has no pieces.
    """
    path = existing_file(path)
    kind = format_of(path, schema)
    if kind == "csv":
        return csv_pieces(path, schema, columns, parsed=parsed)
    if kind == "jsonl":
        return jsonl_pieces(path, schema, columns)
    if kind == "parquet":
        parquet_groups(path, schema)  # checks it
        return parquet_pieces(path, schema, rows, None, columns)
    if kind == "npy":
        return npy_pieces(path, schema, rows)
    return iter([read_table(path, schema)])
