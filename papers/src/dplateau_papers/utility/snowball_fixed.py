"""Snowball-SGD with fixed steps: growing batches, one pass, last iterate.

Source: Feldman, Koren, Talwar 2020, Theorem 3.5, with sqrt(2) where sqrt(8) is printed (``docs/explanation/utility.md``).
"""

from __future__ import annotations

import math

from dplateau.spec.arguments import integer, real
from dplateau.utility.snowball_batches import FIXED_STEPS, snowball_root
from dplateau_papers.utility.checks import check_contraction
from dplateau_papers.utility.shamir_zhang import shamir_zhang_risk, shamir_zhang_step_size


def snowball_fixed_risk(steps: int, lipschitz: float, distance: float, *, smoothness: float | None = None) -> float:
    """``E F(w_T) - F* <= sqrt(2) D L (2 + ln T) / sqrt(T)``. **Proved.**

    Setting: T noisy projected steps of one pass over ``snowball_batch_sizes(T, d, rho, 2)`` records each, of size
    ``D / (L sqrt(2 T))``, with noise of standard deviation ``L / sqrt(d)`` a coordinate on the mean gradient. The last iterate has
    privacy rho, see ``snowball_batches``.

    Assumptions: records are independent draws of one distribution, losses are convex and L-Lipschitz, ``|w_0 - w*| <= distance``
    (D). Privacy needs ``smoothness``, which is checked if it is given.

    Parameters
    ----------
    steps : int
        T.
    lipschitz, distance : float
        L and D.
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
    norm = math.sqrt(2) * real("lipschitz", lipschitz)
    check_contraction(shamir_zhang_step_size(steps, distance, norm), smoothness)
    return shamir_zhang_risk(steps, distance, norm)


def snowball_fixed_risk_of_records(
    n: int, d: int, rho: float, lipschitz: float, distance: float, *, smoothness: float | None = None
) -> float:
    """``sqrt(2) D L (2 + ln n) r``, r as in ``snowball_root``, at most ``1/sqrt(n) + 4 sqrt(d)/(rho n)``. **Proved.**

    Setting and assumptions are those of ``snowball_fixed_risk``, where the batches together have ``n`` records.

    Parameters
    ----------
    n, d : int
        Number of records and dimension.
    rho : float
        Privacy.
    lipschitz, distance : float
        L and D.
    smoothness : float, optional
        M.

    Returns
    -------
    float
        The bound.
    """
    root = snowball_root(n, d, rho, FIXED_STEPS)
    scale, reach = math.sqrt(2) * real("lipschitz", lipschitz), real("distance", distance)
    check_contraction(reach / scale * min(root, 1.0), smoothness)
    return scale * reach * (2 + math.log(integer("n", n))) * root
