"""The privacy profile of one epoch of random allocation in which one record is replaced, from above and from below.

With ``s = epsilon / 2`` it is ``e^s / l * E (V_s)_+`` of a sum V_s of independent ``2 exp(-mu_j^2/2) sinh(mu_j g_j - s)``,
g_j ~ N(0, 1), of which laws above and below are known for one epsilon at a time (``log_normal_sums.sum_of_sinhs``). What lies
between two of these epsilons follows from two facts (proof: ``docs/proofs/random-allocation.md``, section 6).

- ``V_s = e^-s A - e^s B`` is a mixture of the sums at both, with the weights ``w`` and ``v``. So for every t
  ``E (V_s)_+ <= w E (V - t/w)_+ + v E (V' + t/v)_+``. What this misses for the best t is small where A and B are nearly known once
  their ratio is; t = 0 is the chord.
- Let ``a^2 = z_1^2 + ... + z_l^2``. The sum of an epoch's noisy gradients is as a Gaussian mechanism with mu = 2/a: the profile is
  no less than its profile J. ``exp(a^2 s^2 / 2 - s)`` times the excess over J is the Laplace transform of a positive measure, so
  its logarithm is convex in s: below its chords. Where there is much noise, they miss next to nothing.
"""

from __future__ import annotations

import math
from contextlib import suppress
from functools import lru_cache
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np

from dplateau.accounting.gaussian import ULP, Array, log_gdp_delta
from dplateau.accounting.log_normal_sums import Excess, sum_of_sinhs

Parts: TypeAlias = tuple[tuple[float, int], ...]
"""The 1/z of an epoch's batches, each with the number of batches that have it."""
MOST: Final = 40
"""Most epsilons for which the law of the sum is computed."""
_FIRST: Final = (0.0, 1.0, 2.5, 5.0, 11.0)
"""The first of them, in units of J's mu."""
_SMALLEST: Final = -60.0
"""Log delta at which they end."""
_GREATEST: Final = 700.0
"""Beyond it exp overflows."""
_WEIGHT: Final = 0.3
"""What a miss counts for falls with this power of delta."""
_MISSED: Final = 1e-4
"""The share of delta, times weight, that may be missed."""
_READ, _SELDOM, _LEAST_READ = 64.0, 12.0, 12
"""The profile is read at so many epsilons for each unit of log delta, e times fewer where that is so much less, and at least."""
_LITTLE: Final = 1e-6
"""A bound on log delta that is above J by no more is not looked at again."""
_MANY: Final = 16
"""Of so many laws every second one is computed from below too, of twice as many every third one."""
_APART: Final = 8
"""Slopes are those of points so far apart in a table."""
_HALVINGS: Final = 18
"""Of the place of t among the points of a law."""
_CLOSED, _ROUNDING, _AHEAD = 1e-9, 1e-12, 32 * ULP
"""Relative room for differences of closed forms; for roundings besides; how much further out a bound counts, as a share."""


def used(parts: Parts) -> int:
    """How many batches of an epoch are used."""
    return sum(count for _, count in parts)


def gaussian_part(parts: Parts) -> float:
    """The mu of the sum of an epoch's noisy gradients, one record replaced: no epoch in which all batches are used costs less."""
    least = min(mu for mu, _ in parts)
    return 2 * least / math.sqrt(math.fsum(count * (least / mu) ** 2 for mu, count in parts))


def told_apart(parts: Parts, batches: int) -> float:
    """The mu of a Gaussian mechanism that no epoch costs more than, one record replaced: the two records are in different batches,
    if there are several.
    """
    mus = sorted(mu for mu, count in parts for _ in range(min(count, 2)))
    return math.hypot(*mus[-2:]) * (1 + 4 * ULP) if batches > 1 else 2 * mus[-1]


