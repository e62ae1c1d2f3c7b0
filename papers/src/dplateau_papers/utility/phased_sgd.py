"""Phased-SGD: localisation by passes of projected gradient steps.

Source: Feldman, Koren, Talwar 2020, Algorithm 2, Lemma 4.5 and Theorem 4.4. Its constant 10 is not proved; what is:
``docs/explanation/utility.md``.
"""

from __future__ import annotations

import math

from dplateau.spec.arguments import integer, real
from dplateau_papers.utility.checks import check_contraction
from dplateau_papers.utility.localisation import Phases, halving_phases, localised_risk


def phased_sgd_phases(
    n: int,
    d: int,
    rho: float,
    lipschitz: float,
    distance: float,
    *,
    phases: int | None = None,
    noise_factor: float = 2.0,
    smoothness: float | None = None,
) -> Phases:
    """``n_i = floor(n/2^i)``, ``eta_i = 4^-i (D/L) min(4/sqrt(n), rho/sqrt(d))``, ``sigma_i = noise_factor L eta_i / rho``.

    Parameters
    ----------
    n, d : int
        Number of records (at least 2) and dimension.
    rho : float
        Privacy: parameter of Gaussian differential privacy under replacement, if ``noise_factor`` is 2.
    lipschitz, distance : float
        L, and D that bounds the distance of the starting point from the minimiser.
    phases : int, optional
        k; by default ``ceil(log2(n)/2)``. The paper's ``ceil(log2 n)`` would leave its last phase without a record.
    noise_factor : float, default 2.0
        The sensitivity of a phase over ``L eta_i``. The paper prints 4, which is private with rho/2.
    smoothness : float, optional
        M: if given, steps are checked to be at most ``2/smoothness``, which the sensitivity rests on.

    Returns
    -------
    Phases
        Records, step sizes and noise.
    """
    found = halving_phases(n, d, rho, lipschitz, distance, noise_factor, phases)
    check_contraction(found.step_sizes[0], smoothness)
    return found


def phased_sgd_risk(
    n: int,
    d: int,
    rho: float,
    lipschitz: float,
    distance: float,
    *,
    phases: int | None = None,
    noise_factor: float = 2.0,
    smoothness: float | None = None,
) -> float:
    """The sum of ``localised_risk`` for ``phased_sgd_phases``. **Proved.**

    For n a power of 4 it is at most ``D L (5/(3 sqrt(n)) + 20 sqrt(d)/(rho n) + 2/n)``; with ``noise_factor`` 4 the constants are
    5/3, 68 and 4.

    Setting: each phase is one pass of steps on single records, projected on the set, whose result is the mean of the points at
    which gradients are taken. Noisy results are projected on the set.

    Assumptions: records are independent draws of one distribution, losses are convex and L-Lipschitz, the starting point has mean
    squared distance at most D^2 from the minimiser. Privacy needs ``smoothness``, which is checked if it is given.

    Parameters
    ----------
    n, d, rho, lipschitz, distance, phases, noise_factor, smoothness
        As in ``phased_sgd_phases``.

    Returns
    -------
    float
        The bound.
    """
    plan = phased_sgd_phases(n, d, rho, lipschitz, distance, phases=phases, noise_factor=noise_factor, smoothness=smoothness)
    return localised_risk(plan, d, lipschitz, distance)


def printed_phased_sgd_risk(n: int, d: int, rho: float, lipschitz: float, distance: float) -> float:
    """Not proved: ``10 L D (1/sqrt(n) + sqrt(d)/(rho n))``, as Theorem 4.4 prints it.

    Its proof takes ``16 (4^-i D)^2`` for ``(4^-i D)^2`` and ``2 L D / sqrt(n)`` for ``L D / (2 sqrt(n))``; use ``phased_sgd_risk``.

    Parameters
    ----------
    n, d, rho, lipschitz, distance
        As in ``phased_sgd_phases``.

    Returns
    -------
    float
        The printed value.
    """
    n = integer("n", n)
    rate = 1 / math.sqrt(n) + math.sqrt(integer("d", d)) / (real("rho", rho) * n)
    return 10 * real("lipschitz", lipschitz) * real("distance", distance) * rate
