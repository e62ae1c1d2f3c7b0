"""Parquet in pieces: a few rows of every column at a time, whatever the size of the file and of its row groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dplateau.data.files import existing_file
from dplateau.data.read_csv import check_columns, used_names
from dplateau.data.schema import Schema
from dplateau.spec import InputError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import fs

BUFFER: Final = 1 << 16
"""Bytes that are read at a time from a column. Without it Arrow holds a whole row group, which may be the whole file."""


def parquet_groups(
    name: str | Path, schema: Schema, filesystem: fs.FileSystem | None = None, path: str | None = None
) -> tuple[tuple[int, ...], dict[str, pa.DataType]]:
    """The number of rows of each row group, from the file's metadata, and the types of the columns, after checking these.

    Parameters
    ----------
    name : str or Path
        The file; what messages call it, where it is on a file system.
    schema : Schema
        The public schema.
    filesystem : pyarrow.fs.FileSystem, optional
        Where the file is: by default, here.
    path : str, optional
        Its path there.

    Raises
    ------
    InputError
        The file is not Parquet or is damaged, or lacks a column.
    """
    from pyarrow import parquet

    if filesystem is None:
        existing_file(name)
    try:
        with parquet.ParquetFile(path or name, pre_buffer=False, filesystem=filesystem) as file:
            found = file.schema_arrow
            check_columns(Path(name) if filesystem is None else name, schema, found.names)
            about = file.metadata
            groups = tuple(about.row_group(i).num_rows for i in range(about.num_row_groups))
            return groups, {one: found.field(one).type for one in used_names(schema)}
    except InputError:
        raise
    except Exception:  # A store that is not here raises what it likes, with addresses and keys in it.
        raise InputError(f"{name} is not a Parquet file, or is damaged: expected one that pyarrow can read.") from None


def parquet_pieces(
    name: str | Path,
    schema: Schema,
    rows: int,
    groups: Sequence[int] | None,
    columns: list[str] | None = None,
    filesystem: fs.FileSystem | None = None,
    path: str | None = None,
) -> Iterator[pa.Table]:
    """The row groups ``groups``, by default all, one after the other, in pieces of about ``rows`` rows; only ``columns`` if named.

    ``name``, ``filesystem`` and ``path`` as in ``parquet_groups``. From a store that is not here, a row group is read at once.

    Raises
    ------
    InputError
        The file is damaged; says after how many rows. Checksums of pages are compared where the file has them.
    """
    import pyarrow as pa
    from pyarrow import fs, parquet

    here = filesystem is None or isinstance(filesystem, fs.LocalFileSystem)
    how: Any = {"buffer_size": BUFFER} if here else {"pre_buffer": True}
    seen = 0
    try:
        with parquet.ParquetFile(
            path or name, **{"pre_buffer": False, **how}, page_checksum_verification=True, filesystem=filesystem
        ) as file:
            wanted = list(range(file.num_row_groups) if groups is None else groups)
            size = _fitting(rows, file.metadata.row_group(0).num_rows) if wanted else rows
            names = columns or used_names(schema)
            for part in [wanted] if here else [[group] for group in wanted]:
                for batch in file.iter_batches(batch_size=size, row_groups=part, columns=names):
                    seen += batch.num_rows
                    # Of the types alone: whether a column may lack values can differ from file to file.
                    yield pa.table({name: batch.column(name) for name in names})
    except Exception:  # as above
        raise InputError(
            f"{name} is damaged, or does not fit its own metadata: {seen} rows could be read, and not those after them."
            " Write the file anew."
        ) from None


def _fitting(rows: int, group: int) -> int:
    """About ``rows`` rows, two thirds to three halves of them, so that pieces end where row groups of ``group`` rows do.

    Arrow reads every column twice for a piece that reaches over the end of a group.
    """
    group = max(1, group)
    return -(-group // round(group / rows)) if group > rows else group * round(rows / group)
