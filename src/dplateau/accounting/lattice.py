"""delta(epsilon) of a composition, by convolving privacy losses that are rounded to a lattice.

For few steps, or steps that almost always lose nothing, the contour integral needs too many nodes. Here every step's loss is
rounded to a lattice, up and down (``dotted.py``), and composition keeps the order, so that the two convolutions enclose the truth.
The convolution is one fast Fourier transform of the law tilted by ``exp(c epsilon)``, which keeps the relative accuracy of a tiny
delta; what wraps around is bounded as aliasing is on the contour.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from operator import mul
from typing import Final

import numpy as np

from dplateau.accounting.contour import WIDTH, contour_epsilon, log_saddle_delta, saddle, saddle_delta, saddle_epsilon
from dplateau.accounting.dotted import LEAST, Law, Step, beyond, dots, norms_from, steps_of, tangents
from dplateau.accounting.enclosure import Enclosure
from dplateau.accounting.gaussian import ULP, Array, sums_from
from dplateau.accounting.privacy_loss import TooSlowError
from dplateau.accounting.terms import Composition

SIZES: Final = (2**14, 2**17, 2**20)
_GROWING: Final = tuple(2**k for k in range(13, 21))
_FEWEST: Final = _GROWING[0]
_LITTLE: Final = 0.4
"""An end that can gain no more than so many widths is near enough."""
_FARTHER, _FARTHEST = 8.0, 32.0
"""No lattice is larger than the one before by more than the first factor, or by the second where no rounding counts."""
_SMALL: Final = 0.1
"""Widths are shares of epsilons that are at least this."""
_POINTS, _POINTS_OF_SEARCH = 4096, 1024
"""Points of the first lattice; of a search's."""
_COARSE: Final = 0.2
"""Two lattices of a search that differ by this share are too coarse."""
_HALF, _BELOW = 0.5, 0.2
"""Shares of a window that lie below its epsilon; where it is searched for, it is about there, or looked for again."""
_MUCH: Final = 0.7
"""So much shorter a period is worth a tilt that is not the saddle point."""
_LOGS: Final = 800.0
"""More than the log of any double."""
_TILTS, _FURTHER = (1.0, 0.9, 0.8), (0.95, 1.05, 1.15, 1.4, 2.0)
"""Tilts that are tried, and where Chernoff bounds are, in units of the saddle point."""
MOST: Final = 2**22
_GREATEST: Final = 700.0
"""Largest epsilon that is told apart from infinity: beyond it exp overflows."""
LEAST_LOG: Final = -80.0
"""Least log delta that is aimed at."""
_VANISHED: Final = -710.0
_ROOM: Final = 1e-13
_LOST: Final = 1e-3
"""Greatest error of a transform: errors of higher order are beside it a hundredth."""


@dataclass(frozen=True)
class Tail:
    """The profile of a sum of losses: between the points ``e`` it is ``s1 - exp(epsilon) s2``, the sums over the points above, and
    at them ``at``. Rounded up (``sign`` 1) or down (-1).
    """

    e: Array
    s1: Array
    s2: Array
    at: Array
    sign: float

    def epsilon(self, delta: float) -> float:
        """The epsilon at which it is ``delta``."""
        # No more than delta: an upper end. More: a lower one, and the last of them counts, since a profile that is rounded down may
        # fall again far below, where the masses are large and so is their error.
        inside, more = np.flatnonzero(self.at <= delta), np.flatnonzero(self.at > delta)
        if inside.size == 0 or delta < LEAST:
            raise TooSlowError
        j = int(inside[0]) if self.sign > 0 else int(more[-1]) + 1 if more.size else 0
        if j == self.at.size:
            raise TooSlowError
        if j == 0:  # Already at the first point: that is an upper end, and no lower one.
            return float(self.e[0]) if self.sign > 0 else -math.inf
        share = (self.s1[j] - delta) / self.s2[j]
        value = min(max(math.log(share) if share > 0 else -math.inf, float(self.e[j - 1])), float(self.e[j]))
        return value + self.sign * 4 * ULP * abs(value)

    def delta(self, epsilon: float) -> float:
        """Its value at ``epsilon``, which lies among the points."""
        j = int(np.searchsorted(self.e, epsilon))
        if not 0 < j < self.e.size:
            raise TooSlowError
        # A convex function lies below its chord; the chord is exact but for the room for rounding.
        low, high = float(self.at[j - 1]), float(self.at[j])
        share = math.expm1(epsilon - float(self.e[j - 1])) / math.expm1(float(self.e[j] - self.e[j - 1]))
        value = low + (high - low) * min(max(share, 0.0), 1.0)
        return value + self.sign * _ROOM * (abs(low) + abs(high))


