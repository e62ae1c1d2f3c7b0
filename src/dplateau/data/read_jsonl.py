"""JSON lines to tables of texts: one object a line is one record, and its numbers are taken as they are written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dplateau.data.csv_records import whole_lines
from dplateau.data.files import existing_file
from dplateau.data.read_csv import used_names
from dplateau.data.schema import Csv, Schema
from dplateau.spec import InputError

if TYPE_CHECKING:
    import pyarrow as pa

PLAIN = Csv(header=False)


class _Pairs(list[tuple[str, Any]]):
    """The keys and values of an object, in which a key that is given twice can be seen."""


def jsonl_pieces(path: Path, schema: Schema, columns: list[str] | None = None) -> Iterator[pa.Table]:
    """The schema's columns of a file of JSON lines (UTF-8), every one as text, some rows at a time. Blank lines are skipped.

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
        A line is not a JSON object, gives a key twice, lacks a column, or a column holds a list or an object.
        Lines are named by number, never by what they say.
    """
    import pyarrow as pa

    used = columns or used_names(schema)
    for line, content in lines_of(path):
        rows = [_texts(path, number, text, used) for number, text in enumerate(content.split(b"\n"), line) if text.strip()]
        if rows:
            yield pa.table(
                {name: pa.array(column, pa.string()) for name, column in zip(used, zip(*rows, strict=True), strict=True)}
            )


def lines_of(path: Path) -> Iterator[tuple[int, bytes]]:
    """Pieces of whole lines, each with the number of its first line."""
    return whole_lines(existing_file(path), PLAIN)


def record(path: Path, line: int, text: bytes) -> dict[str, Any]:
    """The object of a line: texts, numbers as they are written, None, and lists for what is nested."""
    try:
        found = json.loads(text.decode(), object_pairs_hook=_Pairs, parse_int=str, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, _Pairs):
        raise InputError(f"{path}, line {line}: expected one JSON object, in UTF-8. Write one record in every line.")
    given = dict(found)
    if len(given) < len(found):
        raise InputError(f"{path}, line {line}: a key is given twice, so the record is ambiguous. Write every key once.")
    return {key: str(value).lower() if isinstance(value, bool) else value for key, value in given.items()}


def _texts(path: Path, line: int, text: bytes, used: list[str]) -> list[str | None]:
    given = record(path, line, text)
    if lacking := next((name for name in used if name not in given), None):
        raise InputError(f"{path}, line {line} lacks {lacking!r}, which the schema declares: write null where it is missing.")
    values = [given[name] for name in used]
    for name, value in zip(used, values, strict=True):
        if isinstance(value, list):
            raise InputError(
                f"{path}, line {line}: {name!r} is a list or an object: expected a text, a number, a truth value or null."
            )
        if isinstance(value, str) and not value.isascii() and any("\ud800" <= one <= "\udfff" for one in value):
            raise InputError(f"{path}, line {line}: {name!r} holds half of a surrogate pair, which is not text. Repair the line.")
    return values
