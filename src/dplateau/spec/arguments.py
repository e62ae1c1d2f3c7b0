"""Arguments of public functions: what each must be, or one clear ``InputError`` that names it."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from dplateau.spec.errors import InputError

T = TypeVar("T")


def one_of(name: str, value: Any, allowed: Iterable[str]) -> str:
    """``value`` if it is one of the texts ``allowed``."""
    if not isinstance(value, str) or value not in allowed:
        raise InputError(f"{name} is {value!r}: expected one of {', '.join(allowed)}.")
    return value


def boolean(name: str, value: object) -> bool:
    """``value``, if it is a truth value."""
    if not isinstance(value, bool):
        raise InputError(f"{name} is {value!r}: expected true or false.")
    return value


def of_type(name: str, value: Any, kind: type[T], example: str = "") -> T:
    """``value`` if it is a ``kind``."""
    if not isinstance(value, kind):
        raise InputError(f"{name} is of type {type(value).__name__}: expected a {kind.__name__}{example}.")
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


def integer(name: str, value: object, *, low: int = 1, high: float = math.inf) -> int:
    """``value`` as an integer from ``low`` to ``high``; a float is accepted only if it is a whole number."""
    wanted = f"a whole number >= {low}" + ("" if high == math.inf else f" and <= {high:,}")
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        raise InputError(f"{name} is larger than any floating-point number: expected {wanted}.")
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)) or value != value // 1:
        raise InputError(f"{name} is {value!r}: expected {wanted}.")
    if not low <= value <= high:
        raise InputError(f"{name} is {value}: expected {wanted}.")
    return int(value)


def sequence(name: str, value: Any) -> tuple[Any, ...]:
    """``value`` as a tuple; a text is not a sequence."""
    if not is_sequence(value):
        raise InputError(f"{name} is {value!r}: expected a list.")
    return tuple(value)


def vector(name: str, value: object, *, inclusive: bool = False) -> NDArray[np.float64]:
    """``value`` as a flat array of finite numbers above 0 (or equal to it, where ``inclusive``); a number has length one."""
    if not is_sequence(value):
        return np.array([real(name, value, inclusive=inclusive)])
    given = value if isinstance(value, np.ndarray) else list(value)
    if isinstance(given, list) and not {bool, np.bool_}.isdisjoint(map(type, given)):
        raise InputError(f"{name} has truth values: expected a flat sequence of numbers.")
    try:
        array = np.asarray(given)
    except ValueError:
        raise InputError(f"{name} is an uneven nested sequence: expected a flat sequence of numbers.") from None
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iuf":
        raise InputError(f"{name} has shape {array.shape} and type {array.dtype}: expected a flat sequence of numbers.")
    array = array.astype(float)
    bad = np.flatnonzero(~np.isfinite(array) | (array < 0) | ((array == 0) & (not inclusive)))
    if bad.size:
        relation = ">=" if inclusive else ">"
        raise InputError(f"{name}[{bad[0]}] is {array[bad[0]]:g}: expected finite numbers {relation} 0.")
    return array


def numbers(name: str, value: Any) -> NDArray[np.float64]:
    """``value`` as an array of numbers, of any shape."""
    with suppress(TypeError, ValueError):
        if (array := np.asarray(value)).dtype.kind in "iuf":
            return array.astype(np.float64)
    raise InputError(f"{name} is of type {type(value).__name__}: expected numbers.")


def array_of(name: str, value: Any) -> NDArray[Any]:
    """``value`` as an array of any type; NumPy's own error would quote entries of lists."""
    with suppress(TypeError, ValueError):
        return np.asarray(value)
    raise InputError(f"{name} cannot be made an array: give one, or lists that are as long as one another.")


def is_sequence(value: object) -> TypeGuard[Iterable[Any]]:
    """Whether it is a list of some kind; a text is none, nor is an array of no dimension."""
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, dict)) and getattr(value, "ndim", 1) > 0


def check_unmasked(values: object, name: str) -> None:
    """Raise where entries of an array, or of arrays in a list, are masked, which means missing: NumPy would use them anyway."""
    arrays = values if isinstance(values, list | tuple) else (values,)
    if any(isinstance(one, np.ma.MaskedArray) and np.ma.is_masked(one) for one in arrays):
        raise InputError(f"the {name} have masked entries, which are missing: repair or drop these rows.")
