"""The privacy loss of one epoch in which every record is in one batch, drawn at random.

Of l batches with the noise z_1, ..., z_l the record's is uniform. Against its absence, whatever is computed from batch to batch,
the epoch is dominated by the mixture of the l laws ``N(e_j, diag(z^2))`` against ``N(0, diag(z^2))``. Under the second one the
ratio is

    ``S = (X_1 + ... + X_l) / l``,  ``X_j = exp(g_j / z_j - 1 / (2 z_j^2))``,  g_j ~ N(0, 1) independent,

and both profiles are expectations of convex functions of S: ``E (S - e^epsilon)_+`` and ``E (1 - e^epsilon S)_+``. So laws of S
above and below it in the convex order (``log_normal_sums.py``) enclose them. An epoch that ends after r of its batches has
``S = ((l - r) + X_1 + ... + X_r) / l``. Proof: ``docs/proofs/random-allocation.md``.
"""

from __future__ import annotations

import math
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

import numpy as np

from dplateau.accounting.allocated_epochs import Epochs, spread
from dplateau.accounting.convex_order import FINE, excess_at
from dplateau.accounting.epoch_moments import POWERS, small_moments, whole_moments
from dplateau.accounting.fourier_sums import log_normal_sum
from dplateau.accounting.gaussian import ULP, Array, symmetric_log_delta
from dplateau.accounting.log_normal_sums import sum_of_log_normals
from dplateau.accounting.nodes import Nodes
from dplateau.accounting.privacy_loss import StepLaw, TooSlowError
from dplateau.accounting.replaced_epoch import MOST, Parts, gaussian_part, replaced, replaced_below, told_apart, used
from dplateau.accounting.terms import Composition, Repeated
from dplateau.spec import Run
from dplateau.spec.schedule import constant, is_constant
from dplateau.spec.steps import on_grid

ABOUT: Final = math.inf
"""In place of how fine lattices are: the law of S by Fourier transforms, about and faster, for searches."""
_LEVELS: Final = (48, 24, 12, 8, 4)
"""To how many noise levels a run's are rounded, the first that makes few enough laws."""
ALLOCATED: Final = 2e-5
"""Aim for the width of an enclosure of epsilon, as a share of it from 1/4 on: the laws of S have a width of this order."""
_PLENTY, _CUT = 200, 12
"""Beside so many whole epochs one that is cut short has so many points under replacement."""
_NEVER: Final = 1e-200
"""A smaller variance of the loss of all epochs is this one."""
_LAWS: Final = 40
"""Greatest number of pairs of a noise level and an epoch that has it, equal epochs counted once."""


class _Ratio(NamedTuple):
    """S under Q, rounded one way: its values x in ascending order, and at each of them, shape (k,), ``E (S - x)_+``,
    ``E (x - S)_+``, the mass from there on, and the mass up to there, of Q and of P.

    ``mass`` is that at each value, ``zero`` that at 0, ``infinite`` the mean at infinity, ``error`` bounds the relative errors.
    """

    x: Array
    mass: Array
    above: Array
    below: Array
    right: Array
    left: Array
    left_p: Array
    zero: float
    infinite: float
    error: float


@lru_cache(maxsize=64)
def _ratio(parts: Parts, batches: int, fine: float, *, safe: bool) -> _Ratio:
    constant = batches - used(parts)
    if fine == ABOUT:
        (value, mass), zero, infinite, error = log_normal_sum(parts, constant), 0.0, 0.0, 0.0
    else:
        law = sum_of_log_normals(parts, constant, above=safe, fine=fine)
        (value, mass), zero, infinite, error = law.table(), law.zero, law.infinite / batches, law.error
    x = value / batches
    (right, above), left = excess_at(x, mass, infinite), zero + np.cumsum(mass)
    below = zero * x[0] + np.append(0.0, np.cumsum(np.diff(x) * left[:-1]))
    return _Ratio(x, mass, above, below, right, left, np.cumsum(mass * x), zero, infinite, error)


