"""DP-SGLD with fixed steps: the risk of the last iterate.

Source: Ryffel, Bach, Pointcheval 2022, Lemmas 4.1 and 4.2, Theorems 4.1 and 4.2. Proofs: ``docs/explanation/dp-sgld.md``.
"""

from __future__ import annotations

import math

from dplateau.spec import InputError
from dplateau.spec.arguments import real
from dplateau.utility.dp_sgld_constant import arguments, langevin_risk
from dplateau.utility.dp_sgld_settings import langevin_noise, langevin_renyi_noise, langevin_steps, renyi_order
from dplateau_papers.utility.dp_sgld_settings import langevin_renyi_steps, renyi_signal


def printed_langevin_risk(
    steps: int,
    step_size: float,
    noise: float,
    *,
    d: int,
    distance: float,
    smoothness: float,
    strong_convexity: float,
    variance: float = 0.0,
) -> float:
    """``(M/2) D^2 exp(-m eta K) + M eta xi^2/(2 m) + M d s^2/m``: Lemma 4.1 as printed. **True, where its setting is completed.**

    Its proof's recursion is false (one step can exceed it by 14 %), but ``langevin_risk`` is less for every step up to
    ``1/(2 M)``. A minimiser on the boundary, which the statement allows, refutes it: ``F = (theta + 1)^2/2`` on [0, 1], by a factor
    of 2.9.

    Parameters
    ----------
    steps, step_size, noise, d, distance, smoothness, strong_convexity, variance
        As for ``langevin_risk``.

    Returns
    -------
    float
        The printed value.
    """
    steps, eta, s, d, start, smooth, convex = arguments(steps, step_size, noise, d, distance, smoothness, strong_convexity)
    batches = eta * real("variance", variance, inclusive=True) / 2
    return smooth / 2 * start**2 * math.exp(-convex * eta * steps) + smooth / convex * (batches + d * s**2)


def langevin_lipschitz_risk(
    steps: int,
    step_size: float,
    noise: float,
    *,
    d: int,
    lipschitz: float,
    smoothness: float,
    strong_convexity: float,
    variance: float = 0.0,
) -> float:
    """``langevin_risk`` with ``D = L/m``, and at most ``L^2/(2 m)``, for a minimiser at which the gradient is zero. **Proved.**

    If F is L-Lipschitz and m-strongly convex on the set, no point is further than L/m from the minimiser, and no risk larger than
    ``L^2/(2 m)``. With an l2 term L is the constant of the *regularised* loss on the set, at most that of the losses plus m times
    the radius; where a radius is known, ``langevin_risk`` with a distance is better.

    Parameters
    ----------
    steps, step_size, noise, d, smoothness, strong_convexity, variance
        As for ``langevin_risk``.
    lipschitz : float
        L.

    Returns
    -------
    float
        The bound.

    Source: Ryffel, Bach, Pointcheval 2022, Lemma 4.2, improved: it has ``D = 2 L/m``.
    """
    slope, convex = real("lipschitz", lipschitz), real("strong_convexity", strong_convexity)
    risk = langevin_risk(
        steps, step_size, noise, d=d, distance=slope / convex, smoothness=smoothness, strong_convexity=convex, variance=variance
    )
    return min(slope**2 / (2 * convex), risk)


def printed_langevin_lipschitz_risk(
    steps: int,
    step_size: float,
    noise: float,
    *,
    d: int,
    lipschitz: float,
    smoothness: float,
    strong_convexity: float,
    variance: float = 0.0,
) -> float:
    """``(2 M L^2/m^2) exp(-m eta K) + M eta xi^2/(2 m) + M d s^2/m``: Lemma 4.2 as printed. **True** for a zero gradient at theta*.

    Parameters
    ----------
    steps, step_size, noise, d, lipschitz, smoothness, strong_convexity, variance
        As for ``langevin_lipschitz_risk``.

    Returns
    -------
    float
        The printed value.
    """
    across = 2 * real("lipschitz", lipschitz) / real("strong_convexity", strong_convexity)
    return printed_langevin_risk(
        steps, step_size, noise, d=d, distance=across, smoothness=smoothness, strong_convexity=strong_convexity, variance=variance
    )


