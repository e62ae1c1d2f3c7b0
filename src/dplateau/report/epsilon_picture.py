"""Pictures of epsilon against delta, epochs or noise; the lines look as in the picture of trade-off curves."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dplateau.report.epsilon import EpsilonCurves
from dplateau.report.picture import DASHES, TEXT, new_picture, style_axes
from dplateau.report.trade_off_picture import STYLES
from dplateau.spec.arguments import of_type

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_epsilon(curves: EpsilonCurves, path: str | Path | None = None) -> Figure:
    """Draw epsilon against delta, or against what runs differ in.

    The certified line is thick; the moments accountant's, proved but larger, thin with markers; what is not a guarantee is dashed.

    Parameters
    ----------
    curves : EpsilonCurves
        The numbers.
    path : str or Path, optional
        Where to write the picture: png, svg or pdf, whole or not at all. One that exists is replaced.

    Raises
    ------
    InputError
        These are no numbers of curves, matplotlib is not installed, or the file cannot be written.
    """
    of_type("curves", curves, EpsilonCurves, ", which against_delta(run) gives")
    with new_picture(path, (5.6, 4.2)) as figure:
        axes = figure.add_axes((0.11, 0.12, 0.86, 0.85))
        draw_epsilon(axes, curves)
        axes.legend(frameon=False, fontsize=TEXT, handlelength=2.6)
    return figure


def draw_epsilon(axes: Axes, curves: EpsilonCurves) -> None:
    """The lines on given axes, each with its label for a legend. A delta has a logarithmic axis."""
    style_axes(axes)
    for line in curves.lines:
        values = [value if math.isfinite(value) else math.nan for value in line.epsilons]
        every = max(1, len(values) // 6)
        label = line.name if line.certifies else f"{line.name} ({line.status}: no guarantee)"
        style: dict[str, Any] = {"linestyle": DASHES.get(line.status, "-"), "markersize": 4.5, "markevery": (every // 2, every)}
        axes.plot(curves.places, values, label=label, **{**style, **STYLES[line.name]})
    if curves.against == "delta":
        axes.set_xscale("log")
    if len(curves.places) > 1:
        axes.set_xlim(curves.places[0], curves.places[-1])
    axes.set_ylim(bottom=0)
    axes.set(xlabel=curves.against, ylabel="epsilon")
