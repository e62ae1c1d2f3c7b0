"""CSV to a table of texts. Types are the schema's business, so nothing is inferred from the rows."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dplateau.data.files import read_bytes
from dplateau.data.schema import Ignored, Schema, Target
from dplateau.spec import InputError

if TYPE_CHECKING:
    import pyarrow as pa

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar", " ": "space", ":": "colon"}


def read_csv(path: Path, schema: Schema) -> pa.Table:
    """Read the schema's columns of a CSV file (UTF-8), every one as text.

    Raises
    ------
    InputError
        The file is empty or not UTF-8, the delimiter is wrong, lines have different numbers of fields, or a column is missing.
        Lines are named by their number, never by what they say; so is the header, which is a private row if the file has none.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow

    content = without_comments(read_bytes(path), schema.csv.comment)
    names = file_names(path, content, schema)
    ragged: list[Any] = []

    def stop(row: Any) -> str:
        ragged.append(row)
        return "error"

    used = used_names(schema)
    try:
        table = arrow.read_csv(pa.BufferReader(content), **arrow_options(names, used, schema, stop))
    except (pa.ArrowInvalid, pa.ArrowKeyError):
        if ragged:
            row = ragged[0]
            line = _line_number(content, schema.csv.delimiter, row.number)
            raise InputError(
                f"{path}, line {line}: {row.actual_columns} fields where {row.expected_columns} are expected."
                " Repair the line, or check delimiter, comment and quotes in the schema's [csv]."
            ) from None
        raise InputError(f"{path} is not readable as CSV: expected UTF-8 text with delimiter {schema.csv.delimiter!r}.") from None
    if table.num_rows == 0:
        raise InputError(f"{path} has no rows: expected at least one" + (" after the header line." if schema.csv.header else "."))
    return table.rename_columns(used)


def used_names(schema: Schema) -> list[str]:
    """The names of the columns that are read."""
    return [column.name for column in schema.columns if not isinstance(column, Ignored)]


def arrow_options(
    names: list[str], used: list[str], schema: Schema, stop: Callable[[Any], str], block_size: int | None = None
) -> dict[str, Any]:
    """Arrow's options to read the columns ``used``, as texts, of a file with columns ``names``; ``stop`` hears of ragged rows."""
    import pyarrow as pa
    from pyarrow import csv as arrow

    stripped = [name.strip() if schema.strip else name for name in names]
    spelt = [names[stripped.index(name)] for name in used]
    return {
        # Row numbers are only known when one thread reads.
        "read_options": arrow.ReadOptions(
            use_threads=False, column_names=None if schema.csv.header else names, block_size=block_size
        ),
        "parse_options": arrow.ParseOptions(delimiter=schema.csv.delimiter, newlines_in_values=True, invalid_row_handler=stop),
        "convert_options": arrow.ConvertOptions(include_columns=spelt, column_types=dict.fromkeys(spelt, pa.string())),
    }


def without_comments(content: bytes, comment: str) -> bytes:
    """The content with comment lines blanked, which keeps the line numbers."""
    if not comment:
        return content
    return re.sub(rb"(?m)^" + re.escape(comment.encode()) + rb"[^\n]*", b"", content)


def records(content: bytes, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The records that are not blank, each with the number of the line that it ends on."""
    reader = csv.reader(
        io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", errors="replace", newline=""), delimiter=delimiter
    )
    try:
        for fields in reader:
            if fields:
                yield reader.line_num, fields
    except csv.Error:
        return


def _line_number(content: bytes, delimiter: str, number: int) -> int:
    """The line of the ``number``-th record: the reader counts records, people count lines."""
    return next((line for count, (line, _) in enumerate(records(content, delimiter), 1) if count == number), number)


def file_names(path: Path, content: bytes, schema: Schema) -> list[str]:
    """The names of the file's columns as the file spells them, after checking that the first line fits the schema."""
    declared = [column.name for column in schema.columns]
    delimiter = schema.csv.delimiter
    first = next((fields for _, fields in records(content, delimiter)), None)
    if first is None:
        raise InputError(f"{path} is empty: expected a table with at least one row.")
    if len(first) == 1 < len(declared):
        other = next((mark for mark in DELIMITERS if mark != delimiter and mark in first[0]), None)
        hint = (
            f' It may be the {DELIMITERS[other]}: set delimiter = "{other.replace(chr(9), chr(92) + "t")}" in [csv].'
            if other
            else ""
        )
        raise InputError(f"{path}: delimiter {delimiter!r} finds one column where the schema declares {len(declared)}.{hint}")
    stripped = [field.strip() if schema.strip else field for field in first]
    if not schema.csv.header:
        if len(first) != len(declared):
            raise InputError(
                f"{path}: the first line has {len(first)} fields where the schema declares {len(declared)} columns:"
                ' without a header line the schema must list every column in order (type = "ignored" for those not to be used).'
            )
        if stripped == declared:
            raise InputError(f"{path}: the first line holds the column names: set header = true in the schema's [csv].")
        return declared
    check_columns(path, schema, stripped, "If the file has no header line, set header = false in the schema's [csv].")
    return first


def check_columns(path: Path, schema: Schema, found: list[str], hint: str = "") -> None:
    """Raise unless every column that the schema uses is in ``found``, once."""
    for column in schema.columns:
        if not isinstance(column, Ignored) and found.count(column.name) != 1:
            what = "target column" if isinstance(column, Target) else "column"
            fault = "lacks" if column.name not in found else "has more than one"
            raise InputError(f"{path} {fault} {what} {column.name!r}, which the schema declares. {hint}".rstrip())
