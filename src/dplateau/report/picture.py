"""What all pictures share: colours and dashes, readable in black and white, and files that appear whole or not at all."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dplateau.files import as_path, check_file, write_file
from dplateau.spec import InputError
from dplateau.spec.missing import INSTALLS, installing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TEXT: Final = 8.5
"""Size of letters, in points."""
PICTURES: Final = ("png", "svg", "pdf")
COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9")
"""Okabe and Ito's palette, which colour-blind eyes tell apart, without its yellow."""
MARKERS: Final = "os^DvPX*<>"
DASHES: Final = {"Asymptotic": (0, (6, 2)), "Conjectured": (0, (6, 2, 1, 2)), "Refuted": (0, (1, 1.5))}


def figure_type() -> type[Figure]:
    """Matplotlib's ``Figure``, which needs no window.

    Raises
    ------
    InputError
        matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError(f"a picture needs matplotlib, which is not installed: {installing(INSTALLS['matplotlib'])}.") from None
    return Figure


def check_picture(path: str | Path) -> str:
    """The format of a picture file, by its ending.

    Raises
    ------
    InputError
        No such format, no such folder, or matplotlib is not installed: better before computing than after it.
    """
    figure_type()
    path = as_path(path, "picture")
    kind = path.suffix.lstrip(".").lower()
    if kind not in PICTURES:
        raise InputError(f"{path} does not end in {', '.join('.' + kind for kind in PICTURES)}: name the picture accordingly.")
    check_file(path)
    return kind


def save_picture(figure: Figure, path: str | Path) -> None:
    """Write a figure as png, svg or pdf, by the ending; whole or not at all. A file that exists is replaced.

    Raises
    ------
    InputError
        As ``check_picture``, or the file cannot be written.
    """
    kind = check_picture(path)
    write_file(path, _picture(figure, kind))


@contextmanager
def new_picture(path: str | Path | None, size: tuple[float, float]) -> Iterator[Figure]:
    """A figure of ``size`` inches to draw on. At the end it is written to the path, if there is one; not where drawing failed.

    Raises
    ------
    InputError
        As ``check_picture``, before anything is drawn, or the file cannot be written.
    """
    if path is not None:
        check_picture(path)
    figure = figure_type()(figsize=size)
    yield figure
    if path is not None:
        save_picture(figure, path)


def style_axes(axes: Any) -> None:
    """A light grid behind the lines, no frame above and to the right, small numbers."""
    axes.grid(color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(which="both", labelsize=TEXT, color="0.5")


def _picture(figure: Figure, kind: str) -> bytes:
    """The file's content; the same for the same figure, so without a date."""
    from matplotlib import rc_context

    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "dplateau"}):
        figure.savefig(
            buffer, format=kind, dpi=200, metadata={"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
        )
    return buffer.getvalue()
