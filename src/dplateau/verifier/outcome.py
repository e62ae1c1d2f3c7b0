"""What is claimed of a run, and what was found; without ball arithmetic, so that a certificate can name it at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from dplateau.spec import Run

_DIGITS: Final = 15
"""More digits than these are not told."""


class Outcome(StrEnum):
    """What balls say of a claim."""

    VERIFIED = "verified"
    """The theorem gives delta at the epsilon that is claimed, or less."""
    REFUTED = "refuted"
    """What the theorem gives is more than delta."""
    NOT_DECIDED = "not decided"


class Part(NamedTuple):
    """One run, the bound that is claimed of it, and over how many steps that looks back, if it does."""

    run: Run
    bound: str
    steps: int | None = None


@dataclass(frozen=True)
class Checked:
    """What was found.

    Attributes
    ----------
    outcome : Outcome
        Verified, refuted or not decided.
    why : str or None
        Why it is not decided.
    lower, upper : float
        Ends of a ball that holds the least epsilon that the theorem gives at delta: 0 and infinity where that is not known.
    seconds : float
        How long it took.
    """

    outcome: Outcome
    why: str | None
    lower: float = 0.0
    upper: float = math.inf
    seconds: float = 0.0

    @property
    def digits(self) -> int | None:
        """To how many digits the theorem's epsilon is known; None where there is no lower end."""
        if not 0 < self.lower <= self.upper < math.inf:
            return None
        return min(math.floor(-math.log10(max((self.upper - self.lower) / self.upper, 10.0**-_DIGITS))), _DIGITS)


def failed(error: Exception) -> str:
    """Why a computation that ended with an error decides nothing."""
    return f"the computation failed: {str(error) or type(error).__name__}"
