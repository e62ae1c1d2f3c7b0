"""Phased-ERM: localisation by regularised empirical minimisers, for losses that need not be smooth.

Source: Feldman, Koren, Talwar 2020, Algorithm 3, Lemma 4.7 and Theorem 4.8; sensitivity and noise differ, see
``docs/explanation/utility.md``.
"""

from __future__ import annotations

import math

from dplateau.spec.arguments import integer, real
from dplateau_papers.utility.localisation import Phases, halving_phases, localised_risk


def phased_erm_sensitivity(step_size: float, lipschitz: float, accuracy: float = 0.0) -> float:
    """``(1 + 2 a) L eta``: how far the replacement of one record can move the result of a phase. **Proved.**

    Setting: the result is a point of the set whose objective, the mean loss plus ``|w - start|^2 / (eta n)``, is within
    ``a^2 L^2 eta / n`` of its minimum.

    Parameters
    ----------
    step_size, lipschitz : float
        eta and L.
    accuracy : float, default 0.0
        a: the result lies within ``a L eta`` of the minimiser.

    Returns
    -------
    float
        The sensitivity.
    """
    wide = 1 + 2 * real("accuracy", accuracy, inclusive=True)
    return wide * real("lipschitz", lipschitz) * real("step_size", step_size)


def phased_erm_phases(
    n: int, d: int, rho: float, lipschitz: float, distance: float, *, phases: int | None = None, accuracy: float = 1.0
) -> Phases:
    """``n_i = floor(n/2^i)``, ``eta_i = 4^-i (D/L) min(4/sqrt(n), rho/sqrt(d))``, ``sigma_i = (1 + 2 accuracy) L eta_i / rho``.

    Parameters
    ----------
    n, d : int
        Number of records (at least 2) and dimension.
    rho : float
        Privacy: parameter of Gaussian differential privacy under replacement.
    lipschitz, distance : float
        L, and D that bounds the distance of the starting point from the minimiser.
    phases : int, optional
        k; by default ``ceil(log2(n)/2)``.
    accuracy : float, default 1.0
        See ``phased_erm_sensitivity``; 1 is the paper's accuracy ``L^2 eta_i / n_i``, reached with certainty.

    Returns
    -------
    Phases
        Records, step sizes and noise.
    """
    return halving_phases(n, d, rho, lipschitz, distance, phased_erm_sensitivity(1.0, 1.0, accuracy), phases)


def phased_erm_risk(
    n: int, d: int, rho: float, lipschitz: float, distance: float, *, phases: int | None = None, accuracy: float = 1.0
) -> float:
    """The sum of ``localised_risk`` for ``phased_erm_phases``, with A = 1 and C = 1 + accuracy. **Proved.**

    For n a power of 4 and ``accuracy`` 1 it is at most ``D L (14/(3 sqrt(n)) + 80 sqrt(d)/(rho n) + 3/n)``.

    Setting: each phase minimises, over the set, the mean loss of its records plus ``|w - start|^2 / (eta_i n_i)``. Noisy results
    are projected on the set.

    Assumptions: records are independent draws of one distribution, losses are convex and L-Lipschitz, the starting point has mean
    squared distance at most D^2 from the minimiser. No smoothness is needed.

    Parameters
    ----------
    n, d, rho, lipschitz, distance, phases, accuracy
        As in ``phased_erm_phases``.

    Returns
    -------
    float
        The bound.
    """
    plan = phased_erm_phases(n, d, rho, lipschitz, distance, phases=phases, accuracy=accuracy)
    return localised_risk(plan, d, lipschitz, distance, start_factor=1.0, step_factor=1 + float(accuracy))


def printed_phased_erm_rate(n: int, d: int, epsilon: float, delta: float, lipschitz: float, distance: float) -> float:
    """Not proved: ``L D (1/sqrt(n) + sqrt(d ln(1/delta))/(epsilon n))``, which Theorem 4.8 prints inside an O(.).

    It has no constant, and its noise is too small for (epsilon, delta); use ``phased_erm_risk``.

    Parameters
    ----------
    n, d : int
        Number of records and dimension.
    epsilon, delta : float
        What the algorithm is said to cost.
    lipschitz, distance : float
        L and D.

    Returns
    -------
    float
        The printed rate.
    """
    n = integer("n", n)
    logarithm = -math.log(real("delta", delta, high=1.0))
    rate = 1 / math.sqrt(n) + math.sqrt(integer("d", d) * logarithm) / (real("epsilon", epsilon) * n)
    return real("lipschitz", lipschitz) * real("distance", distance) * rate
