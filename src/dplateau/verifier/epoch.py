"""Moments of an epoch of random allocation, of complex order too (``docs/proofs/moments-of-an-epoch.md``).

``S = V/l`` as in ``allocation.py``. Let N be Poisson with the mean s S, given S. For Re t < n

    ``E S^t = n! / Gamma(n - t) integral of s^-t P(N = n) d(log s)``.

N is a sum of independent numbers, one a batch, so P(N = n) is a coefficient of a product of power series. Two trapezoid rules, in
log s and in each g, converge exponentially; what they miss, and what lies beyond their ends, is bounded relatively to E S^(Re t).
Steps and ends are choices, made in floats.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, reduce
from operator import mul
from typing import ClassVar, Final

from flint import acb, arb, arb_poly, arb_series, ctx

from dplateau.verifier.balls import above, density, exact, largest, precision
from dplateau.verifier.quadrature import TooHardError
from dplateau.verifier.statement import Law

Parts = tuple[tuple[Fraction, int], ...]
"""Each mu of an epoch's batches, in ascending order, with the number of batches that have it."""
_MORE: Final = 16
"""By so much n is larger than the highest order."""
_ANGLES: Final = [0.02 * k for k in range(1, 76)]
"""By how much a line of integration is turned."""
_SMALL: Final = 0.01
"""What is missed has to be less, in all."""
_FAR: Final = 60
"""Logarithm of how much smaller than what counts is what is not looked at."""
_LONGEST: Final = 200_000
"""Most points of log s, times n."""
_HIGHEST: Final = 2_000
"""Largest n: with a larger one these are always too many."""
_FINEST: Final = 2_000_000
"""Most points of all noise that goes with one of these, times n: that takes half a minute."""


@contextmanager
def _cap(length: int) -> Iterator[None]:
    """Power series of so many terms."""
    before, ctx.cap = ctx.cap, length
    try:
        yield
    finally:
        ctx.cap = before


