"""Scores of networks while they are trained. Lines are means, bands one standard deviation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dplateau.report.picture import COLOURS, TEXT, style_axes

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
