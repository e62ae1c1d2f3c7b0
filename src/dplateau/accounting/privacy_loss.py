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
``Amplified``         C_q(G_mu) (Dong, Roth, Su)           ``1 + E[A^(1 + s) + A^(-s) - A - 1; g > mu/2]`` (``amplified.py``)
====================  ===================================  ===============================================

A ``shift`` b > 0 moves P away from Q: what earlier steps left of a record. In ``h = g - b`` it adds ``b h + b^2/2`` to the loss.

Each is computed as a trapezoid sum in g. Moving the line of integration by ``i a`` multiplies the integrand by at most
``exp(a^2/2 + |Im s| a (k mu + b)) / cos(a mu/2)^c`` (k = 1; 2 for ``PoissonReplace``), and a trapezoid sum of step h errs by at
most twice that over ``exp(2 pi a/h) - 1``: the error is exponentially small in 1/h, and explicit.

That these pairs dominate: ``docs/proofs/exact-composition.md`` and, with a shift, ``docs/proofs/sampled-last-iterate.md``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
from scipy.special import log_ndtr

from dplateau.accounting.decay import LOG_TOLERANCE, Factor, Paths, Turned, log_grown, lost
from dplateau.accounting.gaussian import (
    LEAST,
    LOG_SQRT_2PI,
    ULP,
    Array,
    log_expm1,
    log_gdp_delta,
    log_subtract,
    log_within,
    magnified,
    symmetric_log_delta,
)
from dplateau.accounting.nodes import Nodes
from dplateau.accounting.roots import crossing

CLOSED, FAR = 1e-10, -150.0
"""Relative room for a step's closed form: differences of tails lose five digits, below that log delta more, by its square."""
ANGLES, _SHIFTS = np.linspace(0.05, 3.0, 24), np.linspace(2.0, 16.0, 8)
_HIGHEST: Final = 2.2
"""Largest angle of a bent path; at pi the factors of the integrand vanish."""
_FARTHEST: Final = 5.0
"""Largest distance of a bent path from the line, since the Gaussian grows by ``exp(a^2/2)``."""
MOST, _MANY = 100_000, 2_000_000  # quadrature nodes of one step; where only m(c) itself is wanted


class TooSlowError(ArithmeticError):
    """The contour needs too many nodes (few steps whose loss is nearly discrete); the lattice is the better method."""


