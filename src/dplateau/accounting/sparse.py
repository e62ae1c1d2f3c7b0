"""delta(epsilon) of steps that almost always lose next to nothing, and now and then a lot: few expected draws, little noise.

The transform of such a loss does not decay, and a lattice that suits the large losses cannot tell the small ones from 0. Here the
loss of a step is *quiet* where it is less than a lattice step from a centre, and *loud* elsewhere.

- From above: the chords of ``dotted.py``, on a lattice that is moved so that most quiet losses lie at one of its points. It ends
  not far above epsilon; what is beyond its end is split between the end and infinity, with the masses of P and Q kept.
- From below: all quiet losses are merged into one, all losses beyond the end are merged into an event, all loud negative ones are
  merged and rounded down; the other loud ones have tangents of their own, which the quiet ones do not lower.

Proof: ``docs/proofs/lattice.md``, "Quiet and loud losses".
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from dplateau.accounting.amplified import Amplified
from dplateau.accounting.contour import WIDTH, log_saddle_delta, saddle, saddle_epsilon
from dplateau.accounting.dotted import Law, dots, steps_of
from dplateau.accounting.empty_place import EmptyOrPresent, PresentOrEmpty
from dplateau.accounting.enclosure import Enclosure
from dplateau.accounting.gaussian import ULP, Array
from dplateau.accounting.lattice import LEAST_LOG, MOST, SIZES, Convolution, Lattices, Tail, Tails, around, rough_lattice_epsilon
from dplateau.accounting.privacy_loss import PoissonAdd, PoissonRemove, PoissonReplace, StepLaw, TooSlowError
from dplateau.accounting.roots import isotonic
from dplateau.accounting.terms import Composition

_CLOSED: Final = 1e-11
"""Relative room for the closed forms of a step."""
_LAWS: Final = (PoissonRemove, PoissonAdd, PoissonReplace, Amplified, PresentOrEmpty, EmptyOrPresent)
_LEAST_MU: Final = 0.1
"""Of smaller shifts the closed forms lose digits."""
_FINEST: Final = 0.05
"""The least lattice step of the lower end, in units of the rate: below it most losses are loud, and it gains nothing."""
_BETTER: Final = 0.97
"""While the upper end falls by more than that, the lattice is made shorter and tried again."""
_ROUNDS: Final = 16
_HALVINGS: Final = 30
NARROW: Final = 1e-3
"""What is known within this share is not computed again by this slower method."""
RARE, _SELDOM = 1e-4, 1e-3
"""With smaller rates this method always has a word, with larger ones never: other lattices are narrow by themselves."""
_END: Final = 1.5
"""Where the lattice ends, in units of the upper end that is known."""
_MARGIN: Final = 1e-3
"""The quiet losses are rounded down by so much of a lattice step, all steps together."""


def _masses_above(law: StepLaw, x: float | Array) -> tuple[Array, Array]:
    """Those of P and Q of losses above x, each with all its digits."""
    q = np.exp(law.log_above(np.asarray(x)))
    return np.exp(law.log_delta(np.asarray(x))) + np.exp(x) * q, q


def _masses_below(law: StepLaw, x: float) -> tuple[float, float]:
    """The same of losses below x."""
    p = float(np.exp(law.reverse.log_above(np.asarray(-x))))
    return p, float(np.exp(law.reverse.log_delta(np.asarray(-x)))) + math.exp(-x) * p


class _Merged(NamedTuple):
    """The quiet losses as one, and the loud negative ones as a few."""

    centre: float
    quiet: float
    negative: list[tuple[int, float]]
    """Places on the lattice around the centre, and masses of P."""


def _merged(law: StepLaw, h: float, count: int, last: int) -> _Merged:
    """The centre decides which losses are quiet, and they where the centre lies: a fixed point, missed by as little as is found."""
    centre, best, least = 0.0, None, math.inf
    margin = _MARGIN * h / count
    for _ in range(_ROUNDS):
        edge, negative = _negative(law, centre, h, last)
        more_p, more_q = (float(mass) for mass in _masses_above(law, centre + h))
        less_p, less_q = _masses_below(law, edge) if negative else (0.0, 0.0)
        p, q = 1 - more_p - less_p, 1 - more_q - less_q
        error = _CLOSED * (more_p + more_q + less_p + less_q)
        more = more_q + less_q - more_p - less_p - error
        if not (p > 0 and q > 0 and more > -q):
            raise TooSlowError
        found = math.log1p(more / q)
        if centre <= found < centre + least:
            best, least = _Merged(centre, p * (1 - 8 * ULP) - error, negative), found - centre
        if least <= 2 * margin:
            break
        centre = found - margin
    if best is None:
        raise TooSlowError
    return best


def _negative(law: StepLaw, centre: float, h: float, last: int) -> tuple[float, list[tuple[int, float]]]:
    """Where the loud negative losses end, and what they are merged into: places and masses of P.

    Their bins double in length. The upper end of a bin is moved down until the mean of the bin lies on the lattice.
    """
    found: list[tuple[int, float]] = []
    lower, beneath = -math.inf, (0.0, 0.0)
    for place in [-(2**power) for power in range(last.bit_length() - 1, -1, -1)]:
        upper = centre + place * h

        def bin_of(end: float, beneath: tuple[float, float] = beneath) -> tuple[float, float]:
            """The mass of P of the losses between the bins below and ``end``, and their mean on the lattice, both rounded down."""
            whole = _masses_below(law, end)
            p, q = (mass - less for mass, less in zip(whole, beneath, strict=True))
            if not (p > 0 and q > 0):
                return 0.0, -math.inf
            room = 2 * _CLOSED * (whole[0] / p + whole[1] / q)
            return p - 2 * _CLOSED * whole[0], (math.log(p) - math.log(q) - room - centre) / h

        mean = bin_of(upper)[1]
        at = math.floor(mean) if mean > -2.0 * last else 0
        if not at or not lower < centre + at * h < upper:
            continue  # Nothing here, or too little to be seen: it goes to the next bin.
        high, low = upper, max(centre + at * h, lower)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if bin_of(middle)[1] >= at else (middle, high)
        p, mean = bin_of(high)
        if not (mean >= at and p > 0):
            continue
        found.append((at, p))
        lower, beneath = high, _masses_below(law, high)
    return lower, found


def below(law: StepLaw, count: int, end: float, h: float) -> Law:
    """A law on ``centre + k h`` that the step dominates, with the losses beyond ``end`` as an event."""
    last = math.ceil(end / h) + 1
    if not 1 < last < MOST or h < _FINEST * law.q:
        raise TooSlowError
    merged = _merged(law, h, count, last)
    centre = merged.centre
    x = centre + h * np.arange(1, last + 1)
    y, f = np.exp(x), np.exp(law.log_delta(x))
    p, q = _masses_above(law, x)
    # Without what lies beyond the end, whose profile is a straight line up to there.
    beyond_end = f[-1] - np.expm1(x - x[-1]) * y[-1] * q[-1]
    inside = f * (1 - 4 * _CLOSED) - beyond_end * (1 + _CLOSED)
    # Between slopes a and b a convex function stays within (s - a)(b - s)/(b - a) of its chord of slope s, times the cell.
    from_here = np.exp(law.log_above(x[1:] - 1e-9 * h))
    chord, bend = np.diff(f) / math.expm1(h), y[:-1] * np.maximum(q[:-1] - from_here, 0.0)
    first = np.clip(chord + y[:-1] * q[:-1], 0.0, bend)
    gap = math.expm1(h) * (1.0001 * first * (1 - first / np.where(bend > 0, bend, 1.0)) + 2 * _CLOSED * y[:-1] * q[:-1])
    lowered = inside - np.maximum(np.append(gap, 0.0), np.append(0.0, gap))
    negative = lowered <= 0
    lowered[negative | np.append(negative[1:], True) | np.append(False, negative[:-1])] = 0.0
    whole = float(p[0] * (1 - _CLOSED) - p[-1] * (1 + _CLOSED))
    width = np.append(y[0], y[:-1] * math.expm1(h))
    slope = np.append(lowered[0] - whole, np.diff(lowered)) / width
    convex = np.append(np.minimum(isotonic(slope, width), 0.0), 0.0)
    loud = np.maximum(y * (np.diff(convex) + 8 * ULP * (convex[:-1] + convex[1:])), 0.0)
    start = min((place for place, _ in merged.negative), default=0)
    masses = np.zeros(last + 1 - start)
    masses[-start], masses[-last:] = merged.quiet, loud
    for place, mass in merged.negative:
        masses[place - start] += mass
    return Law(masses, start, 0.0, centre, (float(p[-1]) * (1 - _CLOSED), float(q[-1]) * (1 + _CLOSED)))


def _offset(law: StepLaw) -> float:
    """Where most of the quiet losses lie: at the end of the law, or at 0."""
    ends = -law.reverse.greatest, law.greatest
    return next((end for end in ends if math.isfinite(end)), 0.0)


def _check(composition: Composition) -> None:
    """Refuse laws without closed forms that are good enough."""
    good = all(type(law) in _LAWS and not law.shift and law.mu >= _LEAST_MU for law, _ in composition.laws)
    if composition.gaussian or not good:
        raise TooSlowError


class _Sparse:
    """Lattices of a composition that end at ``end``, tilted for a delta or an epsilon."""

    def __init__(self, composition: Composition, end: float, width: float) -> None:
        self.laws = composition.laws
        if not 0 < end < math.inf:
            raise TooSlowError
        steps = [
            replace(
                step,
                log_delta=lambda e, step=step: step.log_delta(e) + _CLOSED,
                log_reverse=lambda e, step=step: step.log_reverse(e) + _CLOSED,
            )
            for step in steps_of(composition)
        ]
        self.lattices, self.end = Lattices(steps, width), end
        self.lattices.high = self.lattices.low = end
        self.rough = self._above(self.lattices.coarse)
        self.infinite = sum(count * law.infinite for law, count in self.rough.laws)
        self.offset = sum(count * law.offset for law, count in self.rough.laws)

    def _above(self, h: float) -> Convolution:
        parts: list[tuple[Law, int]] = []
        for (law, count), step in zip(self.laws, self.lattices.steps, strict=True):
            offset = _offset(law)
            last = math.ceil((self.end - offset) / h)
            if not 1 < last < MOST:
                raise TooSlowError
            parts.append((dots(step, -last, last, h, offset), count))
        return Convolution(parts, h)

    def aim(self, delta: float) -> None:
        """Tilt for a delta; what counts as infinite needs its share of it."""
        if not delta > self.infinite:
            raise TooSlowError
        target = math.log(delta - self.infinite)
        c = saddle(lambda x: log_saddle_delta(x, *self.rough.cumulants(x)) - target)
        self.lattices.tune(self.rough, c, saddle_epsilon(c, self.rough.cumulants(c)[1]), target)
        self.lattices.epsilon += self.offset

    def aim_at(self, epsilon: float) -> None:
        """Tilt for an epsilon."""
        c = around(self.rough, epsilon - self.offset)
        target = max(min(log_saddle_delta(c, *self.rough.cumulants(c)), 0.0), LEAST_LOG)
        self.lattices.tune(self.rough, c, epsilon - self.offset, target)
        self.lattices.epsilon = epsilon

    def tail(self, size: int, *, above: bool) -> Tail:
        """The profile from above or from below, on so many points."""
        lattices = self.lattices
        h = lattices.period / size
        laws = self._above(h) if above else Convolution([(below(law, n, self.end, h), n) for law, n in self.laws], h)
        return laws.tail(lattices.c, lattices.epsilon, size, lattices.factor, above=above)


@np.errstate(all="ignore")
def sparse_epsilon(composition: Composition, delta: float, known: Enclosure, width: float = WIDTH) -> Enclosure:
    """The least ``epsilon >= 0`` at the given delta, enclosed, where it is known to lie in ``known``.

    Raises
    ------
    TooSlowError
        The laws have no closed forms that are good enough.
    """
    _check(composition)
    best = known
    for size in SIZES:
        with suppress(ArithmeticError, ValueError):
            sparse, best = _upper(composition, delta, best, size, width)
            with suppress(ArithmeticError, ValueError):
                best = Enclosure(max(best.lower, sparse.tail(size, above=False).epsilon(delta)), best.upper)
        if best.width <= width * min(best.upper, 1.0):
            break
    return best


@np.errstate(all="ignore")
def sparse_upper(
    composition: Composition, delta: float, known: Enclosure, width: float = WIDTH, sizes: int = len(SIZES)
) -> Enclosure:
    """The upper end alone, faster, and not below that of ``sparse_epsilon``.

    Raises
    ------
    TooSlowError
        Draws are not seldom, or the laws have no closed forms that are good enough.
    """
    if composition.rate > _SELDOM:
        raise TooSlowError
    _check(composition)
    found = [known]
    for size in SIZES[:sizes]:
        with suppress(ArithmeticError, ValueError):
            found.append(_upper(composition, delta, found[-1], size, width)[1])
        if composition.rate > RARE and len(found) > 2 and found[-1].upper > (1 - NARROW) * known.upper:
            break  # The lattice does as well.
    # An enclosure that was narrow enough by then was not looked at again.
    return next(one for one in found[1:] or found if one.upper - found[-1].upper <= width * min(one.upper, 1.0))


@lru_cache(maxsize=32)
def rough_sparse_epsilon(composition: Composition, delta: float, width: float = WIDTH) -> float:
    """About epsilon where few draws are expected, for searches: the lower of two that say too much."""
    known = Enclosure(0.0, rough_lattice_epsilon(composition, delta, width))
    if composition.rate > RARE:  # Rarer ones need more points.
        with suppress(ArithmeticError, ValueError):
            return sparse_upper(composition, delta, known, sizes=1).upper
    return known.upper


def _upper(composition: Composition, delta: float, best: Enclosure, size: int, width: float) -> tuple[_Sparse, Enclosure]:
    """The upper end on so many points, and the lattices it is from."""
    while True:
        before = best.upper
        sparse = _Sparse(composition, _END * before, width)
        sparse.aim(delta)
        with suppress(ArithmeticError, ValueError):
            best = Enclosure(best.lower, min(before, max(sparse.tail(size, above=True).epsilon(delta), 0.0)))
        if not 0 < best.upper < _BETTER * before:
            return sparse, best  # The lattice ends where it should.


def sparse_tails_at(composition: Composition, epsilon: float, known: Enclosure, width: float = WIDTH, floor: float = 0.0) -> Tails:
    """delta around ``epsilon`` > 0, unless it is at most ``floor``, where it is known to lie in ``known`` there; raises as
    ``sparse_epsilon`` does.
    """
    _check(composition)
    sparse, tails = _Sparse(composition, _END * epsilon, width), Tails()
    sparse.aim_at(epsilon)
    for size in SIZES:
        for above in (True, False):
            with suppress(ArithmeticError, ValueError):
                tails.sides.append(sparse.tail(size, above=above))
        best = tails(epsilon)
        if best.upper <= floor or min(best.upper, known.upper) - max(best.lower, known.lower) <= width * best.upper:
            break
    return tails
