"""DP-SGLD with the steps ``1/(2 M + m k/2)``: the mean risk of the iterates, and that of the last one.

Source: Ryffel, Bach, Pointcheval 2022, Lemma 4.3, Theorems 4.3 and 4.4. Proofs: ``docs/explanation/dp-sgld.md``.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from dplateau.spec.arguments import integer, real
from dplateau.utility.dp_sgld_constant import arguments, batch_gain
from dplateau.utility.dp_sgld_settings import langevin_noise, langevin_renyi_noise, langevin_steps_decaying
from dplateau.utility.last_iterate import last_iterate_risk
from dplateau_papers.utility.dp_sgld_constant import check_moderate
from dplateau_papers.utility.dp_sgld_settings import langevin_renyi_steps_decaying, renyi_signal

_FEW: Final = 8
"""Up to so many steps the mean of the bounds on the single iterates is tried too."""
_LOOK_BACK: Final = 4**8
"""Most steps that are handed to ``last_iterate_risk``; any number gives a bound."""


def langevin_average_risk(
    steps: int,
    noise: float,
    *,
    d: int,
    distance: float,
    smoothness: float,
    strong_convexity: float,
    variance: float = 0.0,
    gradient_at_minimiser: float = 0.0,
    from_start: bool = False,
) -> float:
    """``(M D^2 + (xi^2/m) log(1 + J/a) + d s^2 (J + 2 log(1 + J/b)))/K``: mean risk of theta_1, ..., theta_K. **Proved.**

    ``J = K + 1``, ``a = 2 M/m - 1/2``, ``b = 4 M/m - 5/2``. With ``from_start`` the mean is that of theta_0, ..., theta_{K-1}, the
    points at which gradients are taken, and ``J = K``. By convexity the mean of the iterates themselves has no more risk (but
    privacy is proved for the last iterate only).

    Setting: K projected steps of sizes ``langevin_step_sizes`` with gradients of batches; the iterate's noise is
    ``sqrt(2 eta_k) s`` in each coordinate.

    Assumptions: every batch's objective is m-strongly convex and M-smooth on all of space (under Poisson sampling see
    ``poisson_smoothness``), batches are drawn anew at each step, and their gradients are unbiased. theta* minimises F over the
    convex set of the iterates; where the gradient of F does not vanish there, its squared norm G^2 is added to xi^2.

    Parameters
    ----------
    steps : int
        K.
    noise : float
        s.
    d : int
        Number of weights.
    distance : float
        D: bound on the root mean square of ``|theta_0 - theta*|``.
    smoothness, strong_convexity : float
        M and m.
    variance : float, default 0.0
        xi^2: variance of a batch's gradient at theta*; 0 for full batches.
    gradient_at_minimiser : float, default 0.0
        G.
    from_start : bool, default False
        Which mean.

    Returns
    -------
    float
        The bound; for few steps, the mean of ``(M/2) E|theta_k - theta*|^2`` where that is less.

    Raises
    ------
    InputError
        An argument is outside its range, or strong convexity exceeds smoothness.

    Source: Ryffel, Bach, Pointcheval 2022, Lemma 4.3, improved.
    """
    steps, s, d, start, smooth, convex = _checked(steps, noise, d, distance, smoothness, strong_convexity)
    xi2, slope = real("variance", variance, inclusive=True), real("gradient_at_minimiser", gradient_at_minimiser, inclusive=True)
    terms = steps if from_start else steps + 1
    batches = (xi2 + slope**2) / convex * math.log1p(terms / (2 * smooth / convex - 0.5))
    noises = d * s**2 * (terms + 2 * math.log1p(terms / (4 * smooth / convex - 2.5)))
    risk = (smooth * start**2 + batches + noises) / steps
    if steps <= _FEW and slope == 0:
        first = 0 if from_start else 1
        squared = [_squared_distance(k, s, d, start, smooth, convex, xi2) for k in range(first, first + steps)]
        risk = min(risk, smooth / 2 * math.fsum(squared) / steps)
    return risk


def printed_langevin_average_risk(
    steps: int, noise: float, *, d: int, distance: float, smoothness: float, strong_convexity: float, variance: float = 0.0
) -> float:
    """``2 M D^2/K + (4 xi^2/(m K)) log(1 + m K/(4 M)) + 2 d s^2``: Lemma 4.3 as printed. **True**, by another proof.

    The printed proof takes step k + 1 for step k and bounds the mean of theta_0, ..., theta_{K-1}; ``langevin_average_risk`` is
    less. xi^2 is the mean square of a batch's gradient at the minimiser.

    Parameters
    ----------
    steps, noise, d, distance, smoothness, strong_convexity, variance
        As for ``langevin_average_risk``.

    Returns
    -------
    float
        The printed value.
    """
    steps, s, d, start, smooth, convex = _checked(steps, noise, d, distance, smoothness, strong_convexity)
    batches = 4 * real("variance", variance, inclusive=True) / convex * math.log1p(convex * steps / (4 * smooth))
    return (2 * smooth * start**2 + batches) / steps + 2 * d * s**2


def langevin_last_iterate_risk(
    steps: int, noise: float, *, d: int, distance: float, smoothness: float, strong_convexity: float, variance: float = 0.0
) -> float:
    """Bound on E F(theta_K) - F(theta*) for the steps ``1/(2 M + m k/2)``, of which Theorem 4.4 speaks without proof. **Proved.**

    The lesser of ``(M/2) E|theta_K - theta*|^2``, which has the factor M/m in its noise term, and ``last_iterate_risk`` over the
    last steps from the distance that is proved before them, far less where M/m is large.

    Setting and assumptions are those of ``langevin_average_risk``, with a zero gradient at theta*, and with a bound on the variance
    of a batch's gradient wherever the iterates are (``gradient_variance`` is one).

    Parameters
    ----------
    steps, noise, d, distance, smoothness, strong_convexity
        As for ``langevin_average_risk``.
    variance : float, default 0.0
        See above.

    Returns
    -------
    float
        The bound.
    """
    steps, s, d, start, smooth, convex = _checked(steps, noise, d, distance, smoothness, strong_convexity)
    xi2, back = real("variance", variance, inclusive=True), 1
    risk = smooth / 2 * _squared_distance(steps, s, d, start, smooth, convex, xi2)
    while back <= min(steps, _LOOK_BACK):
        before = math.sqrt(_squared_distance(steps - back, s, d, start, smooth, convex, xi2))
        sizes = 1 / (2 * smooth + convex / 2 * np.arange(steps - back, steps, dtype=float))
        noises = xi2 + 2 * d * s**2 / sizes
        risk = min(risk, last_iterate_risk(sizes, noises, before, smoothness=smooth, strong_convexity=convex))
        back *= 4
    return risk


def langevin_renyi_average_risk(
    n: int,
    d: int,
    alpha: float,
    epsilon: float,
    *,
    lipschitz: float,
    smoothness: float,
    strong_convexity: float,
    variance: float = 0.0,
    distance: float | None = None,
) -> float:
    """Mean risk after Theorem 4.3's K steps with its noise: at most ``10 alpha d L^2/(epsilon m n^2)``. **Proved.**

    The closed form is for ``xi^2 <= L^2`` and the distance L/m; the value is that of ``langevin_average_risk``. The privacy that
    the noise is chosen for is proved for full batches, and for the last iterate, only.

    Parameters
    ----------
    n, d : int
        Numbers of records and of weights.
    alpha, epsilon : float
        Order and Renyi divergence.
    lipschitz : float
        L, of the losses without an l2 term.
    smoothness, strong_convexity : float
        M and m, with the l2 term.
    variance : float, default 0.0
        xi^2, of the batches' gradients at the minimiser.
    distance : float, optional
        Bound on ``|theta_0 - theta*|``, or on its root mean square; L/m if none is given, which without a ball asks that L be the
        constant of the losses with the l2 term.

    Returns
    -------
    float
        The bound, for a minimiser at which the gradient of F is zero.

    Source: Ryffel, Bach, Pointcheval 2022, Theorem 4.3, improved: its proof has 18.
    """
    steps = langevin_renyi_steps_decaying(n, d, alpha, epsilon, smoothness, strong_convexity)
    s = langevin_renyi_noise(n, alpha, epsilon, lipschitz, strong_convexity)
    return _chosen(steps, s, d, lipschitz, smoothness, strong_convexity, variance, distance)


def printed_langevin_renyi_average_risk(
    n: int, d: int, alpha: float, epsilon: float, *, lipschitz: float, strong_convexity: float
) -> float:
    """``18 alpha d L^2/(epsilon m n^2)``: Theorem 4.3 as its proof has it. **True** for a zero gradient at theta*.

    Parameters
    ----------
    n, d, alpha, epsilon, lipschitz, strong_convexity
        As for ``langevin_renyi_average_risk``.

    Returns
    -------
    float
        The printed value.
    """
    scale = real("lipschitz", lipschitz) ** 2 / real("strong_convexity", strong_convexity)
    return 18 * scale / renyi_signal(n, d, alpha, epsilon)


def langevin_private_average_risk(
    n: int,
    d: int,
    epsilon: float,
    delta: float,
    *,
    lipschitz: float,
    smoothness: float,
    strong_convexity: float,
    variance: float = 0.0,
    distance: float | None = None,
) -> float:
    """Mean risk after Theorem 4.4's K steps with its noise: at most ``72 d L^2 log(1/delta)/(eps^2 m n^2)``. **Proved.**

    The closed form is for ``epsilon <= 2 log(1/delta)``, ``xi^2 <= L^2`` and the distance L/m; the value is that of
    ``langevin_average_risk``. The theorem says it of theta_K: ``langevin_last_iterate_risk`` is what we prove of that.

    Parameters
    ----------
    n, d : int
        Numbers of records and of weights.
    epsilon, delta : float
        What the noise is chosen for; proved for full batches, and for the last iterate, only.
    lipschitz, smoothness, strong_convexity, variance, distance
        As for ``langevin_renyi_average_risk``.

    Returns
    -------
    float
        The bound, for a minimiser at which the gradient of F is zero.

    Source: Ryffel, Bach, Pointcheval 2022, Theorem 4.4, improved: its proof has 144.
    """
    steps = langevin_steps_decaying(n, d, epsilon, delta, smoothness, strong_convexity)
    s = langevin_noise(n, epsilon, delta, lipschitz, strong_convexity)
    return _chosen(steps, s, d, lipschitz, smoothness, strong_convexity, variance, distance)


def printed_langevin_private_average_risk(
    n: int, d: int, epsilon: float, delta: float, *, lipschitz: float, strong_convexity: float
) -> float:
    """``144 d L^2 log(1/delta)/(eps^2 m n^2)``: Theorem 4.4 as its proof has it. **True** of the mean, **unproved** of theta_K.

    Parameters
    ----------
    n, d, epsilon, delta, lipschitz, strong_convexity
        As for ``langevin_private_average_risk``; ``epsilon <= 2 log(1/delta)``.

    Returns
    -------
    float
        The printed value.
    """
    check_moderate(epsilon, delta)
    # 8 log(1/delta)/eps^2 in place of alpha/epsilon.
    scale = printed_langevin_renyi_average_risk(n, d, 2.0, 1.0, lipschitz=lipschitz, strong_convexity=strong_convexity) / 2
    return scale * 8 * -math.log(delta) / epsilon**2


def _squared_distance(steps: int, s: float, d: int, start: float, smooth: float, convex: float, xi2: float) -> float:
    """Bound on E|theta_K - theta*|^2: the recursion of ``langevin_risk``, its sums bounded by integrals (midpoints, convexity)."""
    if steps == 0:
        return start**2
    a = 4 * smooth / convex
    first, last = (a - 2) * (a - 1), (a + steps - 2) * (a + steps - 1)
    gain = batch_gain(1 / (2 * smooth), smooth, convex)
    batches = 4 * gain * xi2 / convex**2 * _power_gap(a - 1.5, steps, 3) / 3
    noises = 4 * d * s**2 / convex * _power_gap(a - 7 / 6, steps, 4) / 4
    return (first / last) ** 2 * start**2 + (batches + noises) / last**2


def _power_gap(base: float, steps: int, power: int) -> float:
    """``(base + steps)^power - base^power``."""
    return base**power * math.expm1(power * math.log1p(steps / base))


def _checked(
    steps: int, noise: float, d: int, distance: float, smoothness: float, strong_convexity: float
) -> tuple[int, float, int, float, float, float]:
    steps = integer("steps", steps)
    _, _, s, d, start, smooth, convex = arguments(steps, 1.0, noise, d, distance, smoothness, strong_convexity)
    return steps, s, d, start, smooth, convex


def _chosen(
    steps: int,
    s: float,
    d: int,
    lipschitz: float,
    smoothness: float,
    strong_convexity: float,
    variance: float,
    distance: float | None,
) -> float:
    reach = lipschitz / strong_convexity if distance is None else distance
    return langevin_average_risk(
        steps, s, d=d, distance=reach, smoothness=smoothness, strong_convexity=strong_convexity, variance=variance
    )
