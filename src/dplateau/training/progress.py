"""A progress bar that shows steps and time, and nothing computed from the data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


@contextmanager
def progress_bar(title: str = "training") -> Iterator[Callable[[int, int], None]]:
    """A bar on standard error, silent where that is no terminal; yields the function to pass as ``progress`` to ``train``.

    Parameters
    ----------
    title : str
        What stands left of the bar.
    """
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("steps"))
    times = (TextColumn("elapsed"), TimeElapsedColumn(), TextColumn("remaining"), TimeRemainingColumn())
    with Progress(*columns, *times, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=None)

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield show
