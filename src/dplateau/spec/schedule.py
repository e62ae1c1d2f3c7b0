"""Quantities that are constant over the steps or given step by step.

A schedule is a plain number or a tuple of numbers. Tuples keep a ``Run`` hashable, comparable and exactly serialisable;
a constant stays one number so that a run of ten million steps costs nothing to write down.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from dataclasses import fields
from typing import Any, Final, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from dplateau.spec.errors import InputError

Schedule: TypeAlias = float | tuple[float, ...]


_WRITTEN: Final = 8
"""A longer schedule is shown by its length and its ends."""


def shown(record: Any, *without: str) -> str:
    """The ``repr`` of a dataclass without what has its default, and with long schedules, arrays and lists in short."""
    given = ((one.name, getattr(record, one.name), one.default) for one in fields(record) if one.name not in without)
    parts = (f"{name}={_short(value)}" for name, value, default in given if isinstance(value, np.ndarray) or value != default)
    return f"{type(record).__name__}({', '.join(parts)})"


def _short(value: Any) -> str:
    if not isinstance(value, tuple | np.ndarray) or len(value) <= _WRITTEN:
        return repr(value)
    if isinstance(value[0], float):
        return f"<{len(value):,} values, {value[0]:g} to {value[-1]:g}>"
    return f"<{len(value):,} of {type(value[0]).__name__}>"


def one_of(name: str, value: Any, allowed: Iterable[str]) -> str:
    """``value`` if it is one of the texts ``allowed``."""
    if not isinstance(value, str) or value not in allowed:
        raise InputError(f"{name} is {value!r}: expected one of {', '.join(allowed)}.")
    return value


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
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        raise InputError(f"{name} is larger than any floating-point number: expected a whole number >= {low}.")
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)) or value != value // 1:
        raise InputError(f"{name} is {value!r}: expected a whole number >= {low}.")
    if value < low:
        raise InputError(f"{name} is {value}: expected a whole number >= {low}.")
    return int(value)


def sequence(name: str, value: Any) -> tuple[Any, ...]:
    """``value`` as a tuple; a text is not a sequence."""
    if not _is_sequence(value) or (isinstance(value, np.ndarray) and value.ndim == 0):
        raise InputError(f"{name} is {value!r}: expected a list.")
    return tuple(value)


def vector(name: str, value: object, *, low: float = 0.0, inclusive: bool = False) -> NDArray[np.float64]:
    """``value`` as a flat array of finite numbers above ``low`` (or equal to it, where ``inclusive``); a number has length one."""
    if not _is_sequence(value):
        return np.array([real(name, value, low=low, inclusive=inclusive)])
    try:
        array = np.asarray(value if isinstance(value, np.ndarray) else list(value))
    except ValueError:
        raise InputError(f"{name} is an uneven nested sequence: expected a flat sequence of numbers.") from None
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iuf":
        raise InputError(f"{name} has shape {array.shape} and type {array.dtype}: expected a flat sequence of numbers.")
    array = array.astype(float)
    bad = np.flatnonzero(~np.isfinite(array) | (array < low) | ((array == low) & (not inclusive)))
    if bad.size:
        relation = ">=" if inclusive else ">"
        raise InputError(f"{name}[{bad[0]}] is {array[bad[0]]:g}: expected finite numbers {relation} {low:g}.")
    return array


def schedule(name: str, value: object, *, low: float = 0.0) -> Schedule:
    """``value`` (a number, or an iterable of numbers) as a schedule of finite numbers above ``low``."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    return tuple(vector(name, value, low=low).tolist()) if _is_sequence(value) else real(name, value, low=low)


def _is_sequence(value: object) -> TypeGuard[Iterable[Any]]:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, dict))


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
