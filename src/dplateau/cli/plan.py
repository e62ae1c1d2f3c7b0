"""``dplateau plan``: which algorithm, and with what parameters, before there is any data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from dplateau.algorithms.registry import SOLVERS
from dplateau.cli import options as o
from dplateau.cli.output import show, show_json, write_new

DATA = "Public facts"


def plan(
    n: Annotated[int, o.option("Number of rows, or of persons.", DATA, "--n", metavar="N")],
    d: Annotated[int, o.option("Number of features, including an intercept.", DATA, "--d", metavar="N")],
    epsilon: Annotated[float, o.option("What the model may cost, at most.", o.GUARANTEE, "--epsilon")],
    delta: o.Delta = None,
    adjacency: o.Adjacency = None,
    unit: o.Unit = None,
    model: Annotated[str, o.choice(o.MODELS, "What to fit.", o.MODEL, "--model")] = "logistic",
    loss: o.Loss = None,
    classes: Annotated[int, o.option("Number of classes.", DATA, "--classes", metavar="N")] = 2,
    feature_norm: Annotated[float, o.option("Bound on the norm of every row.", DATA, "--feature-norm")] = 1.0,
    l2: o.L2 = 0.0,
    solver: Annotated[str, o.choice(("auto", *SOLVERS), "The algorithm.", o.MODEL, "--solver")] = "auto",
    steps: Annotated[int, o.option("Gradient steps of noisy-sgd, adp-sgd and dp-sgld.", o.MODEL, "--steps", metavar="N")] = 400,
    one_pass: Annotated[bool, o.flag("The rows can be read only once.", DATA, "--one-pass")] = False,
    output: Annotated[Path | None, o.output("A new file for the planned run, to use with account --run.")] = None,
    json: o.Json = False,
) -> None:
    """Choose the algorithm, steps, batches, step sizes and noise from public facts, and say why.

    It uses no private data.

    For example:

    dplateau plan --n 32561 --d 108 --epsilon 1

    dplateau plan --n 1000000 --d 100 --epsilon 0.5 --one-pass --json
    """
    from dplateau.files import check_new_file
    from dplateau.spec.arguments import integer, real

    for name, count, low in (("n", n, 1), ("d", d, 1), ("classes", classes, 2)):
        integer(name, count, low=low)
    real("epsilon", epsilon)
    if output is not None:
        check_new_file(output)
    from dplateau.losses.named import loss_named
    from dplateau.planning import plan as make

    chosen = loss_named(model, loss, classes, solver=solver)
    found = make(
        n,
        d,
        epsilon,
        delta,
        loss=chosen.loss,
        residual_clip=chosen.residual_clip,
        feature_norm=feature_norm,
        adjacency=adjacency or "add-remove",
        unit=unit or "row",
        l2=l2,
        solver=solver,
        one_pass=one_pass,
        steps=steps,
    )
    if output is not None:
        write_new(output, found.run.to_json(indent=1) + "\n")
    if json:
        show_json(found.to_dict())
    else:
        from dplateau.report.text import facts

        show(facts(*zip(("solver", "steps", "noise"), found.reasons, strict=True)))
