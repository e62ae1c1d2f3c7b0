"""AdaGrad-norm, ``b_t^2 = b_{t-1}^2 + max(|gradient|^2, nu)``, from exact and from noisy gradients: the mean squared gradient.

Source: Wu, Wang, Cristali, Gu, Willett 2021, Theorem D.1 and Propositions 5.2 and D.2, after Ward, Wu, Bottou 2019; the bound for
noisy gradients is ours. Proofs: ``docs/explanation/adp-sgd.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dplateau.spec import InputError
from dplateau.spec.arguments import integer, real, vector
from dplateau.spec.steps import Array


def adagrad_stationarity(
    noise: Sequence[float] | Array,
    *,
    b0: float,
    floor: float,
    d: int,
    gap: float,
    smoothness: float,
    gradient_norm: float,
    step_size: float = 1.0,
) -> float:
    """Bounds ``E |grad F|^2`` of the best iterate where b_t is computed from gradients **without** noise. **Proved.**

    No privacy: the steps show the raw gradients, whatever noise there is (``docs/errata.md``). The bound is

    ``(gap/eta + (G + eta M)/2 log(1 + T G^2/b_0^2) + eta M d/2 sum s_t^2/(b_0^2 + t nu)) / sum 1/(2 sqrt(b_0^2 + t G^2))``.

    Setting: T steps ``w - eta/b_t (g_t + s_t N(0, I))`` with ``b_t^2 = b_{t-1}^2 + max(|g_t|^2, nu)``, s_t fixed in advance.

    Assumptions: as for ``adp_sgd_stationarity``, and ``|g_t| <= G`` for certain.

    Parameters
    ----------
    noise : array of shape (T,)
        s_t: standard deviation of the noise on the mean gradient.
    b0 : float
        b_0.
    floor : float
        nu, at most G^2.
    d : int
        Number of weights.
    gap, smoothness, gradient_norm : float
        F at the start minus its infimum, M and G.
    step_size : float, default 1.0
        eta.

    Returns
    -------
    float
        The bound.

    Raises
    ------
    InputError
        ``floor`` exceeds G^2.

    Source: Wu et al. 2021, Theorem D.1, its proof repaired.
    """
    s, norm, eta = vector("noise", noise, inclusive=True), real("gradient_norm", gradient_norm), real("step_size", step_size)
    b0, floor, smooth = real("b0", b0), real("floor", floor), real("smoothness", smoothness)
    if floor > norm**2:
        raise InputError(f"floor {floor:g} exceeds the squared gradient_norm {norm**2:g}: lower it.")
    t = np.arange(1.0, s.size + 1)
    total = real("gap", gap, inclusive=True) / eta + (norm + eta * smooth) / 2 * math.log1p(s.size * (norm / b0) ** 2)
    total += eta * smooth * integer("d", d) / 2 * float(np.sum(s**2 / (b0**2 + t * floor)))
    return total / float(np.sum(0.5 / np.sqrt(b0**2 + t * norm**2)))


def noisy_adagrad_stationarity(
    noise: Sequence[float] | Array,
    *,
    b0: float,
    floor: float,
    d: int,
    gap: float,
    smoothness: float,
    gradient_norm: float,
    step_size: float = 1.0,
) -> float:
    """Bounds ``(E |grad F|^(4/3))^(3/2)`` of the best iterate where b_t is computed from the **noisy** gradients. **Proved.**

    With ``V_t^2 = G^2 + nu + d s_t^2`` and C the largest ``V_t - max(sqrt(nu), s_t d/sqrt(d + 2))``, the bound is

    ``(gap/eta + (C + eta M/2) log(1 + sum V_t^2/b_0^2)) / sum_t 1/(2 sqrt(b_0^2 + V_1^2 + ... + V_t^2))``.

    Setting: T steps ``w - eta/b_t h_t``, ``h_t = g_t + s_t N(0, I)``, ``b_t^2 = b_{t-1}^2 + max(|h_t|^2, nu)``, s_t fixed in
    advance. All that is computed from the noisy gradients costs no more privacy than they do.

    Assumptions: as for ``adp_sgd_stationarity``, with a second moment of at most G^2.

    Parameters
    ----------
    noise : array of shape (T,)
        s_t: standard deviation of the noise on the mean gradient.
    b0 : float
        b_0.
    floor : float
        nu.
    d : int
        Number of weights.
    gap, smoothness, gradient_norm : float
        F at the start minus its infimum, M and G.
    step_size : float, default 1.0
        eta.

    Returns
    -------
    float
        The bound.
    """
    s, norm, eta = vector("noise", noise, inclusive=True), real("gradient_norm", gradient_norm), real("step_size", step_size)
    b0, floor, d = real("b0", b0), real("floor", floor), integer("d", d)
    squares = norm**2 + floor + d * s**2
    excess = float(np.max(np.sqrt(squares) - np.maximum(math.sqrt(floor), s * d / math.sqrt(d + 2))))
    sums = b0**2 + np.cumsum(squares)
    total = real("gap", gap, inclusive=True) / eta
    total += (excess + eta * real("smoothness", smoothness) / 2) * math.log(float(sums[-1]) / b0**2)
    return total / float(np.sum(0.5 / np.sqrt(sums)))


def printed_adagrad_stationarity(
    steps: int,
    *,
    b0: float,
    floor: float,
    n: int,
    epsilon: float,
    delta: float,
    d: int,
    gap: float,
    smoothness: float,
    gradient_norm: float,
    step_size: float = 1.0,
    adapted: bool = True,
) -> float:
    """Proposition 5.2 as printed. **Not proved**: its last term is an eighth of that of Proposition D.2, which the proof gives.

    b_t is computed from raw gradients, so the (epsilon, delta) that the noise is chosen for are not met.

    Parameters
    ----------
    steps : int
        T.
    b0, floor : float
        b_0 and nu.
    n : int
        Number of records; one is drawn a step.
    epsilon, delta : float
        What the noise is chosen for.
    d : int
        Number of weights.
    gap, smoothness, gradient_norm : float
        D_F, L and G.
    step_size : float, default 1.0
        eta.
    adapted : bool, default True
        Whether ``alpha_t = (b_0^2 + t C)^(1/4)``; else 1.

    Returns
    -------
    float
        The printed value.
    """
    steps, norm = integer("steps", steps), real("gradient_norm", gradient_norm)
    logs = 1 + math.log1p(steps * (norm**2 + floor**2) / b0**2)
    optimisation = 2 * norm * (2 * norm + step_size * smoothness / 2) * logs + 2 * norm * gap / step_size
    budget = math.log(16 * steps / (n * delta)) * math.log(1.25 / delta) / (n * epsilon) ** 2
    noise = norm**3 * step_size * d * smoothness * budget * math.sqrt(steps) / floor
    return optimisation / math.sqrt(steps - 1) + noise * (128 if adapted else 32 * math.log1p(steps * floor / b0**2))
