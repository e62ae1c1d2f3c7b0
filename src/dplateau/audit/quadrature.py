"""Laws on an interval as masses at quadrature nodes and two atoms, and the kernels that move them one step.

A law after a step with Gaussian noise has an analytic density between the walls, so composite Gauss-Legendre sums converge
exponentially in the nodes per standard deviation; what the projection moves to a wall is a Gaussian tail, known in closed form.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dplateau.audit.chain import Chain, Mixture, Step

Array: TypeAlias = NDArray[Any]

ORDER: Final = 20
_UNIT, _WEIGHT = np.polynomial.legendre.leggauss(ORDER)
_ROOT_2PI: Final = math.sqrt(2 * math.pi)
_BLOCK: Final = 1 << 20
"""Entries of a kernel that are computed at a time."""


@dataclass(frozen=True)
class Grid:
    """Nodes and weights between two ends; an end that is a wall carries an atom, and mass beyond one that is none is dropped."""

    nodes: Array
    weights: Array
    ends: tuple[float, float]
    walls: tuple[bool, bool]

    @property
    def positions(self) -> Array:
        """Where mass sits: the nodes, then the lower and the upper end."""
        return np.concatenate([self.nodes, self.ends])


def grid(ends: tuple[float, float], walls: tuple[bool, bool], panels: int) -> Grid:
    """Gauss-Legendre nodes in equal panels."""
    edges = np.linspace(*ends, panels + 1)
    half = (edges[1] - edges[0]) / 2
    nodes = ((edges[:-1] + half)[:, None] + half * _UNIT).ravel()
    return Grid(nodes, np.tile(half * _WEIGHT, panels), ends, walls)


def window(chains: Iterable[Chain], start: float, half: float, reach: float) -> tuple[float, float]:
    """An interval that the iterates leave with a probability of at most about ``steps * exp(-reach^2 / 2)``.

    Given the maps and the last visit to a wall, the iterate is Gaussian around a path between ``low`` and ``high``, with at most
    the accumulated variance.
    """
    least, most = start, start
    for chain in chains:
        facts = [_extremes(step) for step in chain.steps]
        low = high = start
        variance = 0.0
        for index in chain.order.tolist():
            slopes, shifts, deviation = facts[index]
            ends = [slope * x + shift for slope, shift in zip(slopes, shifts, strict=True) for x in (low, high)]
            low, high = (min(max(x, -half), half) for x in (min(ends), max(ends)))
            variance = max(slope * slope for slope in slopes) * variance + deviation**2
            room = reach * math.sqrt(variance)
            least, most = min(least, low - room), max(most, high + room)
            if least <= -half and most >= half:
                return -half, half
    return max(least, -half), min(most, half)


def _extremes(step: Step) -> tuple[list[float], list[float], float]:
    """Slopes and shifts that bound all maps of a step: every corner of their ranges."""
    maps = step.maps + step.recorded
    slopes, shifts = [m.slope for m in maps], [m.shift for m in maps]
    corners = [(slope, shift) for slope in {min(slopes), max(slopes)} for shift in {min(shifts), max(shifts)}]
    return [c[0] for c in corners], [c[1] for c in corners], step.deviation


def densities(points: Array, sources: Array, masses: Array, deviation: float, maps: Mixture) -> Array:
    """The density at ``points`` of the step's result, from ``masses`` at ``sources``."""
    result = np.empty(len(points))
    block = max(_BLOCK // len(sources), 1)
    for first in range(0, len(points), block):
        result[first : first + block] = _gaussians(points[first : first + block], sources, deviation, maps) @ masses
    return result


def tails(ends: tuple[float, float], walls: tuple[bool, bool], sources: Array, deviation: float, maps: Mixture) -> Array:
    """Mass that the projection moves from each source to the two ends, shape ``(2, sources)``."""
    result = np.zeros((2, len(sources)))
    for weight, slope, shift in maps:
        centre = slope * sources + shift
        if walls[0]:
            result[0] += weight * ndtr((ends[0] - centre) / deviation)
        if walls[1]:
            result[1] += weight * ndtr((centre - ends[1]) / deviation)
    return result


def kernel(target: Grid, sources: Array, deviation: float, maps: Mixture) -> Array:
    """Masses on the grid, ends last, from a unit mass at each source: shape ``(nodes + 2, sources)``."""
    inner = _gaussians(target.nodes, sources, deviation, maps) * target.weights[:, None]
    return np.concatenate([inner, tails(target.ends, target.walls, sources, deviation, maps)])


def _gaussians(points: Array, sources: Array, deviation: float, maps: Mixture) -> Array:
    total = np.zeros((len(points), len(sources)))
    scaled = points[:, None] / (deviation * math.sqrt(2))
    for weight, slope, shift in maps:
        z = scaled - (slope * sources + shift) / (deviation * math.sqrt(2))
        np.multiply(z, z, out=z)
        np.negative(z, out=z)
        np.exp(z, out=z)
        z *= weight / (deviation * _ROOT_2PI)
        total += z
    return total
