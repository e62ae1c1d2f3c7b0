"""The picture of a plateau: readable in black and white, and for eyes that do not tell all colours apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dplateau.accounting.enclosure import rounded_up
from dplateau.accounting.roots import isotonic
from dplateau.certificate.words import batches, spread, uncertified
from dplateau.report.picture import COLOURS, DASHES, MARKERS, TEXT, new_picture, style_axes
from dplateau.report.plateau import Line, Plateau
from dplateau.spec import InputError
from dplateau.spec.arguments import of_type

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_plateau(plateau: Plateau, path: str | Path | None = None) -> Figure:
    """Draw epsilon against steps.

    Proved bounds are solid lines, on a grey band along the least of them; all others are thin, dashed or dotted, with their status
    beside the name.

    Parameters
    ----------
    plateau : Plateau
        The numbers.
    path : str or Path, optional
        Where to write the picture: png, svg or pdf, whole or not at all. One that exists is replaced.

    Raises
    ------
    InputError
        This is no plateau, matplotlib is not installed, or the file cannot be written.
    UncertifiedError
        No proved bound gives a finite epsilon anywhere.
    """
    of_type("plateau", plateau, Plateau, ", which plateau(run) gives")
    if min(plateau.certified) == math.inf:
        raise uncertified(plateau.delta)
    lines = [line for line in plateau.lines if line.drawn]
    if not lines:
        raise InputError(f"every epsilon is 0 at delta {plateau.delta:g}, which a logarithmic axis cannot show: lower delta.")
    labels = 1.25 * TEXT * 0.5 * max(len(_label(line, plateau)) for line in lines) + 30
    width, height = 7.6, max(4.4, 1.6 + 0.2 * len(lines))
    with new_picture(path, (width, height)) as figure:
        axes = figure.add_axes((0.1, 0.5 / height, 0.885 - labels / (72 * width), 1 - 1.05 / height))
        _draw_axes(axes, plateau, lines)
        _draw_lines(axes, plateau, lines)
        _draw_labels(axes, plateau, lines)
        if plateau.begins is not None:
            _draw_beginning(axes, plateau, plateau.begins)
    return figure


def _draw_axes(axes: Axes, plateau: Plateau, lines: list[Line]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    shown = [line.epsilons[k] for line in lines for k in line.drawn]
    decades = max(math.log10(max(shown) / min(shown)), 0.5)
    first, last = plateau.steps[0], plateau.steps[-1]
    axes.set(xscale="log", yscale="log", xlabel="steps", ylabel=f"epsilon at delta = {rounded_up(plateau.delta)}")
    axes.set_xlim((first, last) if first < last else (first / 2, first * 2))
    # Below all lines there is room for words.
    axes.set_ylim(min(shown) / 10 ** (0.2 * decades), min(shown) * 10 ** (1.05 * decades))
    for axis, many in ((axes.xaxis, last > 100 * first), (axes.yaxis, decades > 2.5)):
        axis.set_major_locator(LogLocator(subs=(1.0,) if many else (1.0, 2.0, 5.0)))
        axis.set_minor_locator(LogLocator(subs=tuple(range(1, 10))))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
        axis.set_minor_formatter(NullFormatter())
    style_axes(axes)
    run = plateau.run
    noise = f"noise multiplier {spread(run.noise_multiplier)}, {run.adjacency}, released: {run.released}"
    axes.set_title(f"{run.n:,} {run.unit}s, {batches(run)}\n{noise}", loc="left", fontsize=TEXT, color="0.3")


def _style(lines: list[Line]) -> dict[str, dict[str, Any]]:
    """How each line is drawn: colours and markers in turn, so that no two lines share both."""
    styles: dict[str, dict[str, Any]] = {}
    for k, line in enumerate(sorted(lines, key=lambda line: not line.certifies)):
        colour = COLOURS[k % len(COLOURS)]
        styles[line.name] = {"color": colour, "linewidth": 1.1, "linestyle": DASHES.get(line.status, "-"), "zorder": 3}
        if line.certifies:
            every = max(1, len(line.drawn) // 8)
            styles[line.name] |= {"linewidth": 2.2, "zorder": 4, "marker": MARKERS[k % len(MARKERS)], "markersize": 5.5}
            styles[line.name] |= {"markevery": line.drawn[k % every :: every]}
    return styles


def _draw_lines(axes: Axes, plateau: Plateau, lines: list[Line]) -> None:
    styles = _style(lines)
    (band,) = axes.plot(plateau.steps, _visible(plateau.certified), color="0.83", linewidth=9, zorder=2)
    band.set(solid_capstyle="round", label="least proved bound")
    for line in lines:
        axes.plot(plateau.steps, _visible(line.epsilons), clip_on=False, **styles[line.name])
    axes.legend(loc="upper left", frameon=False, fontsize=TEXT, handlelength=1.6)


def _visible(values: Sequence[float]) -> list[float]:
    """Gaps in place of what a logarithmic axis cannot show."""
    return [value if 0 < value < math.inf else math.nan for value in values]


def _label(line: Line, plateau: Plateau) -> str:
    end = line.drawn[-1]
    status = "" if line.certifies else f" ({line.status})"
    where = "" if end == len(plateau.steps) - 1 else f" at {plateau.steps[end]:,}"
    value = line.epsilons[end]
    shown = f"{math.ceil(value):,}" if 1000 <= value < 1e9 else rounded_up(value, 3)
    return f"{line.name}{status}  {shown}{where}"


def _draw_labels(axes: Axes, plateau: Plateau, lines: list[Line]) -> None:
    """The name and the last value of every line beside its end, moved up or down so that no two overlap."""
    styles = _style(lines)
    lines = sorted(lines, key=lambda line: line.epsilons[line.drawn[-1]])
    low, high = np.log(axes.get_ylim())
    wanted = np.array([(math.log(line.epsilons[line.drawn[-1]]) - low) / (high - low) for line in lines])
    room = 1.5 * TEXT / axes.bbox.height * axes.figure.dpi / 72 * np.arange(len(lines))
    places = np.clip(isotonic(wanted - room, np.ones(len(lines))), 0, max(0, 1 - room[-1])) + room
    for line, place in zip(lines, places, strict=True):
        end = line.drawn[-1]
        leader = {"arrowstyle": "-", "linewidth": 0.6, "color": "0.6", "shrinkA": 2, "shrinkB": 0, "relpos": (0, 0.5)}
        axes.annotate(
            _label(line, plateau),
            (plateau.steps[end], line.epsilons[end]),
            (1.04, float(place)),
            textcoords="axes fraction",
            va="center",
            fontsize=TEXT,
            fontweight="bold" if line.certifies and line.epsilons[end] == plateau.certified[-1] else "normal",
            color=styles[line.name]["color"],
            arrowprops=leader if end == len(plateau.steps) - 1 else None,
            annotation_clip=False,
        )


def _draw_beginning(axes: Axes, plateau: Plateau, begins: int) -> None:
    """A line down from the beginning of the plateau, and words at its foot."""
    level = plateau.certified[plateau.steps.index(begins)]
    axes.vlines(begins, axes.get_ylim()[0], level, colors="0.4", linewidth=0.8, linestyles=(0, (2, 2)), zorder=1)
    left = begins**2 > plateau.steps[0] * plateau.steps[-1]
    axes.annotate(
        f"plateau from about\n{float(f'{begins:.2g}'):,.0f} steps on",
        (begins, axes.get_ylim()[0]),
        (-5 if left else 5, 5),
        textcoords="offset points",
        ha="right" if left else "left",
        fontsize=TEXT,
    )
