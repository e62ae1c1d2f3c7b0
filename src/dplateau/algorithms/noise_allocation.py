"""How much noise each step gets: alpha_t, with the noise of step t being ``alpha_t sigma``.

The utility bound of Wu et al. counts the noise by ``sum (alpha_t / b_t)^2`` and their privacy bound by ``sum 1 / alpha_t^2``. The
product M of both is least for ``alpha_t = sqrt(b_t)``. That is so under every accounting by ``sum 1 / alpha_t^2``, the exact one of
full batches among them. A record that is drawn at random costs less than that where there is much noise and more where there is
little; ``optimal_noise`` finds what is best under exact accounting. ``docs/explanation/adp-sgd.md`` compares them.

Source: Wu, Wang, Cristali, Gu, Willett, "Adaptive differentially private empirical risk minimization" (2021), section 4.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dplateau.spec import InputError, Run
from dplateau.spec.arguments import integer, real
from dplateau.spec.runs import single_run
from dplateau.spec.schedule import entries, is_constant, schedule

Array: TypeAlias = NDArray[np.float64]


def _values(name: str, values: Iterable[float]) -> Array:
    return np.atleast_1d(np.asarray(schedule(name, values)))


def normalised(alpha: Iterable[float]) -> tuple[float, ...]:
    """``alpha`` times the number at which ``sum 1 / alpha_t^2 = T``: what constant noise of 1 costs, where steps cost ``1 / z^2``.

    Parameters
    ----------
    alpha : sequence of float
        Relative noise of the steps.

    Returns
    -------
    tuple of float
        The same shape, comparable with constant noise.
    """
    values = _values("alpha", alpha)
    return tuple((values * math.sqrt(np.mean(values**-2.0))).tolist())


def adapted_noise(step_sizes: Iterable[float]) -> tuple[float, ...]:
    """``alpha_t`` proportional to ``eta_t^(-1/2)``, that is to ``sqrt(b_t)``, normalised. **The least M.**

    Parameters
    ----------
    step_sizes : sequence of float
        eta_t.

    Returns
    -------
    tuple of float
        alpha_t, to be scaled by ``dplateau.calibrate`` as the ``noise_multiplier`` of a run.

    Source: Wu et al. 2021, Remark 4.1.

    Examples
    --------
    >>> [round(alpha, 3) for alpha in adapted_noise([1.0, 0.25, 0.25])]
    [0.707, 1.414, 1.414]
    """
    return normalised(_values("step_sizes", step_sizes) ** -0.5)


def adagrad_noise(steps: int, b0: float, growth: float) -> tuple[float, ...]:
    """``alpha_t`` proportional to ``(b_0^2 + t C)^(1/4)``, normalised: for steps whose b_t is computed from noisy gradients.

    AdaGrad-norm has ``b_t^2 = b_{t-1}^2 + max(|gradient|^2, nu)``, which is not known in advance, and the noise has to be. The
    guess is that b_t^2 grows by C a step.

    Parameters
    ----------
    steps : int
        T.
    b0 : float
        b_0.
    growth : float
        C, by the paper between nu and the squared Lipschitz constant.

    Returns
    -------
    tuple of float
        alpha_t for t = 1, ..., T.

    Source: Wu et al. 2021, section 5.2.
    """
    b0, growth = real("b0", b0), real("growth", growth, inclusive=True)
    grown = math.sqrt(growth) * np.sqrt(np.arange(1.0, integer("steps", steps) + 1))
    return normalised(np.sqrt(np.hypot(b0, grown)))  # b_0^2 may be larger than any double


def noise_cost(alpha: Iterable[float], b: Iterable[float]) -> float:
    """``M = sum (alpha_t / b_t)^2 sum 1 / alpha_t^2``: what the noise of equal privacy costs in the bound of Theorem 4.2.

    Parameters
    ----------
    alpha, b : sequence of float
        alpha_t and b_t, one each a step.

    Returns
    -------
    float
        M; it does not change when ``alpha`` is scaled. At ``alpha = 1`` it is the paper's M_dp.

    Raises
    ------
    InputError
        The two do not have the same length.

    Source: Wu et al. 2021, Theorem 4.2.
    """
    shares, sizes = _values("alpha", alpha), _values("b", b)
    if shares.size != sizes.size:
        raise InputError(f"alpha has {shares.size} entries and b has {sizes.size}: expected one of each a step.")
    return float(np.sum((shares / sizes) ** 2) * np.sum(shares**-2.0))


def least_noise_cost(b: Iterable[float]) -> float:
    """``M_adp = (sum 1 / b_t)^2``: the least M, which ``alpha_t = sqrt(b_t)`` has and, by Cauchy and Schwarz, nothing else.

    Parameters
    ----------
    b : sequence of float
        b_t.

    Returns
    -------
    float
        M_adp.

    Source: Wu et al. 2021, Remark 4.1.
    """
    return float(np.sum(1 / _values("b", b)) ** 2)


def adaptation_gain(b: Iterable[float]) -> float:
    """``M_dp / M_adp = T sum b_t^-2 / (sum b_t^-1)^2 >= 1``: by what adapted noise lowers the noise term of Theorem 4.2.

    Parameters
    ----------
    b : sequence of float
        b_t.

    Returns
    -------
    float
        The gain; about ``log(1 + T c / a) / 4`` for ``b_t = sqrt(a + c t)`` and a large T.

    Source: Wu et al. 2021, Remark 4.1.
    """
    sizes = _values("b", b)
    return noise_cost(np.ones(sizes.size), sizes) / least_noise_cost(sizes)


def noise_energy(run: Run) -> float:
    """``sum (eta_t z_t / B_t)^2``, B_t the batch sizes: what the bound of Theorem 4.2 counts of a run's noise.

    The noise moves the weights by the square root of this, times the clip norm, in each coordinate.

    Parameters
    ----------
    run : Run
        With ``step_size``.

    Returns
    -------
    float
        The sum.

    Raises
    ------
    InputError
        The run has no ``step_size``, or its batch sizes differ within an epoch.
    """
    return float(np.sum(noise_weights(run) * run.table.written().noise ** 2))


def noise_weights(run: Run) -> Array:
    """``(eta_t / B_t)^2``, shape (T,): what ``noise_energy`` multiplies the squared noise multipliers by."""
    if single_run(run).step_size is None:
        raise InputError("the run has no step_size: the noise of a step counts by its size. State step_size.")
    divisors = run.sampling.divisors(run.n)
    if not is_constant(divisors) and len(entries(divisors)) != run.steps:
        raise InputError("batch_size differs within an epoch: expected one batch size, or one a step.")
    steps = run.table.written()
    return (steps.step_size / steps.size) ** 2


def printed_sigma(
    n: int, epsilon: float, delta: float, alpha: Iterable[float], *, gradient_norm: float = 1.0, batch_size: float = 1.0
) -> float:
    """``sigma = 16 G sqrt(B sum alpha_t^-2) / (n epsilon)``, ``B = log(16 T m / (n delta)) log(1.25 / delta)``. **As printed.**

    No guarantee: the equation lacks the conditions of its proof. ``dplateau.calibrate`` finds the least noise, and
    ``dplateau.account`` has the closed form, where it holds, as ``adaptive-noise``. The ``noise_multiplier`` of a run that has this
    noise is ``alpha_t sigma m / G``.

    Parameters
    ----------
    n : int
        Number of records.
    epsilon, delta : float
        What the paper claims for it.
    alpha : sequence of float
        alpha_t, whose number is T.
    gradient_norm : float, default 1.0
        G.
    batch_size : float, default 1.0
        m.

    Returns
    -------
    float
        sigma, for a mean gradient.

    Source: Wu et al. 2021, equations (6) and (18).

    Examples
    --------
    >>> round(printed_sigma(50_000, 12.8, 1e-5, [1.0] * 11_760, batch_size=256) * 256, 3)
    10.194
    """
    shares = _values("alpha", alpha)
    n, epsilon, delta = integer("n", n), real("epsilon", epsilon), real("delta", delta)
    norm, size = real("gradient_norm", gradient_norm), real("batch_size", batch_size, high=n)
    if delta >= 1 or 16 * shares.size * size <= n * delta:
        raise InputError(f"delta is {delta:g}: expected a number below 1 and below 16 T m / n, or the logarithms are not positive.")
    logs = math.log(16 * shares.size * size / (n * delta)) * math.log(1.25 / delta)
    return 16 * norm * math.sqrt(logs * float(np.sum(shares**-2.0))) / (n * epsilon)
