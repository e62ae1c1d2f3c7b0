"""``dplateau train``."""

from __future__ import annotations

import json
from enum import Enum
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import typer

from dplateau.cli import options as o
from dplateau.spec import InputError


class Model(str, Enum):
    """What to fit."""

    logistic = "logistic"
    svc = "svc"
    linear = "linear"
    huber = "huber"


def train(
    file: Annotated[Path, typer.Argument(help="Private rows: CSV, Parquet, LIBSVM or NumPy.", show_default=False)],
    schema: Annotated[
        str, typer.Option(help="A schema file, or the name of one that comes with the package: adult, a9a.", show_default=False)
    ],
    epsilon: Annotated[float, typer.Option(help="What the model may cost.", show_default=False)],
    delta: Annotated[float, typer.Option(help="Delta; well below 1/n.")] = 1e-5,
    test: Annotated[Path | None, typer.Option(help="Public rows to measure accuracy on.", show_default=False)] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Folder to create. Default: NAME-model, or NAME-model-2 and so on.", show_default=False
        ),
    ] = None,
    model: Annotated[
        Model | None, typer.Option(help="What to fit. Default: logistic for classes, linear for numbers.", show_default=False)
    ] = None,
    steps: Annotated[int, typer.Option(help="Gradient steps: they cost time, not privacy.")] = 400,
    adjacency: o.Adjacency = o.AdjacencyName.add_remove,
    insecure_seed: Annotated[int | None, typer.Option(help="Reproducible noise. VOIDS THE GUARANTEE.", show_default=False)] = None,
    as_json: o.Json = False,
) -> None:
    """Train a private linear model; write it and its certificate to a folder.

    Everything but the rows is public: the schema, the number of rows, epsilon and delta. Rows of --test are treated as public too.

    Example: dplateau train adult.data --schema adult --test adult.test --epsilon 1
    """
    from dplateau.data import load_schema
    from dplateau.estimators.saved import save_model
    from dplateau.report.text import certificate_text, console

    public = load_schema(schema)
    folder = _free(file) if output is None else output
    if folder.exists():
        raise InputError(f"{folder} exists: choose another --output, or remove it.")
    fitted = fit(file, public, model, epsilon, delta=delta, steps=steps, adjacency=adjacency.value, insecure_seed=insecure_seed)
    score = None if test is None else measure(fitted, test, public)
    save_model(fitted, folder, schema=public)
    if as_json:
        facts = {"model": str(folder), "certificate": str(folder / "certificate.json"), "epsilon": fitted.epsilon_, "delta": delta}
        typer.echo(json.dumps({**facts, ("test_r2" if _is_regression(public) else "test_accuracy"): score}, indent=2))
        return
    console().print(certificate_text(fitted.certificate_))
    if score is not None:
        typer.echo(
            f"\ntest {'R2 ' + format(score, '.4f') if _is_regression(public) else f'accuracy {score:.2%}'} on the rows of {test}, which count as public"
        )
    typer.echo(f"wrote {folder}/ (model, schema, certificate.json)")


def fit(file: Path, public: Any, model: Model | None, epsilon: float, **arguments: Any) -> Any:
    """The fitted estimator for a file and its public schema."""
    from dplateau import estimators
    from dplateau.data import load_dataset

    rows = load_dataset(file, public, intercept=0.0)
    regression = rows.classes is None
    chosen = model or (Model.linear if regression else Model.logistic)
    if regression != (chosen in (Model.linear, Model.huber)):
        kind = "a range of numbers" if regression else "classes"
        raise InputError(f"--model {chosen.value} does not fit a target that is declared as {kind}.")
    common = {**arguments, "feature_norm": rows.feature_norm, "verbose": True}
    if rows.classes is None:
        loss = "squared" if chosen is Model.linear else "huber"
        return estimators.PrivateLinearRegression(epsilon, target_range=rows.target_range, loss=loss, **common).fit(
            rows.features, rows.target
        )
    kind = estimators.PrivateLogisticRegression if chosen is Model.logistic else estimators.PrivateLinearSVC
    names = [rows.classes[i] for i in rows.target]
    return kind(epsilon, classes=list(rows.classes), **common).fit(rows.features, names)


def measure(fitted: Any, test: Path, public: Any) -> float:
    """Accuracy (or R2) on public rows."""
    from dplateau.data import load_dataset

    rows = load_dataset(test, public, intercept=0.0)
    target = rows.target if rows.classes is None else [rows.classes[i] for i in rows.target]
    return float(fitted.score(rows.features, target))


def _is_regression(public: Any) -> bool:
    return not public.target.classes


def _free(file: Path) -> Path:
    """A folder name beside nothing that exists."""
    base = Path(f"{file.stem or file.name}-model")
    return base if not base.exists() else next(path for i in count(2) if not (path := Path(f"{base}-{i}")).exists())
