"""``dplateau reproduce``: the papers' numbers, computed again by dplateau-papers, which is a distribution of its own.

A distribution names, as an entry point of the group ``dplateau.papers``, a module with ``ENTRIES``, ``Inputs`` and
``check_output``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from dplateau.cli import options as o
from dplateau.cli.output import show, show_json
from dplateau.spec.errors import InputError
from dplateau.spec.missing import installing

if TYPE_CHECKING:
    from rich.console import RenderableType

TRAINING: Final = "What is trained"


def _papers() -> Any:
    """The module with what there is to reproduce."""
    from importlib.metadata import entry_points

    found = [point.load() for point in entry_points(group="dplateau.papers")]
    if not found:
        raise InputError(f"the papers are a separate package: {installing('./papers')}.")
    return found[0]


def _names(incomplete: str) -> list[str]:
    return [name for name in _papers().ENTRIES if name.startswith(incomplete)]


def reproduce(
    name: Annotated[
        str | None,
        o.argument("What to reproduce; without a name, lists what there is.", "NAME", autocompletion=_names),
    ] = None,
    list_all: Annotated[bool, o.flag("List what can be reproduced.", o.RESULT, "--list")] = False,
    data_dir: Annotated[
        Path | None,
        o.option("A folder with one folder for each data set: mnist, a9a, ...", TRAINING, "--data-dir", metavar="FOLDER"),
    ] = None,
    records: Annotated[
        Path | None,
        o.option("A folder for finished trainings, which are not repeated.", TRAINING, "--records", metavar="FOLDER"),
    ] = None,
    seeds: Annotated[
        int | None,
        o.option(
            "Trainings for each setting (default: as --list says); 0 shows the finished ones.", TRAINING, "--seeds", metavar="N"
        ),
    ] = None,
    output: Annotated[Path | None, o.output("A new folder for tables, numbers and pictures.", "FOLDER")] = None,
    json: o.Json = False,
) -> None:
    """Recompute what the papers print, and say where they are right.

    For example:

    dplateau reproduce --list

    dplateau reproduce p2-privacy --output p2

    dplateau reproduce p2-table2 --data-dir data --records trained --seeds 3
    """
    from dplateau.spec.arguments import integer

    papers = _papers()
    entries: dict[str, Any] = papers.ENTRIES
    if name is None or list_all:
        if name is not None or any(given is not None for given in (data_dir, records, seeds, output)):
            raise InputError(
                "--list takes no name and no option except --json: leave them out, or leave out --list and name an entry."
            )
        if json:
            show_json({"entries": [entry.to_dict() for entry in entries.values()]})
        else:
            show(_list(entries.values()))
        return
    if name not in entries:
        raise InputError(f"{name!r} cannot be reproduced: expected one of {', '.join(entries)}.")
    if seeds is not None:
        integer("--seeds", seeds, low=0)
    if output is not None:
        papers.check_output(output)
    entry = entries[name]
    with _progress(f"{name}: {entry.takes}") as say, _told(entry, records):
        inputs = papers.Inputs(data_dir, records, seeds, say)
        entry.check(inputs)
        found = entry.run(inputs)
        if output is not None:
            found.write(output)
    if json:
        show_json(found.numbers)
    else:
        show(found.text())


@contextmanager
def _progress(first: str) -> Iterator[Callable[[str], None]]:
    """Something that is told what is being done: beside a spinner on a terminal, in lines into a file."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, markup=False, emoji=False, highlight=False)
    with console.status(first) as status:

        def say(what: str) -> None:
            if console.is_terminal:
                status.update(Text(what))
            else:
                console.print(what, soft_wrap=True)

        yield say


@contextmanager
def _told(entry: Any, records: Path | None) -> Iterator[None]:
    """Say that nothing finished is lost, and tell of a training that failed in one line."""
    try:
        yield
    except KeyboardInterrupt:
        if entry.trains:
            typer.echo(f"dplateau: finished trainings are kept in {records}; the same command continues from there.", err=True)
        raise
    except RuntimeError as error:
        from dplateau.training import TrainingDiverged

        if not isinstance(error, TrainingDiverged):
            raise
        raise InputError(f"{entry.name}: {error}") from None


def _list(entries: Iterable[Any]) -> RenderableType:
    """What there is, paper by paper."""
    from rich.console import Group
    from rich.text import Text

    from dplateau.report.text import facts

    papers: dict[str, list[Any]] = {}
    for entry in entries:
        papers.setdefault(entry.name.partition("-")[0], []).append(entry)
    parts: list[RenderableType] = []
    for paper, found in sorted(papers.items()):
        parts += [Text(f"{paper.upper()}  {found[0].paper}", "bold"), ""]
        for entry in found:
            parts += [Text(entry.name, "bold"), facts(("shows", entry.shows), ("needs", entry.needs), ("takes", entry.takes)), ""]
    return Group(*parts[:-1])
