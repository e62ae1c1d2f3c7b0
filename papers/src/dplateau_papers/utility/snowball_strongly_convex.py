"""Snowball-SGD for strongly convex losses: growing batches, fixed steps, one pass, last iterate.

Source: Feldman, Koren, Talwar 2020, Theorem 5.4.
"""

from __future__ import annotations

import math

from dplateau.spec.arguments import integer, real
from dplateau.utility.snowball_batches import FIXED_STEPS, snowball_root, snowball_strongly_convex_step_size
from dplateau_papers.utility.checks import check_contraction


def snowball_strongly_convex_risk(
    steps: int, lipschitz: float, strong_convexity: float, *, smoothness: float | None = None
) -> float:
    """``E F(w_T) - F* <= (L^2/m) (2 ln T (2 + ln T) / T + 1 / (2 (T^2 - 1)))``. **Proved.**

    The theorem prints ``20 (L^2/m) ln(T)^2 / T``, which is more.

    Setting: T >= 2 noisy projected steps of one pass over ``snowball_batch_sizes(T, d, rho, 2)`` records each, of size
    ``2 ln(T) / (m T)``, with noise of standard deviation ``L / sqrt(d)`` a coordinate on the mean gradient. The last iterate has
    privacy rho, see ``snowball_batches``.

    Assumptions: records are independent draws of one distribution, losses are m-strongly convex and L-Lipschitz on the set. Privacy
    needs ``smoothness``, which is checked if it is given.

    Parameters
    ----------
    steps : int
        T.
    lipschitz, strong_convexity : float
        L and m.
    smoothness : float, optional
        M.

    Returns
    -------
    float
        The bound.

    Raises
    ------
    InputError
        The step size exceeds ``2/smoothness``.
    """
    check_contraction(snowball_strongly_convex_step_size(steps, strong_convexity), smoothness)
    scale, log = real("lipschitz", lipschitz) ** 2 / strong_convexity, math.log(steps)
    return scale * (2 * log * (2 + log) / steps + 1 / (2 * (steps**2 - 1)))


def snowball_strongly_convex_risk_of_records(n: int, d: int, rho: float, lipschitz: float, strong_convexity: float) -> float:
    """``20 (L^2/m) ln(n)^2 r^2``, r as in ``snowball_root``; ``r^2 <= 2 (1/n + 16 d/(rho^2 n^2))``. **Proved.**

    Setting and assumptions are those of ``snowball_strongly_convex_risk``, where the batches together have ``n`` records and there
    are at least two of them.

    Parameters
    ----------
    n, d : int
        Number of records and dimension.
    rho : float
        Privacy.
    lipschitz, strong_convexity : float
        L and m.

    Returns
    -------
    float
        The bound.
    """
    scale = real("lipschitz", lipschitz) ** 2 / real("strong_convexity", strong_convexity)
    return 20 * scale * (math.log(integer("n", n, low=2)) * snowball_root(n, d, rho, FIXED_STEPS)) ** 2
