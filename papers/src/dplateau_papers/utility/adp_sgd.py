"""SGD with any falling steps and any noise, on smooth losses that need not be convex: the mean squared gradient.

Source: Wu, Wang, Cristali, Gu, Willett 2021, Theorems 4.2 and C.2, whose bounds are misprinted (``docs/explanation/adp-sgd.md``),
and Proposition A.1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dplateau.algorithms.noise_allocation import printed_sigma
from dplateau.spec import InputError, Run
from dplateau.spec.arguments import integer, real, vector
from dplateau.spec.steps import Array


def adp_sgd_stationarity(
    step_sizes: Sequence[float] | Array,
    noise: float | Sequence[float] | Array,
    *,
    d: int,
    gap: float,
    smoothness: float,
    gradient_norm: float | None = None,
    variance: float | Sequence[float] | Array | None = None,
) -> float:
    """``min_t E |grad F(w_t)|^2 <= (gap + M/2 sum eta_t^2 (G^2 + d s_t^2)) / sum eta_t``. **Proved.**

    Setting: T steps ``w - eta_t (g_t + s_t N(0, I))``, with eta_t and s_t fixed in advance; w_t are the iterates from which steps
    are taken.

    Assumptions: F is M-smooth, at most ``gap`` above its infimum at the start; given the past, g_t has mean grad F and a second
    moment of at most G^2, or a variance of at most V_t. With a variance and ``M eta_t < 2`` the bound is
    ``(gap + M/2 sum eta_t^2 (V_t + d s_t^2)) / sum eta_t (1 - M eta_t / 2)``; where both are known the smaller one counts. Each of
    the two also bounds the mean over the iterates with weights in proportion to the terms of its divisor.

    Parameters
    ----------
    step_sizes : array of shape (T,)
        eta_t.
    noise : float or array of shape (T,)
        s_t: standard deviation, in each coordinate, of the noise on the mean gradient.
    d : int
        Number of weights.
    gap : float
        F at the start minus its infimum, or more.
    smoothness : float
        M.
    gradient_norm : float, optional
        G.
    variance : float or array of shape (T,), optional
        V_t.

    Returns
    -------
    float
        The bound.

    Raises
    ------
    InputError
        Neither ``gradient_norm`` nor ``variance`` is given, or neither gives a bound; lengths differ.

    Source: Wu et al. 2021, Theorem C.2, for the noise that is used in place of their (18).

    Examples
    --------
    >>> round(adp_sgd_stationarity([0.1] * 100, 0.02, d=50, gap=0.7, smoothness=0.25, gradient_norm=1.0), 5)
    0.08275
    """
    eta, d = vector("step_sizes", step_sizes), integer("d", d)
    gap, smoothness = real("gap", gap, inclusive=True), real("smoothness", smoothness)
    blur = d * _each("noise", noise, eta.size) ** 2
    found: list[float] = []
    if gradient_norm is not None:
        counted = eta**2 @ (real("gradient_norm", gradient_norm) ** 2 + blur)
        found.append((gap + smoothness / 2 * float(counted)) / float(eta.sum()))
    if variance is not None and smoothness * eta.max() < 2:
        counted = eta**2 @ (_each("variance", variance, eta.size) + blur)
        found.append((gap + smoothness / 2 * float(counted)) / float(eta @ (1 - smoothness * eta / 2)))
    if not found:
        raise InputError("no bound holds: give gradient_norm, or variance with steps below 2/smoothness.")
    return min(found)


def _each(name: str, value: float | Sequence[float] | Array, steps: int) -> Array:
    values = vector(name, value, inclusive=True)
    if values.size not in (1, steps):
        raise InputError(f"{name} has {values.size} entries for {steps} steps: give one entry a step, or one number.")
    return np.broadcast_to(values, (steps,))


def adp_sgd_stationarity_of(run: Run, *, d: int, gap: float) -> float:
    """``adp_sgd_stationarity`` of a run of plain steps, with its own noise. **Proved.**

    Random batches give a variance of at most ``L^2 (1 - b/n) / b`` (Poisson) or ``L^2 (n - b) / (b (n - 1))`` (fixed size), with L
    the run's ``clip_norm``; the second moment is at most L^2, plus that variance under Poisson sampling.

    Assumptions: no gradient is longer than ``clip_norm``, so that clipping changes none; what ``l2`` adds is not clipped. F is the
    mean loss of the run's n records, with the l2 term.

    Parameters
    ----------
    run : Run
        With ``step_size`` and ``smoothness``, and Poisson, fixed-size or full-batch sampling.
    d : int
        Number of weights.
    gap : float
        F at the start minus its infimum, or more.

    Returns
    -------
    float
        The bound.

    Raises
    ------
    InputError
        The run has no ``step_size`` or ``smoothness``, other sampling or updates, or projects.
    """
    if run.step_size is None or run.smoothness is None:
        raise InputError("the run has no step_size or no smoothness: the bound needs both.")
    if run.update != "sgd" or run.diameter is not None:
        raise InputError("the bound is for plain steps without momentum, averaging or projection: use another run.")
    steps, square = run.table.written(), run.clip_norm**2
    sizes = steps.size
    poisson = run.sampling.drawn and run.sampling.random_size
    if poisson:
        variance = square * (1 - sizes / run.n) / sizes
    elif run.sampling.drawn:
        variance = square * (run.n - sizes) / (sizes * max(run.n - 1, 1))
    elif run.is_full_batch:
        variance = np.zeros(run.steps)
    else:
        raise InputError(f"under {run.sampling.kind} sampling gradients are not unbiased: use Poisson, FixedSize or FullBatch.")
    drawn = float(variance.max()) if poisson else 0.0
    return adp_sgd_stationarity(
        steps.step_size,
        steps.noise * run.clip_norm / sizes,
        d=d,
        gap=gap,
        smoothness=run.smoothness,
        gradient_norm=None if run.l2 else math.sqrt(square + drawn),
        variance=variance,
    )


def printed_adp_sgd_stationarity(
    b: Sequence[float] | Array,
    alpha: Sequence[float] | Array,
    *,
    n: int,
    epsilon: float,
    delta: float,
    d: int,
    gap: float,
    smoothness: float,
    gradient_norm: float,
    step_size: float = 1.0,
) -> float:
    """``(W + d (16 G)^2 B M / (2 n^2 epsilon^2)) / sum b_t``, Theorem 4.2 as printed. **Refuted.**

    ``W = gap/eta + eta L/2 sum G^2/b_t^2``, ``M = sum (alpha_t/b_t)^2 sum alpha_t^-2`` and
    ``B = log(16 T/(n delta)) log(1.25/delta)``. The divisor is meant to be ``sum 1/b_t``; the last term lacks the factor
    ``eta L``, here and in Theorem C.2.

    Parameters
    ----------
    b, alpha : array of shape (T,)
        b_t and alpha_t.
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

    Returns
    -------
    float
        The printed value.
    """
    sizes, shares, norm = vector("b", b), vector("alpha", alpha), real("gradient_norm", gradient_norm)
    eta = real("step_size", step_size)
    optimisation = gap / eta + eta * smoothness / 2 * float(np.sum((norm / sizes) ** 2))
    sigma = printed_sigma(n, epsilon, delta, shares, gradient_norm=norm)
    return (optimisation + d * sigma**2 * float(np.sum((shares / sizes) ** 2)) / 2) / float(sizes.sum())


def printed_constant_stationarity(
    steps: int,
    *,
    n: int,
    epsilon: float,
    delta: float,
    d: int,
    gap: float,
    smoothness: float,
    gradient_norm: float,
    step_size: float = 1.0,
    batch_size: int = 1,
) -> float:
    """``2 gap/(eta T) + eta L G^2 (1 + 16^2 d B T/(n epsilon)^2)``, Proposition A.1 as printed (16). **Proved**, half of it.

    ``B = log(16 T m/(n delta)) log(1.25/delta)``. It is twice ``adp_sgd_stationarity`` at T steps of size eta with the noise of
    Theorem A.1, ``sigma^2 = (16 G)^2 B T/(n epsilon)^2``. For ``eta = T^(-1/2)`` equation (17) prints it without the d.

    Parameters
    ----------
    steps : int
        T.
    n : int
        Number of records.
    epsilon, delta : float
        What the noise is chosen for.
    d : int
        Number of weights.
    gap, smoothness, gradient_norm : float
        D_F, L and G.
    step_size : float, default 1.0
        eta.
    batch_size : int, default 1
        m.

    Returns
    -------
    float
        The printed value.
    """
    steps, eta, norm = integer("steps", steps), real("step_size", step_size), real("gradient_norm", gradient_norm)
    sigma = printed_sigma(n, epsilon, delta, np.ones(steps), gradient_norm=norm, batch_size=batch_size)
    return 2 * gap / (eta * steps) + eta * smoothness * (norm**2 + d * sigma**2)
