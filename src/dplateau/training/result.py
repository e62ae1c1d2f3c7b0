"""``TrainResult``: what training releases, and what its guarantee rests on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dplateau.losses import GeneralisedLinearLoss
from dplateau.spec import Assumption, Generator, Run, Training
from dplateau.spec.assumption import (
    Arithmetic,
    Batches,
    Clipping,
    Divisor,
    Features,
    Noise,
    Order,
    Persons,
    Processes,
    Projection,
    PublicConstants,
    Rounding,
    Smoothness,
    StrongConvexity,
)
from dplateau.training.noise import SecureGenerator
from dplateau.training.options import Begun, Options


@dataclass(frozen=True)
class TrainResult:
    """What a run released, and what its guarantee rests on.

    Attributes
    ----------
    weights : ndarray of shape (d,) or (d, K)
        The last iterate, or the average of the last ones where that was asked for.
    run : Run
        The run that was fulfilled.
    assumptions : tuple of Assumption
        What was enforced, and what is taken on trust.
    generator : Generator
        The source of randomness.
    dtype : str
        Working precision.
    iterates : ndarray of shape (steps + 1, d) or (steps + 1, d, K), optional
        The start and every iterate, where they were asked for.
    training : Training
        What kind of training it was.
    """

    weights: NDArray[Any]
    run: Run
    assumptions: tuple[Assumption, ...]
    generator: Generator
    dtype: str
    iterates: NDArray[Any] | None = None
    training: Training = Training.GRADIENT_STEPS


def shared_assumptions(run: Run, generator: SecureGenerator) -> list[Assumption]:
    """What the guarantee of any run here rests on, whatever it computes of the records."""
    ordered, batches = run.sampling.ordered, Batches(scheme=run.sampling.kind)
    noise = Noise(grid=True)
    return [
        PublicConstants(),
        # Anyone who knows the seed has chosen what was drawn from it.
        batches if generator.insecure and not ordered and not run.is_full_batch else batches.enforced(),
        noise if generator.insecure else noise.enforced(),
        Divisor().enforced(),
        Features(),
        *([Order()] if ordered else []),
        *([Persons()] if run.unit == "person" else []),
    ]


def stated_assumptions(run: Run) -> list[Assumption]:
    """What a run of a generalised linear model states of its weights and of its losses."""
    found: list[Assumption] = []
    if run.diameter is not None:
        found.append(Projection(diameter=run.diameter).enforced())
    if run.smoothness is not None:
        found.append(Smoothness(smoothness=run.smoothness).enforced())
    return found


def gradient_assumptions(run: Run, generator: SecureGenerator) -> list[Assumption]:
    """What the guarantee of any run of clipped gradients rests on."""
    return [
        *shared_assumptions(run, generator),
        Clipping(clip_norm=run.clip_norm).enforced(),
        Arithmetic(rounding=Rounding.EXACT).enforced(),
    ]


def assumptions_of(run: Run, loss: GeneralisedLinearLoss, generator: SecureGenerator) -> tuple[Assumption, ...]:
    """What the guarantee of a run of a generalised linear model rests on."""
    found = [*gradient_assumptions(run, generator), *stated_assumptions(run)]
    if run.strong_convexity is not None:
        curved = StrongConvexity(strong_convexity=run.strong_convexity, clipped=loss.convex_after_clipping)
        found.append(curved.enforced())
    return tuple(found)


def trusted(processes: int) -> tuple[Assumption, ...]:
    """That so many processes are trusted, if they are several."""
    return (Processes(count=processes),) if processes > 1 else ()


def result_of(
    run: Run,
    loss: GeneralisedLinearLoss,
    begun: Begun,
    options: Options,
    mean: NDArray[Any],
    iterates: list[NDArray[Any]],
    processes: int = 1,
) -> TrainResult:
    """The result of a run of a generalised linear model; raises ``TrainingDiverged`` where its weights are none."""
    dtype = options.dtype
    with np.errstate(over="ignore"):
        weights = begun.arithmetic.released(mean).astype(dtype)
    begun.arithmetic.check(weights)
    kept = np.concatenate(iterates).astype(dtype) if options.keep else None
    found = (*assumptions_of(run, loss, begun.generator), *trusted(processes))
    return TrainResult(weights, run, found, begun.generator.source, dtype, kept)
