"""Steps that are halved whenever half of what is left is done (Jain, Nagaraj, Netrapalli)."""

from __future__ import annotations

import math

from dplateau.spec.arguments import integer, real


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
