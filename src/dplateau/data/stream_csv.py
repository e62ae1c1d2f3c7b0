"""CSV in pieces, and the number of its rows."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dplateau.data.files import existing_file
from dplateau.data.read_csv import arrow_options, file_names, used_names, without_comments
from dplateau.data.schema import Schema
from dplateau.spec import InputError

if TYPE_CHECKING:
    import pyarrow as pa

HEAD: Final = 1 << 20
"""Bytes in which the first record must end, with the comments before it."""
BLOCK = 1 << 22
"""Bytes that are parsed at a time. No record may be longer."""


def count_csv(path: Path, schema: Schema) -> int:
    """The number of rows of a CSV file, by reading it once."""
    return sum(piece.num_rows for piece in csv_pieces(path, schema, [schema.target.name]))


def csv_pieces(path: Path, schema: Schema, columns: list[str] | None = None) -> Iterator[pa.Table]:
    """The schema's columns of a CSV file (UTF-8), every one as text, some rows at a time.

    Parameters
    ----------
    path : Path
        The file.
    schema : Schema
        The public schema.
    columns : list of str, optional
        Read only these.

    Raises
    ------
    InputError
        As for ``read_csv``. A ragged record is named by its number, which counts a header, and neither blank lines nor comments.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow

    used = columns or used_names(schema)
    ragged: list[Any] = []
    seen = 0

    def stop(row: Any) -> str:
        ragged.append(row)
        return "error"

    existing_file(path)
    try:
        with _Lines(path, schema.csv.comment) as lines:
            head = lines.read(HEAD)
        options = arrow_options(file_names(path, head, schema), used, schema, stop, BLOCK)
        with _Lines(path, schema.csv.comment) as lines:
            for batch in arrow.open_csv(lines if schema.csv.comment else str(path), **options):
                seen += batch.num_rows
                yield pa.Table.from_batches([batch]).rename_columns(used)
    except (pa.ArrowException, OSError):
        if ragged:
            row = ragged[0]
            raise InputError(
                f"{path}, record {row.number}: {row.actual_columns} fields where {row.expected_columns} are expected."
                " Repair the record, or check delimiter, comment and quotes in the schema's [csv]."
            ) from None
        raise InputError(
            f"{path} is not readable as CSV: {seen} rows could be read, and not those after them. Expected UTF-8 text with"
            f" delimiter {schema.csv.delimiter!r} and no record above {BLOCK >> 10} KiB: look for a quote that is not closed."
        ) from None


class _Lines(io.RawIOBase):
    """The content of a file with comment lines blanked."""

    def __init__(self, path: Path, comment: str) -> None:
        self._file = path.open("rb")
        self._comment = comment
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._ready:
            # Whole lines, but for those that are too long to be read anyway.
            self._ready = memoryview(without_comments(self._file.read(BLOCK) + self._file.readline(BLOCK), self._comment))
        size = min(len(buffer), len(self._ready))
        buffer[:size], self._ready = self._ready[:size], self._ready[size:]
        return size

    def close(self) -> None:
        self._file.close()
        super().close()
