"""Steps of one kind whose noise, or noise and sampling rate, differ from step to step.

Thousands of different laws are not evaluated one by one. As a function of x = log mu and y = log(q / (1 - q)), each scaled to
[-1, 1] over the members, ``m(s) - 1`` is analytic, and so it is replaced by the polynomial p that agrees with it on a grid of
Chebyshev points. With weights that do not depend on s, the sum over the members is one over the grid:

    ``sum over members of log1p(p(x_i, y_i)) = sum over the grid of w_n log1p(p(x_n, y_n))``, but for higher degrees of log1p(p).

Both errors have classical bounds, ``4 M rho^-n / (rho - 1)`` for n + 1 points, where M bounds the function on the ellipse rho
(Trefethen, Approximation Theory and Approximation Practice, Theorem 8.2): of m because the line of integration may be turned, of
log1p(p) because the coefficients of p are known. Proof: ``docs/proofs/contour.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from scipy.fft import dct

from dplateau.accounting.amplified import Amplified
from dplateau.accounting.gaussian import ULP, Array
from dplateau.accounting.privacy_loss import PoissonAdd, PoissonRemove, PoissonReplace, StepLaw, TooSlowError
from dplateau.accounting.terms import Cumulants, Repeated, Term, cumulants, excess, logarithm

_TURNS: Final = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
"""Arguments of mu that are tried, all below pi/4."""
_PHASES: Final = (0.05, 0.1, 0.2, 0.4, 0.7, 1.0, 1.3, 1.5)
"""Arguments of q / (1 - q) that are tried, all below pi/2."""
_ELLIPSES: Final = np.geomspace(1.05, 60.0, 40)
_MOST: Final = 160
"""Greatest number of Chebyshev points of one coordinate."""
_GRID: Final = 6_000
"""Greatest number of laws that are evaluated."""
_SEVERAL: Final = 100
"""Up to this many members are evaluated one by one where a grid would need too many points, or be no better."""
_LEBESGUE: Final = 5.0
"""Interpolation at up to 500 Chebyshev points enlarges the errors of the values by no more than this, in each coordinate."""
_ANCHORS: Final = {1: 25, 2: 9}
"""Laws in each coordinate that serve the search and the bound on the far end of the contour."""
_ROOM: Final = 3.0
"""The laws on the grid are this much more accurate, in logs, than the members have to be."""
_OUTWARDS: Final = 1e-12
"""Borders of cells are moved by this, more than they and the places of the members are rounded."""
_BLOCK: Final = 1024
_TINY: Final = 1e-300


def _points(count: int) -> Array:
    """Chebyshev points of the first kind; a single one lies in the middle."""
    return np.cos((2 * np.arange(count) + 1) * math.pi / (2 * count))


def _polynomials(x: Array, count: int) -> Array:
    """The first Chebyshev polynomials at ``x``, shape (count, k); that of degree j is wrong by at most ``2 j^2`` roundings."""
    rows = np.ones((count, x.size))
    if count > 1:
        rows[1] = x
    twice = 2 * x
    for j in range(2, count):
        np.multiply(twice, rows[j - 1], out=rows[j])
        rows[j] -= rows[j - 2]
    return rows


def _coefficients(values: Array) -> Array:
    """Chebyshev coefficients, along the first two axes, of the polynomial with these values on the grid."""
    parts = [np.real(values), np.imag(values)]
    for axis in (0, 1):
        if values.shape[axis] > 1:
            parts = [np.asarray(dct(part, type=2, axis=axis)) / values.shape[axis] for part in parts]
            for part in parts:
                part[(slice(None),) * axis + (0,)] /= 2
    return parts[0] + 1j * parts[1]


class Axis(NamedTuple):
    """A coordinate of the members: the middle and half the length of its range, and where they lie in it, from -1 to 1."""

    middle: float
    half: float
    place: Array

    @classmethod
    def of(cls, x: Array) -> Axis:
        """The axis of members at ``x``; where they agree up to rounding, it has no length."""
        low, high = float(x.min()), float(x.max())
        middle, half = (low + high) / 2, (high - low) / 2
        if half <= 4 * ULP * (1 + abs(middle)):
            return cls(middle, 0.0, np.zeros(x.size))
        return cls(middle, half, np.clip((x - middle) / half, -1.0, 1.0))

    def at(self, count: int) -> Array:
        """So many Chebyshev points of the range."""
        return self.middle + self.half * _points(count) if self.half else np.array([self.middle])

    def cells(self, count: int) -> tuple[Array, Array]:
        """The exponentials of the ends of cells between so many points, shape (2, cells), and the cell of each member."""
        borders = np.exp(self.middle + self.half * np.linspace(-1.0, 1.0, max(count, 2)))
        ends = np.stack([borders[:-1] * (1 - _OUTWARDS), borders[1:] * (1 + _OUTWARDS)])
        return ends, np.clip(((self.place + 1) / 2 * ends.shape[1]).astype(int), 0, ends.shape[1] - 1)

    def ellipse(self, height: float) -> tuple[float, float]:
        """The Bernstein ellipse whose points have imaginary parts up to ``height``, and the largest real part on it."""
        rho = height / self.half + math.hypot(1.0, height / self.half)
        return rho, self.middle + self.half * (rho + 1 / rho) / 2


@dataclass(frozen=True, eq=False)
class Members:
    """Rates ``qs`` and shifts ``mus`` of the steps, and how often each pair occurs; shape (k,) each."""

    qs: Array
    mus: Array
    counts: Array
    noise: Axis
    rate: Axis
    _known: dict[str, Array] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, qs: Array, mus: Array, counts: Array) -> Members:
        """The members, with their coordinates."""
        return cls(qs, mus, counts, Axis.of(np.log(mus)), Axis.of(np.log(qs) - np.log1p(-qs)))

    @property
    def steps(self) -> int:
        """Number of steps."""
        return int(self.counts.sum())

    def grid(self, shape: tuple[int, int]) -> tuple[Array, Array]:
        """Rates and shifts of a grid of Chebyshev points, shape (points in the noise) and (points in the rate)."""
        odds = np.exp(self.rate.at(shape[1]))
        return np.exp(self.noise.at(shape[0])), (odds / (1 + odds) if self.rate.half else self.qs[:1])

    def moments(self, shape: tuple[int, int]) -> tuple[Array, Array]:
        """Sums of products of Chebyshev polynomials over all steps, one row a degree in the noise, and bounds on their errors."""
        known = self._known.get("moments", np.zeros((0, 0)))
        if known.shape[0] < shape[0] or known.shape[1] < shape[1]:
            known = np.zeros((max(known.shape[0], shape[0]), max(known.shape[1], shape[1])))
            for start in range(0, self.counts.size, _BLOCK):
                part = slice(start, start + _BLOCK)
                x = _polynomials(self.noise.place[part], known.shape[0])
                known += x @ (_polynomials(self.rate.place[part], known.shape[1]) * self.counts[part]).T
            self._known["moments"] = known
        degrees = np.add.outer(np.arange(shape[0]) ** 2, np.arange(shape[1]) ** 2)
        roundings = 2 * degrees + _BLOCK + self.counts.size / _BLOCK + 8
        return known[: shape[0], : shape[1]], ULP * self.steps * roundings

    def weights(self, shape: tuple[int, int]) -> Array:
        """Weights on the grid that integrate polynomials as the members do."""
        x, y = _polynomials(_points(shape[0]), shape[0]), _polynomials(_points(shape[1]), shape[1])
        x[1:], y[1:] = 2 * x[1:], 2 * y[1:]
        return x.T @ self.moments(shape)[0] @ y / (shape[0] * shape[1])


@dataclass(frozen=True, eq=False)
class Family(Term):
    """Laws of one ``kind``, one for each of the ``members``."""

    kind: type[StepLaw]
    members: Members

    @property
    def steps(self) -> int:
        return self.members.steps

    @property
    def _worst(self) -> StepLaw:
        """The law that dominates all members."""
        return self.kind(float(self.members.qs.max()), float(self.members.mus.max()))

    @property
    def greatest(self) -> float:
        return self.steps * self._worst.greatest

    @property
    def unsampled(self) -> float:
        return float(self.members.counts @ (self.kind.turns * self.members.mus) ** 2)

    @property
    def repeated(self) -> list[Repeated]:
        members = self.members
        return [
            Repeated(self.kind(float(q), float(mu)), int(count))
            for q, mu, count in zip(members.qs, members.mus, members.counts, strict=True)
        ]

    def variation(self) -> float:
        return self.steps * Repeated(self._worst, 1).variation()

    @property
    def _shape(self) -> tuple[int, int]:
        """The anchors' grid."""
        each = _ANCHORS[(self.members.noise.half > 0) + (self.members.rate.half > 0) or 1]
        return (each if self.members.noise.half else 1, each if self.members.rate.half else 1)

    def _laws(self, shape: tuple[int, int]) -> list[StepLaw]:
        mus, qs = self.members.grid(shape)
        return [self.kind(float(q), float(mu)) for mu in mus for q in qs]

    def cumulants(self, reach: float) -> Cumulants:
        return cumulants(self._laws(self._shape), self.members.weights(self._shape).ravel(), reach)

    def log_tail(self, c: float, omega: float) -> float:
        """Each member contains a share of the law at the lower corner of its cell of a grid: its modulus falls by that share."""
        members, (levels, rates) = self.members, self._shape
        if members.counts.size <= _SEVERAL:
            return sum(one.log_tail(c, omega) for one in self.repeated)
        mus, at_noise = members.noise.cells(levels)
        odds, at_rate = members.rate.cells(rates)
        noise = mus.T if members.noise.half else np.array([[members.mus.min(), members.mus.max()]])
        rate = (odds / (1 + odds)).T if members.rate.half else np.array([[members.qs.min(), members.qs.max()]])
        cells, which = np.unique(np.stack([at_noise, at_rate]), axis=1, return_inverse=True)
        total = 0.0
        for (i, j), count in zip(cells.T, np.bincount(which.ravel(), weights=members.counts), strict=True):
            lowest, highest = (self.kind(float(q), float(mu)) for q, mu in zip(rate[j], noise[i], strict=True))
            total += float(count) * _log_tail(lowest, highest, c, omega)
        return total

    def _sizes(self, c: float, omega: float, log_tolerance: float) -> tuple[int, int]:
        """The fewest Chebyshev points in each coordinate whose error bound is below the tolerance, rounded up."""
        noise = _fewest(
            self.members.noise, _TURNS, lambda turn, x: self._turned_noise(turn, x, c, omega), log_tolerance - math.log(_LEBESGUE)
        )
        rate = _fewest(self.members.rate, _PHASES, lambda turn, y: self._turned_rate(turn, y, c, omega), log_tolerance)
        if noise * rate > _GRID:
            raise TooSlowError
        return noise, rate

    def _turned_noise(self, psi: float, x: float, c: float, omega: float) -> float:
        """A bound on log |m| for the members' rates and every mu with argument up to psi and log |mu| up to x."""
        k, size, q = math.cos(2 * psi), math.exp(2 * x), float(self.members.qs.max())
        mu = math.exp(x) / math.sqrt(k)
        if self.kind is not PoissonReplace:
            return _log_m(self.kind(q, mu), c) + size * (1 / k - k) / 8 - math.log(k) / 2
        # The Gaussians' heights exp(-mu^2/2) turn by phi together, which is as if q / (1 - q) turned; they also grow.
        phi, odds = size * math.sin(2 * psi) / 2, q / (1 - q) * math.exp(min(size * (1 / k - k) / 2, 700.0))
        if phi > 1.5:
            return math.inf
        grown = math.log1p(-q) + math.log1p(odds)
        return _log_m(self.kind(odds / (1 + odds), mu), c) - math.log(k) / 2 + grown - c * math.log(math.cos(phi / 2)) + omega * phi

    def _turned_rate(self, phi: float, y: float, c: float, omega: float) -> float:
        """A bound on log |m| for the members' mus and every t = q / (1 - q) with argument up to phi and log |t| up to y."""
        odds, mus = math.exp(y), self.members.mus
        log_m = _log_m(self.kind(odds / (1 + odds), float(mus.max())), c)
        half = -math.log(math.cos(phi / 2))
        add, remove = self.kind is PoissonAdd, self.kind is PoissonRemove
        plain = (c if add else 1 + c if remove else 1 + 2 * c) * half + omega * phi
        if self.kind is PoissonReplace or (self.kind is Amplified and phi > 1.1):
            return log_m + math.log(2) + plain
        # Moving the line of integration by phi / mu turns the phase of t back; what stays is that of the constant 1 + t.
        t, cos = min(odds, 1.0), math.cos(phi)
        shrunk = (1 + c) * (math.log1p(t) - math.log1p(t * (2 * cos + t)) / 2)
        bent = max(shrunk, c * half) + math.log1p(4 * phi**2) / 2
        power = 0.0 if add else shrunk if remove else bent
        moved = power + phi**2 / 2 / float(mus.min()) ** 2 + omega * math.atan2(odds * math.sin(phi), 1 + odds * cos)
        return log_m + math.log(2) + min(plain, moved)

    def _values(self, c: float, at: Array, log_tolerance: float, shape: tuple[int, int]) -> tuple[Array, Array]:
        """``m - 1`` on the grid, shape (n, m, S), and a bound on the errors, shape (S,)."""
        values, errors = np.empty((shape[0] * shape[1], at.size), complex), np.zeros(at.size)
        for i, law in enumerate(self._laws(shape)):
            values[i], error = excess(law, c, at, log_tolerance)
            errors = np.maximum(errors, error)
        return values.reshape(*shape, at.size), errors

    def log_transform(self, c: float, at: Array, log_tolerance: float) -> tuple[Array, Array]:
        try:
            shape = self._sizes(c, float(at[-1]), log_tolerance - math.log(self.steps))
        except TooSlowError:
            shape = None
        if shape is not None and shape[0] * shape[1] < self.members.counts.size:
            return self._gathered(c, at, log_tolerance, shape)
        # One by one, or in halves, which need fewer points each.
        parts = self.repeated if self.members.counts.size <= (_SEVERAL if shape is None else _GRID) else self._halves()
        found = [part.log_transform(c, at, log_tolerance - math.log(len(parts))) for part in parts]
        zero = np.zeros(at.size)
        return sum((value for value, _ in found), zero), sum((error for _, error in found), zero)

    def _halves(self) -> list[Family]:
        """Two families, below and above the middle of the longer coordinate."""
        members = self.members
        longer = members.noise if members.noise.half >= members.rate.half else members.rate
        if not longer.half:
            raise TooSlowError
        return [
            Family(self.kind, Members.of(members.qs[here], members.mus[here], members.counts[here]))
            for here in (longer.place < 0, longer.place >= 0)
        ]

    def _gathered(self, c: float, at: Array, log_tolerance: float, shape: tuple[int, int]) -> tuple[Array, Array]:
        """The members' sum by the grid."""
        members, steps = self.members, self.steps
        log_each = log_tolerance - math.log(steps)
        values, errors = self._values(c, at, log_each - _ROOM, shape)
        coefficients = _coefficients(values)
        transformed = ULP * 8 * shape[0] * shape[1] * np.abs(values).max(axis=(0, 1))
        # What is smaller than the tolerance altogether is left out of p.
        size = np.abs(coefficients).max(axis=2)
        order = np.argsort(size, axis=None)
        small = order[np.cumsum(size.ravel()[order]) <= math.exp(log_each)]
        coefficients.reshape(-1, at.size)[small] = 0.0
        dropped = float(size.ravel()[small].sum())
        # How far a member's m - 1 may be from p, which is no more than the values on the grid are from it.
        varying = (shape[0] > 1) + (shape[1] > 1)
        member = _LEBESGUE**varying * (errors + transformed) + 2 * math.exp(log_each) + dropped
        total, error, todo = np.zeros(at.size, complex), np.zeros(at.size), np.arange(at.size)
        for finer in (1, 2, 4):
            wanted = (finer * shape[0] if shape[0] > 1 else 1, finer * shape[1] if shape[1] > 1 else 1)
            if not todo.size or wanted[0] * wanted[1] > members.counts.size:
                break
            here = values[..., todo] if finer == 1 else _evaluated(coefficients[..., todo], wanted)
            # |p| on the real axes, and what log(1 + p) has in degrees that the grid does not see.
            room = 1 - np.abs(coefficients[..., todo]).sum(axis=(0, 1)) - member[todo]
            rest = _higher(np.abs(coefficients[..., todo]), wanted)
            good = (room > 0.25) & (steps * rest <= math.exp(log_tolerance) + steps * member[todo])
            (logs, rounding), found = logarithm(here[..., good]), todo[good]
            moments, fuzz = members.moments(wanted)
            inside = _coefficients(logs)
            total[found] = np.tensordot(moments, inside, 2)
            error[found] = steps * ((1 + _LEBESGUE**varying) * member[found] / room[good] + rest[good])
            error[found] += np.tensordot(fuzz, np.abs(inside), 2)
            error[found] += (moments.size + 1) * steps * rounding.max(axis=(0, 1), initial=0.0)
            todo = todo[~good]
        if todo.size:
            total[todo], error[todo] = self._one_by_one(coefficients[..., todo], member[todo])
        return total, 1.01 * error

    def _one_by_one(self, coefficients: Array, member: Array) -> tuple[Array, Array]:
        """The sum over the members of log(1 + p), and a bound on its error."""
        members, (n, m, columns) = self.members, coefficients.shape
        total, error = np.zeros(columns, complex), np.zeros(columns)
        for part in np.array_split(np.arange(members.counts.size), 1 + members.counts.size * m * columns // 1_000_000):
            x, y = _polynomials(members.noise.place[part], n), _polynomials(members.rate.place[part], m)
            p = np.einsum("kmc,mk->kc", (x.T @ coefficients.reshape(n, -1)).reshape(part.size, m, columns), y)
            logs, rounding = logarithm(p)
            total += members.counts[part] @ logs
            error += members.counts[part] @ (rounding + np.minimum(member / np.maximum(np.abs(1 + p) - member, _TINY), 1e6))
        return total, error


def _evaluated(coefficients: Array, shape: tuple[int, int]) -> Array:
    """The polynomial on a finer grid."""
    x, y = (_polynomials(_points(count), degrees) for count, degrees in zip(shape, coefficients.shape, strict=False))
    return np.einsum("nx,nmc,my->xyc", x, coefficients, y, optimize=True)


def _higher(size: Array, shape: tuple[int, int]) -> Array:
    """A bound on the error of interpolating log(1 + p) on the grid; ``size``, shape (n, m, S), bounds p's coefficients."""
    total = np.zeros(size.shape[2])
    for axis, count in enumerate(shape):
        if count > 1:
            # On an ellipse in this coordinate, the other one being real.
            along = size.sum(axis=1 - axis)
            degree = np.arange(along.shape[0])
            with np.errstate(all="ignore"):
                greatest = (_ELLIPSES[:, None] ** degree + _ELLIPSES[:, None] ** -degree) / 2 @ along
                log_m = np.where(greatest < 1, -np.log1p(-np.minimum(greatest, 1.0)), math.inf)
                bound = 4 * log_m * (_ELLIPSES ** -(count - 1.0) / (_ELLIPSES - 1))[:, None]
            total += (_LEBESGUE if axis == 0 else 1.0) * np.where(np.isnan(bound), math.inf, bound).min(axis=0)
    return total


def _log_tail(lowest: StepLaw, highest: StepLaw, c: float, omega: float) -> float:
    """For every law with a rate and a shift between those of two."""
    below, share, spread = lowest.beneath(highest)
    m_below, m_highest = (law.nodes(c, 0.0, math.log(1e-9)).moments(c)[0] for law in (below, highest))
    share *= (1 - 1e-8) * (1 + m_below) / (1 + m_highest)
    return math.log1p(-share * below.decay(c, omega, spread)) if 0 < share < 1 else 0.0


def _log_m(law: StepLaw, c: float) -> float:
    """log m(c), well enough for a bound with some room; infinite where it cannot be computed."""
    try:
        value, _, _ = law.nodes(c, 0.0, math.log(1e-3)).moments(c)
    except (ArithmeticError, ValueError):
        return math.inf
    return math.log1p(1.01 * value + 0.01) if math.isfinite(value) else math.inf


def _fewest(axis: Axis, heights: tuple[float, ...], log_m: Callable[[float, float], float], log_tolerance: float) -> int:
    """The fewest points whose error bound is below the tolerance, over the ellipses of those heights."""
    if not axis.half:
        return 1
    best = math.inf
    for height in heights:
        rho, reach = axis.ellipse(height)
        if reach > 600 or math.log(rho) * best < -log_tolerance:
            continue
        bound = log_m(height, reach)
        best = min(best, (math.log(8) + bound - math.log(rho - 1) - log_tolerance) / math.log(rho) + 1)
    if not best < _MOST:
        raise TooSlowError
    return 8 * math.ceil(max(best, 2.0) / 8)
