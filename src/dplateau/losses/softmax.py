"""Multinomial cross-entropy."""

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
from dplateau.spec.arguments import integer


@dataclass(frozen=True)
class OfSeveralClasses(GeneralisedLinearLoss):
    """A loss of K scores whose targets are 0 to K - 1.

    Parameters
    ----------
    classes : int
        Number of classes K, at least 2.
    """

    classes: int
    convex_after_clipping: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", integer("classes", self.classes, low=2))

    @property
    def outputs(self) -> int:
        return self.classes

    def residual_norm(self, residual: jax.Array) -> jax.Array:
        return jnp.linalg.norm(residual, axis=1)

    def check_target(self, target: NDArray[np.generic]) -> None:
        if target.dtype.kind not in "biuf" or not np.isin(target, np.arange(self.classes)).all():
            raise InputError(f"the target has values other than 0, 1, ..., {self.classes - 1}: encode the classes by their number.")


@dataclass(frozen=True)
class Softmax(OfSeveralClasses):
    """Cross-entropy ``log(sum_k exp(s_k)) - s_y`` of K scores, targets 0 to K - 1.

    It is not known to stay convex under clipping: a bound that needs convexity needs rows of norm at most clip_norm / sqrt(2),
    so that clipping never acts.

    Parameters
    ----------
    classes : int
        Number of classes K, at least 2.
    """

    def value(self, scores: jax.Array, target: jax.Array) -> jax.Array:
        chosen = jnp.take_along_axis(scores, target.astype(int)[:, None], axis=1)[:, 0]
        return jax.nn.logsumexp(scores, axis=1) - chosen

    def residual(self, scores: jax.Array, target: jax.Array) -> jax.Array:
        below = scores.max(axis=1, keepdims=True) - scores
        powers = exp_of_minus(below, self._places)
        # On a grid on which the difference is exact: compilers make of the quotient a product, which would feed it.
        shares = jnp.rint(powers / powers.sum(axis=1, keepdims=True) * 2.0**52) * 2.0**-52
        return shares - jax.nn.one_hot(target.astype(int), self.classes, dtype=scores.dtype)

    @property
    def _places(self) -> int:
        """Of a grid on which the sum of so many powers is exact."""
        return 53 - self.classes.bit_length()

    @property
    def residual_error(self) -> float:
        return 2 * self.classes * (ERROR + 2.0**-self._places)

    def lipschitz(self, row_norm: float) -> float:
        return math.sqrt(2) * row_norm

    def smoothness(self, row_norm: float) -> float:
        return row_norm * row_norm / 2

    @property
    def at_zero(self) -> float:
        return math.log(self.classes)
