"""``dplateau reproduce``: the papers' numbers, computed again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.text import Text

from dplateau.cli import options as o
from dplateau.cli.output import show, show_json
from dplateau.spec import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dplateau.reproduce import Entry


def _names(incomplete: str) -> list[str]:
    from dplateau.reproduce import ENTRIES

    return [name for name in ENTRIES if name.startswith(incomplete)]


def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(help="What to reproduce; without it: what there is.", show_default=False, autocompletion=_names),
    ] = None,
    list_all: Annotated[bool, typer.Option("--list", metavar="", help="Say what there is.", rich_help_panel=o.RESULT)] = False,
    output: Annotated[
        Path | None,
        o.option("A new folder for tables, numbers and pictures.", o.RESULT, "--output", metavar="FOLDER"),
    ] = None,
    json: o.Json = False,
) -> None:
    """Compute what the papers print, and say where they are right.

    [bold]Examples[/]

    dplateau reproduce --list

    dplateau reproduce p2-privacy --output p2
    """
    from dplateau.reproduce import ENTRIES, Inputs

    if name is None or list_all:
        if name is not None or output is not None:
            raise InputError("--list takes no name and no --output: leave them out, or leave out --list and name an entry.")
        if json:
            show_json({"entries": [entry.to_dict() for entry in ENTRIES.values()]})
        else:
            show(_list(ENTRIES.values()))
        return
    if name not in ENTRIES:
        raise InputError(f"there is no {name!r} to reproduce: expected one of {', '.join(ENTRIES)}.")
    if output is not None:
        from dplateau.reproduce.page import check_output

        check_output(output)
    with Console(stderr=True).status(f"{name}: {ENTRIES[name].takes}"):
        found = ENTRIES[name].run(Inputs())
        if output is not None:
            found.write(output)
    if json:
        show_json(found.numbers)
    else:
        show(found.text())


def _list(entries: Iterable[Entry]) -> RenderableType:
    from dplateau.report.text import facts

    parts: list[RenderableType] = []
    for entry in entries:
        rows = (("paper", entry.paper), ("shows", entry.shows), ("needs", entry.needs), ("takes", entry.takes))
        parts += [Text(entry.name, "bold"), facts(*rows), ""]
    return Group(*parts[:-1])
