"""The last iterate of fixed steps (Shamir, Zhang)."""

from __future__ import annotations

import math

from dplateau.spec.arguments import integer, real


def shamir_zhang_step_size(steps: int, distance: float, gradient_norm: float) -> float:
    """``distance / (gradient_norm sqrt(T))``, the step size of the theorem."""
    return real("distance", distance) / (real("gradient_norm", gradient_norm) * math.sqrt(integer("steps", steps)))


def shamir_zhang_risk(steps: int, distance: float, gradient_norm: float) -> float:
    """``E F(w_T) - F* <= D G (2 + ln T) / sqrt(T)`` after T projected stochastic gradient steps of one size. **Proved.**

    Setting: F convex, steps of size ``shamir_zhang_step_size``, of which the last iterate is released.

    Assumptions: ``|w_0 - w*| <= distance`` (D); the second moment of a stochastic gradient is at most ``gradient_norm^2`` (G^2)
    everywhere. ``last_iterate_risk`` at the same steps is about ``D G (1.1 + ln(T)/4) / sqrt(T)``.

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

    Source: Shamir, Zhang 2013, as Theorem 3.2 of Feldman, Koren, Talwar 2020; proof with less: ``docs/explanation/utility.md``.
    """
    steps = integer("steps", steps)
    scale = real("distance", distance) * real("gradient_norm", gradient_norm)
    return scale * (2 + math.log(steps)) / math.sqrt(steps)
