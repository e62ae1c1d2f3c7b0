"""delta of a composition at one epsilon, or at many: the best method for what is composed.

A line of the contour and a convolution on a lattice are made for one epsilon, around which they are best, but they enclose delta at
every epsilon. So few of them make a whole profile.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import Final

import numpy as np

from dplateau.accounting.contour import at_most, line_at
from dplateau.accounting.enclosure import Enclosure
from dplateau.accounting.gaussian import SLACK, gdp_delta_above
from dplateau.accounting.lattice import tails_at
from dplateau.accounting.privacy_loss import TooSlowError
from dplateau.accounting.sparse import NARROW, RARE, sparse_tails_at
from dplateau.accounting.terms import Composition, Repeated

Read = Callable[[float], Enclosure]
Make = Callable[[float, Enclosure, float], Read]
_CLOSE: Final = 1e-4
"""A line or a lattice that was made for another epsilon serves where it knows delta to this share."""
_MOST, _VAIN = 8, 2
"""So many of each kind are made, fewer where those say little even where they are best; then they have to serve, however wide."""


class Reading:
    """The profile of one direction, which has terms.

    Parameters
    ----------
    composition : Composition
        Its steps.
    width : float
        The width, in epsilon, that lattices aim for.
    least : float
        Of smaller deltas only that they are small is asked.
    rounded : bool
        Whether some laws were rounded upwards: they may lie above an upper end for the steps themselves.
    """

    def __init__(self, composition: Composition, width: float, least: float = 0.0, *, rounded: bool = False) -> None:
        self.composition, self.width, self.least, self.rounded = composition, width, least, rounded
        self.known: list[Read] = []
        self.left: dict[Make, int] = dict.fromkeys((self._line, self._lattice, self._sparse), _MOST)
        self.latest = 1.0

    @cached_property
    def most(self) -> float:
        """delta at 0 is no more, so at no epsilon."""
        if not self.composition.gaussian:
            with suppress(ArithmeticError, ValueError):
                return min(self.composition.variation(), 1.0)
        return 1.0

    @np.errstate(all="ignore")  # What overflows is caught as not finite.
    def __call__(self, epsilon: float, other: float = 0.0) -> Enclosure:
        """delta at ``epsilon`` >= 0, enclosed, or that it is at most ``other``."""
        composition = self.composition
        # Sampling never costs privacy.
        found = Enclosure(0.0, gdp_delta_above(composition.unsampled, epsilon))
        if composition.alone is not None:
            with suppress(ArithmeticError, ValueError):
                return found.meet(self._closed(composition.alone, epsilon), rounded=self.rounded)
        if epsilon > composition.greatest * (1 + SLACK):
            return Enclosure(0.0, 0.0)  # No loss is larger, and nothing need be searched.
        floor = max(other, _CLOSE * self.least)
        for read in self.known:
            found = found.meet(read(epsilon), rounded=self.rounded)
        if not self._serves(found, _CLOSE, floor) and other > 0 and epsilon > 0 and at_most(composition, epsilon, other):
            return Enclosure(0.0, other)
        enough = _CLOSE
        for make, left in self.left.items():
            if self._serves(found, enough, floor):
                break
            if left > 0:
                found = self._made(make, epsilon, found, floor)
            enough = NARROW
        self.latest = found.upper
        return Enclosure(min(found.lower, self.most), min(found.upper, self.most))

    def _made(self, make: Make, epsilon: float, found: Enclosure, floor: float) -> Enclosure:
        """What is known with one more of a kind."""
        self.left[make] -= 1
        try:
            read = make(epsilon, found, floor)
            better = found.meet(read(epsilon), rounded=self.rounded)
        except (ArithmeticError, ValueError):  # too slow, an overflow, or not a number: nothing is known
            better = found
        else:
            self.known.append(read)
        if not better.width <= found.width / 2:
            self.left[make] -= _MOST // _VAIN
        return better

    def _serves(self, found: Enclosure, share: float, floor: float) -> bool:
        return found.upper <= floor or found.width <= share * max(found.upper, self.least)

    def _closed(self, term: Repeated, epsilon: float) -> Enclosure:
        """The profile of one law; where that is rounded, the contour may know more."""
        value, room = term.law.closed(epsilon)
        closed = Enclosure(max(value - room, 0.0), min(value + room, 1.0))
        if term.rounded:
            with suppress(ArithmeticError, ValueError):
                found = line_at(self.composition, epsilon).delta(epsilon)
                return Enclosure(found.lower, min(found.upper, closed.upper))
        return closed

    def _line(self, epsilon: float, found: Enclosure, floor: float) -> Read:
        return line_at(self.composition, epsilon).delta

    def _lattice(self, epsilon: float, found: Enclosure, floor: float) -> Read:
        return tails_at(self.composition, epsilon, self.width, floor)

    def _sparse(self, epsilon: float, found: Enclosure, floor: float) -> Read:
        """For steps that are drawn seldom."""
        if not (epsilon > 0 and self.composition.rate <= RARE):
            raise TooSlowError
        return sparse_tails_at(self.composition, epsilon, found, self.width, floor)
