"""The pictures of ``p0-figure1`` and ``p0-figure2``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dplateau.report.picture import COLOURS, DASHES, MARKERS, TEXT, figure_type, style_axes
from dplateau_papers.p0.curves import COMPOSED, OURS, PRINTED, TURNED, WALKS, Curve, Panel
from dplateau_papers.p0.settings import DELTA, ORDER

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PLACES = (COMPOSED, PRINTED, OURS, WALKS, TURNED)


def first_picture(panels: Sequence[Panel]) -> Figure:
    """One column a setting: Renyi divergences above, epsilons below."""
    figure = figure_type()(figsize=(9.4, 6.6))
    grid: Any = figure.subplots(2, len(panels), sharex="col", squeeze=False)
    for column, found in enumerate(panels):
        for axes, curves in zip(grid[:, column], (found.divergence, found.epsilon), strict=True):
            style_axes(axes)
            for curve in curves.values():
                _draw(axes, found.steps, curve)
            axes.set(xscale="log", yscale="log")
            axes.axvline(found.setting.burn_in, color="0.45", linewidth=0.9, linestyle=(0, (2, 2)), zorder=1)
            axes.annotate("T_bar", (found.setting.burn_in, 0.02), (3, 0), ("data", "axes fraction"), "offset points", fontsize=TEXT)
        run = found.setting.run
        title = f"{found.setting.name}: D = {run.diameter:g}, z = {run.noise_multiplier:g}"
        grid[0, column].set_title(title, loc="left", fontsize=TEXT, color="0.3")
        grid[1, column].set_xlabel("T")
    grid[0, 0].set_ylabel(f"Renyi divergence of order {ORDER:g}")
    grid[1, 0].set_ylabel(f"epsilon at delta = {DELTA:g}")
    figure.subplots_adjust(left=0.075, right=0.985, top=0.955, bottom=0.16, wspace=0.2, hspace=0.07)
    handles, labels = grid[1, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=3, frameon=False, fontsize=TEXT, handlelength=2.6)
    return figure


def _draw(axes: Any, steps: Sequence[int], curve: Curve) -> None:
    i = _PLACES.index(curve.name)
    words = {COMPOSED: "composition of all iterates", PRINTED: "last iterate, as printed", OURS: "last iterate, ours"}
    what = words.get(curve.name, f"exact: {curve.by}")
    label = what if curve.status == "exact" else f"{what} ({curve.status})"
    dash = (0, (4, 2)) if curve.status == "exact" else DASHES.get(curve.status, "-")
    axes.plot(steps, curve.values, color=COLOURS[i], marker=MARKERS[i], markersize=4, linewidth=1.4, linestyle=dash, label=label)


def second_picture(panels: dict[float, tuple[Panel, ...]]) -> Figure:
    """Convex, strongly convex."""
    figure = figure_type()(figsize=(9.4, 4.6))
    grid: Any = figure.subplots(1, len(panels), sharey=True, squeeze=False)
    for axes, (m, each) in zip(grid[0], panels.items(), strict=True):
        style_axes(axes)
        for i, found in enumerate(each):
            style: dict[str, Any] = {"color": COLOURS[i], "marker": MARKERS[i], "markersize": 4}
            name = found.setting.name
            axes.plot(found.steps, found.epsilon[OURS].values, **style, linewidth=1.8, label=f"{name}, last iterate (Proved)")
            if name != "shuffled":
                values = found.epsilon[COMPOSED].values
                axes.plot(
                    found.steps, values, **style, linewidth=0.9, linestyle=(0, (6, 2)), label=f"{name}, all iterates (Proved)"
                )
            values = found.epsilon[TURNED].values
            axes.plot(found.steps, values, color=COLOURS[i], linewidth=1.1, linestyle=(0, (1, 1.5)), label=f"{name}, exact walks")
        axes.set(xscale="log", yscale="log", xlabel="T")
        axes.set_title("strongly convex losses" if m else "convex losses", loc="left", fontsize=TEXT, color="0.3")
        if not m:
            axes.axvline(each[0].setting.burn_in, color="0.45", linewidth=0.9, linestyle=(0, (2, 2)), zorder=1)
            axes.annotate(
                "T_bar", (each[0].setting.burn_in, 0.94), (3, 0), ("data", "axes fraction"), "offset points", fontsize=TEXT
            )
    grid[0, 0].set_ylabel(f"epsilon at delta = {DELTA:g}")
    figure.subplots_adjust(left=0.075, right=0.985, top=0.94, bottom=0.29, wspace=0.06)
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=3, frameon=False, fontsize=TEXT, handlelength=2.6)
    return figure
