"""Integrals of the laws against ``exp(s loss)``, by Gauss-Legendre quadrature whose error is bounded in balls.

On [-1, 1], f analytic and at most M in the ellipse with foci -1, 1 and sum of half-axes r > 1: its Chebyshev coefficients are at
most 2 M r^-k. The rule of n points is exact below degree 2n, and integral and rule of a Chebyshev polynomial are at most 2/3 and 2,
so the error is at most ``16/3 M r^(-2n) / (1 - 1/r)``. M is found by computing f with a ball that covers the ellipse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Final, NamedTuple

from flint import acb, acb_mat, arb

from dplateau.verifier.balls import above, exact, largest, precision
from dplateau.verifier.laws import Branch, Sampled

_RATIOS: Final = (2.0, 3.0, 5.0, 9.0)
"""Ellipses that are tried."""
_POINTS: Final = 64
"""Most points of a piece; where more are needed it is halved."""
_WORK: Final = 300_000_000
"""Most terms of all transforms of one law."""
_AT_ONCE: Final = 2_000
"""So many points are summed at once, to save memory."""
_MANY: Final = 20_000
"""A branch that needs more points is not computed."""
_WIDEST: Final = 400
"""Nor is one that is wider: a noise multiplier near 1/200 makes such."""


class TooHardError(ArithmeticError):
    """The method needs too much work; another one may do."""


class Nodes(NamedTuple):
    """P as a sum: weights and losses, and a bound on the error of ``E exp(s loss)`` for 0 <= Re s <= c, |Im s| <= omega."""

    weight: list[arb]
    loss: list[arb]
    error: arb

    @property
    def at_zero(self) -> arb:
        """The mass of P that has loss 0: what no branch holds."""
        return 1 - sum(self.weight, exact(0))

    def moment(self, c: arb) -> arb:
        """``E exp(c loss)``."""
        found = self.at_zero + sum((w * (c * x).exp() for w, x in zip(self.weight, self.loss, strict=True)), exact(0))
        return found + self.error * arb(0, 1)

    def transform(self, c: arb, step: arb, count: int) -> list[acb]:
        """``E exp((c + i k step) loss)`` for k from 0 to ``count - 1``: products of short and of long turns, summed as matrices."""
        if len(self.weight) * count > _WORK:
            raise TooHardError
        short = math.isqrt(count - 1) + 1
        long = -(-count // short)
        total = acb_mat(long, short, [self.at_zero] * (long * short))
        for first in range(0, len(self.weight), _AT_ONCE):
            part = slice(first, first + _AT_ONCE)
            *near, turn = _powers([acb(0, step * x).exp() for x in self.loss[part]], short)
            size = [w * (c * x).exp() for w, x in zip(self.weight[part], self.loss[part], strict=True)]
            far = [[s * z for s, z in zip(size, row, strict=True)] for row in _powers(turn, long - 1)]
            total += acb_mat(far) * acb_mat(near).transpose()
        off = self.error * arb(0, 1)
        return [value + acb(off, off) for value in total.entries()[:count]]


def _powers(numbers: list[acb], last: int) -> list[list[acb]]:
    """Their powers from 0 to ``last``, each of two about half as high: one at a time, radii would double again and again."""
    found = [[acb(1)] * len(numbers), numbers]
    for k in range(2, last + 1):
        found.append([x * y for x, y in zip(found[k // 2], found[k - k // 2], strict=True)])
    return found[: last + 1]


@cache
def _rule(count: int) -> list[tuple[arb, arb]]:
    with precision():
        return [arb.legendre_p_root(count, k, weight=True) for k in range(count)]


def end_of(branch: Branch, c: arb, tolerance: arb, sign: int) -> tuple[arb, arb]:
    """Where an end may be cut, and what P and ``P exp(c loss)`` have beyond it together: ``exp(constant + slope^2/2)`` times a
    normal tail, each.
    """

    def place(tail: tuple[arb | None, arb, arb]) -> float:
        start, constant, slope = tail
        size = constant + slope**2 / 2 - tolerance.log()
        far = sign * slope + (2 * size.max(exact(1))).sqrt()
        return float((far if start is None else far.max(sign * start)).upper()) + 1e-6

    tails = [min((branch.tail(x, sign, second=second) for second in (False, True)), key=place) for x in (exact(0), c)]
    cut, other = exact(max(map(place, tails))), branch.low if sign > 0 else branch.high
    if other is not None:  # A branch that begins where hardly anything is left is short, and not turned round.
        cut = cut.max((sign * other).upper() + exact(1e-6))
    lost = sum(((constant + slope**2 / 2).exp() * above(cut - sign * slope) for _, constant, slope in tails), exact(0))
    return sign * cut, lost


@dataclass
class _Rule:
    """Pieces of one branch, put together."""

    branch: Branch
    c: arb
    omega: arb
    tolerance: arb

    def nodes(self) -> Nodes:
        """All pieces, the first of about the width on which a normal density changes."""
        branch, c = self.branch, self.c
        low, high, error = branch.low, branch.high, exact(0)
        if low is None:
            low, lost = end_of(branch, c, self.tolerance, -1)
            error += 2 * lost  # |exp(s loss) - 1| is at most exp(c loss) + 2: what no branch holds counts as loss 0.
        if high is None:
            high, lost = end_of(branch, c, self.tolerance, 1)
            error += 2 * lost
        if not (width := (high - low).upper()) < _WIDEST:
            raise TooHardError("the noise is too small for this method")
        count = max(int(float(width)) + 1, 1)
        edges = [low + (high - low) * k / count for k in range(count + 1)]
        # Errors count relative to the transform on the real axis, which the highest term is a measure of.
        self.tolerance *= largest(exact(1), *(branch.tilted(h, c).mid() for h in edges))
        weight, loss = list[arb](), list[arb]()
        pieces = list(pairwise(edges))
        while pieces:
            left, right = pieces.pop()
            found = self._points(left, right, self.tolerance / count)
            if len(weight) + len(pieces) > _MANY:
                raise TooHardError
            if found is None:
                middle = (left + right) / 2
                pieces += [(left, middle), (middle, right)]
                continue
            points, missed = found
            error += missed
            half, centre = (right - left) / 2, (right + left) / 2
            for x, w in _rule(points) if points else ():
                h = centre + half * x
                weight.append(half * w * branch.tilted(h, exact(0)))
                loss.append(branch.loss(h))
        return Nodes(weight, loss, error)

    def _points(self, left: arb, right: arb, tolerance: arb) -> tuple[int, arb] | None:
        """How many points a piece needs, and its error; None for too many."""
        half, centre = (right - left) / 2, (right + left) / 2
        whole = 2 * half * self._most(acb(left.union(right)))
        if whole < tolerance:
            return 0, whole
        best: tuple[int, arb] | None = None
        for r in map(exact, _RATIOS):
            most = self._most(acb(centre + half * (r + 1 / r) / 2 * arb(0, 1), half * (r - 1 / r) / 2 * arb(0, 1)))
            if not most.is_finite():
                break
            constant = 16 * half * most / (3 * (1 - 1 / r))
            needed = float(((constant / tolerance).log() / (2 * r.log())).upper())
            if needed > _POINTS:
                continue
            points = max(2, 2 * -(-int(needed + 1) // 2))
            if best is None or points < best[0]:
                best = points, constant * r ** (-2 * points)
        return best

    def _most(self, z: acb) -> arb:
        """A bound on the integrand there, for all s."""
        # Where both mixtures have positive real parts their logarithms are analytic, and are those on the line.
        if any(part.gap is not None and not (1 + part.odds(z)).real > 0 for part in (self.branch.p, self.branch.q)):
            return arb.pos_inf()
        loss = self.branch.loss(z)
        size = (self.branch.p.log(z) - z * z / 2).real.exp()
        grown = (self.c * loss.real.max(exact(0)) + self.omega * abs(loss.imag)).exp()
        return (size * (grown + 1)).abs_upper()


def nodes(law: Sampled, c: arb, omega: arb, tolerance: arb) -> Nodes:
    """The law as a sum; each piece and each end is cut at about the tolerance."""
    parts = [_Rule(branch, c, omega, tolerance).nodes() for branch in law.branches]
    weight, loss = [one for part in parts for one in part.weight], [one for part in parts for one in part.loss]
    return Nodes(weight, loss, sum((part.error for part in parts), exact(0)))
