"""The pictures of ``p3-table1`` to ``p3-figure4``: scores by epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dplateau.report.picture import TEXT, figure_type
from dplateau_papers.network_pictures import band, curves, finish
from dplateau_papers.p3 import settings as p3
from dplateau_papers.records import Records, Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _panels(rows: int, columns: int) -> tuple[Figure, Any]:
    figure = figure_type()(figsize=(9.2, 6.6), layout="constrained")
    return figure, figure.subplots(rows, columns, sharex=True, squeeze=False)


def _line(axes: Any, records: Records, setting: Setting, epochs: int, label: str, number: int, line: str = "-") -> None:
    if results := records.results(setting):
        steps, scores = curves(results)
        band(axes, steps / steps[-1] * epochs, scores, label, number, line)


def _label(panels: Any) -> None:
    for row in panels:
        row[0].set_ylabel("test accuracy, per cent")
    for axes in panels[-1]:
        axes.set_xlabel("epochs")


def comparison(shown: p3.Experiment, records: Records) -> Figure:
    """ADP-SGD and DP-SGD: one panel for each budget and clip norm."""
    figure, panels = _panels(len(p3.BUDGETS), len(p3.CLIPS))
    for setting in shown.settings:
        axes = panels[p3.BUDGETS.index(setting["epsilon"]), p3.CLIPS.index(setting["clip_norm"])]
        method, epochs = setting["method"], setting["epochs"]
        line = "-" if epochs == p3.EPOCHS[-1] else "--"
        _line(axes, records, setting, epochs, f"{method}, {epochs} epochs", ("ADP", "DP").index(method), line)
        axes.set_title(f"epsilon {setting['epsilon']:g}, clip norm {setting['clip_norm']:g}", fontsize=TEXT + 1)
    for axes in panels.ravel():
        finish(axes)
    _label(panels)
    return figure


def adaptive_steps(shown: p3.Experiment, records: Records) -> Figure:
    """Steps of AdaGrad-norm: one panel for each budget and clip norm."""
    figure, panels = _panels(len(p3.BUDGETS), len(p3.ADAGRAD_CLIPS))
    for setting in shown.settings:
        axes = panels[p3.BUDGETS.index(setting["epsilon"]), p3.ADAGRAD_CLIPS.index(setting["clip_norm"])]
        growth = setting["growth"]
        label = "DP" if growth is None else f"ADP, C = {growth:g}"
        _line(axes, records, setting, p3.ADAGRAD_EPOCHS, label, (None, *p3.ADAGRAD_GROWTHS).index(growth))
        axes.set_title(f"epsilon {setting['epsilon']:g}, clip norm {setting['clip_norm']:g}", fontsize=TEXT + 1)
    for axes in panels.ravel():
        finish(axes)
    _label(panels)
    return figure


def falling_steps(shown: p3.Experiment, records: Records) -> Figure:
    """Constant and falling steps: one panel for each noise."""
    figure, panels = _panels(2, 2)
    for setting in shown.settings:
        axes = panels.ravel()[p3.NOISES.index(setting["noise"])]
        growth = setting["growth"]
        _line(axes, records, setting, p3.FALLING_EPOCHS, f"c = {growth:g}", p3.GROWTHS.index(growth))
        axes.set_title(f"noise multiplier {setting['noise']:g}", fontsize=TEXT + 1)
    for axes in panels.ravel():
        finish(axes, ncols=2)
    _label(panels)
    return figure
