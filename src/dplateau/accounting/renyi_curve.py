"""A Renyi curve: a bound on the Renyi divergence at every order, read as (epsilon, delta) at the best one.

Source of the conversion: Canonne, Kamath, Steinke 2020, Proposition 12.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar, Final

import numpy as np

from dplateau.accounting.composition import Guarantee
from dplateau.accounting.enclosure import Enclosure
from dplateau.accounting.gaussian import LEAST, ULP
from dplateau.accounting.renyi import LARGEST, convert
from dplateau.accounting.roots import minimum

_ROUNDING: Final = 1e-12


class RenyiCurve(Guarantee):
    """A bound on the Renyi divergence at each order, in both directions. Every order is a bound: the search may be rough."""

    least_order: float = 1.001
    greatest_order: float = 1e8
    tried: ClassVar[int] = 14
    """Orders that are tried before the search."""

    @abstractmethod
    def point(self, order: float, delta: float) -> tuple[float, float]:
        """A bound on the divergence at ``order`` > 1, and a probability (well below ``delta``) outside of which it holds."""

    def divergence(self, order: float) -> float:
        """A bound on the Renyi divergence that holds without exception; infinite where there is none."""
        bound, outside = self.point(order, 0.0)
        return math.inf if outside > 0 else bound

    def epsilon(self, delta: float) -> Enclosure:
        delta = float(delta)

        def at(order: float) -> float:
            bound, outside = self.point(order, delta)
            if not bound < math.inf or not outside < delta:
                return LARGEST
            return min(max(convert(order, bound, delta - outside, classical=False), 0.0), LARGEST)

        least = self._least(at)
        return Enclosure(0.0, least * (1 + _ROUNDING) + (_ROUNDING if least else 0.0) if least < LARGEST else math.inf)

    def delta(self, epsilon: float) -> Enclosure:
        epsilon, allowed, value = float(epsilon), 1e-9, 1.0
        for _ in range(2):  # What the divergence may leave out is first guessed, then fitted to the delta that was found.

            def at(order: float, allowed: float = allowed) -> float:
                bound, outside = self.point(order, allowed)
                if not bound < math.inf:
                    return LARGEST
                # Of a large epsilon, or at a large order, a difference has lost digits.
                rounding = 8 * ULP * ((order - 1) * (abs(bound) + epsilon) + 1 + math.log(order))
                log_delta = (order - 1) * (bound - epsilon + math.log1p(-1 / order)) - math.log(order) + rounding
                return float(np.logaddexp(log_delta, math.log(outside))) if outside else log_delta

            value = min(value, math.exp(min(self._least(at), 0.0)))
            allowed = value
        return Enclosure(0.0, min(value * (1 + _ROUNDING) + LEAST, 1.0))

    def _least(self, f: Callable[[float], float]) -> float:
        """The least value of f over the orders: a coarse grid, then a search around its best point."""
        x = np.linspace(math.log(self.least_order - 1), math.log(self.greatest_order - 1), self.tried)
        values = [f(1 + math.exp(each)) for each in x]
        best = int(np.argmin(values))
        around = float(x[max(best - 1, 0)]), float(x[min(best + 1, self.tried - 1)])
        return min(minimum(lambda each: f(1 + math.exp(each)), *around, xtol=0.01)[1], values[best])
