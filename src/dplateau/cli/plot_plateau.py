"""``dplateau plot-plateau``: epsilon against steps, as a picture or as numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from dplateau.cli import options as o
from dplateau.cli.output import busy, show_json
from dplateau.spec.errors import InputError

Output = Annotated[Path | None, o.output("The picture: .png, .svg or .pdf.")]
To = Annotated[int | None, o.option("Largest number of steps (default: four times the run's).", o.RESULT, "--to", metavar="N")]
All = Annotated[
    bool,
    o.flag("Also draw proved bounds if another one is always at least as good.", o.RESULT, "--all"),
]


@o.describes_a_run
def plot_plateau(
    run: o.RunFile = None,
    *,
    given: o.Given,
    delta: o.Delta = None,
    output: Output = None,
    to: To = None,
    all: All = False,
    json: o.Json = False,
) -> None:
    """Draw what a run costs after any number of steps, and where more steps cost nothing.

    Proved bounds are solid lines; lines that are not guarantees are thin and dashed.

    For example:

    dplateau plot-plateau --n 60000 --sampling cyclic --batch-size 1500
    --steps 8000 --noise-multiplier 3 --step-size 0.05 --smoothness 0.25
    --strong-convexity 0.004 --released last --output plateau.svg
    """
    from dplateau.report.picture import check_picture
    from dplateau.report.plateau import plateau, step_numbers
    from dplateau.report.plateau_picture import plot_plateau

    if output is None and not json:
        raise InputError("--output is missing: name the picture, for example plateau.svg; or give --json for the numbers.")
    described = o.one_run_of(o.run_in(run), **given)
    numbers = step_numbers(described, to)
    if output is not None:
        check_picture(output)
    with busy(f"accounting for {len(numbers)} numbers of steps"):
        found = plateau(described, delta, numbers, dominated=all)
    if output is not None:
        plot_plateau(found, output)
    if json:
        show_json(found.to_dict())
    elif found.begins is not None:
        print(f"{output}: the plateau begins at about {found.begins:,} steps.")
    else:
        print(f"{output}: no plateau up to {numbers[-1]:,} steps.")
