"""Options that commands share, and the ``Run`` that they spell."""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from dplateau.spec import SAMPLINGS, FullBatch, InputError, Run


class SamplingName(str, Enum):
    """Names of the batch schemes."""

    poisson = "poisson"
    fixed_size = "fixed-size"
    cyclic = "cyclic"
    shuffled = "shuffled"
    one_pass = "one-pass"
    full = "full"


class AdjacencyName(str, Enum):
    """What neighbouring data sets are."""

    add_remove = "add-remove"
    replace = "replace"


class ReleasedName(str, Enum):
    """What the guarantee covers."""

    all = "all"
    last = "last"


def _option(text: str, panel: str) -> Any:
    return typer.Option(help=text, rich_help_panel=panel, show_default=False)


_RUN, _LOSS, _WHAT = "The run", "The loss (for last-iterate bounds)", "The guarantee"
N = Annotated[int | None, _option("Number of records (public).", _RUN)]
SamplingOption = Annotated[SamplingName, typer.Option(help="How the records of a step are chosen.", rich_help_panel=_RUN)]
BatchSize = Annotated[float | None, _option("Batch size; under Poisson sampling its expectation.", _RUN)]
Steps = Annotated[int | None, _option("Number of gradient steps.", _RUN)]
Epochs = Annotated[float | None, _option("Passes over the data, instead of --steps.", _RUN)]
Noise = Annotated[float | None, _option("Noise on the summed gradient, in clip norms.", _RUN)]
StepSize = Annotated[float | None, _option("Step size.", _LOSS)]
ClipNorm = Annotated[float, typer.Option(help="Norm that per-example gradients are clipped to.", rich_help_panel=_RUN)]
Smoothness = Annotated[float | None, _option("Smoothness of every per-example loss.", _LOSS)]
Convexity = Annotated[float | None, _option("Strong convexity; 0: convex.", _LOSS)]
Diameter = Annotated[float | None, _option("Diameter of the set that iterates are projected on.", _LOSS)]
Adjacency = Annotated[AdjacencyName, typer.Option(help="What neighbouring data sets are.", rich_help_panel=_WHAT)]
Released = Annotated[ReleasedName, typer.Option(help="What the guarantee covers.", rich_help_panel=_WHAT)]
Delta = Annotated[float, typer.Option(help="Delta; well below 1/n.", rich_help_panel=_WHAT)]
RunFile = Annotated[Path | None, _option("Read the run from a JSON file (a serialised run, or a certificate).", _RUN)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def spell_run(
    n: int | None,
    sampling: SamplingName,
    batch_size: float | None,
    steps: int | None,
    epochs: float | None,
    noise: float | None,
    **rest: Any,
) -> Run:
    """The run that options spell; raises ``InputError`` where one is missing or two contradict each other."""
    if n is None or noise is None:
        raise InputError(f"{'--n' if n is None else '--noise-multiplier'} is missing: give it, or a whole run by --run FILE.")
    scheme = SAMPLINGS[sampling.value]
    if scheme is FullBatch:
        if batch_size is not None and batch_size != n:
            raise InputError(f"--batch-size {batch_size:g} contradicts --sampling full: leave it out.")
        chosen = FullBatch()
    elif batch_size is None:
        raise InputError(f"--batch-size is missing: --sampling {sampling.value} needs it.")
    else:
        chosen = scheme(batch_size=batch_size)  # type: ignore[call-arg]
    if (steps is None) == (epochs is None):
        raise InputError("give either --steps or --epochs.")
    if steps is None:
        steps = max(1, round((epochs or 0.0) * chosen.epoch_steps(n)))
    values = {key: value.value if isinstance(value, Enum) else value for key, value in rest.items()}
    return Run(n=n, sampling=chosen, steps=steps, noise_multiplier=noise, **values)


def read_json(path: Path) -> tuple[str, bool]:
    """The text of a file, and whether it is a certificate; raises ``InputError`` where it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
        data = json.loads(text)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}.") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"{path} is not JSON: {error}.") from None
    return text, isinstance(data, dict) and str(data.get("format", "")).startswith("dplateau-certificate")
