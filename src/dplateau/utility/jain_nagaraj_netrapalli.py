"""Steps that are halved whenever half of what is left is done (Jain, Nagaraj, Netrapalli)."""

from __future__ import annotations

import math

import numpy as np

from dplateau.spec.schedule import integer, real
from dplateau.utility.checks import Array


def jnn_step_sizes(steps: int, c: float) -> Array:
    """``c 2^-i / sqrt(T)`` for ``T_i < t <= T_{i+1}``, where ``T_i = T - ceil(T 2^-i)``, and T after ``T_i`` for ``2^i >= T``.

    Parameters
    ----------
    steps : int
        T.
    c : float
        Distance over gradient norm in the theorem.

    Returns
    -------
    array of shape (T,)
        Step sizes; they never rise.

    Source: Feldman, Koren, Talwar 2020, Definition 3.3.
    """
    steps, c = integer("steps", steps), real("c", c)
    halvings = (steps - 1).bit_length()  # ceil(log2 T), in whole numbers
    ends = [steps - -(-steps >> i) for i in range(halvings + 1)] + [steps]
    sizes = [c / math.sqrt(steps) * 0.5**i for i in range(halvings + 1)]
    return np.repeat(np.array(sizes), np.diff(ends))


def jnn_risk(steps: int, distance: float, gradient_norm: float) -> float:
    """``E F(w_T) - F* <= 15 D G / sqrt(T)`` after T steps of sizes ``jnn_step_sizes(T, D / G)``. **Proved.**

    Setting: projected stochastic gradient steps on a convex F, of which the last iterate is released.

    Assumptions: ``|w_0 - w*| <= distance`` (D); the second moment of a stochastic gradient is at most ``gradient_norm^2`` (G^2)
    everywhere. ``last_iterate_risk`` at the same steps is about ``1.1 D G / sqrt(T)``.

    Parameters
    ----------
    steps : int
        T.
    distance, gradient_norm : float
        D and G.

    Returns
    -------
    float
        The bound.

    Source: Jain, Nagaraj, Netrapalli 2019, as Theorem 3.4 of Feldman, Koren, Talwar 2020; proof with 4 for 15:
    ``docs/explanation/utility.md``.
    """
    steps = integer("steps", steps)
    return 15 * real("distance", distance) * real("gradient_norm", gradient_norm) / math.sqrt(steps)
