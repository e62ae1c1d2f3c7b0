"""How likely two runs that differ in their start alone are still apart: reflection coupling.

Both have the same maps, which bring points at distance r to a distance of at most ``c r + e``, and add normal noise of variance v
to every coordinate. Reflected noise (Lindvall, Rogers 1986) makes the distance a normal walk with variance ``4 v`` that ends when
it passes 0; projection on a set of diameter D keeps it at most D. The probability that the walk has not ended is an increasing,
concave function of the distance at the start. Steps are taken backwards, in blocks: without the projection a block of steps is one
step of the walk, and the projection is applied between blocks. Proof: ``docs/proofs/reflection-coupling.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from scipy.special import erf

from dplateau.accounting.gaussian import Array, sums_from

_FINE: Final = 4096
"""A block adds at least the variance ``(diameter / 64)^2``: what the projection would do within a block is not counted on."""
_CELLS: Final = 128
_OPERATORS: Final = 64
"""So many different blocks are taken as they are; where there are more, those are rounded, so that few operators are needed."""
_LEVELS: Final = 50.0
"""Variances and contractions of these blocks are rounded to so many values per factor e."""
_STEADY: Final = 1e-3
"""A block changes the bound by one factor where the factors' range is this part of the change."""
_ENOUGH, _EQUAL = 1e-3, 1e-12
"""So it does where the range, over all steps that are left, comes to no more; or is that of rounding."""
_FURTHER: Final = 0.01
"""From then on look-backs grow by this part of themselves."""
_UP: Final = 1 + 1e-9
_POWER: Final = 4e-15
"""The same for every step more of a power of c."""
_ROUNDING: Final = 1e-11
"""What rounding may take off a block's bound, relative to its largest value, and more where distances grow: differences of 128
neighbours, and their sums.
"""
_LARGE: Final = 300.0
"""Log of the largest expansion of steps that are taken together."""
_DENSITY: Final = 1 / math.sqrt(2 * math.pi)
_STEEPEST: Final = 0.2420
"""The largest value of ``x phi(x)``."""

Apart = Callable[[float], float]
"""Distance at the start to an upper bound on the probability of being apart in the end."""


@dataclass(frozen=True)
class Steps:
    """Steps in order, rows of equal ones: arrays of shape (k,).

    Attributes
    ----------
    contraction, extra, variance : ndarray
        c, e and v of each step.
    count : ndarray of int
        Steps that a row stands for; 1 each where there are several rows.
    """

    contraction: Array
    extra: Array
    variance: Array
    count: Array


def still_apart(steps: Steps, diameter: float) -> Iterator[tuple[int, Apart]]:
    """Look-backs in rising order, and for each the probability that its steps leave two points apart.

    Parameters
    ----------
    steps : Steps
        All steps of a run. Contraction factors may exceed 1.
    diameter : float
        Of the set that iterates are projected on; may be infinite.

    Yields
    ------
    int, callable
        R, and an upper bound, for the last R steps, as a function of the distance before them. The last R is the number of all
        steps.
    """
    return (_equal if steps.count.size == 1 else _varied)(steps, diameter)


