"""The privacy profile of one epoch of random allocation in which one record is replaced, from above.

With ``s = epsilon / 2`` it is ``e^s / l * E (W_1 + ... + W_l)_+`` of independent ``W_j = 2 exp(-mu_j^2/2) sinh(mu_j g_j - s)``,
g_j ~ N(0, 1), of which a law above is known for one epsilon at a time (``log_normal_sums.sinh_excess``). What lies between these
epsilons follows from two facts (proof: ``docs/proofs/random-allocation.md``, section 6). Let ``a^2 = z_1^2 + ... + z_l^2``.

- The sum of an epoch's noisy gradients is as a Gaussian mechanism with mu = 2/a: the profile is no less than its profile J.
- ``exp(a^2 s^2 / 2 - s)`` times the profile's excess over J is the Laplace transform of a positive measure, so its logarithm is
  convex in s: below its chords.

The excess is small where the noise is not, and its chords then miss next to nothing. An epoch that is cut short, or has little in
common with J, has the chords of its profile, which is convex in ``exp(epsilon)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np

from dplateau.accounting.gaussian import Array, log_gdp_delta
from dplateau.accounting.log_normal_sums import sinh_excess

Parts: TypeAlias = tuple[tuple[float, int], ...]
"""The 1/z of an epoch's batches, each with the number of batches that have it."""
MOST: Final = 40
"""Most epsilons for which the law of the sum is computed."""
_FIRST: Final = (0.0, 1.0, 2.5, 5.0)
"""The first of them, in units of J's mu."""
_SMALLEST: Final = -60.0
"""Log delta at which they end."""
_WEIGHT: Final = 0.3
"""What a miss counts for falls with this power of delta."""
_MISSED: Final = 1e-4
"""The share of delta, times width and weight, that a chord may miss."""
_MOSTLY: Final = math.log(2)
"""Where J is less than half of the profile, chords of the profile itself are placed better."""
_NEAR, _BETWEEN, _BEYOND = 5.0, 400, 200
"""Up to so many mus of J the profile is read at so many points, and beyond them at so many."""
_CLOSED, _ROUNDING = 1e-9, 1e-12
"""Relative room for differences of closed forms; for roundings besides."""


def gaussian_part(parts: Parts) -> float:
    """The mu of the sum of an epoch's noisy gradients, one record replaced: no epoch in which all batches are used costs less."""
    return 2 / math.sqrt(math.fsum(count / mu**2 for mu, count in parts))


@lru_cache(maxsize=64)
def replaced(parts: Parts, batches: int, points: int) -> tuple[Array, Array]:
    """Epsilons in ascending order from 0 on, shape (k,), and log delta there, rounded up.

    An epoch that is cut short has fewer ``parts`` than ``batches``; its law is computed for so many ``points``.
    """
    greatest, used = max(mu for mu, _ in parts), sum(count for _, count in parts)

    def log_delta(epsilon: float) -> float:
        whole = float(log_gdp_delta(2 * greatest, np.array(epsilon)))
        with suppress(ArithmeticError):
            excess = sinh_excess(parts, epsilon / 2, (batches - used) * 2 * math.sinh(epsilon / 2))
            return min(epsilon / 2 + excess - math.log(batches), whole)
        return whole

    mu = gaussian_part(parts)
    if used < batches or float(log_gdp_delta(mu, np.array(0.0))) < log_delta(0.0) - _MOSTLY:
        return _chords(log_delta, greatest / math.sqrt(batches), points)
    return _beside_gaussian(log_delta, mu, 2 * greatest)


def _chords(log_delta: Callable[[float], float], first: float, points: int) -> tuple[Array, Array]:
    """Where the chords of delta miss most: where it falls steeply and is not small."""
    found, last = {0.0: log_delta(0.0)}, first
    while min(found.values()) > _SMALLEST:
        found[last] = log_delta(last)
        last *= 2
    while len(found) < points:
        missed = {(e, f): (found[e] - found[f]) ** 2 * math.exp(_WEIGHT * found[e]) for e, f in pairwise(sorted(found))}
        middle = sum(max(missed, key=missed.__getitem__)) / 2
        found[middle] = log_delta(middle)
    epsilon = sorted(found)
    return np.array(epsilon), np.array([found[e] for e in epsilon])


