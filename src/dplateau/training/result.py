"""``TrainResult``: what training releases, and what its guarantee rests on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from numpy.typing import NDArray

from dplateau.losses import GeneralisedLinearLoss
from dplateau.spec import Assumption, Cyclic, FullBatch, OnePass, Run
from dplateau.training.noise import SecureGenerator


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
    generator : str
        The source of randomness, for the certificate.
    dtype : str
        Working precision.
    iterates : ndarray of shape (steps + 1, d) or (steps + 1, d, K), optional
        The start and every iterate, where they were asked for.
    """

    weights: NDArray[Any]
    run: Run
    assumptions: tuple[Assumption, ...]
    generator: str
    dtype: str
    iterates: NDArray[Any] | None = None


GIVEN_ORDER: Final = Assumption("order", "the order of the records is public: it does not depend on what they say", "declared")


def _sampling(run: Run, generator: SecureGenerator, drawn: str) -> Assumption:
    if isinstance(run.sampling, FullBatch):
        return Assumption("sampling", "every step used every record", "enforced")
    if isinstance(run.sampling, (Cyclic, OnePass)):
        return Assumption("sampling", f"{run.sampling.kind} batches followed the given order of the records", "enforced")
    return Assumption("sampling", f"{run.sampling.kind} batches were drawn from {generator.name}, none truncated", drawn)


def shared_assumptions(run: Run, generator: SecureGenerator, dtype: str) -> list[Assumption]:
    """What the guarantee of any run of clipped gradients rests on, in the order of the update."""
    drawn = "declared" if generator.insecure else "enforced"
    found = [
        Assumption("public constants", "n, the schedules, l2 and the start were chosen without looking at the records", "declared"),
        _sampling(run, generator, drawn),
        Assumption(
            "clipping", f"per-example gradients were clipped to norm {run.clip_norm:g}, less the rounding margin", "enforced"
        ),
        Assumption("divisor", "sums were divided by the public batch size", "enforced"),
        Assumption("noise", f"independent Gaussian noise from {generator.name}, on one grid with the sums", drawn),
        Assumption("arithmetic", f"beyond that grid, {dtype} arithmetic is treated as exact", "declared"),
    ]
    if isinstance(run.sampling, (Cyclic, OnePass)):
        found.append(GIVEN_ORDER)
    return found


def assumptions_of(run: Run, loss: GeneralisedLinearLoss, generator: SecureGenerator, dtype: str) -> tuple[Assumption, ...]:
    """What the guarantee of a run of a generalised linear model rests on."""
    found = shared_assumptions(run, generator, dtype)
    if run.diameter is not None:
        found.append(Assumption("projection", f"iterates were projected on the ball of diameter {run.diameter:g}", "enforced"))
    if run.smoothness is not None:
        found.append(Assumption("smoothness", f"every row is short enough for smoothness {run.smoothness:g}", "enforced"))
    if run.strong_convexity is not None:
        how = "clipping keeps one score convex" if loss.convex_after_clipping else "clipping was never active"
        found.append(Assumption("strong convexity", f"l2 is at least {run.strong_convexity:g} and {how}", "enforced"))
    return tuple(found)
