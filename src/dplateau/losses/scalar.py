"""Losses of one score a row: logistic, squared, Huber, smoothed hinge. All of them stay convex under clipping."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from dplateau.losses.base import GeneralisedLinearLoss
from dplateau.losses.exponential import ERROR, exp_of_minus
from dplateau.spec import InputError
from dplateau.spec.arguments import real


class OfTwoClasses(GeneralisedLinearLoss):
    """A loss of one score whose targets are 0 and 1."""

    convex_after_clipping: ClassVar[bool] = True

    def check_target(self, target: NDArray[np.generic]) -> None:
        if target.dtype.kind not in "biuf" or not np.isin(target, (0, 1)).all():
            raise InputError("the target has values other than 0 and 1: encode the two classes as 0 and 1.")


class OfNumbers(GeneralisedLinearLoss):
    """A loss of one score whose targets are any finite numbers."""

    convex_after_clipping: ClassVar[bool] = True

    def check_target(self, target: NDArray[np.generic]) -> None:
        if target.dtype.kind not in "biuf" or not np.isfinite(target).all():
            raise InputError("the target has values that are not finite numbers: clean it or clip it to a declared range.")


@dataclass(frozen=True)
class Logistic(OfTwoClasses):
    """Binary cross-entropy ``log(1 + exp(s)) - y s``, targets 0 and 1."""

    def value(self, scores: jax.Array, target: jax.Array) -> jax.Array:
        return jax.nn.softplus(scores) - target * scores

    def residual(self, scores: jax.Array, target: jax.Array) -> jax.Array:
        falling = exp_of_minus(abs(scores))
        return jnp.where(scores >= 0, 1, falling) / (1 + falling) - target

    @property
    def residual_error(self) -> float:
        return ERROR

    def lipschitz(self, row_norm: float) -> float:
        return row_norm

    def smoothness(self, row_norm: float) -> float:
        return row_norm * row_norm / 4

    @property
    def at_zero(self) -> float:
        return math.log(2)


@dataclass(frozen=True)
class Squared(OfNumbers):
    """Half the squared error ``(s - y)^2 / 2``. Its gradients are unbounded, so clipping matters."""

    def value(self, scores: jax.Array, target: jax.Array) -> jax.Array:
        return (scores - target) ** 2 / 2

    def residual(self, scores: jax.Array, target: jax.Array) -> jax.Array:
        return scores - target

    def lipschitz(self, row_norm: float) -> float:
        return math.inf if row_norm > 0 else 0.0

    def smoothness(self, row_norm: float) -> float:
        return row_norm * row_norm


@dataclass(frozen=True)
class Huber(OfNumbers):
    """Half the squared error up to an error of ``delta``, linear beyond.

    Parameters
    ----------
    delta : float, default 1.0
        Largest absolute residual, in units of the target.
    """

    delta: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", real("delta", self.delta))

    def value(self, scores: jax.Array, target: jax.Array) -> jax.Array:
        residual = self.residual(scores, target)
        return residual * (scores - target) - residual**2 / 2

    def residual(self, scores: jax.Array, target: jax.Array) -> jax.Array:
        return jnp.clip(scores - target, -self.delta, self.delta)

    def lipschitz(self, row_norm: float) -> float:
        return self.delta * row_norm

    def smoothness(self, row_norm: float) -> float:
        return row_norm * row_norm


@dataclass(frozen=True)
class SmoothedHinge(OfTwoClasses):
    """The hinge loss of the margin ``m = (2 y - 1) s``, targets 0 and 1, its corner at m = 1 rounded by a parabola.

    With u = 1 - m: 0 for u <= 0, u^2 / (2 width) for u <= width, u - width / 2 beyond.

    Parameters
    ----------
    width : float, default 0.5
        Length of the parabola, in units of the margin; the hinge loss is the limit 0.
    """

    width: float = 0.5

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", real("width", self.width))

    def _shortfall(self, scores: jax.Array, target: jax.Array) -> jax.Array:
        return 1 - (2 * target - 1) * scores

    def value(self, scores: jax.Array, target: jax.Array) -> jax.Array:
        shortfall = self._shortfall(scores, target)
        inside = jnp.clip(shortfall, 0, self.width)
        return inside * (shortfall - inside / 2) / self.width

    def residual(self, scores: jax.Array, target: jax.Array) -> jax.Array:
        return (1 - 2 * target) * jnp.clip(self._shortfall(scores, target) / self.width, 0, 1)

    @property
    def residual_error(self) -> float:
        return 2.0**-50 * (1 + 1 / self.width)  # a difference of numbers up to 1 + width, and a quotient

    def lipschitz(self, row_norm: float) -> float:
        return row_norm

    def smoothness(self, row_norm: float) -> float:
        return row_norm * row_norm / self.width

    @property
    def at_zero(self) -> float:
        inside = min(1.0, self.width)
        return inside * (1 - inside / 2) / self.width
