"""What the engine and the planner need to know of a loss."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import jax
import numpy as np
from numpy.typing import NDArray


class GeneralisedLinearLoss(ABC):
    """A loss of the linear scores of a row: ``value(row @ weights, target)``.

    The gradient of one example is the outer product of its row and its residual (the derivative with respect to the scores), so
    its norm is ``|row| * |residual|`` and clipping needs no per-example gradient. Concrete losses are final, frozen dataclasses:
    hashable, hence usable as static arguments of compiled functions. An l2 term is not part of a loss.

    The constants are functions of R, a public bound on the Euclidean norm of every row.
    """

    convex_after_clipping: ClassVar[bool]
    """Whether a clipped gradient is again the gradient of a convex, no less smooth loss. True with one score: there, clipping
    bounds a monotone derivative from both sides, which leaves it monotone. Not known with several."""

    @property
    def outputs(self) -> int:
        """Number of scores a row: 1 (weights of shape ``(d,)``) or K (weights of shape ``(d, K)``)."""
        return 1

    def weights_shape(self, d: int) -> tuple[int, ...]:
        """Shape of the weights for rows of d features."""
        return (d,) if self.outputs == 1 else (d, self.outputs)

    @abstractmethod
    def value(self, scores: jax.Array, target: jax.Array) -> jax.Array:
        """Losses, shape ``(b,)``, of scores ``(b,)`` or ``(b, K)`` and targets ``(b,)``."""

    @abstractmethod
    def residual(self, scores: jax.Array, target: jax.Array) -> jax.Array:
        """Derivatives of the losses with respect to the scores, in their shape, in double precision; with several, at most 1.

        A derivative must not depend on where in a batch it stands: every operation is exact, or is rounded once and, if it is a
        product, feeds no sum (see ``dplateau.losses.exponential``).
        """

    @property
    def residual_error(self) -> float:
        """Most by which the norm of a computed residual misses the exact one, beside half a unit in its last place."""
        return 0.0

    def residual_norm(self, residual: jax.Array) -> jax.Array:
        """Euclidean norm of every example's residual, shape ``(b,)``."""
        return abs(residual)

    @abstractmethod
    def lipschitz(self, row_norm: float) -> float:
        """Largest norm of a per-example gradient over rows of norm at most ``row_norm``; infinite where there is none."""

    @abstractmethod
    def smoothness(self, row_norm: float) -> float:
        """Largest eigenvalue of a per-example Hessian over rows of norm at most ``row_norm``."""

    def longest_row(self, smoothness: float) -> float:
        """The norm that no row exceeds, or the smoothness, which grows with its square, would not hold."""
        return math.sqrt(smoothness / self.smoothness(1.0))

    @property
    def at_zero(self) -> float:
        """Largest loss of a record whose scores are all zero, over all legal targets; infinite where there is none."""
        return math.inf

    @abstractmethod
    def check_target(self, target: NDArray[np.generic]) -> None:
        """Raise ``InputError`` unless every entry is a legal target; the message quotes none of them."""
