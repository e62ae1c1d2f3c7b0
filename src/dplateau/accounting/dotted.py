"""One step's privacy loss rounded to a lattice, from above and from below.

The step's profile, a convex function of ``y = exp(epsilon)``, is replaced by a piecewise linear one with corners at
``epsilon = k h``: from above by its chords ("connect the dots", Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022), from below by
chords lowered by the greatest gap between chord and profile. Each is the profile of a loss on the lattice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import log_ndtr

from dplateau.accounting.gaussian import ULP, Array, log_gdp_delta, sums_from
from dplateau.accounting.privacy_loss import CLOSED, FAR, StepLaw, TooSlowError
from dplateau.accounting.roots import isotonic
from dplateau.accounting.terms import Composition

Profile = Callable[[Array], Array]
LEAST: Final = 1e-290
"""Least delta that is read of a lattice: masses that are far smaller vanish."""
_SQUARED: Final = 1e-140
"""Squares of numbers that are smaller may vanish."""
_LAWS: Final = 64
"""Greatest number of different laws; each costs two transforms a size."""
_TRIED: Final = 1e-6 * 1.3 ** np.arange(97)
"""Losses beyond which there may be nothing to see: up to 1e5."""


@dataclass(frozen=True)
class Step:
    """What the lattice needs of a law: log delta of (P, Q) and of (Q, P), and log Q(L > epsilon)."""

    log_delta: Profile
    log_reverse: Profile
    log_above: Profile
    farthest: float
    count: int


def steps_of(composition: Composition) -> list[Step]:
    """The steps of a composition, law by law, and its Gaussian part as one step."""
    laws = composition.laws
    if len(laws) > _LAWS or any(_lossy(law) for law, _ in laws):
        raise TooSlowError
    steps = [Step(law.log_delta, law.reverse.log_delta, law.log_above, law.farthest, count) for law, count in laws]
    if mu := composition.gaussian:

        def log_delta(epsilon: Array) -> Array:
            return log_gdp_delta(mu, epsilon)

        steps.append(Step(log_delta, log_delta, lambda epsilon: log_ndtr(-epsilon / mu - mu / 2), math.inf, 1))
    return steps


def _lossy(law: StepLaw) -> bool:
    """Whether a step loses so little that the closed form of its profile has too few digits."""
    value, room = law.closed(0.0) if law.shift else (1.0, 0.0)
    return room > 2 * CLOSED * value


def beyond(f: Profile, limit: float, most: float = math.inf) -> float:
    """An x > 0 beyond which the decreasing f is below the limit, or ``most`` if that is less."""
    tried = _TRIED[most > _TRIED]
    with np.errstate(all="ignore"):
        enough = np.flatnonzero(~(f(tried) > limit))
    if not enough.size and tried.size == _TRIED.size:
        raise TooSlowError
    return float(tried[enough[0]]) if enough.size else most


@dataclass(frozen=True)
class Law:
    """A loss on the lattice: mass ``p`` of P at ``offset + (first + i) h``, mass at infinity, and P and Q of an event besides."""

    p: Array
    first: int
    infinite: float
    offset: float = 0.0
    event: tuple[float, float] = (0.0, 0.0)


def norms_from(mass: Array, fall: float) -> Array:
    """The 2-norm of the masses from each point on. Small ones fall by a factor exp(-fall) a point, for ever: their squares may
    vanish, and their norms must not, since they bound errors.
    """
    series = mass * ((1 + 1e-12) / math.sqrt(-math.expm1(-2 * fall)))
    return np.where(mass < _SQUARED, series, np.sqrt(sums_from(mass**2)))


def _profile(step: Step, e: Array, sign: float) -> Array:
    """delta at every e >= 0, and delta - (1 - exp(e)), which is the small part, at e < 0; rounded up (``sign`` 1) or down (-1)."""
    below = e < 0
    log_f = np.append(e[below] + step.log_reverse(-e[below]), step.log_delta(e[~below]))
    # Far out a closed form may have lost as much as ``StepLaw.closed`` allows for.
    return np.exp(log_f + sign * CLOSED * (np.maximum(log_f, -1e3) / FAR) ** 2)


def _at_zero(e: Array, h: float) -> Array:
    """The chords of ``(1 - y)+``, which the small part leaves out: the masses of a loss of 0."""
    p, last = np.zeros(e.size), int(np.searchsorted(e, 0.0, "right")) - 1
    p[max(last, 0)] = 1.0
    if last >= 0 and e[last] < 0:
        share = math.expm1(float(e[last])) / math.expm1(-h)
        p[last : last + 2] = 1 - share, share
    return p


def dots(step: Step, low: int, high: int, h: float, offset: float = 0.0) -> Law:
    """The chords between the points ``offset + k h``: a law that dominates the step."""
    e = np.arange(low, high + 1) * h + offset
    f = _profile(step, e, 1.0)
    left = np.empty_like(f)
    left[1:], left[0] = (f[:-1] - f[1:]) / -math.expm1(-h), -f[0]
    right = np.append(f[:-1] - f[1:], 0.0) / math.expm1(h)
    noise = 8 * ULP * (f + np.append(f[1:], 0.0) + np.append(f[0], f[:-1])) / min(h, 1.0)
    p = np.maximum(left - right + _at_zero(e, h), 0.0) + noise
    return Law(p, low, float(f[-1]), offset)


def tangents(step: Step, low: int, high: int, h: float) -> Law:
    """Chords lowered by the greatest gap to the profile, then made convex: a law that the step dominates."""
    k = np.arange(low, high + 1)
    e = k * h
    f = _profile(step, e, -1.0)
    above, from_here = np.exp(step.log_above(e)), np.exp(step.log_above(e - 1e-9 * h))
    # Between slopes a and b a convex function with chord slope s stays within (s - a)(b - s)/(b - a) of its chord, times the cell.
    # All slopes are in units of exp(-e) at the left end; those of f are larger by 1 than those of delta where e < 0.
    chord, own = (f[1:] - f[:-1]) / math.expm1(h), np.exp(e[:-1]) * (k[:-1] < 0)
    bend = np.exp(e[:-1]) * np.maximum(above[:-1] - from_here[1:], 0.0)
    first = np.clip(chord - own + np.exp(e[:-1]) * above[:-1], 0.0, bend)
    gap = 1.0001 * math.expm1(h) * first * (1 - first / np.where(bend > 0, bend, 1.0))  # The product of two slopes may vanish.
    lowered = f * (1 - 1e-12) - np.maximum(np.append(gap, 0.0), np.append(0.0, gap))
    # A chord may start at 0 instead of lower only if its other end does, or ends higher than its due: points next to a negative
    # one are set to 0 with it.
    negative = lowered <= 0
    lowered[negative | np.append(negative[1:], True) | np.append(True, negative[:-1])] = 0.0
    y = np.exp(e)
    width = np.append(y[0], np.diff(y))
    slope = np.append(lowered[0], np.diff(lowered)) / width - (np.append(low - 1, k[:-1]) < 0)
    convex = isotonic(slope, width)
    return Law(np.maximum(y * np.diff(np.append(np.minimum(convex, 0.0), 0.0)), 0.0), low, 0.0)
