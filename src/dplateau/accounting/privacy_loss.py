"""The privacy loss of one step, as an exact law.

A step law stands for a dominating pair (P, Q) of one-dimensional mixtures of Gaussians with unit variance. With
``A(g) = 1 - q + q exp(mu g - mu^2/2)``, the likelihood ratio of the mixture (1-q) N(0, 1) + q N(mu, 1) to N(0, 1), and g ~ N(0,
1), the moment generating function of the privacy loss L = log P/Q under P is

====================  ===================================  ===============================================
law                   pair                                 ``m(s) = E_P exp(s L)``
====================  ===================================  ===============================================
``PoissonRemove``     mixture against N(0, 1)              ``E A(g)^(1 + s)``
``PoissonAdd``        N(0, 1) against mixture              ``E A(g)^(-s)``
``PoissonReplace``    mixture against its mirror image     ``E A(g)^(1 + s) A(-g)^(-s)``
``Amplified``         C_q(G_mu) (Dong, Roth, Su)           ``1 + E[A^(1 + s) + A^(-s) - A - 1; g > mu/2]``
====================  ===================================  ===============================================

Each is computed as a trapezoid sum in g. Moving the line of integration by ``i a`` multiplies the integrand by at most
``exp(a^2/2 + k |Im s| a mu) / cos(a mu/2)^c`` (k = 1; 2 for ``PoissonReplace``), and a trapezoid sum of step h errs by at most
twice that over ``exp(2 pi a/h) - 1``: the error is exponentially small in 1/h, and explicit.

That these pairs dominate the steps is proved in ``docs/proofs/exact-composition.md``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
from scipy.special import expit, log_ndtr, ndtr

from dplateau.accounting.gaussian import ULP, Array, log_gdp_delta, symmetric_log_delta

_LOG_SQRT_2PI: Final = math.log(2 * math.pi) / 2
_ANGLES: Final = np.linspace(0.05, 3.0, 24)
_BENDS: Final = [(k, cap) for k in (1.0, 0.5, 0.2) for cap in (0.7, 1.5, 2.5)]
_MOST: Final = 100_000
"""Greatest number of quadrature nodes of one step."""
_MARGIN: Final = 0.9
"""The log of a tail bound is used with this factor, for the rounding and the step of its own sum."""


class TooSlowError(ArithmeticError):
    """The contour needs too many nodes (few steps whose loss is nearly discrete); the lattice is the better method."""


@dataclass(frozen=True)
class Nodes:
    """A law as a weighted sum: mass ``exp(log_p)`` of P at privacy loss ``loss``, both of shape (J,); ``g`` are the points.

    Mass at loss 0 is left out, since ``exp(s 0) - 1 = 0``. ``error`` bounds the error of m(s) relative to m(Re s).
    """

    g: Array
    log_p: Array
    loss: Array
    error: float

    def excess(self, c: float, omega: Array) -> tuple[Array, Array]:
        """``m(c + i omega) - 1`` and a bound on its rounding error, both of shape ``omega.shape``."""
        x = c * self.loss
        p, tilted = np.exp(self.log_p), np.exp(self.log_p + x)
        real = np.where(np.abs(x) < 1.0, p * np.expm1(np.clip(x, -1.0, 1.0)), tilted - p)
        half = np.multiply.outer(omega / 2, self.loss)
        sine = np.sin(half)
        value = real.sum() - 2 * (sine**2 @ tilted) + 2j * ((sine * np.cos(half)) @ tilted)
        scale = 6 + np.abs(self.log_p) + np.abs(x)
        rounding = ULP * (scale @ np.abs(real) + 3 * omega * ((scale * tilted) @ np.abs(self.loss)))
        return value, rounding

    def moments(self, c: float) -> tuple[float, float, float]:
        """``m(c) - 1``, ``m'(c)`` and ``m''(c)``."""
        x = c * self.loss
        p, tilted = np.exp(self.log_p), np.exp(self.log_p + x)
        excess = np.where(np.abs(x) < 1.0, p * np.expm1(np.clip(x, -1.0, 1.0)), tilted - p)
        return float(excess.sum()), float(tilted @ self.loss), float(tilted @ self.loss**2)


