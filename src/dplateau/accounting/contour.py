"""delta(epsilon) of a composition, by a contour integral whose every error is bounded.

With K(s) the log of the moment generating function of the total privacy loss under P, and any c > 0,

    ``delta(epsilon) = 1/(2 pi i) integral over c - i inf .. c + i inf of exp(K(s) - s epsilon) / (s (s + 1)) ds``.

On the vertical line through the saddle point of the integrand the trapezoid rule with step h needs a few dozen nodes, however many
steps are composed. With P = 2 pi/h, its errors are

- aliasing: by Poisson summation the infinite sum is ``sum over j of delta(epsilon + j P) exp(c j P)``. All terms are >= 0, so
the sum never
  lies below delta; those with j < 0 are at most exp(-c |j| P), those with j > 0 obey a Chernoff bound at a larger c;
- truncation: ``StepLaw.tail`` bounds the integrand beyond the last node;
- quadrature and rounding of K: bounded by ``Nodes``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from dplateau.accounting.enclosure import Enclosure
from dplateau.accounting.gaussian import ULP, Array
from dplateau.accounting.privacy_loss import TooSlowError
from dplateau.accounting.roots import root
from dplateau.accounting.terms import Composition, Cumulants

WIDTH: Final = 1e-6
"""Aim for the width of an enclosure of epsilon."""
_MOST: Final = 40_000
"""Greatest number of nodes of one line; beyond it the lattice is the better method."""
_FURTHER: Final = (1.03, 1.07, 1.12, 1.2, 1.5, 2.0, 3.0)
"""Where the Chernoff bound on aliasing is tried, in units of c. Close to c it is weak, but beyond some point K may explode."""
_TINY: Final = 1e-300


class _Cumulants:
    """K on the real axis near the saddle point, with nodes that are rebuilt only when c outgrows them."""

    def __init__(self, composition: Composition) -> None:
        self.composition = composition
        self.reach = 0.0
        self.parts: list[Cumulants] = []

    def __call__(self, c: float) -> tuple[float, float, float]:
        """K, K' and K'' at c."""
        if c > self.reach:
            self.parts = [term.cumulants(2 * c) for term in self.composition.terms]
            self.reach = 2 * c
        mu2 = self.composition.gaussian**2
        total = sum((part(c) for part in self.parts), np.array([mu2 / 2 * c * (c + 1), mu2 * (c + 0.5), mu2]))
        k, slope, curvature = total.tolist()
        if not (math.isfinite(k) and math.isfinite(slope) and 0 < curvature < math.inf):
            raise TooSlowError
        return k, slope, curvature


def saddle_epsilon(c: float, slope: float) -> float:
    """The epsilon whose saddle point is c."""
    return slope - 1 / c - 1 / (1 + c)


def log_saddle_delta(c: float, k: float, slope: float, curvature: float) -> float:
    """The saddle-point approximation of log delta at that epsilon: where to look, never what is reported."""
    bend = curvature + 1 / c**2 + 1 / (1 + c) ** 2
    return k - c * saddle_epsilon(c, slope) - math.log(c) - math.log1p(c) - math.log(2 * math.pi * bend) / 2


def saddle(f: Callable[[float], float]) -> float:
    """The root of a decreasing function of c, to about one per cent. Where f cannot be computed, c is too large."""

    def clipped(x: float) -> float:
        try:
            return min(max(f(math.exp(x)), -50.0), 50.0)
        except (TooSlowError, OverflowError):
            return -50.0

    low = high = 0.0
    while clipped(low) < 0:
        low -= 2.0
        if low < -60:
            raise TooSlowError
    while clipped(high) > 0:
        high += 2.0
        if high > 60:
            raise TooSlowError
    try:
        return math.exp(low) if low == high else math.exp(root(clipped, low, high, xtol=1e-2))
    except ValueError:  # Where f is at the level of rounding, its sign may change from one evaluation to the next.
        raise TooSlowError from None


@dataclass(frozen=True)
class Line:
    """The sampled integrand on the line Re s = c: everything that delta(epsilon) near one epsilon needs."""

    s: Array
    k: Array
    error: Array
    period: float
    right: tuple[float, float]
    log_tail: float

    def _terms(self, epsilon: float) -> tuple[Array, Array]:
        exponent = self.k - self.s * epsilon
        weight = np.full(self.s.size, 2 / self.period)
        weight[0] /= 2
        term = weight * np.exp(exponent) / (self.s * (self.s + 1))
        # A factor at the level of its own error counts with that level, not with its computed value.
        return term, np.abs(term) * (self.error + ULP * (8 + 4 * np.abs(exponent))) + ULP * np.abs(term[0])

    def value(self, epsilon: float) -> tuple[float, float]:
        """The sum, and its derivative in epsilon."""
        term, _ = self._terms(epsilon)
        return float(np.real(term).sum()), -float(np.real(self.s * term).sum())

    def delta(self, epsilon: float) -> Enclosure:
        """delta(epsilon), enclosed."""
        term, error = self._terms(epsilon)
        c = float(self.s[0].real)
        total, slack = float(np.real(term).sum()), float(error.sum()) + math.exp(min(self.log_tail - c * epsilon, 0.0)) + _TINY
        further, log_chernoff = self.right
        gap = (further - c) * self.period
        beyond = math.exp(min(log_chernoff - further * epsilon - gap, 0.0)) / -math.expm1(-gap)
        before = 1 / math.expm1(min(c * self.period, 700.0))
        return Enclosure(max(0.0, total - slack - beyond - before), min(1.0, max(total, 0.0) + slack))


