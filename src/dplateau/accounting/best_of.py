"""The best of many guarantees that all hold."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Final

from dplateau.accounting.composition import Guarantee
from dplateau.accounting.enclosure import Enclosure
from dplateau.accounting.roots import root

_CLOSE: Final = 1.1
"""Neighbours whose ratio is smaller than this are not searched further."""
_DELTAS: Final = (math.log(1e-16), math.log(1e-2))
_NEAR, _SAME = 0.3, 1e-2
"""Where the delta is asked for, members are chosen for one whose log is between these, about so far from the right one; and again
for what comes out, unless that is the same.
"""
_FARTHEST: Final = 1e3
"""Where epsilon is infinite, the search for that delta counts this."""
_FEW: Final = 12
"""Up to so many members are all tried."""
_RISES: Final = 4
"""So many numbers, each half of the one before, and none of the last three the best: smaller ones are not tried."""
_FAR: Final = 2.0
"""The upper end of the last member is not asked for where it is above 1, and about so many times the best one."""
_GOLDEN: Final = (math.sqrt(5) - 1) / 2


def least_delta(found: Callable[[float], Enclosure], about: Callable[[float], float], epsilon: float) -> Enclosure:
    """The least delta at ``epsilon`` that is found: where members are chosen for the delta at which epsilon is about that, and then
    for what came out.
    """

    @cache
    def excess(log_delta: float) -> float:
        return min(max(about(math.exp(log_delta)) - epsilon, -_FARTHEST), _FARTHEST)

    if excess(_DELTAS[0]) <= 0:
        asked = _DELTAS[0]
    elif excess(_DELTAS[1]) >= 0:
        asked = _DELTAS[1]
    else:
        asked = root(excess, *_DELTAS, xtol=_NEAR)
    best = found(math.exp(asked))
    for _ in range(2):
        if not 0 < best.upper < 1 or abs(math.log(best.upper) - asked) <= _SAME:
            break
        asked = math.log(best.upper)
        best = min(best, found(best.upper), key=lambda enclosure: enclosure.upper)
    return best


@dataclass(frozen=True, eq=False)
class BestOf(Guarantee):
    """The least epsilon (or delta) of a family of valid guarantees, numbered from 1 to ``most``.

    Of the numbers up to ``limit`` few are all tried; of many, those that are each half of the next, and the best stretch is
    narrowed down. The result is compared with that of ``most``. The search may miss the best member; whichever it finds holds.

    Attributes
    ----------
    member : callable
        The guarantee of a number.
    most : int
        The last number.
    limit : int
        The last number that is searched.
    rough : callable
        Of a number and a delta: about what epsilon is, for the search alone.
    """

    family: ClassVar[bool] = True

    member: Callable[[int], Guarantee]
    most: int
    limit: int
    rough: Callable[[int, float], float]

    def epsilon(self, delta: float) -> Enclosure:
        return min((member.epsilon(delta) for member in self._among(delta)), key=lambda enclosure: enclosure.upper)

    def upper(self, delta: float) -> float:
        about, number = self._found(delta)
        best = self.member(number).upper(delta)
        if number == self.most or self.rough(self.most, delta) > max(_FAR * about, 1.0):
            return best
        return min(best, self.member(self.most).upper(delta))

    def delta(self, epsilon: float) -> Enclosure:
        return least_delta(lambda delta: self.read(delta, epsilon), self.about, epsilon)

    def read(self, delta: float, epsilon: float) -> Enclosure:
        """The delta at ``epsilon`` of the members among which the search ends at ``delta``."""
        return min((member.delta(epsilon) for member in self._among(delta)), key=lambda enclosure: enclosure.upper)

    def _among(self, delta: float) -> list[Guarantee]:
        """The members of which one is the best that the search finds at ``delta``."""
        return [self.member(number) for number in sorted({self._found(delta)[1], self.most})]

    def about(self, delta: float) -> float:
        """About what epsilon is, for searches."""
        return min(self._found(delta)[0], self.rough(self.most, delta))

    def divergence(self, order: float) -> float:
        tried = {self.limit >> k for k in range(self.limit.bit_length())}
        return min(self.member(number).divergence(order) for number in sorted(tried | {self.most}))

    def chosen(self, delta: float) -> Guarantee:
        return min(self._among(delta), key=lambda member: member.upper(delta))

    def _tried(self, cost: Callable[[int], float]) -> list[int]:
        """All numbers where they are few; else ``limit``, its half, and so on, until they cost more and more."""
        if self.limit <= _FEW:
            return [*range(1, self.limit + 1)]
        tried = [self.limit]
        while tried[-1] > 1 and (len(tried) < _RISES or min(map(cost, tried[1 - _RISES :])) <= min(map(cost, tried))):
            tried.append(tried[-1] // 2)
        return tried[::-1]

    def _found(self, delta: float) -> tuple[float, int]:
        """About what the least epsilon is, and its number, which may be ``most``."""

        @cache
        def cost(number: int) -> float:
            return self.rough(number, delta)

        tried = self._tried(cost)
        place = min(range(len(tried)), key=lambda index: cost(tried[index]))
        low, best, high = tried[max(place - 1, 0)], tried[place], tried[min(place + 1, len(tried) - 1)]
        while high / low > _CLOSE and max(high - best, best - low) > 1:
            upwards = high - best > 1 and (high / best > best / low or best - low <= 1)
            middle = round(best * (high / best if upwards else low / best) ** (1 - _GOLDEN))
            middle = min(max(middle, best + 1), high - 1) if upwards else max(min(middle, best - 1), low + 1)
            if cost(middle) < cost(best):
                low, best, high = (best, middle, high) if upwards else (low, middle, best)
            elif upwards:
                high = middle
            else:
                low = middle
        return cost(best), best