@dataclass(frozen=True)
class StepLaw(ABC):
    """The privacy loss of one step: sampling rate ``q`` in (0, 1), mean shift ``mu`` > 0 (sensitivity over noise)."""

    q: float
    mu: float
    turns: ClassVar[int] = 1

    @abstractmethod
    def nodes(self, c: float, omega: float, log_tolerance: float) -> Nodes:
        """Nodes for 0 <= Re s <= c and |Im s| <= omega, with the step and each end cut at ``exp(log_tolerance)``."""

    @abstractmethod
    def tail(self, c: float, omega: float) -> float:
        """A bound on ``log |m(c + i w) / m(c)|`` that holds for every ``w >= omega``; never positive."""

    @abstractmethod
    def log_delta(self, epsilon: Array) -> Array:
        """``log delta`` of this one step at every ``epsilon`` (any sign), in closed form."""

    @abstractmethod
    def log_above(self, epsilon: Array) -> Array:
        """``log Q(L > epsilon)``: minus the slope of delta in exp(epsilon)."""

    @property
    @abstractmethod
    def reverse(self) -> StepLaw:
        """The law of the pair (Q, P)."""

    @property
    @abstractmethod
    def greatest(self) -> float:
        """The supremum of the loss; infinite for an unbounded one."""

    def _log_ratio(self, g: Array) -> Array:
        """``log A(g)``, accurate also where A is close to 1."""
        u = self.mu * g - self.mu**2 / 2
        near = np.log1p(self.q * np.expm1(np.minimum(u, 1.0)))
        return np.where(u < 1.0, near, np.logaddexp(math.log1p(-self.q), math.log(self.q) + u))

    def _drawn(self, g: Array) -> Array:
        """The posterior probability that the record was drawn: ``d log A / d(mu g)``."""
        return expit(math.log(self.q) - math.log1p(-self.q) + self.mu * g - self.mu**2 / 2)

    def _threshold(self, epsilon: Array) -> Array:
        """The g at which ``A(g) = exp(epsilon)``; ``-inf`` where A stays above."""
        with np.errstate(divide="ignore"):
            return (np.log(np.maximum(np.expm1(epsilon) / self.q + 1, 0.0)) + self.mu**2 / 2) / self.mu

    def _step(self, c: float, omega: float, log_tolerance: float) -> float:
        """The widest trapezoid step in g that keeps the error within the tolerance."""
        shift = _ANGLES / self.mu
        growth = shift**2 / 2 + self.turns * omega * _ANGLES - c * np.log(np.cos(_ANGLES / 2))
        return float((2 * math.pi * shift / (growth + math.log(4.0) - log_tolerance)).max())

    def _reach(self, c: float, log_tolerance: float) -> float:
        """Beyond this g on the right ``E A^(1 + c)``, which is at least 1, has no mass worth the tolerance."""
        moved = c * (1 + c) * self.mu**2 / 2
        return (1 + c) * self.mu + math.sqrt(2 * (-log_tolerance + min(-(1 + c) * math.log(self.q), moved)))

    def _depth(self, c: float, log_tolerance: float) -> float:
        """Beyond this -g on the left ``E A^(-c)`` has none: A is at least 1 - q, and at least q exp(mu g - mu^2/2)."""
        bounded = math.sqrt(2 * (-log_tolerance - c * math.log1p(-self.q)))
        return min(bounded, c * self.mu + math.sqrt(2 * (-log_tolerance - c * math.log(self.q) + c * (1 + c) * self.mu**2 / 2)))

    def _line(self, left: float, right: float, c: float, omega: float, log_tolerance: float) -> tuple[Array, Array]:
        """Trapezoid points from -left to right, and the log of their N(0, 1) masses."""
        h = self._step(c, omega, log_tolerance)
        if not left + right < _MOST * h:
            raise TooSlowError
        g = h * np.arange(-math.ceil(left / h), math.ceil(right / h) + 1)
        return g, math.log(h) - _LOG_SQRT_2PI - g**2 / 2

    def _turned(self, nodes: Nodes, omega: float, powers: list[tuple[Array, Array]], start: float | None = None) -> Array:
        """Growth of the tilted integrand along the bent path g + i a(g), one row a candidate path, minus 1.

        ``powers`` holds (exponent, posterior) for every factor A. A path that starts at ``start`` leaves it at the real line.
        """
        drawn = sum((posterior for _, posterior in powers), np.zeros_like(nodes.g))
        rows: list[Array] = []
        for bend, cap in _BENDS:
            a = cap / self.mu * np.tanh(bend * omega * self.mu**2 * drawn / cap)
            if start is not None:
                a = a * (nodes.g - start) / (np.maximum(a, 0.25) + nodes.g - start)
            angle = self.mu * a
            growth = a**2 / 2 + np.log1p(np.gradient(a, nodes.g) ** 2) / 2
            for exponent, posterior in powers:
                growth = growth + exponent / 2 * np.log1p(-4 * posterior * (1 - posterior) * np.sin(angle / 2) ** 2)
                growth = growth - omega * np.arctan2(posterior * np.sin(angle), 1 - posterior + posterior * np.cos(angle))
            rows.append(np.expm1(np.minimum(growth, 50.0)))
        return np.array(rows)

    def _tail(self, nodes: Nodes, c: float, turned: Array, mass: float) -> float:
        """The best candidate's bound. ``mass`` is m(c); what the nodes leave out of it does not turn."""
        gain = (turned @ np.exp(nodes.log_p + c * nodes.loss)) / mass
        return _MARGIN * min(0.0, math.log1p(max(float(gain.min()), -1 + 1e-9)))