def _line(composition: Composition, cumulants: _Cumulants, c: float, width: float) -> Line:
    """Choose the period, the number of nodes and the quadrature, then sample K."""
    k, slope, curvature = cumulants(c)
    epsilon, log_delta = saddle_epsilon(c, slope), min(log_saddle_delta(c, k, slope, curvature), 0.0)
    log_allowed = log_delta + math.log(min(1e-3, width * min(c, 1e3) / 20))
    candidates: list[tuple[float, float, float]] = []
    for factor in _FURTHER:
        further = factor * c
        try:
            k_further = cumulants(further)[0]
        except (TooSlowError, OverflowError):
            break
        chernoff = k_further + further * math.log(further) - (1 + further) * math.log1p(further)
        candidates.append(((chernoff - further * epsilon - log_allowed) / (further - c), further, chernoff))
    if not candidates:
        raise TooSlowError
    right_period, further, chernoff = min(candidates)
    period = max(right_period, -log_allowed / c)
    if not 0 < period < math.inf:
        raise TooSlowError
    h = 2 * math.pi / period
    omega = 1.3 * math.sqrt(2 * max(k - c * epsilon - log_allowed, 1.0) / curvature)
    while True:
        count = math.ceil(omega / h) + 1
        if count > _MOST:
            raise TooSlowError
        omega = count * h
        log_tail = k + 0.01 - math.log(math.pi * omega) - composition.gaussian**2 * omega**2 / 2
        log_tail += sum(term.log_tail(c, omega) for term in composition.terms)
        if log_tail - c * epsilon <= log_allowed:
            break
        omega *= 1.4
    log_tolerance = min(math.log(1e-16), math.log(width * min(c, 1.0) / 1e3))
    at = h * np.arange(count + 1)
    s = c + 1j * at
    total, error = composition.gaussian**2 / 2 * s * (s + 1), np.zeros(count + 1)
    for term in composition.terms:
        value, bound = term.log_transform(c, at, log_tolerance)
        total, error = total + value, error + bound
    return Line(s, total, np.expm1(np.minimum(error, 100.0)), period, (further, chernoff), log_tail)


def contour_delta(composition: Composition, epsilon: float, width: float = WIDTH) -> Enclosure:
    """``delta`` of the composition at ``epsilon``; raises ``TooSlowError`` where the lattice should be used."""
    cumulants = _Cumulants(composition)
    c = saddle(lambda c: epsilon - saddle_epsilon(c, cumulants(c)[1]))
    return _line(composition, cumulants, c, width).delta(epsilon)


def contour_epsilon(composition: Composition, delta: float, width: float = WIDTH) -> Enclosure:
    """The least ``epsilon >= 0`` at which the composition has the given delta, enclosed."""
    cumulants = _Cumulants(composition)
    target = math.log(delta)
    c = saddle(lambda c: log_saddle_delta(c, *cumulants(c)) - target)
    line = _line(composition, cumulants, c, width)
    epsilon = saddle_epsilon(c, cumulants(c)[1])
    for _ in range(20):
        value, derivative = line.value(epsilon)
        if not (value > 0 and derivative < 0):
            raise TooSlowError
        change = value * math.log(value / delta) / -derivative
        epsilon += change
        if abs(change) < width / 100:
            break
    derivative = line.value(epsilon)[1]

    def first(holds: Callable[[float], bool], off: float, sign: float) -> float:
        distance = max(off / -derivative, 1e-15 * abs(epsilon), width / 1e4)
        for _ in range(60):
            if holds(epsilon + sign * distance):
                return epsilon + sign * distance
            distance *= 1.5
        raise TooSlowError

    here = line.delta(epsilon)
    upper = first(lambda e: line.delta(e).upper <= delta, here.upper - delta, 1.0)
    lower = first(lambda e: line.delta(e).lower >= delta, delta - here.lower, -1.0)
    return Enclosure(max(lower, 0.0), max(upper, 0.0))