class Grid:
    """Orders t from ``low`` to ``high``, both whole, at frequencies up to ``omega``; errors of about ``exp(-size)``."""

    def __init__(self, parts: Parts, batches: int, low: int, high: int, omega: float, size: float) -> None:
        self.parts, self.batches = parts, batches
        self.n, self.rest = high + _MORE + int(omega / 3), Fraction(batches - sum(times for _, times in parts), batches)
        n, a = self.n, self.n - low
        if n > _HIGHEST:
            raise TooHardError
        # Where Gamma(n - t) is small errors grow.
        size += float(arb(n - high).lgamma().real - acb(n - high, omega).lgamma().real)
        self.bits = ctx.prec + int(1.5 * size)
        with precision(self.bits):
            self._build(a, low, high, omega, size)

    def _build(self, a: int, low: int, high: int, omega: float, size: float) -> None:
        n, parts, batches = self.n, self.parts, self.batches
        step = max(2 * math.pi * d / (size + omega * d - a * math.log(math.cos(d))) for d in _ANGLES)
        self.step = math.ldexp(math.floor(math.ldexp(step, 12)), -12)
        self.side = math.sqrt(2 * size) + 1
        self.whole = self._whole_moments()
        # The largest s, and the smallest, in units of the step.
        ends = [(self._lost(t, first), first) for t, first in ((high, True), (low, False))]
        start, stop = (
            (max if first else min)((-size - float(log)) / slope for slope, log in lost) / self.step for lost, first in ends
        )
        self.start, self.count = math.floor(start), math.ceil(stop) - math.floor(start) + 1
        if not self.count * n < _LONGEST:
            raise TooHardError
        # Smaller probabilities of one batch are taken to be anything up to this.
        heavy = max(-high * self.start, -low * (self.start + self.count)) * self.step + math.lgamma(n + 1)
        self.rare = exact(-size - heavy - _FAR).exp()
        self.strides, self.reach = {}, (float(max(-low, 0)), float(max(high, 0)))
        for mu, _ in parts:
            m = float(mu)
            fine = max(2 * math.pi * d / (size + d * d / (2 * m * m) - a * math.log(math.cos(d))) for d in _ANGLES)
            stride = self.step / min(fine, m / 2)
            if not stride * self.count * n < _FINEST:
                raise TooHardError
            self.strides[mu] = math.ceil(stride)
        turned = (n - low) * (3 / batches + self.step) - low * self.step
        self.left = min(self.side + self.reach[0] * float(parts[-1][0]), math.sqrt(self.side**2 + 2 * turned))
        self.mass, self.none = self._masses()

    def _whole_moments(self) -> list[arb]:
        """``E S^p`` for p = 0, 1, ..., n."""
        with _cap(self.n + 1):
            factorial = [arb(p).gamma() for p in range(1, self.n + 2)]
            series = reduce(mul, (self._series(mu) ** times for mu, times in self.parts))
            series *= arb_series([exact(self.rest) ** p / one for p, one in enumerate(factorial)])
            return [c * one for c, one in zip(series.coeffs(), factorial, strict=False)]

    def _series(self, mu: Fraction) -> arb_series:
        """``E x^p / p!`` for ``x = X/l``."""
        square, size = exact(mu) ** 2 / 2, arb(self.batches)
        return arb_series([(square * p * (p - 1)).exp() / (size**p * arb(p + 1).gamma()) for p in range(self.n + 1)])

    def _lost(self, t: arb | int, low: bool, less: int = 0) -> list[tuple[float, arb]]:
        """What lies beyond an end x of log s, relatively: ``slope x`` plus a logarithm, for some choices of p (any is a bound).

        ``P(N = n) <= kappa s^p E S^p`` for p <= n, and the sum beyond the end is a geometric series. With ``less`` = 1 it is what
        all batches but one have there, and the integral, which is larger than the sum.
        """
        power, found = float(t), list[tuple[float, arb]]()
        known = {p: moment.log() for p, moment in enumerate(self.whole)}
        if not low:
            known = {p: arb(0) for p in (0, 1)}
            mu, left = exact(self.parts[-1][0]), self.batches - less
            used = sum(times for _, times in self.parts) - less
            for k in range(10 if left else 0):  # A mean is at least the root of the product.
                p = math.floor(min(power, 0.0)) - 2**k
                known[p] = arb(used) / left * p * (arb(p) / left - 1) * mu**2 / 2 - p * (arb(self.batches) / left).log()
        for p, log in known.items():
            rest, slope = self.n - p, (p - t if low else t - p)
            if rest >= 0 and float(slope) >= 1 / 2:
                kappa = rest * (arb(rest).log() - 1) if rest else arb(0)
                series = exact(self.step).log() - (0 if less else slope * self.step) - (1 - (-slope * exact(self.step)).exp()).log()
                found.append((float(slope) if low else -float(slope), log + kappa + series - (self.n - arb(t)).lgamma()))
        return found

    def _masses(self) -> tuple[list[arb], list[list[arb]]]:
        """``P(N = n)`` times the step, at every log s; and P(0) of one batch of each kind."""
        numbers, found = [self._one(mu) for mu, _ in self.parts], list[arb]()
        with _cap(self.n + 1):
            for i in range(self.count):
                certain = (exact(self.step) * (self.start + i)).exp() * exact(self.rest)
                drawn = (arb_series(one[i]) ** times for one, (_, times) in zip(numbers, self.parts, strict=True))
                series = reduce(mul, drawn, arb_series([0, certain]).exp())
                found.append(series.coeffs()[self.n] * (-certain).exp() * exact(self.step))
        return found, [[point[0] for point in one] for one in numbers]

    def _one(self, mu: Fraction) -> list[list[arb]]:
        """P(N = 0), ..., P(N = n) of one batch, at every log s."""
        stride, m = self.strides[mu], exact(mu)
        fine = exact(self.step) / stride
        right = self.side + self.reach[1] * float(mu)
        first, last = (math.ceil(end * float(mu) / float(fine)) for end in (self.left, right))
        mass = [fine / m * density(fine * j / m) for j in range(-first, last + 1)]
        size = (self.count - 1) * stride + 1
        lowest = exact(self.step) * self.start - fine * first - m * m / 2 - arb(self.batches).log()
        at = [(lowest + fine * i).exp() for i in range(size + len(mass) - 1)]
        value, weights, found = [(-y).exp() for y in at], arb_poly(mass[::-1]), list[list[arb]]()
        rare = arb(0, 1) * self.rare
        for k in range(self.n + 1):
            if k:
                value = [v * y / k for v, y in zip(value, at, strict=True)]
            product = (arb_poly([v if v > self.rare else rare.union(v) for v in value]) * weights).coeffs()
            found.append(product[len(mass) - 1 : len(mass) - 1 + size : stride])
        return [list(one) for one in zip(*found, strict=True)]

    def _others(self, t: arb, weight: list[arb]) -> arb:
        """The t-th moment of all batches but one, relatively to that of all: ``P(N = n)`` is at least P(0) of one times theirs."""
        if not t < 0:
            return arb(1)
        if not all(p > 0 for none in self.none for p in none):
            return arb.pos_inf()
        found = largest(*(_total([w / p for w, p in zip(weight, none, strict=True)]) for none in self.none))
        ends = [self._beyond_end(t, first, less=1) for first in (True, False)]
        return (found / _total(weight) + ends[0] + ends[1]) * ((self.n - t) * exact(self.step)).exp()

    def _beyond_end(self, t: arb, first: bool, less: int = 0) -> arb:
        x = exact(self.step) * (self.start if first else self.start + self.count - 1)
        return _least([((1 if first else -1) * abs(exact(slope)) * x + log).exp() for slope, log in self._lost(t, first, less)])

    def _missed(self, t: arb, others: arb) -> arb:
        """A bound on all that is missed, relatively to ``Gamma(n - t)/n! E S^t``, but for the rule in log s."""
        total = self._beyond_end(t, True) + self._beyond_end(t, False)
        for mu, times in self.parts:
            m, fine = exact(mu), exact(self.step) / self.strides[mu]
            total += times * _least([self._turned(t, d, fine, exact(d) ** 2 / (2 * m * m)) for d in _ANGLES])
            left, right = exact(self.left) - fine / m, exact(self.side + self.reach[1] * float(mu)) - fine / m
            cut = _least([above(left + m * t.min(exact(0))), above(left) * others])
            total += exact(1.01) * times * (above(right - m * t.max(exact(0))) + cut)
        return total.upper() * exact(1.01)

    def _missed_by_rule(self, t: arb, omega: arb) -> arb:
        """What the rule in log s misses at ``t + i omega``."""
        return _least([self._turned(t, d, exact(self.step), abs(omega) * exact(d)) for d in _ANGLES]) * exact(1.01)

    def _turned(self, t: arb, angle: float, step: arb, more: arb) -> arb:
        return 2 * (more - (self.n - t) * exact(angle).cos().log()).exp() / (2 * arb.pi() * exact(angle) / step).expm1()

    def moments(self, t: arb, step: arb, count: int) -> list[acb]:
        """``E S^(t + i k step)`` for k = 0, ..., count - 1."""
        with precision(self.bits):
            return self._moments(t, step, count)

    def _moments(self, t: arb, step: arb, count: int) -> list[acb]:
        place = [exact(self.step) * (self.start + i) for i in range(self.count)]
        weight = [mass * (-t * x).exp() for mass, x in zip(self.mass, place, strict=True)]
        known, others = _total(weight), self._others(t, weight)
        always = self._missed(t, others)
        missed = always + self._missed_by_rule(t, arb(0))
        if not missed < _SMALL:
            raise TooHardError
        all_of_it, found = (known / (1 - missed)).upper(), list[acb]()
        turns = [acb(0, -step * x).exp() for x in place]
        turned = [acb(one) for one in weight]
        for k in range(count):
            off = arb(0, 1) * ((always + self._missed_by_rule(t, k * step)) * all_of_it)
            total = sum(turned, acb(0)) + acb(off, off if k else arb(0))
            found.append(total * acb(self.n + 1).gamma() * acb(self.n - t, -k * step).rgamma())
            turned = [one * turn for one, turn in zip(turned, turns, strict=True)]
        return found


