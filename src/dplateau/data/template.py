"""``schema_template``: a schema for a person to fill in."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from dplateau.data.files import existing_file, format_of, read_bytes
from dplateau.data.read_csv import DELIMITERS, records
from dplateau.data.schema import MISSING
from dplateau.data.schema_file import FILL_IN, toml_key, toml_value
from dplateau.spec import InputError

SAMPLE: Final = 1000

WHY: Final = f"""\
# A public schema. Replace every "{FILL_IN}"; until then it is refused.
#
# Why it is not filled in: the least and the largest number of a column, or the values that occur in it, are statistics of private
# rows. One person can change them, so a model that rests on them tells about that person, and no guarantee covers it. Take ranges,
# values and classes from a form, a code book, a law or common knowledge. Numbers outside a range are clipped to it; undeclared
# categories and missing values become "unknown"; so a sensible guess is good enough, and it uses no private data.
#
# Only the columns' names and types come from the file. The types were guessed from its first rows: check that they are as you would
# have written them without looking.
#
# type = "number"    low, high; transform = "log" for heavy tails; bins = [...] for indicators of intervals
#                    (with transform = "none", only these)
# type = "category"  values = [...]
# type = "target"    classes = [...], or low and high to predict a number; exactly one column
# type = "ignored"   the column is not used: right for names, row numbers and the like
"""


def schema_template(path: str | Path, *, target: str | None = None, header: bool = True) -> str:
    """Write a schema for a file, with its columns' names and types, and with ranges, values and classes left to fill in.

    They are left open on purpose: they would be statistics of private rows. ``load_schema`` refuses the template until a person
    has written public ones.

    Parameters
    ----------
    path : str or Path
        A CSV, Parquet, LIBSVM or NumPy file.
    target : str, optional
        The column to predict. Without it the last column is proposed.
    header : bool, default True
        Whether a CSV file starts with a line of column names; otherwise columns are named column_1, column_2 and so on.

    Returns
    -------
    str
        TOML text.

    Raises
    ------
    InputError
        The file cannot be read, has no column ``target``, or has no header line where one is expected.
    """
    path = existing_file(path)
    kind = format_of(path)
    head = [f'format = "{kind}"']
    if kind == "csv":
        delimiter, columns = _csv_columns(path, header)
        head += ["", "[csv]", f"header = {toml_value(header)}", f"delimiter = {toml_value(delimiter)}"]
    elif kind == "parquet":
        columns = _parquet_columns(path)
    else:
        columns = {"x": "vector", "y": "target"}
    target = target or list(columns)[-1]
    if target not in columns:
        raise InputError(f"{path} has no column {target!r} to be the target: give the name of one of its {len(columns)} columns.")
    tables = [_table(name, "target" if name == target else column) for name, column in columns.items()]
    return "\n".join([WHY, *head, "", *tables])


def _table(name: str, kind: str) -> str:
    keys = {
        "number": ("low", "high"),
        "vector": ("size", "low", "high"),
        "category": ("values",),
        "target": ("classes",),
        "ignored": (),
    }
    lines = [f'{key} = ["{FILL_IN}"]' if key in ("values", "classes") else f'{key} = "{FILL_IN}"' for key in keys[kind]]
    return "\n".join([f"[columns.{toml_key(name)}]", f'type = "{kind}"', *lines, ""])


def _csv_columns(path: Path, header: bool) -> tuple[str, dict[str, str]]:
    """The delimiter, and the type of each column, of the first rows."""
    content = read_bytes(path)
    candidates = [
        (mark, [row for _, row in zip(range(SAMPLE), (row for _, row in records(content, mark)), strict=False)])
        for mark in DELIMITERS
    ]
    # The delimiter is the one that cuts every line into equally many fields, and into the most of them.
    even = [(len(rows[0]), mark, rows) for mark, rows in candidates if rows and len({len(row) for row in rows}) == 1]
    if not even or (best := max(even, key=lambda candidate: candidate[0]))[0] == 1:
        raise InputError(f"{path}: no delimiter cuts the first lines into equally many fields, two or more: expected a CSV file.")
    _, delimiter, rows = best
    if header:
        names, rows = [name.strip() for name in rows[0]], rows[1:]
        if any(_is_number(name) for name in names):
            raise InputError(
                f"{path}: the first line looks like data, not like column names. If there is no header line, pass header=False."
            )
        if "" in names or len(set(names)) < len(names):
            raise InputError(
                f"{path}: a column name in the first line is empty or used twice: every column needs a name of its own."
            )
    else:
        names = [f"column_{i}" for i in range(1, len(rows[0]) + 1)]
    values = {name: [value for row in rows if (value := row[i].strip()) not in MISSING] for i, name in enumerate(names)}
    return delimiter, {name: "number" if column and all(map(_is_number, column)) else "category" for name, column in values.items()}


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _parquet_columns(path: Path) -> dict[str, str]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        schema = parquet.read_schema(path)
    except (pa.ArrowException, OSError):
        raise InputError(f"{path} is not a Parquet file, or is damaged: expected one that pyarrow can read.") from None
    return {field.name: _parquet_type(field.type) for field in schema}


def _parquet_type(kind: object) -> str:
    import pyarrow as pa

    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return "vector"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind) or pa.types.is_boolean(kind):
        return "category"
    return "ignored"  # dates, bytes and nested columns have no encoding
