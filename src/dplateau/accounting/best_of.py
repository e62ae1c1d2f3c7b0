"""The best of many guarantees that all hold."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

from dplateau.accounting.composition import Guarantee
from dplateau.accounting.enclosure import Enclosure

_CLOSE: Final = 1.1
"""Neighbours whose ratio is smaller than this are not searched further."""
_GOLDEN: Final = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True, eq=False)
class BestOf(Guarantee):
    """The least epsilon (or delta) of a family of valid guarantees, numbered from 1 to ``most``.

    The search starts at ``guess``, doubles both ways while that helps, and narrows the best stretch down. It may miss the best
    member; whichever it finds holds.

    Attributes
    ----------
    member : callable
        The guarantee of a number.
    guess, most : int
        Where to start, and the last number.
    rough : callable, optional
        A cheaper stand-in for ``member``, for the search alone.
    """

    member: Callable[[int], Guarantee]
    guess: int
    most: int
    rough: Callable[[int], Guarantee] | None = None

    def epsilon(self, delta: float) -> Enclosure:
        """See ``Guarantee``."""
        return self._least(lambda guarantee: guarantee.epsilon(delta))

    def delta(self, epsilon: float) -> Enclosure:
        """See ``Guarantee``."""
        return self._least(lambda guarantee: guarantee.delta(epsilon))

    def _least(self, value: Callable[[Guarantee], Enclosure]) -> Enclosure:
        rough = self.rough or self.member

        @cache
        def cost(number: int) -> float:
            return value(rough(number)).upper

        best = min(max(self.guess, 1), self.most)
        candidates = sorted({best, min(2 * best, self.most), max(best // 2, 1), self.most})
        best = min(candidates, key=cost)
        while 1 < best < self.most:
            low, high = max(best // 2, 1), min(2 * best, self.most)
            further = min((low, high), key=cost)
            if cost(further) >= cost(best):
                best = self._narrowed(cost, low, best, high)
                break
            best = further
        return value(self.member(best))

    @staticmethod
    def _narrowed(cost: Callable[[int], float], low: int, best: int, high: int) -> int:
        """Golden section in the logarithm."""
        while high / low > _CLOSE and high - low > 2:
            wider_right = high / best > best / low
            ratio = (high / best if wider_right else low / best) ** (1 - _GOLDEN)
            middle = round(best * ratio)
            middle = min(max(middle, low + 1), high - 1)
            if middle == best:
                middle += 1 if wider_right else -1
            if cost(middle) < cost(best):
                low, best, high = (best, middle, high) if middle > best else (low, middle, best)
            elif middle > best:
                high = middle
            else:
                low = middle
        return best
