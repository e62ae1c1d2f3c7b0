"""delta(epsilon) of a composition, by a contour integral whose every error is bounded.

With K(s) the log of the moment generating function of the total privacy loss under P, and any c > 0,

    ``delta(epsilon) = 1/(2 pi i) integral over c - i inf .. c + i inf of exp(K(s) - s epsilon) / (s (s + 1)) ds``

(Alghamdi, Gomez, Asoodeh, Calmon, Kosut, Sankar 2023, Theorem 3.1, who approximate it; the enclosure is ours).

On the vertical line through the saddle point of the integrand the trapezoid rule with step h needs a few dozen nodes, however many
steps are composed. With P = 2 pi/h, its errors are

- aliasing: by Poisson summation the infinite sum is ``sum over j of delta(epsilon + j P) exp(c j P)``. All terms are >= 0, so
  the sum never lies below delta; those with j < 0 are at most exp(-c |j| P), those with j > 0 obey a Chernoff bound at a larger c;
- truncation: ``Term.log_tail`` bounds the integrand beyond the last node;
- quadrature and rounding of K: bounded by ``Nodes``.

A search may try a c at which K overflows. What is then infinite or not a number makes no bound: every comparison that lets a
number pass is false of it, and the search goes on elsewhere or ends in ``TooSlowError``. So the warnings are silenced here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import log_ndtr

from dplateau.accounting.enclosure import Enclosure
from dplateau.accounting.gaussian import ULP, Array
from dplateau.accounting.privacy_loss import TooSlowError
from dplateau.accounting.roots import root
from dplateau.accounting.terms import Composition, Cumulants

WIDTH: Final = 1e-6
"""Aim for the width of an enclosure of epsilon."""
_PATIENCE: Final = 2
"""After so many attempts it is asked whether the most nodes would do."""
_MOST: Final = 40_000
"""Greatest number of nodes of one line; beyond it the lattice is the better method."""
_FURTHER: Final = (1.03, 1.07, 1.12, 1.2, 1.5, 2.0, 3.0)
"""Where the Chernoff bound on aliasing is tried, in units of c. Close to c it is weak, but beyond some point K may explode."""
_TRIED: Final = np.geomspace(0.02, 1.0, 12)
"""Where a Chernoff bound is tried, in units of ten times log(1/delta)/epsilon."""
_TINY: Final = 1e-300
_LARGE: Final = 700.0
"""An exponent beyond which a bound says nothing."""
_SHIFTS: Final = (1.0, 0.96, 0.9, 0.8)
"""Lines that are tried, in units of the saddle point, while more nodes than ``_MANY`` seem to be needed."""
_MANY: Final = 300
_CLOSE: Final = 1e-2
"""A saddle point is found to this share of it."""
_NEWTON, _SETTLED = 30, 1e-9
"""Most steps of a search for a rough epsilon, and the share of it below which a step is the last one."""
_ROOM: Final = 1.01 * _FURTHER[-1]
"""Nodes on the real axis are built for a c larger by this."""


class RealAxis:
    """K on the real axis, for searches, with nodes that are rebuilt only when c outgrows them."""

    def __init__(self, composition: Composition) -> None:
        self.composition = composition
        self.reach = 0.0
        self.parts: list[Cumulants] = []

    def several(self, c: Array) -> Array:
        """K, K' and K'' at each c, shape (3, *c.shape)."""
        greatest = float(c.max())
        if greatest > self.reach:
            try:
                self._build(_ROOM * greatest)
            except (TooSlowError, OverflowError):
                self._build(greatest)
        mu2 = self.composition.gaussian**2
        total = np.array([mu2 / 2 * c * (c + 1), mu2 * (c + 0.5), np.full_like(c, mu2)])
        for part in self.parts:
            total += part(c)
        return total

    def _build(self, reach: float) -> None:
        self.parts = [term.cumulants(reach) for term in self.composition.terms]
        self.reach = reach

    def __call__(self, c: float) -> tuple[float, float, float]:
        """K, K' and K'' at c."""
        k, slope, curvature = self.several(np.array([c]))[:, 0].tolist()
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
        return math.exp(low) if low == high else math.exp(root(clipped, low, high, xtol=_CLOSE))
    except ValueError:  # Where f is at the level of rounding, its sign may change from one evaluation to the next.
        raise TooSlowError from None


