"""Roots of monotone functions of one variable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scipy import optimize

_brentq: Any = optimize.brentq


def root(f: Callable[[float], float], low: float, high: float, *, xtol: float = 1e-300, rtol: float = 1e-14) -> float:
    """The root of ``f`` between ``low`` and ``high``, where it has opposite signs (Brent's method)."""
    return float(_brentq(f, low, high, xtol=xtol, rtol=rtol))
