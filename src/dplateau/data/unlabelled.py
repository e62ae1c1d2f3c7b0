"""``Unlabelled``: a schema without its target, for rows that are to be predicted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import ClassVar

from dplateau.data.csv_records import first_record, whole_records
from dplateau.data.files import format_of
from dplateau.data.read_csv import records
from dplateau.data.schema import Column, Ignored, Person, Schema, Target


@dataclass(frozen=True, kw_only=True)
class Unlabelled(Schema):
    """The columns of rows that are to be predicted. It has no ``target``."""

    targets: ClassVar[int] = 0


def unlabelled(schema: Schema) -> Unlabelled:
    """What a table with named columns must have: the features alone."""
    return _with(schema, schema.features)


def unlabelled_in(path: Path, schema: Schema) -> Unlabelled:
    """What a file must have. Where columns have no names their places count, and the target may be there or not."""
    kind = format_of(path, schema)
    if kind in ("parquet", "jsonl") or (kind == "csv" and schema.csv.header):
        return unlabelled(schema)
    kept = [column for column in schema.columns if not isinstance(column, Target)]
    if kind == "csv" and _fields(path, schema) == len(schema.columns):
        return _with(schema, (Ignored(column.name) if isinstance(column, Target) else column for column in schema.columns))
    return _with(schema, kept)


def keeping(schema: Schema, names: Sequence[str]) -> Unlabelled:
    """The same, with further columns that are read as they stand; one that has a place keeps it."""
    placed = {column.name for column in schema.columns}
    columns = [Person(one.name) if isinstance(one, Ignored) and one.name in names else one for one in schema.columns]
    return _with(schema, [*columns, *(Person(name) for name in dict.fromkeys(names) if name not in placed)])


def _with(schema: Schema, columns: Iterable[Column]) -> Unlabelled:
    rest = {one.name: getattr(schema, one.name) for one in fields(schema) if one.name != "columns"}
    return Unlabelled(columns=tuple(columns), **rest)


def _fields(path: Path, schema: Schema) -> int:
    """The number of fields of the first record; 0 where there is none."""
    for _, content in whole_records(path, schema.csv):
        if head := first_record(content, schema.csv)[0]:
            return next((len(found) for _, found in records(head, schema.csv.delimiter)), 0)
    return 0
