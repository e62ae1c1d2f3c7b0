"""Altschuler, Talwar 2022, Theorem 4.1: no analysis can say less than two random walks between walls tell apart."""

from __future__ import annotations

from typing import Final, NamedTuple

from dplateau.audit.instance import ZERO, Gradient, Instance, check_run, places
from dplateau.audit.oracle import final_laws
from dplateau.spec import InputError, Run
from dplateau.spec.schedule import constant, is_constant

C_SIGMA: Final = 1e-3
C_D: Final = 1e3
C_ALPHA: Final = 1e-7
ORDER: Final = 100.0
_ACCURACY: Final = 1e-6


class RenyiLowerBound(NamedTuple):
    """The run is not (order, epsilon)-Renyi-DP."""

    order: float
    epsilon: float


def random_walks(run: Run) -> Instance:
    """The two data sets of the proof of Theorem 4.1: all losses are zero, but for the record's in one of them, which has slope L.

    Setting: any run on an interval. The start is 0, the record sits where the last step sees it, and a required strong
    convexity comes from an l2 term, which makes the walks autoregressive (the theorem itself is for convex losses).
    Source: Altschuler, Talwar 2022, section 4 and Appendix A.4.
    """
    _, _, convexity = check_run(run)
    first = None if run.adjacency == "add-remove" else ZERO
    position = (run.steps - 1) % places(run)
    return Instance(first, Gradient(0.0, -run.clip_norm), position=position, l2=max(convexity, 0.0))


def lower_bound(run: Run, delta: float) -> float:
    """What every epsilon at ``delta`` for the last iterate must reach: the exact epsilon of ``random_walks``, less its accuracy.

    That accuracy is measured, by a finer quadrature, and not proved; the tests compare one step with closed forms.

    Raises
    ------
    InputError
        The run is not on an interval, or ``delta`` is not in (0, 1).
    ArithmeticError
        The laws could not be computed accurately.
    """
    exact = final_laws(run, random_walks(run), _ACCURACY).epsilon(delta)
    return max(exact * (1 - _ACCURACY) - _ACCURACY**2, 0.0)


def printed_lower_bound(run: Run) -> RenyiLowerBound:
    """The statement of Theorem 4.1: not (100, epsilon)-RDP for ``epsilon = c_alpha 100 L^2 / (n sigma)^2 min{T, T_bar}``.

    Setting: random batches, constant step size eta, noise sigma and batch size, convex losses; ``T_bar = 0.75 D n / (L eta)``,
    ``D >= 1000 eta L`` and ``sigma^2 <= 0.001 D^2 / (eta^2 T_bar)``; the constants are those of the paper's footnote 13.

    The appendix reduces to epsilon = 0.005, which is the value at the largest sigma only; the tests compare it with exact laws.

    Raises
    ------
    InputError
        A condition of the theorem is not met; the message names it.
    """
    half, _, convexity = check_run(run)
    values = run.step_size, run.noise_multiplier, run.sampling.divisors(run.n)
    if not is_constant(*values):
        raise InputError("Theorem 4.1 needs a constant step size, noise and batch size.")
    step_size, noise, size = (constant(value) for value in values)
    if not (run.sampling.drawn or run.sampling.full):
        raise InputError(f"Theorem 4.1 is for random batches, the run's are {run.sampling.kind}.")
    if convexity:
        raise InputError("Theorem 4.1 is for convex losses: strong_convexity must be 0.")
    diameter, sigma = 2 * half, noise * run.clip_norm / size
    if diameter < C_D * step_size * run.clip_norm:
        raise InputError(f"diameter is {diameter:g}: Theorem 4.1 needs at least {C_D * step_size * run.clip_norm:g}.")
    burn_in = 0.75 * diameter * run.n / (run.clip_norm * step_size)
    largest = C_SIGMA * diameter**2 / (step_size**2 * burn_in)
    if sigma**2 > largest:
        raise InputError(f"the noise on the mean gradient has variance {sigma**2:g}: Theorem 4.1 needs at most {largest:g}.")
    epsilon = C_ALPHA * ORDER * (run.clip_norm / (run.n * sigma)) ** 2 * min(run.steps, burn_in)
    return RenyiLowerBound(ORDER, epsilon)
