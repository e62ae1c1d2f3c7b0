"""Schemas as TOML: ``load_schema``, ``schema_to_toml``, and the schemas that come with the package."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, Final

from dplateau.data.schema import KINDS, Column, Csv, Schema
from dplateau.files import as_path
from dplateau.spec import InputError
from dplateau.spec.arguments import of_type
from dplateau.spec.one_line import escaped

BUILTIN: Final = ("adult", "a9a")
FILL_IN: Final = "FILL IN"
LARGEST: Final = 1 << 26
"""Characters of a schema."""
MOST_NUMBERS: Final = 10_000
MOST_DIGITS: Final = 9
_NUMBER: Final = re.compile(rf"[0-9]{{1,{MOST_DIGITS}}}")


def load_schema(source: str | Path | Schema) -> Schema:
    """Read a schema.

    Parameters
    ----------
    source : str, Path or Schema
        A TOML file, or the name of a schema that comes with the package (``"adult"``, ``"a9a"``), or a schema, which is returned.

    Returns
    -------
    Schema
        The validated schema.

    Raises
    ------
    InputError
        There is no such file, it is not TOML, it has unknown or missing keys, or it is a template that is not filled in.
    """
    if isinstance(source, Schema):
        return source
    if str(source) in BUILTIN:
        return schema_from_toml(
            (Path(__file__).parent / "schemas" / f"{source}.toml").read_text(encoding="utf-8"), where=str(source)
        )
    path = as_path(source, "the schema", " Or pass a Schema, or one of " + ", ".join(BUILTIN) + ".")
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(LARGEST + 1)
    except FileNotFoundError:
        raise InputError(f"{path}: no such schema: expected a TOML file, or one of {', '.join(BUILTIN)}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: the schema cannot be read ({getattr(error, 'strerror', None) or 'not UTF-8 text'}).") from None
    if len(text) > LARGEST:
        raise InputError(f"{path}: the schema has more than {LARGEST:,} characters: expected a TOML file.")
    return schema_from_toml(text, where=str(path))


def schema_from_toml(text: str, *, where: str = "schema") -> Schema:
    """The schema that a TOML text describes; ``where`` names its origin in error messages."""
    if not isinstance(text, str):
        raise InputError(f"{where} is of type {type(text).__name__}: expected a TOML text; load_schema reads a file.")
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{where}: the schema is not TOML: {error}.") from None
    try:
        return _schema(data)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _schema(data: dict[str, Any]) -> Schema:
    columns = data.pop("columns", None)
    if not isinstance(columns, dict) or not all(isinstance(entry, dict) for entry in columns.values()):
        raise InputError("the schema has no columns: describe every column in a table [columns.NAME] with a type.")
    if open_columns := [name for name, entry in columns.items() if FILL_IN in _leaves(entry)]:
        raise InputError(
            f'{len(open_columns)} columns still say "{FILL_IN}": {", ".join(open_columns)}. Write their public ranges, values'
            ' or classes, from a form or common knowledge and not from the rows, or set type = "ignored".'
        )
    csv = data.pop("csv", {})
    if not isinstance(csv, dict):
        raise InputError("csv must be a table [csv].")
    built = tuple(column for name, entry in columns.items() for column in _columns(name, entry))
    return Schema(**_known("the schema", Schema, {**data, "csv": Csv(**_known("[csv]", Csv, csv)), "columns": built}))


def _leaves(value: Any) -> list[Any]:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return [value] if parts is None else [leaf for part in parts for leaf in _leaves(part)]


def _columns(name: str, entry: dict[str, Any]) -> Iterator[Column]:
    """The column of a table, or, where it has ``numbers = [first, last]``, one for each number in place of the ``*`` in its name.

    Ends that are texts give all numbers as many digits. Which columns these are is said by the schema alone and not by the file.
    """
    if "numbers" not in entry:
        yield _column(name, entry)
        return
    entry = dict(entry)
    ends = entry.pop("numbers")
    wanted = (
        f'column {name!r}: numbers is {ends!r}: expected two whole numbers, as [1, 64], or as texts of one length, ["01", "64"]'
    )
    if not isinstance(ends, list) or len(ends) != 2 or not all(_NUMBER.fullmatch(str(end)) for end in ends):
        raise InputError(f"{wanted}.")
    (first, last), texts = map(int, ends), [end for end in ends if isinstance(end, str)]
    if first > last or len(texts) == 1 or len({len(text) for text in texts}) > 1:
        raise InputError(f"{wanted}, the first not above the last.")
    if last - first >= MOST_NUMBERS:
        raise InputError(f"column {name!r}: numbers stands for {last - first + 1:,} columns: expected at most {MOST_NUMBERS:,}.")
    if name.count("*") != 1:
        raise InputError(f"column {name!r} has numbers: expected one * in its name, which they take the place of.")
    digits = len(texts[0]) if texts else 1
    for place in range(first, last + 1):
        yield _column(name.replace("*", f"{place:0{digits}}"), entry)


def _column(name: str, entry: dict[str, Any]) -> Column:
    entry = dict(entry)
    kind = KINDS.get(str(entry.pop("type", None)))
    if kind is None:
        raise InputError(f"column {name!r}: type is missing or unknown: expected one of {', '.join(KINDS)}.")
    return kind(**_known(f"column {name!r}", kind, {**entry, "name": name}))


def _known(where: str, kind: type, entry: dict[str, Any]) -> dict[str, Any]:
    """``entry`` if its keys are those of the dataclass ``kind``; lists become tuples."""
    allowed = {field.name: field for field in fields(kind)}
    if unknown := sorted(set(entry) - set(allowed)):
        raise InputError(f"{where} has the unknown keys {unknown}: expected only {sorted(set(allowed) - {'name'})}.")
    needed = {name for name, field in allowed.items() if field.default is MISSING}
    if absent := sorted(needed - set(entry)):
        raise InputError(f"{where} lacks {absent}.")
    return {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}


def schema_to_toml(schema: Schema) -> str:
    """The schema as TOML text, without the keys that have their default values.

    ``schema_from_toml(schema_to_toml(schema)) == schema``, exactly.
    """
    parts = [_table("", of_type("schema", schema, Schema), skip=("columns", "csv"))]
    if schema.csv != Csv():
        parts.append(_table("[csv]", schema.csv))
    parts += [
        _table(f'[columns.{toml_key(column.name)}]\ntype = "{column.kind}"', column, skip=("name",)) for column in schema.columns
    ]
    return "\n".join(part for part in parts if part)


def _table(head: str, record: Any, skip: tuple[str, ...] = ()) -> str:
    values = {field.name: getattr(record, field.name) for field in fields(record) if field.name not in skip}
    defaults = {field.name: field.default for field in fields(record)}
    lines = [f"{name} = {toml_value(value)}" for name, value in values.items() if value != defaults[name]]
    return "".join(f"{line}\n" for line in [head, *lines] if line)


def toml_key(name: str) -> str:
    """A TOML key, quoted where it must be."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_value(name)


def toml_value(value: Any) -> str:
    """A text, number, truth value, tuple, or tuple of pairs (a table) in TOML."""
    if isinstance(value, str):
        # JSON's escapes are TOML's. What cannot be seen is escaped, too: names come from files, and terminals and editors obey it.
        return escaped(json.dumps(value, ensure_ascii=False))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
    if isinstance(value, tuple) and value and isinstance(value[0], tuple):
        return "{ " + ", ".join(f"{toml_key(key)} = {toml_value(item)}" for key, item in value) + " }"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    return str(value)
