"""Random allocation: in every epoch each record is in one batch, drawn at random (``docs/proofs/random-allocation.md``).

Of l batches with mu_j = 1/z_j let ``V = X_1 + ... + X_l``, ``X_j = exp(mu_j g_j - mu_j^2/2)``, g_j ~ N(0, 1) independent. Then
``delta = E (V/l - e^epsilon)_+`` where the record is present, ``E (1 - e^epsilon V/l)_+`` where it is absent (sections 1 to 4), and
``(e^(epsilon/2)/l) E (Y_1 + ... + Y_l)_+`` where it is replaced, ``Y_j = 2 exp(-mu_j^2/2) sinh(mu_j g_j - epsilon/2)`` (section 5).
If the epoch ends after r batches the other l - r have ``X_j = 1``, ``Y_j = -2 sinh(epsilon/2)``.

The law of a sum is bounded in the convex order (section 5) by masses on lattices of spacing 2^s, which are finer near its middle.
*One summand*: the law whose ``E (X - x)_+`` is the chords of the true one. *Lattices*: a mass between two points is split between
them, its mean kept. *Ends*: a mass p with mean m may become p at the least value, and all else of m at infinity, because
``F(x) <= F(least) + (x - least) F'(infinity)``. So masses may be dropped: it is known that all sum to 1, and what the mean is.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache, reduce
from itertools import pairwise, product
from typing import Final, NamedTuple, TypeAlias

from flint import arb, arb_poly

from dplateau.spec import Run
from dplateau.verifier.balls import above, exact, gaussian_delta, precision
from dplateau.verifier.mechanism import sensitivity, steps
from dplateau.verifier.statement import Composition, Law, Statement

Parts: TypeAlias = tuple[tuple[Fraction, int], ...]
"""The mu of an epoch's batches, each with the number of batches that have it."""
_FINE, _SIGNED, _REACH, _RARE = 512, 64, 11.0, 1e-40
"""Points of a lattice for the width of V, and under replace; standard deviations of g that it holds; what is dropped at its ends."""
_CELLS, _PAIRS = (0, 48, 24, 12, 8, 4), 40
"""Cells of the noise (0: as it is), the first that leave at most so many pairs of a kind of epoch and a level."""
_GREATEST: Final = 6
"""Epochs with a larger mu count without sampling (section 4)."""


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

    def trimmed(self, scale: int, least: arb) -> _Block:
        """Without the rare masses at both ends."""
        mass, far = self.mass.coeffs(), 1 - float(least)

        def counts(i: int) -> bool:
            return abs(float(mass[i])) * (far + abs(math.ldexp(self.first + i, scale))) > _RARE

        start = next(filter(counts, range(len(mass))), 0)
        stop = next(filter(counts, range(len(mass) - 1, -1, -1)), -1)
        return self.part(self.first + start, self.first + stop + 1)


_NONE: Final = _Block(0, arb_poly())


@dataclass(frozen=True)
class _Sum:
    """A law above that of V (less rare masses), as masses by the scale of their lattice; the mean of V and its least value; and, to
    choose lattices by, how wide V is, and how far above its least value there is something to be seen.
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

    def plus(self, other: _Sum) -> _Sum:
        """The sum of two independent variables."""
        found, scale, top = dict[int, _Block](), min(*self.blocks, *other.blocks), max(*self.blocks, *other.blocks)
        width, low = math.hypot(self.width, other.width), self.low + other.low
        total = _Sum(found, self.mean + other.mean, self.least + other.least, width, low)
        finer = others = carried = _NONE
        while scale <= top or carried.mass.length():
            mine, theirs = self.blocks.get(scale, _NONE), other.blocks.get(scale, _NONE)
            finer, others = finer.coarser(), _NONE if self is other else others.coarser()
            if self is other:
                new = mine.times(mine.joined(finer).joined(finer))
            else:
                new = mine.times(theirs.joined(others)).joined(finer.times(theirs))
            finer, others = finer.joined(mine), others.joined(theirs)
            carried = carried.coarser().joined(new).trimmed(scale, total.least)
            start, stop = (math.ceil(math.ldexp(end, -scale)) for end in total.ends(scale))
            if (kept := carried.part(start, stop)).mass.length():
                found[scale] = kept
            carried, scale = carried.part(carried.first, start).joined(carried.part(stop, carried.first + carried.mass.length())), scale + 1
        return total

    def repeated(self, times: int) -> _Sum:
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

    def excess(self, t: arb) -> arb:
        """``E (V - t)_+``, or where t is no single number that of its lower end, which is more."""
        if not (t := t.lower()) >= self.least:
            return self.mean - t
        unit, places, mass, moment = self._table
        k = len(places) - bisect_right(places, int((t * arb(2) ** -unit).floor().unique_fmpz()))
        return self.mean - (1 - mass[-1]) * self.least - moment[-1] + moment[k] - t * mass[k]


def _chords(high: float, excess: Callable[[arb], arb], width: float, low: float) -> _Sum:
    """X up to ``high`` or beyond, by the chords of ``excess(x) = E (X - x)_+``; with mean 1 if it is at least 0, which has a ``low``."""
    top = math.ceil(math.log2(high))
    first = 0 if low < math.inf else -1
    least = first * arb(2) ** top
    law = _Sum({}, least + excess(least), least, width, low)

    def intervals(place: int, scale: int) -> Iterator[tuple[int, int]]:
        start, stop = (math.ldexp(end, -scale) for end in law.ends(scale - 1))
        if start < min(stop, place + 1) and place < stop:
            yield from intervals(2 * place, scale - 1)
            yield from intervals(2 * place + 1, scale - 1)
        else:
            yield place, scale

    cells = [cell for place in range(first, 1) for cell in intervals(place, top)]
    values = [excess(place * arb(2) ** scale) for place, scale in cells]
    slopes = (arb(-1), *((b - a) / arb(2) ** scale for (a, b), (_, scale) in zip(pairwise(values), cells, strict=False)))
    masses = dict[int, dict[int, arb]]()
    for (place, scale), (left, right) in zip(cells, pairwise(slopes), strict=False):
        masses.setdefault(scale, {})[place] = right - left
    for scale, mass in masses.items():
        law.blocks[scale] = _Block(min(mass), arb_poly([mass.get(place, 0) for place in range(min(mass), max(mass) + 1)]))
    return law


def _present(mu: Fraction, low: float) -> _Sum:
    """``exp(mu g - mu^2/2)``."""

    def excess(x: arb) -> arb:
        if not x > 0:
            return 1 - x
        g = x.log() / m + m / 2
        return above(g - m) - x * above(g)

    m = exact(mu)
    return _chords(math.exp(mu * mu / 2 + _REACH * mu), excess, float(mu), low)


def _replaced(mu: Fraction, shift: arb) -> _Sum:
    """``2 exp(-mu^2/2) sinh(mu g - shift)``."""

    def excess(x: arb) -> arb:
        g = ((x / factor).asinh() + shift) / m
        return above(g - m) / rise - rise * above(g + m) - x * above(g)

    m, rise = exact(mu), shift.exp()
    factor = 2 * (-m * m / 2).exp()
    high, one, other = (float(factor) * math.sinh(mu * g - float(shift)) for g in (_REACH + mu, 1, -1))
    return _chords(high, excess, (one - other) / 2, math.inf)


@lru_cache(maxsize=64)
def _ratio(parts: Parts) -> _Sum:
    """V."""
    used, mu = sum(times for _, times in parts), float(max(mu for mu, _ in parts))
    low = math.exp(-mu * mu / 2 - 9 * mu / math.sqrt(used))  # A mean is at least the root of the product.
    return reduce(_Sum.plus, (_present(mu, low).repeated(times) for mu, times in parts))


@dataclass(frozen=True)
class _Allocated(Law):
    """One epoch: the ``parts`` of the run's ``batches`` that it has, all but in a last epoch that is cut short."""

    parts: Parts
    batches: int

    @property
    def used(self) -> int:
        return sum(times for _, times in self.parts)

    @property
    def reverse(self) -> Law:
        return {AllocatedRemove: AllocatedAdd, AllocatedAdd: AllocatedRemove}.get(type(self), AllocatedReplace)(self.parts, self.batches)


