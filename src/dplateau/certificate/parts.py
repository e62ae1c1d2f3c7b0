"""Checks of the parts of a certificate: nothing is believed before its type and range are known, and no value is quoted."""

from __future__ import annotations

import math
import re
from collections.abc import Set
from pathlib import Path
from typing import Any, Final

from dplateau.accounting import Enclosure
from dplateau.accounting.enclosure import is_rounded
from dplateau.spec import ContradictionError, InputError
from dplateau.spec.arguments import real

PRECISIONS: Final = ("bfloat16", "float16", "float32", "float64")
DIGEST: Final = re.compile(r"[0-9a-f]{64}")
LONGEST: Final = 600
"""Characters of an error about a file."""


def keys(what: str, value: object, wanted: Set[str]) -> dict[str, Any]:
    """An object with exactly these keys."""
    entry = object_of(what, value)
    if set(entry) != wanted:
        missing, unknown = sorted(wanted - set(entry)), len(set(entry) - wanted)
        wrong = [f"lacks {missing}"] * bool(missing) + [f"has {unknown} unknown keys"] * bool(unknown)
        raise InputError(f"{what} {' and '.join(wrong)}: expected exactly {sorted(wanted)}.")
    return entry


def object_of(what: str, value: object) -> dict[str, Any]:
    """A JSON object."""
    if not isinstance(value, dict):
        raise InputError(f"{what} is not a JSON object.")
    return value


def list_of(what: str, value: object) -> list[Any]:
    """A JSON list."""
    if not isinstance(value, list):
        raise InputError(f"{what} is not a JSON list.")
    return value


def utf8(path: Path, content: bytes) -> str:
    """The text in a file with this content."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{path} cannot be read: it is not UTF-8 text.") from None


def text_of(what: str, value: object) -> str:
    """A text."""
    if not isinstance(value, str):
        raise InputError(f"{what} is not text.")
    return value


def truth(what: str, value: object) -> bool:
    """A truth value."""
    if not isinstance(value, bool):
        raise InputError(f"{what} is neither true nor false.")
    return value


def digest_of(what: str, value: object) -> str:
    """A SHA-256 in hexadecimal."""
    if not DIGEST.fullmatch(text_of(what, value)):
        raise InputError(f"{what} is not a SHA-256: expected 64 lower-case hexadecimal digits.")
    return str(value)


def arithmetic_of(value: object) -> str:
    """A text that names floating-point types."""
    text = text_of("arithmetic", value)
    if not text or set(text.split(", ")) - set(PRECISIONS):
        raise InputError(f"arithmetic is none of {', '.join(PRECISIONS)}, nor several of them with commas between.")
    return text


def number(what: str, value: object, *, rounded: bool, high: float = math.inf) -> float:
    """A finite number of at least 0; ``rounded`` to as many digits as certificates have, where that is wanted."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{what} is not a number.")
    found = real(what, value, inclusive=True, high=high)
    if rounded and not is_rounded(found):
        raise ContradictionError(f"{what} has more than eight digits, as no certificate of format 2 has: somebody has changed it.")
    return found


def enclosure_of(what: str, value: object, *, rounded: bool) -> Enclosure:
    """A pair; None stands for infinity."""
    ends = list_of(what, value)
    if len(ends) != 2:
        raise InputError(f"{what} has {len(ends)} entries: expected [lower, upper].")
    lower, upper = (math.inf if end is None else number(what, end, rounded=rounded) for end in ends)
    if lower > upper:
        raise InputError(f"{what} is [{lower:g}, {upper:g}]: expected lower <= upper.")
    return Enclosure(lower, upper)


def pair(enclosure: Enclosure) -> list[float | None]:
    """Both ends; None for an infinite one."""
    return [end if end < math.inf else None for end in (enclosure.lower, enclosure.upper)]