def _norm(x: Array) -> float:
    """The 2-norm. Here and below no inner products: they wait for threads where a machine is busy."""
    return math.sqrt(float(np.square(x.view(float)).sum()))


def convolved(parts: Sequence[tuple[Array, int]]) -> tuple[Array, float]:
    """The cyclic convolution of laws, each so many times, and a bound on the 2-norm of its error, whatever the rounding.

    Each law, shape (N,) with N a power of 2, has mass at most 1. Proof: ``docs/proofs/lattice.md``.
    """
    size = parts[0][0].size
    forward, total = sum(count * _norm(law) for law, count in parts), sum(count for _, count in parts)
    transform = reduce(mul, (_power(np.fft.rfft(law), count) for law, count in parts))
    backward = math.sqrt(2 / size) * _norm(transform)
    error = 1.01 * ULP * (16 * math.log2(size) * (forward + backward) + 8 * total * backward)
    if not error < _LOST:
        raise TooSlowError
    return np.fft.irfft(transform, size), error


def _power(z: Array, count: int) -> Array:
    """``z ** count``, and 0 where it has no more than 1e-308."""
    # Where many steps are composed, that is almost everywhere.
    seen = np.flatnonzero(np.square(np.real(z)) + np.square(np.imag(z)) > math.exp(2 * _VANISHED / count))
    found = np.zeros_like(z)
    found[seen] = z[seen] ** count
    return found