@dataclass(frozen=True)
class _Allocated(StepLaw):
    """What both directions share.

    ``q`` is one over the number of batches, ``mu`` the largest of the ``parts``, which are pairs of 1/z and the number of batches
    with it. ``safe`` says whether the law dominates the epoch, or is dominated by it, and ``fine`` how fine the lattices of S are.
    """

    on_points = True
    parts: Parts = ()
    batches: int = 1
    safe: bool = True
    fine: float = FINE

    @property
    def _room(self) -> float:
        """Relative room for the masses' errors."""
        return (self._ratio.error + 16 * ULP * self._ratio.x.size) * (1 if self.safe else -1)

    @cached_property
    def _ratio(self) -> _Ratio:
        return _ratio(self.parts, self.batches, self.fine, safe=self.safe)

    def nodes(self, c: float, omega: float, log_tolerance: float) -> Nodes:
        """A law on points has no contour: its transform does not fall."""
        raise TooSlowError

    def log_overflowing(self, c: float, log_tolerance: float) -> float:
        """Nothing is known of its moments but what ``log_moment`` says."""
        raise TooSlowError

    def decay(self, c: float, omega: float, spread: float = 0.0) -> float:
        return 0.0

    def _log_above(self, log_y: Array) -> Array:
        """``log E (S - y)_+``."""
        s, y, j = self._at(log_y)
        inside = j < s.x.size
        k = np.minimum(j, s.x.size - 1)
        value = np.where(inside, s.above[k] + np.maximum(s.x[k] - y, 0.0) * s.right[k], s.infinite)
        return self._log(value, 4 * ULP * y * np.where(inside, s.right[k], 0.0))

    def _log_below(self, log_y: Array) -> Array:
        """``log E (y - S)_+``."""
        s, y, j = self._at(log_y)
        k = np.maximum(j - 1, 0)
        value = np.where(j > 0, s.below[k] + np.maximum(y - s.x[k], 0.0) * s.left[k], s.zero * y)
        return self._log(value, 4 * ULP * y * np.where(j > 0, s.left[k], 0.0))

    def _at(self, log_y: Array) -> tuple[_Ratio, Array, Array]:
        """S, y, and how many values lie below y."""
        with np.errstate(over="ignore"):
            y = np.exp(np.asarray(log_y, dtype=float))
        return self._ratio, y, np.searchsorted(self._ratio.x, y)

    def _log(self, value: Array, rounding: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(value + math.copysign(1.0, self._room) * rounding, 0.0)) + self._room

    def _safe(self, epsilon: Array) -> Array:
        """Values that are rounded down are good to a relative error too, which is that of a larger epsilon."""
        return np.asarray(epsilon, dtype=float) + (0.0 if self.safe else -2 * self._room)

    def _log_power(self, power: float) -> float:
        """``log E S^power`` under Q for a power > 1 or < 0, rounded up.

        Up to an end of S's values, S^power is below a convex function that goes on as its tangent there. What is beyond the end is
        rare: ``E S^power 1(S beyond) <= (E S^t)^(power/t) P(S beyond)^(1 - power/t)`` for t further than power (Hoelder).
        """
        s, up = self._ratio, power > 0
        if up:
            most = next((most for most in POWERS if power <= most), POWERS[-1])
            log_moment = whole_moments(self.parts, self.batches, most)[1:]
            further = np.arange(1.0, log_moment.size + 1)
        else:
            further = power * np.geomspace(1.05, 100.0, 60)
            log_moment = small_moments(self.parts, self.batches, further)
        end, next_to = (s.x[-1], s.x[-2]) if up else (s.x[0], s.x[1])
        with np.errstate(all="ignore"):
            # The tangent counts for the mean at infinity, or for the mass at 0. Markov's inequality says how rare the rest is.
            left_out = float(np.log(s.infinite * power / end if up else s.zero * (1 - power)))
            rare = s.mass[-1] + s.infinite / (end - next_to) if up else s.mass[0] + s.zero * next_to / (next_to - end)
            share = power / further
            beyond = np.where(share < 1, share * log_moment + (1 - share) * np.log(rare), math.inf)
            rest = float(beyond.min()) if 0 < rare < 1 else math.inf
            terms = np.append(np.log(s.mass) + power * np.log(s.x), [left_out + power * math.log(end), rest])
            top = float(terms.max())
            found = top + math.log(float(np.exp(terms - top).sum())) + self._room + 8 * ULP * (np.abs(terms).max() + terms.size)
        # log E S^t is convex in t: below its chords.
        chord = float(np.interp(power, further, log_moment, right=math.inf)) if up else math.inf
        whole = (power * (power - 1) + 4 * ULP * abs(power)) * self.mu**2 / 2  # the power is rounded itself
        known = [one for one in (found, chord, whole) if math.isfinite(one)]
        return float(min(known)) * (1 + 1e-14)


