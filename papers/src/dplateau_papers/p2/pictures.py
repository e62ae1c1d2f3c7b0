"""Pictures: Figures 2, 3 and 4 of Bu, Dong, Long and Su 2020, with the certified curves, and scores of its networks by epochs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dplateau._account import Report, account
from dplateau.report.epsilon import against_delta, against_runs
from dplateau.report.epsilon_picture import draw_epsilon
from dplateau.report.picture import COLOURS, TEXT, figure_type
from dplateau.report.trade_off import compared
from dplateau.report.trade_off_picture import draw_trade_off
from dplateau_papers.network_pictures import band, curves, finish
from dplateau_papers.p2.calibration import Calibrated
from dplateau_papers.p2.settings import CALIBRATION_DELTA, SETTINGS, Setting, Shown, trained

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dplateau_papers.records import Records


def trade_off_panels(models: Sequence[tuple[Setting, Report]]) -> Figure:
    """Figure 3: one panel for each MNIST model."""
    models = [(setting, report) for setting, report in models if setting.name.startswith("MNIST")]
    figure = figure_type()(figsize=(9.2, 7.0))
    panels = figure.subplots(2, 3, sharex=True, sharey=True).ravel()
    for axes, (setting, report) in zip(panels, models, strict=True):
        draw_trade_off(axes, compared(report))
        what = f"sigma = {setting.noise_multiplier:g}, {setting.epochs:g} epochs"
        title = f"{what}\nepsilon {report.epsilon:.2f} certified, {setting.clt:.2f} claimed"
        axes.set_title(title, loc="left", fontsize=TEXT, color="0.3")
        axes.label_outer()
    for text in (text for axes in panels for text in (axes.xaxis.label, axes.yaxis.label)):
        text.set_fontsize(TEXT)
    _legend(figure, panels[0], top=0.93, bottom=0.13)
    return figure


def epsilons() -> Figure:
    """Figure 2: sigma = 0.7 on MNIST, against delta, epochs and sigma."""
    third = SETTINGS[2]
    epochs = {float(e): trained(third.noise_multiplier, e) for e in np.linspace(1, 100, 25)}
    noise = {float(z): trained(z, third.epochs) for z in np.linspace(0.5, 1.5, 25)}
    curves = (
        (f"sigma = {third.noise_multiplier:g}, {third.epochs:g} epochs", against_delta(third.run)),
        (f"sigma = {third.noise_multiplier:g}, delta = {third.delta:g}", against_runs("epochs", epochs, third.delta)),
        (f"{third.epochs:g} epochs, delta = {third.delta:g}", against_runs("sigma", noise, third.delta)),
    )
    figure = figure_type()(figsize=(9.2, 3.5))
    panels = figure.subplots(1, 3)
    for axes, (title, each) in zip(panels, curves, strict=True):
        draw_epsilon(axes, each)
        axes.set_title(title, loc="left", fontsize=TEXT, color="0.3")
    _label_left(panels)
    _legend(figure, panels[0], top=0.92, bottom=0.26)
    return figure


def spending(calibrations: Sequence[Calibrated]) -> Figure:
    """Figure 4, right: epsilon while training with sigma~, and with sigma by the moments accountant."""
    figure = figure_type()(figsize=(9.2, 4.0))
    panels = figure.subplots(1, len(calibrations))
    for axes, found in zip(panels, calibrations, strict=True):
        printed = found.printed
        epochs = np.linspace(1, printed.epochs, 20)
        less = against_runs("epochs", {e: trained(found.less_noise, e) for e in epochs}, CALIBRATION_DELTA)
        draw_epsilon(axes, replace(less, lines=less.lines[:-1]))
        accountant = against_runs("epochs", {e: trained(printed.noise_multiplier, e) for e in epochs}, CALIBRATION_DELTA).lines[-1]
        label = "moments-accountant, with sigma"
        axes.plot(epochs, accountant.epsilons, color="0.35", linewidth=1.1, marker="o", markevery=3, markersize=4, label=label)
        title = f"sigma~ = {found.less_noise:.3f} in place of sigma = {printed.noise_multiplier:g}, delta = {CALIBRATION_DELTA:g}"
        axes.set_title(title, loc="left", fontsize=TEXT, color="0.3")
    _label_left(panels)
    _legend(figure, panels[0], top=0.92, bottom=0.24)
    return figure


def _label_left(panels: Sequence[Any]) -> None:
    for axes in panels[1:]:
        axes.set_ylabel("")


def _legend(figure: Figure, axes: Any, *, top: float, bottom: float) -> None:
    """One legend below all panels, from the labels of one."""
    figure.subplots_adjust(left=0.07, right=0.975, top=top, bottom=bottom, wspace=0.2, hspace=0.22)
    handles, labels = axes.get_legend_handles_labels()
    # A point alone has another epsilon in every panel.
    labels = ["the certified (epsilon, delta) alone" if "alone" in label else label.split(":")[0] for label in labels]
    labels = [f"{label}: no guarantee)" if "Asymptotic" in label else label for label in labels]
    figure.legend(handles, labels, loc="lower center", ncols=3, frameon=False, fontsize=TEXT, handlelength=2.6)


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