def _equal(steps: Steps, diameter: float) -> Iterator[tuple[int, Apart]]:
    """All steps alike. Once a block changes the bound by one factor at all points, so do all earlier blocks."""
    c, e, v, left = float(steps.contraction[0]), float(steps.extra[0]), float(steps.variance[0]), int(steps.count[0])
    size = 1 if math.isinf(diameter) else max(math.ceil(min(diameter**2 / _FINE / v, left) * (1 - 1e-9)), 1)
    if c < 1:
        size = min(size, math.ceil(_FURTHER / (1 - c)))

    def together(count: int) -> tuple[float, float, float]:
        if c > 1:  # After fewer steps the two are apart no less likely.
            count = min(count, max(int(_LARGE / math.log(c)), 1))
        up = _room(count)
        return c**count * up if c != 1 else 1.0, e * geometric_sum(c, count) * up, v * geometric_sum(c * c, count) / up

    taken, grid, factor = 0, np.ones(_CELLS + 1), math.inf
    # Where a block moves less than a cell, contraction is so strong that the set does not matter.
    bounded = 2 * math.sqrt(together(size)[2]) * _CELLS > diameter
    while taken < left:
        blocks = max(1, int(taken * _FURTHER / size)) if factor < math.inf or not bounded else 1
        count = min(blocks * size, left - taken)
        taken += count
        if bounded:
            if factor < math.inf:
                with np.errstate(over="ignore"):
                    grid = np.minimum(grid * (np.power(factor, count // size) * _UP), 1.0)
                count %= size
            if count:
                before, grid = grid, _moved(grid, *_scaled(together(count), diameter))
                change = grid / before
                most, spread = float(change.max()) * _UP, float(np.ptp(change))
                steady = spread <= max(_STEADY * (1 - most), _ENOUGH * size / max(left - taken, 1), _EQUAL)
                factor = most if count == size and steady else math.inf
        yield taken, _apart(_Free(*together(taken)), grid, diameter)


def _varied(steps: Steps, diameter: float) -> Iterator[tuple[int, Apart]]:
    taken, free, grid = 0, _Free(1.0, 0.0, 0.0), np.ones(_CELLS + 1)
    exact: set[tuple[float, float, float]] = set()
    for count, *block in _blocks(steps, diameter**2 / _FINE if math.isfinite(diameter) else 0.0):
        taken += count
        free = free.after(*block)
        if math.isfinite(diameter):
            scaled = _scaled(block, diameter)
            if len(exact) < _OPERATORS:
                exact.add(scaled)
            grid = _moved(grid, *(scaled if scaled in exact else _rounded(*scaled)))
        yield taken, _apart(free, grid, diameter)


def _room(count: int) -> float:
    """What rounding may do to so many steps as one: c itself is rounded, its powers and sums of logarithms the more."""
    return _UP + _POWER * count


def _scaled(block: Sequence[float], diameter: float) -> tuple[float, float, float]:
    contraction, extra, variance = block
    return contraction, extra / diameter, variance / diameter**2


def _moved(grid: Array, contraction: float, extra: float, variance: float) -> Array:
    return np.minimum(_operator(contraction, extra, variance)(grid), 1.0)


def _apart(free: _Free, grid: Array, diameter: float) -> Apart:
    def probability(distance: float) -> float:
        if math.isinf(diameter):
            return free(distance)
        place = min(distance / diameter, 1.0) * _CELLS
        cell = min(int(place), _CELLS - 1)
        low, high = float(grid[cell]), float(grid[cell + 1])
        return min(free(min(distance, diameter)), (low + (high - low) * (place - cell)) * _UP)

    return probability


@dataclass(frozen=True)
class _Free:
    """All steps looked at, as one step of the walk: contraction, extra distance and variance at the end."""

    contraction: float
    extra: float
    variance: float

    def after(self, contraction: float, extra: float, variance: float) -> _Free:
        """The same after one block more, which comes before them."""
        c = self.contraction
        return _Free(c * contraction, self.extra + c * extra, self.variance + c * c * variance)

    def __call__(self, distance: float) -> float:
        reach = (self.contraction * distance + self.extra) * _UP
        if not (reach < math.inf and self.variance < math.inf):
            return 1.0  # Distances have left double precision.
        return min(math.erf(reach / (math.sqrt(8) * math.sqrt(self.variance))) * _UP, 1.0)


def _blocks(steps: Steps, enough: float) -> Iterator[tuple[int, float, float, float]]:
    """From the last steps to the first: number of steps, contraction, extra distance and variance of the block as one step."""
    with np.errstate(divide="ignore"):
        logs = np.maximum(np.log(steps.contraction), -700.0)
    last, total = steps.contraction.size, np.append(0.0, np.cumsum(steps.variance))
    grown = np.append(0.0, np.cumsum(np.maximum(logs, 0.0)))
    while last:
        first = int(np.searchsorted(total, total[last] - enough, side="right")) - 1
        first = min(max(first, 0, int(np.searchsorted(grown, grown[last] - _LARGE))), last - 1)
        after = np.append(sums_from(logs[first + 1 : last]), 0.0)
        later, count = np.exp(after), last - first
        up = _room(count)
        yield (
            count,
            float(np.exp(logs[first] + after[0])) * up,
            float(later @ steps.extra[first:last]) * up,
            float(later**2 @ steps.variance[first:last]) / up,
        )
        last = first


def geometric_sum(base: float, count: int) -> float:
    """``1 + base + ... + base^(count - 1)``."""
    return count if base == 1 else math.expm1(count * math.log(max(base, 1e-300))) / (base - 1)


def _rounded(contraction: float, extra: float, variance: float) -> tuple[float, float, float]:
    """Contraction and extra distance moved up, variance moved down, to one of few values."""

    def moved(value: float, up: bool) -> float:
        place = math.log(value) * _LEVELS
        return math.exp((math.ceil(place) if up else math.floor(place)) / _LEVELS)

    less = 1 - contraction
    if less:
        contraction = 1 - moved(less, up=False) if less > 1e-12 else 1 + moved(max(-less, 1e-12), up=True)
    return contraction, moved(extra, up=True) if extra else 0.0, moved(variance, up=False)


@lru_cache(maxsize=2 * _OPERATORS)
def _operator(contraction: float, extra: float, variance: float) -> Callable[[Array], Array]:
    """One block, of a set of diameter 1: from bounds at the points 0 (the limit from above), 1/N, ..., 1 after it to those before.

    Between the points a bound is linear, beyond 1 it is constant. Its odd continuation is a sum of ``J_k clip(x, -r_k, r_k)`` and
    of ``J_0 sign(x)``, whose means are known. The result is not linear between the points: half of its largest second derivative
    times ``h^2 / 4`` is added.
    """
    deviation, width, room = 2 * math.sqrt(variance), 1 / _CELLS, _ROUNDING * max(contraction + extra, 1.0)
    if not room < 1:
        return np.ones_like
    points = np.arange(_CELLS + 1) * width
    start = (contraction * points + extra)[:, None]
    knots = points[1:]

    def bowl(x: Array) -> Array:
        """The mean of ``|x + deviation N| / 2``, less that at 0: no digits are lost where the deviation is large."""
        u = x / deviation
        return deviation * _DENSITY * np.expm1(-u * u / 2) + x * erf(u / math.sqrt(2)) / 2

    kept = bowl(start + knots) - bowl(start - knots)
    met = erf(start[:, 0] / deviation / math.sqrt(2))
    # The second derivative within a cell on either side of a point.
    near = np.maximum(np.abs(start - knots) - contraction * width, 0.0) / deviation
    bend = (contraction * width) ** 2 / 8 * _DENSITY * np.exp(-(near**2) / 2) / deviation
    bend_met = (contraction * width) ** 2 / 8 * 2 * _STEEPEST / deviation**2

    def apply(bound: Array) -> Array:
        jumps = bound[1:] - bound[:-1]
        jumps[:-1] -= jumps[1:]
        jumps /= width
        size = np.abs(jumps)
        mean = kept @ jumps + met * bound[0]
        return (mean + bend @ size + bend_met * bound[0]) * _UP + room * bound.max()

    return apply
