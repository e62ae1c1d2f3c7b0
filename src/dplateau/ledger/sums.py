"""What an account has spent: whole runs, and of every partition the part that spent most. Proof: ``docs/proofs/ledger.md``."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dplateau.filter import ROOM


@dataclass(frozen=True)
class Sums:
    """Sums of an account that one more run may change, rounded up.

    Attributes
    ----------
    total : float
        What is spent: the costs of runs on all records, and for each partition the largest sum of one of its parts.
    partition : float
        The largest sum of a part of the run's partition; 0 for a run on all records.
    part : float
        The sum of the run's part; 0 for a run on all records.
    """

    total: float = 0.0
    partition: float = 0.0
    part: float = 0.0

    @property
    def spent(self) -> float:
        """What a budget has to cover, as ``Filter`` counts it."""
        return self.total * (1 + ROOM)

    def after(self, cost: float, *, whole: bool) -> Sums:
        """The sums with one more run, on all records or on the part."""
        if whole:
            return Sums(added(self.total, cost))
        part = added(self.part, cost)
        if part <= self.partition:
            return Sums(self.total, self.partition, part)
        return Sums(added(self.total, added(part, -self.partition)), part, part)

    def left(self, budget: float) -> float:
        """The share of a budget that is left, from 1 to 0."""
        return max(1 - self.spent / budget, 0.0)

    def room(self, budget: float) -> float:
        """About the share that the run may cost: one on a part also what another part of its partition has spent more."""
        return Sums(self.total - self.partition + self.part).left(budget)


@dataclass(frozen=True)
class Places:
    """How many places the parts of a partition have. Disjoint parts have no more than the account has records.

    Attributes
    ----------
    partition : int
        The sum over its parts of the largest n of a run on each.
    part : int
        The largest n of a run on this part.
    """

    partition: int = 0
    part: int = 0

    def after(self, n: int) -> Places:
        """The places with one more run on the part."""
        more = max(n - self.part, 0)
        return Places(self.partition + more, self.part + more)


def covers(budget: float, sums: Sums) -> bool:
    """Whether a budget covers what is spent."""
    return sums.spent <= budget


def added(one: float, other: float) -> float:
    """The sum of two finite numbers, rounded up where it is not exact."""
    total = one + other
    most = total - one
    error = (one - (total - most)) + (other - most)  # exactly what the addition lost (Knuth)
    return math.nextafter(total, math.inf) if error > 0 else total
