"""Minimisers of a regularised mean loss, with a certificate of how far from the exact one they are.

    F(w) = (1/n) sum a_j f(w, x_j) + strength |w - centre|^2 / 2

with weights a_j of rows that add up to n or less: all are 1, but where several rows are one person's.

Every solver here returns a point and a bound on its distance from the minimiser that counts its own rounding; it goes on until the
bound is small enough, and gives an error, never a point, if that does not happen. Which way it took leaves no other trace.

For smooth losses the certificate is the gradient: F is strongly convex, so ``|w - minimiser| <= |grad F(w)| / strength``.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Final, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from dplateau.losses import GeneralisedLinearLoss
from dplateau.training.errors import TrainingDiverged
from dplateau.training.phases import EPS, gradient_round_off

Array = NDArray[np.float64]
_BLOCK: Final = 4096
"""Rows that are added up at once where rounding counts."""
_ROUNDS: Final = 80


class Problem(NamedTuple):
    """``rows`` (n, d), their norms (n,) and ``target`` (n,); ``centre`` and ``strength`` of the regulariser, both public; and the
    weights of the rows (n,), where they differ.
    """

    rows: Array
    norms: Array
    target: Array
    centre: Array
    strength: float
    weight: Array | None = None


class Certified(NamedTuple):
    """A point, and the most that it is away from the minimiser."""

    weights: Array
    distance: float


def mean_of_rows(rows: Array, factors: Array) -> Array:
    """``rows.T @ factors / n``, added up in blocks: n / 4096 + 4096 roundings instead of n."""
    starts = range(0, len(rows), _BLOCK)
    return sum(rows[a : a + _BLOCK].T @ factors[a : a + _BLOCK] for a in starts) / len(rows)  # type: ignore[return-value]


def roundings(n: int) -> int:
    """Additions that a term of ``mean_of_rows`` goes through."""
    return min(n, _BLOCK) + -(-n // _BLOCK) + 1


@partial(jax.jit, static_argnames="loss")
def _pointwise(loss: GeneralisedLinearLoss, scores: Any, target: Any) -> tuple[jax.Array, jax.Array]:
    return loss.value(scores, target), loss.residual(scores, target)


def smooth_minimiser(loss: GeneralisedLinearLoss, problem: Problem, distance: float) -> Certified:
    """A point at most ``distance`` from the minimiser, for a smooth loss.

    Quasi-Newton steps come first. Where their line search can no longer tell two values apart, accelerated gradient steps go on,
    which need no values and halve the distance in a number of steps that is known beforehand.

    Raises
    ------
    TrainingDiverged
        Rounding leaves no certificate so small.
    """
    rows, norms, target, centre, strength, weight = problem
    largest, additions = float(norms.max()), roundings(len(rows)) + 2 * (weight is not None)
    smoothness, steepest = loss.smoothness(largest), loss.lipschitz(largest)

    def value_and_gradient(flat: Array) -> tuple[float, Array]:
        weights = flat.reshape(centre.shape)
        values, residual = (np.asarray(part) for part in _pointwise(loss, rows @ weights, target))
        if weight is not None:
            values, residual = values * weight, (residual.T * weight).T
        shift = weights - centre
        return float(values.mean() + strength * np.vdot(shift, shift) / 2), (
            mean_of_rows(rows, residual) + strength * shift
        ).ravel()

    def bound(weights: Array, gradient: Array) -> float:
        norm = float(np.linalg.norm(weights))
        error = gradient_round_off(
            loss, smoothness, steepest, radius=norm, features=rows.shape[1], terms=additions
        ) + 4 * EPS * strength * (norm + float(np.linalg.norm(centre)))
        return float(np.linalg.norm(gradient) * (1 + 1e-12) + error) / strength

    wanted = strength * distance / 2
    options = {"maxiter": 1000, "maxfun": 2000, "maxls": 30, "ftol": 0.0, "gtol": wanted / math.sqrt(centre.size)}
    point = minimize(value_and_gradient, centre.ravel(), jac=True, method="L-BFGS-B", options=options).x
    # Gradient steps of size 1/steepness with momentum: each shrinks F - min F by 1 - 1/root.
    steepness = loss.smoothness(largest) + strength
    root = math.sqrt(steepness / strength)
    momentum, last = (root - 1) / (root + 1), point
    for _ in range(math.ceil(_ROUNDS * root) + _ROUNDS):
        gradient = value_and_gradient(point)[1]
        reached = bound(point, gradient)
        if reached <= distance:
            return Certified(point.reshape(centre.shape), reached)
        stepped = point - gradient / steepness
        point, last = stepped + momentum * (stepped - last), stepped
    raise TrainingDiverged("the minimiser of a phase could not be certified: raise accuracy, or use fewer phases.")
