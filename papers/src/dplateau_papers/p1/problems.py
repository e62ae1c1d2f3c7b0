"""Learning problems whose population risk is known exactly, so that an excess risk is computed and not estimated."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dplateau.losses import GeneralisedLinearLoss, Hinge, Logistic, SmoothedHinge
from dplateau.spec import InputError

Array: TypeAlias = NDArray[np.float64]

RADIUS: Final = 0.5
"""Of the ball in which ``Linear`` is linear."""


class Problem(ABC):
    """A distribution of records with rows of norm 1, and a loss. Concrete problems are final.

    Attributes
    ----------
    d : int
        Number of weights.
    """

    d: int

    @property
    @abstractmethod
    def loss(self) -> GeneralisedLinearLoss:
        """Loss of one record; its Lipschitz constant is 1."""

    @property
    @abstractmethod
    def radius(self) -> float:
        """The weights lie in the ball of this radius around zero, where training starts; so does the minimiser."""

    @property
    def l2(self) -> float:
        """Coefficient of ``|w|^2 / 2`` in the objective."""
        return 0.0

    @property
    def lipschitz(self) -> float:
        """Of the objective of one record, on the ball."""
        return 1.0 + self.l2 * self.radius

    @abstractmethod
    def draw(self, n: int, seed: int) -> tuple[Array, Array]:
        """``n`` independent records: rows and targets."""

    @abstractmethod
    def excess(self, weights: Array) -> float:
        """``F(weights) - min F``, exactly."""


@dataclass(frozen=True)
class Linear(Problem):
    """The hinge where it is linear: ``F(w) = 1 - <w, m> + l2 |w|^2 / 2`` for ``|w| <= 1/2``, m the mean of ``(2 y - 1) x``.

    Entries of ``(2 y - 1) x`` are independent signs over sqrt(d), so that ``m`` is ``signal`` times a unit vector. Margins stay
    below 1/2, where the smoothed hinge of width 1/2 is linear. Without l2 the minimiser is on the sphere, and how hard the problem
    is depends on the signal: with none every point is a minimiser, with much it is found at once.

    Parameters
    ----------
    d : int
        Number of weights.
    signal : float
        ``|m|``, from 0 to 1.
    strength : float, default 0.0
        l2; then the minimiser is ``m / l2``, which must lie in the ball.
    """

    d: int
    signal: float
    strength: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.signal <= 1 or (self.strength and self.signal > self.strength * RADIUS):
            raise InputError(f"signal is {self.signal:g}: expected at most 1, and at most strength / 2 where there is a strength.")

    @property
    def loss(self) -> GeneralisedLinearLoss:
        return SmoothedHinge(width=0.5)

    @property
    def radius(self) -> float:
        return RADIUS

    @property
    def l2(self) -> float:
        return self.strength

    def draw(self, n: int, seed: int) -> tuple[Array, Array]:
        generator = np.random.default_rng([seed, n, self.d])
        target = generator.integers(0, 2, n)
        positive = generator.random((n, self.d), dtype=np.float32) < (1 + self.signal) / 2
        size = 1 / math.sqrt(self.d)
        return np.where(positive == (target == 1)[:, None], size, -size), target.astype(float)

    def excess(self, weights: Array) -> float:
        along = float(weights.sum()) / math.sqrt(self.d)
        if not self.strength:
            return self.signal * (RADIUS - along)
        best = self.signal / self.strength
        return self.strength / 2 * (float(weights @ weights) - 2 * best * along + best**2)


@dataclass(frozen=True)
class OneHot(Problem):
    """Rows are unit vectors, feature j is as likely as any other, and its label is 1 with probability p_j: F is a mean of d terms.

    Odd features have p = ``likely``, even ones 1 - ``likely``; so the minimiser has entries of one size and both signs.

    Parameters
    ----------
    d : int
        Number of weights.
    smooth : bool
        Whether the loss is logistic, or the hinge.
    likely : float, default 0.75
        Above 1/2.
    """

    d: int
    smooth: bool
    likely: float = 0.75

    @property
    def loss(self) -> GeneralisedLinearLoss:
        return Logistic() if self.smooth else Hinge()

    @property
    def radius(self) -> float:
        return math.sqrt(self.d) * (math.log(self.likely / (1 - self.likely)) if self.smooth else 1.0)

    def draw(self, n: int, seed: int) -> tuple[Array, Array]:
        generator = np.random.default_rng([seed, n, self.d])
        places = generator.integers(0, self.d, n)
        rows = np.zeros((n, self.d))
        rows[np.arange(n), places] = 1
        target = (generator.random(n) < self.likely) == (places % 2 == 1)
        return rows, target.astype(float)

    def excess(self, weights: Array) -> float:
        # By symmetry all features are like an odd one.
        scores = np.where(np.arange(self.d) % 2 == 1, weights, -weights)
        p = self.likely
        if not self.smooth:
            return float(np.mean(p * np.maximum(0, 1 - scores) + (1 - p) * np.maximum(0, 1 + scores))) - 2 * (1 - p)
        entropy = -p * math.log(p) - (1 - p) * math.log1p(-p)
        return float(np.mean(np.logaddexp(0, scores) - p * scores)) - entropy


Family: TypeAlias = Callable[[float], Problem]
SIGNALS: Final = tuple(0.5**k for k in range(9))
"""Of the family of linear problems, over which the worst is sought: it does not depend on n, d or the privacy."""


def linear_family(d: int) -> Family:
    """Linear problems by their signal."""
    return lambda signal: Linear(d, signal)