@dataclass(frozen=True)
class StepLaw(ABC):
    """The privacy loss of one step: sampling rate ``q`` in (0, 1), mean ``mu`` > 0 of a drawn record (sensitivity over noise), and
    ``shift`` >= 0 of the whole of P.
    """

    q: float
    mu: float
    shift: float = 0.0
    turns: ClassVar[int] = 1
    on_points: ClassVar[bool] = False
    """Whether it lies on points, so that it has no contour."""

    @abstractmethod
    def nodes(self, c: float, omega: float, log_tolerance: float) -> Nodes:
        """Nodes for 0 <= Re s <= c and |Im s| <= omega, with the step and each end cut at ``exp(log_tolerance)``."""

    @abstractmethod
    def decay(self, c: float, omega: float, spread: float = 0.0) -> float:
        """A lower bound on ``1 - |m(c + i w) / m(c)|`` that holds for every ``w >= omega``; never negative.

        With a ``spread``, one for the part ``(1 + spread exp(-mu g + mu^2/2))^(-3/2)`` of the tilted law alone (``beneath``).
        """

    def beneath(self, highest: StepLaw) -> tuple[StepLaw, float, float]:
        """A law of which every law between this one and the ``highest``, in rate and in mu, contains a share, at every loss.

        The law, the share of its measure under P, and the spread of the part of it that is meant (0 is all of it).
        """
        share = self.q / highest.q * self.mu / highest.mu * math.exp((self.mu**2 - highest.mu**2) / 8)
        return self, share, highest.q / self.q - 1

    def tail(self, c: float, omega: float) -> float:
        """A bound on ``log |m(c + i w) / m(c)|`` that holds for every ``w >= omega``; never positive."""
        return math.log1p(-self.decay(c, omega))

    def log_moment(self, c: float) -> float | None:
        """``log m(c)`` for c > 0, rounded up, of a law that has no ``nodes``; None where it has, or nothing is known."""
        return None

    def log_overflowing(self, c: float, log_tolerance: float) -> float:
        """``log m(c)``, rounded up, where m(c) overflows; at most that of a record which is drawn in any case."""
        drawn = c * (c + 1) / 2 * self.unsampled**2 * (1 + 8 * ULP)
        try:
            return min(self._real_nodes(c, log_tolerance).log_moment(c), drawn)
        except TooSlowError:
            return drawn

    def _real_nodes(self, c: float, log_tolerance: float) -> Nodes:
        """Nodes for Im s = 0 alone."""
        return self.nodes(c, 0.0, log_tolerance)

    @abstractmethod
    def log_delta(self, epsilon: Array) -> Array:
        """``log delta`` of this one step at every ``epsilon`` (any sign), in closed form."""

    def closed(self, epsilon: float) -> tuple[float, float]:
        """delta at an ``epsilon`` >= 0, and a bound on its rounding: with a shift it is a difference of masses that may be near."""
        log_value = max(float(self.log_delta(np.array(epsilon))), -1e3)
        value = math.exp(log_value)
        room = CLOSED * value * max(1.0, log_value / FAR) ** 2 + LEAST
        if not self.shift:
            return value, room
        log_whole = min(math.log(value + math.exp(epsilon + float(self.log_above(np.array(epsilon))))), 0.0)
        return value, room + 16 * ULP * (2 - log_whole) * math.exp(log_whole)

    @abstractmethod
    def log_above(self, epsilon: Array) -> Array:
        """``log Q(L > epsilon)``: minus the slope of delta in exp(epsilon)."""

    @property
    @abstractmethod
    def reverse(self) -> StepLaw:
        """The law of the pair (Q, P)."""

    @property
    def greatest(self) -> float:
        """The supremum of the loss."""
        return math.inf

    @property
    def farthest(self) -> float:
        """Beyond this loss delta no longer falls."""
        return self.greatest

    @property
    def unsampled(self) -> float:
        """mu of a Gaussian step that this one is never worse than: that of a record which is drawn in any case."""
        return self.turns * self.mu + self.shift

    def _log_ratio(self, g: Array) -> Array:
        """``log A(g)``, accurate also where A is close to 1."""
        u = self.mu * g - self.mu**2 / 2
        near = np.log1p(self.q * np.expm1(np.minimum(u, 1.0)))
        return np.where(u < 1.0, near, np.logaddexp(math.log1p(-self.q), math.log(self.q) + u))

    def _log_odds(self, g: Array) -> Array:
        """The posterior log odds of a record that was drawn: their ``expit`` is ``d log A / d(mu g)``."""
        return math.log(self.q) - math.log1p(-self.q) + self.mu * g - self.mu**2 / 2

    def _moved(self, h: Array) -> Array:
        """The log likelihood ratio of the mixture at ``h + shift`` to N(0, 1): ``log A(h)`` and what the shift adds."""
        return self._log_ratio(h) + self.shift * (h + self.shift / 2)

    def _threshold(self, epsilon: Array) -> Array:
        """The h at which the shifted ratio is ``exp(epsilon)``; ``-inf`` where it stays above."""
        if self.shift:
            return crossing(self._moved, epsilon)
        return (magnified(epsilon, self.q) + self.mu**2 / 2) / self.mu

    def _log_mixed(self, absent: Array, drawn: Array) -> Array:
        """``log`` of a mixture's mass, from those of its two normal parts below these points."""
        return np.logaddexp(math.log1p(-self.q) + log_ndtr(absent), math.log(self.q) + log_ndtr(drawn))

    def _log_mixture_above(self, h: Array) -> Array:
        """``log`` of the mixture's mass above ``h``."""
        return self._log_mixed(-h, self.mu - h)

    def _step(self, c: float, omega: float, log_tolerance: float) -> float:
        """The widest trapezoid step in g that keeps the error within the tolerance."""
        # Small angles are for small mu, where the Gaussian alone limits the shift of the line.
        angles = np.concatenate([ANGLES, np.minimum(self.mu * _SHIFTS, ANGLES[-1])])
        shift = angles / self.mu
        growth = shift**2 / 2 + omega * (self.turns * angles + self.shift * shift) - c * np.log(np.cos(angles / 2))
        return float((2 * math.pi * shift / (growth + math.log(4.0) - log_tolerance)).max())

    def _reach(self, c: float, log_tolerance: float) -> float:
        """Beyond this h on the right ``E A^(1 + c)``, which is at least 1, has no mass worth the tolerance."""
        moved = c * (1 + c) * self.mu * (self.mu / 2 + self.shift)
        centre = c * self.shift + (1 + c) * self.mu
        return centre + math.sqrt(2 * (-log_tolerance + min(-(1 + c) * math.log(self.q), moved)))

    def _depth(self, c: float, log_tolerance: float) -> float:
        """Beyond this -h on the left ``E A^(-c)`` has none: A is at least 1 - q, and at least q exp(mu h - mu^2/2)."""
        bounded = math.sqrt(2 * (-log_tolerance - c * math.log1p(-self.q)))
        moved = c * (1 + c) * self.mu * (self.mu / 2 + self.shift)
        moving = c * self.mu + math.sqrt(2 * (-log_tolerance - c * math.log(self.q) + moved))
        return (1 + c) * self.shift + min(bounded, moving)


