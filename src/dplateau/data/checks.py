"""Checks of what a schema declares. Everything declared is public, so these messages may quote it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date
from numbers import Real
from typing import Any

from dplateau.spec import InputError
from dplateau.spec.arguments import sequence

NARROWEST, WIDEST = 1e-300, 1e300
"""Of ranges with another width a number's place may leave double precision, so that an error would blame the rows."""


def put(record: object, **values: object) -> None:
    """Set fields of a frozen record while it is being made."""
    for name, value in values.items():
        object.__setattr__(record, name, value)


def named(name: object) -> str:
    """How messages call the column, after checking its name."""
    if not isinstance(name, str) or not name.strip():
        raise InputError(f"a column has the name {name!r}: expected a text that is not empty.")
    return f"column {name!r}"


def finite(where: str, value: Any) -> float:
    """``value`` as a finite float."""
    try:
        if not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value):
            return float(value) + 0.0  # Minus zero becomes zero: equal schemas must have equal digests.
    except OverflowError:
        raise InputError(f"{where} is a whole number of more than 300 digits: expected a finite number.") from None
    raise InputError(f"{where} is {value!r}: expected a finite number.")


def interval(where: str, low: object, high: object) -> tuple[float, float]:
    """``low`` and ``high`` as the ends of a range."""
    low, high = finite(f"{where}: low", low), finite(f"{where}: high", high)
    if low >= high or not NARROWEST <= high - low <= WIDEST:
        raise InputError(
            f"{where}: the range is {low:g} to {high:g}: expected low < high, and a width between {NARROWEST:g} and {WIDEST:g}."
        )
    return low, high


def iso_date(where: str, value: object) -> str:
    """``value`` as an ISO date: a text, or a date that TOML has read."""
    text = value.isoformat() if type(value) is date else value
    if not (isinstance(text, str) and is_date(text)):
        raise InputError(f'{where} is {value!r}: expected a date like "2020-12-31".')
    return text


def is_date(text: str) -> bool:
    """Whether a text is an ISO date like 2020-12-31."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def text_of(where: str, value: Any) -> str:
    """``value`` as text; truth values as TOML spells them."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | Real):
        raise InputError(f"{where} contains {value!r}: expected texts or numbers.")
    return str(value)


def texts_of(where: str, values: Any) -> tuple[str, ...]:
    """``values`` as distinct texts."""
    texts = tuple(text_of(where, value) for value in sequence(where, values))
    if repeated := sorted({text for text in texts if texts.count(text) > 1}):
        raise InputError(f"{where} contains {repeated} more than once.")
    return texts


def aliases_of(where: str, aliases: Any, declared: tuple[str, ...], called: str) -> tuple[tuple[str, str], ...]:
    """Other spellings of declared values as pairs; every spelling stands for one of them. ``called``: "value" or "class"."""
    pairs = sequence(f"{where}: aliases", aliases.items() if isinstance(aliases, Mapping) else aliases)
    if not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
        raise InputError(f'{where}: aliases is {aliases!r}: expected a table like {{ "other spelling" = "{called}" }}.')
    found = tuple((text_of(f"{where}: aliases", a), text_of(f"{where}: aliases", c)) for a, c in pairs)
    several = "values" if called == "value" else "classes"
    if wrong := sorted({name for _, name in found} - set(declared)):
        raise InputError(f"{where}: aliases stand for {wrong}, which are no declared {several}: expected {list(declared)}.")
    spellings = [alias for alias, _ in found]
    if len(set(spellings) | set(declared)) != len(spellings) + len(declared):
        raise InputError(
            f"{where}: an alias is given twice, or is a {called} itself: every spelling may stand for one {called} only."
        )
    return found