class AllocatedRemove(_Allocated):
    """The data set with the record against that without."""

    @precision()
    def profile(self, epsilon: arb) -> arb:
        t = self.batches * epsilon.exp() - (self.batches - self.used)
        return _ratio(self.parts).excess(t) / self.batches


class AllocatedAdd(_Allocated):
    """The data set without the record against that with it."""

    @precision()
    def profile(self, epsilon: arb) -> arb:
        t = self.batches * (-epsilon).exp() - (self.batches - self.used)
        # (t - V)_+ = t - V + (V - t)_+, and V has mean r.
        return (t - self.used + _ratio(self.parts).excess(t)) * epsilon.exp() / self.batches


class AllocatedReplace(_Allocated):
    """One value of the record against another one. delta is a falling convex function of exp(epsilon): its chords between bounds at
    any points are bounds, and beyond the last point the bound there. Each profile has laws of its own (some tenths of a second).
    """

    @precision()
    def profile(self, epsilon: arb) -> arb:
        law = reduce(_Sum.plus, (_replaced(mu, epsilon / 2).repeated(times) for mu, times in self.parts))
        excess = law.excess((self.batches - self.used) * 2 * (epsilon / 2).sinh())
        whole = gaussian_delta(2 * exact(max(mu for mu, _ in self.parts)), epsilon)
        return whole.min((epsilon / 2).exp() * excess / self.batches)


def composed(run: Run) -> Statement:
    """All noisy gradients of a run with random allocation of more than one batch. Noise is rounded down to few levels."""
    batches, noise = run.sampling.epoch_length(run.n), [row.noise for row in steps(run) for _ in range(row.count)]
    epochs = [noise[first : first + batches] for first in range(0, len(noise), batches)]
    lowest = [[min(epoch)] * len(epoch) for epoch in epochs]
    tries = (_rounded(values, cells) for values, cells in product((epochs, lowest), _CELLS))
    alike = (Counter(tuple(sorted(Counter(epoch).items())) for epoch in one) for one in tries)
    kinds = next(found for found in alike if sum(map(len, found)) <= _PAIRS)
    laws = (AllocatedRemove, AllocatedAdd) if sensitivity(run) == 1 else (AllocatedReplace,)
    whole = sum((times * (sensitivity(run) / levels[0][0]) ** 2 for levels, times in kinds.items() if levels[0][0] * _GREATEST < 1), Fraction(0))
    parts = [(tuple((1 / z, count) for z, count in levels), times) for levels, times in kinds.items() if levels[0][0] * _GREATEST >= 1]
    return Statement.of(*(Composition(tuple((law(part, batches), times) for part, times in parts), exact(whole)) for law in laws))


def _rounded(epochs: list[list[Fraction]], cells: int) -> list[list[Fraction]]:
    """Each value lowered to the least in its cell, one of so many on a geometric grid."""
    values = sorted({z for epoch in epochs for z in epoch}, reverse=True)
    if not cells or len(values) == 1:
        return epochs
    width = math.log(values[0] / values[-1]) / (cells - 1)
    place = {z: math.floor(math.log(z / values[-1]) / width + 1e-9) for z in values}
    least = {place[z]: z for z in values}
    return [[least[place[z]] for z in epoch] for epoch in epochs]
