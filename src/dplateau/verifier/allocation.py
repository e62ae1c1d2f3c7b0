"""Random allocation: in every epoch each record is in one batch, drawn at random (``docs/proofs/random-allocation.md``).

Of l batches with mu_j = 1/z_j let ``V = X_1 + ... + X_l``, ``X_j = exp(mu_j g_j - mu_j^2/2)``, g_j ~ N(0, 1) independent. Then
``delta = E (V/l - e^epsilon)_+`` where the record is present (sections 1 to 4), and where it is replaced (section 5)
``delta = (e^(epsilon/2)/l) E (Y_1 + ... + Y_l)_+``, ``Y_j = 2 exp(-mu_j^2/2) sinh(mu_j g_j - epsilon/2)``. If the epoch ends after
r batches the other l - r have ``X_j = 1``, ``Y_j = -2 sinh(epsilon/2)``. Laws of both sums are above the true ones in the convex
order (``convex_order.py``), that of the Y for functions that rise.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import pairwise, product
from operator import itemgetter
from typing import TypeAlias

from flint import arb

from dplateau.spec import Run
from dplateau.verifier.balls import above, exact, gaussian_delta, precision
from dplateau.verifier.convex_order import Sum, chords
from dplateau.verifier.statement import Composition, Law, Statement
from dplateau.verifier.steps import sensitivity, steps

Parts: TypeAlias = tuple[tuple[Fraction, int], ...]
"""Each mu of an epoch's batches, in ascending order, with the number of batches that have it."""
_REACH, _REPLACED = 13.0, 11.0
"""Standard deviations of g that the lattices of one summand hold; under replace."""
_CELLS, _PAIRS = (0, 48, 24, 12, 8, 4), 40
"""Cells of the noise (0: as it is), the first that leave at most so many pairs of a kind of epoch and a mu."""
_CHORDS, _SMALLEST, _GREATEST = 48, 1e-36, 6
"""Points of the profile of a replacement, delta at which it ends; epochs with a greater mu count without sampling (section 4)."""
_FIRST, _NEAR, _LITTLE = (0.0, 1.0, 2.5, 5.0), 2e-3, 1e-20
"""The first of these points, in units of J's mu; when there are enough; the least share of J that is taken to be above it."""
_AROUND, _DENSE, _FEW = 5.0, 120, 60
"""Up to so many mus of J there are so many points in each; in a wider piece beyond so many."""


def _present(mu: Fraction, low: float) -> Sum:
    """``exp(mu g - mu^2/2)``."""

    def excess(x: arb) -> arb:
        if not x > 0:
            return 1 - x
        g = x.log() / m + m / 2
        return above(g - m) - x * above(g)

    m = exact(mu)
    return chords(math.exp(mu * mu / 2 + _REACH * mu), excess, float(mu), low)


def _replaced(mu: Fraction, shift: arb) -> Sum:
    """``2 exp(-mu^2/2) sinh(mu g - shift)``."""

    def excess(x: arb) -> arb:
        g = ((x / factor).asinh() + shift) / m
        return above(g - m) / rise - rise * above(g + m) - x * above(g)

    m, rise = exact(mu), shift.exp()
    factor = 2 * (-m * m / 2).exp()
    high, low, one, other = (float(factor) * math.sinh(mu * g - float(shift)) for g in (_REPLACED + mu, -7, 1, -1))
    return chords(max(high, -low), excess, (one - other) / 2, math.inf)


@lru_cache(maxsize=64)
def _ratio(parts: Parts) -> Sum:
    """V, but for what is 1."""
    used, mu = sum(times for _, times in parts), float(parts[-1][0])
    low = math.exp(-mu * mu / 2 - 9 * mu / math.sqrt(used))  # A mean is at least the root of the product.
    return reduce(Sum.plus, (_present(mu, low).repeated(times) for mu, times in parts))


@dataclass(frozen=True)
class _Allocated(Law):
    """One epoch: the ``parts`` of the run's ``batches`` that it has, which are all but in a last epoch that is cut short."""

    parts: Parts
    batches: int

    @property
    def rest(self) -> int:
        return self.batches - sum(times for _, times in self.parts)