def saddle_delta(axis: Callable[[float], tuple[float, float, float]], log_delta: float) -> float:
    """Where the saddle-point approximation of log delta is the one wanted, to about a tenth, or c is known to one per cent: a
    safeguarded Newton search. ``axis`` says K, K' and K'' at a c.
    """
    x, low, high = 0.0, -60.0, 60.0
    for attempt in range(60):
        c = math.exp(x)
        try:
            k, slope, curvature = axis(c)
            size = -log_saddle_delta(c, k, slope, curvature)
        except (ArithmeticError, ValueError):  # too large a c
            high = x
            x = (low + high) / 2 if low > -60 else x - 2.0
            if high - low < _CLOSE:
                break
            continue
        if abs(size + log_delta) < 0.1:
            return c
        low, high = (x, high) if size < -log_delta else (low, x)
        if low > -60 and high < 60 and high - low < _CLOSE:
            return math.exp(low)
        fall = c**2 * curvature + 1 + (c / (1 + c)) ** 2
        # log size is nearly a straight line in log c; where size is not positive, c is far too small.
        change = size / fall * math.log(-log_delta / size) if size > 0.1 else 1.0
        # From far away: a Gaussian loss has log delta of about -c^2 K''/2.
        x += min(max(change, -2.0), 2.0) if attempt or not curvature > 0 else math.log(-2 * log_delta / curvature) / 2
        # Where K is about to explode, the tangent helps little.
        if not low < x < high or (attempt % 3 == 2 and high - low < 4):
            x = (low + high) / 2
    return saddle(lambda c: log_saddle_delta(c, *axis(c)) - log_delta)


@dataclass(frozen=True)
class Line:
    """The sampled integrand on the line Re s = c: everything that delta(epsilon) near one epsilon needs.

    ``log_term`` is the log of each term but for ``-s epsilon``, and ``error`` bounds its relative error.
    """

    s: Array
    log_term: Array
    error: Array
    period: float
    right: tuple[float, float]
    log_tail: float

    def at(self, epsilon: float) -> tuple[float, float, float]:
        """The sum, its derivative in epsilon, and a bound on its error."""
        term = np.exp(self.log_term - self.s * epsilon)
        size = np.abs(term)
        # A factor at the level of its own error counts with that level, not with its computed value.
        error = size @ self.error + ULP * (4 * abs(epsilon) * (size @ np.abs(self.s)) + self.s.size * float(size[0]))
        return float(np.real(term).sum()), -float(np.real(self.s * term).sum()), float(error)

    def delta(self, epsilon: float) -> Enclosure:
        """delta(epsilon), enclosed; far from the line's saddle point that may say nothing."""
        total, _, error = self.at(epsilon)
        c = float(self.s[0].real)
        slack = error + math.exp(min(self.log_tail - c * epsilon, _LARGE)) + _TINY
        further, log_chernoff = self.right
        gap = (further - c) * self.period
        beyond = math.exp(min(log_chernoff - further * epsilon - gap, _LARGE)) / -math.expm1(-gap)
        before = 1 / math.expm1(min(c * self.period, _LARGE))
        return Enclosure(max(0.0, total - slack - beyond - before), min(1.0, max(total, 0.0) + slack))


