"""About epsilon of many epochs of random allocation: to search with, never to certify with.

S is the mean of independent log-normal variables and 1s (``random_allocation.py``). For t < n

    ``E S^t = 1/Gamma(n - t) integral_0^inf s^(n-t-1) E[S^n exp(-s S)] ds``,

and ``E[S^n exp(-s S)]`` is found from ``E[X^k exp(-s X)]``, k <= n, of single variables by sums of positive numbers. On a grid of
log s that serves all t at once, complex ones, too: the profile is a contour integral of E S^t to the power of the epochs.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

import numpy as np
from scipy.special import digamma, gammaln, loggamma, polygamma

from dplateau.accounting.contour import log_saddle_delta, saddle_delta, saddle_epsilon
from dplateau.accounting.fourier_sums import repeated
from dplateau.accounting.gaussian import Array
from dplateau.accounting.privacy_loss import TooSlowError
from dplateau.accounting.replaced_epoch import Parts

_ORDER: Final = 6
"""n."""
_FURTHEST: Final = _ORDER - 2.0
"""The largest tilt: t <= n - 1."""
_STEP_S, _STEP_G, _REACH = 0.15, 0.1, 9.0
"""Steps of log s and of a normal number, and how far the latter goes beyond its mean."""
_SIDE: Final = 36.0
"""Log of how far s goes beyond one over the largest S; what is left out is smaller by as much."""
_NODES, _DEVIATIONS = 160, 8.5
"""Nodes of the contour, and how far it goes, in units of one over the standard deviation of the loss."""
_FASTEST: Final = 12.0
"""The largest frequency: beyond it, round-off counts."""
_LEFT: Final = 1e-8
"""What the contour leaves out at its end, as a share of its beginning."""
_TURNS: Final = 12
"""Most steps of Newton's."""
_LARGE: Final = 700.0
"""Beyond this exp overflows."""
_LITTLE: Final = 0.25
"""Epochs whose losses vary by about so little need a contour that is too long."""
_FACTORIALS: Final = np.array([[math.factorial(k)] for k in range(_ORDER + 1)], dtype=float)


def _times(one: Array, other: Array) -> Array:
    """The product of two power series, shape (n + 1, s)."""
    found = one[0] * other
    for k in range(1, _ORDER + 1):
        found[k:] += one[k] * other[:-k]
    return found


def _spread(parts: Parts, batches: int) -> float:
    """About the variance of an epoch's loss: ``log E S^2``."""
    return math.log1p(sum(count * math.expm1(min(mu**2, _LARGE)) for mu, count in parts) / batches**2)


class _Mean:
    """The moments of S, by a grid of log s and the logs of the weights there."""

    def __init__(self, parts: Parts, batches: int) -> None:
        largest, powers = max(mu for mu, _ in parts), np.arange(_ORDER + 1)[:, None]
        if (top := largest * (_REACH + _ORDER * largest)) > _LARGE / _ORDER:
            raise TooSlowError
        self.log_s = np.arange(-_SIDE - top, _SIDE + _REACH * largest, _STEP_S)
        s, rest = np.exp(self.log_s), 1 - sum(count for _, count in parts) / batches
        total = rest**powers * np.exp(-s * rest) / _FACTORIALS
        for mu, count in parts:
            g = np.arange(-_REACH, _REACH + _ORDER * mu, _STEP_G)
            x, mass = np.exp(mu * g - mu**2 / 2) / batches, _STEP_G / math.sqrt(2 * math.pi) * np.exp(-(g**2) / 2)
            # Not by inner products: they wait for threads where a machine is busy.
            one = np.einsum("kg,gs->ks", mass * x**powers / _FACTORIALS, np.exp(-np.outer(x, s)))
            total = _times(total, repeated(one, count, _times))
        self.log_weight = np.log(total[-1]) + math.log(_STEP_S * math.factorial(_ORDER))

    def cumulants(self, c: float) -> Array:
        """``log E S^(1 + c)`` and its first two derivatives."""
        a = _ORDER - 1 - c
        if not a >= 1:
            raise TooSlowError
        exponent = self.log_weight + a * self.log_s
        weight = np.exp(exponent - exponent.max())
        mass = weight.sum()
        mean = float(weight @ self.log_s) / mass
        spread = float(weight @ (self.log_s - mean) ** 2) / mass
        return np.array([exponent.max() + math.log(mass) - gammaln(a), digamma(a) - mean, spread - polygamma(1, a)])

    def log_moments(self, c: float, omega: Array) -> Array:
        """``log E S^(1 + c + i omega)``, up to whole turns."""
        a = _ORDER - 1 - c
        exponent = self.log_weight + a * self.log_s
        turned = (np.exp(-1j * np.outer(omega, self.log_s)) * np.exp(exponent - exponent.max())).sum(axis=1)
        return exponent.max() + np.log(turned) - loggamma(a - 1j * omega)


@lru_cache(maxsize=32)
@np.errstate(all="ignore")
def rough_mellin_epsilon(epochs: tuple[tuple[Parts, int], ...], batches: int, delta: float) -> float:
    """About epsilon at ``delta``, of a record more against without it.

    Parameters
    ----------
    epochs : tuple of (tuple of (float, int), int)
        The 1/z of an epoch's batches with the number of batches that have it, and how many epochs are like it.
    batches : int
        Of a whole epoch.

    Raises
    ------
    TooSlowError
        The loss of all epochs varies too little, or too much is decided by a few large values of S.
    """
    if math.fsum(count * _spread(parts, batches) for parts, count in epochs) < _LITTLE:
        raise TooSlowError  # It would be seen below, too.
    means, target = [(_Mean(parts, batches), count) for parts, count in epochs], math.log(delta)

    def axis(c: float) -> tuple[float, float, float]:
        k, slope, curvature = np.sum([count * mean.cumulants(c) for mean, count in means], axis=0).tolist()
        return k, slope, curvature

    if not log_saddle_delta(_FURTHEST, *axis(_FURTHEST)) < target:
        raise TooSlowError
    c = saddle_delta(axis, target)
    k, slope, curvature = axis(c)
    # A few large losses make the tilted loss vary more than most of it does.
    if not (furthest := _DEVIATIONS / math.sqrt(min(curvature, axis(0.0)[2]))) < _FASTEST:
        raise TooSlowError
    omega = np.linspace(0.0, furthest, _NODES)
    z = c + 1j * omega
    height = np.exp(np.sum([count * mean.log_moments(c, omega) for mean, count in means], axis=0) - k) / (z * (1 + z))
    if not abs(height[-1]) < _LEFT * abs(height[0]):
        raise TooSlowError
    height[0] /= 2
    epsilon = saddle_epsilon(c, slope)
    for _ in range(_TURNS):
        turned = height * np.exp(-1j * omega * epsilon)
        delta_there, fall = turned.sum().real, (z * turned).sum().real
        missed = k - c * epsilon + math.log(omega[1] / math.pi * delta_there) - target
        epsilon += missed * delta_there / fall
        if abs(missed) < _LEFT:
            return epsilon
    raise TooSlowError
