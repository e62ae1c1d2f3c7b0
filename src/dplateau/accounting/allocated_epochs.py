"""Epochs of random allocation as a term of a composition: the transform of their losses, by moments of complex order."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Final

import numpy as np

from dplateau.accounting.epoch_moments import EpochMoments
from dplateau.accounting.gaussian import Array
from dplateau.accounting.privacy_loss import TooSlowError
from dplateau.accounting.replaced_epoch import Parts, used
from dplateau.accounting.terms import Cumulants, Repeated

_ORDERS: Final = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
_GAP, _END, _TURNED_BY = 8.0, 7.0, 45.0
"""n - t, at least; deviations at which a contour ends, and the square of a frequency there as a multiple of n - t: errors are
about e^(45/2) times there what they are on the real axis.
"""
_FIRST, _SMALLER, _LARGER = 1.5, 0.5 ** np.arange(5), np.array([1.3, 1.1])
"""The first grid reaches a c of so many inverse deviations, or less; further ones so much further than the one before."""
_GOOD: Final = 1e-4
"""Moments whose error may be larger are not used on the real axis."""
_LARGE: Final = 700.0


class Grids:
    """The moments of one kind of epoch, on grids that reach further and further. Which one serves c depends on c alone.

    ``deviation`` is about the standard deviation of the loss of all that is composed: contours end at a few times its inverse.
    """

    def __init__(self, parts: Parts, batches: int, deviation: float, *, present: bool) -> None:
        self.parts, self.batches, self.present = parts, batches, present
        self.least_gap = max(_GAP, (_END / deviation) ** 2 / _TURNED_BY)
        self.first = max(_FIRST / deviation, 1.0)
        self.chosen: list[EpochMoments] = []
        self.all_chosen = False

    def reaching(self, c: float) -> EpochMoments:
        """The first grid for the orders up to 1 + c, or down to -c."""
        while True:
            for grid in self.chosen:
                if 1 + c <= grid.highest:
                    return grid
            self._choose()

    def about(self, c: float) -> EpochMoments:
        """The first grid that knows them about."""
        grid = self.reaching(c)
        before = self.chosen.index(grid) - 1
        return self.chosen[before] if before >= 0 and 1 + c <= self.chosen[before].furthest else grid

    def _choose(self) -> None:
        """One more grid."""
        if not self.all_chosen:
            tried = self.first * _SMALLER if not self.chosen else (self.chosen[-1].highest - 1) * _LARGER
            for c in tried.tolist():
                with suppress(TooSlowError):
                    self.chosen.append(self._grid(c))
                    return
        self.all_chosen = True
        raise TooSlowError

    def _grid(self, c: float) -> EpochMoments:
        needed = self.least_gap + (1 + 1.5 * c if self.present else 0)
        n = next((n for n in _ORDERS if n >= needed), None)
        if n is None:
            raise TooSlowError
        most = min(1 + 3 * c, n - _GAP) if self.present else 1 + 3 * c
        return EpochMoments(self.parts, self.batches, n, 1 + c, most, present=self.present)


@lru_cache(maxsize=16)
def grids(parts: Parts, batches: int, deviation: float, *, present: bool) -> Grids:
    """The grids, kept."""
    return Grids(parts, batches, deviation, present=present)


def _variance(parts: Parts, batches: int) -> float:
    """That of S."""
    return sum(count * math.expm1(min(mu**2, _LARGE)) for mu, count in parts) / batches**2


def spread(parts: Parts, batches: int) -> float:
    """About the variance of an epoch's loss: ``log E S^2``."""
    return math.log1p(_variance(parts, batches))


@dataclass(frozen=True)
class Epochs(Repeated):
    """Equal epochs, ``count`` of them, in one direction: the record is ``present``, or absent. Their loss has a contour, though the
    law that stands for it on the lattice has none.
    """

    rounded: ClassVar[bool] = True
    parts: Parts
    batches: int
    present: bool
    deviation: float

    def _power(self, c: float) -> float:
        return 1 + c if self.present else -c

    @property
    def _grids(self) -> Grids:
        return grids(self.parts, self.batches, self.deviation, present=self.present)

    @property
    def on_points(self) -> bool:
        return not self._grids.least_gap < _ORDERS[-1]

    @property
    def greatest(self) -> float:
        some, rest = used(self.parts), self.batches - used(self.parts)
        if self.present or not rest:
            return math.inf
        # Without a difference: where next to no batch is used, or all but a few, that has few digits.
        return self.count * math.log1p(some / rest) * (1 + 1e-12)

    def variation(self) -> float:
        # E (S - 1)_+ is half of E |S - 1|, and no more than that of one batch.
        deviation, largest = math.sqrt(_variance(self.parts, self.batches)), max(mu for mu, _ in self.parts)
        return self.count * min(deviation / 2, math.erf(largest / math.sqrt(8.0))) * (1 + 1e-12)

    def cumulants(self, reach: float) -> Cumulants:
        sign = 1.0 if self.present else -1.0

        def at(c: Array) -> Array:
            # One grid serves all: what it does not know is infinite.
            grid, found = self._grids.about(float(c.min())), np.full((3, c.size), math.inf)
            for i, x in enumerate(c.ravel().tolist()):
                if 1 + x <= grid.furthest:
                    k, slope, curvature = grid.cumulants(self._power(x))
                    found[:, i] = self.count * k, sign * self.count * slope, self.count * curvature
            return found.reshape(3, *c.shape)

        return at

    @property
    def _fall(self) -> float:
        """Minus log of the transform's modulus falls with the square of the frequency at least so fast."""
        # Along the vector of the z_j all normal numbers move log S alike: a normal part of it, independent of the rest.
        whole, least = used(self.parts) == self.batches, min(mu for mu, _ in self.parts)
        fall = self.count * least**2 / (2 * sum(count * (least / mu) ** 2 for mu, count in self.parts))
        return fall * (1 - 1e-12) if whole else 0.0

    def log_tail(self, c: float, omega: float) -> float:
        return -self._fall * omega**2

    def log_transform(self, c: float, at: Array, log_tolerance: float) -> tuple[Array, Array]:
        found = self._grids.reaching(c).at(self._power(c), at if self.present else -at)
        if not found.error[0] < _GOOD:
            raise TooSlowError
        relative = self.count * np.log1p(found.error)
        log_size = self.count * np.real(found.log) + relative
        # Where the error is as large as the transform, all that counts is how large both can be together.
        size = np.fmin(log_size, log_size[0] - self._fall * at**2)
        unknown = ~(relative < 1.0)
        return np.where(unknown, size, self.count * found.log), np.where(unknown, math.log(3.0), relative)

    def bound(self, c: float, log_tolerance: float) -> float:
        value, error = self.log_transform(c, np.zeros(1), log_tolerance)
        return float(value[0].real) + float(error[0])

    def far_bound(self, c: float, log_tolerance: float) -> float:
        return super().bound(c, log_tolerance)
