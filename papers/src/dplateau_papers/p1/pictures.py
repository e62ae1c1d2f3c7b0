"""The pictures of ``p1``: measured excess risks with their errors, and what is proved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dplateau.report.picture import COLOURS, MARKERS, TEXT, figure_type, style_axes
from dplateau_papers.p1.measure import Measured, Sweep
from dplateau_papers.p1.simulations import Free

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def free_picture(found: Sequence[Free]) -> Figure:
    """Private and not, against n."""
    figure = figure_type()(figsize=(6.0, 4.4))
    axes = figure.add_axes((0.13, 0.12, 0.84, 0.85))
    style_axes(axes)
    places = [f.n for f in found]
    series = (
        ("not private, d = 10", [f.silent for f in found]),
        ("rho = 1, d = 10", [f.few for f in found]),
        ("rho = 1, d = n", [f.many for f in found]),
    )
    for i, (name, points) in enumerate(series):
        _line(axes, places, [m for _, m in points], [bound for bound, _ in points], name, i)
    axes.plot([], [], color="0.35", linestyle="--", linewidth=1, label="proved")
    _logarithmic(axes, "n")
    axes.set_ylabel("excess risk")
    axes.legend(frameon=False, fontsize=TEXT)
    return figure


def slope_picture(sweeps: Sequence[Sweep]) -> Figure:
    """One panel a parameter, above for convex losses and below for strongly convex ones."""
    figure = figure_type()(figsize=(9.4, 6.4))
    panels: Any = figure.subplots(2, 3)
    kinds = ("n", "d", "rho")
    names = list(dict.fromkeys(s.name for s in sweeps))
    for s in sweeps:
        axes = panels[int(s.name.startswith("5."))][kinds.index(s.against)]
        _line(axes, s.places, s.measured, s.proved, s.name, names.index(s.name))
    for row, what in zip(panels, ("convex", "strongly convex"), strict=True):
        for axes, against in zip(row, kinds, strict=True):
            style_axes(axes)
            _logarithmic(axes, against)
            axes.set_title(what, loc="left", fontsize=TEXT, color="0.3")
            handles, labels = axes.get_legend_handles_labels()
            if labels:
                axes.legend(handles, labels, frameon=False, fontsize=TEXT)
        row[0].set_ylabel("excess risk; dashed: proved")
    figure.subplots_adjust(left=0.08, right=0.98, top=0.95, bottom=0.08, wspace=0.22, hspace=0.3)
    return figure


def _line(
    axes: Axes, places: Sequence[float], measured: Sequence[Measured], proved: Sequence[float], name: str, number: int
) -> None:
    """Measured means with two standard errors, and the bounds, in one colour."""
    colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
    means, errors = np.array([m.mean for m in measured]), np.array([2 * m.error for m in measured])
    below = np.minimum(errors, 0.9 * means)  # a logarithmic axis has no zero
    axes.errorbar(places, means, np.stack([below, errors]), color=colour, marker=marker, markersize=4, linewidth=1.1, label=name)
    axes.plot(places, proved, color=colour, linestyle="--", linewidth=1)


def _logarithmic(axes: Axes, against: str) -> None:
    axes.set(xscale="log", yscale="log")
    axes.xaxis.set_minor_formatter(lambda *_: "")  # type: ignore[arg-type]  # powers of ten are enough
    axes.set_xlabel(against)
