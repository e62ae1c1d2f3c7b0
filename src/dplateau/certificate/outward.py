"""Numbers as certificates hold them: eight digits, rounded to the safe side, and compared with what another machine computes.

Two machines may compute the same bound with other last digits. Upper ends are therefore rounded up to eight significant digits when
they are written, lower ends down, and a file with more digits is refused: a lower number has to be lower by a unit of the
eighth digit, or it is not a certificate's number. A claim is confirmed if it is what the recomputed number rounds to, give or take
what differs between machines.
"""

from __future__ import annotations

import math
from typing import Final

from dplateau.accounting import Enclosure
from dplateau.accounting.enclosure import down, up

MACHINES: Final = 1e-11
"""Relative difference of two computations of one number on two machines: measured, at most 3e-13 at deltas of at least 1e-8."""
CANCELLED: Final = 1e-18
"""What adds to it, over delta: rounding moves sums of probabilities, whatever they are compared with. Measured at delta 1e-10:
3e-9."""
MOST: Final = 1e-6
"""The largest difference that is put down to machines: a claim at a delta below 1e-12 that differs by more is not confirmed."""


def outward(enclosure: Enclosure) -> Enclosure:
    """The enclosure with ends of eight digits."""
    return Enclosure(down(enclosure.lower), up(enclosure.upper))


def confirms_upper(computed: float, claimed: float, delta: float) -> bool:
    """Whether ``claimed`` is what ``computed``, an upper end at ``delta``, may have been rounded to somewhere else."""
    slack = _slack(computed, delta)
    return up(computed - slack) <= claimed <= up(computed + slack)


def confirms_lower(computed: float, claimed: float, delta: float) -> bool:
    """The same for a lower end."""
    slack = _slack(computed, delta)
    return down(max(computed - slack, 0.0)) <= claimed <= down(computed + slack)


def _slack(computed: float, delta: float) -> float:
    return 0.0 if math.isinf(computed) else min(MACHINES + CANCELLED / delta, MOST) * max(computed, 1e-3)
