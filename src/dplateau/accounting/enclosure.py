"""Numbers that are known to lie in an interval."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import Final

DIGITS: Final = 8
"""Significant digits of the numbers that certificates hold."""
_UP: Final = Context(prec=DIGITS, rounding=ROUND_CEILING)
_DOWN: Final = Context(prec=DIGITS, rounding=ROUND_FLOOR)


@dataclass(frozen=True)
class Enclosure:
    """A true value lies in ``[lower, upper]``; certificates use ``upper``. ``upper`` may be infinite, nothing may be NaN."""

    lower: float
    upper: float

    def __post_init__(self) -> None:
        if not self.lower <= self.upper:
            raise ArithmeticError(f"[{self.lower}, {self.upper}] is not an interval: the computation that produced it failed.")

    @property
    def width(self) -> float:
        """``upper - lower``, 0 where both are infinite."""
        return 0.0 if self.lower == self.upper else self.upper - self.lower

    def __or__(self, other: Enclosure) -> Enclosure:
        """The enclosure of the larger of two values."""
        return Enclosure(max(self.lower, other.lower), max(self.upper, other.upper))

    def meet(self, other: Enclosure, *, rounded: bool = False) -> Enclosure:
        """Where two enclosures of one value meet. If it is ``rounded`` upwards in one, its lower end may lie above the other."""
        lower, upper = max(self.lower, other.lower), min(self.upper, other.upper)
        return Enclosure(min(lower, upper) if rounded else lower, upper)


def rounded_up(value: float, digits: int = 6) -> str:
    """A number with at most so many digits, never smaller than it is: an epsilon must not look better than it is."""
    text = f"{value:.{digits}g}"
    if not math.isfinite(value) or float(text) >= value:
        return text
    return f"{float(Context(digits, ROUND_CEILING).create_decimal_from_float(value)):.{digits}g}"


def up(value: float) -> float:
    """The least number of eight digits that is not smaller."""
    return _rounded(value, _UP)


def down(value: float) -> float:
    """The largest number of eight digits that is not larger."""
    return _rounded(value, _DOWN)


def is_rounded(value: float) -> bool:
    """Whether a number has at most eight digits."""
    return not math.isfinite(value) or float(f"{value:.{DIGITS}g}") == value


def _rounded(value: float, direction: Context) -> float:
    """A number that has eight digits already stays: what is written 0.1 is not quite 0.1, and must not grow when it is read."""
    return value if is_rounded(value) else float(direction.create_decimal_from_float(value))