def _line(left: float, right: float, step: float, most: int = MOST) -> tuple[Array, Array]:
    """Trapezoid points from -left to right, and the log of their N(0, 1) masses."""
    if not left + right < most * step:
        raise TooSlowError
    g = step * np.arange(-math.ceil(left / step), math.ceil(right / step) + 1)
    return g, math.log(step) - LOG_SQRT_2PI - g**2 / 2


class _OnTheLine(StepLaw):
    """A law whose transform is one integral over the whole line."""

    @abstractmethod
    def _factors(self, c: float, h: Array) -> list[Factor]:
        """The factors A of the integrand at Re s = c."""

    def decay(self, c: float, omega: float, spread: float = 0.0) -> float:
        nodes = self.nodes(c, omega, LOG_TOLERANCE)
        factors, log_mass = self._factors(c, nodes.g), nodes.log_p + c * nodes.loss
        paths = Paths.of(omega / (1 / self.mu**2 + 1), min(_HIGHEST, _FARTHEST * self.mu) / len(factors))
        top = len(factors) * paths.height[:, 0]
        turn, slope = np.zeros((top.size, nodes.g.size)), np.zeros((top.size, nodes.g.size))
        for factor in factors:
            angle, steepness = paths(factor.log_odds)
            turn, slope = turn + angle / self.mu, slope + factor.sign * steepness
        if spread:
            odds = math.log(spread) - self.mu * nodes.g + self.mu**2 / 2
            factors.append(Factor(-1.5, odds, -1.0, in_loss=False))
        growth = turn**2 / 2 + np.log1p(slope**2 / 2) - omega * self.shift * turn
        size = turn**2 + slope**2 + omega * self.shift * turn
        for factor in factors:
            more, larger = factor.turned(self.mu, 0.0, turn, omega)
            growth, size = growth + more, size + larger
        whole = float(np.exp(log_mass).sum()) * (1 + 1e-10)
        part = log_mass - (1.5 * np.logaddexp(0.0, factors[-1].log_odds) if spread else 0.0)
        turned = Turned(np.exp(part), 6 + np.abs(nodes.log_p) + np.abs(c * nodes.loss), growth, size)
        powers = [factor.exponent for factor in factors]
        return lost([turned], whole, self._log_error(nodes.g[1] - nodes.g[0], top, powers, omega))

    def _log_error(self, h: float, top: Array, powers: list[float], omega: float) -> Array:
        """Log of a bound on the error of the modulus' trapezoid sum on paths of these heights, relative to m(c)."""
        y = np.concatenate([ANGLES, np.minimum(self.mu * _SHIFTS, ANGLES[-1])])
        y = y[y < 1.5]
        steep = top[:, None] / 4 / np.cos(y / 2) ** 2
        reach = top[:, None] + y
        with np.errstate(all="ignore"):
            growth = (reach / self.mu) ** 2 / 2 + log_grown(powers, reach, self.q) + omega * y * (self.turns + self.shift / self.mu)
            growth += np.log1p(steep**2 / 2) - np.log1p(-steep) + math.log(8.0) - 2 * math.pi * y / self.mu / h
        best = np.where((reach < 3.1) & (steep < 1) & np.isfinite(growth), growth, np.inf).min(axis=1)
        # What the nodes leave out, of the modulus and of m(c), grows no more than that.
        ends = math.log(8.0) + LOG_TOLERANCE + (top / self.mu) ** 2 / 2 + log_grown(powers, top, self.q) + np.log1p(top**2 / 32)
        return np.logaddexp(best, ends)


