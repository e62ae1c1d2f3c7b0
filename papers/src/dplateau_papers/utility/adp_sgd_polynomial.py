"""Steps ``eta / sqrt(a + c t)`` with adapted and with constant noise: the mean squared gradient, in closed form.

Source: Wu, Wang, Cristali, Gu, Willett 2021, Propositions 5.1 and D.1.
"""

from __future__ import annotations

import math

from dplateau.spec import InputError
from dplateau.spec.arguments import integer, real


def polynomial_stationarity(
    steps: int,
    a: float,
    c: float,
    sigma: float,
    *,
    d: int,
    gap: float,
    smoothness: float,
    gradient_norm: float,
    step_size: float = 1.0,
    adapted: bool = True,
) -> float:
    """``sqrt(c/(T-1)) (gap/eta + eta M G^2 B/(2c)) + eta M d sigma^2 / 2``, ``B = log(1 + T c/a)``, with adapted noise. **Proved.**

    Setting and assumptions are those of ``adp_sgd_stationarity``, with ``eta_t = eta / b_t``, ``b_t = sqrt(a + c t)``, a second
    moment of at most G^2, and noise of standard deviation ``alpha_t sigma`` on the mean gradient: ``alpha_t = sqrt(b_t)``, or 1
    where it is not adapted; then the last term is ``sqrt(c/(T-1)) eta M d sigma^2 B/(2c)``. At equal privacy the two have different
    sigma.

    Parameters
    ----------
    steps : int
        T, at least ``5 + 4 a/c``.
    a, c : float
        See above.
    sigma : float
        Noise at ``alpha_t = 1``.
    d : int
        Number of weights.
    gap, smoothness, gradient_norm : float
        F at the start minus its infimum, M and G.
    step_size : float, default 1.0
        eta.
    adapted : bool, default True
        Whether ``alpha_t = sqrt(b_t)``.

    Returns
    -------
    float
        The bound; ``adp_sgd_stationarity`` at the same steps and noise is less.

    Raises
    ------
    InputError
        There are too few steps.

    Source: Wu et al. 2021, Proposition D.1, for the noise that is used in place of their (18).
    """
    steps, a, c = _steps(steps, a, c)
    eta, smooth, norm = real("step_size", step_size), real("smoothness", smoothness), real("gradient_norm", gradient_norm)
    noise = eta * smooth * integer("d", d) * real("sigma", sigma, inclusive=True) ** 2 / 2
    logs, front = math.log1p(steps * c / a) / c, math.sqrt(c / (steps - 1))
    optimisation = real("gap", gap, inclusive=True) / eta + eta * smooth * norm**2 * logs / 2
    return front * optimisation + noise * (1.0 if adapted else front * logs)


def _steps(steps: int, a: float, c: float) -> tuple[int, float, float]:
    steps, a, c = integer("steps", steps), real("a", a), real("c", c)
    if steps < 5 + 4 * a / c:
        raise InputError(
            f"steps is {steps}: the proposition needs at least 5 + 4 a/c = {5 + 4 * a / c:g}. Take more, or a smaller a."
        )
    return steps, a, c


def printed_polynomial_stationarity(
    steps: int,
    a: float,
    c: float,
    *,
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
    """Proposition 5.1 as printed, (9) where ``adapted``, else (10). **(10) proved, (9) not**: its last term is half of the proof's.

    The noise is that of the paper's (6). Proposition D.1, in the appendix, has the last terms that are proved: twice that of (9),
    and about half of that of (10). So adapted noise gains ``log(1 + T c/a) / 4`` for large T, where (9) and (10) say
    ``2 log(1 + T c/a)``.

    Parameters
    ----------
    steps : int
        T, at least ``5 + 4 a/c``.
    a, c : float
        ``b_t = sqrt(a + c t)``.
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
        Which of the two.

    Returns
    -------
    float
        The printed value.
    """
    steps, a, c = _steps(steps, a, c)
    logs, front = math.log1p(steps * c / a), math.sqrt(c / (steps - 1))
    optimisation = gap / step_size + step_size * gradient_norm**2 * smoothness * logs / (2 * c)
    budget = (16 * gradient_norm) ** 2 * math.log(16 * steps / (n * delta)) * math.log(1.25 / delta) / (n * epsilon) ** 2
    noise = step_size * d * smoothness * budget * math.sqrt(steps / c)
    return front * optimisation + noise * (0.5 if adapted else logs)
