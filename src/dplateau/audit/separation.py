"""How far two samples of releases are apart at least: a lower bound on epsilon, and a point below a trade-off curve.

A release on a data set and one on its neighbour are repeated many times. An event that one of them has with probability p and the
other with probability q refutes every (epsilon, delta) with ``p > e^epsilon q + delta``, and every trade-off function f with
``1 - p < f(q)``. The event is chosen on one half of the repetitions and counted on the other, so that its exact binomial bounds
(Clopper and Pearson 1934) hold whatever the choice was.

The second test is the sharper one: epsilon at a small delta cannot be found to be larger than the log of the number of
repetitions, but a whole curve can be refuted in its middle. Both distances are told in standard deviations too: a test of N(0, 1)
against N(mu, 1) with errors ``(q, 1 - p)`` has ``mu = Phi^-1(p) - Phi^-1(q)``.

Source: Jagielski, Ullman, Oprea, "Auditing differentially private machine learning" (NeurIPS 2020); Nasr, Hayes, Steinke, Balle,
Tramer, Jagielski, Carlini, Terzis, "Tight auditing of differentially private machine learning" (USENIX Security 2023).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import beta

from dplateau.accounting.composition import Guarantee
from dplateau.accounting.trade_offs import Gaussian
from dplateau.spec import InputError
from dplateau.spec.arguments import real

Array = NDArray[np.float64]
Curve = Callable[[Array], Array]
"""A trade-off function: the least type II errors at type I errors."""

_THRESHOLDS: Final = 120
"""Thresholds that are tried from either end of a score's values, ever further apart."""
_EPSILONS: Final = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
"""Where profiles without a closed form are read: each takes up to seconds. Between them the curve allows a little more."""
_QUANTILES: Final = 1e-12
"""Relative error of quantiles, at most."""
_RAREST: Final = 1e-18
"""The least probability of error: that of quantiles for much rarer ones is larger, and some have no digit right."""
_FAR: Final = 40.0
"""Standard deviations that stand for infinitely many."""


class Scores(NamedTuple):
    """One number of every release, by ``name``: of those with the record, and of those without it."""

    name: str
    present: Array
    absent: Array


class Event(NamedTuple):
    """The event that score number ``score`` is at least ``threshold``, or below it; ``present``: it is likelier with the record."""

    score: int
    threshold: float
    at_least: bool
    present: bool


@dataclass(frozen=True)
class Separation:
    """What the repetitions prove, all of it together but for the stated probability of error.

    Attributes
    ----------
    epsilon : float
        A lower bound on epsilon at the delta that was asked for.
    by : str
        The score whose event shows it.
    power, level : float
        Another event has at least this probability on one data set, at most this one on the other.
    allowed : float
        The most that the trade-off curve allows ``power`` to be at this ``level``.
    separated_by : str
        The score of that event.
    """

    epsilon: float
    by: str
    power: float
    level: float
    allowed: float
    separated_by: str

    @property
    def mu(self) -> float:
        """Standard deviations that the data sets are apart, at least."""
        return max(0.0, deviations(self.power, self.level))

    @property
    def allowed_mu(self) -> float:
        """Standard deviations that the curve allows at that level: mu itself where it is that of mu-GDP."""
        return deviations(self.allowed, self.level)

    @property
    def below_curve(self) -> bool:
        """Whether the curve is refuted."""
        return self.power > self.allowed


def deviations(power: float, level: float) -> float:
    """``Phi^-1(power) - Phi^-1(level)``, finite."""
    return float(np.clip(ndtri(power), -_FAR, _FAR) - np.clip(ndtri(level), -_FAR, _FAR))


def curve_of(guarantee: Guarantee) -> Curve:
    """The trade-off function of a guarantee, for either data set as the null hypothesis; nowhere above it."""
    if guarantee.mu is not None and guarantee.mu < math.inf:
        return Gaussian(guarantee.mu)
    lines = [(math.exp(epsilon), guarantee.delta(epsilon).upper) for epsilon in _EPSILONS]

    def curve(alpha: Array) -> Array:
        sides = [side for y, delta in lines for side in (1 - delta - y * alpha, (1 - delta - alpha) / y)]
        return np.maximum(np.max(sides, axis=0), 0.0)

    return curve


def clopper_pearson(successes: NDArray[np.int64], trials: int, error: float) -> tuple[Array, Array]:
    """A lower and an upper bound on the probability behind each number of successes; each fails with probability ``error``."""
    k = np.asarray(successes, dtype=float)
    lower = np.where(k > 0, beta.ppf(error, np.maximum(k, 1), trials - k + 1), 0.0)
    upper = np.where(k < trials, beta.isf(error, k + 1, np.maximum(trials - k, 1)), 1.0)
    lower, upper = lower * (1 - _QUANTILES), upper + _QUANTILES * upper * (1 - upper)
    return np.nextafter(lower, 0.0), np.nextafter(upper, 1.0)


