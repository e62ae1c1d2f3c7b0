"""Roots, minima and isotonic regression by scipy.optimize, which is loaded at first use: that halves the time of our import."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray


def _optimize() -> Any:
    return import_module("scipy.optimize")


def root(f: Callable[[float], float], low: float, high: float, *, xtol: float = 1e-300, rtol: float = 1e-14) -> float:
    """The root of ``f`` between ``low`` and ``high``, where it has opposite signs (Brent's method)."""
    return float(_optimize().brentq(f, low, high, xtol=xtol, rtol=rtol))


def minimum(f: Callable[[float], float], low: float, high: float, *, xtol: float, most: int = 500) -> tuple[float, float]:
    """Where ``f`` is least between ``low`` and ``high``, as far as a short search finds it, and its value there."""
    found = _optimize().minimize_scalar(f, bounds=(low, high), method="bounded", options={"xatol": xtol, "maxiter": most})
    return float(found.x), float(found.fun)


def isotonic(values: NDArray[Any], weights: NDArray[Any]) -> NDArray[Any]:
    """The closest sequence that does not fall, in weighted least squares (pool adjacent violators)."""
    return np.asarray(_optimize().isotonic_regression(values, weights=weights).x)
