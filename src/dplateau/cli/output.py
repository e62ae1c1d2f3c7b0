"""How commands print: a readable page, or JSON alone."""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dplateau.spec.one_line import printable as printable

if TYPE_CHECKING:
    from rich.console import RenderableType

WIDEST = 100


def show(content: RenderableType) -> None:
    """Print for a person: in colour on a terminal that has any, never wider than is easy to read; plain text into a pipe."""
    from rich.console import Console

    console = Console(markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        from dplateau.report.text import as_text

        print(as_text(content))
        return
    console.width = min(console.width, WIDEST)
    console.print(content)


def warn(text: str) -> None:
    """Say on standard error what should be known before the result is used."""
    print(f"dplateau: warning: {printable(text)}", file=sys.stderr)


def write_new(path: Path, text: str) -> None:
    """Write a file that was not there: one that somebody made meanwhile is not replaced."""
    from dplateau.files import new_file

    with new_file(path) as part:
        part.write_bytes(text.encode())


def busy(what: str) -> AbstractContextManager[Any]:
    """Say on a terminal what is being done, for as long as it takes."""
    from rich.console import Console

    return Console(stderr=True).status(what)


def show_json(data: dict[str, Any]) -> None:
    """Print for a program."""
    print(json.dumps(data, indent=1, allow_nan=False))
