"""Trade-off functions whose profile has a closed form: Gaussian, pairs of Gaussian mixtures, and what is made of them."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from dplateau.accounting.enclosure import Enclosure
from dplateau.accounting.gaussian import Array, gdp_epsilon, log_gdp_delta
from dplateau.accounting.privacy_loss import StepLaw
from dplateau.accounting.trade_offs.base import FAR, TradeOff, probability
from dplateau.spec.arguments import integer, real

_HALVINGS: Final = 80


class Smooth(TradeOff, ABC):
    """A trade-off function that is evaluated through its profile: the best epsilon is found by bisection.

    Any epsilon gives a lower bound, so that the search need not be exact.
    """

    def values(self, alpha: Array) -> Array:
        back = self.inverse
        with np.errstate(divide="ignore", over="ignore"):
            log_alpha, log_power = np.log(alpha), np.log1p(-alpha)
            # For epsilon >= 0 the best has its test's type I error equal to alpha; below 0, the inverse's test its power 1 - alpha.
            best = [
                -np.expm1(self.log_delta_above(e)) - np.exp(np.minimum(e + log_alpha, 700.0))
                for e in _bracket(self.log_alpha_above, log_alpha)
            ]
            best += [np.exp(-e) * (1 - alpha - np.exp(back.log_delta_above(e))) for e in _bracket(back.log_beta_above, log_power)]
        return np.clip(np.maximum.reduce(best), 0.0, 1 - alpha)

    def enclosure(self, alpha: float) -> Enclosure:
        """``f(alpha)``, enclosed, also where epsilons beyond those that are looked at are better."""
        found = super().enclosure(alpha)
        log_alpha = math.log(alpha) if alpha else -math.inf
        if not float(self.log_alpha_above(np.array(FAR))) > log_alpha:
            return found
        # Their lines start no higher than that, and fall faster.
        beyond = 1 - self.certain - math.exp(min(FAR + log_alpha, 0.0)) * (1 - 1e-12) + 1e-15
        return Enclosure(found.lower, max(found.upper, min(beyond, 1.0)))


def _bracket(falling: Callable[[Array], Array], level: Array) -> tuple[Array, Array]:
    """Both ends of an interval of epsilons >= 0 in which a falling function passes ``level``."""
    low, high = np.zeros_like(level), np.full_like(level, FAR)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        above = falling(middle) > level
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return low, high


@dataclass(frozen=True)
class Gaussian(TradeOff):
    """``G_mu(alpha) = Phi(Phi^-1(1 - alpha) - mu)``: N(0, 1) against N(mu, 1).

    Parameters
    ----------
    mu : float
        At least 0; 0 is perfect privacy, ``Id(alpha) = 1 - alpha``.
    """

    mu: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", real("mu", self.mu, inclusive=True))

    def log_delta_above(self, epsilon: Array) -> Array:
        return log_gdp_delta(self.mu, epsilon)

    def log_alpha_above(self, epsilon: Array) -> Array:
        return log_ndtr(-epsilon / self.mu - self.mu / 2) if self.mu else np.full(np.shape(epsilon), -np.inf)

    @property
    def inverse(self) -> Gaussian:
        """Itself: the pair is symmetric."""
        return self

    def values(self, alpha: Array) -> Array:
        return ndtr(-ndtri(alpha) - self.mu)

    def epsilon(self, delta: float) -> float:
        return gdp_epsilon(self.mu, probability("delta", delta))

    def group(self, size: int) -> TradeOff:
        """``G`` of ``size mu``."""
        return Gaussian(integer("size", size) * self.mu)


@dataclass(frozen=True)
class OfPair(Smooth):
    """The law that a step dominates with: its Q is the null hypothesis, its P the alternative.

    ``OfPair(PoissonRemove(q, mu))`` is ``q G_mu + (1 - q) Id``, ``OfPair(Amplified(q, mu))`` is ``C_q(G_mu)``.

    Parameters
    ----------
    law : StepLaw
        The pair.
    """

    law: StepLaw

    def log_delta_above(self, epsilon: Array) -> Array:
        return self.law.log_delta(epsilon)

    def log_alpha_above(self, epsilon: Array) -> Array:
        return self.law.log_above(epsilon)

    @property
    def inverse(self) -> OfPair:
        """The pair in the other order."""
        return OfPair(self.law.reverse)

    @property
    def greatest(self) -> float:
        return self.law.greatest
