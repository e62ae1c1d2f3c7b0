"""CSV to tables of texts. Types are the schema's business, so nothing is inferred from the rows.

Only where a schema says that a column holds numbers may it be parsed as such, which is many times faster; what does not parse is
read as text.
"""

# pyarrow makes its compute functions at run time, where pyright cannot see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dplateau.data.csv_records import breaks, first_record, whole_records
from dplateau.data.files import existing_file
from dplateau.data.schema import Ignored, Number, Person, Schema, Target
from dplateau.spec import InputError

if TYPE_CHECKING:
    import pyarrow as pa

DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar", " ": "space", ":": "colon"}

NANS: Final = ("NaN", "nan")
"""Texts that mean missing, and that Arrow reads as a number that means missing where one of them does."""


def csv_pieces(path: Path, schema: Schema, columns: list[str] | None = None, *, parsed: bool = False) -> Iterator[pa.Table]:
    """The schema's columns of a CSV file, every one as text, some rows at a time.

    Parameters
    ----------
    path : Path
        The file.
    schema : Schema
        The public schema.
    columns : list of str, optional
        Read only these.
    parsed : bool, default False
        Whether columns of numbers may be float64 in place of texts: in a first part of the pieces, until one holds something else.

    Raises
    ------
    InputError
        The file is empty, or not in the declared encoding, the delimiter is wrong, lines differ in their number of fields or have
        quotes that are not closed, or a column is missing. Lines are named by their number, never by what they say; so is the
        header, which is a private row if the file has none.
    """
    import pyarrow as pa

    used, names = columns or used_names(schema), None
    numbers: frozenset[str] = _numbers(schema) if parsed else frozenset()
    existing_file(path)
    for line, content in whole_records(path, schema.csv):
        if names is None:
            head, rest = first_record(content, schema.csv)
            if not head:
                continue
            names = file_names(path, head, schema)
            if schema.csv.header:
                line, content = line + breaks(content) - breaks(rest), rest
        table = None
        if numbers and b"\0" not in content:
            try:
                table = _parsed(content, names, used, schema, numbers)
            except pa.ArrowInvalid:
                numbers = frozenset()
        if table is None:
            table = _texts(path, line, content, names, used, schema)
        if table.num_rows:
            _check_header_once(path, table, schema)
            yield table
    if names is None:
        raise InputError(f"{path} is empty: expected a table with at least one row.")


def _numbers(schema: Schema) -> frozenset[str]:
    """Columns that Arrow may parse as numbers, with the same result as from their texts, or none at all."""
    # A marker with spaces around it would be a number, where it looks like one.
    if not schema.strip or schema.csv.decimal != "." or any(_is_number(text) for text in schema.missing if text not in NANS):
        return frozenset()
    return frozenset(column.name for column in schema.columns if isinstance(column, Number))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _parsed(content: bytes, names: list[str], used: list[str], schema: Schema, numbers: frozenset[str]) -> pa.Table:
    """Whole records as a table of the columns ``used``, with ``numbers`` in float64; raises ``ArrowInvalid``, which quotes rows."""
    import pyarrow as pa
    from pyarrow import csv as arrow

    every = [str(place) for place in range(len(names))]
    stripped = [name.strip() if schema.strip else name for name in names]
    places = [str(stripped.index(name)) for name in used]
    kinds = {place: pa.float64() if name in numbers else pa.string() for name, place in zip(used, places, strict=True)}
    # Arrow drops a byte order mark at the beginning, and where a piece begins must not matter to the row there: a blank line is put
    # before it. One block, or Arrow would cut the piece by rules of its own.
    options: dict[str, Any] = {
        "read_options": arrow.ReadOptions(use_threads=False, column_names=every, block_size=len(content) + 2),
        "parse_options": arrow.ParseOptions(delimiter=schema.csv.delimiter, newlines_in_values=schema.csv.line_breaks),
        "convert_options": arrow.ConvertOptions(include_columns=places, column_types=kinds, null_values=list(schema.missing)),
    }
    return arrow.read_csv(pa.BufferReader(b"\n" + content), **options).rename_columns(used)


def _texts(path: Path, line: int, content: bytes, names: list[str], used: list[str], schema: Schema) -> pa.Table:
    """Whole records, the first of them in line ``line``, as a table of texts."""
    import pyarrow as pa

    try:
        table = _parsed(content, names, used, schema, frozenset())
    except pa.ArrowInvalid:  # Its message quotes the row.
        raise _unreadable(path, line, content, len(names), schema.csv.delimiter) from None
    if b"\0" in content and (bad := next((name for name in used if _has_nul(table.column(name))), None)):
        raise InputError(
            f"{path}, lines {line} to {line + breaks(content) - 1}: column {bad!r} holds a NUL byte, which is not text."
        )
    if schema.csv.decimal == ",":
        measured = {column.name for column in schema.columns if isinstance(column, Number)} | (
            {schema.target.name} if schema.targets and not schema.target.classes else set()
        )
        for place, name in enumerate(used):
            if name in measured:
                table = table.set_column(place, name, _with_points(table.column(name), schema))
    return table


