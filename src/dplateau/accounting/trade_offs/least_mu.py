"""The least mu whose Gaussian trade-off lies below another one, but for a floor."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Final

import numpy as np
from scipy.special import ndtri

from dplateau.accounting.composition import GaussianDP, Guarantee
from dplateau.accounting.enclosure import Enclosure
from dplateau.accounting.gaussian import ULP, gdp_mu
from dplateau.accounting.trade_offs.base import probability
from dplateau.spec.arguments import of_type

_CLOSE: Final = 1e-6
"""Relative width at which the search stops."""
_ROUNDS: Final = 200
_SHARP: Final = 1e-3
"""The ends of a cell are asked for themselves where they are not known to this share of their difference."""
_ROOM: Final = 1e-9


def least_mu(guarantee: Guarantee, floor: float = 1e-10) -> Enclosure:
    """The least mu with ``delta(epsilon) <= delta_mu(epsilon) + floor`` for every epsilon, enclosed.

    The run is then ``(G_mu - floor)``-DP: no attacker does better than against mu-GDP by more than ``floor``, in probability. Every
    epsilon and delta that mu-GDP gives holds with ``delta + floor``. **Proved** where the guarantee is
    (``docs/proofs/trade-offs.md``, section 3).

    Without a floor the answer for a run with sampling is of no use: far in the tails such a run looks like one without sampling,
    so that its least mu is that of the run without sampling.

    Parameters
    ----------
    guarantee : Guarantee
        The statement.
    floor : float, default 1e-10
        In (0, 1); well below every delta of interest.

    Returns
    -------
    Enclosure
        mu; the upper end certifies. Infinite where the profile does not fall to the floor.
    """
    floor, guarantee = probability("floor", floor), of_type("guarantee", guarantee, Guarantee)
    last, start = guarantee.epsilon(floor).upper, guarantee.delta(0.0)
    if last == 0 or start.upper <= floor:  # Either may know what the other does not.
        return Enclosure(0.0, 0.0)
    if isinstance(guarantee, GaussianDP):
        return Enclosure(min(_row(0.0, start.lower, floor, -1.0) * (1 - _ROOM), guarantee.parameter), guarantee.parameter)
    if not last < math.inf:
        return Enclosure(0.0, math.inf)
    read = guarantee.profile(floor)
    table = {epsilon: read(epsilon) for epsilon in np.linspace(0.0, last, 20).tolist()}
    table[last] = Enclosure(min(table[last].lower, floor), floor)
    return _search(guarantee, read, table, floor)


def _search(guarantee: Guarantee, read: Callable[[float], Enclosure], table: dict[float, Enclosure], floor: float) -> Enclosure:
    """Split the cell that asks for the largest mu until that is close to what a row asks for.

    A profile is quick, but knows a delta to some digits only. Where a cell is so small that these decide its chord, its ends are
    asked for themselves, as long as that tells more.
    """

    def cell(a: float, b: float) -> float:
        return _cell(a, b, table[a].upper, table[b].upper, floor)

    cells = {ends: cell(*ends) for ends in pairwise(sorted(table))}
    least = max(_row(epsilon, delta.lower, floor, -1.0) for epsilon, delta in table.items())
    sharp: set[float] = set()
    vain = False
    for _ in range(_ROUNDS):
        a, b = max(cells, key=lambda ends: cells[ends])
        middle = (a + b) / 2
        if cells[a, b] <= least * (1 + _CLOSE) or not a < middle < b:
            break
        room = _SHARP * (table[a].upper - table[b].upper)
        ends = [end for end in (a, b) if not vain and end not in sharp and table[end].width > room]
        if ends:
            found = {end: table[end].meet(guarantee.delta(end), rounded=True) for end in ends}
            vain = all(found[end].width > table[end].width / 2 for end in ends)
            table |= found
            sharp.update(ends)
            cells |= {pair: cell(*pair) for pair in cells if not set(pair).isdisjoint(ends)}
        else:
            ends = [middle]
            table[middle] = read(middle).meet(Enclosure(0.0, table[a].upper), rounded=True)
            del cells[a, b]
            cells |= {pair: cell(*pair) for pair in ((a, middle), (middle, b))}
        least = max(least, *(_row(end, table[end].lower, floor, -1.0) for end in ends))
    most = max(cells.values()) * (1 + _ROOM)
    return Enclosure(min(least * (1 - _ROOM), most), most)


def _row(epsilon: float, delta: float, floor: float, sign: float) -> float:
    """The mu that one point of the profile asks for, rounded up or down: next to delta 1 a rounding of delta is much of mu."""
    target = (delta - floor) * (1 + sign * 8 * ULP)
    if target > 1 - ULP:
        return math.inf
    return gdp_mu(epsilon, target) if target > 1e-300 else 0.0


def _cell(a: float, b: float, delta_a: float, delta_b: float, floor: float) -> float:
    """The mu that the profile between two points asks for: it is below the chord, and below its value at a.

    The chord is the corner ``(alpha, beta)`` of a trade-off function, alpha minus its slope in e^epsilon; ``G_mu(alpha)`` must be
    at most ``beta + floor``, rounded down: it is a difference. Or ``delta_mu`` must be as large at b as the profile is at a: that
    is close where b is next to a, and the chord between two upper ends may then be steeper than any profile.
    """
    step = _row(b, delta_a, floor, 1.0)
    fall = max(delta_a - delta_b, 0.0) / math.expm1(b - a) if b < 700 else 0.0
    alpha = fall / math.exp(min(a, 700.0))
    beta = min(1 - delta_a - fall + floor - 8 * ULP * (1 - delta_a + fall + floor), 1.0)
    if not 0 < alpha < 1 or not beta > 0:
        return step
    # Phi^-1(1 - alpha) = -Phi^-1(alpha), which keeps the digits of a small alpha.
    return min(max(float(-ndtri(alpha) - ndtri(beta)) + 8 * ULP, 0.0), step)
