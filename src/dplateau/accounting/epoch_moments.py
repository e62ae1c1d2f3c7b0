"""Moments, of complex order too, of the likelihood ratio of an epoch in which every record is in one batch, drawn at random.

Of l batches r are used, with the noise 1/mu_j, and ``S = ((l - r) + sum of exp(mu_j g_j - mu_j^2/2)) / l`` with independent
g_j ~ N(0, 1) (``random_allocation.py``). Given S let N be Poisson with the mean s S. Then for Re t < n

    ``E S^t = n! / Gamma(n - t) integral of s^-t P(N = n) d(log s)``,

and N is a sum of independent whole numbers, one a batch: P(N = n) is found by sums of positive numbers. Two trapezoid rules, in log
s and in each g, converge exponentially, and one grid of log s serves all t, the complex ones of a contour, too. Every error is
bounded, relatively to E S^(Re t): ``docs/proofs/moments-of-an-epoch.md``.
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

import numpy as np
from scipy.special import digamma, gammaln, log_ndtr, loggamma, polygamma, xlogy

from dplateau.accounting.fourier_sums import repeated
from dplateau.accounting.gaussian import LOG_SQRT_2PI, ULP, Array, log_expm1
from dplateau.accounting.privacy_loss import TooSlowError
from dplateau.accounting.replaced_epoch import Parts, used
from dplateau.accounting.roots import root

_LOG_TOLERANCE: Final = -45.0
"""Of each quadrature, and of each end that is cut off."""
_ABOUT: Final = math.log(0.01)
"""How well moments are known that only guide a search."""
_MUCH: Final = 0.01
"""Moments whose errors may be larger are not known at all."""
_ANGLES: Final = np.linspace(0.02, 1.5, 75)
"""By how much a line of integration is turned."""
_SIDE, _FARTHEST = 9.8, 37.0
"""How far normal numbers go beyond a tilted mean (one in 10^21 goes further), and where their density is no longer a number."""
_COARSEST: Final = 0.6
"""Greatest distance of normal numbers: their masses sum to 1 but for exp(-2 pi^2/0.36)."""
_RAREST, _LOST = 1e-250, 1e-200
"""No smaller probabilities of one batch are looked at, and none of N that is smaller than the latter beside the largest number."""
_DEEPEST: Final = -650.0
"""Least log of the probability of 0."""
_LONG, _CELLS, _SHARES = 300, 12_000, (1.0, 0.6, 0.3, 0.0)
"""Of a longer grid, or one with more cells, the highest order may be lower, by these shares."""
_LONGEST, _MOST, _PRODUCTS = 1300, 1.2e7, 1e10
"""Longest grid, most multiplications, about, and most of the products of masses with what they see."""
POWERS: Final = (64, 128, 256, 512)
"""So many whole powers of S may be asked for: the first is enough for most."""
_LARGE: Final = 1e5
"""The log of a mean of one batch that is too large."""
_DEEP: Final = 2.0 ** np.arange(0, 9)
"""Powers below the least one that say how rare small values of S are."""


@lru_cache(maxsize=64)
def whole_moments(parts: Parts, batches: int, most: int = POWERS[0]) -> Array:
    """``log E S^t``, rounded up, for t = 0, 1, ..., most; for fewer where the means of one batch are very large."""
    most = int(min(most, 1 + math.sqrt(2 * _LARGE) / max(mu for mu, _ in parts)))
    t, size = np.arange(most + 1.0), np.zeros(most + 1)
    factorial, earlier = gammaln(t + 1), np.subtract.outer(np.arange(most + 1), np.arange(most + 1))

    def plus(one: Array, other: Array) -> Array:
        """The logs of the moments of a sum of two independent variables, each divided by t!."""
        # What a log is rounded by is a share of it: the largest one counts.
        np.maximum(size, np.abs(np.where(np.isfinite(other), other, 0.0)), out=size)
        term = np.where(earlier >= 0, one + other[earlier], -math.inf)
        top = term.max(axis=1)
        return top + np.log(np.exp(term - top[:, None]).sum(axis=1))

    total = xlogy(t, (batches - used(parts)) / batches) - factorial
    for mu, count in parts:
        total = plus(total, repeated(t * (t - 1) * mu**2 / 2 - t * math.log(batches) - factorial, count, plus))
    rounding = np.maximum.accumulate(np.maximum(size, np.abs(total))) + factorial + t + 8
    return total + factorial + 8 * ULP * (batches + 64) * rounding


def small_moments(parts: Parts, batches: int, power: Array, less: int = 0) -> Array:
    """Bounds on ``log E S^t`` for t < 0, where so many batches are taken away: a mean is at least the root of the product."""
    some, left = used(parts) - less, batches - less
    if not left:
        return np.full(power.shape, math.inf)
    of_mean = some / left * power * (power / left - 1) * max(mu for mu, _ in parts) ** 2 / 2
    return of_mean - power * math.log(batches / left)


class Moments(NamedTuple):
    """``log E S^(t + i omega)`` at several omega, shape (k,), and bounds on errors of the moments, relative to what was found."""

    log: Array
    error: Array


class _Batch(NamedTuple):
    """N of one batch: ``log P(0)``, shape (s,), P(1), ..., P(n), shape (n, s), and relative errors: of each, and of P(0)."""

    log_zero: Array
    p: Array
    rounding: float
    of_zero: Array


class _Law(NamedTuple):
    """P(N = n) times the step, and bounds on relative errors, at each log s; and of each part log P(0) of one batch; shape (s,)."""

    log_s: Array
    log_weight: Array
    error: Array
    log_zero: list[Array]


class EpochMoments:
    """The moments of S whose order is between 1 and ``highest``, where a record is present, or else between 0 and ``1 - highest``.

    ``highest`` is at least ``least``, and at most ``most`` and n.
    """

    def __init__(self, parts: Parts, batches: int, n: int, least: float, most: float, *, present: bool) -> None:
        self.parts, self.batches, self.n, self.present = parts, batches, n, present
        self.whole, count = whole_moments(parts, batches), math.inf
        # High orders need a long grid where a few large values of S decide.
        for part in _SHARES:
            self.highest = least + part * (most - least)
            count = self._choose()
            if count < max(_LONG, _CELLS / n):
                break
        powers = sum(math.log2(times) if times < n else 1.0 for _, times in parts) + len(parts) - 1
        # The steps of the least mu are those of all, and the largest one's normal numbers go by them, too.
        tables = count * self.stride * n
        wide = (self.left + self.right) * max(mu for mu, _ in parts) / self.fine
        if not (count < _LONGEST and count * powers * n**2 < _MOST and tables < _MOST and tables * wide < _PRODUCTS):
            raise TooSlowError
        self.points = log_s = self.low + self.step * np.arange(int(count))
        allowed = [gammaln(n - t) - gammaln(n + 1) - max(-t * log_s[0], -t * log_s[-1]) for t in self._powers]
        self.rare = max(math.exp(min(min(allowed) + _LOG_TOLERANCE - math.log(count * n * batches), 0.0)), _RAREST)

    @cached_property
    def furthest(self) -> float:
        """As ``highest``, but where moments are known about, for searches."""

        def off(far: float) -> float:
            power = far if self.present else 1 - far
            weight, top, _ = self._weighed(power)
            return min(max(self._log_left_out(power, weight, top) - _ABOUT, -50.0), 50.0)

        far = min(1.5 * self.highest, self.n - 2.0) if self.present else 1.5 * self.highest
        with np.errstate(all="ignore"):
            return root(off, self.highest, far, xtol=0.1) if off(self.highest) < 0 < off(far) else self.highest

    @property
    def _powers(self) -> tuple[float, float]:
        return (1.0, self.highest) if self.present else (1 - self.highest, 0.0)

    def _choose(self) -> float:
        """Steps and ends of log s and of the normal numbers, and how many log s that makes."""
        n, (lowest, highest), largest = self.n, self._powers, max(mu for mu, _ in self.parts)
        turned = -(n - lowest) * np.log(np.cos(_ANGLES)) + math.log(4.0) - _LOG_TOLERANCE
        step = float((2 * math.pi * _ANGLES / (turned + math.sqrt(20.0 * n) * _ANGLES)).max())
        # Normal numbers are as close as the log s, or closer: so one table serves all.
        self.fine = step
        for mu, count in self.parts:
            y = np.minimum(_ANGLES / mu, 2 * math.pi / _COARSEST)
            growth = y**2 / 2 - (n - lowest) * np.log(np.cos(mu * y)) + math.log(4.0 * count) - _LOG_TOLERANCE
            self.fine = min(self.fine, mu * min(float((2 * math.pi * y / growth).max()), _COARSEST))
        self.stride = int(step / self.fine)
        self.step = self.stride * self.fine
        self._choose_sides(lowest, highest, largest)
        q, left_out = self._beyond(highest, low=True)
        self.low = float(((_LOG_TOLERANCE - left_out) / q).max(initial=-math.inf))
        q, left_out = self._beyond(lowest, low=False)
        high = float(((left_out - _LOG_TOLERANCE) / q).min())
        return math.ceil(max((high - self.low) / self.step, 0.0)) + 1.0 if math.isfinite(self.low) else math.inf

    def _choose_sides(self, lowest: float, highest: float, largest: float) -> None:
        """How far normal numbers go. Where batches are many, none of them has much of a share in a tilt."""
        low = min(lowest, 0.0)
        turned = (self.n - low) * (3 / self.batches + self.step) - low * self.step
        self.left = min(_SIDE - low * largest, math.sqrt(_SIDE**2 + 2 * turned) if low else _SIDE, _FARTHEST)
        tried = np.linspace(_SIDE, _SIDE + highest * largest, 40)
        enough = tried[_log_right(tried, highest, largest, self.batches) < _LOG_TOLERANCE]
        self.right = min(float(enough[0]) if enough.size else tried[-1], _FARTHEST)

    def _beyond(self, power: float, *, low: bool, less: int = 0) -> tuple[Array, Array]:
        """What is beyond an end of the grid of log s: distances q of orders, and logs of what is left out at the end 0.

        ``P(N = n) <= kappa s^p E S^p`` for p <= n, with which the sum beyond an end is a geometric series. Of all batches but one
        (``less`` = 1) it is the integral, which is larger than the sum.
        """
        if low:
            p = np.arange(max(math.floor(power) + 1.0, 0.0), min(self.n, self.whole.size - 1) + 1)
            log_moment = self.whole[p.astype(int)]
        else:
            p = min(power, 0.0) - _DEEP
            log_moment = small_moments(self.parts, self.batches, p, less)
            if power > 1:  # E S is 1
                p, log_moment = np.append(p, [0.0, 1.0]), np.append(log_moment, [0.0, 0.0])
        rest, q = self.n - p, np.abs(p - power)
        log_kappa = np.where(rest > 0, rest * np.log(np.maximum(rest, 1e-300)) - rest, 0.0)
        series = math.log(self.step) - (0 if less else q * self.step) - np.log(-np.expm1(-q * self.step))
        # Relative to Gamma(n - t) E S^t, and E S^t is at least 1.
        return q, series + log_kappa + log_moment - gammaln(self.n - power)

    @cached_property
    def _law(self) -> _Law:
        with np.errstate(all="ignore"):
            return self._summed()

    def _summed(self) -> _Law:
        n, log_s, single = self.n, self.points, [self._one(mu) for mu, _ in self.parts]
        rest = np.exp(log_s) * ((self.batches - used(self.parts)) / self.batches)
        counts = [count for _, count in self.parts]
        # P(N = m) is divided by P(N = 0)^(1 - m/n): no number overflows, and P(N = n) is what it is.
        log_zero = np.sum([count * one.log_zero for one, count in zip(single, counts, strict=True)], axis=0) - rest
        powers = np.arange(n + 1.0)[:, None]
        grown = powers * log_zero / n
        total = np.exp(powers * np.log(rest) + grown - gammaln(powers + 1)) if rest[0] > 0 else None
        error = 8 * ULP * (np.abs(log_zero) + n * (n + 8))
        for one, count in zip(single, counts, strict=True):
            series = np.concatenate([np.ones((1, log_s.size)), one.p * np.exp(grown[1:] - one.log_zero)])
            part = self._power(series, count)
            total = part if total is None else _times(total, part)
            error += one.rounding * n + one.of_zero * count + 2 * ULP * n * (n + 8 + min(count, n))
        assert total is not None
        known = np.flatnonzero((total[n] > _LOST * total.max(axis=0) ** 2) & (log_zero > _DEEPEST))
        if not known.size or known[-1] - known[0] >= known.size:
            raise TooSlowError
        kept = slice(known[0], known[-1] + 1)
        log_weight = np.log(total[n][kept]) + math.log(self.step)
        return _Law(log_s[kept], log_weight, error[kept] + 2 * ULP * np.abs(log_weight), [one.log_zero[kept] for one in single])

    def _one(self, mu: float) -> _Batch:
        n, h, log_s = self.n, self.fine / mu, self.points
        size = (log_s.size - 1) * self.stride + 1
        first, last = -math.ceil(self.left / h), math.ceil(self.right / h)
        g = h * np.arange(first, last + 1)
        mass = np.exp(math.log(h) - LOG_SQRT_2PI - g**2 / 2)
        log_y = log_s[0] + first * self.fine - mu**2 / 2 - math.log(self.batches) + self.fine * np.arange(size + g.size - 1)
        y = np.exp(log_y)
        half, padded = np.exp(-y / 2), np.pad(mass, size - 1)
        p, one = np.zeros((n, log_s.size)), half
        for k in range(1, n + 1):
            one = one * (y / k)
            seen = one * half
            inside = np.flatnonzero(seen > self.rare)
            if inside.size:
                begin, end = inside[0], inside[-1] + 1
                p[k - 1] = np.correlate(padded[begin : end + size - 1], seen[begin:end], "valid")[::-1][:: self.stride]
        drawn, zero = (np.correlate(table, mass, "valid")[:: self.stride] for table in (-np.expm1(-y), half * half))
        often = drawn > 0.5
        log_zero = np.where(often, np.log(zero), np.log1p(-np.minimum(drawn, 0.5)))
        rounding = ULP * (g.size / 2 + float((g**2).max()) + 16)
        # An error of y is one of s: it costs no more than so many times n.
        moved = 8 * ULP * (3 * max(abs(log_y[0]), abs(log_y[-1])) + 2 * abs(log_s[0]) + mu**2 + math.log(self.batches) + 8)
        return _Batch(log_zero, p, 2 * rounding + moved, rounding * np.where(often, 1.0, 4 * drawn) + 1e-18)

    def _power(self, one: Array, count: int) -> Array:
        """The power series ``one``, which begins with 1, to a whole power: nothing is subtracted."""
        n = self.n
        if count < n:
            return repeated(one, count, _times)
        found, k = np.ones_like(one), np.arange(1.0, n + 1)
        for m in range(1, n + 1):
            # From f (f^c)' = c f^c f'.
            found[m] = np.einsum("k,ks,ks->s", (k[:m] * (count + 1) - m) / m, one[1 : m + 1], found[m - 1 :: -1][:m])
        return found

    def _weighed(self, power: float) -> tuple[Array, float, Array]:
        """Weights of the log s that sum to 1, the log of their sum before, and their exponents."""
        exponent = self._law.log_weight - power * self._law.log_s
        top = float(exponent.max())
        weight = np.exp(exponent - top)
        total = float(weight.sum())
        return weight / total, top + math.log(total), exponent

    def cumulants(self, power: float) -> tuple[float, float, float]:
        """``log E S^t`` and its first two derivatives, about."""
        a = self.n - power
        weight, top, _ = self._weighed(power)
        mean = float((weight * self._law.log_s).sum())
        spread = float((weight * (self._law.log_s - mean) ** 2).sum())
        return top + float(gammaln(self.n + 1) - gammaln(a)), float(digamma(a)) - mean, spread - float(polygamma(1, a))

    def at(self, power: float, omega: Array) -> Moments:
        """``E S^(power + i omega)``; omega, shape (k,), equally spaced and the first of them 0."""
        a = self.n - power
        weight, top, exponent = self._weighed(power)
        middle = float((weight * self._law.log_s).sum())
        off = self._law.log_s - middle
        # Sums of short and of long turns. Not by inner products: they wait for threads where a machine is busy.
        short = math.isqrt(omega.size - 1) + 1
        far, near = (np.exp(-1j * np.multiply.outer(some, off)) for some in (omega[::short], omega[:short]))
        turned = np.einsum("as,bs->ab", far * weight, near).ravel()[: omega.size]
        log_factorial, log_gamma = float(gammaln(self.n + 1)), loggamma(a - 1j * omega)
        log = top - 1j * omega * middle + np.log(turned) + log_factorial - log_gamma
        rounding = self._law.error + 4 * ULP * (np.abs(exponent) + np.abs(power * self._law.log_s) + off.size + 16)
        missed = float((weight * rounding).sum()) + 8 * ULP * np.abs(omega) * float((weight * np.abs(off)).sum())
        missed = missed + math.exp(self._log_left_out(power, weight, top)) + np.exp(self._log_quadrature(a, omega))
        outside = 8 * ULP * (np.abs(log_gamma) + log_factorial + abs(top) + np.abs(omega * middle) + 4)
        # All is relative to the true moment on the real axis, which may be larger than what was found.
        scale = 1 / (1 - missed[0]) if missed[0] < _MUCH else math.inf
        return Moments(log, (1 + outside) * (1 + scale * missed / np.abs(turned)) - 1)

    def _log_left_out(self, power: float, weight: Array, top: float) -> float:
        """Log of a bound on what lies beyond the ends of both grids, and on what is rare."""
        rare = math.log(self.step * self.rare * self.n * self.batches) + float(np.logaddexp.reduce(-power * self._law.log_s)) - top
        low, high = self._log_beyond(power, low=True), self._log_beyond(power, low=False)
        found = [rare, low, high]
        for (mu, count), log_zero in zip(self.parts, self._law.log_zero, strict=True):
            h = self.fine / mu
            left, right = float(log_ndtr(h - self.left)), float(_log_right(self.right - h, power, mu, self.batches))
            if power < 0:
                # A record's other batches alone: ``P(N = n)`` is at least P(0) of one batch times theirs.
                others = math.log(float((weight * np.exp(-log_zero)).sum()))
                others = float(np.logaddexp.reduce([others, low, self._log_beyond(power, low=False, less=1)]))
                left = min(left + others + (self.n - power) * self.step, float(log_ndtr(h - self.left - power * mu)))
            found += [math.log(1.01 * count) + side for side in (left, right)]
        return float(np.logaddexp.reduce(found))

    def _log_beyond(self, power: float, *, low: bool, less: int = 0) -> float:
        q, left_out = self._beyond(power, low=low, less=less)
        return float((left_out + (q * self._law.log_s[0] if low else -q * self._law.log_s[-1])).min(initial=math.inf))

    def _log_quadrature(self, a: float, omega: Array) -> Array:
        """Log of a bound on the errors of both trapezoid rules."""
        growth = -a * np.log(np.cos(_ANGLES)) + math.log(2.02)
        of_s = growth + np.multiply.outer(np.abs(omega), _ANGLES) - log_expm1(2 * math.pi * _ANGLES / self.step)
        found = of_s.min(axis=-1)
        for mu, count in self.parts:
            y = _ANGLES / mu
            of_g = growth + y**2 / 2 - log_expm1(2 * math.pi * y * mu / self.fine) + math.log(count)
            found = np.logaddexp(found, of_g.min())
        return found


def _log_right(end: Array | float, power: float, mu: float, batches: int) -> Array:
    """Log of a bound on the share of ``E S^power`` in which the normal number of one batch lies beyond ``end``."""
    if power <= 0:
        return log_ndtr(-end)
    moved = log_ndtr(power * mu - end)
    # ``(x + y)^t <= e x^t + t^(t - 1) y^t`` for t >= 1.
    alone = (power - 1) * math.log(power) - power * math.log(batches) + power * (power - 1) * mu**2 / 2
    return np.minimum(moved, np.logaddexp(1 + log_ndtr(-end), alone + moved))


def _times(one: Array, other: Array) -> Array:
    """The product of two power series, shape (n + 1, s)."""
    found = np.empty_like(one)
    if one is other:
        for m in range(len(one)):
            half = (m + 1) // 2
            found[m] = 2 * np.einsum("ks,ks->s", one[:half], one[m : m - half if m > half else None : -1][:half])
            if m % 2 == 0:
                found[m] += one[m // 2] ** 2
        return found
    for m in range(len(one)):
        found[m] = np.einsum("ks,ks->s", one[: m + 1], other[m::-1])
    return found
