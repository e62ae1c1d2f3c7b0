"""Tensor products: the trade-off function of independent tests, by convolving their privacy losses.

Every factor's profile is replaced by one with corners on a lattice, from above and from below (``dotted.py``); the laws of the
losses are convolved by fast Fourier transforms. What leaves the window is bounded by Chernoff's inequality, rounding by norms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from dplateau.accounting.dotted import Law, Step, beyond, dots, tangents
from dplateau.accounting.gaussian import Array, sums_from
from dplateau.accounting.lattice import convolved
from dplateau.accounting.trade_offs.base import TradeOff, operation, pairs_of
from dplateau.accounting.trade_offs.of_guarantee import Enclosed, Profile, enclosed
from dplateau.accounting.trade_offs.piecewise import Piecewise, no_privacy, times
from dplateau.accounting.trade_offs.smooth import Gaussian
from dplateau.spec import InputError
from dplateau.spec.arguments import integer

_SIZE: Final = 2**15
"""Lattice points of the window."""
_LARGEST: Final = 2**18
"""Most lattice points of one factor."""
_RARE: Final = 1e-16
_POINTS: Final = 600
"""Epsilons that are kept."""


@operation
def product(factors: Sequence[tuple[TradeOff, int]]) -> TradeOff:
    """``f_1^n_1 x f_2^n_2 x ...``, enclosed; Gaussian factors alone give a Gaussian.

    Parameters
    ----------
    factors : sequence of (TradeOff, int)
        Each factor, and how often it occurs.

    Raises
    ------
    InputError
        There is no factor, or a count is not a whole number >= 1.
    """
    # What is known at a table of epsilons only counts as the polygon that certifies.
    pairs = pairs_of("factors", factors)
    counted = [(f.lower if isinstance(f, Enclosed) else f, integer("count", k)) for f, k in pairs]
    if not counted:
        raise InputError("the product of no trade-off function: give at least one.")
    if len(counted) == 1 and counted[0][1] == 1:
        return counted[0][0]
    mu = math.hypot(*(f.mu * math.sqrt(count) for f, count in counted if isinstance(f, Gaussian)))
    rest = [(f, count) for f, count in counted if not isinstance(f, Gaussian)]
    if not rest:
        return Gaussian(mu)
    if any(f.certain == 1 for f, _ in rest):
        return no_privacy()
    if not mu and (exact := _exactly(rest)) is not None:
        return exact
    found = [*rest, (Gaussian(mu), 1)] if mu else rest
    forward = _profile(found)
    return enclosed(forward, forward if all(f.inverse is f for f, _ in found) else _profile([(f.inverse, n) for f, n in found]))


def _exactly(factors: list[tuple[TradeOff, int]]) -> Piecewise | None:
    """The product of piecewise linear factors, where it has few corners."""
    result: Piecewise | None = Piecewise(np.array([0.0, 1.0]), np.array([1.0, 0.0]))
    for f, count in factors:
        power: Piecewise | None = f if isinstance(f, Piecewise) else None
        while count:
            if power is None or result is None:
                return None
            result = times(result, power) if count % 2 else result
            count //= 2
            power = times(power, power) if count else power
    return result


def _profile(factors: list[tuple[TradeOff, int]]) -> Profile:
    """The profile of the product.

    What P never shows is taken out first. Where a factor shows it, delta is 1; elsewhere ``dQ/dP`` is larger than that of the law
    that is left by the probability that it did not.
    """
    steps = [_step(f, count) for f, count in factors]
    log_left = sum(count * math.log1p(-f.certain) for f, count in factors)
    left, total = math.exp(log_left), sum(step.count for step in steps)
    rare = math.log(_RARE) - math.log(total)
    high = max(beyond(s.log_delta, rare, s.farthest) for s in steps)
    low = max(beyond(lambda x, s=s: s.log_reverse(x) - x, rare) for s in steps)

    def laws(build: Callable[[Step, int, int, float], Law], h: float) -> list[tuple[Law, int]]:
        return [(build(step, -math.ceil(low / h), math.ceil(high / h) + 1, h), step.count) for step in steps]

    rough = (high + low) / 4000
    first, last, tilts = _window(laws(dots, rough), rough)
    h = max((last - first) / _SIZE, (high + low) / _LARGEST)
    epsilon = h * (math.floor(first / h) + np.arange(_SIZE))
    above, below = (_convolved(laws(build, h), epsilon, h, tilts, above=build is dots) for build in (dots, tangents))
    keep = _kept(epsilon, above, -log_left)
    epsilon = epsilon[keep] + log_left
    delta = (1 - left) + left * np.stack([np.minimum(below, above)[keep], above[keep]], axis=1)
    return Profile(epsilon, delta, 1 - left)


def _step(f: TradeOff, count: int) -> Step:
    """What the lattice needs of f, without what P never shows: the rest of Q, scaled to 1, has ``dQ/dP`` scaled with it."""
    certain, back = f.certain, f.inverse
    if not certain:
        return Step(f.log_delta, back.log_delta, f.log_alpha, f.greatest, count)
    shift = math.log1p(-certain)

    def log_delta(epsilon: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(np.exp(f.log_delta(epsilon + shift)) - certain, 0.0)) - shift

    return Step(
        log_delta,
        lambda epsilon: back.log_delta(epsilon - shift),
        lambda epsilon: f.log_alpha(epsilon + shift),
        f.greatest - shift,
        count,
    )


def _cumulant(laws: list[tuple[Law, int]], h: float, c: float) -> float:
    """Log of ``E e^(c loss)`` of the finite part of the sum."""
    total = 0.0
    for law, count in laws:
        with np.errstate(divide="ignore"):
            total += count * float(np.logaddexp.reduce(np.log(law.p) + c * h * (law.first + np.arange(law.p.size))))
    return total


_TILTS: Final = np.geomspace(1e-4, 1e3, 60)


def _window(laws: list[tuple[Law, int]], h: float) -> tuple[float, float, tuple[float, float]]:
    """An interval that the sum leaves with a probability of about ``_RARE`` at either end, and the tilts that show it."""
    slack = -math.log(_RARE)
    last, right = min(((_cumulant(laws, h, c) + slack) / c, c) for c in _TILTS.tolist())
    first, left = max((-(_cumulant(laws, h, -c) + slack) / c, c) for c in _TILTS.tolist())
    return min(first, 0.0), last + 8 * h, (left, right)


def _convolved(laws: list[tuple[Law, int]], epsilon: Array, h: float, tilts: tuple[float, float], *, above: bool) -> Array:
    """The profile of the sum at every point of the window, rounded up or down. Any tilts bound what leaves the window."""
    size = epsilon.size
    start = round(float(epsilon[0]) / h)
    folded = [(np.bincount((law.first + np.arange(law.p.size)) % size, weights=law.p, minlength=size), n) for law, n in laws]
    found, error = convolved(folded)
    p = np.maximum(np.roll(found, -(start % size)), 0.0)
    rounding = error * math.sqrt(size)
    left, right = tilts
    wrapped = math.exp(min(_cumulant(laws, h, right) - right * float(epsilon[-1]), 0.0))
    wrapped += math.exp(min(_cumulant(laws, h, -left) + left * float(epsilon[0]), 0.0))
    s1, s2 = sums_from(p), sums_from(p * np.exp(np.minimum(-(epsilon - epsilon[0]), 0.0)))
    delta = np.append(s1[1:] - np.exp(epsilon[:-1] - epsilon[0]) * s2[1:], 0.0)
    if above:
        infinite = min(1.0, sum(count * law.infinite for law, count in laws))
        return np.clip(delta + infinite + wrapped + rounding, 0.0, 1.0)
    return np.clip(delta - wrapped - rounding, 0.0, 1.0)


def _kept(epsilon: Array, delta: Array, least: float) -> Array:
    """Points of the window that describe the curve, from ``least`` on."""
    inside = np.flatnonzero((epsilon >= least) & (delta > 2 * delta[-1]))
    if inside.size < 2:
        return np.array([min(int(np.searchsorted(epsilon, least)), epsilon.size - 1)])
    y, d = np.exp(epsilon[inside] - least), delta[inside]
    alpha = np.maximum(-np.diff(d) / np.diff(y), 0.0)
    measures = [
        np.sqrt(y[1:] * np.maximum(-np.diff(alpha, prepend=alpha[0]), 0.0)),
        np.maximum(-np.diff(d**0.25), 0.0),
        np.ones(d.size - 1),
    ]
    found = list[Array]()
    for measure in measures:  # Both ends are among the even ones.
        place = np.append(0.0, np.cumsum(measure))
        found.append(inside[np.searchsorted(place, np.linspace(0, place[-1], _POINTS // 3), side="left").clip(0, inside.size - 1)])
    return np.unique(np.concatenate(found))