def _line(composition: Composition, axis: RealAxis, saddle_point: float, epsilon: float, log_delta: float) -> Line:
    """Choose the line, the period, the number of nodes and the quadrature, then sample K.

    Epsilon and log delta at the saddle point are about right.
    """
    log_allowed = min(log_delta, 0.0) + math.log(min(1e-3, WIDTH * min(saddle_point, 1e3) / 20))
    # Where K is about to explode, a line to the left of the saddle point has the shorter period.
    found: tuple[float, float, float, float] | None = None
    for shift in _SHIFTS:
        left = shift * saddle_point
        k, _, curvature = axis(left)
        width_of_peak = math.sqrt(2 * max(k - left * epsilon - log_allowed, 1.0) / curvature)
        with suppress(TooSlowError, OverflowError):
            further, chernoff, period = _right(composition, axis, left, epsilon, log_allowed)
            period = max(period, -log_allowed / left)
            if 0 < period < (found[1] if found else math.inf):
                found = left, period, further, chernoff
            if found and found[1] * width_of_peak < 2 * math.pi * _MANY:
                break
    if found is None:
        raise TooSlowError
    c, period, further, chernoff = found
    k, _, curvature = axis(c)
    h = 2 * math.pi / period
    omega = 1.3 * math.sqrt(2 * max(k - c * epsilon - log_allowed, 1.0) / curvature)
    before, growth, attempt = 0.0, 1.0, 0
    while True:
        count = math.ceil(omega / h) + 1
        if count > _MOST:
            raise TooSlowError
        omega = count * h
        decay = composition.gaussian**2 * omega**2 / 2 - sum(term.log_tail(c, omega) for term in composition.terms)
        missing = k + 0.01 - math.log(math.pi * omega) - decay - c * epsilon - log_allowed
        if missing <= 0:
            break
        if attempt >= _PATIENCE and missing > math.log(_MOST / count) + _gained(before, decay, growth, _MOST / count):
            raise TooSlowError
        growth = min(max(1.05 * (1 + missing / max(decay, 1e-9)), 1.1), 2.0)
        before, omega, attempt = decay, growth * omega, attempt + 1
    # With many nodes the terms may cancel, and their errors do not.
    log_tolerance = math.log(WIDTH * min(c, 1.0) / 1e4) - 2 * math.log(max(count / 20, 1.0))
    at = h * np.arange(count + 1)
    s = c + 1j * at
    total, error = composition.gaussian**2 / 2 * s * (s + 1), np.zeros(count + 1)
    for term in composition.terms:
        value, bound = term.log_transform(c, at, log_tolerance)
        total, error = total + value, error + bound
    # Beyond the last node, with K(c) as it was enclosed.
    log_tail = float(total[0].real + error[0]) * (1 + 1e-12) - math.log(math.pi * omega) - decay * (1 - 1e-12)
    log_term = total - np.log(s * (s + 1)) + math.log(2 / period)
    log_term[0] -= math.log(2)
    error = np.expm1(np.minimum(error, 100.0)) + ULP * (16 + 4 * np.abs(total) + 4 * np.abs(log_term))
    return Line(s, log_term, error, period, (further, chernoff), log_tail)


def _gained(before: float, decay: float, growth: float, further: float) -> float:
    """What the decay gains about if it goes on as a power of the frequency."""
    return decay * (further ** min(math.log(decay / before) / math.log(growth), 2.0) - 1) if 0 < before < decay else 0.0


def _right(composition: Composition, axis: RealAxis, c: float, epsilon: float, log_allowed: float) -> tuple[float, float, float]:
    """Where a Chernoff bound allows the shortest period: that point, the log of the bound but for epsilon, and the period."""
    points = c * np.array(_FURTHER)
    try:
        k = axis.several(points)[0]
    except (TooSlowError, OverflowError):
        points = points[:1]
        k = axis.several(points)[0]
    factor = points * np.log(points) - (1 + points) * np.log1p(points)
    periods = (k + factor - points * epsilon - log_allowed) / (points - c)
    for i in np.argsort(np.where(np.isfinite(periods), periods, np.inf)):
        further = float(points[i])
        bound = composition.bound(further, 1e-6) + float(factor[i])
        if math.isfinite(bound):
            return further, bound, (bound - further * epsilon - log_allowed) / (further - c)
    raise TooSlowError


@np.errstate(all="ignore")
def line_at(composition: Composition, epsilon: float) -> Line:
    """The line whose saddle point is ``epsilon``; raises ``TooSlowError`` where the lattice should be used."""
    axis = RealAxis(composition)
    c = saddle(lambda c: epsilon - saddle_epsilon(c, axis(c)[1]))
    return _line(composition, axis, c, epsilon, log_saddle_delta(c, *axis(c)))


