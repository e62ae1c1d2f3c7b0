"""The trade-off function of a guarantee that is known through its profile, with an enclosure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

import numpy as np

from dplateau.accounting.composition import Guarantee
from dplateau.accounting.enclosure import Enclosure
from dplateau.accounting.gaussian import Array
from dplateau.accounting.trade_offs.base import TradeOff, probability, rounded_down
from dplateau.accounting.trade_offs.operations import maximum
from dplateau.accounting.trade_offs.piecewise import Piecewise, envelope, no_privacy
from dplateau.accounting.trade_offs.smooth import Gaussian
from dplateau.spec.arguments import integer, of_type

POINTS: Final = 160
"""Epsilons at which a profile is asked."""
LARGEST: Final = 600.0
"""Beyond this epsilon a profile is not followed."""
LEAST: Final = 1e-12
"""Below this delta it is not followed either: f(0) is then 1 - delta at the last epsilon."""
_ABOVE: Final = 1.01
"""A profile is followed down to this times the least delta that can be read."""
_DELTAS: Final = (1e-8, 1e-5, 1e-2)
"""Where the members of a family are compared."""


@dataclass(frozen=True, eq=False, repr=False)
class Enclosed(TradeOff):
    """What a table of enclosed deltas says of a trade-off function: ``f(alpha)`` is the lower end, from supporting lines.

    Attributes
    ----------
    epsilons : array of shape (k,)
        Rising, of any sign.
    deltas, reverses : array of shape (k, 2)
        Lower and upper ends of the profile of (Q, P) at epsilon, and of (P, Q) at minus epsilon.
    limits : tuple of float
        Lower bounds on what the two profiles fall to.
    """

    epsilons: Array
    deltas: Array
    reverses: Array
    limits: tuple[float, float] = (0.0, 0.0)

    @cached_property
    def lower(self) -> Piecewise:
        """The function that certifies."""
        return envelope(self.epsilons, self.deltas[:, 1], self.reverses[:, 1])

    def log_delta_above(self, epsilon: Array) -> Array:
        return self.lower.log_delta_above(epsilon)

    def log_alpha_above(self, epsilon: Array) -> Array:
        return self.lower.log_alpha_above(epsilon)

    @property
    def inverse(self) -> Enclosed:
        """``T(Q, P)``."""
        return Enclosed(-self.epsilons[::-1], self.reverses[::-1], self.deltas[::-1], (self.limits[1], self.limits[0]))

    @property
    def certain(self) -> float:
        return self.lower.certain

    @property
    def greatest(self) -> float:
        return self.lower.greatest

    def values(self, alpha: Array) -> Array:
        return self.lower.values(alpha)

    def polygon(self, points: int = POINTS, *, least: float = LEAST) -> Piecewise:
        """The supporting lines that are known, whatever ``points`` and ``least``."""
        return self.lower

    def deciding(self, alpha: float) -> float:
        # The row of the table whose line is highest.
        y, delta = np.exp(self.epsilons), self.deltas[:, 1]
        lines = np.where(y < 1, y * (1 - alpha - self.reverses[:, 1]), 1 - delta - y * alpha)
        return float(self.epsilons[np.argmax(lines)])

    def enclosure(self, alpha: float) -> Enclosure:
        """``f(alpha)``, enclosed.

        With y = e^epsilon, ``f(alpha) = sup over y of 1 - delta - y alpha``. Between two rows of the table the convex delta is
        above the lines through the two rows to the left, and through the two to the right: the supremum is at most that over these
        lines.
        """
        lower = rounded_down(float(self(alpha)))
        y, low, high = np.exp(self.epsilons), self.deltas[:, 0], self.deltas[:, 1]
        # Where epsilon < 0, delta = 1 - y + y reverse.
        low = np.where(y < 1, np.maximum(low, 1 - y + y * self.reverses[:, 0]), low)
        gap = np.diff(y)
        falling = (low[1:] - high[:-1]) / gap  # At most the slope of the chord,
        rising = (high[1:] - low[:-1]) / gap  # and at least.
        left = np.append(-np.inf, falling[:-1])  # For the cell from row i to i + 1: the slope of the line that ends in row i,
        right = np.append(rising[1:], 0.0)  # and of the line that starts in row i + 1.
        ends = [1 - low[:-1] - y[:-1] * alpha, 1 - low[1:] - y[1:] * alpha]
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            meet = (low[1:] - low[:-1] - right * gap) / (left - right)
            meet = np.where(np.isfinite(meet), np.clip(meet, 0.0, gap), 0.0)
            tops = 1 - (low[1:] - right * (gap - meet)) - (y[:-1] + meet) * alpha
        beyond = y[0] * (1 - alpha - self.limits[1]), 1 - self.limits[0] - y[-1] * alpha
        most = max(float(np.max([*ends, tops], initial=0.0)), *map(float, beyond))
        return Enclosure(lower, min(max(most + 1e-15, lower), math.nextafter(1 - alpha, 1.0) if alpha < 1 else lower))


class Profile(NamedTuple):
    """A profile at some epsilons >= 0, shape (k,): enclosed deltas, shape (k, 2), and a lower bound on what it falls to."""

    epsilon: Array
    delta: Array
    limit: float = 0.0


def trade_off(guarantee: Guarantee, *, points: int = POINTS, least: float = LEAST) -> TradeOff:
    """The trade-off function that a guarantee gives, whichever of two neighbouring data sets is the null hypothesis.

    Parameters
    ----------
    guarantee : Guarantee
        Any statement; mu-GDP gives ``G_mu`` itself.
    points : int
        Epsilons at which its profile is asked, at least 8.
    least : float
        The smallest delta that the function follows, in (0, 1].

    Returns
    -------
    TradeOff
        ``f(alpha)`` is never above what the guarantee gives; ``f.enclosure(alpha)`` says by how much it may be below.
    """
    of_type("guarantee", guarantee, Guarantee)
    points, least = integer("points", points, low=8), probability("least", least)
    if guarantee.mu is not None:
        return Gaussian(guarantee.mu) if guarantee.mu < math.inf else no_privacy()
    members = members_of(guarantee)
    if guarantee not in members:
        # Every member of a family holds: some are asked, and not the search for the best one at every epsilon.
        return maximum(*(trade_off(member, points=points, least=least) for member in members))
    return _tabled(guarantee, points, least)


def members_of(guarantee: Guarantee) -> dict[Guarantee, float]:
    """The statements that a trade-off function is made of, and for which delta each was chosen: itself, if there is no choice."""
    return {guarantee.chosen(delta): delta for delta in reversed(_DELTAS)}


@lru_cache(maxsize=8)
def _tabled(guarantee: Guarantee, points: int, least: float) -> TradeOff:
    """One statement's function, kept: several families may have the same member."""
    last = min(guarantee.upper(max(least, guarantee.least * _ABOVE)), LARGEST)
    if last == 0:
        return _of_readings({0.0: guarantee.delta(0.0)})
    read = guarantee.profile(least)
    if (end := read(last)).upper >= 1:
        return _of_readings({0.0: read(0.0), last: end})
    rough = np.linspace(0.0, last, points // 4)
    found = {float(e): read(float(e)) for e in rough}
    while len(found) < points:
        e = np.array(sorted(found))
        for i in _coarsest(e, np.array([found[float(x)].upper for x in e]), points // 10):
            middle = float((e[i] + e[i + 1]) / 2)
            found[middle] = read(middle)
    return _of_readings(found)


def _of_readings(found: dict[float, Enclosure]) -> Enclosed:
    """The table of a symmetric profile that was read at some epsilons >= 0."""
    e = np.array(sorted(found))
    profile = Profile(e, np.array([[found[float(x)].lower, found[float(x)].upper] for x in e]))
    return enclosed(profile, profile)


def _coarsest(epsilon: Array, delta: Array, count: int) -> Array:
    """The cells whose two lines miss most of f: about the product of the cell and the change in slope; and, for logarithmic scales,
    those over which delta falls most.
    """
    y = np.exp(epsilon)
    gap = np.diff(y)
    slope = np.diff(delta) / gap
    mirrored = delta[0] - 1 - slope[0]  # the slope left of y = 1, by symmetry
    bend = np.abs(np.diff(slope, prepend=mirrored, append=0.0))
    return np.argsort(-gap * np.minimum(bend[:-1], bend[1:]) - 1e-3 * np.diff(delta**0.25) ** 2)[: max(count, 1)]


def enclosed(forward: Profile, backward: Profile) -> Enclosed:
    """The table of a profile and of that of the inverse."""
    (epsilon, delta, limit), (back_epsilon, back_delta, back_limit) = forward, backward

    def shrunk(epsilon: Array, delta: Array) -> Array:
        """The profile of the inverse at minus epsilon."""
        return -np.expm1(-epsilon)[:, None] + np.exp(-epsilon)[:, None] * delta

    fresh = back_epsilon[::-1] > 0 if epsilon[0] <= 0 else np.full(back_epsilon.shape, True)
    epsilons = np.concatenate([-back_epsilon[::-1][fresh], epsilon])
    deltas = np.concatenate([shrunk(back_epsilon, back_delta)[::-1][fresh], delta])
    reverses = np.concatenate([back_delta[::-1][fresh], shrunk(epsilon, delta)])
    return Enclosed(epsilons, deltas, reverses, (limit, back_limit))
