"""``schema_template``: a schema for a person to fill in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from dplateau.data.files import existing_file, format_of
from dplateau.data.guess import LEFT_OUT, Guess, guess, guess_target, has_commas, numbers_of
from dplateau.data.read_csv import DELIMITERS, records
from dplateau.data.read_jsonl import lines_of, record
from dplateau.data.schema import Csv
from dplateau.data.schema_file import FILL_IN, MOST_DIGITS, MOST_NUMBERS, toml_key, toml_value
from dplateau.data.text_file import MARKS, open_bytes, open_text
from dplateau.spec import InputError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import parquet

SAMPLE: Final = 1000
HEAD: Final = 1 << 20
"""Bytes of a CSV file that are looked at."""
ALIKE: Final = 8
"""So many numbered columns in a row are described by one table."""
NUMBERED: Final = re.compile(rf"([^*]*?)([0-9]{{1,{MOST_DIGITS}}})([^*0-9]*)")
UNNAMED: Final = "# The first column of the file has no name, as the row numbers that pandas writes. It is left out.\n"
GUESSED: Final = " # a guess: the file is not UTF-8. Check that names and texts look right"
KEYS: Final = {
    "number": ("low", "high"),
    "date": ("first", "last"),
    "vector": ("size", "low", "high"),
    "category": ("values",),
    "target": ("classes",),
    "target number": ("low", "high"),
    "ignored": (),
}
Columns = Mapping[str, list[str] | str]
"""The texts of the first rows of each column, or its kind where the file says it."""

WHY: Final = f"""\
# A public schema. Replace every "{FILL_IN}"; until then it is refused.
#
# Why it is not filled in: the least and the largest number of a column, or the values that occur in it, are statistics of private
# rows. One person can change them, so a model that rests on them tells about that person, and no guarantee covers it. Take ranges,
# values and classes from a form, a code book, a law or common knowledge. Numbers outside a range are clipped to it; undeclared
# categories and missing values become "unknown"; so a sensible guess is good enough, and it uses no private data.
#
# Only the columns' names and types come from the file. The types, and which columns to leave out, were guessed from its first rows:
# check that they are as you would have written them without looking.
# A table with numbers = [1, 64] and a * in its name describes 64 columns: the star stands for each number.
#
# type = "number"    low, high; transform = "log" for heavy tails; bins = [...] for indicators of intervals
#                    (with transform = "none", only these)
# type = "category"  values = [...]; aliases = {{ "other spelling" = "value" }}
# type = "date"      first, last; dates like 2020-12-31
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
        A CSV, JSON lines, Parquet, LIBSVM or NumPy file.
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
    head, note, decimal = [f'format = "{kind}"'], "", "."
    if kind == "csv":
        options, note, columns = _csv_columns(path, header)
        head += ["", "[csv]", *options]
        decimal = "," if 'decimal = ","' in options else "."
    elif kind == "jsonl":
        columns = _jsonl_columns(path)
    elif kind == "parquet":
        columns = _parquet_columns(path)
    else:
        columns = {"x": "vector", "y": "target"}
    target = target or list(columns)[-1]
    if target not in columns:
        raise InputError(f"{path} has no column {target!r} to be the target: give the name of one of its {len(columns)} columns.")
    guesses = {name: _guess(name, found, decimal, target=name == target) for name, found in columns.items()}
    return "\n".join([WHY, *head, "", *([note] if note else []), *_tables(guesses, numbered=header or kind != "csv")])


def _guess(name: str, found: list[str] | str, decimal: str, *, target: bool) -> Guess:
    if isinstance(found, str):
        return Guess("target") if target else Guess(found, LEFT_OUT.get(found, ""))
    return guess_target(found, decimal=decimal) if target else guess(name, found, decimal=decimal)


def _tables(guesses: dict[str, Guess], *, numbered: bool) -> Iterator[str]:
    """A table for each column, and one for many that are numbered and alike."""
    names, taken = list(guesses), set(guesses)
    while names:
        name, run = _run(names, guesses) if numbered else (names[0], [])
        some, names = names[: max(1, len(run))], names[max(1, len(run)) :]
        if len(run) < ALIKE or name in taken:
            yield from (_table(one, guesses[one], "") for one in some)
        else:
            taken.add(name)
            ends = (run[0], run[-1]) if _is_padded(run[0]) else (int(run[0]), int(run[-1]))
            yield _table(name, guesses[some[0]], f"numbers = {toml_value(ends)}\n")


def _run(names: list[str], guesses: dict[str, Guess]) -> tuple[str, list[str]]:
    """The first columns that are numbers and whose names count on by one: their name, with a star, and what it stands for."""
    first = NUMBERED.fullmatch(names[0])
    if first is None:
        return names[0], []
    before, number, after = first.groups()
    digits, longest = (len(number), len(number)) if _is_padded(number) else (1, MOST_DIGITS)
    found: list[str] = []
    for name in names[:MOST_NUMBERS]:
        text = f"{int(number) + len(found):0{digits}}"
        if name != f"{before}{text}{after}" or len(text) > longest or guesses[name] != Guess("number"):
            break
        found.append(text)
    return f"{before}*{after}", found


def _is_padded(number: str) -> bool:
    """Whether a number has zeros in front, to have as many digits as others."""
    return number != str(int(number))


