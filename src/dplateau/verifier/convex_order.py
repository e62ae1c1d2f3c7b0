"""Laws of sums of independent random variables, bounded from above in the convex order.

V is above U if ``E F(U) <= E F(V)`` for every convex F; sums of independent variables keep the order. A law here is masses on
lattices of spacing 2^s, which are the finer the nearer they are to its middle, and to 0 where no value is negative.

*One summand*: the law whose ``E (X - x)_+`` is the chords of the true one. *Lattices*: a mass between two points is split between
them, its mean kept. *Ends*: a mass p with mean m may become p at the least value, and all else of m at infinity, because
``F(x) <= F(least) + (x - least) F'(infinity)``. So masses may be dropped: it is known that all sum to 1, and what the mean is.
Lattices and what is dropped are choices, made in floats. Proof: ``docs/proofs/random-allocation.md``, section 5.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple

from flint import arb, arb_poly

_FINE, _SIGNED, _RARE = 512, 128, 1e-40
"""Points for the width of a law, and where values may be negative; mass, or mean, that a point at an end may have to be dropped."""


class _Block(NamedTuple):
    """Masses at first, first + 1, ... times the spacing."""

    first: int
    mass: arb_poly

    def joined(self, other: _Block) -> _Block:
        if not (self.mass.length() and other.mass.length()):
            return self if self.mass.length() else other
        first = min(self.first, other.first)
        return _Block(first, self.mass.left_shift(self.first - first) + other.mass.left_shift(other.first - first))

    def times(self, other: _Block) -> _Block:
        """The sum of two independent variables."""
        return _Block(self.first + other.first, self.mass * other.mass)

    def coarser(self) -> _Block:
        """On the lattice of twice the spacing."""
        odd = (self.first - 1) % 2
        return _Block((self.first - 1 + odd) // 2, arb_poly((self.mass * arb_poly([0.5, 1, 0.5])).coeffs()[odd::2]))

    def part(self, start: int, stop: int) -> _Block:
        """What lies on points start to stop, the last one left out."""
        begin = max(start - self.first, 0)
        return _Block(self.first + begin, self.mass.truncate(max(stop - self.first, 0)).right_shift(begin))

    def trimmed(self, scale: int, least: float) -> _Block:
        """Without the rare masses at both ends."""
        mass, far = self.mass.coeffs(), 1 - least

        def counts(i: int) -> bool:
            return abs(float(mass[i])) * (far + abs(math.ldexp(self.first + i, scale))) > _RARE

        start, stop = next(filter(counts, range(len(mass))), 0), next(filter(counts, range(len(mass) - 1, -1, -1)), -1)
        return self.part(self.first + start, self.first + stop + 1)


_NONE: Final = _Block(0, arb_poly())


@dataclass(frozen=True)
class Sum:
    """A law above that of V (less rare masses): masses by the scale of their lattice, the mean of V and its least value. Lattices
    depend on how wide V is, and on how far above its least value it begins to count.
    """

    blocks: dict[int, _Block]
    mean: arb
    least: arb
    width: float
    low: float

    def ends(self, scale: int) -> tuple[float, float]:
        """Between which values the spacing is at most 2^scale."""
        mean, least = float(self.mean), float(self.least)
        reach = math.ldexp(_SIGNED if least < 0 else _FINE, scale + 2)
        if reach > 2 * self.width:
            return least if self.low < self.width else mean - reach, mean + reach
        return least, least + reach * (reach > 2 * self.low)

    def plus(self, other: Sum) -> Sum:
        """The sum of two independent variables."""
        found, scale, top = dict[int, _Block](), min(*self.blocks, *other.blocks), max(*self.blocks, *other.blocks)
        width, low = math.hypot(self.width, other.width), self.low + other.low
        total = Sum(found, self.mean + other.mean, self.least + other.least, width, low)
        finer = others = carried = _NONE
        while scale <= top or carried.mass.length():
            mine, theirs = self.blocks.get(scale, _NONE), other.blocks.get(scale, _NONE)
            finer, others = finer.coarser(), others.coarser()
            if self is other:
                new = mine.times(mine.joined(finer).joined(finer))
            else:
                new = mine.times(theirs.joined(others)).joined(finer.times(theirs))
            finer, others = finer.joined(mine), others.joined(theirs)
            carried = carried.coarser().joined(new).trimmed(scale, float(total.least))
            start, stop = (math.ceil(math.ldexp(end, -scale)) for end in total.ends(scale))
            if (kept := carried.part(start, stop)).mass.length():
                found[scale] = kept
            beyond = carried.part(stop, carried.first + carried.mass.length())
            carried, scale = carried.part(carried.first, start).joined(beyond), scale + 1
        return total

    def repeated(self, times: int) -> Sum:
        """The sum of so many independent ones."""
        if times == 1:
            return self
        half = self.repeated(times // 2)
        return half.plus(half).plus(self) if times % 2 else half.plus(half)

    @cached_property
    def _table(self) -> tuple[int, list[int], list[arb], list[arb]]:
        """A scale, the points in its units, and the mass and mean of the last k points, for every k."""
        unit, mass, moment = min(self.blocks), [arb(0)], [arb(0)]
        points = sorted((b.first + i << s - unit, m) for s, b in self.blocks.items() for i, m in enumerate(b.mass.coeffs()))
        for place, one in reversed(points):
            mass.append(mass[-1] + one)
            moment.append(moment[-1] + one * place * arb(2) ** unit)
        return unit, [place for place, _ in points], mass, moment

    def index(self, t: float) -> float:
        """How many points lie below t, or all but one if t is infinite."""
        unit, places, *_ = self._table
        return bisect_left(places, math.ldexp(t, -unit)) if t < math.inf else len(places) - 1

    def value(self, k: float) -> float:
        """Where the k-th point lies, or what lies between two."""
        unit, places, *_ = self._table
        i = min(int(k), len(places) - 2)
        return math.ldexp(places[i] + (k - i) * (places[i + 1] - places[i]), unit)

    def likely(self, t: float) -> float:
        """About the mass above t."""
        unit, places, mass, _ = self._table
        return float(mass[len(places) - bisect_right(places, math.ldexp(t, -unit))])

    def excess(self, t: arb) -> arb:
        """``E (V - t)_+``."""
        # The expression is too small for a t that is not next to the k-th point from above; that of the lower end of t is not.
        if not (low := t.lower()) >= self.least:
            return self.mean - t
        unit, places, mass, moment = self._table
        k = len(places) - bisect_right(places, int((low * arb(2) ** -unit).floor().fmpz()))
        return self.mean - (1 - mass[-1]) * self.least - moment[-1] + moment[k] - t * mass[k]


def chords(reach: float, excess: Callable[[arb], arb], width: float, low: float) -> Sum:
    """X up to ``reach``, or further, and with ``low`` infinite down to its opposite, by chords of ``excess(x) = E (X - x)_+``."""

    def intervals(place: int, scale: int) -> Iterator[tuple[int, int]]:
        start, stop = (math.ldexp(end, -scale) for end in law.ends(scale - 1))
        if start < min(stop, place + 1) and place < stop:
            yield from intervals(2 * place, scale - 1)
            yield from intervals(2 * place + 1, scale - 1)
        else:
            yield place, scale

    top, first = math.ceil(math.log2(reach)), 0 if low < math.inf else -1
    least = first * arb(2) ** top
    law = Sum({}, least + excess(least), least, width, low)
    cells = [cell for place in range(first, 1) for cell in intervals(place, top)]
    values = [excess(place * arb(2) ** scale) for place, scale in cells]
    slopes = (arb(-1), *((b - a) / arb(2) ** scale for (a, b), (_, scale) in zip(pairwise(values), cells, strict=False)))
    masses = dict[int, dict[int, arb]]()
    for (place, scale), (left, right) in zip(cells, pairwise(slopes), strict=False):
        masses.setdefault(scale, {})[place] = right - left
    for scale, mass in masses.items():
        law.blocks[scale] = _Block(min(mass), arb_poly([mass.get(place, 0) for place in range(min(mass), max(mass) + 1)]))
    return law
