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

from flint import arb

from dplateau.spec import Run
from dplateau.spec.schedule import largest
from dplateau.verifier.balls import above, exact, gaussian_delta, precision
from dplateau.verifier.convex_order import Sum, chords
from dplateau.verifier.epoch import Epoch, Parts
from dplateau.verifier.statement import Composition, Law, Statement
from dplateau.verifier.steps import sensitivity, steps

_REACH, _REPLACED = 13.0, 11.0
"""Standard deviations of g that the lattices of one summand hold; under replace."""
_CELLS, _PAIRS = (0, 48, 24, 12, 8, 4), 40
"""Cells of the noise (0: as it is), the first that leave at most so many pairs of a kind of epoch and a mu."""
_CHORDS, _SMALLEST, _GREATEST = 48, 1e-28, 6
"""Laws of the profile of a replacement, delta at which it ends; epochs with a greater mu count without sampling (section 4)."""
_MOST, _LEAST = 1_000_000, Fraction(1, 1_000_000)
"""More batches, or a smaller mu, take minutes."""
_FIRST, _NEAR, _LITTLE = (0.0, 1.0, 2.5, 5.0), 1e-5, 1e-20
"""Where the first of them are, in units of J's mu; when there are enough; the least share of J that is taken to be above it."""
_DENSE, _FEW, _HALVINGS = 96.0, 16, 18
"""Points for each unit of log delta, fewer where it is small, and at least; steps in which a threshold is found."""


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


class AllocatedRemove(Epoch):
    """The data set with the record against that without. ``epsilon`` may be negative."""

    @precision()
    def profile(self, epsilon: arb) -> arb:
        return _ratio(self.parts).excess(self.batches * epsilon.exp() - self.rest) / self.batches

    @property
    def reverse(self) -> Law:
        return AllocatedAdd(self.parts, self.batches)


class AllocatedAdd(Epoch):
    """The data set without the record against that with it."""

    sign = -1

    @precision()
    def profile(self, epsilon: arb) -> arb:
        return 1 - epsilon.exp() * (1 - self.reverse.profile(-epsilon))

    @property
    def reverse(self) -> Law:
        return AllocatedRemove(self.parts, self.batches)


@dataclass(frozen=True)
class AllocatedReplace(Law):
    """One value of the record against another one: the chords of bounds at many epsilons. delta is a falling convex function of
    exp(epsilon), so it is below them, and beyond the last of them below the bound there. They take half a minute or so.
    """

    parts: Parts
    batches: int

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


def _summed(parts: Parts, epsilon: float) -> Sum:
    """The Y at one epsilon, but for those that are certain."""
    return reduce(Sum.plus, (_replaced(mu, exact(epsilon) / 2).repeated(times) for mu, times in parts))


def _square(parts: Parts, batches: int, unit: int) -> Fraction:
    """That of the mu of a Gaussian mechanism that no epoch costs more than: of the largest mus, as many as there are records that
    differ, if these may lie in different batches.
    """
    mus = [mu for mu, times in parts for _ in range(min(times, unit))]
    return sum((mu**2 for mu in mus[-unit:]), Fraction(0)) if batches > 1 else (unit * mus[-1]) ** 2


def _at(parts: Parts, batches: int, epsilon: float, law: Sum) -> arb:
    """A bound on delta of a replacement."""
    rest, half = batches - sum(times for _, times in parts), exact(epsilon) / 2
    found = half.exp() / batches * law.excess(2 * rest * half.sinh())
    return found.upper().min(gaussian_delta(exact(_square(parts, batches, 2)).sqrt(), exact(epsilon)).upper())


