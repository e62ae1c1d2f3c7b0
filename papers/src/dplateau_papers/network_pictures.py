"""Scores of networks while they are trained. Lines are means, bands one standard deviation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from dplateau._account import account
from dplateau.report.picture import COLOURS, TEXT, figure_type, style_axes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dplateau_papers.p2.tables import Shown
    from dplateau_papers.records import Records

LEGEND: Final = {"fontsize": TEXT, "frameon": False}


def curves(results: Sequence[dict[str, Any]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Steps, shape (k,), and scores, shape (trainings, k)."""
    table = np.array([result["curve"] for result in results], dtype=float)
    return table[0, :, 0], table[:, :, 1]


def band(axes: Any, x: NDArray[np.float64], scores: NDArray[np.float64], label: str, number: int, line: str = "-") -> None:
    """Mean and standard deviation."""
    mean, deviation, colour = scores.mean(axis=0), scores.std(axis=0), COLOURS[number]
    axes.plot(x, mean, line, color=colour, linewidth=1.3, label=label)
    axes.fill_between(x, mean - deviation, mean + deviation, color=colour, alpha=0.18, linewidth=0)


def finish(axes: Any, **legend: Any) -> None:
    """A grid, and a legend if there is anything to tell apart."""
    style_axes(axes)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(**LEGEND, **legend)


def by_epochs(shown: Shown, records: Records) -> Figure:
    """Scores by epochs, and what is printed for the last iterate."""
    figure = figure_type()(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for k, one in enumerate(shown.trainings):
        if results := records.results(shown.key_of(k + 1)):
            steps, scores = curves(results)
            epochs = steps / steps[-1] * one.setting.epochs
            band(axes, epochs, scores, f"row {k + 1}: z = {one.setting.noise_multiplier:g}, {len(results)} runs", k)
            if one.printed is not None:
                axes.axhline(one.printed, color=COLOURS[k], linestyle=":", linewidth=1)
    axes.set(xlabel="epochs", ylabel=f"{shown.what} (dotted: printed)")
    finish(axes)
    return figure


def by_epsilon(shown: Shown, records: Records) -> Figure:
    """Scores by epochs, and by what was spent, certified and by the limit theorem."""
    figure = figure_type()(figsize=(9.2, 4.0), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for k, one in enumerate(shown.trainings):
        if not (results := records.results(shown.key_of(k + 1))):
            continue
        steps, scores = curves(results)
        label = f"z = {one.setting.noise_multiplier:g}"
        band(left, steps / steps[-1] * one.setting.epochs, scores, label, k)
        costs = [account(one.setting.run.replace(steps=int(done)), one.setting.delta) for done in steps]
        band(right, np.array([cost.epsilon for cost in costs]), scores, f"{label}, certified", k)
        limit = [next(row.epsilon for row in cost.bounds if row.name == "gdp-clt") for cost in costs]
        band(right, np.array([each.upper for each in limit if each]), scores, f"{label}, limit theorem (no bound)", k, "--")
    left.set(xlabel="epochs", ylabel=shown.what, ylim=(85, None))
    right.set(xlabel="epsilon at delta 1e-5")
    for axes in (left, right):
        finish(axes)
    return figure
