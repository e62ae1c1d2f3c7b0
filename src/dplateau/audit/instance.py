"""One pair of neighbouring data sets on an interval, whose losses have affine gradients."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Final

from dplateau.spec import InputError, Run
from dplateau.spec.runs import single_run

_ROOM: Final = 1e-9
"""Relative room for rounding where a search walks along a constraint."""


@dataclass(frozen=True)
class Gradient:
    """The gradient ``curvature * theta + offset`` of one record's loss, l2 term left out."""

    curvature: float
    offset: float


ZERO: Final = Gradient(0.0, 0.0)


@dataclass(frozen=True)
class Instance:
    """What the two data sets hold and where training starts.

    Attributes
    ----------
    first, second : Gradient or None
        The record in either data set; None where it is absent (add-remove).
    others : tuple of Gradient
        The other records: one for all of them, or one a batch of the epoch (cyclic), or one a step (one pass).
    start : float
        First iterate, in ``[-diameter/2, diameter/2]``.
    position : int
        Batch of the epoch (cyclic) or step (one pass) that the record belongs to; 0 under other samplings.
    l2 : float
        Added once a step to the curvature of the step's objective, whatever the batch; no record influences it.
    """

    first: Gradient | None
    second: Gradient | None
    others: tuple[Gradient, ...] = (ZERO,)
    start: float = 0.0
    position: int = 0
    l2: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Instance:
        """The instance that ``to_dict`` wrote."""
        values = dict(data)
        for name in ("first", "second"):
            values[name] = None if values[name] is None else Gradient(**values[name])
        values["others"] = tuple(Gradient(**other) for other in values["others"])
        return cls(**values)


def places(run: Run) -> int:
    """How many positions the record may have: batches of the epoch (cyclic), steps (one pass), else 1."""
    return run.sampling.period(run.n, run.steps) if run.sampling.ordered else 1


def check_run(run: Run) -> tuple[float, float, float]:
    """Half the diameter, the smoothness and the least curvature of a run whose last iterate has a computable law: the strong
    convexity, or minus the smoothness where losses are not known to be convex.

    Raises
    ------
    InputError
        One of them, or the step size, is not stated, or the update is not a plain gradient step.
    """
    if single_run(run).update != "sgd":
        raise InputError(f"update is {run.update!r}: only plain gradient steps (sgd) have a computable law here.")
    needed = ("diameter", "smoothness", "step_size")
    if absent := [name for name in needed if getattr(run, name) is None]:
        raise InputError(f"the run lacks {', '.join(absent)}: exact laws are computed on an interval, for stated losses.")
    assert run.diameter is not None
    assert run.smoothness is not None
    least = -run.smoothness if run.strong_convexity is None else run.strong_convexity
    return run.diameter / 2, run.smoothness, least


def check_instance(run: Run, instance: Instance) -> None:
    """Raise ``InputError`` unless the instance satisfies everything that ``run`` states."""
    half, smoothness, convexity = check_run(run)
    absent = (instance.first is None) + (instance.second is None)
    if absent != (run.adjacency == "add-remove"):
        wanted = "in exactly one" if run.adjacency == "add-remove" else "in both"
        raise InputError(f'adjacency="{run.adjacency}" needs the record {wanted} of the data sets.')
    if len(instance.others) not in {1, places(run)}:
        raise InputError(f"others has {len(instance.others)} entries: expected 1 or {places(run)}.")
    if not 0 <= instance.position < places(run):
        raise InputError(f"position is {instance.position}: expected 0 to {places(run) - 1}.")
    if not abs(instance.start) <= half * (1 + _ROOM):
        raise InputError(f"start is {instance.start:g}: expected at most {half:g} in absolute value.")
    if not run.l2 * (1 - _ROOM) <= instance.l2 < math.inf:
        raise InputError(f"l2 is {instance.l2:g}: expected a finite number >= {run.l2:g}, the run's.")
    lowest = min(convexity, 0.0)
    for gradient in {instance.first, instance.second, *instance.others} - {None}:
        assert gradient is not None
        total, room = gradient.curvature + instance.l2, _ROOM * smoothness
        if not (gradient.curvature >= lowest * (1 + _ROOM) and convexity - room <= total <= smoothness + room):
            raise InputError(
                f"curvature is {gradient.curvature:g} with l2 {instance.l2:g}: expected a curvature >= {lowest:g} and "
                f"a sum in [{convexity:g}, {smoothness:g}]."
            )
        steepest = abs(gradient.offset) + abs(gradient.curvature) * half
        if not steepest <= run.clip_norm * (1 + _ROOM):
            raise InputError(f"a gradient reaches {steepest:g} on the interval: expected at most clip_norm {run.clip_norm:g}.")
