"""``dplateau evaluate``: how good a saved model is on public rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from dplateau.cli import options as o
from dplateau.cli.output import printable, show, show_json, warn
from dplateau.cli.predict import Model

if TYPE_CHECKING:
    from dplateau.estimators.evaluation import ClassEvaluation, NumberEvaluation

UNPROTECTED = "Statistics of these rows, which must be public: nothing protects them, and no certificate counts them."


def evaluate(
    model: Model,
    file: Annotated[Path, o.path_argument(f"Public rows with their targets: {o.FORMATS}.", "FILE")],
    cost: o.Cost = None,
    signed_by: o.SignedBy = None,
    json: o.Json = False,
) -> None:
    """Say how good a saved model is on public rows, compared with a constant answer.

    The output is a statistic of these rows that nothing protects, so the rows
    must be public. On private rows, including those of the training, it would
    cost privacy that no certificate counts.

    For example:

    dplateau evaluate people-model people-test.csv
    """
    costs = o.numbers_by_class("--cost", cost)
    from dplateau.estimators.table_model import load_model

    loaded = load_model(model, signed_by=signed_by)
    found = loaded.evaluate(file, cost=costs)
    if json:
        show_json({"model": str(model), "file": str(file), "warning": UNPROTECTED, **found.to_dict()})
    else:
        about = f"{loaded.model}, {len(loaded.feature_names):,} features"
        show_evaluation(found, ("model", about), ("rows", f"{found.rows:,} of {printable(file.name)}, public by declaration"))
        show(f"\n{UNPROTECTED}")
    if found.warning is not None:
        warn(found.warning)


def number(value: float) -> str:
    """Four digits, and no power of ten where a reader does without."""
    return f"{value:,.0f}" if 9999.5 <= abs(value) < 1e7 else f"{value:.4g}"


def brief(found: ClassEvaluation | NumberEvaluation) -> tuple[str, str]:
    """The number that matters most, and what it is to be compared with."""
    from dplateau.estimators.evaluation import ClassEvaluation

    if isinstance(found, ClassEvaluation):
        return f"accuracy {found.accuracy:.2%}", f"always {printable(found.majority)}: {found.majority_accuracy:.2%}"
    return f"RMSE {number(found.rmse)}", f"always the mean: {number(found.mean_rmse)}"


def show_evaluation(found: ClassEvaluation | NumberEvaluation, *about: tuple[str, str]) -> None:
    """What is printed for a person."""
    from dplateau.estimators.evaluation import ClassEvaluation
    from dplateau.report.text import facts

    if isinstance(found, ClassEvaluation):
        show(facts(*about, *_class_lines(found)))
        show("")
        show(_recalls(found))
        return
    lines = [
        ("RMSE", f"{number(found.rmse)}; always predicting the mean, {number(found.mean)}: {number(found.mean_rmse)}"),
        ("MAE", f"{number(found.mae)}; predicting the mean: {number(found.mean_mae)}"),
        ("R2", "not defined: all targets are equal" if found.r2 is None else f"{found.r2:.4f}; predicting the mean: 0"),
    ]
    show(facts(*about, *lines))


def _class_lines(found: ClassEvaluation) -> list[tuple[str, str]]:
    lines = [
        ("accuracy", f"{found.accuracy:.2%}; always predicting {printable(found.majority)}: {found.majority_accuracy:.2%}"),
        ("balanced", f"{found.balanced_accuracy:.2%}, the mean recall of the classes"),
    ]
    if found.auc is not None:
        lines.append(("AUC", f"{found.auc:.4f}; chance: 0.5"))
    if found.log_loss is not None:
        lines.append(("log loss", f"{found.log_loss:.4f}"))
    return lines


def _recalls(found: ClassEvaluation) -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    table.add_column("class", overflow="fold")
    for name in ("rows", "predicted", "recall"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, recall in found.recall.items():
        numbers = (f"{found.actual[name]:,}", f"{found.predicted[name]:,}", "" if recall is None else f"{recall:.2%}")
        table.add_row(printable(name), *numbers)
    return table
