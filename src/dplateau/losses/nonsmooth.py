"""Losses of one score with a corner: hinge and absolute. Gradient steps on them are not contractions; Phased-ERM needs none."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from dplateau.losses.base import GeneralisedLinearLoss
from dplateau.losses.scalar import OfNumbers, OfTwoClasses


class Corners(NamedTuple):
    """For every example the slopes ``lower`` and ``upper`` of its loss below and above the score ``corner``, where it is 0."""

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    corner: NDArray[np.float64]


class CornerLoss(GeneralisedLinearLoss):
    """A loss of two linear pieces that meet at value 0: ``max(lower (s - corner), upper (s - corner))``.

    Its convex conjugate is ``slope * corner`` on the slopes from ``lower`` to ``upper``, and infinite elsewhere.
    """

    convex_after_clipping: ClassVar[bool] = True

    @abstractmethod
    def corners(self, target: NDArray[np.float64]) -> Corners:
        """The pieces of the losses of targets of shape ``(b,)``."""

    def conjugate(self, slope: NDArray[np.float64], target: NDArray[np.float64]) -> NDArray[np.float64]:
        """The largest of ``slope s - value(s)`` over all scores s."""
        lower, upper, corner = self.corners(target)
        return np.where((slope >= lower) & (slope <= upper), slope * corner, math.inf)

    def lipschitz(self, row_norm: float) -> float:
        return row_norm

    def smoothness(self, row_norm: float) -> float:
        return math.inf if row_norm > 0 else 0.0


@dataclass(frozen=True)
class Hinge(OfTwoClasses, CornerLoss):
    """``max(0, 1 - m)`` of the margin ``m = (2 y - 1) s``, targets 0 and 1."""

    def value(self, scores: jax.Array, target: jax.Array) -> jax.Array:
        return jnp.maximum(0, 1 - (2 * target - 1) * scores)

    def residual(self, scores: jax.Array, target: jax.Array) -> jax.Array:
        return jnp.where((2 * target - 1) * scores < 1, 1 - 2 * target, 0).astype(scores.dtype)

    def corners(self, target: NDArray[np.float64]) -> Corners:
        return Corners(lower=-target, upper=1 - target, corner=2 * target - 1)


@dataclass(frozen=True)
class Absolute(OfNumbers, CornerLoss):
    """The absolute error ``|s - y|``: median regression."""

    def value(self, scores: jax.Array, target: jax.Array) -> jax.Array:
        return abs(scores - target)

    def residual(self, scores: jax.Array, target: jax.Array) -> jax.Array:
        return jnp.sign(scores - target)

    def corners(self, target: NDArray[np.float64]) -> Corners:
        return Corners(lower=-np.ones_like(target), upper=np.ones_like(target), corner=target)
