"""The whole profile of a composition of few steps, from a handful of convolutions.

A contour for few steps has thousands of nodes at every epsilon, and a lattice that is made for one epsilon is made again for the
next. Here one lattice serves all: its law is tilted twice, and either tilt encloses delta at every epsilon, best near its saddle
point.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from dplateau.accounting.contour import WIDTH, log_saddle_delta, saddle, saddle_epsilon
from dplateau.accounting.dotted import dots, steps_of, tangents
from dplateau.accounting.enclosure import Enclosure
from dplateau.accounting.lattice import Lattices, Tail
from dplateau.accounting.privacy_loss import TooSlowError
from dplateau.accounting.terms import Composition

Read = Callable[[float], Enclosure]
_SIZES: Final = (2**19, 2**20)
_SHARES: Final = (0.15, 0.6)
"""The logs of delta at which the tilts have their saddle points, in units of the least one."""
_NARROW: Final = 1e-3
"""Greatest relative width of an enclosure of delta with which a table is content."""
_PROBES: Final = 9
_MOST: Final = 2**22


def profile_table(composition: Composition, last: float, least: float) -> Read:
    """``delta`` at any epsilon from 0 to ``last``, enclosed; narrow where it is ``least`` or more.

    Raises
    ------
    TooSlowError
        The enclosures would be wide.
    """
    lattices = Lattices(steps_of(composition), WIDTH)
    lattices.aim(math.log(least))
    rough = lattices.laws(dots, lattices.coarse)
    tilts: list[tuple[float, float, float]] = []
    for share in _SHARES:
        target = share * math.log(least)
        c = saddle(lambda x, target=target: log_saddle_delta(x, *rough.cumulants(x)) - target)
        epsilon = max(saddle_epsilon(c, rough.cumulants(c)[1]), 0.0)
        lattices.tune(rough, c, epsilon, target)
        tilts.append((lattices.c, epsilon, lattices.factor))
    for size in _SIZES:
        if size * len(lattices.steps) > _MOST:
            break
        read = _reader(lattices, size, tilts)
        probes = [read(epsilon) for epsilon in np.linspace(0.0, last, _PROBES).tolist()]
        if all(found.width <= _NARROW * max(found.upper, least) for found in probes):
            return read
    raise TooSlowError


def _reader(lattices: Lattices, size: int, tilts: list[tuple[float, float, float]]) -> Read:
    """What a lattice of so many points says."""
    h = lattices.period / size
    sides: list[list[Tail]] = []
    for build in (dots, tangents):
        laws = lattices.laws(build, h)
        sides.append([laws.tail(c, epsilon, size, factor, above=build is dots) for c, epsilon, factor in tilts])

    def known(side: list[Tail], epsilon: float) -> list[float]:
        return [tail.delta(epsilon) for tail in side if tail.e[0] < epsilon <= tail.e[-1]]

    def read(epsilon: float) -> Enclosure:
        upper = max(min(1.0, *known(sides[0], epsilon), 1.0), 0.0)
        return Enclosure(min(max(0.0, *known(sides[1], epsilon), 0.0), upper), upper)

    return read
