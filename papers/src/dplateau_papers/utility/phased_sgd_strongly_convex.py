"""Phased-SGD for strongly convex losses: steps whose sizes fall doubly exponentially from phase to phase.

Source: Feldman, Koren, Talwar 2020, Theorem 5.3, which loses some factors; what is proved: ``docs/explanation/utility.md``.
"""

from __future__ import annotations

import math

from dplateau.spec import InputError
from dplateau.spec.arguments import integer, real
from dplateau_papers.utility.checks import check_contraction
from dplateau_papers.utility.localisation import Phases, localised_risk


def double_logarithm(n: int) -> int:
    """The least k >= 1 with ``2^(2^k) >= n``, that is ``ceil(log2 log2 n)``, for n >= 2."""
    bits = (integer("n", n, low=2) - 1).bit_length()  # ceil(log2 n)
    return max((bits - 1).bit_length(), 1)


def phased_sgd_strongly_convex_phases(
    n: int,
    rho: float,
    lipschitz: float,
    strong_convexity: float,
    *,
    c: float = 2.0,
    phases: int | None = None,
    noise_factor: float = 2.0,
    smoothness: float | None = None,
) -> Phases:
    """``n_i = floor(n/k)``, ``eta_i = 2^-(2^i) 4 c k ln(n) / (m n)``, ``sigma_i = noise_factor L eta_i / rho``.

    Parameters
    ----------
    n : int
        Number of records.
    rho : float
        Privacy: parameter of Gaussian differential privacy under replacement, if ``noise_factor`` is 2.
    lipschitz, strong_convexity : float
        L and m.
    c : float, default 2.0
        The first phase forgets its starting point up to ``n^-c``.
    phases : int, optional
        k; by default ``ceil(log2 log2 n)``: the paper's ``ln ln n`` are too few for its last term.
    noise_factor : float, default 2.0
        The sensitivity of a phase over ``L eta_i``. The paper prints 4, which is private with rho/2.
    smoothness : float, optional
        M: if given, steps are checked to be at most ``2/smoothness``, which the sensitivity rests on.

    Returns
    -------
    Phases
        Records, step sizes and noise.
    """
    number = double_logarithm(n) if phases is None else integer("phases", phases)
    n, slope, convexity = integer("n", n, low=2), real("lipschitz", lipschitz), real("strong_convexity", strong_convexity)
    if number > min(n, 9):
        raise InputError(f"phases is {number}: expected at most {min(n, 9)}; step sizes fall as 2^-(2^i).")
    eta = 4 * real("c", c) * number * math.log(n) / (convexity * n)
    if eta * convexity >= 4:
        raise InputError(f"n = {n} records are too few: the first step {eta / 4:g} must be below 1/strong_convexity. Take more.")
    sizes = [eta * 2.0 ** -(2**i) for i in range(1, number + 1)]
    check_contraction(sizes[0], smoothness)
    noise = [real("noise_factor", noise_factor) * slope * size / real("rho", rho) for size in sizes]
    return Phases((n // number,) * number, tuple(sizes), tuple(noise))


def phased_sgd_strongly_convex_risk(
    n: int,
    d: int,
    rho: float,
    lipschitz: float,
    strong_convexity: float,
    *,
    c: float = 2.0,
    phases: int | None = None,
    noise_factor: float = 2.0,
    smoothness: float | None = None,
    distance: float | None = None,
) -> float:
    """The sum of ``localised_risk`` for ``phased_sgd_strongly_convex_phases``. **Proved.**

    Setting: each phase is one pass of steps on single records, projected on the set, whose result is the mean of the points at
    which gradients are taken, with the weights of ``fixed_step_weights``. Noisy results are projected on the set.

    Assumptions: records are independent draws of one distribution, losses are m-strongly convex and L-Lipschitz on the set. Privacy
    needs ``smoothness``, which is checked if it is given.

    Parameters
    ----------
    n, rho, lipschitz, strong_convexity, c, phases, noise_factor, smoothness
        As in ``phased_sgd_strongly_convex_phases``.
    d : int
        Dimension.
    distance : float, optional
        Bound on the distance of the starting point from the minimiser, if it is less than ``L/m``, which always holds.

    Returns
    -------
    float
        The bound.
    """
    plan = phased_sgd_strongly_convex_phases(
        n, rho, lipschitz, strong_convexity, c=c, phases=phases, noise_factor=noise_factor, smoothness=smoothness
    )
    widest = lipschitz / strong_convexity
    start = widest if distance is None else min(real("distance", distance, inclusive=True), widest)
    return localised_risk(plan, d, lipschitz, start, strong_convexity=strong_convexity)


def printed_phased_sgd_strongly_convex_rate(n: int, d: int, rho: float, lipschitz: float, strong_convexity: float) -> float:
    """Not proved: ``(L^2/m) ln n ln ln n (1/n + d ln ln n/(rho^2 n^2))``, which Theorem 5.3 prints inside an O(.).

    It has no constant, and its proof gives one more factor of the number of phases on the second term.

    Parameters
    ----------
    n, d : int
        Number of records (at least 3) and dimension.
    rho, lipschitz, strong_convexity : float
        As in ``phased_sgd_strongly_convex_phases``.

    Returns
    -------
    float
        The printed rate.
    """
    n = integer("n", n, low=3)
    log = math.log(n)
    rate = 1 / n + integer("d", d) * math.log(log) / (real("rho", rho) * n) ** 2
    return real("lipschitz", lipschitz) ** 2 / real("strong_convexity", strong_convexity) * log * math.log(log) * rate
