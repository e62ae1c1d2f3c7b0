"""Laws of sums of functions of Gaussians, enclosed in the convex order (``convex_order.py``).

The two are ``exp(mu g - mu^2/2)``, which is how likely a step's noisy sum is with a record beside without it, and its difference
to the mirror image.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache, partial, reduce
from operator import add
from typing import Final, NamedTuple

import numpy as np
from scipy.special import ndtr, roots_legendre

from dplateau.accounting.convex_order import CLOSE, FINE, LONGEST, Block, Law, Span, excess_at, lattices
from dplateau.accounting.gaussian import LOG_SQRT_2PI, ULP, Array
from dplateau.accounting.privacy_loss import TooSlowError

_REACH, _REACH_COARSE, _REACH_SIGNED = 15.3, 11.8, 12.0
"""Standard deviations of a log-normal's logarithm that lie on its lattices; on coarse ones; of a signed law's."""
_SELDOM: Final = 7.7
"""Beyond so many there is little of mass and mean."""
_ERROR: Final = 3e-13
"""Relative error of their masses: a density whose exponent is at most 250, at a place that is off by a few roundings of its own,
and sums of positive numbers.
"""
_WORST: Final = 1e-3
"""A law whose masses may be off by more is no bound."""
_GREATEST: Final = 12.0
"""Largest mu: beyond it the ends of the law overflow."""
_RULES: Final = tuple(roots_legendre(n) for n in (5, 6, 8, 12))
_PANEL: Final = 0.1
"""Greatest width, in standard deviations, of a panel."""
_QUADRATURE: Final = math.log(1e-14)
"""Log of the greatest relative error of a cell's integral."""


def _log_normal(mu: float, fine: float, *, above: bool) -> Law:
    """The law of ``exp(mu g - mu^2/2)``, g ~ N(0, 1), whose mean is 1."""
    if mu > _GREATEST:
        raise TooSlowError
    middle = math.exp(-(mu**2) / 2)
    # The mean has its mass mu further out.
    furthest = _REACH if fine < CLOSE else _REACH_COARSE
    ends, inner = ((middle * math.exp(-mu * reach), middle * math.exp(mu * (reach + mu))) for reach in (furthest, _SELDOM))
    spans = lattices(middle, middle * math.sinh(mu), ends, inner, fine=fine)

    def inverse(x: Array) -> Array:
        return (np.log(x) + mu**2 / 2) / mu

    def width(x: Array, cell: float) -> Array:
        return np.log1p(cell / x) / mu

    def share(_: Array, along: Array, width: Array) -> Array:
        return np.expm1(mu * along) / np.expm1(mu * width)

    blocks = [
        Block(span.scale, span.start, np.append(lower, 0.0) + np.append(0.0, upper), None)
        if above
        else Block(span.scale, span.start, lower + upper, upper)
        for span, (lower, upper) in _split(spans, mu, inverse, width, share)
    ]
    left, right = (float(inverse(np.array(x))) for x in (spans[0].begin, spans[-1].end))
    ends = ((float(ndtr(left)), float(ndtr(left - mu))), (float(ndtr(-right)), float(ndtr(mu - right))))
    if above:
        return Law(tuple(blocks), ends[0][0] + ends[1][0], ends[0][1] + ends[1][1], _ERROR, fine=fine)
    tails = (
        Block(block.scale, 0, np.array([mass]), np.array([math.ldexp(mean, -block.scale)]))
        for block, (mass, mean) in zip((blocks[0], blocks[-1]), ends, strict=True)
    )
    return Law((*blocks, *tails), error=_ERROR, fine=fine)


def _rule(size: Array, gain: Array) -> tuple[Array, Array]:
    """The shortest rule whose error is small enough: twice its points times ``gain`` below ``size``, in logs."""
    for points, weights in _RULES:
        if float((size - 2 * points.size * gain).max()) < _QUADRATURE:
            return points, weights
    raise TooSlowError


