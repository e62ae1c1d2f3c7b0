"""Whose a row is: a column of labels that is read beside those of the schema, and is not a feature."""

# pyarrow makes its compute functions at run time, where pyright cannot see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from dplateau.data.columns import column_of, is_text
from dplateau.data.schema import Ignored, Person, Schema
from dplateau.spec import InputError

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS: Final = ("csv", "jsonl", "parquet")


def with_person(schema: Schema, name: str, path: object, kind: str | None) -> Schema:
    """The schema of a file of format ``kind``, or of a table in memory (None), with a column of persons, perhaps an ignored one.

    Raises
    ------
    InputError
        The schema uses the column otherwise, or the file has no names of columns.
    """
    if kind not in (*FORMATS, None):
        raise InputError(f"{path}: a {kind} file has no column {name!r} of persons: write it as CSV, JSON lines or Parquet.")
    given = next((column for column in schema.columns if column.name == name), None)
    if given is None and kind == "csv" and not schema.csv.header:
        raise InputError(f'{path} has no header line, so the schema must say where {name!r} is: list it, type = "ignored".')
    if not (given is None or isinstance(given, Ignored)):
        raise InputError(
            f"column {name!r} says whose a row is, and the schema uses it as a {given.kind}: a model must not see that. "
            'Declare it as type = "ignored", or leave it out.'
        )
    columns = schema.columns if given else (*schema.columns, Ignored(name))
    return replace(schema, columns=tuple(Person(name) if column.name == name else column for column in columns))


def persons_in(table: pa.Table, schema: Schema) -> NDArray[Any] | None:
    """The label of each row; None where the schema has no column of persons.

    Raises
    ------
    InputError
        Rows have no label, or the column holds neither texts nor whole numbers.
    """
    import pyarrow as pa

    column = next((column for column in schema.columns if isinstance(column, Person)), None)
    if column is None:
        return None
    values = column_of(table, column.name, schema)
    if not (is_text(values) or pa.types.is_integer(values.type)):
        raise InputError(f"column {column.name!r} of persons is of type {values.type}: expected texts or whole numbers.")
    if missing := values.null_count:
        raise InputError(f"column {column.name!r} is empty in {missing} of {len(values)} rows: say whose they are, or drop them.")
    try:
        return values.to_numpy()
    except pa.ArrowException:
        raise InputError(f"column {column.name!r} of persons holds text that cannot be read: expected UTF-8.") from None


def count_persons(tables: Iterable[pa.Table], schema: Schema) -> int:
    """The number of persons, where the rows of each follow one another."""
    count, last = 0, None
    for table in tables:
        labels = persons_in(table, schema)
        if labels is None or not len(labels):
            continue
        count += int(np.count_nonzero(labels[1:] != labels[:-1])) + (last is None or labels[0] != last)
        last = labels[-1]
    return count
