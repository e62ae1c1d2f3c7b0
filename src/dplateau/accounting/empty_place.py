"""The privacy loss of a fixed-size batch where the record may be absent and its place is then empty.

Three centres: the record's, that of its empty place, and that of the batch without either. The first two are at most ``mu`` apart,
the empty place and the batch without it as well, the record and that batch at most ``2 mu``; all centres of one data set may be
moved by up to a ``shift`` b, whatever is drawn. With ``A_m(g) = 1 - q + q exp(m g - m^2/2)``, g ~ N(0, 1), the record's presence
against its absence has, for a large ``epsilon``, the profile of

    ``(1 - q) N(b, 1) + q N(b + 2 mu, 1)``  against  ``(1 - q) N(0, 1) + q N(mu, 1)``,

and the absence against the presence that of ``(1 - q) N(b, 1) + q N(b + mu, 1)`` against N(0, 1). So the loss is

- above ``3 b (b + mu) / 2``: ``b (h + b/2) + log A_2mu(h) - log A_mu(h + b)``, h > b + 3 mu/2;
- below ``-b (b + mu) / 2``: ``-b (g + b/2) - log A_mu(g)``, g > mu/2;
- in between that of two Gaussian pairs told apart, as in ``Amplified``.

Without a shift the last is an atom at 0, and no pair is smaller: each of the two profiles is that of some data. Proof:
``docs/proofs/exact-composition.md``, section 6, and, with a shift, ``docs/proofs/sampled-last-iterate.md``, section 4. Quadrature:
``docs/proofs/contour.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from scipy.special import ndtr

from dplateau.accounting.amplified import Amplified, half_line, joined
from dplateau.accounting.decay import lost
from dplateau.accounting.gaussian import Array, log_expm1, log_subtract, log_within, symmetric_log_delta
from dplateau.accounting.nodes import Nodes
from dplateau.accounting.privacy_loss import ANGLES, StepLaw
from dplateau.accounting.roots import crossing

Profile: TypeAlias = Callable[[Array], Array]


class _EmptyPlace(Amplified):
    """What both directions share; ``mu`` is the sensitivity of one presence over the noise."""

    @property
    def _start(self) -> float:
        """The h from which on presence is what it is on the line."""
        return self.shift + 1.5 * self.mu

    @property
    def _present(self) -> float:
        """The loss of presence there."""
        return 3 * self._inner

    def _far(self, c: float, omega: float, log_tolerance: float, reach: float) -> tuple[Array, Array, Array, Array]:
        """Points h > ``_start`` up to ``reach``: h, the log of their N(0, 1) masses, ``log A_2mu(h)`` and the loss of presence."""
        scale, y = 1 / max(1.0, 2 * self.mu), ANGLES[ANGLES < 1.5]
        back = -scale * np.log(np.cos(y / 2))
        growth = (scale * y) ** 2 / 2 + omega * (2 * self.mu + self.shift) * scale * y - np.log(np.cos(y))
        growth -= c * (2 + self.shift * scale) * np.log(np.cos(y / 2))
        growth += np.log1p(back * (self._start + 1) * np.exp(1.5 + self._start * back))
        first = log_tolerance - 3 - math.log1p(self._start)
        _, above, h, log_w = half_line(self._start, scale, (first, reach / scale), growth, log_tolerance)
        # A_2mu(h) - A_mu(h + b) = q exp(mu (h + b) - mu^2/2) (exp(mu (h - b - 3 mu/2)) - 1): the difference keeps its digits.
        log_a, rise = self._log_ratio(h + self.shift), self.mu * above
        drawn = math.log(self.q) + self.mu * (h + self.shift) - self.mu**2 / 2 - log_a
        more = np.logaddexp(0.0, drawn + rise + np.log(-np.expm1(-np.maximum(rise, 1e-300))))
        return h, log_w, log_a + more, more + self.shift * (h + self.shift / 2)

    def _loss(self, h: Array) -> Array:
        """The loss of presence."""
        drawn = 2 * self.mu * (h - self.mu)
        twice = np.logaddexp(math.log1p(-self.q), math.log(self.q) + drawn)
        return self.shift * (h + self.shift / 2) + twice - self._log_ratio(h + self.shift)

    def _meeting(self, epsilon: Array) -> Array:
        """The h at which the loss of presence is epsilon; without a shift a quadratic in ``exp(mu (h - 3 mu / 2))``."""
        if self.shift:
            # Left of the start the loss need not rise; it is not asked for there.
            first = self._loss(np.array(self._start))
            return crossing(lambda h: np.where(h < self._start, first + h - self._start, self._loss(h)), epsilon)
        odds = (1 - self.q) / self.q * math.exp(-(self.mu**2))
        more = -4 * odds * np.expm1(-epsilon) * np.exp(-epsilon)
        return 1.5 * self.mu + (epsilon + np.log1p(more / (2 + 2 * np.sqrt(1 + more)))) / self.mu

    def _log_present(self, epsilon: Array) -> Array:
        """log delta of presence against absence at epsilon >= 0."""
        h = self._meeting(np.maximum(epsilon, self._present))
        if self.shift:
            outer = log_subtract(self._log_mixed(-h, 2 * self.mu - h), 1.0, epsilon + self._log_mixture_above(h + self.shift))
            return np.where(epsilon >= self._present, outer, self._log_told(epsilon))
        missed = log_expm1(epsilon) + self._log_mixture_above(h)
        return log_subtract(math.log(self.q) + log_within(h - 1.5 * self.mu, self.mu / 2), 1.0, missed)

    def _log_absent(self, epsilon: Array) -> Array:
        """log delta of absence against presence at epsilon >= 0: that of ``Amplified``."""
        return Amplified.log_delta(self, epsilon)

    def _told_between(self, epsilon: Array, beyond: Array) -> Array:
        """``log Q(L > epsilon)`` from what it is beyond the inner losses."""
        low, high = self._edges
        return np.where((low < epsilon) & (epsilon < high), self._log_told_above(epsilon), beyond) if self.shift else beyond


def _both_sides(epsilon: Array, log_delta: Profile, log_reverse: Profile) -> Array:
    """log delta at any epsilon, from those of both directions at epsilon >= 0."""
    size = np.abs(epsilon)
    return symmetric_log_delta(epsilon, np.where(epsilon >= 0, log_delta(size), log_reverse(size)))


class PresentOrEmpty(_EmptyPlace):
    """P is the data set with the record, Q the one with its place empty."""

    @property
    def _edges(self) -> tuple[float, float]:
        return -self._inner, self._present

    def nodes(self, c: float, omega: float, log_tolerance: float) -> Nodes:
        # The ratio is at most exp(b (h + b/2) + mu (h - b - 3 mu / 2)), and P a mixture of N(0, 1) and N(2 mu, 1).
        pull = self.shift + self.mu
        reach = 2 * self.mu + c * pull + math.sqrt(2 * (-log_tolerance + c * (1 + c) * pull**2 / 2))
        h, log_w, log_a, loss = self._far(c, omega, log_tolerance, reach)
        present = Nodes(h, log_w + log_a, loss, 2 * math.exp(log_tolerance))
        return joined([present, self._outer(c, omega, log_tolerance)[1], *self._middle(c, omega, log_tolerance)])

    def decay(self, c: float, omega: float, spread: float = 0.0) -> float:
        """From the negative losses, which are those of ``Amplified``; the others count in full."""
        parts, log_error = self._bent(c, omega)
        return lost(parts[1:], self._mass(c), log_error)

    def log_delta(self, epsilon: Array) -> Array:
        return _both_sides(np.asarray(epsilon, dtype=float), self._log_present, self._log_absent)

    def log_above(self, epsilon: Array) -> Array:
        # Where presence tells more Q lies above the place where its loss is met; where it tells less it is as for ``Amplified``.
        epsilon = np.asarray(epsilon, dtype=float)
        met = self._meeting(np.maximum(epsilon, self._present))
        more = self._log_mixture_above(met + self.shift)
        return self._told_between(epsilon, np.where(epsilon >= self._present, more, Amplified.log_above(self, epsilon)))

    @property
    def reverse(self) -> StepLaw:
        return EmptyOrPresent(self.q, self.mu, self.shift)


class EmptyOrPresent(_EmptyPlace):
    """P is the data set in which the record's place is empty, Q the one with the record."""

    @property
    def _edges(self) -> tuple[float, float]:
        return -self._present, self._inner

    def nodes(self, c: float, omega: float, log_tolerance: float) -> Nodes:
        # The ratio is at most 1, and P a mixture of N(-b, 1) and N(mu - b, 1).
        h, log_w, log_a, loss = self._far(c, omega, log_tolerance, self.mu + math.sqrt(-2 * log_tolerance))
        present = Nodes(h, log_w + log_a - loss, -loss, 2 * math.exp(log_tolerance))
        return joined([self._outer(c, omega, log_tolerance)[0], present, *self._middle(c, omega, log_tolerance)])

    def decay(self, c: float, omega: float, spread: float = 0.0) -> float:
        """From the positive losses, which are those of ``Amplified``; the others count in full."""
        parts, log_error = self._bent(c, omega)
        return lost(parts[:1], self._mass(c), log_error)

    def log_delta(self, epsilon: Array) -> Array:
        return _both_sides(np.asarray(epsilon, dtype=float), self._log_absent, self._log_present)

    def log_above(self, epsilon: Array) -> Array:
        epsilon = np.asarray(epsilon, dtype=float)
        met = self._meeting(np.maximum(-epsilon, self._present))
        hit = (1 - self.q) * ndtr(-met) + self.q * ndtr(2 * self.mu - met)
        return self._told_between(epsilon, np.where(epsilon >= self._inner, Amplified.log_above(self, epsilon), np.log1p(-hit)))

    @property
    def reverse(self) -> StepLaw:
        return PresentOrEmpty(self.q, self.mu, self.shift)