def _split(
    spans: list[Span],
    mu: float,
    inverse: Callable[[Array], Array],
    width_of: Callable[[Array, float], Array],
    share: Callable[[Array, Array, Array], Array],
) -> Iterator[tuple[Span, Array]]:
    """The masses of a rising function f of g ~ N(0, 1) on the cells of each span, shape (2, k): the parts for a cell's two ends.

    ``inverse`` is f's, ``width_of(x, cell)`` is ``inverse(x + cell) - inverse(x)``, all of whose digits count: cells are narrow.
    ``share(x, along, width)`` is how far f has come from x, ``along`` after it, on the way to its value at ``width``; f grows no
    faster than ``exp(mu g)``. A wide cell is integrated in panels.
    """
    for span in spans:
        x, size = np.ldexp(np.arange(span.start, span.stop, dtype=float), span.scale), math.ldexp(1.0, span.scale)
        start, width = inverse(x), width_of(x, size)
        count = np.ceil(width / _PANEL).astype(np.int64)
        if not 0 < count.sum() < LONGEST:
            raise TooSlowError
        first = np.append(0, np.cumsum(count)[:-1])
        cell = np.repeat(np.arange(width.size), count)
        half = (width / count)[cell, None] / 2
        before = 2 * half * (np.arange(cell.size) - first[cell])[:, None]
        left = start[cell, None] + before
        points, weights = _rule(np.abs(left) + mu + 3 + np.log(200 / half), np.log(2 / half))
        along = before + half * (1 + points)
        at = start[cell, None] + along
        upper = share(x[cell, None], along, width[cell, None])
        density = half * weights * np.exp(-(at**2) / 2 - LOG_SQRT_2PI)
        yield span, np.add.reduceat(np.stack([(density * (1 - upper)).sum(axis=1), (density * upper).sum(axis=1)]), first, axis=1)