def _has_nul(values: pa.ChunkedArray) -> bool:
    from pyarrow import compute

    return bool(compute.any(compute.match_substring(values, "\0")).as_py())


def _with_points(values: pa.ChunkedArray, schema: Schema) -> pa.ChunkedArray:
    """Commas as points, and points as commas, so that a point is not a number; texts that mean missing stay as they are."""
    import pyarrow as pa
    from pyarrow import compute

    swapped = compute.replace_substring(values, ",", "\0")  # no text of the file holds a NUL byte
    for old, new in ((".", ","), ("\0", ".")):
        swapped = compute.replace_substring(swapped, old, new)
    trimmed = compute.utf8_trim_whitespace(values) if schema.strip else values
    return compute.if_else(compute.is_in(trimmed, value_set=pa.array(schema.missing, pa.string())), values, swapped)


def _check_header_once(path: Path, table: pa.Table, schema: Schema) -> None:
    """Raise if a row holds the header again, as files that were joined do."""
    from pyarrow import compute

    if not schema.targets:
        return
    target = schema.target
    if schema.csv.header and target.name not in {*target.classes, *dict(target.aliases)}:
        again = compute.equal(compute.utf8_trim_whitespace(table.column(target.name)), target.name)
        if compute.any(again).as_py():
            raise InputError(f"{path} holds its header line again among the rows: remove it, and see whether files were joined.")


def _unreadable(path: Path, line: int, content: bytes, expected: int, delimiter: str) -> InputError:
    """The first line that has another number of fields, or is not UTF-8, in words."""
    for number, fields in records(content, delimiter):
        if len(fields) != expected:
            return InputError(
                f"{path}, line {line + number - 1}: {len(fields)} fields where {expected} are expected. Repair the line, or check"
                " delimiter, comment and quotes in the schema's [csv]."
            )
    where = ""
    try:
        content.decode()
    except UnicodeDecodeError as error:
        where = f", line {line + breaks(content, error.start)}"
    return InputError(
        f"{path}{where} is not readable as CSV: expected UTF-8 text with delimiter {delimiter!r}, or another"
        " encoding that is declared in the schema's [csv]."
    )


def used_names(schema: Schema) -> list[str]:
    """The names of the columns that are read."""
    return [column.name for column in schema.columns if not isinstance(column, Ignored)]


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


def file_names(path: Path, first_line: bytes, schema: Schema) -> list[str]:
    """The names of the file's columns as the file spells them, after checking that the first record fits the schema."""
    declared = [column.name for column in schema.columns]
    delimiter = schema.csv.delimiter
    first = next((fields for _, fields in records(first_line, delimiter)), None)
    if first is None:
        raise InputError(f"{path}: a field of the first record is longer than {csv.field_size_limit():,} characters: repair it.")
    if len(first) == 1 < len(declared) and not (schema.csv.header and first[0].strip() in declared):
        other = next((mark for mark in DELIMITERS if mark != delimiter and mark in first[0]), None)
        hint = (
            f' It may be the {DELIMITERS[other]}: set delimiter = "{other.replace(chr(9), chr(92) + "t")}" in [csv].'
            if other
            else ""
        )
        raise InputError(f"{path}: delimiter {delimiter!r} finds one column where the schema declares {len(declared)}.{hint}")
    if b"\0" in first_line and schema.csv.header:
        raise InputError(f"{path}: the header line holds NUL bytes. If it is UTF-16, declare the encoding in the schema's [csv].")
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
    hint = "" if set(declared) & set(stripped) else "If the file has no header line, set header = false in the schema's [csv]."
    if "\ufffd" in "".join(first):
        hint = "The header line is not UTF-8 text: declare the encoding of the file in the schema's [csv]."
    check_columns(path, schema, stripped, hint)
    return first


def check_columns(path: Path | str, schema: Schema, found: list[str], hint: str = "") -> None:
    """Raise unless every column that the schema uses is in ``found``, once."""
    for column in schema.columns:
        if not isinstance(column, Ignored) and found.count(column.name) != 1:
            what = "target column" if isinstance(column, Target) else "column"
            fault = "lacks" if column.name not in found else "has more than one"
            which = "says whose a row is" if isinstance(column, Person) else "the schema declares"
            if not schema.targets:
                trained = "the model was trained on: every column that it was trained on is needed"
                which = "is to be kept" if isinstance(column, Person) else trained
            raise InputError(f"{path} {fault} {what} {column.name!r}, which {which}. {hint}".rstrip())