class AllocatedRemove(_Allocated):
    """The data set with the record against that without. ``epsilon`` may be negative."""

    @precision()
    def profile(self, epsilon: arb) -> arb:
        return _ratio(self.parts).excess(self.batches * epsilon.exp() - self.rest) / self.batches

    @property
    def reverse(self) -> Law:
        return AllocatedAdd(self.parts, self.batches)


class AllocatedAdd(_Allocated):
    """The data set without the record against that with it."""

    @precision()
    def profile(self, epsilon: arb) -> arb:
        return 1 - epsilon.exp() * (1 - self.reverse.profile(-epsilon))

    @property
    def reverse(self) -> Law:
        return AllocatedRemove(self.parts, self.batches)


class AllocatedReplace(_Allocated):
    """One value of the record against another one: the chords of bounds at some epsilons. delta is a falling convex function of
    exp(epsilon), so it is below them, and beyond the last of them below the bound there. They take half a minute or so.
    """

    @precision()
    def profile(self, epsilon: arb) -> arb:
        points = _points(self.parts, self.batches)
        k = bisect(points, float(epsilon.lower()), key=itemgetter(0)) - 1
        k -= not points[k][0] <= epsilon.lower()
        if k == len(points) - 1:
            return points[k][2]
        (_, y, delta), (_, there, less) = points[k : k + 2]
        return delta - (delta - less) * (epsilon.exp() - y) / (there - y)

    @property
    def reverse(self) -> Law:
        return self


def _at(parts: Parts, batches: int, epsilon: float) -> arb:
    """A bound on delta of a replacement."""
    rest, half = batches - sum(times for _, times in parts), exact(epsilon) / 2
    law = reduce(Sum.plus, (_replaced(mu, half).repeated(times) for mu, times in parts))
    found = half.exp() / batches * law.excess(2 * rest * half.sinh())
    return found.upper().min(gaussian_delta(2 * exact(parts[-1][0]), exact(epsilon)).upper())


@lru_cache(maxsize=64)
def _points(parts: Parts, batches: int) -> list[tuple[float, arb, arb]]:
    """Epsilons from 0 on, exp(epsilon), and bounds on delta there, on a convex line."""
    whole = sum(times for _, times in parts) == batches
    found = _beside_gaussian(parts, batches) if whole else _where_it_bends(parts, batches)
    line = list[tuple[float, arb, arb]]()
    for epsilon in sorted(found):
        y, delta = exact(epsilon).exp(), found[epsilon]
        # What is not seen to lie below the chord of its neighbours is left out.
        while len(line) > 1 and not (line[-1][2] - line[-2][2]) * (y - line[-1][1]) < (delta - line[-1][2]) * (
            line[-1][1] - line[-2][1]
        ):
            line.pop()
        line.append((epsilon, y, delta))
    return line


def _where_it_bends(parts: Parts, batches: int) -> dict[float, arb]:
    """Bounds on delta by epsilon; where it bends most there are most of them."""
    last = float(parts[-1][0]) / math.sqrt(batches)
    found = {0.0: _at(parts, batches, 0.0)}
    while found[max(found)] > _SMALLEST:
        found[last] = _at(parts, batches, last)
        last *= 2
    while len(found) < _CHORDS:
        log = {epsilon: float(found[epsilon].log()) for epsilon in sorted(found)}
        start, end = max(pairwise(log), key=lambda pair: (log[pair[0]] - log[pair[1]]) ** 2 * math.exp(0.3 * log[pair[0]]))
        found[(start + end) / 2] = _at(parts, batches, (start + end) / 2)
    return found


