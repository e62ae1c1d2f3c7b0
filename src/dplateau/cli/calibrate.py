"""``dplateau calibrate``."""

from __future__ import annotations

import json
from enum import Enum
from typing import Annotated

import typer

from dplateau.account import account as ask
from dplateau.account import calibrate as solve
from dplateau.cli import options as o
from dplateau.spec import Run


class Vary(str, Enum):
    """What calibration may change."""

    noise_multiplier = "noise-multiplier"
    steps = "steps"
    batch_size = "batch-size"


def calibrate(
    epsilon: Annotated[float, typer.Option(help="What the run may cost.", rich_help_panel="The guarantee", show_default=False)],
    vary: Annotated[Vary, typer.Option(help="What to change: least noise, most steps, or largest batch.")] = Vary.noise_multiplier,
    n: o.N = None,
    sampling: o.SamplingOption = o.SamplingName.poisson,
    batch_size: o.BatchSize = None,
    steps: o.Steps = None,
    epochs: o.Epochs = None,
    noise_multiplier: o.Noise = None,
    clip_norm: o.ClipNorm = 1.0,
    run: o.RunFile = None,
    step_size: o.StepSize = None,
    smoothness: o.Smoothness = None,
    strong_convexity: o.Convexity = None,
    diameter: o.Diameter = None,
    adjacency: o.Adjacency = o.AdjacencyName.add_remove,
    released: o.Released = o.ReleasedName.all,
    delta: o.Delta = 1e-5,
    as_json: o.Json = False,
) -> None:
    """The least noise (or the most steps, or the largest batch) that keeps a run within epsilon.

    The answer is certified again as a whole. A noise schedule in --run FILE keeps its shape.

    Example: dplateau calibrate --epsilon 2 --n 10000 --batch-size 100 --steps 10000
    """
    from dplateau.report.text import console, report_text

    if run is not None:
        start = Run.from_json(o.read_json(run)[0])
    else:
        if vary is Vary.noise_multiplier and noise_multiplier is None:
            noise_multiplier = 1.0
        if vary is Vary.steps and steps is None and epochs is None:
            steps = 1
        if vary is Vary.batch_size and batch_size is None:
            batch_size = 1.0
        rest = {"clip_norm": clip_norm, "step_size": step_size, "smoothness": smoothness, "strong_convexity": strong_convexity}
        rest |= {"diameter": diameter, "adjacency": adjacency, "released": released}
        start = o.spell_run(n, sampling, batch_size, steps, epochs, noise_multiplier, **rest)
    answer = solve(start, epsilon=epsilon, delta=delta, vary=vary.value.replace("-", "_"))
    report = ask(answer, delta)
    if as_json:
        typer.echo(json.dumps(report.to_dict(), indent=2))
        return
    value = {
        Vary.noise_multiplier: answer.noise_multiplier,
        Vary.steps: answer.steps,
        Vary.batch_size: getattr(answer.sampling, "batch_size", answer.n),
    }[vary]
    shown = f"a schedule of {len(value)} values (see --json)" if isinstance(value, tuple) else f"{value:.6g}"
    typer.echo(f"{vary.value} = {shown}")
    console().print(report_text(report))
