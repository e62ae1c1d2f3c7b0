"""Pictures of the experiments on networks, from their records.

    python experiments/network_pictures.py --records DIR --output DIR

The first DIR holds mnist.jsonl, figure4.jsonl, poly.jsonl, linear.jsonl and constant.jsonl, the records of ``p2_networks.py``
and ``p3_adaptive.py``, those that there are. Lines are means, bands are one standard deviation.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import dplateau as dp
from dplateau.report.picture import COLOURS, TEXT, figure_type, save_picture, style_axes
from p2_networks import ROWS, run_of
from p3_adaptive import BUDGETS, CLIPS, EPOCHS, GROWTHS, NOISES
from p3_adaptive import run_of as compared_run
from records import Records

N = 60_000
ROUND = {"fontsize": TEXT, "frameon": False}


def curves(results: Sequence[dict[str, Any]]) -> tuple[np.ndarray, np.ndarray]:
    """Steps (k,) and scores (runs, k)."""
    table = np.array([result["curve"] for result in results], dtype=float)
    return table[0, :, 0], table[:, :, 1]


def band(axes: Any, x: np.ndarray, scores: np.ndarray, label: str, number: int, line: str = "-") -> None:
    """Mean and standard deviation."""
    mean, spread, colour = scores.mean(0), scores.std(0), COLOURS[number]
    axes.plot(x, mean, line, color=colour, linewidth=1.3, label=label)
    axes.fill_between(x, mean - spread, mean + spread, color=colour, alpha=0.18, linewidth=0)


def table_1(records: Records) -> Any:
    """Accuracy by epochs on MNIST."""
    figure = figure_type()(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for k, row in enumerate(ROWS["mnist"]):
        if results := records.results({"table": "mnist", "row": k + 1}):
            steps, scores = curves(results)
            band(axes, steps * row.batch_size / N, scores, f"row {k + 1}: z = {row.noise_multiplier}, {len(results)} runs", k)
            axes.axhline(float(row.printed), color=COLOURS[k], linestyle=":", linewidth=1)
    axes.set(xlabel="epochs", ylabel="test accuracy, per cent (dotted: printed)", ylim=(88, None))
    style_axes(axes)
    axes.legend(**ROUND)
    return figure


def figure_4(records: Records) -> Any:
    """Accuracy by epochs, and by what was spent, certified and by the limit theorem."""
    figure = figure_type()(figsize=(9.2, 4.0), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for k, row in enumerate(ROWS["figure4"]):
        if not (results := records.results({"table": "figure4", "row": k + 1})):
            continue
        steps, scores = curves(results)
        label = f"z = {row.noise_multiplier}"
        band(left, steps * row.batch_size / N, scores, label, k)
        costs = [dp.account(run_of(row, N).replace(steps=int(done)), delta=row.delta) for done in steps]
        band(right, np.array([cost.epsilon for cost in costs]), scores, f"{label}, certified", k)
        limit = [next(one.epsilon for one in cost.bounds if one.name == "gdp-clt") for cost in costs]
        band(right, np.array([one.upper for one in limit if one]), scores, f"{label}, limit theorem (no bound)", k, "--")
    left.set(xlabel="epochs", ylabel="test accuracy, per cent", ylim=(85, None))
    right.set(xlabel="epsilon at delta 1e-5")
    for axes in (left, right):
        style_axes(axes)
        axes.legend(**ROUND)
    return figure


def comparison(records: Records) -> Any:
    """Accuracy of ADP-SGD and DP-SGD by epochs: one panel for each budget and clip norm."""
    figure = figure_type()(figsize=(9.2, 6.6), layout="constrained")
    panels = figure.subplots(len(BUDGETS), len(CLIPS), sharex=True)
    schedule = records.lines[0]["setting"]["schedule"]
    for row, epsilon in zip(panels, BUDGETS, strict=True):
        for axes, clip in zip(row, CLIPS, strict=True):
            for k, method in enumerate(("ADP", "DP")):
                for epochs, line in zip(EPOCHS, ("--", "-"), strict=True):
                    setting = {"schedule": schedule, "method": method, "epochs": epochs, "clip_norm": clip, "epsilon": epsilon}
                    if results := records.results(setting):
                        steps, scores = curves(results)
                        run = compared_run(N, setting)
                        band(axes, steps * epochs / run.steps, scores, f"{method}, {epochs} epochs", k, line)
            axes.set_title(f"epsilon {epsilon:g}, clip norm {clip:g}", fontsize=TEXT + 1)
            style_axes(axes)
            axes.legend(**ROUND)
        row[0].set_ylabel("test accuracy, per cent")
    for axes in panels[-1]:
        axes.set_xlabel("epochs")
    return figure


def constant(records: Records) -> Any:
    """Test error by epochs for constant and falling steps: one panel for each noise."""
    figure = figure_type()(figsize=(9.2, 6.6), layout="constrained")
    for axes, noise in zip(figure.subplots(2, 2, sharex=True).ravel(), NOISES, strict=True):
        for k, growth in enumerate(GROWTHS):
            setting = {"growth": growth, "noise": noise}
            if results := records.results(setting):
                steps, scores = curves(results)
                band(axes, steps * 50 / compared_run(N, setting).steps, 100 - scores, f"c = {growth:g}", k)
        axes.set_title(f"noise multiplier {noise:g}", fontsize=TEXT + 1)
        axes.set(xlabel="epochs", ylabel="test error, per cent")
        style_axes(axes)
        axes.legend(**ROUND, ncols=2)
    return figure


PICTURES: dict[str, Callable[[Records], Any]] = {
    "mnist": table_1,
    "figure4": figure_4,
    "poly": comparison,
    "linear": comparison,
    "constant": constant,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    for name, draw in PICTURES.items():
        if (path := options.records / f"{name}.jsonl").exists() and (records := Records(path)).lines:
            save_picture(draw(records), options.output / f"networks-{name}.svg")
            print(options.output / f"networks-{name}.svg")


if __name__ == "__main__":
    main()
