"""``Schema``: all that may be known about a table without looking at its rows.

A schema is public. Anyone who writes it takes ranges, values and classes from a form, a code book, a law or common knowledge, never
from the rows that are to be protected: a range that was read off the data is a statistic of the data, with a privacy cost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from numbers import Integral
from typing import ClassVar, Final, TypeAlias

from dplateau.data.checks import aliases_of, finite, interval, iso_date, named, put, text_of, texts_of
from dplateau.spec import InputError
from dplateau.spec.arguments import boolean, of_type, one_of, sequence

EPOCH: Final = date(1970, 1, 1)
TRANSFORMS: Final = ("linear", "log", "none")
FORMATS: Final = ("csv", "jsonl", "parquet", "libsvm", "npz", "npy")
ENCODINGS: Final = (
    *("utf-8", "utf-16", "utf-16-le", "utf-16-be", "latin-1", "iso-8859-2", "iso-8859-5", "iso-8859-7", "iso-8859-9"),
    *("iso-8859-15", "cp437", "cp850", "cp1250", "cp1251", "cp1252", "cp1253", "cp1254"),
)
"""Encodings without shifts: none of them lets a record change how the next ones are read."""
MISSING: Final = ("", "NA", "NaN", "nan", "null")


@dataclass(frozen=True)
class Number:
    """A numeric column with a public range; values outside are clipped to it.

    Parameters
    ----------
    name : str
        Name of the column.
    low, high : float
        The public range, ``low < high``.
    transform : {"linear", "log", "none"}, default "linear"
        How the range is mapped to [-1, 1]: evenly, by ``log1p(value - low)`` for heavy tails, or not at all (bins only).
    bins : sequence of float, optional
        Public edges strictly inside the range: k edges give k + 1 indicators of the intervals ``[edge, next edge)``.
    unknown : bool, default True
        Whether a missing value has an indicator of its own; otherwise a missing value is an error.
    """

    name: str
    low: float
    high: float
    transform: str = "linear"
    bins: tuple[float, ...] = ()
    unknown: bool = True
    kind: ClassVar[str] = "number"

    def __post_init__(self) -> None:
        where = named(self.name)
        low, high = interval(where, self.low, self.high)
        bins = tuple(finite(f"{where}: bins[{i}]", edge) for i, edge in enumerate(sequence(f"{where}: bins", self.bins)))
        one_of(f"{where}: transform", self.transform, TRANSFORMS)
        if any(a >= b for a, b in zip((low, *bins), (*bins, high), strict=True)):
            raise InputError(f"{where}: bins must increase strictly and lie strictly between low = {low:g} and high = {high:g}.")
        if self.transform == "none" and not bins:
            raise InputError(f'{where}: transform = "none" leaves no feature: declare bins, or use "linear" or "log".')
        put(self, low=low, high=high, bins=bins, unknown=boolean(f"{where}: unknown", self.unknown))


@dataclass(frozen=True)
class Category:
    """A column with declared values, each of which becomes an indicator.

    Parameters
    ----------
    name : str
        Name of the column.
    values : sequence of str
        The public values. In a numeric column they are compared as numbers, in a text column as text.
    unknown : bool, default True
        Whether missing and undeclared values share an indicator of their own; otherwise they are an error.
    aliases : mapping of str to str, optional
        Other spellings in the file, and the value that each stands for.
    """

    name: str
    values: tuple[str, ...]
    unknown: bool = True
    aliases: tuple[tuple[str, str], ...] | Mapping[str, str] = ()
    kind: ClassVar[str] = "category"

    def __post_init__(self) -> None:
        where = named(self.name)
        values = texts_of(f"{where}: values", self.values)
        if not values:
            raise InputError(f"{where}: values is empty: declare the values that the column can take.")
        aliases = aliases_of(where, self.aliases, values, "value")
        put(self, values=values, unknown=boolean(f"{where}: unknown", self.unknown), aliases=aliases)


@dataclass(frozen=True)
class Date:
    """A column of days, each of which becomes its place in a public range; days outside are clipped to it.

    Parameters
    ----------
    name : str
        Name of the column.
    first, last : str or datetime.date
        The public range, ``first < last``: ISO dates like "2020-12-31". The file's texts are written so, too.
    unknown : bool, default True
        Whether a missing date has an indicator of its own; otherwise it is an error.
    """

    name: str
    first: str
    last: str
    unknown: bool = True
    kind: ClassVar[str] = "date"
    transform: ClassVar[str] = "linear"
    bins: ClassVar[tuple[float, ...]] = ()

    def __post_init__(self) -> None:
        where = named(self.name)
        put(self, first=iso_date(f"{where}: first", self.first), last=iso_date(f"{where}: last", self.last))
        if self.first >= self.last:
            raise InputError(f"{where}: the range is {self.first} to {self.last}: expected first < last.")
        boolean(f"{where}: unknown", self.unknown)

    @property
    def low(self) -> float:
        """The first day, counted from 1970-01-01."""
        return float((date.fromisoformat(self.first) - EPOCH).days)

    @property
    def high(self) -> float:
        """The last day, counted from 1970-01-01."""
        return float((date.fromisoformat(self.last) - EPOCH).days)


@dataclass(frozen=True)
class Vector:
    """A block of numeric features with one public range: the features of a LIBSVM file, an array, or a list column.

    Values are clipped to the range and divided by its largest magnitude, so that zero stays zero.

    Parameters
    ----------
    name : str
        Name of the block.
    size : int
        Number of features.
    low, high : float
        The public range of every feature, ``low < high``.
    norm : float, optional
        A public bound on the Euclidean norm of the block in the file's own units, enforced on every row. It only matters where rows
        are scaled by a public bound: without it that bound is the one of a row whose features are all at their largest.
    """

    name: str
    size: int
    low: float
    high: float
    norm: float | None = None
    kind: ClassVar[str] = "vector"

    def __post_init__(self) -> None:
        where = named(self.name)
        if isinstance(self.size, bool) or not isinstance(self.size, Integral) or self.size < 1:
            raise InputError(f"{where}: size is {self.size!r}: expected the number of features, a whole number >= 1.")
        low, high = interval(where, self.low, self.high)
        norm = None if self.norm is None else finite(f"{where}: norm", self.norm)
        if norm is not None and norm <= 0:
            raise InputError(f"{where}: norm is {norm:g}: expected a number > 0.")
        put(self, size=int(self.size), low=low, high=high, norm=norm)


@dataclass(frozen=True)
class Ignored:
    """A column that is in the file but must not be used. A file without a header line needs it to keep the others in place.

    Parameters
    ----------
    name : str
        Name of the column.
    """

    name: str
    kind: ClassVar[str] = "ignored"

    def __post_init__(self) -> None:
        named(self.name)


@dataclass(frozen=True)
class Person:
    """The column that says whose a row is. No schema declares it: who reads the rows names it."""

    name: str
    kind: ClassVar[str] = "person"

    def __post_init__(self) -> None:
        named(self.name)


@dataclass(frozen=True)
class Target:
    """The column to predict: declared classes, or a public range of numbers (values outside are clipped to it).

    Parameters
    ----------
    name : str
        Name of the column.
    classes : sequence of str, optional
        The public classes, two or more, in the order of their indices. A row of any other class is an error.
    low, high : float, optional
        The public range of a regression target. Give either this or ``classes``.
    aliases : mapping of str to str, optional
        Other spellings in the file, and the class that each stands for.
    """

    name: str
    classes: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    aliases: tuple[tuple[str, str], ...] | Mapping[str, str] = ()
    kind: ClassVar[str] = "target"

    def __post_init__(self) -> None:
        where = named(self.name)
        classes = texts_of(f"{where}: classes", self.classes)
        if bool(classes) == (self.low is not None or self.high is not None):
            raise InputError(f"{where}: a target needs either classes (to classify) or low and high (to predict a number).")
        if not classes:
            low, high = interval(where, self.low, self.high)
            put(self, low=low, high=high)
        elif len(classes) == 1:
            raise InputError(f"{where}: only one class is declared: a classifier needs at least two. Declare every class.")
        aliases = aliases_of(where, self.aliases, classes, "class")
        put(self, classes=classes, aliases=aliases)

    @property
    def range(self) -> tuple[float, float] | None:
        """The range of a regression target."""
        return None if self.low is None or self.high is None else (self.low, self.high)


Feature: TypeAlias = Number | Category | Date | Vector
Column: TypeAlias = Feature | Ignored | Target | Person
KINDS: Final = {column.kind: column for column in (Number, Category, Date, Vector, Ignored, Target)}


@dataclass(frozen=True)
class Csv:
    """How a CSV file is written.

    Parameters
    ----------
    header : bool, default True
        Whether the first line holds the column names; otherwise the columns are those of the schema, in its order.
    delimiter : str, default ","
        The one character between fields.
    comment : str, optional
        Lines that start with this text are skipped, whatever stands before them.
    line_breaks: bool, default False
        Whether quoted fields may hold line breaks. Otherwise every line is one record, whatever it holds. Where they may, a quote
        that is not closed can make one record of many: declare the number of rows as well.
    encoding : str, default "utf-8"
        How text is written: "utf-8", "utf-16" (with a byte order mark), "utf-16-le", "utf-16-be", "latin-1", "cp1252" and other
        encodings of one byte a character. A file with a header and the mark of UTF-16 is told without it.
    decimal : {".", ","}, default "."
        What stands before the decimals of a number.
    """

    header: bool = True
    delimiter: str = ","
    comment: str = ""
    line_breaks: bool = False
    encoding: str = "utf-8"
    decimal: str = "."

    def __post_init__(self) -> None:
        boolean("csv: header", self.header)
        boolean("csv: line_breaks", self.line_breaks)
        if (
            not isinstance(self.delimiter, str)
            or len(self.delimiter) != 1
            or not self.delimiter.isascii()
            or self.delimiter in '"\r\n\0'
        ):
            raise InputError(
                f"csv: delimiter is {self.delimiter!r}: expected one ASCII character other than a quote or a line break."
            )
        one_of("csv: encoding", self.encoding, ENCODINGS)
        if not isinstance(self.decimal, str) or self.decimal not in (".", ","):
            raise InputError(f"csv: decimal is {self.decimal!r}: expected a point or a comma.")
        if not isinstance(self.comment, str) or set('"\r\n') & set(self.comment):
            raise InputError(
                f"csv: comment is {self.comment!r}: expected what comment lines start with, without quotes and line breaks."
            )


@dataclass(frozen=True, kw_only=True)
class Schema:
    """The public description of a table.

    Parameters
    ----------
    columns : sequence of Number, Category, Date, Vector, Ignored or Target
        The columns: at least one feature, exactly one target. Columns of a file that are not listed here are not read.
    name, about : str, optional
        A name, and where the declared facts are published.
    format : {"csv", "jsonl", "parquet", "libsvm", "npz", "npy"}, optional
        The format of files whose name does not tell it.
    csv : Csv, optional
        How CSV files are written.
    strip : bool, default True
        Whether spaces around text are removed.
    missing : sequence of str, optional
        Texts that mean "missing". The floating-point NaN of a numeric column is missing where ``"NaN"`` is one of them.

    Raises
    ------
    InputError
        The columns do not fit together.
    """

    columns: tuple[Column, ...]
    name: str = ""
    about: str = ""
    format: str | None = None
    csv: Csv = Csv()
    strip: bool = True
    missing: tuple[str, ...] = MISSING
    targets: ClassVar[int] = 1

    def __post_init__(self) -> None:
        columns = sequence("columns", self.columns)
        for field in ("name", "about"):
            given = getattr(self, field)
            for one in given if isinstance(given, tuple) else (given,):
                text_of(field, one)
        for column in columns:
            if not isinstance(column, (*KINDS.values(), Person)):
                raise InputError(
                    f"a column is of type {type(column).__name__}: expected Number, Category, Date, Vector, Ignored or Target."
                )
        names = [column.name for column in columns]
        if repeated := sorted(name for name, times in Counter(names).items() if times > 1):
            raise InputError(f"the schema declares {repeated} more than once: every column needs a name of its own.")
        targets = sum(isinstance(column, Target) for column in columns)
        if targets != self.targets:
            raise InputError(f'the schema declares {targets} targets: mark exactly one column with type = "target".')
        if self.format is not None:
            one_of("format", self.format, FORMATS)
        of_type("csv", self.csv, Csv)
        put(self, columns=columns, missing=texts_of("missing", self.missing), strip=boolean("strip", self.strip))
        if not self.features:
            raise InputError("the schema declares no feature: add at least one column of type number, category, date or vector.")
        for column in columns:
            texts = column.values if isinstance(column, Category) else column.classes if isinstance(column, Target) else ()
            aliases = {alias for alias, _ in column.aliases} if isinstance(column, Category) else set()
            if clash := sorted((aliases | set(texts)) & set(self.missing)):
                raise InputError(
                    f"{named(column.name)}: {clash} are declared as values and mean missing too: set missing = [...] without them."
                )
            if self.strip and any(text != text.strip() for text in texts):
                raise InputError(
                    f"{named(column.name)}: a declared value has spaces around it, which strip = true removes from the file."
                )

    @property
    def features(self) -> tuple[Feature, ...]:
        """The columns that are encoded, in order."""
        return tuple(column for column in self.columns if isinstance(column, Feature))

    @property
    def target(self) -> Target:
        """The column to predict."""
        return next(column for column in self.columns if isinstance(column, Target))
