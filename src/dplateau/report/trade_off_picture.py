"""The picture of trade-off curves: readable in black and white, and for eyes that do not tell all colours apart."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dplateau.accounting.enclosure import rounded_up
from dplateau.accounting.gaussian import Array
from dplateau.analyses import GaussianCLT, MomentsAccountantBound
from dplateau.certificate.words import batches, spread
from dplateau.report.picture import COLOURS, DASHES, TEXT, new_picture, style_axes
from dplateau.report.trade_off import ALPHAS, CERTIFIED, POINT, Curve, TradeOffs
from dplateau.spec import Run, Runs
from dplateau.spec.arguments import of_type

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PERFECT: Final = "perfect privacy"
_FINE: Final = np.unique(np.concatenate([ALPHAS, np.linspace(0, 1, 1001)]))
_LEAST: Final = 1e-300
"""No logarithmic axis begins below it: the power of ten below the least delta is 0."""
STYLES: Final[dict[str, dict[str, Any]]] = {
    CERTIFIED: {"color": COLOURS[0], "linewidth": 3.0, "zorder": 5},
    GaussianCLT.name: {"color": COLOURS[4], "linewidth": 1.2, "zorder": 6},
    MomentsAccountantBound.name: {"color": COLOURS[1], "linewidth": 1.1, "zorder": 4, "marker": "o", "markerfacecolor": "white"},
    POINT: {"color": COLOURS[2], "linewidth": 1.1, "zorder": 3, "marker": "s"},
}
"""Thick and solid: what certifies. Thin with markers: proved, but weaker. Dashed: no guarantee."""


def plot_trade_off(found: TradeOffs, path: str | Path | None = None, *, log: bool = False) -> Figure:
    """Draw the trade-off curves of a run.

    The certified curve is thick and solid, above the grey area that no attack reaches; what is proved but says less is thin, with
    markers; the limit theorem's curve, which is not a guarantee, is dashed; perfect privacy is dotted.

    Parameters
    ----------
    found : TradeOffs
        The curves.
    path : str or Path, optional
        Where to write the picture: png, svg or pdf, whole or not at all. One that exists is replaced.
    log : bool, default False
        Draw the true-positive rate against the false-positive rate, both on logarithmic axes down to delta, instead of type II
        error against type I error.

    Raises
    ------
    InputError
        These are no curves, matplotlib is not installed, or the file cannot be written.
    """
    of_type("found", found, TradeOffs, ", which trade_offs(run) gives")
    with new_picture(path, (5.6, 5.2)) as figure:
        axes = figure.add_axes((0.11, 0.095, 0.86, 0.81))
        draw_trade_off(axes, found, log=log)
        axes.legend(loc="lower right" if log else "upper right", frameon=False, fontsize=TEXT, handlelength=2.6)
        axes.set_title(_title(found.report.run), loc="left", fontsize=TEXT, color="0.3")
    return figure


def draw_trade_off(axes: Axes, found: TradeOffs, *, log: bool = False) -> None:
    """The curves of a run on given axes, each with its label for a legend."""
    style_axes(axes)
    least = 10.0 ** math.floor(math.log10(min(max(found.report.delta, _LEAST), 0.1)))
    if log:
        axes.set(xscale="log", yscale="log", xlim=(least, 1), ylim=(least, 1))
        axes.set(xlabel="false-positive rate", ylabel="true-positive rate, at most")
    else:
        axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="type I error: false alarms", ylabel="type II error: misses")
    axes.set_aspect("equal")
    alpha = np.geomspace(least, 1, 400) if log else ALPHAS
    edge = 1 - found.certified(alpha) if log else found.certified(alpha)
    axes.fill_between(alpha, edge, 1 if log else 0, color="0.94", linewidth=0, zorder=0)
    for curve in found.curves:
        _draw(axes, curve, _label(curve, found), least if log else None)
    axes.plot(alpha, alpha if log else 1 - alpha, color="0.4", linewidth=1.1, linestyle=(0, (1, 2)), zorder=2, label=PERFECT)


def _draw(axes: Axes, curve: Curve, label: str, least: float | None) -> None:
    alpha, shown = (_FINE, _spread(curve)) if least is None else (np.geomspace(least, 1, 400), np.geomspace(least, 1, 9)[1:-1])
    style: dict[str, Any] = {"linestyle": DASHES.get(curve.status, "-"), "label": label, "markersize": 4.5, **STYLES[curve.name]}
    if "marker" in style:
        alpha = np.unique(np.concatenate([alpha, shown]))
        style["markevery"] = np.searchsorted(alpha, shown).tolist()
    value = curve.f(alpha)
    axes.plot(alpha, value if least is None else 1 - value, clip_on=least is not None, **style)


def _spread(curve: Curve) -> Array:
    """Type I errors at which the curve passes rays from the origin: markers then lie apart from each other, however steep it is."""
    angle = np.arctan2(curve.f(_FINE), _FINE)
    return np.interp(np.linspace(math.pi / 2, 0, 10)[1:-1], angle[::-1], _FINE[::-1])


def _label(curve: Curve, found: TradeOffs) -> str:
    if curve.name == CERTIFIED:
        return f"{curve.name}: {found.report.best.name}" if found.report.best else curve.name
    if curve.name == POINT:
        return f"({rounded_up(found.report.epsilon, 3)}, {rounded_up(found.report.delta)}) alone"
    return curve.name if curve.status == "Proved" else f"{curve.name} ({curve.status}: no guarantee)"


def _title(run: Run | Runs) -> str:
    last = f"{run.adjacency}, released: {run.released}"
    if isinstance(run, Runs):
        return f"{run.n:,} {run.unit}s, {len(run.runs)} runs, {run.steps:,} steps\n{last}"
    return f"{run.n:,} {run.unit}s, {run.steps:,} steps, {batches(run)}\nnoise multiplier {spread(run.noise_multiplier)}, {last}"