def separate(choose: Sequence[Scores], confirm: Sequence[Scores], *, delta: float, curve: Curve, error: float) -> Separation:
    """Choose events on the one half of the releases, and count them on the other.

    Parameters
    ----------
    choose, confirm : sequence of Scores
        The same scores of the two halves. What they compute may have been learnt from the first half, never from the second.
    delta : float
        Of the lower bound on epsilon.
    curve : callable
        The trade-off function that is claimed.
    error : float
        Probability that anything in the result is false; at least 1e-18.

    Raises
    ------
    InputError
        A half is empty, the halves do not have the same scores, or ``delta`` or ``error`` is no such probability.
    """
    delta, error = real("delta", delta, inclusive=True, high=1.0), checked_error(error)
    names = [scores.name for scores in choose]
    if not names or names != [scores.name for scores in confirm]:
        raise InputError(f"the halves have scores {names} and {[s.name for s in confirm]}: expected the same ones.")
    if not all(len(side) for half in (choose, confirm) for scores in half for side in scores[1:]):
        raise InputError("a half has no releases: train more often.")
    first, second = _best_events(choose, delta, curve, error / 4)
    power, level = _confirmed(first, confirm, error / 4)
    epsilon = _epsilon(power, level, delta)
    power, level = _confirmed(second, confirm, error / 4)
    allowed = float(1 - curve(np.array([level]))[0])
    return Separation(epsilon, names[first.score], power, level, allowed, names[second.score])


def checked_error(error: float) -> float:
    """``error``, if a statement can be false with this probability, and quantiles are accurate there."""
    if real("error", error) >= 1:
        raise InputError(f"error is {error:g}: expected a probability below 1.")
    return real("error", error, low=_RAREST, inclusive=True)


def _epsilon(power: float, level: float, delta: float) -> float:
    return max(0.0, math.log((power - delta) / level)) if power > delta else 0.0


def _best_events(choose: Sequence[Scores], delta: float, curve: Curve, error: float) -> tuple[Event, Event]:
    """The event of the largest epsilon, and the one that is farthest beyond the curve, as far as this half can tell."""
    of_epsilon: list[tuple[float, Event]] = []
    of_curve: list[tuple[float, Event]] = []
    sizes = len(choose[0].present), len(choose[0].absent)
    bounds = [clopper_pearson(np.arange(size + 1), size, error) for size in sizes]
    allowed = [ndtri(np.clip(1 - curve(upper), 0.0, 1.0)) for _, upper in bounds]
    for number, scores in enumerate(choose):
        thresholds = _thresholds(scores)
        counts = [np.searchsorted(np.sort(side), thresholds, side="left") for side in (scores.present, scores.absent)]
        for at_least in (True, False):
            hits = [size - below if at_least else below for size, below in zip(sizes, counts, strict=True)]
            for present in (True, False):
                likely, other = (0, 1) if present else (1, 0)
                power, level = bounds[likely][0][hits[likely]], bounds[other][1][hits[other]]
                with np.errstate(divide="ignore", invalid="ignore"):
                    epsilon = np.log(np.maximum(power - delta, 0.0) / level)
                    beyond = np.clip(ndtri(power), -_FAR, _FAR) - np.clip(allowed[other][hits[other]], -_FAR, _FAR)
                for value, found in ((epsilon, of_epsilon), (beyond, of_curve)):
                    at = int(np.argmax(value))
                    found.append((float(value[at]), Event(number, float(thresholds[at]), at_least, present)))
    return max(of_epsilon, key=itemgetter(0))[1], max(of_curve, key=itemgetter(0))[1]


def _thresholds(scores: Scores) -> Array:
    """Some values of the scores: all of them where there are few, otherwise dense at both ends."""
    values = np.unique(np.concatenate([scores.present, scores.absent]))
    if len(values) <= 2 * _THRESHOLDS:
        return values
    steps = np.geomspace(1, len(values), _THRESHOLDS).astype(int) - 1
    return values[np.unique(np.concatenate([steps, len(values) - 1 - steps]))]


def _confirmed(event: Event, confirm: Sequence[Scores], error: float) -> tuple[float, float]:
    """Bounds on the probabilities of the event: from below where it is likely, from above on the other data set."""
    scores = confirm[event.score]
    hits: list[tuple[int, int]] = []
    for side in (scores.present, scores.absent):
        below = int((side < event.threshold).sum())
        hits.append((len(side) - below if event.at_least else below, len(side)))
    (likely, of), (other, among) = hits if event.present else reversed(hits)
    power, _ = clopper_pearson(np.array([likely]), of, error)
    _, level = clopper_pearson(np.array([other]), among, error)
    return float(power[0]), float(level[0])
