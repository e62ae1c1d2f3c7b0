"""Batches that all have the same size were not drawn by Poisson sampling."""

from __future__ import annotations

import math
from typing import Final

LOG_CHANCE: Final = math.log(1e-12)
"""Log of the probability that Poisson batches are taken for others."""
_SHARPEST: Final = 0.469
"""A sum of independent coin tosses of variance v takes no value with a probability above this over sqrt(v) (Baillon, Cominetti,
Vaisman 2016, "A sharp uniform bound for the distribution of sums of Bernoulli trials").
"""


class BatchSizes:
    """Counts how many batches are as large as the first one, which says whether they can have been drawn by Poisson sampling.

    Parameters
    ----------
    rate, expected : float
        Sampling rate and expected size of a batch.
    """

    def __init__(self, rate: float, expected: float) -> None:
        variance = expected * (1 - rate)
        self._chance = min(_SHARPEST / math.sqrt(variance), 1.0) if variance > 0 else 1.0
        self._first: int | None = None
        self._later = self._equal = 0

    def saw(self, size: int) -> None:
        """Count one batch."""
        if self._first is None:
            self._first = size
            return
        self._later += 1
        self._equal += size == self._first

    @property
    def too_regular(self) -> bool:
        """Whether Poisson batches would be as regular with a probability below 1e-12 only (Chernoff's bound)."""
        share = self._equal / self._later if self._later else 0.0
        if share <= self._chance:
            return False
        rest = (1 - share) * math.log((1 - share) / (1 - self._chance)) if share < 1 else 0.0
        return -self._later * (share * math.log(share / self._chance) + rest) < LOG_CHANCE
