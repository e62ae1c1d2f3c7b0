"""What DP-SGLD is run with: its noise, numbers of steps, step sizes and radius, and the variance of its gradients.

The iterate of step k gets noise of standard deviation ``sqrt(2 eta_k) s`` in each coordinate; s is what the functions here call
noise. The paper proves privacy for full batches (``docs/proofs/langevin.md``); for minibatches its claim is refuted, so what a run
costs is certified from its ``Run``, never from these formulas.

Which Lipschitz constant: with an l2 term ``m |theta|^2 / 2`` that every step takes in full, both the noise and the variance need
that of the losses *without* it, since the term cancels when two records or two batches are compared. The regularised loss itself is
``(L + m r)``-Lipschitz on a ball of radius r; that constant is wanted only where a distance is bounded by Lipschitz over
convexity, and a ball's own radius bounds distances better.

Source: Ryffel, Bach, Pointcheval 2022, Theorems 4.1 to 4.4 and section 3.3.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from dplateau.spec import InputError
from dplateau.spec.arguments import integer, real
from dplateau.spec.steps import Array

EXTREME: Final = 1e100
"""Products of a few numbers between its inverse and it are numbers."""


def langevin_noise(n: int, epsilon: float, delta: float, lipschitz: float, strong_convexity: float) -> float:
    """``s = sqrt(8 L^2 (eps + 2 log(1/delta)) / (m n^2 eps^2))``, the noise of Theorems 4.2 and 4.4.

    With full batches and steps below 1/smoothness every number of steps is (epsilon, delta)-private under replacement. **Proved.**
    An exact calibration of the same run needs less.

    Parameters
    ----------
    n : int
        Number of records.
    epsilon, delta : float
        What the noise is chosen for, delta below 1.
    lipschitz : float
        L, without the l2 term.
    strong_convexity : float
        m.

    Returns
    -------
    float
        s, not squared.
    """
    order = renyi_order(epsilon, delta)
    return langevin_renyi_noise(n, order, float(epsilon) / 2, lipschitz, strong_convexity)


def langevin_renyi_noise(n: int, alpha: float, epsilon: float, lipschitz: float, strong_convexity: float) -> float:
    """``s = sqrt(4 alpha L^2 / (epsilon m n^2))``, the noise of Theorems 4.1 and 4.3.

    With full batches and steps below 1/smoothness the Renyi divergence of order alpha under replacement is at most epsilon after
    any number of steps. **Proved.**

    Parameters
    ----------
    n : int
        Number of records.
    alpha, epsilon : float
        Order, above 1, and divergence.
    lipschitz : float
        L, without the l2 term.
    strong_convexity : float
        m.

    Returns
    -------
    float
        s, not squared.
    """
    order, divergence = real("alpha", alpha, low=1.0), real("epsilon", epsilon, low=1 / EXTREME, inclusive=True)
    convex = real("strong_convexity", strong_convexity, low=1 / EXTREME, inclusive=True)
    return math.sqrt(4 * order / (divergence * convex)) * real("lipschitz", lipschitz) / integer("n", n)


def renyi_order(epsilon: float, delta: float) -> float:
    """``1 + 2 log(1/delta)/epsilon``, the order at which a Renyi divergence of epsilon/2 is (epsilon, delta)-private."""
    return 1 + 2 * _log(delta) / real("epsilon", epsilon)


def langevin_steps(n: int, d: int, epsilon: float, delta: float, smoothness: float, strong_convexity: float) -> int:
    """``K = (2 M/m) log A`` with ``A = eps^2 n^2 / (4 d log(1/delta))``, the steps of Theorem 4.2, rounded up, at least 1.

    Parameters
    ----------
    n, d : int
        Numbers of records and of weights.
    epsilon, delta : float
        What the noise is chosen for; the theorem has ``epsilon <= 2 log(1/delta)``.
    smoothness, strong_convexity : float
        M and m; steps are of size ``1/(2 M)``.

    Returns
    -------
    int
        K.
    """
    return fixed_count(_signal(n, d, epsilon, delta), *curvatures(smoothness, strong_convexity))


def langevin_steps_decaying(n: int, d: int, epsilon: float, delta: float, smoothness: float, strong_convexity: float) -> int:
    """``K = max(M A/m, m A^2/M)`` with ``A = eps^2 n^2 / (4 d log(1/delta))``: Theorem 4.4, rounded up, at least 1.

    Parameters
    ----------
    n, d : int
        Numbers of records and of weights.
    epsilon, delta : float
        What the noise is chosen for; the theorem has ``epsilon <= 2 log(1/delta)``.
    smoothness, strong_convexity : float
        M and m; the step sizes are ``langevin_step_sizes``.

    Returns
    -------
    int
        K.
    """
    return falling_count(_signal(n, d, epsilon, delta), *curvatures(smoothness, strong_convexity))


def langevin_step_sizes(steps: int, smoothness: float, strong_convexity: float) -> Array:
    """``eta_k = 1/(2 M + m k/2)``, k = 0, ..., K - 1.

    Parameters
    ----------
    steps : int
        K.
    smoothness, strong_convexity : float
        M and m.

    Returns
    -------
    array of shape (K,)
        The step sizes, in the order in which they are taken.
    """
    smooth, convex = curvatures(smoothness, strong_convexity)
    return 1 / (2 * smooth + convex / 2 * np.arange(integer("steps", steps)))


def regularised_radius(lipschitz: float, strong_convexity: float, loss_at_zero: float) -> float:
    """``min(sqrt(L(0)/m), L/m)``: the least ball about 0 that contains the minimiser of the mean loss with an l2 term. **Proved.**

    Assumptions: the losses are convex, L-Lipschitz and nowhere negative, and L(0) bounds their mean at 0 whatever the records are.

    *Proof.* The objective is m-strongly convex, so at 0 it exceeds its minimum by at least ``m |t|^2 / 2``, and the minimum is at
    least ``m |t|^2 / 2``: together ``m |t|^2 <= L(0)``. The loss ``max(0, L(0) - g theta)`` with ``g = min(L, sqrt(m L(0)))`` has
    its regularised minimiser at g/m, which is this radius.

    Parameters
    ----------
    lipschitz : float
        L, without the l2 term.
    strong_convexity : float
        m, the coefficient of ``|theta|^2 / 2``.
    loss_at_zero : float
        L(0).

    Returns
    -------
    float
        The radius.
    """
    lipschitz, convex, loss = radius_arguments(lipschitz, strong_convexity, loss_at_zero)
    return min(math.sqrt(loss / convex), lipschitz / convex)


def poisson_gradient_variance(n: int, batch_size: int, lipschitz: float) -> float:
    """``L^2 (1 - q)/b`` with q = b/n: variance of the sum of a Poisson batch's gradients over the public b. **Proved.**

    It is (1 - q)/b times the mean square of the records' gradients: each of the n records is in the batch with probability q, and
    counts ``q (1 - q) |gradient|^2 / b^2``.

    Parameters
    ----------
    n, batch_size : int
        n and the expected size b.
    lipschitz : float
        L, without the l2 term, which every step must take in full.

    Returns
    -------
    float
        The bound.

    Raises
    ------
    InputError
        The batch is larger than n.
    """
    n, batch_size = batch_of(n, batch_size)
    return real("lipschitz", lipschitz, inclusive=True, high=EXTREME) ** 2 * (1 - batch_size / n) / batch_size


def poisson_smoothness(n: int, batch_size: int, smoothness: float, strong_convexity: float) -> float:
    """``m + (M - m)(1 + (1 - q)/b)``, the M that the bounds on minibatches need under Poisson sampling. **Proved.**

    A batch may have more than b records, so its sum over b is not M-smooth. What the proofs use is the mean square of the
    difference of two gradients, and that is at most ``1 + (1 - q)/b`` times what M-smooth batches have.

    Parameters
    ----------
    n, batch_size : int
        n and the expected size b.
    smoothness : float
        M of each loss with the l2 term.
    strong_convexity : float
        m, the coefficient of the l2 term, which every step takes in full.

    Returns
    -------
    float
        The M to pass on.
    """
    n, batch_size = batch_of(n, batch_size)
    smooth, convex = curvatures(smoothness, strong_convexity)
    return convex + (smooth - convex) * (1 + (1 - batch_size / n) / batch_size)


def _signal(n: int, d: int, epsilon: float, delta: float) -> float:
    scaled = real("epsilon", epsilon) * integer("n", n)
    return scaled * scaled / (4 * integer("d", d) * _log(delta))


def _log(delta: float) -> float:
    logarithm = -math.log(real("delta", delta, high=1.0))
    if logarithm == 0:
        raise InputError("delta is 1: expected a number below 1. Nothing is private at delta = 1.")
    return logarithm


def curvatures(smoothness: float, strong_convexity: float) -> tuple[float, float]:
    """The two constants, checked."""
    smooth, convex = (
        real(name, value, low=1 / EXTREME, inclusive=True, high=EXTREME)
        for name, value in (("smoothness", smoothness), ("strong_convexity", strong_convexity))
    )
    if convex > smooth:
        raise InputError(f"strong_convexity {convex:g} exceeds smoothness {smooth:g}: no function has both. Check both constants.")
    return smooth, convex


def fixed_count(signal: float, smooth: float, convex: float) -> int:
    """The least number of constant steps."""
    return _whole(2 * smooth / convex * math.log(signal)) if signal > 1 else 1


def falling_count(signal: float, smooth: float, convex: float) -> int:
    """The least number of decaying steps."""
    return _whole(max(smooth / convex * signal, convex / smooth * signal * signal))


def _whole(steps: float) -> int:
    if not steps < 1e18:
        raise InputError(f"the theorem asks for {steps:g} steps. Take fewer records, a smaller epsilon or a larger l2 term.")
    return math.ceil(max(1.0, steps))


def batch_of(n: int, batch_size: int) -> tuple[int, int]:
    """Records and batch size, checked."""
    n, batch_size = integer("n", n), integer("batch_size", batch_size)
    if batch_size > n:
        raise InputError(f"batch_size {batch_size} exceeds n = {n}: a batch holds no record twice. Lower batch_size.")
    return n, batch_size


def radius_arguments(lipschitz: float, strong_convexity: float, loss_at_zero: float) -> tuple[float, float, float]:
    """The arguments of the radii, checked."""
    return (
        real("lipschitz", lipschitz),
        real("strong_convexity", strong_convexity),
        real("loss_at_zero", loss_at_zero, inclusive=True),
    )
