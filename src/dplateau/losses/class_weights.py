"""Losses whose records count by the public weight of their class.

Setting: the loss of a record of class k is ``w_k`` times the loss, with ``0 < w_k <= 1``. **What one record can do is no more than
without weights**: a residual is as long or shorter, so the Lipschitz constant L and the smoothness M of the loss hold for every
record; ``w_k`` times a convex loss is convex; and a clipped derivative of one score stays monotone. So plans, bounds and clipping
are those of the loss itself (docs/decisions/0028-weights-and-evaluation.md). The weights must be public.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from dplateau.losses.base import GeneralisedLinearLoss
from dplateau.losses.nonsmooth import CornerLoss, Corners
from dplateau.losses.scalar import OfNumbers
from dplateau.spec import InputError
from dplateau.spec.arguments import of_type, real, sequence, vector


@dataclass(frozen=True)
class ClassWeighted(GeneralisedLinearLoss):
    """A smooth loss with a weight for each class; made by ``class_weighted``.

    Parameters
    ----------
    loss : GeneralisedLinearLoss
        The loss, of classes that are encoded as 0 to K - 1.
    weights : tuple of float
        One for each class, in (0, 1].
    """

    loss: GeneralisedLinearLoss
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        of_type("loss", self.loss, GeneralisedLinearLoss, ", such as Logistic()")
        if isinstance(self.loss, OfNumbers):
            raise InputError(f"{type(self.loss).__name__} is a loss of numbers, which have no classes: give it no class weights.")
        object.__setattr__(self, "weights", tuple(real("weight", one, high=1.0) for one in sequence("weights", self.weights)))
        if len(self.weights) != max(2, self.loss.outputs):
            raise InputError(f"there are {len(self.weights)} weights for {max(2, self.loss.outputs)} classes: give one for each.")

    def _of(self, target: jax.Array) -> jax.Array:
        return jnp.asarray(self.weights).at[target.astype(int)].get(mode="clip")

    @property
    def convex_after_clipping(self) -> bool:  # type: ignore[override]
        """That of the loss."""
        return self.loss.convex_after_clipping

    @property
    def outputs(self) -> int:
        return self.loss.outputs

    def value(self, scores: jax.Array, target: jax.Array) -> jax.Array:
        return self._of(target) * self.loss.value(scores, target)

    def residual(self, scores: jax.Array, target: jax.Array) -> jax.Array:
        found, weights = self.loss.residual(scores, target), self._of(target).astype(scores.dtype)
        return found * (weights if found.ndim == 1 else weights[:, None])

    @property
    def residual_error(self) -> float:
        return self.loss.residual_error + 2.0**-52  # of the residual, times at most 1, and of the product

    def residual_norm(self, residual: jax.Array) -> jax.Array:
        return self.loss.residual_norm(residual)

    def lipschitz(self, row_norm: float) -> float:
        return self.loss.lipschitz(row_norm)

    def smoothness(self, row_norm: float) -> float:
        return self.loss.smoothness(row_norm)

    @property
    def at_zero(self) -> float:
        return self.loss.at_zero

    def check_target(self, target: NDArray[np.generic]) -> None:
        self.loss.check_target(target)


class ClassWeightedCorner(ClassWeighted, CornerLoss):  # type: ignore[override]
    """The same of a loss with a corner, whose pieces are as steep as the weights say."""

    def corners(self, target: NDArray[np.float64]) -> Corners:
        lower, upper, corner = self.loss.corners(target)  # type: ignore[attr-defined]
        weights = np.asarray(self.weights)[target.astype(int)]
        return Corners(lower * weights, upper * weights, corner)


def scaled_weights(weights: Iterable[Any]) -> list[float]:
    """Weights of classes divided by their largest: in (0, 1].

    Raises
    ------
    InputError
        A weight is not a positive number, or next to nothing beside the largest.
    """
    given = vector("class_weight", weights).tolist()
    if min(given) < max(given) * 1e-12:
        raise InputError("class_weight: a weight is below 1e-12 of the largest: leave the class out of the rows instead.")
    return [one / max(given) for one in given]


def class_weighted(loss: GeneralisedLinearLoss, weights: Iterable[Any]) -> GeneralisedLinearLoss:
    """The loss of classes with these weights > 0, divided by their largest; raises as ``scaled_weights`` does."""
    kind = ClassWeightedCorner if isinstance(loss, CornerLoss) else ClassWeighted
    return kind(loss, tuple(scaled_weights(weights)))
