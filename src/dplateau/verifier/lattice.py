"""delta(epsilon) of a composition from above, by convolving losses on a lattice, in balls.

A step's profile delta is a convex function of ``y = exp(epsilon)``; its chords between the points ``exp(k h)`` lie above it and are
the profile of a law on the points k h (connect the dots: Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022). Composition keeps the
order, so the sum of such laws has a delta that is never below the true one, and above it by a part of the order h^2. Losses beyond
the last point count as infinite ones, sums below a first one as that one: both raise delta.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import accumulate, takewhile
from typing import Final

from flint import arb, arb_poly

from dplateau.verifier.balls import exact, gaussian_delta, precision
from dplateau.verifier.laws import Add, Sampled
from dplateau.verifier.quadrature import TooHardError
from dplateau.verifier.statement import Composition, Law

_AFAR: Final = 35.0
"""Sums this far above epsilon add all they can: exp(-35) of their mass is what it would be less."""
_LEFT_OUT: Final = 1e-17
"""Share of delta that may come from losses beyond the points."""
_BITS: Final = 112
"""Thirty digits: ten are lost to second differences."""
_MOST: Final = 1e5


class Gaussian(Law):
    """A Gaussian step, as a law among others."""

    def __init__(self, square: arb) -> None:
        self.mu = square.sqrt()

    def profile(self, epsilon: arb) -> arb:
        return gaussian_delta(self.mu, epsilon)

    @property
    def reverse(self) -> Law:
        return self


def _beyond(law: Law, allowed: float) -> float:
    """A loss beyond which delta of the law is below ``allowed``, to some per cent."""
    x = 1e-6
    while x < _MOST:
        # A radius that is not small beside what is allowed says nothing, so that few bits would not do.
        if law.profile(exact(x)) < allowed:
            return x
        x *= 1.1
    raise TooHardError("losses are too large for a lattice")


def _masses(law: Law, first: int, last: int, h: arb) -> tuple[list[arb], arb]:
    """The masses of P at ``first h`` to ``last h`` of the chords' law, and the mass at infinity."""
    y = [(k * h).exp() for k in range(first, last + 1)]
    reverse = law.reverse
    delta = [
        law.profile(k * h) if k >= 0 else 1 - x + x * reverse.profile(-k * h)
        for k, x in zip(range(first, last + 1), y, strict=True)
    ]
    # The chord before the first point starts at y = 0, where delta is 1; beyond the last one delta stays what it is.
    slopes = [(delta[0] - 1) / y[0]]
    slopes += [(delta[i + 1] - delta[i]) / (y[i + 1] - y[i]) for i in range(len(y) - 1)]
    slopes.append(exact(0))
    masses = [x * (after - before) for x, before, after in zip(y, slopes[:-1], slopes[1:], strict=True)]
    if any(mass < 0 for mass in masses):  # Bounds from above need not lie on a convex line where both directions meet.
        raise ArithmeticError("the chords of a law's bounds are not those of a law")
    return masses, delta[-1]


class _Sum:
    """A law on the lattice: masses from the point ``first`` on, and at infinity."""

    def __init__(self, mass: arb_poly, first: int, infinite: arb) -> None:
        self.mass, self.first, self.infinite = mass, first, infinite

    def __add__(self, other: _Sum) -> _Sum:
        # Either is infinite.
        infinite = self.infinite + other.infinite - self.infinite * other.infinite
        return _Sum(self.mass * other.mass, self.first + other.first, infinite)

    def cut(self, low: int, high: int, rare: arb) -> _Sum:
        """What is above ``high`` becomes infinite, what is below ``low`` is moved up, and so are ends with a mass of ``rare``."""
        coeffs = self.mass.coeffs()
        start, stop = max(low - self.first, 0), max(min(high - self.first + 1, len(coeffs)), 1)
        start = min(start + _few(coeffs[start:], rare), stop - 1)
        stop = max(stop - _few(reversed(coeffs[:stop]), rare), start + 1)
        below, beyond = sum(coeffs[:start], exact(0)), sum(coeffs[stop:], exact(0))
        kept = coeffs[start:stop]
        kept[0] += below
        return _Sum(arb_poly(kept), self.first + start, self.infinite + beyond)


def _few(masses: Iterable[arb], rare: arb) -> int:
    """How many of the first ones sum to at most ``rare``."""
    sums = accumulate(masses)
    return sum(1 for _ in takewhile(lambda mass: mass <= rare, sums))


class Lattice:
    """The sum of the losses of one composition on a lattice: delta from above at any epsilon near the one it was made for.

    Parameters
    ----------
    composition : Composition
        What is composed.
    epsilon : arb
        Where delta is asked for, about.
    delta : float
        About what it is.
    points : int
        Number of points of one step's law, about.
    """

    @precision(_BITS)
    def __init__(self, composition: Composition, epsilon: arb, delta: float, points: int) -> None:
        laws = self.laws = [*composition.parts, *([(Gaussian(composition.square), 1)] if composition.square > 0 else [])]
        steps = sum(count for _, count in laws)
        allowed = delta * _LEFT_OUT / steps
        high = max(_beyond(law, allowed) for law, _ in laws)
        # What lies far below is moved up; it counts where a large loss of another step comes to it.
        low = min(max(_beyond(law.reverse, allowed) for law, _ in laws), steps * high)
        self.h = exact((low + high) / points)
        first, last = -math.ceil(low / float(self.h)), math.ceil(high / float(self.h))
        top = math.ceil((float(epsilon.upper()) + _AFAR) / float(self.h))
        # A sum this far below zero does not rise above it again, or hardly; it is moved up to here.
        hardly = first - last
        bottom = max(steps * first, -steps * last if steps * last <= -2 * hardly else hardly)
        total, rare = None, exact(allowed)
        for law, count in laws:
            masses, infinite = _masses(law, first, last, self.h)
            power = _Sum(arb_poly(masses), first, infinite)
            while count:
                if count % 2:
                    total = power if total is None else (total + power).cut(bottom, top, rare)
                count //= 2
                if count:
                    power = (power + power).cut(bottom, top, rare)
        assert total is not None
        self.total = total

    def _told_by_one(self, epsilon: arb) -> arb:
        """What is known from below: how the event that some step's loss is above epsilon tells the two apart.

        It cancels where exp(epsilon) is large; a ball around it might reach above what is known from above.
        """
        none_p = none_q = exact(1)
        for law, count in self.laws:
            if not isinstance(law, Sampled) or law.shift:
                return exact(0)
            if isinstance(law, Add) and not epsilon < law.greatest:
                continue
            p, q = law.branches[0].beyond(epsilon)
            none_p, none_q = none_p * (1 - p) ** count, none_q * (1 - q) ** count
        return (1 - none_p - epsilon.exp() * (1 - none_q)).lower().max(exact(0))

    def delta(self, epsilon: arb) -> arb:
        """A ball from what the event that some step's loss is above epsilon tells, to the lattice's delta."""
        low, found, first = self._told_by_one(epsilon), self.total.infinite, self.total.first
        start = max(int(float((epsilon / self.h).lower())) - first, 0)
        for k, mass in enumerate(self.total.mass.coeffs()[start:], start=start + first):
            loss = k * self.h
            if loss > epsilon:
                found += mass * -(epsilon - loss).expm1()
            elif not loss <= epsilon:
                found += mass * (-(epsilon - loss).expm1()).union(exact(0))
        return low.union(found)
