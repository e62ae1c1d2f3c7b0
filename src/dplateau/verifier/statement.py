"""What a theorem says of a run, in balls: a mixture of compositions, and what it leaves to chance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from flint import arb

from dplateau.verifier.balls import exact


class Law(ABC):
    """A dominating pair (P, Q) of one step. Equal laws are equal objects, or hash alike."""

    @abstractmethod
    def profile(self, epsilon: arb) -> arb:
        """A bound on delta of (P, Q) at ``epsilon`` >= 0: exact, or from above."""

    @property
    @abstractmethod
    def reverse(self) -> Law:
        """The law of (Q, P); a symmetric one is its own."""


@dataclass(frozen=True, eq=False)
class Composition:
    """Independent steps in one direction: laws with the number of steps that have each, and ``square``, the sum of the squared
    mu of all Gaussian steps.
    """

    parts: tuple[tuple[Law, int], ...]
    square: arb

    def __add__(self, other: Composition) -> Composition:
        counts: dict[Law, int] = {}
        for law, count in (*self.parts, *other.parts):
            counts[law] = counts.get(law, 0) + count
        return Composition(tuple(counts.items()), self.square + other.square)


MOST: Final = 600_000
"""Compositions of one direction; runs together have the product of theirs. Two shuffled runs always have fewer: a minute or two."""
Mixture = tuple[tuple[arb, Composition], ...]
"""Weights that sum to at most 1, and what holds with each."""


@dataclass(frozen=True)
class Statement:
    """``delta(epsilon) <= slack + the largest, over the directions, of the mixture's mean delta(epsilon)``.

    Attributes
    ----------
    directions : tuple of Mixture
        (P, Q) and (Q, P); one entry where they are alike.
    slack : arb
        The probability of all that is left to chance.
    """

    directions: tuple[Mixture, ...]
    slack: arb

    @classmethod
    def of(cls, *directions: Composition, slack: arb | None = None) -> Statement:
        """One composition for each direction."""
        one = exact(1)
        return cls(tuple(((one, composition),) for composition in directions), exact(0) if slack is None else slack)

    @classmethod
    def gaussian(cls, squares: Sequence[tuple[arb, arb]], slack: arb | None = None) -> Statement:
        """A mixture of Gaussian mechanisms: pairs of a weight and a squared mu."""
        mixture = tuple((weight, Composition((), square)) for weight, square in squares)
        return cls((mixture,), exact(0) if slack is None else slack)

    def __add__(self, other: Statement) -> Statement:
        """Both on the same records: pairs compose, direction by direction, and what is symmetric counts in both."""
        count = max(len(self.directions), len(other.directions))
        pairs = [(self.directions[i % len(self.directions)], other.directions[i % len(other.directions)]) for i in range(count)]
        if (cases := max(len(one) * len(two) for one, two in pairs)) > MOST:
            raise ValueError(f"the runs have {cases:,} combinations of places to look at: at most {MOST:,} can be checked")
        joined = tuple(tuple((v * w, one + two) for (v, one), (w, two) in product(*pair)) for pair in pairs)
        return Statement(joined, self.slack + other.slack)