def _table(name: str, found: Guess, numbers: str) -> str:
    kind = "ignored" if found.kind in LEFT_OUT else found.kind
    lines = [f'{key} = ["{FILL_IN}"]' if key in ("values", "classes") else f'{key} = "{FILL_IN}"' for key in KEYS[kind]]
    why = f"# {found.why}\n" if found.why else ""
    return "\n".join([f'{why}[columns.{toml_key(name)}]\n{numbers}type = "{kind.split()[0]}"', *lines, ""])


def _csv_columns(path: Path, header: bool) -> tuple[list[str], str, Columns]:
    """The keys of ``[csv]``, a note, and the texts of each column in the first rows."""
    content, encoding = _head(path)
    candidates = [(mark, [row for _, row in islice(records(content, mark), SAMPLE)]) for mark in DELIMITERS]
    # The delimiter is the one that cuts every line into equally many fields, and into the most of them.
    even = [(len(rows[0]), mark, rows) for mark, rows in candidates if rows and len({len(row) for row in rows}) == 1]
    if not even or (best := max(even, key=lambda candidate: candidate[0]))[0] == 1:
        raise InputError(f"{path}: no delimiter cuts the first lines into equally many fields, two or more: expected a CSV file.")
    _, delimiter, rows = best
    note = ""
    if header:
        names, rows = [name.strip() for name in rows[0]], rows[1:]
        if any(numbers_of([name], ".") for name in names):
            raise InputError(
                f"{path}: the first line looks like data, not like column names. If there is no header line, pass header=False."
            )
        if names[0] == "":
            names, rows, note = names[1:], [row[1:] for row in rows], UNNAMED
        if "" in names or len(set(names)) < len(names):
            raise InputError(
                f"{path}: a column name in the first line is empty or used twice: every column needs a name of its own."
            )
    else:
        names = [f"column_{i}" for i in range(1, len(rows[0]) + 1)]
    values = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    options = [f"header = {toml_value(header)}", f"delimiter = {toml_value(delimiter)}"]
    if encoding != "utf-8":
        options.append(f"encoding = {toml_value(encoding)}{'' if encoding == 'utf-16' else GUESSED}")
    if delimiter != "," and any(has_commas(column) for column in values.values()):
        options.append('decimal = ","')
    return options, note, values


def _head(path: Path) -> tuple[bytes, str]:
    """Whole lines at the beginning as UTF-8, and their encoding: marked, or UTF-8, or else a guess."""
    with open_bytes(path) as file:
        marked = file.read(2) in MARKS
    for encoding in ("utf-16",) if marked else ("utf-8", "cp1252", "latin-1"):
        try:
            with open_text(path, Csv(encoding=encoding)) as file:
                content = file.read(HEAD) + file.readline(HEAD)
            content.decode()
        except UnicodeDecodeError:
            continue
        except InputError:
            if encoding != "cp1252":
                raise
        else:
            return content, encoding
    raise InputError(f"{path} is not readable as text: expected UTF-8, or another encoding of letters.")


def _jsonl_columns(path: Path) -> Columns:
    rows = []
    for line, content in lines_of(path):
        rows += [record(path, i, text) for i, text in islice(enumerate(content.split(b"\n"), line), SAMPLE) if text.strip()]
        if len(rows) >= SAMPLE:
            break
    if not rows:
        raise InputError(f"{path} has no rows: expected at least one.")
    values = {name: [row[name] for row in rows if row.get(name) is not None] for name in rows[0]}
    if "" in values or len(values) < 2:
        raise InputError(f"{path}: the first line names fewer than two columns, or one by an empty text: expected a name for each.")
    return {name: "nested" if any(isinstance(one, list) for one in column) else column for name, column in values.items()}


def _parquet_columns(path: Path) -> Columns:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            found = file.schema_arrow
            if len(set(found.names)) < len(found.names):
                raise InputError(f"{path} has two columns of one name: every column needs a name of its own.")
            kinds = {field.name: _parquet_type(field.type) for field in found}
            texts = [name for name, kind in kinds.items() if not kind]
            kinds |= {name: "date" if _midnights(file, name) else "time" for name, kind in kinds.items() if kind == "timestamp"}
            batch = next(file.iter_batches(batch_size=SAMPLE, columns=texts), None)
            rows = {
                name: [] if batch is None else [str(one) for one in batch.column(name).drop_null().to_pylist()] for name in texts
            }
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError):
        raise InputError(f"{path} is not a Parquet file, or is damaged: expected one that pyarrow can read.") from None
    return {name: kind or rows[name] for name, kind in kinds.items()}


def _midnights(file: parquet.ParquetFile, name: str) -> bool:
    """Whether the first times of a column are midnights, as which pandas writes dates."""
    batch = next(file.iter_batches(batch_size=SAMPLE, columns=[name]), None)
    times = np.array([], np.datetime64) if batch is None else batch.column(0).drop_null().to_numpy(zero_copy_only=False)
    return bool((times == times.astype("datetime64[D]")).all())


def _parquet_type(kind: pa.DataType) -> str:
    """The kind of a column, or nothing where its first rows tell more."""
    import pyarrow as pa

    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return "vector"
    if pa.types.is_date(kind):
        return "date"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "time"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return ""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind) or pa.types.is_boolean(kind):
        return ""
    return "ignored"  # bytes and nested columns have no encoding
