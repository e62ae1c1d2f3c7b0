"""The privacy loss of a fixed-size batch where the record may be absent and its place is then empty.

Three centres: the record's, that of its empty place, and that of the batch without either. The first two are at most ``mu`` apart,
the empty place and the batch without it as well, the record and that batch at most ``2 mu``. With ``A_m(g) = 1 - q + q exp(m g -
m^2/2)``, g ~ N(0, 1) and h > 3 mu / 2, the record's presence against its absence has the profile, at ``epsilon >= 0``, of

    ``(1 - q) N(0, 1) + q N(2 mu, 1)``  against  ``(1 - q) N(0, 1) + q N(mu, 1)``,

and the absence against the presence that of ``(1 - q) N(0, 1) + q N(mu, 1)`` against N(0, 1). So the loss is ``log A_2mu(h) - log
A_mu(h)`` where it is positive, and ``-log A_mu(g)``, g > mu / 2, where it is negative; the rest is an atom at 0. No pair is
smaller: each of the two profiles is that of some data. Proof: ``docs/proofs/exact-composition.md``, section 6.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from scipy.special import log_ndtr, ndtr

from dplateau.accounting.amplified import Amplified, half_line, joined
from dplateau.accounting.decay import lost
from dplateau.accounting.gaussian import Array, log_gdp_delta, log_subtract, symmetric_log_delta
from dplateau.accounting.privacy_loss import ANGLES, Nodes, StepLaw

Profile: TypeAlias = Callable[[Array], Array]


class _EmptyPlace(Amplified):
    """What both directions share; ``mu`` is the sensitivity of one presence over the noise. Not shifted."""

    def _far(self, c: float, omega: float, log_tolerance: float, reach: float) -> tuple[Array, Array, Array, Array]:
        """Points h > 3 mu / 2 up to ``reach``: h, the log of their N(0, 1) masses, ``log A_mu`` and ``log A_2mu - log A_mu``."""
        scale, y = 1 / max(1.0, 2 * self.mu), ANGLES[ANGLES < 1.5]
        growth = (scale * y) ** 2 / 2 + omega * 2 * self.mu * scale * y - np.log(np.cos(y)) - 2 * c * np.log(np.cos(y / 2))
        _, above, h, log_w = half_line(1.5 * self.mu, scale, (log_tolerance - 1, reach / scale), growth, log_tolerance)
        log_a = self._log_ratio(h)
        # A_2mu - A_mu = q exp(mu h - mu^2/2) (exp(mu (h - 3 mu/2)) - 1): the difference keeps its digits near 3 mu / 2.
        drawn, rise = math.log(self.q) + self.mu * h - self.mu**2 / 2 - log_a, self.mu * above
        more = rise + np.log(-np.expm1(-np.maximum(rise, 1e-300)))
        return h, log_w, log_a, np.logaddexp(0.0, drawn + more)

    def _meeting(self, epsilon: Array) -> Array:
        """The h at which ``log A_2mu - log A_mu`` is epsilon >= 0: a quadratic in ``exp(mu (h - 3 mu / 2))``."""
        odds = (1 - self.q) / self.q * math.exp(-(self.mu**2))
        root = np.sqrt(1 - 4 * odds * np.expm1(-epsilon) * np.exp(-epsilon))
        return 1.5 * self.mu + (epsilon + np.log1p(root) - math.log(2)) / self.mu

    def _log_present(self, epsilon: Array) -> Array:
        """log delta of presence against absence at epsilon >= 0."""
        h = self._meeting(epsilon)
        with np.errstate(divide="ignore"):
            missed = np.log((1 - self.q) * np.expm1(epsilon)) + log_ndtr(-h)
        missed = np.logaddexp(missed, math.log(self.q) + epsilon + log_ndtr(self.mu - h))
        return log_subtract(math.log(self.q) + log_ndtr(2 * self.mu - h), 1.0, missed)

    def _log_absent(self, epsilon: Array) -> Array:
        """log delta of absence against presence at epsilon >= 0."""
        return math.log(self.q) + log_gdp_delta(self.mu, np.log1p(np.expm1(epsilon) / self.q))

    def _mixture_above(self, x: Array, mu: float) -> Array:
        """Mass of ``(1 - q) N(0, 1) + q N(mu, 1)`` above x."""
        return (1 - self.q) * ndtr(-x) + self.q * ndtr(mu - x)

    @property
    def unsampled(self) -> float:
        return 2 * self.mu


def _both_sides(epsilon: Array, log_delta: Profile, log_reverse: Profile) -> Array:
    """log delta at any epsilon, from those of both directions at epsilon >= 0."""
    size = np.abs(epsilon)
    return symmetric_log_delta(epsilon, np.where(epsilon >= 0, log_delta(size), log_reverse(size)))


class PresentOrEmpty(_EmptyPlace):
    """P is the data set with the record, Q the one with its place empty."""

    def nodes(self, c: float, omega: float, log_tolerance: float) -> Nodes:
        # The ratio is at most exp(mu (h - 3 mu / 2)), and P a mixture of N(0, 1) and N(2 mu, 1).
        reach = (2 + c) * self.mu + math.sqrt(2 * (-log_tolerance + c * (1 + c) * self.mu**2 / 2))
        h, log_w, log_a, loss = self._far(c, omega, log_tolerance, reach)
        present = Nodes(h, log_w + log_a + loss, loss, 2 * math.exp(log_tolerance))
        return joined([present, self._outer(c, omega, log_tolerance)[1]])

    def decay(self, c: float, omega: float, spread: float = 0.0) -> float:
        """From the negative losses, which are those of ``Amplified``; the others count in full."""
        parts, log_error = self._bent(c, omega)
        return lost(parts[1:], self._mass(c), log_error)

    def log_delta(self, epsilon: Array) -> Array:
        return _both_sides(np.asarray(epsilon, dtype=float), self._log_present, self._log_absent)

    def log_above(self, epsilon: Array) -> Array:
        epsilon = np.asarray(epsilon, dtype=float)
        size = np.abs(epsilon)
        below = np.log1p(-self._mixture_above(self._threshold(size), self.mu))
        with np.errstate(divide="ignore"):
            return np.where(epsilon >= 0, np.log(self._mixture_above(self._meeting(size), self.mu)), below)

    @property
    def reverse(self) -> StepLaw:
        return EmptyOrPresent(self.q, self.mu)


class EmptyOrPresent(_EmptyPlace):
    """P is the data set in which the record's place is empty, Q the one with the record."""

    def nodes(self, c: float, omega: float, log_tolerance: float) -> Nodes:
        # The ratio is at most 1, and P a mixture of N(0, 1) and N(mu, 1).
        h, log_w, log_a, loss = self._far(c, omega, log_tolerance, self.mu + math.sqrt(-2 * log_tolerance))
        present = Nodes(h, log_w + log_a, -loss, 2 * math.exp(log_tolerance))
        return joined([self._outer(c, omega, log_tolerance)[0], present])

    def decay(self, c: float, omega: float, spread: float = 0.0) -> float:
        """From the positive losses, which are those of ``Amplified``; the others count in full."""
        parts, log_error = self._bent(c, omega)
        return lost(parts[:1], self._mass(c), log_error)

    def log_delta(self, epsilon: Array) -> Array:
        return _both_sides(np.asarray(epsilon, dtype=float), self._log_absent, self._log_present)

    def log_above(self, epsilon: Array) -> Array:
        epsilon = np.asarray(epsilon, dtype=float)
        size = np.abs(epsilon)
        below = np.log1p(-self._mixture_above(self._meeting(size), 2 * self.mu))
        return np.where(epsilon >= 0, log_ndtr(-self._threshold(size)), below)

    @property
    def reverse(self) -> StepLaw:
        return PresentOrEmpty(self.q, self.mu)
