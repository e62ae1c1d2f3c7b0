"""Roots, minima and isotonic regression.

Those by scipy.optimize load it at first use: that halves the time of our import.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
_FAR: Final = 1e300
_CELLS, _ROUNDS = 4096, 8


def _optimize() -> Any:
    return import_module("scipy.optimize")


def root(f: Callable[[float], float], low: float, high: float, *, xtol: float = 1e-300) -> float:
    """The root of ``f`` between ``low`` and ``high``, where it has opposite signs (Brent's method)."""
    return float(_optimize().brentq(f, low, high, xtol=xtol, rtol=1e-14))


def minimum(f: Callable[[float], float], low: float, high: float, *, xtol: float, most: int = 500) -> tuple[float, float]:
    """Where ``f`` is least between ``low`` and ``high``, as far as a short search finds it, and its value there."""
    found = _optimize().minimize_scalar(f, bounds=(low, high), method="bounded", options={"xatol": xtol, "maxiter": most})
    return float(found.x), float(found.fun)


def isotonic(values: Array, weights: Array) -> Array:
    """The closest sequence that does not fall, in weighted least squares (pool adjacent violators)."""
    return np.asarray(_optimize().isotonic_regression(values, weights=weights).x)


def crossing(rising: Callable[[Array], Array], level: Array) -> Array:
    """Where a smooth rising function that is unbounded both ways passes ``level``: a table, then false position in its cells."""
    level = np.asarray(level, dtype=float)
    low, high = -1.0, 1.0
    while rising(np.array(low)) > level.min() and low > -_FAR:
        low *= 2
    while rising(np.array(high)) < level.max() and high < _FAR:
        high *= 2
    x = np.sinh(np.linspace(math.asinh(low), math.asinh(high), _CELLS))
    values = rising(x)
    cell = np.clip(np.searchsorted(values, level), 1, x.size - 1)
    left, right, below, above = x[cell - 1], x[cell], values[cell - 1], values[cell]
    middle = left
    for _ in range(_ROUNDS):
        share = (level - below) / np.where(above > below, above - below, 1.0)
        middle = left + (right - left) * np.clip(share, 0.0, 1.0)
        found = rising(middle)
        under = found < level
        left, below = np.where(under, middle, left), np.where(under, found, below)
        right, above = np.where(under, right, middle), np.where(under, above, found)
    return middle
