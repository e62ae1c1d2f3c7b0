"""What would fit where a run does not: more noise, or fewer steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from dplateau.filter import cost_of
from dplateau.spec import InputError, Run
from dplateau.spec.schedule import constant, is_constant, scaled

_MOST: Final = 2.0**20
"""More times the noise is not advice."""
_CLOSE: Final = 1.001


def what_fits(run: Run, order: float | None, fits: Callable[[float], bool], *, own: bool = False) -> str:
    """A sentence on what the budget would cover; empty where nothing was found.

    Parameters
    ----------
    run : Run
        What it does not cover.
    order : float or None
        Of the Renyi divergence; None for squared mu.
    fits : callable
        Whether the budget covers such a cost.
    own : bool
        Whether these are the last steps of a larger run: other noise, or fewer of them, are then a run of their own.
    """
    options = [found for found in (_noise(run, order, fits), _steps(run, order, fits)) if found]
    what = ", reserved as a run of its own that starts there" if own else ""
    return f"What would fit{what}: {', or '.join(options)}." if options else ""


def _noise(run: Run, order: float | None, fits: Callable[[float], bool]) -> str | None:
    def louder(times: float) -> bool:
        return fits(cost_of(run.replace(noise_multiplier=scaled(run.noise_multiplier, times)), order))

    low, high = 1.0, 2.0
    while not louder(high):
        low, high = high, 2 * high
        if high > _MOST:
            return None
    while high / low > _CLOSE:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if louder(middle) else (middle, high)
    if not is_constant(run.noise_multiplier):
        times = _rounded_up(high)
        return f"{times:g} times its noise" if louder(times) else None
    z = _rounded_up(high * constant(run.noise_multiplier))
    return f"noise_multiplier {z:g}" if fits(cost_of(run.replace(noise_multiplier=z), order)) else None


def _steps(run: Run, order: float | None, fits: Callable[[float], bool]) -> str | None:
    low, high = 0, run.steps
    try:
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(cost_of(run.part(0, middle), order)) else (low, middle)
    except InputError:
        return None
    return f"the first {low:,} of its {run.steps:,} steps" if low else None


def _rounded_up(value: float) -> float:
    """Four digits."""
    digits = 3 - math.floor(math.log10(value))
    return math.ceil(value * 10**digits) / 10**digits
