"""``check_file``: what a schema makes of the records of a file, counted exactly. For the owner of the records only."""

# pyarrow makes its compute functions at run time, where pyright cannot see them.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from dplateau.data import columns as read
from dplateau.data.schema import Category, Date, Feature, Number, Schema, Target, Vector
from dplateau.data.schema_file import load_schema
from dplateau.data.table_pieces import table_pieces
from dplateau.spec import InputError

if TYPE_CHECKING:
    import pyarrow as pa

FOR_THE_OWNER: Final = (
    "For the owner of the records only: what follows is computed from them without noise, and no epsilon covers it. Do not pass it"
    " on."
)
SPELLINGS: Final = 1000
"""Distinct spellings of a column that are told apart; beyond, they are only counted as undeclared."""


@dataclass(frozen=True)
class Spelling:
    """A text of the file that is declared in another spelling.

    Attributes
    ----------
    found, declared : str
        The text, and the declared one that differs from it only in case, blanks, Unicode form or a final ".0".
    rows : int
        Rows that hold it.
    """

    found: str
    declared: str
    rows: int


@dataclass(frozen=True)
class ColumnFindings:
    """What the schema makes of one column. These are exact statistics of the records.

    Attributes
    ----------
    name, kind : str
        The column, and the kind that the schema declares.
    entries : int
        How many there are: one a row, or for a vector one a row and feature.
    empty, outside, undeclared, unreadable : int
        How many of them are missing, outside the declared range, none of the declared values or classes, or no finite number.
    constant : bool
        Whether every row is encoded alike.
    spellings : tuple of Spelling
        Undeclared texts that are declared in another spelling, the most frequent first.
    refused : bool
        Whether training refuses the file for this column.
    """

    name: str
    kind: str
    entries: int
    empty: int
    outside: int
    undeclared: int
    unreadable: int
    constant: bool
    spellings: tuple[Spelling, ...]
    refused: bool

    @property
    def lost(self) -> bool:
        """Whether no entry fits what is declared, so that nothing of the column reaches a model."""
        return self.entries == self.empty + self.outside + self.undeclared + self.unreadable

    @property
    def clean(self) -> bool:
        """Whether there is nothing to say about the column."""
        return not (self.empty or self.outside or self.undeclared or self.unreadable or self.constant)


@dataclass(frozen=True)
class Findings:
    """What a schema makes of the records of a file.

    Attributes
    ----------
    rows : int
        The number of rows.
    columns : tuple of ColumnFindings
        The columns that the schema uses, in its order.
    """

    rows: int
    columns: tuple[ColumnFindings, ...]

    @property
    def passed(self) -> bool:
        """Whether training would take the file, and something of every column."""
        return not any(column.lost or column.refused for column in self.columns)


def check_file(path: str | Path, schema: str | Path | Schema) -> Findings:
    """Count what a schema clips, drops or refuses in the records of a file.

    What it returns is computed from the records without noise, and no epsilon covers it: it is for the owner of the records, to be
    looked at and not passed on. Nothing is written. The file is read in pieces, and may be larger than the memory; LIBSVM and
    ``.npz`` files are read as a whole.

    A range or a list of values that is changed to what was found here is a statistic of the records from then on. A spelling is
    not, where it says how a program writes and not who is in the file: declare it in the column's ``aliases``.

    Parameters
    ----------
    path : str or Path
        The file, see ``read_table``.
    schema : str, Path or Schema
        The public schema, see ``load_schema``.

    Returns
    -------
    Findings
        Counts for every column.

    Raises
    ------
    InputError
        The schema is not valid, or the file cannot be read by it at all. No message quotes a row.
    """
    public = load_schema(schema)
    used = [*public.features, public.target]
    tallies = [_Tally(column, public) for column in used]
    rows = 0
    for table in table_pieces(path, public):
        rows += table.num_rows
        for column, tally in zip(used, tallies, strict=True):
            tally.add(read.column_of(table, column.name, public))
    if not rows:
        raise InputError(f"{path} has no rows: expected at least one.")
    return Findings(rows, tuple(tally.findings() for tally in tallies))