class _Profile:
    """Bounds on log delta at some epsilons, and between them.

    ``rest`` is the number of batches that an epoch which is cut short does not have; each adds ``-2 sinh(s)`` to the sum.
    """

    def __init__(self, parts: Parts, batches: int) -> None:
        self.parts, self.batches, self.rest = parts, batches, batches - used(parts)
        self.mu, self.without_sampling = gaussian_part(parts), told_apart(parts, batches)
        self.laws: dict[float, Excess] = {}
        self.log_delta: dict[float, float] = {}

    def look(self, epsilon: float) -> None:
        """Compute the law there."""
        known = float(log_gdp_delta(self.without_sampling, epsilon))
        with suppress(ArithmeticError):
            law = self.laws[epsilon] = sum_of_sinhs(self.parts, epsilon / 2)
            found = float(law(np.array(self._least(epsilon))))
            known = min(known, math.log(found / self.batches) + epsilon / 2 + _ROUNDING if found > 0 else -math.inf)
        self.log_delta[epsilon] = known

    def _least(self, epsilon: float) -> float:
        """What the sum must exceed, rounded down."""
        return self.rest * 2 * math.sinh(epsilon / 2) * (1 - 8 * ULP)

    def between(self, start: float, end: float, epsilon: Array) -> Array:
        """log delta at epsilons between two neighbours that were looked at, rounded up."""
        found, left = log_gdp_delta(self.without_sampling, epsilon), np.ones(epsilon.size, bool)
        if not self.rest:
            share, least = (epsilon - start) / (end - start), log_gdp_delta(self.mu, epsilon)
            excess = self.excess(start) * (1 - share) + self.excess(end) * share - self.falling(epsilon)
            above = np.logaddexp(least, excess)
            found, left = np.fmin(found, above + _ROUNDING), ~(above - least < _LITTLE)
        if start in self.laws and end in self.laws and left.any():
            found[left] = np.fmin(found[left], self._traded(start, end, epsilon[left]) + _ROUNDING)
        return found

    def _traded(self, start: float, end: float, epsilon: Array) -> Array:
        """By the sums at both ends and the best t: where both are equally likely to count."""
        first, second, least, other = self.laws[start], self.laws[end], self._least(start), self._least(end)
        # Roundings of the weights are as a smaller epsilon: by a few units in the last place of the distance.
        width = (end - start) / 2
        near, far = np.sinh((end - epsilon) / 2 + _AHEAD * width), np.sinh((epsilon - start) / 2 - _AHEAD * width)

        def counting_from(k: Array) -> tuple[Array, Array]:
            """A value of the first sum, between its points, and the one that belongs to it of the second sum, rounded down."""
            x = np.interp(k, np.arange(first.x.size), first.x)
            room = 16 * ULP * (other + near / far * (x + least))
            return x, other - near / far * (x - least) - room

        low = np.full(epsilon.shape, float(np.searchsorted(first.x, least)))
        high = np.full(epsilon.shape, first.x.size - 1.0)
        for _ in range(_HALVINGS):
            k = (low + high) / 2
            x, y = counting_from(k)
            more = first.beyond(x) > second.beyond(y)
            low, high = np.where(more, k, low), np.where(more, high, k)
        x, y = counting_from(low)
        return np.log((near * first(x) + far * second(y)) / (np.sinh(width) * self.batches)) + epsilon / 2

    def below(self, epsilon: Array) -> Array:
        """A bound on delta from below at epsilons up to the last one that was looked at."""
        found = np.zeros(epsilon.size) if self.rest else np.exp(log_gdp_delta(self.mu, epsilon)) * (1 - _CLOSED)
        known = [at for at in sorted(self.laws) if at < _GREATEST]
        some = known[:: 1 + len(known) // _MANY]  # Laws from below take twice the time.
        for before, at, after in zip([-math.inf, *some], some, [*some[1:], math.inf], strict=False):
            # What is too large for a double is no bound: NaN, which fmax leaves out.
            with suppress(ArithmeticError), np.errstate(over="ignore", invalid="ignore"):
                law, least = sum_of_sinhs(self.parts, at / 2, above=False), self._least(at) * (1 + 16 * ULP)
                here = epsilon == at
                found[here] = np.fmax(found[here], math.exp(at / 2) / self.batches * float(law(np.array(least))) * (1 - _ROUNDING))
                i = known.index(at)
                for near, far in (((before < epsilon) & (epsilon < at), i + 1), ((at < epsilon) & (epsilon < after), i - 1)):
                    if 0 <= far < len(known) and near.any():
                        found[near] = np.fmax(found[near], self._beyond(law, at, known[far], epsilon[near]))
        return found

    def _beyond(self, law: Excess, at: float, far: float, epsilon: Array) -> Array:
        """delta from below on the other side of ``at``, whose ``law`` is below: V there is a mixture of V at epsilon and at far."""
        s, m, e = epsilon[:, None] / 2, at / 2, far / 2
        # Roundings of the weights are as a larger epsilon, and a larger weight.
        room = 16 * ULP * (1 + np.abs(np.sinh(m - s) / math.sinh(e - m))) * (1 + 2 * np.abs(np.sinh(e - s)))
        s = s + room * (1 + s)
        near, share = math.sinh(e - m) / np.sinh(e - s) * (1 + room), np.sinh(m - s) / np.sinh(e - s)
        near = np.where(near > 0, near, np.nan)  # Where rounding leaves it no weight there is no bound.
        least, other = self._least(at) * (1 + 16 * ULP), self._least(far)

        def told(b: Array) -> Array:
            """With the thresholds that are right if B is b where A is e^epsilon B."""
            y = least - 2 * b * np.exp(s) * np.sinh(m - s)
            z = other + (y - least) / share
            lower, upper = law(y), share * self.laws[far](z - 16 * ULP * (np.abs(z) + other + least / share))
            return (lower - upper - 16 * ULP * (lower + upper)) / near

        guess = self.batches * np.geomspace(1e-4, 100.0, 97)
        value = told(guess)
        for step in (1.155, 1.018):
            best = np.take_along_axis(np.broadcast_to(guess, value.shape), np.argmax(value, axis=1)[:, None], 1)
            guess = best * step ** np.arange(-4.0, 5.0)
            value = told(guess)
        return np.maximum(value.max(axis=1), 0.0) * np.exp(epsilon / 2) / self.batches * (1 - _ROUNDING)

    def falling(self, epsilon: Array | float) -> Array | float:
        """``a^2 s^2 / 2 - s``."""
        return epsilon**2 / (2 * self.mu**2) - epsilon / 2

    def excess(self, epsilon: float) -> float:
        """The logarithm of what is above J, rounded up, made convex, at an epsilon that was looked at."""
        known = self.log_delta[epsilon]
        share = max(-math.expm1(min(float(log_gdp_delta(self.mu, epsilon)) - known, 0.0)), 0.0) + _CLOSED
        return known + math.log(share) + float(self.falling(epsilon))

    def may_miss(self, known: list[float], i: int) -> float:
        """How much too large log delta may be in the middle between two of the known epsilons."""
        (start, end), middle = known[i : i + 2], sum(known[i : i + 2]) / 2
        fall = (self.log_delta[start] - self.log_delta[end]) / 2
        chord = fall + math.log1p(math.exp(-2 * fall)) - math.log(2)  # of a straight line in log delta
        if self.rest:
            return chord
        # A convex function is above the lines through neighbouring points.
        lines = [
            self.excess(near) + (self.excess(near) - self.excess(far)) / (near - far) * (middle - near)
            for near, far in ((start, known[i - 1] if i else end), (end, known[i + 2] if i + 2 < len(known) else start))
            if not start <= far <= end
        ]
        below = np.logaddexp(log_gdp_delta(self.mu, middle), max(lines, default=-math.inf) - self.falling(middle))
        return min(chord, max(float(self.between(start, end, np.array([middle]))[0] - below), 0.0))


@lru_cache(maxsize=2)  # It is large.
def _looked_at(parts: Parts, batches: int, points: int) -> _Profile:
    """A profile with no more than so many laws, where most was missed."""
    profile = _Profile(parts, batches)
    for k in _FIRST:
        profile.look(k * profile.mu)
    while profile.log_delta[last := max(profile.log_delta)] > _SMALLEST:
        profile.look(2 * last)
    known = sorted(profile.log_delta)
    missed = {pair: profile.may_miss(known, i) for i, pair in enumerate(pairwise(known))}

    def worth(pair: tuple[float, float]) -> float:
        return missed[pair] * math.exp(_WEIGHT * (sum(profile.log_delta[at] for at in pair) / 2 - profile.log_delta[0.0]))

    while len(missed) + 1 < points and worth(widest := max(missed, key=worth)) > _MISSED:
        (start, end), middle = widest, sum(widest) / 2
        told = float(profile.between(start, end, np.array([middle]))[0])
        profile.look(middle)
        # Halving an interval divides what is missed by about four.
        missed[start, middle] = missed[middle, end] = max(told - profile.log_delta[middle], 0.0) / 4
        del missed[widest]
    return profile


@lru_cache(maxsize=64)
def _read(parts: Parts, batches: int, points: int) -> tuple[Array, Array]:
    """Epsilons, so many that the chords between miss little, and log delta there, rounded up."""
    profile, epsilon, log_delta = _looked_at(parts, batches, points), list[Array](), list[Array]()
    known = sorted(profile.log_delta)
    for start, end in pairwise(known):
        first, last = profile.log_delta[start], profile.log_delta[end]
        count = _READ * math.exp((first - profile.log_delta[0.0]) / _SELDOM) * (first - max(last, _SMALLEST))
        epsilon.append(np.linspace(start, end, max(math.ceil(count), _LEAST_READ) + 1)[:-1])
        log_delta.append(np.append(first, profile.between(start, end, epsilon[-1][1:])))
    return np.append(np.concatenate(epsilon), known[-1]), np.append(np.concatenate(log_delta), profile.log_delta[known[-1]])


def _convex(epsilon: Array, delta: Array) -> Array:
    """Which points the greatest convex function of exp(epsilon) meets that is nowhere above them."""
    y, height, line = np.expm1(np.minimum(epsilon, _GREATEST)).tolist(), delta.tolist(), list[int]()

    def bends(a: int, b: int, c: int) -> bool:
        return (height[b] - height[a]) * (y[c] - y[b]) < (height[c] - height[b]) * (y[b] - y[a])

    for place in range(len(y)):
        while len(line) > 1 and not bends(line[-2], line[-1], place):
            line.pop()
        line.append(place)
    return np.array(line)


@lru_cache(maxsize=64)
def replaced(parts: Parts, batches: int, points: int) -> tuple[Array, Array]:
    """Epsilons in ascending order from 0 on, shape (k,), and log delta there, rounded up: its chords are above the profile.

    An epoch that is cut short has fewer ``parts`` than ``batches``. No more than so many ``points`` have a law of their own.
    """
    epsilon, log_delta = _read(parts, batches, points)
    log_delta = np.minimum.accumulate(log_delta)
    line = _convex(epsilon, np.exp(log_delta))
    return epsilon[line], log_delta[line]


@lru_cache(maxsize=64)
def replaced_below(parts: Parts, batches: int, points: int) -> tuple[Array, Array]:
    """The same, rounded down: its chords are below the profile, and it ends with 0."""
    epsilon, log_delta = _read(parts, batches, points)
    epsilon, log_delta = epsilon[epsilon < _GREATEST], log_delta[epsilon < _GREATEST]
    if epsilon.size < 2:
        return np.array([0.0, _GREATEST]), np.full(2, -math.inf)
    below = _looked_at(parts, batches, points).below(epsilon)
    above, y = np.exp(log_delta), np.expm1(epsilon)
    # The slope is no steeper than on a line from before, nor than at 0, and no flatter than on a line that ends later.
    steep, flat = np.full(y.size, -(1 - below[0]) / 2), np.zeros(y.size)
    steep[_APART:] = np.maximum(steep[_APART:], (below[_APART:] - above[:-_APART]) / (y[_APART:] - y[:-_APART]) * (1 + _ROUNDING))
    flat[:-_APART] = np.minimum(0.0, (above[_APART:] - below[:-_APART]) / (y[_APART:] - y[:-_APART]) * (1 - _ROUNDING))
    chord, left, right = np.diff(below) / np.diff(y), steep[:-1], flat[1:]
    share = np.clip((chord - left) * (right - chord) / np.maximum(right - left, 1e-300), 0.0, None)
    gap = 1.001 * np.diff(y) * np.where((left < chord) & (chord < right), share, 0.0)
    lowered = below * (1 - _CLOSED) - np.maximum(np.append(gap, 0.0), np.append(0.0, gap))
    # A chord may end at 0 instead of lower only if its other end is 0, too.
    negative = lowered < 0
    lowered[negative | np.append(negative[1:], False) | np.append(False, negative[:-1])] = 0.0
    lowered[-1] = 0.0
    # By symmetry the slope at 0 is -(1 - delta)/2 at most: a line that is steeper would bend the wrong way there.
    lowered[0] = min(lowered[0], float(((lowered[1:] + y[1:] / 2) / (1 + y[1:] / 2)).min()) * (1 - _CLOSED))
    line = _convex(epsilon, lowered)
    with np.errstate(divide="ignore"):
        return epsilon[line], np.log(lowered[line])