class PoissonRemove(StepLaw):
    """P is the mixture (the data set with the record), Q is N(0, 1)."""

    def nodes(self, c: float, omega: float, log_tolerance: float) -> Nodes:
        left = math.sqrt(-2 * log_tolerance)
        g, log_w = self._line(left, self._reach(c, log_tolerance), c, omega, log_tolerance)
        loss = self._log_ratio(g)
        return Nodes(g, log_w + loss, loss, 4 * math.exp(log_tolerance))

    def tail(self, c: float, omega: float) -> float:
        nodes = self.nodes(c, omega, math.log(1e-12))
        turned = self._turned(nodes, omega, [(np.full_like(nodes.g, 1 + c), self._drawn(nodes.g))])
        return self._tail(nodes, c, turned, 1 + nodes.moments(c)[0])

    def log_delta(self, epsilon: Array) -> Array:
        g = self._threshold(epsilon)
        return _log_subtract(math.log(self.q) + log_ndtr(self.mu - g), np.expm1(epsilon) + self.q, log_ndtr(-g))

    def log_above(self, epsilon: Array) -> Array:
        return log_ndtr(-self._threshold(epsilon))

    @property
    def reverse(self) -> StepLaw:
        return PoissonAdd(self.q, self.mu)

    @property
    def greatest(self) -> float:
        return math.inf