class _Tally:
    """The counts of one column."""

    def __init__(self, column: Feature | Target, schema: Schema) -> None:
        self.column, self.schema = column, schema
        self.entries = self.empty = self.outside = self.undeclared = self.unreadable = 0
        self.least: Any = np.inf
        self.most: Any = -np.inf
        self.spellings: Counter[tuple[str, str]] = Counter()
        declared = column.values if isinstance(column, Category) else column.classes if isinstance(column, Target) else ()
        aliases = dict(column.aliases) if isinstance(column, Category | Target) else {}
        self.known = {*declared, *aliases}
        self.nearest = {
            _loose(text): stands for text, stands in reversed([*zip(declared, declared, strict=True), *aliases.items()])
        }

    def add(self, values: pa.ChunkedArray) -> None:
        """Count the entries of some rows."""
        column = self.column
        if isinstance(column, Vector):
            self._range(read.vectors(values, column), column.low, column.high)
        elif self.known:
            self._codes(values, read.codes(values, column))  # type: ignore[arg-type]
        else:
            self._numbers(values, column)  # type: ignore[arg-type]

    def findings(self) -> ColumnFindings:
        column = self.column
        strict = isinstance(column, Target) or not getattr(column, "unknown", True)
        return ColumnFindings(
            name=column.name,
            kind=column.kind,
            entries=self.entries,
            empty=self.empty,
            outside=self.outside,
            undeclared=self.undeclared,
            unreadable=self.unreadable,
            constant=bool(np.all(self.least == self.most)),
            spellings=tuple(Spelling(*pair, rows) for pair, rows in self.spellings.most_common()),
            refused=bool(self.unreadable or (strict and (self.empty or self.undeclared))),
        )

    def _codes(self, values: pa.ChunkedArray, codes: NDArray[np.int64]) -> None:
        import pyarrow as pa
        from pyarrow import compute

        self.entries += len(codes)
        self.empty += values.null_count
        self.undeclared += int((codes < 0).sum()) - values.null_count
        self._spread(codes)
        if not read.is_text(values):
            return
        others = values.filter(pa.array(codes < 0)).drop_null()
        for entry in compute.value_counts(others).to_pylist():
            near = self.nearest.get(_loose(entry["values"]))
            if near is not None and ((entry["values"], near) in self.spellings or len(self.spellings) < SPELLINGS):
                self.spellings[entry["values"], near] += entry["counts"]

    def _numbers(self, values: pa.ChunkedArray, column: Number | Date | Target) -> None:
        try:
            numbers = read.measured(values, column, self.schema)
        except InputError:
            readable = self._readable(values, column)
            self.entries += len(values) - len(readable)
            self.unreadable += len(values) - len(readable)
            numbers = read.measured(readable, column, self.schema)
        self._range(numbers, cast(float, column.low), cast(float, column.high))

    def _range(self, numbers: NDArray[Any], low: float, high: float) -> None:
        """Finite numbers, and NaN where one is missing."""
        missing = np.isnan(numbers)
        self.entries += numbers.size
        self.empty += int(missing.sum())
        self.outside += int(((numbers < low) | (numbers > high)).sum())
        self._spread(np.where(missing, np.inf, np.clip(numbers, low, high)))

    def _spread(self, encoded: NDArray[Any]) -> None:
        """The least and the largest encoded value so far: where they are equal, the column is constant."""
        if len(encoded):
            self.least = np.minimum(self.least, encoded.min(axis=0))
            self.most = np.maximum(self.most, encoded.max(axis=0))

    def _readable(self, values: pa.ChunkedArray, column: Number | Date | Target) -> pa.ChunkedArray:
        """The entries that are finite numbers, or dates, or missing."""
        import pyarrow as pa
        from pyarrow import compute

        if pa.types.is_floating(values.type):
            array = values.to_numpy()
            missing = "NaN" in self.schema.missing or "nan" in self.schema.missing
            fits = np.isfinite(array) | (np.isnan(array) if missing else compute.is_null(values).to_numpy())
            return values.filter(pa.array(fits))
        if not read.is_text(values):
            return pa.chunked_array([[]], pa.float64())
        bad = [text for text in compute.unique(values).drop_null().to_pylist() if not self._fits(text, column)]
        return values.filter(compute.invert(compute.is_in(values, value_set=pa.array(bad, pa.string()))))

    def _fits(self, text: str, column: Number | Date | Target) -> bool:
        import pyarrow as pa

        try:
            read.measured(pa.chunked_array([[text]]), column, self.schema)
        except InputError:
            return False
        return True


def _loose(text: str) -> str:
    """The text without what a person does not see: case, blanks, Unicode form, and ".0" after a whole number."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    plain = "".join(one for one in plain if not one.isspace() and unicodedata.category(one) != "Cf")
    return re.sub(r"^([+-]?[0-9]+)\.0*$", r"\1", plain)
