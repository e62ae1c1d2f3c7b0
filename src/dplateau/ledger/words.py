"""Names and words that people give: short, and printable in one line."""

from __future__ import annotations

import getpass
import os
from typing import Final

from dplateau.ledger.book import Part
from dplateau.spec import InputError
from dplateau.spec.one_line import is_line, printable

_SHORT: Final = 100
LONG: Final = 500


def line(name: str, value: object, *, most: int = _SHORT, empty: bool = False) -> str:
    """A text of one line.

    Raises
    ------
    InputError
        It is none, is too long, or holds characters that cannot be printed.
    """
    if not is_line(value, most, empty=empty):
        raise InputError(f"{name} is {value!r:.40}: expected one line of at most {most} printable characters.")
    return value


def part_of(value: object) -> Part | None:
    """A part, where one is given.

    Raises
    ------
    InputError
        It is not a pair of a partition's name and a part's.
    """
    if value is None:
        return None
    if not isinstance(value, tuple) or len(value) != 2:
        raise InputError('part is not a pair: expected (partition, part), such as ("shards", "north").')
    return Part(line("the partition", value[0]), line("the part", value[1]))


def user() -> str:
    """The name of the operating system's user, or its number where it has no name."""
    try:
        found = getpass.getuser()
    except (OSError, KeyError, ImportError):
        return f"user {os.getuid()}" if hasattr(os, "getuid") else "unknown"
    return printable(found)[:_SHORT] or "unknown"
