"""Step sizes that fall linearly to zero: the last iterate is as good as the mean of the iterates."""

from __future__ import annotations

import math

import numpy as np

from dplateau.spec.arguments import integer, real
from dplateau.spec.steps import Array


def linear_decay_step_sizes(steps: int, c: float) -> Array:
    """``c (T + 1 - t) / (T + 1)^(3/2)`` for t = 1, ..., T.

    Parameters
    ----------
    steps : int
        T.
    c : float
        Distance over gradient norm.

    Returns
    -------
    array of shape (T,)
        Step sizes.
    """
    steps, c = integer("steps", steps), real("c", c)
    return c * np.arange(steps, 0, -1, dtype=float) / (steps + 1) ** 1.5


def linear_decay_risk(steps: int, distance: float, gradient_norm: float) -> float:
    """``E F(x_{T+1}) - F* <= distance gradient_norm / sqrt(T + 1)``. **Proved.**

    Setting: projected stochastic gradient steps of sizes ``linear_decay_step_sizes(steps, distance / gradient_norm)``, F convex.

    Assumptions: ``|x_1 - x*| <= distance``; the second moment of a stochastic gradient is at most ``gradient_norm^2`` everywhere.

    Parameters
    ----------
    steps : int
        T.
    distance, gradient_norm : float
        See above.

    Returns
    -------
    float
        The bound.

    Source: Zamani, Glineur 2023, for subgradients; the sum in closed form is in ``docs/explanation/utility.md``.
    """
    steps = integer("steps", steps)
    return real("distance", distance) * real("gradient_norm", gradient_norm) / math.sqrt(steps + 1)