@dataclass(frozen=True)
class _Points:
    """Bounds on log delta at some epsilons, and between them the less of two chords: of delta, and of the excess's logarithm."""

    mu: float
    epsilon: Array
    log_delta: Array

    def falling(self, epsilon: Array) -> Array:
        """``a^2 s^2 / 2 - s``."""
        return epsilon**2 / (2 * self.mu**2) - epsilon / 2

    @property
    def convex(self) -> Array:
        """The logarithm of the excess over J, rounded up, made convex, at the epsilons."""
        share = np.maximum(-np.expm1(log_gdp_delta(self.mu, self.epsilon) - self.log_delta), 0.0) + _CLOSED
        return self.log_delta + np.log(share) + self.falling(self.epsilon)

    def plus(self, epsilon: float, log_delta: float) -> _Points:
        """With one more epsilon."""
        place = int(np.searchsorted(self.epsilon, epsilon))
        return _Points(self.mu, np.insert(self.epsilon, place, epsilon), np.insert(self.log_delta, place, log_delta))

    def __call__(self, epsilon: Array) -> Array:
        """log delta at epsilons up to the last one, rounded up."""
        k = np.clip(np.searchsorted(self.epsilon, epsilon, side="right") - 1, 0, self.epsilon.size - 2)
        start, width = self.epsilon[k], np.diff(self.epsilon)[k]
        share = np.minimum(np.expm1(epsilon - start) / np.expm1(width), 1.0)
        with np.errstate(divide="ignore"):
            chord = np.logaddexp(self.log_delta[k] + np.log1p(-share), self.log_delta[k + 1] + np.log(share))
        excess = np.interp(epsilon, self.epsilon, self.convex) - self.falling(epsilon)
        return np.minimum(chord, np.logaddexp(log_gdp_delta(self.mu, epsilon), excess)) + _ROUNDING

    def missed(self) -> tuple[float, float]:
        """The middle of the chord that may miss most, and how much, weighted: the lines through its neighbours are below."""
        width, convex = np.diff(self.epsilon), self.convex
        slope = np.diff(convex) / width
        middle = self.epsilon[:-1] + width / 2
        left = convex[:-1] + np.append(-np.inf, slope[:-1]) * width / 2
        right = convex[1:] - np.append(slope[1:], np.inf) * width / 2
        above = self(middle)
        below = np.logaddexp(log_gdp_delta(self.mu, middle), np.maximum(left, right) - self.falling(middle))
        worth = -np.expm1(np.minimum(below - above, 0.0)) * np.exp(_WEIGHT * (above - above[0])) * width / self.mu
        worst = int(np.argmax(worth))
        return float(middle[worst]), float(worth[worst])


def _beside_gaussian(log_delta: Callable[[float], float], mu: float, whole: float) -> tuple[Array, Array]:
    """J, whose mu is ``mu``, and the chords of the logarithm of what is above it; no more than ``whole``-GDP."""
    known = _Points(mu, np.array([]), np.array([]))
    for k in _FIRST:
        known = known.plus(k * mu, log_delta(k * mu))
    while known.log_delta[-1] > _SMALLEST:
        last = 2 * float(known.epsilon[-1])
        known = known.plus(last, log_delta(last))
    while known.epsilon.size < MOST:
        middle, worth = known.missed()
        if worth < _MISSED:
            break
        known = known.plus(middle, log_delta(middle))
    near = _NEAR * mu
    epsilon = np.append(np.linspace(0.0, near, _BETWEEN, endpoint=False), np.geomspace(near, known.epsilon[-1], _BEYOND))
    return epsilon, np.minimum(known(epsilon), log_gdp_delta(whole, epsilon))