def _sum(times: Callable[[int], Law], count: int) -> Law:
    """The law of the sum of ``count`` > 1 independent variables, by the laws of sums of fewer."""
    most = 1 << count.bit_length() - 1
    if count > most:
        return times(count - most) + times(most)
    half = times(count // 2)
    return half + half


@lru_cache(maxsize=256)
def _log_normals(mu: float, fine: float, count: int, *, above: bool) -> Law:
    """The law of the sum of ``count`` independent ones."""
    return _sum(partial(_log_normals, mu, fine, above=above), count) if count > 1 else _log_normal(mu, fine, above=above)


def _sinh(mu: float, shift: float, *, above: bool) -> Law:
    """A law above that of ``2 exp(-mu^2/2) sinh(mu g - shift)``, g ~ N(0, 1), or below it, for convex functions that rise and are
    at least 0.
    """
    # g is a sum of the shift and of what may be nearly its opposite.
    error = _ERROR + 4 * ULP * (_REACH_SIGNED + mu) * shift / mu
    if mu > _GREATEST or not error < _WORST:
        raise TooSlowError
    factor = 2 * math.exp(-(mu**2) / 2)

    def at(g: float) -> float:
        return factor * math.sinh(mu * g - shift)

    def inverse(x: Array) -> Array:
        return (np.arcsinh(x / factor) + shift) / mu

    def width(x: Array, cell: float) -> Array:
        # No cell has 0 inside: both ends have one sign, and nothing is subtracted.
        near, far = np.sort(np.abs([x, x + cell]) / factor, axis=0)
        ratio = near / far
        return np.arcsinh(cell / factor * (1 + ratio) / (np.hypot(1, near) + ratio * np.hypot(1, far))) / mu

    def share(x: Array, along: Array, width: Array) -> Array:
        start = np.arcsinh(x / factor)
        half = np.sinh(mu * along / 2) / np.sinh(mu * width / 2)
        return half * np.cosh(start + mu * along / 2) / np.cosh(start + mu * width / 2)

    ends, inner = ((at(-reach), at(reach + mu)) for reach in (_REACH_SIGNED, _SELDOM))
    spans = lattices(at(0), (at(1) - at(-1)) / 2, ends, inner, signed=True)
    split = _split(spans, mu, inverse, width, share)
    if not above:  # What lies too far out is left out: it adds no less than 0.
        return Law(tuple(Block(span.scale, span.start, low + up, up) for span, (low, up) in split), error=error, signed=True)
    blocks = [Block(span.scale, span.start, np.append(low, 0.0) + np.append(0.0, up), None) for span, (low, up) in split]
    first, last = spans[0], spans[-1]
    low, high = (float(inverse(np.array(x))) for x in (first.begin, last.end))
    ends = Block(first.scale, first.start, ndtr(np.array([low])), None), Block(last.scale, last.stop, ndtr(np.array([-high])), None)
    return Law((*blocks, *ends), infinite=math.exp(-shift) * float(ndtr(mu - high)), error=error, signed=True)


@lru_cache(maxsize=64)
def _sinhs(mu: float, shift: float, count: int, *, above: bool) -> Law:
    """The same of the sum of ``count`` independent ones."""
    return _sum(partial(_sinhs, mu, shift, above=above), count) if count > 1 else _sinh(mu, shift, above=above)


class Excess(NamedTuple):
    """``E (V - t)_+`` of a law on points: the points x in ascending order, and at each of them, shape (k,), the mass from there on
    and ``E (V - x)_+``; ``infinite`` is the mean at infinity, ``error`` bounds the relative errors, and is negative for bounds
    from below.
    """

    x: Array
    right: Array
    above: Array
    infinite: float
    error: float

    def beyond(self, t: Array) -> Array:
        """The mass above t."""
        return np.append(self.right, 0.0)[np.searchsorted(self.x, t, side="right")]

    def __call__(self, t: Array) -> Array:
        """``E (V - t)_+``, rounded up, or down."""
        k = np.searchsorted(self.x, t)
        inside = np.minimum(k, self.x.size - 1)
        told = self.above[inside] + np.maximum(self.x[inside] - t, 0.0) * self.right[inside]
        return np.where(k < self.x.size, told, self.infinite) * (1 + self.error)


def sum_of_sinhs(parts: tuple[tuple[float, int], ...], shift: float, *, above: bool = True) -> Excess:
    """``E (V - t)_+`` for the sum V of independent ``2 exp(-mu^2/2) sinh(mu g - shift)``, g ~ N(0, 1).

    Parameters
    ----------
    parts : tuple of (float, int)
        Each mu > 0, and how many there are of it.
    shift : float
        At least 0.
    above : bool
        Whether it is no less, or no more.

    Raises
    ------
    TooSlowError
        A mu is so large that the lattices would span more than floating-point numbers do well.
    """
    total = reduce(add, (_sinhs(mu, shift, count, above=above) for mu, count in parts))
    x, mass = total.table()
    error = total.error + 4 * ULP * (x.size + 4)
    return Excess(x, *excess_at(x, mass, total.infinite), total.infinite, error if above else -error)


@lru_cache(maxsize=64)
def sum_of_log_normals(parts: tuple[tuple[float, int], ...], constant: int, *, above: bool, fine: float = FINE) -> Law:
    """The law of ``constant`` plus, for each (mu, count), so many independent ``exp(mu g - mu^2/2)``, g ~ N(0, 1).

    Parameters
    ----------
    parts : tuple of (float, int)
        Each mu > 0 and count >= 1; at least one.
    constant : int
        At least 0.
    above : bool
        The law is above the true one in the convex order, and has its mean; or it is below.
    fine : float
        Greatest spacing of its lattices, as a share of the distance from the middle, or from 0.

    Raises
    ------
    TooSlowError
        A mu is so large that the lattices would span more than floating-point numbers do well.
    """
    laws = [_log_normals(mu, fine, count, above=above) for mu, count in parts]
    if constant:
        scale = min(0, *(block.scale for law in laws for block in law.blocks))  # Coarser lattices have the point, too.
        laws.append(Law((Block(scale, constant << -scale, np.ones(1), None if above else np.zeros(1)),), error=0.0, fine=fine))
    return reduce(add, laws)
