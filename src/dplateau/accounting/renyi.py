"""Renyi differential privacy of a composition, and its conversions to (epsilon, delta).

The Renyi divergence of order a > 1 is ``K(a - 1) / (a - 1)``, with K the log moment generating function of the privacy loss
that the exact composition uses, so it covers every step law at fractional orders; the larger of the two directions counts.
Sources: Mironov, Talwar, Zhang 2019 (sampled Gaussian); Canonne, Kamath, Steinke 2020, Proposition 12 (conversion); Abadi et
al. 2016 (the classical conversion of the moments accountant).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np

from dplateau.accounting.composition import Guarantee
from dplateau.accounting.contour import RealAxis, rough_epsilon
from dplateau.accounting.enclosure import Enclosure
from dplateau.accounting.gaussian import LEAST, ULP
from dplateau.accounting.privacy_loss import TooSlowError
from dplateau.accounting.roots import minimum
from dplateau.accounting.terms import Composition, renyi_divergence

_SEARCH: Final = (math.log(0.01), math.log(1000.0))
"""Range of log(order - 1) in which the best order is sought."""
_NEAR: Final = 0.3
"""Where a tilted Gaussian says less, few losses may decide, and it may be far off."""
LARGEST: Final = 1e9
"""Larger values count as infinite, and as this one in the search."""


def convert(order: float, divergence: float, delta: float, *, classical: bool) -> float:
    """The epsilon at ``delta`` that a Renyi divergence of one order gives."""
    if classical:
        return divergence + math.log(1 / delta) / (order - 1)
    return divergence + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)


@dataclass(frozen=True)
class RenyiDP(Guarantee):
    """The best order's (epsilon, delta), of the larger direction.

    Attributes
    ----------
    directions : tuple of Composition
        The laws under (P, Q) and under (Q, P); one entry if they are equal.
    classical : bool
        Use the moments accountant's conversion instead of the sharper one.
    orders : tuple of float, optional
        Try only these, as implementations of the moments accountant do (Bu, Dong, Long, Su 2020, Appendix B.3: delta_nMA), and do
        not search.
    """

    directions: tuple[Composition, ...]
    classical: bool = False
    orders: tuple[float, ...] = ()

    def divergence(self, order: float) -> float:
        return max(renyi_divergence(direction, order) for direction in self.directions)

    def epsilon(self, delta: float) -> Enclosure:
        least = self._least(_epsilons(float(delta), classical=self.classical))
        return Enclosure(0.0, least if least < LARGEST else math.inf)

    def delta(self, epsilon: float) -> Enclosure:
        epsilon = float(epsilon)

        def log_delta(order: float, divergence: float) -> float:
            constant = 0.0 if self.classical else (order - 1) * math.log1p(-1 / order) - math.log(order)
            terms = (order - 1) * (divergence + epsilon) + 1 + math.log(order)
            return min((order - 1) * (divergence - epsilon) + constant + 8 * ULP * terms, LARGEST)

        return Enclosure(0.0, min(math.exp(min(self._least(log_delta), 0.0)) + LEAST, 1.0))

    def _least(self, f: Callable[[float, float], float]) -> float:
        """The least ``f(order, divergence)`` that a short search finds: every order is a bound.

        The search takes K without its error; the value is that of the certified divergence, which is looked up at the best order.
        """

        def certified(x: float) -> float:
            order = 1 + math.exp(x)
            return f(order, self.divergence(order))

        with np.errstate(all="ignore"):
            if self.orders:
                return min(certified(math.log(order - 1)) for order in self.orders)
            x, value = _search(self.directions, f)
            found = certified(x)
            # Where K can be computed but not bounded, the bound itself is searched.
            return found if found <= value + 1e-3 * (1 + abs(value)) else minimum(certified, *_SEARCH, xtol=0.02)[1]


def _epsilons(delta: float, *, classical: bool) -> Callable[[float, float], float]:
    """The epsilon of an order and its divergence, rounded up, as far as it is told apart from infinity."""

    def epsilon(order: float, divergence: float) -> float:
        terms = divergence + 1 / (order - 1) + (math.log(order) - math.log(delta)) / (order - 1)
        return min(max(convert(order, divergence, delta, classical=classical) + 8 * ULP * terms, 0.0), LARGEST)

    return epsilon


def _search(directions: tuple[Composition, ...], f: Callable[[float, float], float]) -> tuple[float, float]:
    """log(order - 1) at which ``f(order, divergence)`` is about the least, and its value, of K without its error."""
    axes = [RealAxis(composition) for composition in directions]

    def rough(x: float) -> float:
        order = 1 + math.exp(x)
        try:
            return f(order, max(axis(order - 1)[0] for axis in axes) / (order - 1))
        except (TooSlowError, OverflowError):
            return f(order, math.inf)

    return minimum(rough, *_SEARCH, xtol=0.02)


def about_epsilon(composition: Composition, delta: float, near: float = _NEAR) -> float:
    """About what epsilon is, for searches: by a tilted Gaussian, or what Renyi divergences say where that is below ``near``.

    Look-backs are compared as it is; a search that is confirmed afterwards takes ``near`` = 0.
    """
    with np.errstate(all="ignore"):
        with suppress(ArithmeticError, ValueError):
            if near < (value := rough_epsilon(composition, delta)) < math.inf:
                return value
        least = _search((composition,), _epsilons(delta, classical=False))[1]
    return least if least < LARGEST else math.inf
