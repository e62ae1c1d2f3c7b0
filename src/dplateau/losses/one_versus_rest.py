"""The smoothed hinge loss of K classes against the rest, as one loss of K scores."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from dplateau.losses.base import GeneralisedLinearLoss
from dplateau.losses.scalar import SmoothedHinge
from dplateau.losses.softmax import Softmax
from dplateau.spec.arguments import integer


@dataclass(frozen=True)
class OneVersusRestHinge(GeneralisedLinearLoss):
    """Sum over the K classes of the smoothed hinge losses "this class against the rest", targets 0 to K - 1.

    As one loss of K scores it is one mechanism: the K gradients of a record are clipped together. K separate runs would split the
    budget among them and each need ``sqrt(K)`` times the noise, with no more information.

    Parameters
    ----------
    classes : int
        Number of classes K, at least 2.
    width : float, default 1.0
        See ``SmoothedHinge``.
    """

    classes: int
    width: float = 1.0
    convex_after_clipping: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", integer("classes", self.classes, low=2))
        object.__setattr__(self, "width", SmoothedHinge(self.width).width)

    @property
    def outputs(self) -> int:
        return self.classes

    def _per_class(self, target: jax.Array) -> tuple[SmoothedHinge, jax.Array]:
        return SmoothedHinge(self.width), jax.nn.one_hot(target.astype(int), self.classes)

    def value(self, scores: jax.Array, target: jax.Array) -> jax.Array:
        hinge, member = self._per_class(target)
        return hinge.value(scores, member).sum(axis=1)

    def residual(self, scores: jax.Array, target: jax.Array) -> jax.Array:
        hinge, member = self._per_class(target)
        return hinge.residual(scores, member.astype(scores.dtype))

    @property
    def residual_error(self) -> float:
        return math.sqrt(self.classes) * SmoothedHinge(self.width).residual_error

    def residual_norm(self, residual: jax.Array) -> jax.Array:
        return jnp.linalg.norm(residual, axis=1)

    def lipschitz(self, row_norm: float) -> float:
        return math.sqrt(self.classes) * row_norm

    def smoothness(self, row_norm: float) -> float:
        return row_norm * row_norm / self.width

    def check_target(self, target: NDArray[np.generic]) -> None:
        Softmax(self.classes).check_target(target)