class AllocationRemove(_Allocated):
    """P is the mixture (the data set with the record), Q is N(0, 1)."""

    def log_moment(self, c: float) -> float | None:
        return self._log_power(1 + c) if self.safe else None

    def log_delta(self, epsilon: Array) -> Array:
        return self._log_above(self._safe(epsilon))

    def log_above(self, epsilon: Array) -> Array:
        s, _, j = self._at(epsilon)
        with np.errstate(divide="ignore"):
            return np.log(np.append(s.right, 0.0)[j])

    @property
    def reverse(self) -> StepLaw:
        return AllocationAdd(self.q, self.mu, 0.0, self.parts, self.batches, self.safe, self.fine)

    @property
    def greatest(self) -> float:
        with suppress(ArithmeticError):
            return math.inf if self._ratio.infinite else math.log(self._ratio.x[-1])
        return math.inf


class AllocationAdd(_Allocated):
    """P is N(0, 1) (the data set without the record), Q is the mixture."""

    def log_moment(self, c: float) -> float | None:
        return self._log_power(-c) if self.safe else None

    def log_delta(self, epsilon: Array) -> Array:
        epsilon = self._safe(epsilon)
        return epsilon + self._log_below(-epsilon)

    def log_above(self, epsilon: Array) -> Array:
        s, _, j = self._at(-np.asarray(epsilon, dtype=float))
        with np.errstate(divide="ignore"):
            return np.log(np.append(0.0, s.left_p)[j])

    @property
    def reverse(self) -> StepLaw:
        return AllocationRemove(self.q, self.mu, 0.0, self.parts, self.batches, self.safe, self.fine)

    @property
    def greatest(self) -> float:
        with suppress(ArithmeticError):
            return math.inf if self._ratio.zero else -math.log(self._ratio.x[0])
        return math.inf


@dataclass(frozen=True)
class AllocationReplace(_Allocated):
    """P is the mixture with centres e_j, Q the one with their opposites; symmetric. Delta is that of chords, above or below.

    ``points`` says how many if the epoch is cut short.
    """

    turns = 2
    points: int = MOST

    @property
    def _table(self) -> tuple[Array, Array]:
        return (replaced if self.safe else replaced_below)(self.parts, self.batches, self.points)

    def _chord(self, size: Array) -> tuple[Array, Array]:
        """Delta at ``size`` >= 0, and minus its slope in exp(epsilon)."""
        epsilon, log_delta = self._table
        y, delta = np.exp(epsilon), np.exp(log_delta)
        j = np.searchsorted(epsilon, size, side="right") - 1
        k = np.minimum(j, epsilon.size - 2)
        slope = (delta[k] - delta[k + 1]) / (y[k + 1] - y[k])
        # From the smaller end: a difference to the larger one may lose all digits.
        share = np.expm1(size - epsilon[k + 1]) / np.expm1(epsilon[k] - epsilon[k + 1])
        beyond = j > k
        return np.where(beyond, delta[-1], delta[k + 1] + share * (delta[k] - delta[k + 1])), np.where(beyond, 0.0, slope)

    def log_delta(self, epsilon: Array) -> Array:
        epsilon = np.asarray(epsilon, dtype=float)
        with np.errstate(divide="ignore"):
            return symmetric_log_delta(epsilon, np.log(self._chord(np.abs(epsilon))[0]) + self._room)

    def log_above(self, epsilon: Array) -> Array:
        # By symmetry Q(L > -e) = 1 - P(L >= e), and P(L >= e) is delta + exp(e) Q(L >= e).
        epsilon = np.asarray(epsilon, dtype=float)
        delta, slope = self._chord(np.abs(epsilon))
        with np.errstate(divide="ignore"):
            return np.log(np.where(epsilon >= 0, slope, 1 - delta - np.exp(np.abs(epsilon)) * slope))

    @property
    def _room(self) -> float:
        return 1e-12 if self.safe else -1e-12

    @property
    def reverse(self) -> StepLaw:
        return self

    @property
    def unsampled(self) -> float:
        return told_apart(self.parts, self.batches)

    @property
    def farthest(self) -> float:
        return float(self._table[0][-1])