class PoissonAdd(StepLaw):
    """P is N(0, 1) (the data set without the record), Q is the mixture."""

    def nodes(self, c: float, omega: float, log_tolerance: float) -> Nodes:
        right = math.sqrt(-2 * log_tolerance) + self.mu
        g, log_w = self._line(self._depth(c, log_tolerance), right, c, omega, log_tolerance)
        return Nodes(g, log_w, -self._log_ratio(g), 4 * math.exp(log_tolerance))

    def tail(self, c: float, omega: float) -> float:
        nodes = self.nodes(c, omega, math.log(1e-12))
        turned = self._turned(nodes, omega, [(np.full_like(nodes.g, -c), self._drawn(nodes.g))])
        return self._tail(nodes, c, turned, 1 + nodes.moments(c)[0])

    def log_delta(self, epsilon: Array) -> Array:
        g = self._threshold(-epsilon)
        kept = np.exp(epsilon) * np.maximum(np.expm1(-epsilon) + self.q, 0.0)
        with np.errstate(divide="ignore"):
            return _log_subtract(np.log(kept) + log_ndtr(g), self.q * np.exp(epsilon), log_ndtr(g - self.mu))

    def log_above(self, epsilon: Array) -> Array:
        g = self._threshold(-epsilon)
        return np.logaddexp(math.log1p(-self.q) + log_ndtr(g), math.log(self.q) + log_ndtr(g - self.mu))

    @property
    def reverse(self) -> StepLaw:
        return PoissonRemove(self.q, self.mu)

    @property
    def greatest(self) -> float:
        return -math.log1p(-self.q)


class PoissonReplace(StepLaw):
    """P is the mixture with centres 0 and mu, Q the mixture with centres 0 and -mu; either direction is the same."""

    turns = 2

    def nodes(self, c: float, omega: float, log_tolerance: float) -> Nodes:
        # On the right A(-g) is small and A(g) large, so both exponents move the mass.
        bounded = (1 + c) * self.mu + math.sqrt(2 * (-log_tolerance - c * math.log1p(-self.q) + c * (1 + c) * self.mu**2 / 2))
        moving = (1 + 2 * c) * self.mu + math.sqrt(2 * (-log_tolerance - c * math.log(self.q) + 2 * c * (1 + c) * self.mu**2))
        g, log_w = self._line(math.sqrt(-2 * log_tolerance) + self.mu, min(bounded, moving), c, omega, log_tolerance)
        ahead, behind = self._log_ratio(g), self._log_ratio(-g)
        return Nodes(g, log_w + ahead, ahead - behind, 4 * math.exp(log_tolerance))

    def tail(self, c: float, omega: float) -> float:
        nodes = self.nodes(c, omega, math.log(1e-12))
        powers = [(np.full_like(nodes.g, 1 + c), self._drawn(nodes.g)), (np.full_like(nodes.g, -c), self._drawn(-nodes.g))]
        turned = self._turned(nodes, omega, powers)
        return self._tail(nodes, c, turned, 1 + nodes.moments(c)[0])

    def _meeting(self, epsilon: Array) -> Array:
        """The g at which ``A(g) = e^epsilon A(-g)``: a quadratic in exp(mu g)."""
        half = (1 - self.q) / self.q * math.exp(self.mu**2 / 2) * np.expm1(epsilon) / 2
        return (
            np.where(half > 0, np.arcsinh(np.abs(half) * np.exp(-epsilon / 2)), -np.arcsinh(np.abs(half) * np.exp(-epsilon / 2)))
            + epsilon / 2
        ) / self.mu

    def log_delta(self, epsilon: Array) -> Array:
        epsilon = np.asarray(epsilon, dtype=float)
        size = np.abs(epsilon)
        g = self._meeting(size)
        with np.errstate(divide="ignore"):
            missed = np.log((1 - self.q) * np.expm1(size)) + log_ndtr(-g)
        missed = np.logaddexp(missed, math.log(self.q) + size + log_ndtr(-self.mu - g))
        return symmetric_log_delta(epsilon, _log_subtract(math.log(self.q) + log_ndtr(self.mu - g), 1.0, missed))

    def log_above(self, epsilon: Array) -> Array:
        g = self._meeting(epsilon)
        return np.logaddexp(math.log1p(-self.q) + log_ndtr(-g), math.log(self.q) + log_ndtr(-self.mu - g))

    @property
    def reverse(self) -> StepLaw:
        return self

    @property
    def greatest(self) -> float:
        return math.inf


