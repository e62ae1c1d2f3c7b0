"""Fixed steps on a strongly convex function: a mean of the iterates with growing weights.

Source: Feldman, Koren, Talwar 2020, Lemma 5.2, with m/2 where m is printed and without its ``eta m <= 1/2``
(``docs/explanation/utility.md``).
"""

from __future__ import annotations

import numpy as np

from dplateau.spec.arguments import integer, real
from dplateau.spec.steps import Array
from dplateau.utility.fixed_step_strongly_convex import decay_rate, start_weight


def fixed_step_weights(steps: int, step_size: float, strong_convexity: float) -> Array:
    """Weights proportional to ``(1 - eta m)^-t``, t = 1, ..., T, that sum to one.

    Parameters
    ----------
    steps : int
        T.
    step_size : float
        eta.
    strong_convexity : float
        m, with ``eta m < 1``; 0 gives equal weights.

    Returns
    -------
    array of shape (T,)
        Weight of the point at which step t takes its gradient.
    """
    steps = integer("steps", steps)
    rate = decay_rate(step_size, strong_convexity)
    weights = np.exp(-rate * np.arange(steps - 1, -1, -1))
    return weights / weights.sum()


def fixed_step_risk(steps: int, step_size: float, gradient_norm: float, distance: float, strong_convexity: float = 0.0) -> float:
    """``E F(mean) - F(w) <= (m/2) D^2 / ((1 - eta m)^-T - 1) + eta G^2 / 2``. **Proved.**

    Without strong convexity, the limit: ``D^2 / (2 eta T) + eta G^2 / 2``.

    Setting: T projected stochastic gradient steps of size eta; the mean of the points at which gradients are taken, starting point
    included, with the weights of ``fixed_step_weights``.

    Assumptions: F is m-strongly convex, the second moment of a stochastic gradient is at most G^2, and the starting point has mean
    squared distance at most D^2 from w, any point of the set.

    Parameters
    ----------
    steps : int
        T.
    step_size : float
        eta.
    gradient_norm, distance : float
        G and D.
    strong_convexity : float, default 0.0
        m, with ``eta m < 1``.

    Returns
    -------
    float
        The bound.
    """
    squared = real("distance", distance, inclusive=True) ** 2
    noise = real("step_size", step_size) * real("gradient_norm", gradient_norm) ** 2 / 2
    return start_weight(steps, step_size, strong_convexity) * squared + noise
