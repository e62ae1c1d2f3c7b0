"""Texts of one line, without characters that are invisible or that a terminal obeys, and without keys."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final, TypeGuard

SECRET: Final = re.compile(r"(:/{1,2}(?!/)|\A[^:/]+:(?!/))(?:[^/@:]*:.*|[^/@]*)@|[?#].*?(?=:?\Z)", re.DOTALL)
"""Neither keys nor options of an address belong into a message. A key may hold slashes and signs that should be escaped."""
_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:(?:/|[^\s:/@]+:\S*@)\S+")
_BREAKS: Final = ("Zl", "Zp")
"""Unicode's separators of lines and of paragraphs."""
_JOINERS: Final = "\u200c\u200d"
"""Zero-width joiner and non-joiner: invisible, but Persian, Hindi and many others cannot be written without them."""
_JOINING: Final = "\u0600"
"""The scripts that need joiners come after this character, and so do emoji."""


def is_printable(text: str) -> bool:
    """Whether a text is one line of visible characters, and of joiners where they belong."""
    return not any(_hidden(text))


def is_line(value: object, longest: int, *, empty: bool = False) -> TypeGuard[str]:
    """Whether it is such a text, of at most so many characters, and not only blanks unless it may be ``empty``."""
    return isinstance(value, str) and bool(value.strip() or empty) and len(value) <= longest and is_printable(value)


def printable(text: object) -> str:
    """A text without what a terminal would obey: the name of a file, or what somebody wrote by hand, may hold escape codes."""
    shown = str(text)
    return "".join("?" if hidden else one for one, hidden in zip(shown, _hidden(shown), strict=True))


def without_keys(text: str) -> str:
    """A text with its addresses as they may be told; as a path, an address has lost one of its slashes, and some forget both."""
    return _ADDRESS.sub(lambda found: SECRET.sub(r"\1", found[0]), text)


def escaped(text: str) -> str:
    """A text with an escape of JSON or TOML for each character that cannot be printed."""
    return "".join(_escape(one) if hidden else one for one, hidden in zip(text, _hidden(text), strict=True))


def _escape(character: str) -> str:
    return f"\\u{ord(character):04x}" if character < "\U00010000" else f"\\U{ord(character):08x}"


def _hidden(text: str) -> Iterator[bool]:
    """Of each character, whether it has no place in a line that people read."""
    for place, one in enumerate(text):
        kind = unicodedata.category(one)
        yield kind in _BREAKS or (kind.startswith("C") and not (one in _JOINERS and _joins(text, place)))


def _joins(text: str, place: int) -> bool:
    """Whether both neighbours of a character are letters, marks or emoji of which joiners are a part."""
    around = text[place - 1 : place] + text[place + 1 : place + 2]
    return len(around) == 2 and all(one >= _JOINING and unicodedata.category(one)[0] in "LMS" for one in around)