@np.errstate(all="ignore")
def contour_epsilon(composition: Composition, delta: float) -> Enclosure:
    """The least ``epsilon >= 0`` at which the composition has the given delta, enclosed."""
    axis, log_delta = RealAxis(composition), math.log(delta)
    c = saddle_delta(axis, log_delta)

    def around(epsilon: float) -> Enclosure:
        return _read(_line(composition, axis, c, epsilon, log_delta), axis, delta)

    found = around(saddle_epsilon(c, axis(c)[1]))
    if found.width > WIDTH:
        # The saddle point's epsilon was far from the true one: a line that is made for this one does better.
        with suppress(TooSlowError):
            return found.meet(around(found.upper))
    return found


def _read(line: Line, axis: RealAxis, delta: float) -> Enclosure:
    """Where a line's delta is the one wanted, enclosed."""
    c = float(line.s[0].real)
    epsilon = saddle_epsilon(c, axis(c)[1])
    for _ in range(20):
        value, derivative, _ = line.at(epsilon)
        if not (value > 0 and derivative < 0):
            raise TooSlowError
        change = value * math.log(value / delta) / -derivative
        epsilon += change
        if abs(change) < max(WIDTH / 100, 4 * ULP * abs(epsilon)):
            break
    else:
        raise TooSlowError

    def first(holds: Callable[[float], bool], off: float, sign: float) -> float:
        distance = max(off / -derivative, 1e-15 * abs(epsilon), WIDTH / 1e4)
        for _ in range(60):
            if holds(epsilon + sign * distance):
                return epsilon + sign * distance
            distance *= 1.5
        raise TooSlowError

    here = line.delta(epsilon)
    upper = first(lambda e: line.delta(e).upper <= delta, here.upper - delta, 1.0)
    lower = first(lambda e: line.delta(e).lower >= delta, delta - here.lower, -1.0)
    return Enclosure(max(lower, 0.0), max(upper, 0.0))


@np.errstate(all="ignore")
def rough_epsilon(composition: Composition, delta: float) -> float:
    """Epsilon if the loss, tilted to its saddle point, were Gaussian: exact for Gaussian steps, nearly so for many others.

    It is smooth in the noise; for searches, never reported.
    """
    axis, target = RealAxis(composition), math.log(delta)
    c = saddle_delta(axis, target)
    k, mean, variance = axis(c)
    tilts, deviation, epsilon = np.array([c, 1 + c]), math.sqrt(variance), saddle_epsilon(c, mean)
    for _ in range(_NEWTON):
        # delta is exp(K - c epsilon) times the difference of E exp(-a (L - epsilon)) 1(L > epsilon) for the two a.
        far = mean - epsilon
        first, second = tilts * (tilts * variance / 2 - far) + log_ndtr(far / deviation - tilts * deviation)
        share = math.exp(second - first)
        change = (k - c * epsilon + first + math.log1p(-share) - target) * (1 - share) / share
        epsilon += change
        if abs(change) <= _SETTLED * abs(epsilon):
            return epsilon
    raise TooSlowError


@np.errstate(all="ignore")
def at_most(composition: Composition, epsilon: float, delta: float) -> bool:
    """Whether a Chernoff bound shows that the composition has no more than this delta at ``epsilon`` > 0."""
    if not delta > 0:
        return False
    c = -10 * math.log(delta) / epsilon * _TRIED
    try:
        k = RealAxis(composition).several(c)[0]
    except (ArithmeticError, ValueError):
        return False
    log_delta = k + c * np.log(c) - (1 + c) * np.log1p(c) - c * epsilon
    best = int(np.argmin(np.where(np.isfinite(log_delta), log_delta, np.inf)))
    if not log_delta[best] < math.log(delta):
        return False
    return float(log_delta[best] - k[best]) + composition.bound(float(c[best])) <= math.log(delta)
