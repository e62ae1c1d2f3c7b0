"""Rows of a file or of a table in memory, encoded piece by piece: one road for all that a model predicts and is measured on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from dplateau.data.encode import feature_names
from dplateau.data.files import existing_file, format_of
from dplateau.data.readers import read_table
from dplateau.data.schema import Schema
from dplateau.data.stream import even
from dplateau.data.table_pieces import table_pieces
from dplateau.data.tables import NAME, table_of
from dplateau.data.unlabelled import keeping, unlabelled, unlabelled_in
from dplateau.spec import InputError

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
ENTRIES: Final = 1 << 21
"""Features of a piece: 8 MiB in single precision."""
NAMED: Final = ("csv", "jsonl", "parquet")
"""Formats of files whose columns have names."""


def piece_rows(width: int) -> int:
    """The number of rows of a piece. Pieces of one size give the same predictions to the last bit, wherever the rows come from."""
    return max(1, ENTRIES // width)


def encoded_pieces(
    rows: Any, schema: Schema, encoded: Callable[[pa.Table], T], *, labelled: bool, keep: Sequence[str] = ()
) -> Iterator[T]:
    """Rows in pieces of ``piece_rows`` rows, and a last one, each encoded.

    Parameters
    ----------
    rows : str, Path, or table
        A file, see ``read_table``, or a table in memory, see ``table_of``.
    schema : Schema
        The public schema.
    encoded : callable
        What is made of each piece.
    labelled : bool
        Whether the target is wanted. Otherwise it is not read, and need not be there.
    keep : sequence of str
        Columns that are read besides, as they stand, where the target is not wanted.

    Raises
    ------
    InputError
        See ``read_table``, ``table_of`` and ``encode``; it says in which rows. There are no rows.
    """
    size, first = piece_rows(len(feature_names(schema, intercept=0.0))), 1
    if isinstance(rows, str | PathLike):
        path = existing_file(Path(rows))
        if keep and (kind := format_of(path, schema)) not in NAMED:
            raise InputError(f"{path} has no columns to keep: a file of format {kind} holds numbers without names.")
        wanted = schema if labelled else keeping(unlabelled_in(path, schema), keep)
        name, pieces = str(path), even(_of_file(path, wanted, size), size)
    else:
        table = table_of(rows, schema if labelled else keeping(unlabelled(schema), keep))
        name, pieces = NAME, _slices(table, size)
    for piece in pieces:
        try:
            yield encoded(piece)
        except InputError as error:
            raise InputError(f"{name}, rows {first} to {first + piece.num_rows - 1}: {error}") from None
        first += piece.num_rows
    if first == 1:
        raise InputError(f"{name} has no rows: expected at least one.")


def _of_file(path: Path, schema: Schema, size: int) -> Iterator[pa.Table]:
    if format_of(path, schema) in NAMED:
        return table_pieces(path, schema, size)
    return _slices(read_table(path, schema), size)


def _slices(table: pa.Table, size: int) -> Iterator[pa.Table]:
    return (table.slice(start, size) for start in range(0, table.num_rows, size))