class Convolution:
    """The sum of the losses of all steps, tilted."""

    def __init__(self, laws: list[tuple[Law, int]], h: float) -> None:
        self.laws, self.h = laws, h

    @cached_property
    def _logs(self) -> list[tuple[Array, Array, int]]:
        """Losses, the logs of their masses, and the number of steps, of each law."""
        with np.errstate(divide="ignore"):
            return [(self.h * (law.first + np.arange(law.p.size)), np.log(law.p), count) for law, count in self.laws]

    def cumulants(self, c: float) -> tuple[float, float, float]:
        """K, K' and K'' of the finite part at c."""
        total = np.zeros(3)
        for e, log_p, count in self._logs:
            exponent = log_p + c * e
            top = exponent.max()
            weight = np.exp(exponent - top)
            mass = weight.sum()
            mean = float((weight * e).sum()) / mass
            total += count * np.array([top + math.log(mass), mean, float((weight * (e - mean) ** 2).sum()) / mass])
        return float(total[0]), float(total[1]), float(total[2])

    def tail(self, c: float, epsilon: float, size: int, factor: float, *, above: bool, left: float = _HALF) -> Tail:
        """The profile of the sum, rounded up (``above``) or down. The law is tilted by c and folded to ``size`` points, of which a
        share ``left`` lies below ``epsilon``; a Chernoff bound at ``factor * c`` covers what is beyond them.
        """
        h, period = self.h, size * self.h
        log_total, parts, share, event, other = 0.0, list[tuple[Array, int]](), 0.0, 0.0, 0.0
        for (law, count), (e, log_p, _) in zip(self.laws, self._logs, strict=True):
            at, exponent = law.first + np.arange(law.p.size), log_p + c * e
            top = float(exponent.max())
            weight = np.exp(exponent - top)
            mass = float(weight.sum())
            parts.append((np.bincount(at % size, weights=weight / mass, minlength=size), count))
            log_total += count * (top + math.log(mass))
            # Every mass is good to a few roundings of the size of its exponent; a double's log is at most 745.
            share += 4 * ULP * count * (_LOGS + c * h * float(np.abs(at).max()))
        # On the lattice; the losses themselves are larger by the offset of all steps.
        offset = sum(count * law.offset for law, count in self.laws)
        epsilon -= offset
        start = math.floor(epsilon / h) - min(int(left * size), math.ceil(600 / (c * h)))
        tilted, error = convolved(parts)
        sign = 1.0 if above else -1.0
        # Losses below 0 never count, and those beyond exp(700) count in full above, not at all below.
        first = min(max(math.floor((-2 * h - offset) / h) - start, 0), size)
        e = h * np.arange(start + first, start + size)
        mass = np.exp(np.minimum(log_total - c * e, 700.0))
        share += 4 * ULP * (abs(log_total) + c * h * max(abs(start), abs(start + size)))
        p = np.maximum(np.roll(tilted, -(start % size))[first:], 0.0) * mass * (1 + sign * share)
        far, k = factor * c, self.cumulants(factor * c)[0]
        if above:
            constant = np.full(e.size, min(1.0, sum(count * law.infinite for law, count in self.laws)))
            constant += math.exp(min(k - far * (start + size - 1) * h, 0.0))
        else:
            # What wraps around from above, and counts there, lies a period and more beyond each point.
            wrapped = np.exp(np.minimum(k - far * (e + period) + c * period, 700.0)) / -math.expm1(-(far - c) * period)
            constant = -1 / math.expm1(min(c * period, 700.0)) - 2 * wrapped
            # That the event happens in some step is a test of its own.
            event, other = (-math.expm1(sum(n * math.log1p(-law.event[i]) for law, n in self.laws)) for i in (0, 1))
        e = e + offset + sign * 4 * ULP * abs(offset)
        last = int(np.searchsorted(e, _GREATEST, "right"))
        # The transforms' error counts with weights from 0 to the masses: at most the product of the 2-norms (Cauchy-Schwarz).
        missed = error * (1 + share) * norms_from(mass, c * h)
        beyond = float(p[last:].sum() + missed[last:].max(initial=0.0)) if above else 0.0
        e, p, missed, constant = e[:last], p[:last], missed[:last], constant[:last]
        if not e.size:
            raise TooSlowError
        s1 = sums_from(p) + beyond
        s2 = sums_from(p * np.exp(-e)) + other * (1 + 8 * ULP)
        # Each of the two sums is off by at most a rounding of every partial sum; exp(epsilon) s2 is never above s1.
        s1 = s1 + constant + event * (1 - 8 * ULP) + sign * 3 * ULP * sums_from(s1)
        s1 = s1 + sign * missed
        end = beyond + constant[-1] + event - math.exp(float(e[-1])) * other
        at_points = np.append(s1[1:] - np.exp(e[:-1]) * s2[1:], end)
        if not np.isfinite(at_points).all():
            raise TooSlowError
        return Tail(e, s1, s2, at_points, sign)