def _total(values: list[arb]) -> arb:
    return sum(values, arb(0))


def _least(values: list[arb]) -> arb:
    return reduce(lambda one, other: one.min(other), (value.upper() for value in values if value.is_finite()), arb.pos_inf())


@lru_cache(maxsize=64)
def _grid(parts: Parts, batches: int, low: int, high: int, omega: int, bits: int) -> Grid:
    """Kept; errors are about those of so many bits."""
    return Grid(parts, batches, low, high, omega, bits * math.log(2) / 2)


@dataclass(frozen=True)
class Epoch(Law):
    """One epoch: the ``parts`` of the run's ``batches`` that it has, all but in a last epoch that is cut short.

    ``sign`` is 1 where P has the record, -1 where Q has it.
    """

    parts: Parts
    batches: int
    sign: ClassVar[int] = 1

    @property
    def rest(self) -> int:
        return self.batches - sum(times for _, times in self.parts)

    @property
    def fall(self) -> arb:
        """``|m(c + i w)| <= m(c) exp(-fall w^2)``: along the vector of the z_j all normal numbers move log S alike."""
        return 1 / (2 * exact(sum((times / mu**2 for mu, times in self.parts), Fraction(0)))) if not self.rest else arb(0)

    def moment(self, c: arb) -> arb:
        """``E_P exp(c loss)``."""
        return self.moments(c, arb(0), 1)[0].real

    def moments(self, c: arb, step: arb, count: int) -> list[acb]:
        """``E_P exp((c + i k step) loss)`` for k = 0, ..., count - 1."""
        order = 2 ** math.ceil(math.log2(max(float(c), 1.0)) + 1e-9)
        low, high, power = (1, 1 + order, 1 + c) if self.sign > 0 else (-order, 0, -c)
        omega = math.ceil(float(step) * count) if count > 1 else 0
        return _grid(self.parts, self.batches, low, high, omega, ctx.prec).moments(power, self.sign * step, count)
