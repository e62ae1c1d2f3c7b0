"""The smoothed hinge loss of K classes against the rest, as one loss of K scores."""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax

from dplateau.losses.scalar import SmoothedHinge
from dplateau.losses.softmax import OfSeveralClasses


@dataclass(frozen=True)
class OneVersusRestHinge(OfSeveralClasses):
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

    width: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "width", SmoothedHinge(self.width).width)

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

    def lipschitz(self, row_norm: float) -> float:
        return math.sqrt(self.classes) * row_norm

    def smoothness(self, row_norm: float) -> float:
        return row_norm * row_norm / self.width