class Lattices:
    """Lattices of one composition that are fine enough around a small delta.

    The first one, which shows where to look, has so many ``points``; of the others a share ``left`` lies below epsilon.
    """

    def __init__(self, steps: list[Step], width: float, points: int = _POINTS, left: float = _HALF) -> None:
        self.steps, self.width, self.points, self.left = steps, width, points, left
        self.low = self.high = self.c = self.epsilon = self.period = 0.0
        self.factor = 1.0
        # The masses' relative error is far below what is aimed at.
        self.exact = 4 * ULP * _LOGS * sum(step.count for step in steps) < width / 10

    def aim(self, target: float) -> None:
        """Choose the range of one step's loss for a log delta of ``target``."""
        # A large loss counts as infinite once it adds nothing to delta; a very negative one is rounded up once it is rare.
        rare = math.log(self.width / 1000) - math.log(sum(step.count for step in self.steps))
        high = max(beyond(s.log_delta, target + rare, s.farthest) for s in self.steps)
        low = max(beyond(lambda x, s=s: s.log_reverse(x) - x, rare) for s in self.steps)
        low = min(low, high * sum(step.count for step in self.steps))  # Below that, the other steps cannot bring the sum above 0.
        if not math.isfinite(high + low):
            raise TooSlowError
        self.low, self.high = low, high

    def laws(self, build: Callable[[Step, int, int, float], Law], h: float) -> Convolution:
        """The sum of all steps on a lattice."""
        first, last = -math.ceil(self.low / h), math.ceil(self.high / h) + 1
        if last - first > MOST:
            raise TooSlowError
        return Convolution([(build(step, first, last, h), step.count) for step in self.steps], h)

    @property
    def coarse(self) -> float:
        """The step of a lattice that is good enough for a search."""
        return self.period / (4 * self.points) if self.period else (self.high + self.low) / self.points

    def tune(self, rough: Convolution, c: float, epsilon: float, target: float) -> None:
        """Tilt by c, and choose the period; they decide the effort, not the truth."""
        allowed = target + math.log(self.width * min(c, 1e3) / 50)
        rest = [(f * c, rough.cumulants(f * c)[0] - f * c * epsilon - allowed) for f in _FURTHER]
        # Where K is about to explode, a tilt before the saddle point has a much shorter period, and a little more rounding.
        self.period = math.inf
        for tilt in (f * c for f in (_TILTS if self.exact else _TILTS[:1])):
            right, further = min((more / (further - tilt), further) for further, more in rest if further > tilt)
            period = max(right / (1 - self.left), -allowed / tilt)
            if period < _MUCH * self.period:
                self.period, self.c, self.factor = period, tilt, further / tilt
        if not self.period < math.inf:
            raise TooSlowError
        self.epsilon = epsilon

    def tune_at(self, epsilon: float, target: float) -> None:
        """Tilt where the saddle point is epsilon, as a coarse lattice sees it."""
        rough = self.laws(dots, self.coarse)
        self.tune(rough, around(rough, epsilon), epsilon, target)

    def tail(self, size: int, *, above: bool) -> Tail:
        """The profile from above or from below, on so many points."""
        total = self.laws(dots if above else tangents, self.period / size)
        return total.tail(self.c, self.epsilon, size, self.factor, above=above, left=self.left)


def around(rough: Convolution, epsilon: float) -> float:
    """The tilt whose saddle point is epsilon."""
    return saddle(lambda c: epsilon - saddle_epsilon(c, rough.cumulants(c)[1]))


@lru_cache(maxsize=32)
@np.errstate(all="ignore")
def rough_lattice_epsilon(composition: Composition, delta: float, width: float = WIDTH) -> float:
    """About epsilon, for searches: two small lattices say too much by the squares of their steps."""
    size = _FEWEST if width > WIDTH else 2 * _FEWEST
    lattices = _tuned(composition, delta, width, _POINTS_OF_SEARCH)
    first, second = (lattices.tail(points, above=True).epsilon(delta) for points in (size, 2 * size))
    if first - second > _COARSE * second:  # They say little: the contour says more, where it is fast.
        with suppress(ArithmeticError, ValueError):
            return contour_epsilon(composition, delta).upper
    return second - (first - second) / 3


def _tuned(composition: Composition, delta: float, width: float, points: int = _POINTS) -> Lattices:
    """Lattices whose tilt and period are found on a coarse one, then on a finer one."""
    lattices, target = Lattices(steps_of(composition), width, points, _BELOW), math.log(delta)
    lattices.aim(target)
    for _ in range(2):
        rough = lattices.laws(dots, lattices.coarse)
        c = saddle_delta(rough.cumulants, target)
        lattices.tune(rough, c, saddle_epsilon(c, rough.cumulants(c)[1]), target)
    return lattices


def lattice_epsilon(composition: Composition, delta: float, width: float = WIDTH, *, upper: bool = False) -> Enclosure:
    """The least ``epsilon >= 0`` at which the composition has the given delta, enclosed as narrowly as 2^20 points allow; ``upper``
    asks for that end alone, and gets the same one.

    The width is a share of an epsilon that is not small.
    """
    lattices = _tuned(composition, delta, width)
    high, size = _end(lattices, delta, width, above=True)
    low = 0.0 if upper else _end(lattices, delta, width, above=False, first=size, other=high)[0]
    return Enclosure(min(max(low, 0.0), high), high)


