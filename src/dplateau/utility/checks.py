"""Conditions that several theorems share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dplateau.spec import InputError
from dplateau.spec.schedule import real

Array: TypeAlias = NDArray[np.float64]


def vector(name: str, value: object, *, low: float = 0.0, inclusive: bool = False) -> Array:
    """``value`` as a flat array of finite numbers above ``low`` (or equal to it, where ``inclusive``); a number has length one."""
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes, dict)):
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
    return np.array([real(name, value, low=low, inclusive=inclusive)])
