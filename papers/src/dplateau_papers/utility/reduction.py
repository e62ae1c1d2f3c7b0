"""Strongly convex losses by an algorithm for convex ones, run again and again from its own result on ever more records.

Source: Feldman, Koren, Talwar 2020, Theorem 5.1; its constant 8 is not proved, see ``docs/explanation/utility.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dplateau.spec import InputError
from dplateau.spec.arguments import integer, real
from dplateau_papers.utility.phased_sgd_strongly_convex import double_logarithm


def reduction_counts(n: int) -> tuple[int, ...]:
    """Records of the runs: ``ceil(2^(i-2) n / log2 n)`` for i = 1, ..., k, ``k = ceil(log2 log2 n)``; at most n together."""
    n = integer("n", n, low=2)
    log = math.log2(n)
    counts = tuple(math.ceil(2.0 ** (i - 2) * n / log) for i in range(1, double_logarithm(n) + 1))
    if sum(counts) > n:
        raise InputError(f"n = {n} records are too few for runs of {counts}: take more.")
    return counts


def reduction_risk(
    risk: Callable[[int, float], float], n: int, lipschitz: float, strong_convexity: float, *, distance: float | None = None
) -> float:
    """The bound after the last of ``reduction_counts(n)`` runs, each from the last one's result. **Proved.**

    After a run with bound Delta its result is within ``sqrt(2 Delta / m)`` of the minimiser, in mean square; the next run's bound
    is ``risk(its records, that distance)``. Runs use disjoint records, so together they are as private as each.

    Setting: any algorithm whose guarantee ``E F - F* <= risk(n, distance)`` needs only that the *mean square* of its starting
    point's distance is at most ``distance^2``; all of this package's are of this kind.

    Assumptions: F is m-strongly convex and L-Lipschitz on the set, in which every result lies (project it).

    Parameters
    ----------
    risk : callable
        ``risk(n, distance)``, the algorithm's guarantee.
    n : int
        Number of records.
    lipschitz, strong_convexity : float
        L and m.
    distance : float, optional
        Bound on the distance of the first starting point, if it is less than ``L/m``, which always holds.

    Returns
    -------
    float
        The bound.

    Examples
    --------
    >>> from dplateau_papers.utility import phased_sgd_risk
    >>> bound = reduction_risk(lambda n, distance: phased_sgd_risk(n, 10, 1.0, 1.0, distance), 10**6, 1.0, 0.1)
    >>> bound < phased_sgd_risk(10**6, 10, 1.0, 1.0, 10.0)
    True
    """
    convexity = real("strong_convexity", strong_convexity)
    reach = real("lipschitz", lipschitz) / convexity
    if distance is not None:
        reach = min(reach, real("distance", distance))
    bound = math.inf
    for count in reduction_counts(n):
        bound = real("risk(n, distance)", risk(count, reach))
        reach = math.sqrt(2 * bound / convexity)
    return bound


def reduction_closed_form(n: int, d: int, rho: float, lipschitz: float, strong_convexity: float, constant: float = 1.0) -> float:
    """``128 c^2 (L^2/m) (1/n + 4 d / (rho^2 n^2))`` if ``risk(n, D) <= c L D (1/sqrt(n) + sqrt(d)/(rho n))``. **Proved.**

    It bounds ``reduction_risk``, whose setting and assumptions it shares; c is at least 1.

    Parameters
    ----------
    n, d : int
        Number of records and dimension.
    rho : float
        Privacy.
    lipschitz, strong_convexity : float
        L and m.
    constant : float, default 1.0
        c.

    Returns
    -------
    float
        The bound.
    """
    n = integer("n", n, low=2)
    scale = real("lipschitz", lipschitz) ** 2 / real("strong_convexity", strong_convexity)
    factor = real("constant", constant, low=1.0, inclusive=True) ** 2
    return 128 * factor * scale * (1 / n + 4 * integer("d", d) / (real("rho", rho) * n) ** 2)


def printed_reduction_risk(n: int, d: int, rho: float, lipschitz: float, strong_convexity: float, constant: float = 1.0) -> float:
    """Not proved: ``8 c^2 (L^2/m) (1/n + d / (rho^2 n^2))``, as the proof of Theorem 5.1 prints it; use ``reduction_closed_form``.

    Parameters
    ----------
    n, d, rho, lipschitz, strong_convexity, constant
        As in ``reduction_closed_form``.

    Returns
    -------
    float
        The printed value.
    """
    n = integer("n", n, low=2)
    scale = 8 * real("constant", constant) ** 2 * real("lipschitz", lipschitz) ** 2 / real("strong_convexity", strong_convexity)
    return scale * (1 / n + integer("d", d) / (real("rho", rho) * n) ** 2)