@lru_cache(maxsize=64)
def _points(parts: Parts, batches: int) -> list[tuple[float, arb, arb]]:
    """Epsilons from 0 on, exp(epsilon), and bounds on delta there, on a convex line."""
    found, line = _Profile(parts, batches).read(), list[tuple[float, arb, arb]]()
    for epsilon in sorted(found):
        y, delta = exact(epsilon).exp(), found[epsilon]
        # What is not seen to lie below the point before it, and below the chord of its neighbours, is left out.
        if line and not delta < line[-1][2]:
            continue
        while len(line) > 1 and not (line[-1][2] - line[-2][2]) * (y - line[-1][1]) < (delta - line[-1][2]) * (
            line[-1][1] - line[-2][1]
        ):
            line.pop()
        line.append((epsilon, y, delta))
    return line


class _Profile:
    """Bounds on delta at some epsilons, by a law for each, and between them (section 6).

    J is the Gaussian mechanism with ``mu = 2 / sqrt(z_1^2 + ... + z_l^2)``.
    """

    def __init__(self, parts: Parts, batches: int) -> None:
        self.parts, self.batches, self.rest = parts, batches, batches - sum(times for _, times in parts)
        self.mu = 2 / exact(sum((times / each**2 for each, times in parts), Fraction(0))).sqrt()
        self.law, self.delta = dict[float, Sum](), dict[float, arb]()
        missed, unit = dict[tuple[float, float], float](), float(self.mu)
        for k in _FIRST:
            self.look(k * unit)
        while self.delta[max(self.delta)] > _SMALLEST:
            self.look(2 * max(self.delta))

        def worth(pair: tuple[float, float]) -> float:
            """What is above J, or half of the logarithm's fall, until it is measured what is missed; less where delta is small."""
            above = math.inf if self.rest else -float((1 - self.excess(pair[0]) / self.delta[pair[0]]).log())
            fall = float((self.delta[pair[0]] / self.delta[pair[1]]).log()) / 2
            counts = float(self.delta[pair[0]] * self.delta[pair[1]] / self.delta[0.0] ** 2) ** 0.15
            return missed.get(pair, min(fall, above)) * counts

        while len(self.delta) < _CHORDS and worth(widest := max(pairwise(sorted(self.delta)), key=worth)) > _NEAR:
            middle = sum(widest) / 2
            told = self.between(*widest, middle)
            self.look(middle)
            missed[widest[0], middle] = missed[middle, widest[1]] = float((told / self.delta[middle]).log()) / 4

    def look(self, epsilon: float) -> None:
        self.law[epsilon] = _summed(self.parts, epsilon)
        self.delta[epsilon] = _at(self.parts, self.batches, epsilon, self.law[epsilon])

    def excess(self, epsilon: float) -> arb:
        """What is above J."""
        least = gaussian_delta(self.mu, exact(epsilon))
        return (self.delta[epsilon] - least).max(least * _LITTLE)

    def between(self, start: float, end: float, epsilon: float) -> arb:
        """The less of two bounds."""
        traded = self.traded(start, end, epsilon)
        return traded if self.rest else traded.min(self.beside_gaussian(start, end, epsilon))

    def traded(self, start: float, end: float, epsilon: float) -> arb:
        """``E (w U + v V)_+ <= w E (U - t/w)_+ + v E (V + t/v)_+``, whatever t is."""
        (a, b, s), (first, second) = (exact(one) / 2 for one in (start, end, epsilon)), (self.law[start], self.law[end])
        near, far = (b - s).sinh() / (b - a).sinh(), (s - a).sinh() / (b - a).sinh()
        (least, other), ratio = (2 * self.rest * one.sinh() for one in (a, b)), float(near / far)
        # Both are equally likely to count: a choice, made in floats.
        low, high = first.index(float(least)), first.index(math.inf)
        for _ in range(_HALVINGS):
            x = first.value((low + high) / 2)
            more = first.likely(x) > second.likely(float(other) - ratio * (x - float(least)))
            low, high = ((low + high) / 2, high) if more else (low, (low + high) / 2)
        x = exact(first.value(low))
        told = near * first.excess(x) + far * second.excess(other - near / far * (x - least))
        return (s.exp() / self.batches * told).upper()

    def beside_gaussian(self, start: float, end: float, epsilon: float) -> arb:
        """The logarithm of ``(delta - J) exp(epsilon^2 / (2 mu^2) - epsilon / 2)`` is convex in epsilon: below its chords."""

        def falling(at: float) -> arb:
            return exact(at) ** 2 / (2 * self.mu**2) - exact(at) / 2

        share = (exact(epsilon) - exact(start)) / (exact(end) - exact(start))
        first, last = (self.excess(at).log() + falling(at) for at in (start, end))
        chord = first * (1 - share) + last * share - falling(epsilon)
        return (gaussian_delta(self.mu, exact(epsilon)) + chord.exp()).upper()

    def read(self) -> dict[float, arb]:
        """Bounds at so many epsilons that their chords miss little."""
        found = dict(self.delta)
        for start, end in pairwise(sorted(self.delta)):
            fall = float((self.delta[start] / self.delta[end]).log())
            count = max(math.ceil(_DENSE * float(self.delta[start] / self.delta[0.0]) ** (1 / 12) * fall), _FEW)
            found |= {at: self.between(start, end, at) for at in (start + (end - start) * i / count for i in range(1, count))}
        return found


