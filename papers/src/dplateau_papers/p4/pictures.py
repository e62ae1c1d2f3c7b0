"""The picture of ``p4-privacy``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dplateau.report.picture import COLOURS, MARKERS, TEXT, figure_type, style_axes
from dplateau_papers.p4.privacy import Full, Privacy
from dplateau_papers.p4.settings import DELTA, halved_laws

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

_CLAIMS = tuple(np.geomspace(0.1, 4.0, 9).tolist())


def langevin_picture(found: Privacy) -> Figure:
    """Full batches with constant and falling steps; minibatches."""
    figure = figure_type()(figsize=(9.4, 4.3))
    panels: Any = figure.subplots(1, 3)
    _steps(panels[0], found.constant, "full batches, constant steps")
    _steps(panels[1], found.falling, "full batches, falling steps")
    _claims(panels[2])
    for axes in panels:
        style_axes(axes)
    figure.subplots_adjust(left=0.065, right=0.985, top=0.92, bottom=0.34, wspace=0.24)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower left", bbox_to_anchor=(0.04, 0.0), ncols=2, frameon=False, fontsize=TEXT)
    handles, labels = panels[2].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower right", bbox_to_anchor=(0.995, 0.0), frameon=False, fontsize=TEXT)
    return figure


def _steps(axes: Any, rows: Sequence[Full], title: str) -> None:
    lines = (
        ("all iterates (Proved)", "composed", "-"),
        ("as printed, last iterate (Proved here)", "printed", "-"),
        ("ours, last iterate (Proved)", "proved", "-"),
        ("exact, quadratic losses", "exact", "--"),
    )
    for i, (label, name, dash) in enumerate(lines):
        values = [getattr(row, name) for row in rows]
        style = {"color": COLOURS[i], "marker": MARKERS[i], "markersize": 4, "linewidth": 1.5, "linestyle": dash, "label": label}
        axes.plot([row.steps for row in rows], values, **style)
    axes.set(xscale="log", yscale="log", xlabel="K", ylim=(0.015, 5))
    axes.set_title(title, loc="left", fontsize=TEXT, color="0.3")
    if "constant" in title:
        axes.set_ylabel(f"epsilon at delta = {DELTA:g}")


def _claims(axes: Any) -> None:
    for i, (n, m) in enumerate(((300, 1), (1000, 10), (1000, 1000))):
        values = [halved_laws(n, m, claim).epsilon(DELTA) for claim in _CLAIMS]
        label = f"exact, n = {n:,}, m = {m:,}" + (" (full batch)" if m == n else "")
        style = {"color": COLOURS[i + 4], "marker": MARKERS[i + 4], "markersize": 4, "linewidth": 1.5}
        axes.plot(_CLAIMS, values, label=label, **style)
    axes.plot(_CLAIMS, _CLAIMS, color="0.35", linestyle=(0, (1, 1.5)), label="as printed (Refuted for m < n)")
    axes.set(xscale="log", yscale="log", xlabel="claimed epsilon")
    axes.set_title("minibatches, Theorem 4.2", loc="left", fontsize=TEXT, color="0.3")
