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

from dplateau.spec.arguments import integer, real
from dplateau.utility.dp_sgld_settings import batch_of, curvatures, falling_count, fixed_count, radius_arguments


def langevin_renyi_steps(n: int, d: int, alpha: float, epsilon: float, smoothness: float, strong_convexity: float) -> int:
    """``K = (2 M/m) log A`` with ``A = epsilon n^2 / (alpha d)``, the steps of Theorem 4.1, rounded up, at least 1.

    Parameters
    ----------
    n, d : int
        Numbers of records and of weights.
    alpha, epsilon : float
        Order, above 1, and divergence.
    smoothness, strong_convexity : float
        M and m.

    Returns
    -------
    int
        K.
    """
    return fixed_count(renyi_signal(n, d, alpha, epsilon), *curvatures(smoothness, strong_convexity))


def langevin_renyi_steps_decaying(n: int, d: int, alpha: float, epsilon: float, smoothness: float, strong_convexity: float) -> int:
    """``K = max(M A/m, m A^2/M)`` with ``A = epsilon n^2 / (alpha d)``: Theorem 4.3, rounded up, at least 1.

    Parameters
    ----------
    n, d : int
        Numbers of records and of weights.
    alpha, epsilon : float
        Order, above 1, and divergence.
    smoothness, strong_convexity : float
        M and m.

    Returns
    -------
    int
        K.
    """
    return falling_count(renyi_signal(n, d, alpha, epsilon), *curvatures(smoothness, strong_convexity))


def langevin_radius(lipschitz: float, strong_convexity: float, loss_at_zero: float) -> float:
    """``min(sqrt(2 L(0)/m), L/m)``: a ball about 0 of this radius contains the minimiser of the regularised mean loss. **Proved.**

    Setting: the mean loss plus ``m |theta|^2 / 2``, over all of space. Assumptions: the losses are convex, L-Lipschitz and nowhere
    negative, and L(0) bounds their mean at 0 whatever the records are (log 2 for logistic losses).

    *Proof.* The objective at its minimiser t is at most that at 0, so ``m |t|^2 / 2 <= L(0)``; and its gradient vanishes, so
    ``m |t|`` is the norm of a gradient of the mean loss. ``regularised_radius`` is less.

    Parameters
    ----------
    lipschitz, strong_convexity, loss_at_zero : float
        As for ``dplateau.utility.dp_sgld_settings.regularised_radius``.

    Returns
    -------
    float
        The radius. Projecting on the ball does not move the minimiser.
    """
    lipschitz, convex, loss = radius_arguments(lipschitz, strong_convexity, loss_at_zero)
    return min(math.sqrt(2 * loss / convex), lipschitz / convex)


def langevin_start_distance(radius: float, d: int, noise: float, strong_convexity: float) -> float:
    """``sqrt(r^2 + min(r^2, 2 d s^2/m))``, for a start that is drawn from ``Pi N(0, (2 s^2/m) I)``. **Proved.**

    The root mean square of the distance to any point of the ball of radius r about 0. *Proof.* The start is symmetric about 0, so
    the mean square is that of its norm plus that of the point's; projection on the ball shortens the norm.

    Parameters
    ----------
    radius : float
        r.
    d : int
        Number of weights.
    noise : float
        s.
    strong_convexity : float
        m.

    Returns
    -------
    float
        The bound.
    """
    squared = real("radius", radius, inclusive=True) ** 2
    spread = 2 * integer("d", d) * real("noise", noise, inclusive=True) ** 2 / real("strong_convexity", strong_convexity)
    return math.sqrt(squared + min(squared, spread))


def gradient_variance(n: int, batch_size: int, lipschitz: float) -> float:
    """``L^2 (n - b)/(b (n - 1))``: variance of the mean gradient of a batch of b records, without replacement. **Proved.**

    It is (n - b)/(b (n - 1)) times the variance of one record's gradient, and that is at most L^2.

    Parameters
    ----------
    n, batch_size : int
        n and b.
    lipschitz : float
        L, without the l2 term, if every step takes that in full.

    Returns
    -------
    float
        The bound; 0 for full batches.

    Raises
    ------
    InputError
        The batch is larger than n.
    """
    n, batch_size = batch_of(n, batch_size)
    return real("lipschitz", lipschitz, inclusive=True) ** 2 * (n - batch_size) / (batch_size * max(n - 1, 1))


def renyi_signal(n: int, d: int, alpha: float, epsilon: float) -> float:
    """``A = epsilon n^2 / (alpha d)``: the bounds of Theorems 4.1 and 4.3 fall as 1/A."""
    return real("epsilon", epsilon) * integer("n", n) ** 2 / (real("alpha", alpha, low=1.0) * integer("d", d))
