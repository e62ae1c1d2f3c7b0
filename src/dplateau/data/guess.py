"""What kind of column the first rows of a file look like, for a template that a person corrects."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from dplateau.data.checks import is_date
from dplateau.data.schema import MISSING

DISTINCT: Final = 20
"""So many entries must all differ before a column is taken for names; more whole numbers in a target are an amount."""
IDENTITY: Final = "Proposed to be left out: in the first rows every entry is another one, as those of names and record numbers are."
ROW_NUMBERS: Final = "Proposed to be left out: pandas writes row numbers under this name."
GROWING: Final = "Proposed to be left out: in the first rows whole numbers only grow, as those of records do."
LEFT_OUT: Final = {
    "nested": "Left out: it holds lists or objects, which have no encoding.",
    "time": "Left out: it holds times of day, or times of a zone, which have no encoding. Write dates alone to use it.",
}
"""Why columns of these types are."""
AMOUNT: Final = (
    f"Proposed as a number to predict: its first rows hold fractions, or more than {DISTINCT} whole numbers. For classes write"
    " classes = [...] in place of low and high."
)
GROUPED: Final = (
    "Its first rows hold thousands separators, with which numbers are refused: take them out, or have the file exported without."
)
WRITTEN: Final = (
    "Its first rows look like dates, but only such as 2020-12-31 are read: write them so, or have the file exported so."
)
NUMBER_IN_GROUPS: Final = re.compile(r"[+-]?\d{1,3}(?P<mark>[.,' \u00a0\u202f\u2019])\d{3}(?:(?P=mark)\d{3})*(?:[.,]\d+)?")
DAY_MONTH_YEAR: Final = re.compile(r"\d{1,2}([./-])\d{1,2}\1(\d{4}|\d{2})|\d{4}([./])\d{1,2}\3\d{1,2}")
INDEX: Final = re.compile(r"__index_level_\d+__|Unnamed: \d+")


@dataclass(frozen=True)
class Guess:
    """A kind of column, and what a person should know about the guess."""

    kind: str
    why: str = ""


def guess(name: str, values: Sequence[str], *, decimal: str = ".") -> Guess:
    """The kind of a feature, from the texts of its first rows."""
    entries = _entries(values)
    if INDEX.fullmatch(name):
        return Guess("ignored", ROW_NUMBERS)
    if entries and all(map(is_date, entries)):
        return Guess("date")
    if entries and all(map(DAY_MONTH_YEAR.fullmatch, entries)):
        return Guess("date", WRITTEN)
    numbers = numbers_of(entries, decimal)
    if numbers is None and numbers_of(_ungrouped(entries), decimal):
        return Guess("number", GROUPED)
    if numbers is None:
        return Guess("ignored", IDENTITY) if len(set(entries)) == len(entries) >= DISTINCT else Guess("category")
    growing = all(a < b for a, b in pairwise(numbers)) and all(one.is_integer() for one in numbers)
    return Guess("ignored", GROWING) if growing and len(numbers) >= DISTINCT else Guess("number")


def guess_target(values: Sequence[str], *, decimal: str = ".") -> Guess:
    """Classes, or a number to predict."""
    entries = _entries(values)
    numbers = numbers_of(entries, decimal)
    if numbers is None and numbers_of(_ungrouped(entries), decimal):
        return Guess("target number", f"{AMOUNT} {GROUPED}")
    amount = numbers is not None and (len(set(numbers)) > DISTINCT or not all(one.is_integer() for one in numbers))
    return Guess("target number", AMOUNT) if amount else Guess("target")


def has_commas(values: Sequence[str]) -> bool:
    """Whether the entries are numbers, some of them with a decimal comma."""
    entries = _entries(values)
    if numbers_of(entries, ",") is None:
        entries = _ungrouped(entries)
    return any("," in entry for entry in entries) and numbers_of(entries, ",") is not None


def numbers_of(entries: Sequence[str], decimal: str) -> list[float] | None:
    """The entries as numbers; None if one is none, or if there are none."""
    if decimal == ",":
        entries = [entry.translate({ord(","): ".", ord("."): ","}) for entry in entries]
    try:
        return [float(entry) for entry in entries] or None
    except ValueError:
        return None


def _ungrouped(entries: Sequence[str]) -> list[str]:
    """The entries without what separates their thousands."""
    found = [(entry, NUMBER_IN_GROUPS.fullmatch(entry)) for entry in entries]
    return [entry.replace(match["mark"], "") if match else entry for entry, match in found]


def _entries(values: Sequence[str]) -> list[str]:
    return [entry for value in values if (entry := value.strip()) not in MISSING]
