"""Quantities that are constant over the steps or given step by step.

A schedule is a plain number or a tuple of numbers. Tuples keep a ``Run`` hashable, comparable and exactly serialisable;
a constant stays one number so that a run of ten million steps costs nothing to write down.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dplateau.spec.errors import InputError

Schedule: TypeAlias = float | tuple[float, ...]


def real(name: str, value: object, *, low: float = 0.0, inclusive: bool = False, high: float = math.inf) -> float:
    """``value`` as a finite float above ``low`` (or equal to it, where ``inclusive``) and at most ``high``."""
    relation = ">=" if inclusive else ">"
    wanted = f"a finite number {relation} {low:g}" + ("" if high == math.inf else f" and <= {high:g}")
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise InputError(f"{name} is {value!r}: expected {wanted}.")
    try:
        number = float(value) + 0.0  # Minus zero becomes zero: equal runs must have equal digests.
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or number < low or (number == low and not inclusive) or number > high:
        raise InputError(f"{name} is {number:g}: expected {wanted}.")
    return number


def integer(name: str, value: object, *, low: int = 1) -> int:
    """``value`` as an integer of at least ``low``; a float is accepted only if it is a whole number."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)) or value != value // 1:
        raise InputError(f"{name} is {value!r}: expected a whole number >= {low}.")
    if value < low:
        raise InputError(f"{name} is {value}: expected a whole number >= {low}.")
    return int(value)


def schedule(name: str, value: object, *, low: float = 0.0) -> Schedule:
    """``value`` (a number, or an iterable of numbers) as a schedule of finite numbers above ``low``."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        try:
            array = np.asarray(value if isinstance(value, np.ndarray) else list(value))
        except ValueError:
            raise InputError(f"{name} is an uneven nested sequence: expected a flat sequence of numbers.") from None
        if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iuf":
            raise InputError(f"{name} has shape {array.shape} and type {array.dtype}: expected a flat sequence of numbers.")
        array = array.astype(float)
        bad = np.flatnonzero(~np.isfinite(array) | (array <= low))
        if bad.size:
            raise InputError(f"{name}[{bad[0]}] is {array[bad[0]]:g}: expected finite numbers > {low:g}.")
        return tuple(array.tolist())
    return real(name, value, low=low)


def per_step(value: Schedule, steps: int) -> NDArray[np.float64]:
    """The schedule written out, shape ``(steps,)``."""
    return np.asarray(value) if isinstance(value, tuple) else np.full(steps, float(value))


def check_length(name: str, value: Schedule, steps: int) -> None:
    """Raise unless ``value`` is constant or has one entry a step."""
    if isinstance(value, tuple) and len(value) != steps:
        raise InputError(f"{name} has {len(value)} entries but the run has {steps} steps: give one entry a step, or one number.")