def langevin_renyi_risk(
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
    """Risk after Theorem 4.1's K steps of ``1/(2 M)``: at most ``(19/6) M L^2/(m^2 A) + 0.69 xi^2/(4 m)``. **Proved.**

    ``A = epsilon n^2/(alpha d)``; the closed form is for the distance L/m, the value is that of ``langevin_risk`` itself. The
    privacy that the noise is chosen for is proved for full batches only.

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

    Source: Ryffel, Bach, Pointcheval 2022, Theorem 4.1, improved.
    """
    steps = langevin_renyi_steps(n, d, alpha, epsilon, smoothness, strong_convexity)
    s = langevin_renyi_noise(n, alpha, epsilon, lipschitz, strong_convexity)
    return _chosen(steps, s, d, lipschitz, smoothness, strong_convexity, variance, distance)


def printed_langevin_renyi_risk(
    n: int,
    d: int,
    alpha: float,
    epsilon: float,
    *,
    lipschitz: float,
    smoothness: float,
    strong_convexity: float,
    variance: float = 0.0,
) -> float:
    """``6 alpha M d L^2/(epsilon m^2 n^2) + xi^2/(4 m)``: Theorem 4.1 as printed. **True** for a zero gradient at theta*.

    Parameters
    ----------
    n, d, alpha, epsilon, lipschitz, smoothness, strong_convexity, variance
        As for ``langevin_renyi_risk``.

    Returns
    -------
    float
        The printed value.
    """
    convex, slope = real("strong_convexity", strong_convexity), real("lipschitz", lipschitz)
    scale = real("smoothness", smoothness) * slope**2 / convex**2
    return 6 * scale / renyi_signal(n, d, alpha, epsilon) + real("variance", variance, inclusive=True) / (4 * convex)


def langevin_private_risk(
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
    """Risk after Theorem 4.2's steps: at most ``(70/3) M d L^2 log(1/delta)/(eps m n)^2 + 0.69 xi^2/(4 m)``. **Proved.**

    The closed form is for ``epsilon <= 2 log(1/delta)`` and the distance L/m, the value is that of ``langevin_risk`` itself.

    Parameters
    ----------
    n, d : int
        Numbers of records and of weights.
    epsilon, delta : float
        What the noise is chosen for; proved for full batches only.
    lipschitz, smoothness, strong_convexity, variance, distance
        As for ``langevin_renyi_risk``.

    Returns
    -------
    float
        The bound, for a minimiser at which the gradient of F is zero.

    Source: Ryffel, Bach, Pointcheval 2022, Theorem 4.2, improved.
    """
    steps = langevin_steps(n, d, epsilon, delta, smoothness, strong_convexity)
    s = langevin_noise(n, epsilon, delta, lipschitz, strong_convexity)
    return _chosen(steps, s, d, lipschitz, smoothness, strong_convexity, variance, distance)


def printed_langevin_private_risk(
    n: int,
    d: int,
    epsilon: float,
    delta: float,
    *,
    lipschitz: float,
    smoothness: float,
    strong_convexity: float,
    variance: float = 0.0,
) -> float:
    """``48 M d L^2 log(1/delta)/(eps m n)^2 + xi^2/(4 m)``: as Theorem 4.2's proof has it. **True** for a zero gradient.

    Parameters
    ----------
    n, d, epsilon, delta, lipschitz, smoothness, strong_convexity, variance
        As for ``langevin_private_risk``; ``epsilon <= 2 log(1/delta)``.

    Returns
    -------
    float
        The printed value.
    """
    check_moderate(epsilon, delta)
    setting = {"lipschitz": lipschitz, "smoothness": smoothness, "strong_convexity": strong_convexity}
    # 8 log(1/delta)/eps^2 in place of alpha/epsilon.
    scale = printed_langevin_renyi_risk(n, d, 2.0, 1.0, **setting) / 2
    batches = real("variance", variance, inclusive=True) / (4 * strong_convexity)
    return scale * 8 * -math.log(delta) / epsilon**2 + batches


def check_moderate(epsilon: float, delta: float) -> None:
    """Raise unless ``epsilon <= 2 log(1/delta)``, a condition of Theorems 4.2 and 4.4."""
    if renyi_order(epsilon, delta) < 2:
        raise InputError(
            f"epsilon {epsilon:g} exceeds 2 log(1/delta) = {-2 * math.log(delta):g}: the theorem does not say anything there. "
            "Take a smaller epsilon or delta."
        )


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
    eta, reach = 1 / (2 * smoothness), lipschitz / strong_convexity if distance is None else distance
    risk = langevin_risk(
        steps, eta, s, d=d, distance=reach, smoothness=smoothness, strong_convexity=strong_convexity, variance=variance
    )
    return risk if distance is not None else min(risk, lipschitz**2 / (2 * strong_convexity))
