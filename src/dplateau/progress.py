"""A progress bar that shows steps or rows, speed and time, and nothing computed from the data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text


class _Speed(ProgressColumn):
    """Units a second, in thousands where there are many."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(self._unit if speed is None else f"{self._unit}, {speed:,.0f}/s", no_wrap=True)


@contextmanager
def progress_bar(title: str = "training", unit: str = "steps") -> Iterator[Callable[[int, int], None]]:
    """One line on standard error, silent where that is not a terminal; yields the function to pass as ``progress`` to ``train``.

    Parameters
    ----------
    title : str
        What stands left of the bar.
    unit : str
        What is counted: "steps", or "rows" in a pass over records.
    """
    console = Console(stderr=True)
    # At 80 columns there is room for one line of these.
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=None), MofNCompleteColumn(), _Speed(unit))
    times = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    with Progress(*columns, *times, console=console, expand=console.width <= 80, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=None)

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield show
