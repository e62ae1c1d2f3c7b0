"""DP-SGLD with full batches and fixed steps: the risk of the last iterate, for steps up to 2/smoothness.

Source: ours, in place of a remark of Ryffel, Bach, Pointcheval 2022 (section 4.1) on Chourasia, Ye, Shokri 2021, Theorem 4, whose
steps are at most ``m/(2 M^2)``. Proof: ``docs/explanation/dp-sgld.md``.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from dplateau.spec import InputError
from dplateau.spec.arguments import real
from dplateau.utility.dp_sgld_constant import SLACK, after, arguments, contracted, risk_of
from dplateau.utility.last_iterate import last_iterate_risk

_LOOK_BACK: Final = 4**8
"""Most steps that are handed to ``last_iterate_risk``; any number gives a bound."""


def langevin_full_batch_risk(
    steps: int,
    step_size: float,
    noise: float,
    *,
    d: int,
    distance: float,
    smoothness: float,
    strong_convexity: float,
    gradient_at_minimiser: float = 0.0,
) -> float:
    """``(M/2)(c^2K D^2 + 2 eta d s^2 (1 - c^2K)/(1 - c^2))``, ``c = max(1 - eta m, eta M - 1)``, for any ``eta < 2/M``. **Proved.**

    Setting and assumptions: ``langevin_risk``, full batches; only F itself need be m-strongly convex and M-smooth. Up to
    ``eta = 1/M``, for a minimiser of zero gradient, ``last_iterate_risk`` over the last J steps, from the distance that is proved
    before them, is a second bound, far less where M/m is large; the least is returned. It needs F to be M-smooth on all of space,
    as losses of linear models are.

    Parameters
    ----------
    steps, step_size, noise, d, distance, smoothness, strong_convexity, gradient_at_minimiser
        As for ``langevin_risk``.

    Returns
    -------
    float
        The bound.

    Raises
    ------
    InputError
        The step is too large, or strong convexity exceeds smoothness.

    Source: ours; a remark in Ryffel, Bach, Pointcheval 2022 has ``eta <= 1/(2 M)``.
    """
    steps, eta, s, d, start, smooth, convex = arguments(steps, step_size, noise, d, distance, smoothness, strong_convexity)
    room = 2 - eta * smooth - SLACK
    if room <= 0:
        raise InputError(f"step_size {eta:g} is not below 2/smoothness = {2 / smooth:g}: no bound holds. Lower step_size.")
    slope = real("gradient_at_minimiser", gradient_at_minimiser, inclusive=True)
    overshoot = eta * smooth - 1
    rate = min(contracted(eta, convex), room * eta * smooth) if overshoot > 0 else contracted(eta, convex)
    added = 2 * eta * d * s**2
    risk = risk_of(after(steps, rate, added, start), smooth, slope)
    if slope > 0 or overshoot > 0 or s == 0:
        return risk
    back = 1
    while back <= min(steps, _LOOK_BACK):
        before = math.sqrt(after(steps - back, rate, added, start))
        sizes = np.full(back, eta)
        risk = min(risk, last_iterate_risk(sizes, 2 * d * s**2 / eta, before, smoothness=smooth, strong_convexity=convex))
        back *= 4
    return risk
