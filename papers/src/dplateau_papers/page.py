"""What a reproduction shows: tables and sentences for a terminal and for a page, numbers for a program, and pictures."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from dplateau.files import check_new_folder, new_folder, write_file
from dplateau.report.picture import figure_type, save_picture
from dplateau.spec import InputError
from dplateau_papers.data_sets import data_folder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dplateau_papers.records import Records

PICTURES: Final = ("svg", "png")


@dataclass(frozen=True)
class Table:
    """One table, and the sentences below it.

    Attributes
    ----------
    title : str
        What it shows.
    columns : tuple of str
        Heads. The first column is flush left, numbers are flush right.
    rows : tuple of tuple of str
        As many entries a row as there are columns.
    sentences : tuple of str
        What follows from it.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    sentences: tuple[str, ...] = ()

    def text(self) -> RenderableType:
        """For a terminal."""
        table = RichTable(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
        for i, column in enumerate(self.columns):
            table.add_column(Text(column), justify="right" if i else "left", vertical="bottom")
        for row in self.rows:
            table.add_row(*row)
        return Group(Text(self.title, "bold"), table, *([""] if self.sentences else []), *self.sentences)

    def markdown(self) -> str:
        """For a page."""
        lines = [self.columns, ("---", *("---:" for _ in self.columns[1:])), *self.rows]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return "\n\n".join([f"## {self.title}", table, *self.sentences])


@dataclass(frozen=True)
class Reproduction:
    """What came out.

    Attributes
    ----------
    name, title : str
        Of the entry, and of the page.
    tables : tuple of Table
        In their order.
    numbers : dict
        Everything in them, as plain data.
    pictures : mapping of str to callable
        A figure for each name, drawn when asked for; and what it shows.
    """

    name: str
    title: str
    tables: tuple[Table, ...]
    numbers: dict[str, Any]
    pictures: Mapping[str, tuple[str, Callable[[], Figure]]] = field(default_factory=dict)

    def text(self) -> RenderableType:
        """For a terminal: 80 columns are enough."""
        parts: list[RenderableType] = [Text(self.title, "bold")]
        for table in self.tables:
            parts += ["", table.text()]
        return Group(*parts)

    def markdown(self) -> str:
        """For a page, with its pictures."""
        shown = [f"![{what}]({name}.svg)" for name, (what, _) in self.pictures.items()]
        return "\n\n".join([f"# {self.title}", *(table.markdown() for table in self.tables), *shown]) + "\n"

    def write(self, folder: str | Path) -> None:
        """Write a new folder with the page, the numbers and the pictures, all or nothing.

        Raises
        ------
        InputError
            The folder exists or cannot be written, or matplotlib is not installed.
        """
        figure_type()
        with new_folder(folder) as part:
            write_file(part / f"{self.name}.md", self.markdown())
            write_file(part / f"{self.name}.json", json.dumps(self.numbers, indent=1, allow_nan=False) + "\n")
            for name, (_, draw) in self.pictures.items():
                figure = draw()
                for kind in PICTURES:
                    save_picture(figure, part / f"{name}.{kind}")


def check_output(folder: str | Path) -> None:
    """Raise ``InputError`` where ``Reproduction.write`` would: better before computing than after it."""
    check_new_folder(folder)
    figure_type()


@dataclass(frozen=True)
class Inputs:
    """What an entry is given.

    Attributes
    ----------
    data_dir : Path, optional
        Folder with one folder for each data set: ``mnist``, ``fashion-mnist``, ``a9a``, ``adult``, ``aclImdb``, ``ml-1m``.
    records : Path, optional
        Folder in which finished trainings are kept, so that an interrupted reproduction goes on where it stopped.
    seeds : int, optional
        Trainings of each setting; by default as many as the entry says. 0: show what is in the records.
    say : callable
        Told, in words, what is being done.
    """

    data_dir: Path | None = None
    records: Path | None = None
    seeds: int | None = None
    say: Callable[[str], None] = lambda _: None

    def folder(self, name: str) -> Path:
        """The folder of a data set.

        Raises
        ------
        InputError
            No folder was named, or it lacks this data set or one of its files; says which files, and where they are published.
        """
        return data_folder(self.data_dir, name)

    def records_of(self, name: str) -> Records:
        """The finished trainings called ``name``; the folder is made if there is none.

        Raises
        ------
        InputError
            No folder was named, it cannot be made, or the file in it is not a file of such records.
        """
        from dplateau_papers.records import Records

        if self.records is None:
            raise InputError(
                f"{name} trains, and keeps what is finished: give --records, a folder for it. The same command goes on after an "
                "interruption."
            )
        try:
            self.records.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"the folder {self.records} cannot be made: {error.strerror or 'input/output error'}.") from None
        return Records(self.records / f"{name}.jsonl")


@dataclass(frozen=True)
class Entry:
    """One thing that can be reproduced.

    Attributes
    ----------
    name : str
        What it is called on the command line.
    paper, shows, needs, takes : str
        Where the numbers are printed, what is computed, what that needs besides this library, and how long it takes.
    run : callable
        Computes it.
    data : tuple of str, optional
        The data sets that it reads.
    trains : bool, default False
        Whether it keeps finished trainings.
    """

    name: str
    paper: str
    shows: str
    needs: str
    takes: str
    run: Callable[[Inputs], Reproduction]
    data: tuple[str, ...] = ()
    trains: bool = False

    def check(self, inputs: Inputs) -> None:
        """Raise ``InputError`` if a data set or a folder that it needs is missing: better before computing than after it."""
        for name in self.data:
            if inputs.seeds != 0 or not self.trains:
                inputs.folder(name)
        if self.trains:
            inputs.records_of(self.name)

    def to_dict(self) -> dict[str, str]:
        """Plain data for JSON."""
        return {"name": self.name, "paper": self.paper, "shows": self.shows, "needs": self.needs, "takes": self.takes}
