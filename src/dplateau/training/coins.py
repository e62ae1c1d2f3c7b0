"""Gaps between heads, decided exactly where double precision cannot.

A coin that shows heads with probability q shows ``floor(log u / log(1 - q))`` tails before, u uniform on (0, 1). A quotient of
rounded logarithms misses the true one by some units in the last place, so the few that are that near to a whole number are decided
here, with as many digits of u as that takes. Then a gap has exactly its law.
"""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from typing import Final

_MORE: Final = 40
"""Decimal digits beyond those of the numbers themselves."""


def uncertain(count: int, probability: float) -> float:
    """How near to a whole number a gap in double precision, of at most ``count``, may be on the wrong side of it.

    A logarithm and a quotient are right to 2^-48 of themselves, and u, which is at least 2^-116, to 2^-51.
    """
    rate = -math.log1p(-probability)
    return min(count, 81 / rate) * 2.0**-48 + 2.0**-50 / rate


def whole_gap(digits: int, places: int, probability: float, most: int) -> int | None:
    """The tails before the next head, or ``most`` where they are more, for every u from ``digits`` to ``digits + 1`` units of
    ``2^-places``; None if they differ.
    """
    precision = places + probability.as_integer_ratio()[1].bit_length() + _MORE  # all arguments below are exact
    with decimal.localcontext(decimal.Context(prec=precision, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)):
        rate = (1 - Decimal(probability)).ln()
        unit, slack = Decimal(2) ** -places, Decimal(10) ** (10 - precision)
        fewest = int((unit * (digits + 1)).ln() / rate * (1 - slack))
        if fewest >= most:
            return most
        return fewest if digits and fewest == int((unit * digits).ln() / rate * (1 + slack)) else None