def allocations(run: Run, *, safe: bool, fine: float = FINE) -> tuple[Composition, ...]:
    """What the epochs of ``run`` compose to, in each direction.

    ``safe`` says whether the result dominates the run, or is dominated by it. A replacement dominates a presence, and the sums of
    its whole epochs' noisy gradients. Of many noise levels both are rounded to few. Coarser lattices than ``fine`` = 1/256 are for
    searches, and so is ``ABOUT``.
    """
    batches = run.sampling.epoch_length(run.n)
    terms, replacing = _epochs(run, batches, safe=safe), run.adjacency == "replace"
    whole = [(parts, count) for parts, count in terms if used(parts) == batches]
    deviation = math.sqrt(max(sum(count * spread(parts, batches) for parts, count in terms), _NEVER))

    def composed(kind: type[_Allocated], **points: int) -> Composition:
        laws = [
            (kind(1 / batches, max(mu for mu, _ in parts), 0.0, parts, batches, safe, fine, **points), count)
            for parts, count in terms
        ]
        if fine == ABOUT or kind is AllocationReplace:
            return Composition(tuple(Repeated(law, count) for law, count in laws))
        present = kind is AllocationRemove
        return Composition(tuple(Epochs(law, count, law.parts, batches, present, deviation) for law, count in laws))

    plenty = sum(count for _, count in whole) >= _PLENTY
    replacement = (composed(AllocationReplace, points=_CUT if plenty else MOST),) if replacing else ()
    if replacing and safe:
        return replacement
    square = math.fsum(count * gaussian_part(parts) ** 2 for parts, count in whole)
    sums = (Composition((), math.sqrt(square)),) if replacing and square else ()
    return composed(AllocationRemove), composed(AllocationAdd), *sums, *replacement


def _epochs(run: Run, batches: int, *, safe: bool) -> list[tuple[Parts, int]]:
    """The epochs that differ: in each the 1/z of its batches, with the number of batches that have it, and how many are like it."""
    if is_constant(run.noise_multiplier):
        mu, (whole, rest) = 1 / constant(run.noise_multiplier), divmod(run.steps, batches)
        return [(((mu, count),), times) for count, times in ((batches, whole), (rest, 1)) if count and times]
    noise, starts = run.table.written().noise, np.arange(0, run.steps, batches)
    extreme = np.minimum if safe else np.maximum
    one_each = np.repeat(extreme.reduceat(noise, starts), np.diff(np.append(starts, run.steps)))
    found: Counter[Parts] = Counter()
    for values, levels in ((noise, None), *((values, levels) for values in (noise, one_each) for levels in _LEVELS)):
        rounded = values if levels is None else on_grid(values, levels, up=not safe)
        found = Counter(
            tuple((1 / z, count) for z, count in sorted(Counter(rounded[start : start + batches].tolist()).items()))
            for start in starts.tolist()
        )
        if sum(map(len, found)) <= _LAWS:
            break
    return list(found.items())
