"""The study's pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from dplateau.report.picture import COLOURS, figure_type, style_axes
from dplateau_papers.network_pictures import LEGEND
from dplateau_papers.study.langevin import CLAIMS, Study, claimed
from dplateau_papers.study.methods import METHODS
from dplateau_papers.study.sweep import EPSILONS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINES: Final = {"composition": "-", "last iterate": "--", "one pass": ":"}
MARKS: Final = ("o", "s", "^", "v", "D", "x")


def by_epsilon(studies: Sequence[Study]) -> Figure:
    """A line for every method, one panel a problem; the style says what the accounting is."""
    figure = figure_type()(figsize=(9.6, 7.0), layout="constrained")
    for axes, study in zip(figure.subplots(1, len(studies)), studies, strict=True):
        counts = dict.fromkeys(LINES, 0)
        for method in METHODS:
            shown = [(epsilon, study.means[method.name, epsilon]) for epsilon in EPSILONS if (method.name, epsilon) in study.means]
            if shown:
                number = counts[method.accounting]
                counts[method.accounting] += 1
                style: dict[str, Any] = {"color": COLOURS[number % len(COLOURS)], "marker": MARKS[number % len(MARKS)]}
                line = LINES[method.accounting]
                axes.plot(*zip(*shown, strict=True), line, label=method.title, linewidth=1.3, markersize=4, **style)
        values = [value for (_, epsilon), value in study.means.items() if epsilon >= 1]
        free = study.sweep.without_privacy or max(values, default=100.0)
        axes.axhline(free, color="black", linewidth=0.8)
        axes.set(
            xscale="log",
            xlabel="certified epsilon at delta 1e-5",
            ylabel="test accuracy, per cent (line: no privacy)",
            title=study.title,
            ylim=(min(values, default=free) - 2, free + 0.4),
        )
        axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
        axes.minorticks_off()
        style_axes(axes)
    _legend(figure, "solid: composition, dashed: last iterate, dotted: one pass", 3)
    return figure


def _legend(figure: Figure, title: str | None, columns: int) -> None:
    """One for all panels, below them."""
    handles, labels = figure.axes[-1].get_legend_handles_labels()
    figure.legend(handles, labels, title=title, loc="outside lower center", ncols=columns, **LEGEND)


def by_noise(studies: Sequence[Study]) -> Figure:
    """Accuracy against the certified epsilon of DP-SGLD, an arrow from the printed noise to the certified one, hollow."""
    figure = figure_type()(figsize=(9.6, 5.0), layout="constrained")
    for axes, study in zip(figure.subplots(1, len(studies)), studies, strict=True):
        for number, l2 in enumerate(sorted({l2 for l2, _ in CLAIMS})):
            for mark, batch in zip(MARKS, sorted({batch for _, batch in CLAIMS}), strict=False):
                cell = [study.langevin.results(claimed(l2, batch, kind)) for kind in ("printed", "certified")]
                if not all(cell):
                    continue
                x = [max(result["replace"] for result in results) for results in cell]
                y = [sum(result["score"] for result in results) / len(results) for results in cell]
                colour = COLOURS[number]
                axes.annotate("", (x[1], y[1]), (x[0], y[0]), arrowprops={"arrowstyle": "->", "color": colour, "linewidth": 0.8})
                axes.plot(x[0], y[0], mark, color=colour, markersize=5, label=f"l2 {l2:g}, batch {batch}")
                axes.plot(x[1], y[1], mark, color=colour, markersize=5, fillstyle="none")
        axes.axvline(1, color="black", linewidth=0.8)
        axes.set(
            xscale="log",
            xlabel="certified epsilon, replacement (line: what is claimed)",
            ylabel="test accuracy, per cent",
            title=f"{study.title}: from printed to certified noise",
        )
        style_axes(axes)
    _legend(figure, None, 3)
    return figure