def _end(
    lattices: Lattices, delta: float, width: float, *, above: bool, first: int = _FEWEST, other: float = math.inf
) -> tuple[float, int]:
    """The upper or lower end, and the size of the last lattice that was asked; ``first`` is the least, ``other`` the other end."""
    sign = 1.0 if above else -1.0
    best, before, wanted, last = math.inf if above else 0.0, 0, float(first), first
    for size in _GROWING:
        if size * len(lattices.steps) > MOST:
            break
        if size < min(wanted, _GROWING[-1]):
            continue
        try:
            last = size
            found = max(lattices.tail(size, above=above).epsilon(delta), 0.0)
        except (TooSlowError, OverflowError):
            continue
        gained, best = sign * (best - found), min(best, found) if above else max(best, found)
        # What is missed falls as the square of the size: so much is still to gain, and no more than lies between the ends.
        more = min(max(gained / ((size / before) ** 2 - 1) if before else math.inf, 0.0), abs(other - best))
        near = _LITTLE * width * max(best, _SMALL)
        missed = above and best <= lattices.epsilon - 0.9 * lattices.left * lattices.period
        if more <= near and not missed:
            break
        if missed or (above and best < 0.9 * lattices.epsilon and more < 0.1 * best):
            # Of few steps the saddle point says little: a tilt around what was found has less rounding there.
            with suppress(TooSlowError, OverflowError, ValueError):
                lattices.tune_at(best, math.log(delta))
        # Not too far at once: where rounding counts a middle size is the best.
        most = _FARTHER if width <= WIDTH else _FARTHEST
        before, wanted = size, size * min(math.sqrt(more / near), most) if before else 0.0
    return best, last


@np.errstate(all="ignore")  # What overflows is not finite, and shows nothing.
def lattice_at_most(composition: Composition, epsilon: float, delta: float) -> bool:
    """Whether a small lattice shows that the composition has no more than this delta at ``epsilon`` > 0."""
    lattices = Lattices(steps_of(composition), WIDTH)
    try:
        lattices.aim(math.log(delta))
        for _ in range(2):
            lattices.tune_at(epsilon, math.log(delta))
        return lattices.tail(_FEWEST, above=True).delta(epsilon) <= delta
    except (ArithmeticError, ValueError):
        return False


class Tails:
    """The profile from below and from above."""

    def __init__(self) -> None:
        self.sides: list[Tail] = []

    def __call__(self, epsilon: float) -> Enclosure:
        """What they say of delta at ``epsilon``: nothing before their first points, and that it is less than at their last ones."""
        above, below = 1.0, 0.0
        for tail in self.sides:
            if epsilon > tail.e[-1]:
                above = min(above, float(tail.at[-1])) if tail.sign > 0 else above
            elif epsilon > tail.e[0]:
                value = tail.delta(epsilon)
                above, below = (min(above, value), below) if tail.sign > 0 else (above, max(below, value))
        return Enclosure(below, max(above, 0.0))


def tails_at(composition: Composition, epsilon: float, width: float = WIDTH, floor: float = 0.0) -> Tails:
    """delta of the composition around ``epsilon``, unless it is at most ``floor``; the width is relative to min(1, tilt)."""
    lattices, target = Lattices(steps_of(composition), width), LEAST_LOG
    for _ in range(2):  # How small delta is decides how rare a loss may be left out.
        lattices.aim(target)
        rough = lattices.laws(dots, lattices.coarse)
        c = around(rough, epsilon)
        target = max(min(log_saddle_delta(c, *rough.cumulants(c)), 0.0), LEAST_LOG)
        lattices.tune(rough, c, epsilon, target)
    tails = Tails()
    for size in SIZES:
        if size * len(lattices.steps) > MOST:
            break
        with suppress(TooSlowError, OverflowError):
            tails.sides += [lattices.tail(size, above=above) for above in (False, True)]
            best = tails(epsilon)
            if best.upper <= floor or best.width <= width * min(lattices.c, 1.0) * best.upper:
                break
    return tails
