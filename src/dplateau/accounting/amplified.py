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
from scipy.special import log_ndtr, ndtr, roots_legendre

from dplateau.accounting.gaussian import Array, log_gdp_delta, symmetric_log_delta
from dplateau.accounting.privacy_loss import ANGLES, LOG_SQRT_2PI, MOST, Nodes, StepLaw, TooSlowError, log_subtract

_ELLIPSES: Final = np.geomspace(1.1, 60.0, 24)
_LEGENDRE: Final = 1024
"""Greatest number of nodes of the inner part."""


@cache
def _legendre(count: int) -> tuple[Array, Array]:
    points, weights = roots_legendre(count)
    return np.asarray(points), np.asarray(weights)


def _joined(parts: list[Nodes]) -> Nodes:
    g, log_p, loss = (np.concatenate([getattr(part, name) for part in parts]) for name in ("g", "log_p", "loss"))
    return Nodes(g, log_p, loss, sum(part.error for part in parts))


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

    def nodes(self, c: float, omega: float, log_tolerance: float) -> Nodes:
        up, down = self._outer(c, omega, log_tolerance)
        return _joined([up, down, *self._middle(c, omega, log_tolerance)])

    def _outer(self, c: float, omega: float, log_tolerance: float) -> tuple[Nodes, Nodes]:
        scale = 1 / max(1.0, self.mu)
        y = ANGLES[ANGLES < 1.5]
        growth = (
            (scale * y) ** 2 / 2 + omega * (self.mu + self.shift) * scale * y - np.log(np.cos(y)) - 2 * c * np.log(np.cos(y / 2))
        )
        step = float((2 * math.pi * y / (growth + math.log(8.0) - log_tolerance)).max())
        reach = max(self._reach(c, log_tolerance), self.mu + math.sqrt(-2 * log_tolerance))
        first, last = log_tolerance - 1 - c * self._inner, reach / scale
        if not last - first < MOST * step:
            raise TooSlowError
        t = step * np.arange(math.floor(first / step), math.ceil(last / step) + 1)
        above = scale * np.logaddexp(0.0, t)
        h = self.mu / 2 + above
        log_w = math.log(step * scale) - np.logaddexp(0.0, -t) - LOG_SQRT_2PI - h**2 / 2
        # Just above mu/2, h - mu/2 is known better than h: log A is taken from it.
        ratio = np.log1p(self.q * np.expm1(np.minimum(self.mu * above, 1.0)))
        ratio = np.where(self.mu * above < 1.0, ratio, self._log_ratio(h))
        moved = self.shift * (h + self.shift / 2)
        error = 2 * math.exp(log_tolerance)
        return Nodes(h, log_w + ratio, ratio + moved, error), Nodes(h, log_w - moved, -ratio - moved, error)

    def _middle(self, c: float, omega: float, log_tolerance: float) -> list[Nodes]:
        """Each Gaussian pair, N(m, 1) against N(-m, 1) with weight p, where its loss 2 m u is an inner one."""
        if not self.shift:
            return []
        found: list[Nodes] = []
        for m, p in ((self.shift / 2, 1 - self.q), ((self.shift + self.mu) / 2, self.q)):
            width = self._inner / (2 * m)
            along, across = (_ELLIPSES + 1 / _ELLIPSES) / 2, (_ELLIPSES - 1 / _ELLIPSES) / 2
            growth = (width * across) ** 2 / 2 + 2 * m * width * (c * along + omega * across)
            constant = math.log(8 * width) - np.log1p(-(_ELLIPSES**-2.0))
            count = float(((growth + constant - log_tolerance) / (2 * np.log(_ELLIPSES))).min())
            if not count < _LEGENDRE:
                raise TooSlowError
            points, weights = _legendre(16 * math.ceil(max(count, 1) / 16))
            u = width * points
            log_p = np.log(p * width * weights) - LOG_SQRT_2PI - (u - m) ** 2 / 2
            found.append(Nodes(u, log_p, 2 * m * u, math.exp(log_tolerance)))
        return found

    def tail(self, c: float, omega: float) -> float:
        """See ``StepLaw``. The inner part is not bent: its mass counts in full."""
        log_tolerance = math.log(1e-12)
        up, down = self._outer(c, omega, log_tolerance)
        drawn = self._drawn(up.g)
        turned = [
            self._turned(part, omega, [(np.full_like(part.g, power), drawn)], start=self.mu / 2)
            for part, power in ((up, 1 + c), (down, -c))
        ]
        outer = _joined([up, down])
        return self._tail(outer, c, np.concatenate(turned, axis=1), 1 + self.nodes(c, 0.0, log_tolerance).moments(c)[0])

    def log_delta(self, epsilon: Array) -> Array:
        epsilon = np.asarray(epsilon, dtype=float)
        size = np.abs(epsilon)
        if not self.shift:
            inner = np.log1p(np.expm1(size) / self.q)
            return symmetric_log_delta(epsilon, math.log(self.q) + log_gdp_delta(self.mu, inner))
        h = self._threshold(np.maximum(size, self._inner))
        outer = log_subtract(self._log_mixture_above(h), 1.0, size + log_ndtr(-h - self.shift))
        inner = np.logaddexp(
            math.log1p(-self.q) + log_gdp_delta(self.shift, size), math.log(self.q) + log_gdp_delta(self.shift + self.mu, size)
        )
        return symmetric_log_delta(epsilon, np.where(size >= self._inner, outer, inner))

    def log_above(self, epsilon: Array) -> Array:
        # Q(L > -e) = 1 - P(L >= e), and P is the mixture beyond the threshold.
        epsilon = np.asarray(epsilon, dtype=float)
        h = self._threshold(np.maximum(np.abs(epsilon), self._inner))
        hit = (1 - self.q) * ndtr(-h) + self.q * ndtr(self.mu - h)
        outer = np.where(epsilon >= 0, log_ndtr(-h - self.shift), np.log1p(-hit))
        if not self.shift:
            return outer
        near = [math.log(p) + log_ndtr(-epsilon / m - m / 2) for m, p in ((self.shift, 1 - self.q), (self.shift + self.mu, self.q))]
        return np.where(np.abs(epsilon) >= self._inner, outer, np.logaddexp(*near))

    @property
    def reverse(self) -> StepLaw:
        return self

    @property
    def greatest(self) -> float:
        return math.inf
