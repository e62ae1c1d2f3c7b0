"""The pictures of the ``p0`` entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dplateau.report.picture import COLOURS, DASHES, MARKERS, TEXT, figure_type, style_axes
from dplateau_papers.p0.curves import COMPOSED, OURS, PRINTED, TURNED, WALKS, Curve, Panel
from dplateau_papers.p0.settings import DELTA, ORDER

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dplateau_papers.p0.lower_bound import Plateau

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


def tightness_picture(rows: Sequence[Plateau]) -> Figure:
    """Epsilon on the plateau against the noise."""
    figure = figure_type()(figsize=(6.4, 4.4))
    axes = figure.add_axes((0.11, 0.12, 0.87, 0.85))
    style_axes(axes)
    for k, batches in enumerate(dict.fromkeys(row.batches for row in rows)):
        chosen = [row for row in rows if row.batches == batches]
        places = [row.ratio for row in chosen]
        lines: tuple[tuple[str, list[float], Any], ...] = (
            ("certified (Proved)", [row.certified for row in chosen], "-"),
            ("exact, turned", [row.turned for row in chosen], (0, (4, 2))),
            ("exact, 4.1", [row.walks for row in chosen], (0, (1, 1.5))),
        )
        for what, values, dash in lines:
            style: dict[str, Any] = {"color": COLOURS[k], "marker": MARKERS[k], "markersize": 4.5, "linewidth": 1.3}
            axes.plot(places, values, **style, linestyle=dash, label=f"{batches.split(',')[0]} batches: {what}")
    axes.axvspan(5e-4, 1e-3, color="0.9", zorder=0)
    axes.annotate("Theorem 4.1", (1e-3, 0.03), (4, 0), ("data", "axes fraction"), "offset points", fontsize=TEXT)
    axes.set(xscale="log", yscale="log", xlim=(5e-4, 200), xlabel="r = sigma^2 eta^2 T_bar / D^2")
    axes.set_ylabel(f"epsilon at delta = {DELTA:g}")
    axes.legend(frameon=False, fontsize=TEXT)
    return figure
