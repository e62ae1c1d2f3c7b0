"""``dplateau calibrate``: what must change for a run to cost no more than wanted."""

from __future__ import annotations

from typing import Annotated

from dplateau.cli import options as o
from dplateau.cli.output import show, show_json
from dplateau.spec.errors import InputError

VARY = ("noise-multiplier", "steps", "batch-size")
SIZED = ("poisson", "fixed-size", "random-allocation")
ANYTHING = {"noise_multiplier": 1.0, "steps": 1, "batch_size": 1.0}


@o.describes_a_run
def calibrate(
    epsilon: Annotated[float, o.option("What the run may cost, at most.", o.GUARANTEE, "--epsilon")],
    vary: Annotated[
        str, o.choice(VARY, "What to find: the smallest noise, the most steps or the largest batch.", o.RESULT, "--vary")
    ] = VARY[0],
    run: o.RunFile = None,
    *,
    given: o.Given,
    delta: o.Delta = None,
    json: o.Json = False,
) -> None:
    """Find the noise, the number of steps or the batch size that meets an epsilon; the answer is certified.

    Leave out the option that --vary names. The noise of a run from a file is
    scaled as a whole.

    For example:

    dplateau calibrate --epsilon 2 --n 10000 --batch-size 100 --steps 10000

    dplateau calibrate --epsilon 2 --vary steps --run run.json
    """
    from dplateau.spec.arguments import real

    real("epsilon", epsilon)
    name = vary.replace("-", "_")
    start = o.run_in(run)
    if start is None:
        if given[name] is not None or (name == "steps" and given["epochs"] is not None):
            raise InputError(f"--{vary} is what the command searches for: leave it out, or --vary something else.")
        if name == "batch_size" and given["epochs"] is not None:
            raise InputError("--epochs means a different number of steps for every batch size: give --steps.")
        if name == "batch_size" and given["sampling"] not in (None, *SIZED):
            raise InputError(f"--vary batch-size needs --sampling {', '.join(SIZED[:-1])} or {SIZED[-1]}.")
        given[name] = ANYTHING[name]
    described = o.run_of(start, **given)
    from dplateau._account import account
    from dplateau.calibration import calibrate
    from dplateau.report.text import calibration_text

    answer = calibrate(described, epsilon=epsilon, delta=delta, vary=name)
    report = account(answer, delta)
    if json:
        show_json(report.to_dict())
    else:
        show(calibration_text(report, vary))
