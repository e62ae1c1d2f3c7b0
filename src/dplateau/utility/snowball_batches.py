"""Batches that grow towards the end, so that late records are as private as early ones.

``B_t = ceil(factor sqrt(d / (T - t + 1)) / rho)``, with noise of standard deviation ``L / sqrt(d)`` on the mean gradient: rho is
the parameter of Gaussian differential privacy of the last iterate under the replacement of a record. ``factor`` is 2 for fixed
steps and 4 sqrt(3) for the steps of ``jnn_step_sizes``.

Source: Feldman, Koren, Talwar 2020, Theorems 3.5, 3.6 and 5.4.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dplateau.spec import InputError
from dplateau.spec.arguments import integer, real

FIXED_STEPS: Final = 2.0
DECAYING_STEPS: Final = 4 * math.sqrt(3)


def _backwards(steps: int, d: int, rho: float, factor: float, least: int) -> NDArray[np.float64]:
    """Sizes of the last, second last, ... batch: they do not depend on T."""
    scale = real("factor", factor) * math.sqrt(integer("d", d)) / real("rho", rho)
    return np.maximum(np.ceil(scale / np.sqrt(np.arange(1, steps + 1))), integer("least", least))


def snowball_batch_sizes(steps: int, d: int, rho: float, factor: float = FIXED_STEPS, least: int = 1) -> NDArray[np.int64]:
    """The batch sizes ``B_1 <= ... <= B_T``.

    Parameters
    ----------
    steps : int
        T.
    d : int
        Dimension.
    rho : float
        Privacy, see above.
    factor : float, default 2.0
        2 or 4 sqrt(3), see above.
    least : int, default 1
        Smaller batches are raised to this size; epsilon stays the same.

    Returns
    -------
    array of int, shape (T,)
        Batch sizes; their sum is at most ``T least + 2 factor sqrt(d T) / rho``.
    """
    sizes = _backwards(integer("steps", steps), d, rho, factor, least)
    if sizes[0] > 2**53:
        raise InputError(f"rho {rho:g} asks for batches of more than 2^53 records. Raise rho.")
    return sizes[::-1].astype(np.int64)


def snowball_steps(n: int, d: int, rho: float, factor: float = FIXED_STEPS, least: int = 1) -> int:
    """The largest T whose batches need at most ``n`` records; raises ``InputError`` if even one step needs more."""
    n, least = integer("n", n), integer("least", least)
    steps = int(np.searchsorted(np.cumsum(_backwards(n // least + 1, d, rho, factor, least)), n, side="right"))
    if not steps:
        raise InputError(
            f"n = {n} records are fewer than the last batch needs at rho = {rho:g}: take more, raise epsilon, or change the solver."
        )
    return steps


def snowball_root(n: int, d: int, rho: float, factor: float = FIXED_STEPS) -> float:
    """Bound on ``1/sqrt(T)`` where the T batches have n records in all: from ``n <= T + b sqrt(T)``, ``b = 2 factor sqrt(d)/rho``.

    It is ``(b + sqrt(b^2 + 4 n)) / (2 n) <= 1/sqrt(n) + b/n``.
    """
    b = 2 * real("factor", factor) * math.sqrt(integer("d", d)) / real("rho", rho)
    n = integer("n", n)
    return (b + math.sqrt(b * b + 4 * n)) / (2 * n)


def snowball_strongly_convex_step_size(steps: int, strong_convexity: float) -> float:
    """``2 ln(T) / (m T)``, the step size of the theorem; at least two steps."""
    steps = integer("steps", steps, low=2)
    return 2 * math.log(steps) / (real("strong_convexity", strong_convexity) * steps)
