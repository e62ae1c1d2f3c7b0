"""Mixtures of Gaussian guarantees."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from dplateau.accounting.composition import Guarantee
from dplateau.accounting.enclosure import Enclosure
from dplateau.accounting.gaussian import LEAST, SLACK, delta_slack, gdp_epsilon, log_gdp_delta
from dplateau.accounting.roots import root

_LARGE: Final = 700.0
"""Exponents whose powers of e are no larger than any double."""


@dataclass(frozen=True)
class MixtureOfGaussianDP(Guarantee):
    """``delta(epsilon)`` is the mean of those of mu-GDP over ``mus``, weighted by ``weights`` (which sum to 1).

    It holds for a run that reveals, without looking at the data, which of several mu-GDP runs it is: hockey-stick divergences are
    jointly convex. ``below`` holds the same mus rounded down, for the lower ends, where ``mus`` had to be rounded upwards.
    """

    mus: tuple[float, ...]
    weights: tuple[float, ...]
    below: tuple[float, ...] = ()

    @property
    def lower_mus(self) -> tuple[float, ...]:
        """The mus, rounded down."""
        return self.below or self.mus

    def _log_delta(self, mus: tuple[float, ...], epsilon: float) -> float:
        with np.errstate(divide="ignore"):
            logs = np.log(self.weights) + np.minimum(log_gdp_delta(np.array(mus), epsilon), 0.0)
        return float(np.logaddexp.reduce(logs))

    def _epsilon(self, mus: tuple[float, ...], delta: float) -> float:
        target = math.log(delta)
        if max(mus) < math.inf and self._log_delta(mus, 0.0) <= target:
            return 0.0
        high = gdp_epsilon(max(mus), delta)
        if not high < math.inf:
            return math.inf
        return root(lambda e: max(self._log_delta(mus, e) - target, -1e3), 0.0, high * (1 + 1e-9) + 1e-12)

    def epsilon(self, delta: float) -> Enclosure:
        delta, mus = float(delta), self.lower_mus
        upper = self.upper(delta)
        if not upper < math.inf:
            return Enclosure(0.0, math.inf)
        return Enclosure(min(self._epsilon(mus, delta) * (1 - SLACK), self._epsilon(mus, delta * (1 + SLACK))), upper)

    def upper(self, delta: float) -> float:
        delta = float(delta)
        # Where delta hardly falls, or epsilon is next to 0, a rounding of delta is more than a share of epsilon.
        return max(self._epsilon(self.mus, delta) * (1 + SLACK), self._epsilon(self.mus, delta * (1 - SLACK)))

    def delta(self, epsilon: float) -> Enclosure:
        least, most = (math.exp(self._log_delta(mus, epsilon)) for mus in (self.lower_mus, self.mus))
        slack = delta_slack(max(self.mus))
        return Enclosure(max(least * (1 - slack) - LEAST, 0.0), min(most * (1 + slack) + LEAST, 1.0))

    def divergence(self, order: float) -> float:
        """The component is revealed, so powers of the likelihood ratio have the mean of the components'."""
        weights, exponents = np.array(self.weights), (order - 1) * order * np.square(self.mus) / 2
        if exponents.max() < _LARGE:  # Next to order 1 the logarithm is next to 0.
            log_moment = math.log1p(float(weights @ np.expm1(exponents)))
        else:
            log_moment = float(np.logaddexp.reduce(np.log(weights) + exponents))
        return log_moment / (order - 1) * (1 + 1e-9)

    @property
    def mu(self) -> float | None:
        """mu, where all are equal."""
        return self.mus[0] if len(set(self.mus)) == 1 else None
