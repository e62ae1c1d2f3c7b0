"""The privacy loss of a step that is amplified by sampling, where the whole of P may be shifted.

The pair is symmetric. Its profile at ``epsilon >= log(y)``, ``log(y) = shift (shift + mu) / 2``, is that of the mixture
``(1 - q) N(shift, 1) + q N(shift + mu, 1)`` against N(0, 1); nearer to 0 it is that of the two components told apart,
``(1 - q) delta(shift) + q delta(shift + mu)`` with the profiles of plain Gaussian shifts. Without a shift it is C_q(G_mu) of Dong,
Roth, Su, and the inner part an atom at loss 0. That it dominates the step: ``docs/proofs/sampled-last-iterate.md``, section 4.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Final

import numpy as np
from scipy.special import expit, log_ndtr, ndtr, roots_legendre

from dplateau.accounting.decay import LOG_TOLERANCE, Factor, Paths, Turned, log_grown, lost
from dplateau.accounting.gaussian import LOG_SQRT_2PI, Array, log_gdp_delta, log_subtract, magnified, symmetric_log_delta
from dplateau.accounting.nodes import Nodes
from dplateau.accounting.privacy_loss import ANGLES, MOST, StepLaw, TooSlowError

_ELLIPSES: Final = np.geomspace(1.1, 60.0, 24)
_HIGHEST: Final = 1.4
"""Largest angle of a bent path in t."""
_legendre: Final = cache(roots_legendre)
_LEGENDRE: Final = 1024
"""Greatest number of nodes of the inner part."""


def joined(parts: list[Nodes]) -> Nodes:
    """The nodes of all parts of a law."""
    g, log_p, loss = (np.concatenate([getattr(part, name) for part in parts]) for name in ("g", "log_p", "loss"))
    return Nodes(g, log_p, loss, sum(part.error for part in parts))


def half_line(
    start: float, scale: float, ends: tuple[float, float], growth: Array, log_tolerance: float
) -> tuple[Array, Array, Array, Array]:
    """Trapezoid points t, ``h - start = scale log(1 + e^t)``, h, and the log of their N(0, 1) masses.

    ``growth`` is the log of what the integrand gains where t moves by the angles below 1.5: it decides on the step.
    """
    step = float((2 * math.pi * ANGLES[ANGLES < 1.5] / (growth + math.log(8.0) - log_tolerance)).max())
    first, last = ends
    if not last - first < MOST * step:
        raise TooSlowError
    t = step * np.arange(math.floor(first / step), math.ceil(last / step) + 1)
    above = scale * np.logaddexp(0.0, t)
    h = start + above
    return t, above, h, math.log(step * scale) - np.logaddexp(0.0, -t) - LOG_SQRT_2PI - h**2 / 2


class Amplified(StepLaw):
    """C_q(G_mu), shifted: a symmetric law.

    For ``h > mu/2`` the outer losses are plus and minus ``shift h + shift^2/2 + log A(h)``, with densities ``phi(h) A(h)`` and
    ``phi(h + shift)`` under P. The half-line is mapped on the line by ``h = mu/2 + scale log(1 + e^t)``, which keeps the trapezoid
    sum exponentially accurate. The inner losses are those of the two Gaussian pairs, on intervals, by Gauss-Legendre quadrature
    (error bound: Trefethen, Approximation Theory and Approximation Practice, Theorem 19.3).
    """

    @property
    def _inner(self) -> float:
        """The loss that divides the outer part from the inner one."""
        return self.shift * (self.shift + self.mu) / 2

    @property
    def _edges(self) -> tuple[float, float]:
        """The least and the greatest inner loss."""
        return -self._inner, self._inner

    @property
    def _scale(self) -> float:
        """Of the map from the line to the half-line."""
        return 1 / max(1.0, self.mu)

    def nodes(self, c: float, omega: float, log_tolerance: float) -> Nodes:
        up, down = self._outer(c, omega, log_tolerance)
        return joined([up, down, *self._middle(c, omega, log_tolerance)])

    def _outer(self, c: float, omega: float, log_tolerance: float) -> tuple[Nodes, Nodes]:
        scale, y = self._scale, ANGLES[ANGLES < 1.5]
        growth = (scale * y) ** 2 / 2 + omega * (self.mu + self.shift) * scale * y - np.log(np.cos(y))
        growth -= c * (2 + self.shift * scale) * np.log(np.cos(y / 2))
        reach = max(self._reach(c, log_tolerance), self.mu + math.sqrt(-2 * log_tolerance))
        ends = log_tolerance - 1 - c * self._inner, reach / scale
        t, above, h, log_w = half_line(self.mu / 2, scale, ends, growth, log_tolerance)
        # Just above mu/2, h - mu/2 is known better than h: log A is taken from it.
        ratio = np.log1p(self.q * np.expm1(np.minimum(self.mu * above, 1.0)))
        ratio = np.where(self.mu * above < 1.0, ratio, self._log_ratio(h))
        moved = self.shift * (h + self.shift / 2)
        error = 2 * math.exp(log_tolerance)
        return Nodes(t, log_w + ratio, ratio + moved, error), Nodes(t, log_w - moved, -ratio - moved, error)

    @property
    def _pairs(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Half the distance of each Gaussian pair, and its weight."""
        return (self.shift / 2, 1 - self.q), ((self.shift + self.mu) / 2, self.q)

    def _log_told(self, epsilon: Array) -> Array:
        """log delta of the inner part, both pairs told apart, at epsilon >= 0."""
        first, second = (math.log(p) + log_gdp_delta(2 * m, epsilon) for m, p in self._pairs)
        return np.logaddexp(first, second)

    def _log_told_above(self, epsilon: Array) -> Array:
        """``log Q(L > epsilon)`` at an inner loss."""
        first, second = (math.log(p) + log_ndtr(-epsilon / (2 * m) - m) for m, p in self._pairs)
        return np.logaddexp(first, second)

    def _middle(self, c: float, omega: float, log_tolerance: float) -> list[Nodes]:
        """Each Gaussian pair, N(m, 1) against N(-m, 1) with weight p, where its loss 2 m u is an inner one."""
        if not self.shift:
            return []
        found: list[Nodes] = []
        low, high = self._edges
        for m, p in self._pairs:
            width, centre = (high - low) / (4 * m), (high + low) / (4 * m)
            along, across = (_ELLIPSES + 1 / _ELLIPSES) / 2, (_ELLIPSES - 1 / _ELLIPSES) / 2
            growth = (width * across) ** 2 / 2 + 2 * m * (c * (centre + width * along) + omega * width * across)
            constant = math.log(8 * width) - np.log1p(-(_ELLIPSES**-2.0))
            count = float(((growth + constant - log_tolerance) / (2 * np.log(_ELLIPSES))).min())
            if not count < _LEGENDRE:
                raise TooSlowError
            points, weights = _legendre(16 * math.ceil(max(count, 1) / 16))
            u = centre + width * points
            log_p = np.log(p * width * weights) - LOG_SQRT_2PI - (u - m) ** 2 / 2
            found.append(Nodes(u, log_p, 2 * m * u, math.exp(log_tolerance)))
        return found

    def decay(self, c: float, omega: float, spread: float = 0.0) -> float:
        """The line is bent in t; the inner part is not bent, its mass counts in full.

        All of the law is meant whatever the ``spread``: the Gaussians' likelihood ratio is at least 1 (``docs/proofs/contour.md``).
        """
        parts, log_error = self._bent(c, omega)
        return lost(parts, self._mass(c), log_error)

    def _mass(self, c: float) -> float:
        """m(c), rounded up."""
        return (1 + self.nodes(c, 0.0, LOG_TOLERANCE).moments(c)[0]) * (1 + 1e-10)

    def _bent(self, c: float, omega: float) -> tuple[list[Turned], Array]:
        """The two half-lines on paths, and the log of a bound on the error of their sums relative to m(c)."""
        up, down = self._outer(c, omega, LOG_TOLERANCE)
        scale, first = self._scale, math.log(self.q) - math.log1p(-self.q)
        t, above, pace = up.g, scale * np.logaddexp(0.0, up.g), scale * self.mu
        h = self.mu / 2 + above
        paths = Paths.of(omega / (1 / self.mu**2 + 1) / pace, _HIGHEST)
        angle, steepness = paths(first + pace * t)
        drawn, less = expit(t), 2 * np.sin(angle / 2) ** 2
        nearer = np.log1p(-2 * drawn * (1 - drawn) * less) / 2
        rise, turn = scale * nearer, scale * np.arctan2(drawn * np.sin(angle), 1 - drawn * less)
        log_odds, parts = first + self.mu * above, list[Turned]()
        for nodes, power, pull in ((up, 1 + c, h - c * self.shift), (down, -c, h + (1 + c) * self.shift)):
            growth, size = Factor(power, log_odds).turned(self.mu, rise, turn, omega)
            path = turn**2 / 2 - (pull + rise / 2) * rise - nearer + np.log1p((pace * steepness) ** 2 / 2)
            path -= omega * self.shift * turn
            size += turn**2 + (1 + np.abs(pull)) * np.abs(rise) + np.abs(nearer) + steepness**2 + omega * self.shift * turn
            rounding = 6 + np.abs(nodes.log_p) + np.abs(c * nodes.loss)
            parts.append(Turned(np.exp(nodes.log_p + c * nodes.loss), rounding, growth + path, size))
        return parts, self._log_error(float(t[1] - t[0]), paths.height[:, 0], np.exp(first + paths.lead[:, 0]), c, omega)

    def _log_error(self, step: float, top: Array, early: Array, c: float, omega: float) -> Array:
        """Log of a bound on the error of the modulus' trapezoid sum on paths of these heights, relative to m(c)."""
        scale, pace, y = self._scale, self._scale * self.mu, ANGLES[ANGLES < 1.5]
        top, early = top[:, None], np.minimum(2 * early[:, None], 1.0)
        steep = top * pace / 4 / np.cos(pace * y / 2) ** 2
        reach, start = top + y, y + top * early
        with np.errstate(all="ignore"):
            slant = np.maximum(start, reach / 2) + np.arcsin(steep)
            growth = (
                (scale * reach) ** 2 / 2 + omega * (self.mu + self.shift) * scale * y + log_grown([-c], pace * reach, self.q, start)
            )
            growth -= c * self.shift * scale * np.log(np.cos(start / 2))
            growth += np.log1p(steep**2 / 2) - np.log1p(-steep) - np.log(np.cos(slant)) + math.log(8.0) - 2 * math.pi * y / step
        good = (slant < math.pi / 2) & (start < 1.5) & (reach < 2.0) & np.isfinite(growth)
        best = np.where(good, growth, np.inf).min(axis=1)
        # What the nodes leave out, of the modulus and of m(c), grows no more than that.
        top = top[:, 0]
        ends = (
            math.log(32.0) + LOG_TOLERANCE + (scale * top) ** 2 / 2 + log_grown([-c], pace * top, self.q) - np.log(np.cos(top / 2))
        )
        return np.logaddexp(best, ends)

    def log_delta(self, epsilon: Array) -> Array:
        epsilon = np.asarray(epsilon, dtype=float)
        size = np.abs(epsilon)
        if not self.shift:
            return symmetric_log_delta(epsilon, math.log(self.q) + log_gdp_delta(self.mu, magnified(size, self.q)))
        h = self._threshold(np.maximum(size, self._inner))
        outer = log_subtract(self._log_mixture_above(h), 1.0, size + log_ndtr(-h - self.shift))
        return symmetric_log_delta(epsilon, np.where(size >= self._inner, outer, self._log_told(size)))

    def log_above(self, epsilon: Array) -> Array:
        # Q(L > -e) = 1 - P(L >= e), and P is the mixture beyond the threshold.
        epsilon = np.asarray(epsilon, dtype=float)
        h = self._threshold(np.maximum(np.abs(epsilon), self._inner))
        hit = (1 - self.q) * ndtr(-h) + self.q * ndtr(self.mu - h)
        outer = np.where(epsilon >= 0, log_ndtr(-h - self.shift), np.log1p(-hit))
        if not self.shift:
            return outer
        return np.where(np.abs(epsilon) >= self._inner, outer, self._log_told_above(epsilon))

    @property
    def reverse(self) -> StepLaw:
        return self
