"""The privacy profile of one epoch of random allocation in which one record is replaced, from above.

With ``s = epsilon / 2`` it is ``e^s / l * E (V_s)_+`` of a sum V_s of independent ``2 exp(-mu_j^2/2) sinh(mu_j g_j - s)``,
g_j ~ N(0, 1), of which a law above is known for one epsilon at a time (``log_normal_sums.sum_of_sinhs``). What lies between two of
these epsilons follows from two facts (proof: ``docs/proofs/random-allocation.md``, section 6).

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
_FIRST: Final = (0.0, 1.0, 2.5, 5.0)
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
_HALVINGS: Final = 18
"""Of the place of t among the points of a law."""
_CLOSED, _ROUNDING, _AHEAD = 1e-9, 1e-12, 32 * ULP
"""Relative room for differences of closed forms; for roundings besides; how much further out a bound counts, as a share."""


def gaussian_part(parts: Parts) -> float:
    """The mu of the sum of an epoch's noisy gradients, one record replaced: no epoch in which all batches are used costs less."""
    return 2 / math.sqrt(math.fsum(count / mu**2 for mu, count in parts))


class _Profile:
    """Bounds on log delta at some epsilons, and between them.

    ``rest`` is the number of batches that an epoch which is cut short does not have; each adds ``-2 sinh(s)`` to the sum.
    """

    def __init__(self, parts: Parts, batches: int) -> None:
        self.parts, self.batches, self.rest = parts, batches, batches - sum(count for _, count in parts)
        self.mu, self.without_sampling = gaussian_part(parts), 2 * max(mu for mu, _ in parts)
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


@lru_cache(maxsize=64)
def replaced(parts: Parts, batches: int, points: int) -> tuple[Array, Array]:
    """Epsilons in ascending order from 0 on, shape (k,), and log delta there, rounded up.

    An epoch that is cut short has fewer ``parts`` than ``batches``. No more than so many ``points`` have a law of their own.
    """
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
    return _read(profile)


def _read(profile: _Profile) -> tuple[Array, Array]:
    """The bounds at so many epsilons that their chords miss little, on a convex line: it is above the profile, which is convex."""
    read = dict[float, float]()
    for start, end in pairwise(sorted(profile.log_delta)):
        first, last = profile.log_delta[start], profile.log_delta[end]
        count = _READ * math.exp((first - profile.log_delta[0.0]) / _SELDOM) * (first - max(last, _SMALLEST))
        between = np.linspace(start, end, max(math.ceil(count), _LEAST_READ) + 1)[1:-1]
        told = profile.between(start, end, between)
        read |= {start: first, **dict(zip(between.tolist(), told.tolist(), strict=True)), end: last}
    y = {epsilon: math.expm1(min(epsilon, _GREATEST)) for epsilon in read}
    delta, line = {epsilon: math.exp(log_delta) for epsilon, log_delta in read.items()}, list[float]()

    def bends(a: float, b: float, c: float) -> bool:
        return (delta[b] - delta[a]) * (y[c] - y[b]) < (delta[c] - delta[b]) * (y[b] - y[a])

    for epsilon in read:
        if line and delta[epsilon] >= delta[line[-1]]:
            continue
        while len(line) > 1 and not bends(line[-2], line[-1], epsilon):
            line.pop()
        line.append(epsilon)
    return np.array(line), np.array([read[epsilon] for epsilon in line])