class Amplified(StepLaw):
    """C_q(G_mu): a symmetric law, with an atom at loss 0.

    For loss > 0 it is log A on g > mu/2, with density phi A under P; for loss < 0 it is -log A there, with density phi. The
    half-line is mapped on the line by ``g = mu/2 + scale log(1 + e^t)``, which keeps the trapezoid sum exponentially accurate.
    """

    def nodes(self, c: float, omega: float, log_tolerance: float) -> Nodes:
        scale = 1 / max(1.0, self.mu)
        y = _ANGLES[_ANGLES < 1.5]
        growth = (scale * y) ** 2 / 2 + omega * self.mu * scale * y - np.log(np.cos(y)) - 2 * c * np.log(np.cos(y / 2))
        h = float((2 * math.pi * y / (growth + math.log(8.0) - log_tolerance)).max())
        reach = max(self._reach(c, log_tolerance), self.mu + math.sqrt(-2 * log_tolerance))
        first, last = log_tolerance - 1, reach / scale
        if not last - first < _MOST * h:
            raise TooSlowError
        t = h * np.arange(math.floor(first / h), math.ceil(last / h) + 1)
        g = self.mu / 2 + scale * np.logaddexp(0.0, t)
        log_w = math.log(h * scale) - np.logaddexp(0.0, -t) - _LOG_SQRT_2PI - g**2 / 2
        # Just above mu/2, g - mu/2 is known better than g: log A is taken from it.
        loss = np.log1p(self.q * np.expm1(np.minimum(self.mu * scale * np.logaddexp(0.0, t), 1.0)))
        loss = np.where(self.mu * (g - self.mu / 2) < 1.0, loss, self._log_ratio(g))
        both = np.concatenate([g, g]), np.concatenate([log_w + loss, log_w]), np.concatenate([loss, -loss])
        return Nodes(*both, 4 * math.exp(log_tolerance))

    def tail(self, c: float, omega: float) -> float:
        nodes = self.nodes(c, omega, math.log(1e-12))
        count = nodes.g.size // 2
        up, down = (
            Nodes(nodes.g[part], nodes.log_p[part], nodes.loss[part], nodes.error) for part in (slice(count), slice(count, None))
        )
        drawn = self._drawn(up.g)
        turned = [
            self._turned(part, omega, [(np.full_like(part.g, power), drawn)], start=self.mu / 2)
            for part, power in ((up, 1 + c), (down, -c))
        ]
        return self._tail(nodes, c, np.concatenate(turned, axis=1), 1 + nodes.moments(c)[0])

    def log_delta(self, epsilon: Array) -> Array:
        epsilon = np.asarray(epsilon, dtype=float)
        inner = np.log1p(np.expm1(np.abs(epsilon)) / self.q)
        return symmetric_log_delta(epsilon, math.log(self.q) + log_gdp_delta(self.mu, inner))

    def log_above(self, epsilon: Array) -> Array:
        # Q(L > -e) = 1 - P(L >= e), and P is the mixture beyond the threshold.
        g = self._threshold(np.abs(epsilon))
        hit = (1 - self.q) * ndtr(-g) + self.q * ndtr(self.mu - g)
        return np.where(epsilon >= 0, log_ndtr(-g), np.log1p(-hit))

    @property
    def reverse(self) -> StepLaw:
        return self

    @property
    def greatest(self) -> float:
        return math.inf


def _log_subtract(log_a: Array, factor: Array | float, log_b: Array) -> Array:
    """``log(exp(log_a) - factor exp(log_b))``, ``-inf`` where rounding leaves nothing positive."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        share = np.where(np.isneginf(log_a), 1.0, factor * np.exp(log_b - log_a))
        return log_a + np.log1p(-np.minimum(share, 1.0))
