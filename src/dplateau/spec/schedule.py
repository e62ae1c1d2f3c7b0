"""Quantities that are constant over the steps or given step by step.

A schedule is a plain number or a tuple of numbers. Tuples keep a ``Run`` hashable, comparable and exactly serialisable;
a constant stays one number so that a run of ten million steps costs nothing to write down.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dplateau.spec.arguments import is_sequence, real, vector
from dplateau.spec.errors import InputError

Schedule: TypeAlias = float | tuple[float, ...]


def schedule(name: str, value: object) -> Schedule:
    """``value`` (a number, or an iterable of numbers) as a schedule of finite numbers above 0."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    return tuple(vector(name, value).tolist()) if is_sequence(value) else real(name, value)


def check_length(name: str, value: Schedule, steps: int) -> None:
    """Raise unless ``value`` is constant or has one entry a step."""
    if not is_constant(value) and len(entries(value)) != steps:
        raise InputError(
            f"{name} has {len(entries(value))} entries but the run has {steps} steps: give one entry a step, or one number."
        )


def is_constant(*values: Schedule | None) -> bool:
    """Whether every value is one number (or not stated) and none is given step by step."""
    return not any(isinstance(value, tuple) for value in values)


def constant(value: Schedule | None) -> float:
    """The number that ``value`` is; raises ``TypeError`` where it is a sequence or not stated."""
    if value is None or isinstance(value, tuple):
        raise TypeError("expected one number, not a schedule")
    return value


def entries(value: Schedule) -> tuple[float, ...]:
    """The numbers of a schedule; a constant has one."""
    return value if isinstance(value, tuple) else (value,)


def smallest(value: Schedule) -> float:
    """The smallest entry."""
    return min(entries(value))


def largest(value: Schedule) -> float:
    """The largest entry."""
    return max(entries(value))


def scaled(value: Schedule, factor: float) -> Schedule:
    """Every entry times ``factor``."""
    return tuple(factor * entry for entry in value) if isinstance(value, tuple) else factor * value


def part(value: Schedule, first: int, last: int) -> Schedule:
    """The schedule of steps ``first`` to ``last``, the last one not included."""
    return value[first:last] if isinstance(value, tuple) else value


def window(value: Schedule, first: int, last: int) -> NDArray[np.float64]:
    """Steps ``first`` to ``last``, written out; a sequence that is shorter than the run (an epoch) is repeated."""
    if not isinstance(value, tuple):
        return np.full(last - first, float(value))
    if last <= len(value):
        return np.array(value[first:last], dtype=float)
    return np.asarray(value, dtype=float)[np.arange(first, last) % len(value)]


def per_step(value: Schedule, steps: int) -> NDArray[np.float64]:
    """The schedule written out, shape ``(steps,)``; a sequence that is shorter than the run (an epoch) is repeated."""
    return window(value, 0, steps)


def plain(value: Schedule) -> float | list[float]:
    """The schedule for JSON."""
    return list(value) if isinstance(value, tuple) else value