class PoissonRemove(_OnTheLine):
    """P is the mixture (the data set with the record), Q is N(0, 1)."""

    def nodes(self, c: float, omega: float, log_tolerance: float) -> Nodes:
        return self._within(c, self._step(c, omega, log_tolerance), log_tolerance)

    def _within(self, c: float, step: float, log_tolerance: float, most: int = MOST) -> Nodes:
        """No more nodes than ``most``, so far apart."""
        h, log_w = _line(math.sqrt(-2 * log_tolerance), self._reach(c, log_tolerance), step, most)
        return Nodes(h, log_w + self._log_ratio(h), self._moved(h), 4 * math.exp(log_tolerance))

    def log_overflowing(self, c: float, log_tolerance: float) -> float:
        # The norms of the ratio's two parts, added up (Minkowski): above the norm of the ratio, which is above that of either part.
        rare, moved = math.log(self.q), c / 2 * (self.mu + self.shift) ** 2
        absent, present = math.log1p(-self.q) + c / 2 * self.shift**2, rare + moved
        gap = (1 + c) * math.log1p(math.exp(min(absent - present, 0.0)))
        if present <= absent or gap > math.exp(log_tolerance):
            return super().log_overflowing(c, log_tolerance)
        return (1 + c) * (present + 16 * ULP * (moved - rare)) + gap * (1 + 8 * ULP)

    def _real_nodes(self, c: float, log_tolerance: float) -> Nodes:
        # Of a positive power the modulus falls when the line is moved: only the Gaussian grows, and c does not make the step small.
        shift = ANGLES / self.mu
        step = float((2 * math.pi * shift / (shift**2 / 2 + math.log(4.0) - log_tolerance)).max())
        return self._within(c, step, log_tolerance, _MANY)

    def _factors(self, c: float, h: Array) -> list[Factor]:
        return [Factor(1 + c, self._log_odds(h))]

    def log_delta(self, epsilon: Array) -> Array:
        if self.shift:
            h = self._threshold(epsilon)
            return log_subtract(self._log_mixture_above(h), 1.0, epsilon + log_ndtr(-h - self.shift))
        # q P1(S) - (e^epsilon - 1 + q) P0(S), as of a Gaussian step at another epsilon: nothing is lost where mu is tiny.
        inner = magnified(epsilon, self.q)
        found = math.log(self.q) + log_gdp_delta(self.mu, np.maximum(inner, -1e100))
        with np.errstate(divide="ignore"):
            return np.where(np.isneginf(inner), np.log(-np.expm1(np.minimum(epsilon, 0.0))), found)

    def log_above(self, epsilon: Array) -> Array:
        return log_ndtr(-self._threshold(epsilon) - self.shift)

    @property
    def reverse(self) -> StepLaw:
        return PoissonAdd(self.q, self.mu, self.shift)


class PoissonAdd(_OnTheLine):
    """P is N(0, 1) (the data set without the record), Q is the mixture."""

    def nodes(self, c: float, omega: float, log_tolerance: float) -> Nodes:
        right = math.sqrt(-2 * log_tolerance) + self.mu
        h, log_w = _line(self._depth(c, log_tolerance), right, self._step(c, omega, log_tolerance))
        return Nodes(h, log_w - self.shift * (h + self.shift / 2), -self._moved(h), 4 * math.exp(log_tolerance))

    def _factors(self, c: float, h: Array) -> list[Factor]:
        return [Factor(-c, self._log_odds(h))]

    def log_delta(self, epsilon: Array) -> Array:
        if self.shift:
            return log_subtract(log_ndtr(self._threshold(-epsilon) + self.shift), 1.0, epsilon + self.log_above(epsilon))
        # (1 - e^epsilon + q e^epsilon) P0(S) - q e^epsilon P1(S).
        inner = magnified(-epsilon, self.q)
        found = epsilon + math.log(self.q) + inner + log_gdp_delta(self.mu, np.minimum(-inner, 1e100))
        return np.where(np.isneginf(inner), -math.inf, found)

    def closed(self, epsilon: float) -> tuple[float, float]:
        value, room = super().closed(epsilon)
        # Next to the greatest loss delta falls to 0 within a few units of epsilon's last place, to which the loss is known.
        before = value if self.shift else math.exp(float(self.log_delta(np.array(epsilon - 8 * ULP * (1 + epsilon)))))
        return value, room + max(before - value, 0.0)

    def log_above(self, epsilon: Array) -> Array:
        h = self._threshold(-epsilon)
        return self._log_mixed(h, h - self.mu)

    @property
    def reverse(self) -> StepLaw:
        return PoissonRemove(self.q, self.mu, self.shift)

    @property
    def greatest(self) -> float:
        return math.inf if self.shift else -math.log1p(-self.q) * (1 + 4 * ULP)


