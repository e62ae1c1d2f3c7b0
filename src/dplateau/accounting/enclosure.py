"""Numbers that are known to lie in an interval."""

from __future__ import annotations

import math
from dataclasses import dataclass


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
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    unit = 10.0 ** (math.floor(math.log10(value)) + 1 - digits)
    text = f"{value:.{digits}g}"
    return text if float(text) >= value else f"{value + unit / 2:.{digits}g}"
