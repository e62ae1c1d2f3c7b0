"""Parquet in pieces: a few rows of every column at a time, whatever the size of the file and of its row groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dplateau.data.files import existing_file
from dplateau.data.read_csv import check_columns, used_names
from dplateau.data.schema import Schema
from dplateau.spec import InputError

if TYPE_CHECKING:
    import pyarrow as pa

BUFFER: Final = 1 << 16
"""Bytes that are read at a time from a column. Without it Arrow holds a whole row group, which may be the whole file."""


def parquet_groups(path: Path, schema: Schema) -> tuple[int, ...]:
    """The number of rows of each row group, from the file's metadata, after checking the columns.

    Raises
    ------
    InputError
        The file is not Parquet or is damaged, or lacks a column.
    """
    import pyarrow as pa
    from pyarrow import parquet

    existing_file(path)
    try:
        with parquet.ParquetFile(path, pre_buffer=False) as file:
            check_columns(path, schema, file.schema_arrow.names)
            about = file.metadata
            return tuple(about.row_group(i).num_rows for i in range(about.num_row_groups))
    except (pa.ArrowException, OSError):
        raise InputError(f"{path} is not a Parquet file, or is damaged: expected one that pyarrow can read.") from None


def parquet_pieces(
    path: Path, schema: Schema, rows: int, groups: Sequence[int], columns: list[str] | None = None
) -> Iterator[pa.Table]:
    """The row groups ``groups``, one after the other, in pieces of ``rows`` rows; only ``columns`` where they are named.

    Raises
    ------
    InputError
        The file is damaged; says after how many rows. Checksums of pages are compared where the file has them.
    """
    import pyarrow as pa
    from pyarrow import parquet

    seen = 0
    try:
        with parquet.ParquetFile(path, pre_buffer=False, buffer_size=BUFFER, page_checksum_verification=True) as file:
            for batch in file.iter_batches(batch_size=rows, row_groups=list(groups), columns=columns or used_names(schema)):
                seen += batch.num_rows
                yield pa.Table.from_batches([batch])
    except (pa.ArrowException, OSError):
        raise InputError(
            f"{path} is damaged, or does not fit its own metadata: {seen} rows could be read, and not those after them."
            " Write the file anew."
        ) from None