class PoissonReplace(_OnTheLine):
    """P is the mixture with centres 0 and mu, moved by the shift, Q the one with centres 0 and -mu; symmetric."""

    turns = 2

    def nodes(self, c: float, omega: float, log_tolerance: float) -> Nodes:
        # On the right A(-g) is small and A(h) large, so both exponents move the mass.
        moved = c * (1 + c) * self.mu * (self.mu / 2 + self.shift)
        bounded = (1 + c) * self.mu + math.sqrt(2 * (-log_tolerance - c * math.log1p(-self.q) + moved))
        pulled = 2 * c * (1 + c) * self.mu * (self.mu + self.shift)
        moving = (1 + 2 * c) * self.mu + math.sqrt(2 * (-log_tolerance - c * math.log(self.q) + pulled))
        right = c * self.shift + min(bounded, moving)
        h, log_w = _line(math.sqrt(-2 * log_tolerance) + self.mu, right, self._step(c, omega, log_tolerance))
        return Nodes(h, log_w + self._log_ratio(h), self._loss(h), 4 * math.exp(log_tolerance))

    def beneath(self, highest: StepLaw) -> tuple[StepLaw, float, float]:
        # The loss grows with the odds times exp(-mu^2/2): the least of both.
        odds = self.q / (1 - self.q) * math.exp((self.mu**2 - highest.mu**2) / 2)
        lowest = PoissonReplace(odds / (1 + odds), self.mu)
        share = odds * (1 - highest.q) / highest.q * self.mu / highest.mu * (1 - highest.q) / (1 - lowest.q)
        return lowest, share, 0.0

    def _loss(self, h: Array) -> Array:
        return self._moved(h) - self._log_ratio(-h - self.shift)

    def _factors(self, c: float, h: Array) -> list[Factor]:
        return [Factor(1 + c, self._log_odds(h)), Factor(-c, self._log_odds(-h - self.shift), -1.0)]

    def _meeting(self, epsilon: Array) -> Array:
        """The h at which the loss is epsilon; without a shift a quadratic in exp(mu h)."""
        if self.shift:
            return crossing(self._loss, epsilon)
        size = np.abs(epsilon)
        log_half = math.log1p(-self.q) - math.log(2 * self.q) + self.mu**2 / 2 + log_expm1(size) - size / 2
        rest = np.where(log_half < 300, np.arcsinh(np.exp(np.minimum(log_half, 300.0))), log_half + math.log(2))
        return np.sign(epsilon) * (rest + size / 2) / self.mu

    def _log_mirrored_above(self, h: Array) -> Array:
        """``log`` of the mass of Q above ``h``."""
        g = h + self.shift
        return self._log_mixed(-g, -self.mu - g)

    def log_delta(self, epsilon: Array) -> Array:
        epsilon = np.asarray(epsilon, dtype=float)
        size = np.abs(epsilon)
        h = self._meeting(size)
        if self.shift:
            log_delta = log_subtract(self._log_mixture_above(h), 1.0, size + self._log_mirrored_above(h))
            return symmetric_log_delta(epsilon, log_delta)
        missed = log_expm1(size) + self._log_mirrored_above(h)
        return symmetric_log_delta(epsilon, log_subtract(math.log(self.q) + log_within(h, self.mu), 1.0, missed))

    def log_above(self, epsilon: Array) -> Array:
        return self._log_mirrored_above(self._meeting(epsilon))

    @property
    def reverse(self) -> StepLaw:
        return self