def _beside_gaussian(parts: Parts, batches: int) -> dict[float, arb]:
    """Bounds on delta by epsilon, for an epoch with all batches: those of a few epsilons, and many that follow from them.

    The epoch is no less than a Gaussian mechanism J with ``mu = 2 / sqrt(z_1^2 + ... + z_l^2)``, and the logarithm of
    ``(delta - J) exp(epsilon^2 / (2 mu^2) - epsilon / 2)`` is convex in epsilon: below its chords (section 6).
    """
    mu = 2 / exact(sum((times / each**2 for each, times in parts), Fraction(0))).sqrt()
    unit = float(mu)

    def falling(epsilon: arb) -> arb:
        return epsilon**2 / (2 * mu**2) - epsilon / 2

    known, excess = dict[float, arb](), dict[float, arb]()

    def look(at: float) -> None:
        least = gaussian_delta(mu, exact(at))
        known[at] = _at(parts, batches, at).upper()
        excess[at] = (known[at] - least).max(least * _LITTLE).log() + falling(exact(at))

    for k in _FIRST:
        look(k * unit)
    while known[max(known)] > _SMALLEST:
        look(2 * max(known))
    while len(known) < _CHORDS:
        share = {at: float((excess[at] - falling(exact(at))).exp() / known[at] * known[at] ** 0.3) for at in known}
        worth = {pair: max(share[at] for at in pair) * ((pair[1] - pair[0]) / unit) ** 2 for pair in pairwise(sorted(known))}
        start, end = max(worth, key=worth.__getitem__)
        if worth[start, end] < _NEAR:
            break
        look((start + end) / 2)
    found = dict(known)
    for start, end in pairwise(sorted(known)):
        count = math.ceil((end - start) / unit * _DENSE) if start < _AROUND * unit else _FEW
        for i in range(1, count):
            at = start + (end - start) * i / count
            share = (exact(at) - exact(start)) / (exact(end) - exact(start))
            chord = excess[start] * (1 - share) + excess[end] * share - falling(exact(at))
            found[at] = (gaussian_delta(mu, exact(at)) + chord.exp()).upper()
    return found


def composed(run: Run) -> Statement:
    """All noisy gradients of a run with random allocation of more than one batch."""
    batches = run.sampling.epoch_length(run.n)
    unit, kinds = sensitivity(run), _epochs(run, batches)
    plain = [parts for parts in kinds if parts[-1][0] > _GREATEST]
    square = exact(sum((kinds.pop(parts) * (unit * parts[-1][0]) ** 2 for parts in plain), Fraction(0)))
    laws = (AllocatedRemove, AllocatedAdd) if unit == 1 else (AllocatedReplace,)
    return Statement.of(
        *(Composition(tuple((law(parts, batches), times) for parts, times in kinds.items()), square) for law in laws)
    )


def _epochs(run: Run, batches: int) -> Counter[Parts]:
    """The kinds of epochs and how many there are of each. Noise is rounded down to few levels, if need be to one for an epoch."""
    rows, (whole, rest) = steps(run), divmod(run.steps, batches)
    if len(rows) == 1:
        return Counter({((1 / rows[0].noise, count),): times for count, times in ((batches, whole), (rest, 1)) if count and times})
    noise = sorted({row.noise for row in rows}, reverse=True)
    log, place = [math.log(z) for z in noise], {z: i for i, z in enumerate(noise)}
    epochs = [[place[row.noise] for row in rows[first : first + batches]] for first in range(0, run.steps, batches)]
    found = Counter[tuple[tuple[int, int], ...]]()
    for levels, cells in product((epochs, [[max(epoch)] * len(epoch) for epoch in epochs]), _CELLS):
        used = sorted({i for epoch in levels for i in epoch})
        width = (log[used[0]] - log[used[-1]]) / (cells - 1) if cells else 0
        cell = {i: math.floor((log[i] - log[used[-1]]) / width + 1e-9) if width else i for i in used}
        least = {cell[i]: i for i in used}
        found = Counter(tuple(sorted(Counter(least[cell[i]] for i in epoch).items())) for epoch in levels)
        if sum(map(len, found)) <= _PAIRS:
            break
    return Counter({tuple((1 / noise[i], count) for i, count in kind): times for kind, times in found.items()})
