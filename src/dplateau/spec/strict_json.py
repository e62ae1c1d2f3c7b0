"""JSON of unknown origin: every text can be printed, every number is finite, no key is there twice."""

from __future__ import annotations

import json
import math
from typing import Any, Final

from dplateau.spec.errors import InputError
from dplateau.spec.facts import LONGEST
from dplateau.spec.one_line import is_printable

DIGITS: Final = 18
"""A whole number of more digits is none that a run has."""
DEEPEST: Final = 50
"""Nested lists and objects; a certificate has seven levels."""


def strict_json(text: str) -> Any:
    """The JSON value of a text.

    Raises
    ------
    InputError
        It is not JSON, has numbers that are not finite or absurdly long, an object with the same key twice, or a text that is too
        long or cannot be printed as one line. The message quotes nothing of it.
    """
    if not isinstance(text, str | bytes):
        raise InputError(f"expected JSON as a text, got {type(text).__name__}.")
    if not text.strip():
        raise InputError("the file is empty: expected JSON.")
    try:
        value = json.loads(text, parse_constant=_constant, parse_float=_float, parse_int=_integer, object_pairs_hook=_object)
    except RecursionError:
        raise InputError("this is not JSON as expected: it is nested too deeply.") from None
    except json.JSONDecodeError as error:
        raise InputError(f"this is not JSON: {error}.") from None
    except UnicodeDecodeError:
        raise InputError("this is not JSON: it is not text in UTF-8.") from None
    _check_texts(value, 0)
    return value


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal. Numbers are compared as numbers, and true is not 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def _constant(name: str) -> None:
    raise InputError(f"{name} is not a JSON number: expected finite numbers.")


def _float(digits: str) -> float:
    if not math.isfinite(number := float(digits)):
        raise InputError("a number is too large: expected finite numbers.")
    return number


def _integer(digits: str) -> int:
    if len(digits) > DIGITS:
        raise InputError(f"a whole number has {len(digits):,} digits: expected at most {DIGITS}.")
    return int(digits)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object, if no key is there twice: two readers might take one value each."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise InputError("an object has the same key twice: nobody knows which value is meant.")
    return found


def _check_texts(value: Any, depth: int) -> None:
    """Raise where a text, or a key, cannot be printed as one line."""
    if depth > DEEPEST:
        raise InputError("this is not JSON as expected: it is nested too deeply.")
    if isinstance(value, str):
        if len(value) > LONGEST:
            raise InputError(f"a text has {len(value):,} characters: expected at most {LONGEST:,}.")
        if not is_printable(value):
            raise InputError("a text has control characters, line breaks or invisible characters: no honest file has any.")
    elif isinstance(value, dict):
        for key, one in value.items():
            _check_texts(key, depth)
            _check_texts(one, depth + 1)
    elif isinstance(value, list):
        for one in value:
            _check_texts(one, depth + 1)
