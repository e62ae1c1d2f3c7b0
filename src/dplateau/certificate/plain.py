"""Plain text, 80 columns wide."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import Final

WIDTH: Final = 80


def paragraph(text: str, head: str = "") -> str:
    """Lines that start below each other, the first one behind ``head``."""
    lines = fill(text, WIDTH, initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False)
    return lines or head.rstrip()


def columns(rows: Sequence[tuple[str, str]], least: int = 0, indent: str = "") -> list[str]:
    """Names beside what they stand for; the column of names is at least so wide."""
    width = max([least, *(len(name) for name, _ in rows)])
    return [paragraph(text, f"{indent}{name:{width}}  ") for name, text in rows]
