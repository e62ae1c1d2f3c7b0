"""Snowball-SGD with halving steps: growing batches, one pass, last iterate, no logarithm.

Source: Feldman, Koren, Talwar 2020, Theorem 3.6, whose number of records is misprinted (``docs/explanation/utility.md``).
"""

from __future__ import annotations

import math

from dplateau.spec.arguments import integer, real
from dplateau.utility.snowball_batches import DECAYING_STEPS, snowball_root
from dplateau_papers.utility.checks import check_contraction
from dplateau_papers.utility.jain_nagaraj_netrapalli import jnn_risk


def snowball_decaying_risk(steps: int, lipschitz: float, distance: float, *, smoothness: float | None = None) -> float:
    """``E F(w_T) - F* <= 15 sqrt(2) D L / sqrt(T)``. **Proved.**

    Setting: T noisy projected steps of one pass over ``snowball_batch_sizes(T, d, rho, 4 sqrt(3))`` records each, of sizes
    ``jnn_step_sizes(T, D / (sqrt(2) L))``, with noise of standard deviation ``L / sqrt(d)`` a coordinate on the mean gradient. The
    last iterate has privacy rho, see ``snowball_batches``.

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
        The first step exceeds ``2/smoothness``.
    """
    norm, steps = math.sqrt(2) * real("lipschitz", lipschitz), integer("steps", steps)
    check_contraction(real("distance", distance) / norm / math.sqrt(steps), smoothness)
    return jnn_risk(steps, distance, norm)


def snowball_decaying_risk_of_records(
    n: int, d: int, rho: float, lipschitz: float, distance: float, *, smoothness: float | None = None
) -> float:
    """``15 sqrt(2) D L r``, r as in ``snowball_root``, at most ``1/sqrt(n) + 8 sqrt(3 d)/(rho n)``. **Proved.**

    Setting and assumptions are those of ``snowball_decaying_risk``, where the batches together have ``n`` records.

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
    root = snowball_root(n, d, rho, DECAYING_STEPS)
    scale, reach = math.sqrt(2) * real("lipschitz", lipschitz), real("distance", distance)
    check_contraction(reach / scale * min(root, 1.0), smoothness)
    return 15 * scale * reach * root
