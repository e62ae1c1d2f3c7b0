"""DP-SGLD with fixed steps: the risk of the last iterate.

Source: Ryffel, Bach, Pointcheval 2022, Lemmas 4.1 and 4.2, Theorems 4.1 and 4.2. Proofs: ``docs/explanation/dp-sgld.md``.
"""

from __future__ import annotations

import math
from typing import Final

from dplateau.spec import InputError
from dplateau.spec.arguments import integer, real
from dplateau.utility.dp_sgld_settings import EXTREME, curvatures

_ROUNDED: Final = 2.0**-51
"""A rate is a product of two numbers that are near 1 where it is: this bounds its rounding."""
SLACK: Final = 2.0**-50
"""What is left of 2, or of 1, after a product of a step and curvatures may be rounded by less than this."""
_UP: Final = 1 + 1e-12
"""More than all other rounding: exponents are below 746 in size where their exponentials are numbers."""


def langevin_risk(
    steps: int,
    step_size: float,
    noise: float,
    *,
    d: int,
    distance: float,
    smoothness: float,
    strong_convexity: float,
    variance: float = 0.0,
    gradient_at_minimiser: float = 0.0,
    convex_batches: bool = False,
) -> float:
    """``(M/2) V``, ``V = c^2K D^2 + (1 - c^2K)(N eta xi^2 + 2 d s^2)/(m (2 - eta m))``: risk of theta_K. **Proved.**

    It bounds E F(theta_K) - F(theta*), with ``c = 1 - eta m`` and ``N = 2 (1 - eta m)/(2 - eta (M + m))``, which is at most 4/3 up
    to ``eta = 1/(2 M)``; ``eta < 2/(M + m)``.

    Setting: K projected steps of size eta with gradients of batches; the iterate's noise is ``sqrt(2 eta) s`` in each coordinate.

    Assumptions: on the convex set of the iterates every batch's objective is m-strongly convex and M-smooth (under Poisson sampling
    see ``poisson_smoothness``), batches are drawn anew at each step, and their gradients are unbiased. Where the gradient of F at
    its minimiser theta* over the set is not zero (theta* lies on the boundary), the bound is ``G sqrt(V) + (M/2) V``.

    With ``convex_batches`` batches need only be convex, F itself is m-strongly convex, ``eta < 1/M``, and
    ``V = r^K D^2 + (1 - r^K)(eta xi^2 + d s^2)/(m (1 - eta M))`` with ``r = 1 - 2 eta m (1 - eta M)``.

    Parameters
    ----------
    steps : int
        K.
    step_size, noise : float
        eta and s.
    d : int
        Number of weights.
    distance : float
        D: bound on the root mean square of ``|theta_0 - theta*|``.
    smoothness, strong_convexity : float
        M and m.
    variance : float, default 0.0
        xi^2: variance of a batch's gradient at theta*; 0 for full batches.
    gradient_at_minimiser : float, default 0.0
        G: norm of the gradient of F at theta*.
    convex_batches : bool, default False
        See above.

    Returns
    -------
    float
        The bound.

    Raises
    ------
    InputError
        The step is too large, or strong convexity exceeds smoothness.

    Source: Ryffel, Bach, Pointcheval 2022, Lemma 4.1, improved.
    """
    steps, eta, s, d, start, smooth, convex = arguments(steps, step_size, noise, d, distance, smoothness, strong_convexity)
    room = (1 - eta * smooth if convex_batches else 2 - eta * (smooth + convex)) - SLACK
    if room <= 0:
        largest = 1 / smooth if convex_batches else 2 / (smooth + convex)
        name = "1/smoothness" if convex_batches else "2/(smoothness + strong_convexity)"
        raise InputError(f"step_size {eta:g} is not below {name} = {largest:g}: no bound holds. Lower step_size.")
    xi2 = real("variance", variance, inclusive=True, high=EXTREME)
    slope = real("gradient_at_minimiser", gradient_at_minimiser, inclusive=True, high=EXTREME)
    if convex_batches:
        rate, gain = 2 * eta * convex * room, 2.0
    else:
        rate, gain = contracted(eta, convex), batch_gain(eta, smooth, convex)
    return risk_of(after(steps, rate, gain * eta**2 * xi2 + 2 * eta * d * s**2, start), smooth, slope)


def batch_gain(step_size: float, smoothness: float, strong_convexity: float) -> float:
    """``2 (1 - eta m)/(2 - eta (M + m))``, rounded up: what eta^2 times the variance at the minimiser counts in V."""
    room = 2 - step_size * (smoothness + strong_convexity) - SLACK
    return 2 * (1 - step_size * strong_convexity + SLACK) / room


def arguments(
    steps: int, step_size: float, noise: float, d: int, distance: float, smoothness: float, strong_convexity: float
) -> tuple[int, float, float, int, float, float, float]:
    """The arguments of ``langevin_risk``, checked."""
    constants = curvatures(smoothness, strong_convexity)
    return (
        integer("steps", steps, low=0),
        real("step_size", step_size, low=1 / EXTREME, inclusive=True, high=EXTREME),
        real("noise", noise, inclusive=True, high=EXTREME),
        integer("d", d, high=1e100),
        real("distance", distance, inclusive=True, high=EXTREME),
        *constants,
    )


def contracted(eta: float, convex: float) -> float:
    """``1 - (1 - eta m)^2``."""
    return eta * convex * (2 - eta * convex)


def after(steps: int, rate: float, added: float, start: float) -> float:
    """Squared distance after steps that take the part ``rate`` of it away and then add ``added``.

    Little may be left where the rate is nearly 1, and its own rounding must not make less of that.
    """
    if not steps:
        return start**2
    left = steps * (math.log1p(-rate) if rate < 0.5 else math.log(1 - rate + _ROUNDED))
    return math.exp(left) * start**2 + added * (-math.expm1(left) / rate)


def risk_of(squared: float, smooth: float, slope: float) -> float:
    """``(M/2) V + G sqrt(V)``, rounded up."""
    return (smooth / 2 * squared + slope * math.sqrt(squared)) * _UP
