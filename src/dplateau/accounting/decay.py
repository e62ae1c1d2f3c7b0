"""How far the modulus of a step's transform falls along the line of the contour, for ever: what truncation of the contour costs.

The transform ``m(c + i w)`` is an integral over the real line of a function that is analytic beside it, so the line may be bent.
On a path above it the factor ``exp(i w L)`` has the modulus ``exp(-w Im L)`` with ``Im L >= 0``: the integral of the modulus falls
with w, and its value at ``omega`` bounds ``|m(c + i w)|`` for every ``w >= omega``. The paths are logistic curves, so that the
modulus is itself an analytic function of the point on the line, and a trapezoid sum of it has an error known in closed form. Which
path is taken decides how good the bound is, not whether it holds. Proof: ``docs/proofs/contour.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from scipy.special import expit

from dplateau.accounting.gaussian import ULP, Array

LOG_TOLERANCE: Final = math.log(1e-20)
"""Of the nodes: below what is aimed at, since the integrand grows where the line is bent."""
_SLOPES: Final = (0.45, 0.9, 1.6)
_CAPS: Final = (0.4, 1.0)


class Factor(NamedTuple):
    """A power of ``1 - q + q exp(+-mu g + ...)`` in the integrand: log odds of the second part, the sign, whether it is in L."""

    exponent: float
    log_odds: Array
    sign: float = 1.0
    in_loss: bool = True

    def turned(self, mu: float, rise: Array | float, turn: Array, omega: float) -> tuple[Array, Array]:
        """Log of the growth of its modulus, times ``exp(-omega Im L)``, where g moves by ``rise + i turn``; and its size."""
        drawn = expit(self.log_odds)
        angle = mu * turn
        real = np.expm1(self.sign * mu * rise) * np.cos(angle) - 2 * np.sin(angle / 2) ** 2
        imaginary = np.exp(self.sign * mu * rise) * np.sin(angle)
        square = real**2 + imaginary**2
        modulus = self.exponent / 2 * np.log1p(drawn * (2 * real + drawn * square))
        size = abs(self.exponent) * drawn * (2 * np.abs(real) + drawn * square)
        if not self.in_loss:
            return modulus, size
        phase = omega * np.arctan2(drawn * imaginary, 1 + drawn * real)
        return modulus - phase, size + phase


class Paths(NamedTuple):
    """Candidates, one a row: they rise up to ``height``, ``lead`` earlier (in log odds) than the posterior does."""

    height: Array
    lead: Array

    @classmethod
    def of(cls, slope: float, largest: float) -> Paths:
        """Paths that start out as ``slope`` times the posterior, or a part of it."""
        found = {(min(cap * largest, part * slope), part * slope) for part in _SLOPES for cap in _CAPS}
        height, start = np.array(sorted(found)).T[:, :, None]
        return cls(height, np.log(start / height))

    def __call__(self, log_odds: Array) -> tuple[Array, Array]:
        """Heights at these log odds, and their derivatives."""
        part = expit(log_odds + self.lead)
        return self.height * part, self.height * part * (1 - part)


def log_grown(powers: Sequence[float], angle: Array, q: float, back: Array | float = 0.0) -> Array:
    """Log of a bound on the growth of the integral of the modulus, where no factor is turned by more than ``angle`` below pi.

    Positive powers do not grow. ``|A|`` is at least ``cos(angle/2)`` times what it is on the line, and at least 1 - q up to pi/2.
    ``back`` is an angle whose half has a cosine that A is at least, where the path goes back beyond the end of a half-line.
    """
    negative = -sum(power for power in powers if power < 0)
    turned = -negative * (np.log(np.cos(angle / 2)) + np.log(np.cos(back / 2)))
    return np.where(angle <= math.pi / 2, np.minimum(turned, -negative * math.log1p(-q)), turned)


@dataclass(frozen=True)
class Turned:
    """A part of the integrand: its mass on the nodes, how many roundings that has, and the log of its growth, one row a path."""

    mass: Array
    rounding: Array
    growth: Array
    size: Array

    def gain(self) -> Array:
        """The sum of the modulus less that on the line, rounded up."""
        with np.errstate(over="ignore"):
            grown = np.expm1(np.minimum(self.growth, 600.0))
        # The growth is good to some roundings of the sizes of what it adds up, which include those of log odds of some hundreds.
        off = 1000 * self.size * (1 + np.abs(grown)) + (self.mass.size + self.rounding) * np.abs(grown)
        return grown @ self.mass + ULP * (off @ self.mass)


def lost(parts: Sequence[Turned], mass: float, log_error: Array) -> float:
    """A lower bound on ``1 - |m(c + i w)/m(c)|`` by the best path; 0 where none shows anything.

    Parameters
    ----------
    parts : sequence of Turned
        The integrand.
    mass : float
        m(c), rounded up.
    log_error : ndarray, shape (paths,)
        Log of a bound on the error of each path's sum relative to m(c).
    """
    gain = np.sum([part.gain() for part in parts], axis=0) / mass
    best = -gain - np.exp(np.minimum(log_error, 600.0))
    return min(float(np.nanmax(best, initial=0.0)), 1 - 1e-9)