def composed(run: Run) -> Statement:
    """All noisy gradients of a run with random allocation of more than one batch; ``ValueError`` where that takes too long."""
    batches = run.sampling.epoch_length(run.n)
    if batches > _MOST:
        raise ValueError(f"the run has {batches:,} randomly allocated batches in an epoch: at most {_MOST:,} can be checked")
    if largest(run.noise_multiplier) * _LEAST > 1:
        raise ValueError(f"the noise multiplier exceeds {1 / _LEAST}: no more can be checked under random allocation")
    unit, (kinds, _) = sensitivity(run), _epochs(run, batches)
    plain = [parts for parts in kinds if parts[-1][0] > _GREATEST]
    square = exact(sum((kinds.pop(parts) * _square(parts, batches, unit) for parts in plain), Fraction(0)))
    laws = (AllocatedRemove, AllocatedAdd) if unit == 1 else (AllocatedReplace,)
    return Statement.of(
        *(Composition(tuple((law(parts, batches), times) for parts, times in kinds.items()), square) for law in laws)
    )


def is_exact(run: Run) -> bool:
    """Whether ``composed`` says of such a run what its epochs are, and no bound on them."""
    kinds, rounded = _epochs(run, run.sampling.epoch_length(run.n))
    return sensitivity(run) == 1 and not rounded and all(parts[-1][0] <= _GREATEST for parts in kinds)


def _epochs(run: Run, batches: int) -> tuple[Counter[Parts], bool]:
    """The kinds of epochs and how many there are of each. Noise is rounded down to few levels, if need be to one for an epoch, and
    whether it is.
    """
    rows, (whole, rest) = steps(run), divmod(run.steps, batches)
    if len(rows) == 1:
        equal = {((1 / rows[0].noise, count),): times for count, times in ((batches, whole), (rest, 1)) if count and times}
        return Counter(equal), False
    noise = sorted({row.noise for row in rows}, reverse=True)
    log, place = [math.log(z) for z in noise], {z: i for i, z in enumerate(noise)}
    epochs = [[place[row.noise] for row in rows[first : first + batches]] for first in range(0, run.steps, batches)]
    found, rounded = Counter[tuple[tuple[int, int], ...]](), False
    for levels, cells in product((epochs, [[max(epoch)] * len(epoch) for epoch in epochs]), _CELLS):
        rounded = bool(cells) or levels is not epochs
        used = sorted({i for epoch in levels for i in epoch})
        width = (log[used[0]] - log[used[-1]]) / (cells - 1) if cells else 0
        cell = {i: math.floor((log[i] - log[used[-1]]) / width + 1e-9) if width else i for i in used}
        least = {cell[i]: i for i in used}
        found = Counter(tuple(sorted(Counter(least[cell[i]] for i in epoch).items())) for epoch in levels)
        if sum(map(len, found)) <= _PAIRS:
            break
    return Counter({tuple((1 / noise[i], count) for i, count in kind): times for kind, times in found.items()}), rounded
