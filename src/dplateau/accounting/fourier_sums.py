"""About the law of a sum of log-normal variables, by Fourier transforms: to search with, never to certify with.

Each variable is moved to a lattice, which keeps its mean and variance. The right half of the sum's law is read from variables that
are tilted to the right, the left half from variables tilted to the left: so round-off is small beside the masses of both tails.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from operator import mul
from typing import Final

import numpy as np
from scipy.special import log_ndtr, ndtr

from dplateau.accounting.gaussian import Array
from dplateau.accounting.privacy_loss import TooSlowError

_SPACING: Final = 0.5
"""Greatest spacing of the lattice, in standard deviations of a variable."""
_MANY: Final = 400
"""Of fewer variables the lattice is finer: it is to suit the sum."""
_LONGEST: Final = 1 << 13
"""Most points for each doubling of a variable: of more, lattices of several spacings are faster."""
_CELL, _LOW, _HIGH = 0.01, 9.0, 6.5
"""Normal numbers that stand for all: their distance, and how far they go, beyond the tilted mean at the upper end."""
_SIDE: Final = 11.0
"""So many standard deviations of the sum lie on the lattice, beside the greatest variable."""
_TILT, _MOST = 5.0, 10.0
"""Standard deviations by which a sum is tilted, and the greatest exponent beside its mean."""


def repeated(one: Array, count: int, times: Callable[[Array, Array], Array]) -> Array:
    """The product of ``count`` >= 1 copies by squares: of complex numbers faster than by logarithms."""
    if count == 1:
        return one
    even = repeated(times(one, one), count // 2, times)
    return times(even, one) if count % 2 else even


def _furthest(mu: float) -> float:
    """The mean of a variable that lies beyond the grid."""
    return math.exp(min(float(log_ndtr(-_HIGH) - log_ndtr(-_HIGH - mu)), 700.0))


def _on_lattice(mu: float, spacing: float) -> Array:
    """Masses of ``exp(mu g - mu^2/2)``, g ~ N(0, 1), at -1, 0, 1, ... times the spacing."""
    g = np.arange(_HIGH + mu - _CELL / 2, -_LOW, -_CELL)[::-1]
    x = np.append(np.exp(mu * g - mu**2 / 2), _furthest(mu)) / spacing
    mass = np.append(_CELL / math.sqrt(2 * math.pi) * np.exp(-(g**2) / 2), ndtr(-_HIGH - mu))
    at = np.rint(x)
    off, place = x - at, at.astype(np.int64)
    shares = off * (off - 1) / 2, 1 - off**2, off * (off + 1) / 2
    found = sum(np.bincount(place + i, mass * share, place[-1] + 3) for i, share in enumerate(shares))
    return np.asarray(found) / mass.sum()


def log_normal_sum(parts: tuple[tuple[float, int], ...], constant: int) -> tuple[Array, Array]:
    """About the law of ``constant`` plus, for each (mu, count), so many independent ``exp(mu g - mu^2/2)``, g ~ N(0, 1).

    Returns
    -------
    tuple of ndarray
        Its values in ascending order and their masses, shape (k,).

    Raises
    ------
    TooSlowError
        The largest values are so far away that the lattice would be long.
    """
    count, largest = sum(many for _, many in parts), max(mu for mu, _ in parts)
    deviation = math.sqrt(sum(many * math.expm1(min(mu**2, 700.0)) for mu, many in parts))
    spacing = _SPACING * deviation / math.sqrt(max(count, _MANY))
    greatest = _furthest(largest)
    start = math.floor(max(count - _SIDE * deviation, 0.0) / spacing)
    points = (count + _SIDE * deviation + greatest) / spacing - start
    if points > _LONGEST * count.bit_length():
        raise TooSlowError
    size = 1 << math.ceil(math.log2(points))
    laws = [(_on_lattice(mu, spacing), many) for mu, many in parts]
    place = start + np.arange(size)
    middle = int(np.searchsorted(place, count / spacing))

    def half(tilt: float, here: slice) -> Array:
        log_total, transforms = 0.0, list[Array]()
        for law, many in laws:
            at = np.arange(-1, law.size - 1)
            tilted = law * np.exp(tilt * (at - 1 / spacing))
            log_total += many * math.log(tilted.sum())
            transform = np.fft.rfft(np.bincount(at % size, tilted / tilted.sum(), size))
            transforms.append(repeated(transform, many, mul))
        folded = np.fft.irfft(reduce(mul, transforms), size)
        return np.roll(folded, -(start % size))[here] * np.exp(log_total - tilt * (place[here] - count / spacing))

    left, right = (spacing * min(_TILT / deviation, _MOST / far) for far in (count, greatest))
    mass = np.concatenate([half(-left, slice(0, middle)), half(right, slice(middle, None))])
    seen = mass > 0
    return constant + spacing * place[seen], mass[seen]
