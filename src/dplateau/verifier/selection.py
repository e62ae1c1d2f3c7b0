"""Private selection: each of several candidates is tried with probability p, and only the best one is told.

Theorem (``docs/proofs/private-selection.md``): what K candidates tell has a Renyi divergence of order a = 1 + c of at most

    ``1/c log( p sum_j M_j(c) prod_(i != j) G_i / (1 - (1 - p)^K) )``,  ``M(c) = E exp(c loss)``,
    ``G = sup over x of (1 - p x)^a (1 - p + p f(x))^(-c)``,

f a candidate's trade-off function. Each delta of its profile gives two lines below f, with the slopes -exp(epsilon) and
-exp(-epsilon). [0, 1] is cut where neighbouring lines meet, about, and each line stands for f on its piece. There the logarithm of
the expression has a derivative with the sign of a linear function that rises, so it is largest at an end; and, since
``1 - p + p f`` is also bounded by the divergence of order 1 + 2c, it is at most ``(log M(2c) + log(1 - p x))/2``, x the left end.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Final

from flint import arb

from dplateau.verifier.balls import exact
from dplateau.verifier.check import Whole, together
from dplateau.verifier.divergence import SURELY, converted, decided, less_one, log_moment
from dplateau.verifier.outcome import Checked, Outcome, Part
from dplateau.verifier.quadrature import TooHardError
from dplateau.verifier.statement import Statement

_LEAST: Final = 1e-6
"""Epsilons are measured in units of one with a delta below this."""
_FIRST: Final = (1.0, 0.5, 0.25, 0.125, 0.0, -0.125, -0.25, -0.5, -1.0)
"""Lines that are always drawn."""
_ROUNDS, _CLOSE = 32, 1e-5
"""So often at most two more are drawn, around the piece that is worst, until its neighbour is so close."""
_OTHER: Final = "another order may give less"
_NEAR, _DELTA = 1 / 8, 1e-4
"""Deltas are computed from this epsilon, as well as is needed for this delta."""
_POINTS: Final = (2**13, 2**16)
"""Points of a lattice, where one is needed: what the first cannot prove the next may."""


class _Candidate:
    """One candidate at one order 1 + c: moments of its loss, and lines below its trade-off function."""

    def __init__(self, said: Statement, c: arb, points: int) -> None:
        self.said, self.c, self.points, self._lines = said, c, points, {-math.inf: (exact(0), exact(0))}
        self.own, self.further = log_moment(said, c), arb.pos_inf()
        with suppress(TooHardError):  # Then it bounds nothing.
            self.further = log_moment(said, 2 * c)

    @cached_property
    def _first(self) -> float:
        """An epsilon with a small delta, by the divergence."""
        return float((self.own / self.c).upper()) - math.log(_LEAST) / float(self.c)

    @cached_property
    def _whole(self) -> Whole:
        whole = Whole(self.said, exact(self._first * _NEAR), _DELTA)
        whole.refine(self.points)
        return whole

    @property
    def on_lattices(self) -> bool:
        """Whether more points could raise its lines."""
        return "_whole" in vars(self) and self._whole.on_lattices

    def _line(self, t: float) -> tuple[arb, arb]:
        """A line below f, by its height at 0 and how it falls: ``exp(t)``."""
        if t not in self._lines:
            delta, fall = self._whole.at(exact(abs(t))).upper(), exact(t).exp()
            self._lines[t] = (1 - delta) * (fall if t < 0 else 1), fall
        return self._lines[t]

    def log_rank(self, p: arb) -> arb:
        """A bound on log G."""
        falls, pieces = [k * self._first for k in _FIRST], list[arb]()
        for _ in range(_ROUNDS):
            pieces = self._pieces(p, [*falls, -math.inf])
            worst = max(range(len(pieces)), key=lambda k: float(pieces[k]))
            around = [falls[0] + 2 * self._first, *falls, falls[-1] - 2 * self._first][worst : worst + 3]
            if around[0] - around[1] < _CLOSE * self._first:
                break
            falls = sorted({*falls, *((s + t) / 2 for s, t in pairwise(around))}, reverse=True)
        return min(max(pieces), self.own.upper())

    def _pieces(self, p: arb, falls: list[float]) -> list[arb]:
        """The largest of the expression's logarithm where each line stands for f, from above: 0 where it does nowhere."""

        def at(x: arb, line: tuple[arb, arb]) -> arb:
            below = 1 - p + p * (line[0] - line[1] * x)
            found = ((1 + self.c) * (1 - p * x).log() - self.c * below.log()).upper()
            return found if below > 0 and found.is_finite() else arb.pos_inf()

        found, left, lines = [exact(0)] * len(falls), exact(0), [self._line(t) for t in falls]
        for k, line in enumerate(lines):
            right = exact(1)
            if k + 1 < len(lines):
                right = ((line[0] - lines[k + 1][0]) / (line[1] - lines[k + 1][1])).mid()
                if not left < right < 1:
                    continue  # The next line stands for f from here on.
            tail = ((self.further + (1 - p * left).log()) / 2).upper()
            found[k] = min(max(at(left, line), at(right, line)), tail)
            left = right
        return found


class _Selection:
    """The divergence of the theorem."""

    def __init__(self, candidates: Sequence[Sequence[Part]], probability: float, order: float) -> None:
        self.candidates, self.probability, self.order = Counter(map(tuple, candidates)), probability, order
        self.known: dict[tuple[Part, ...], _Candidate] = {}

    def divergence(self, points: int) -> arb:
        """With so many points of a lattice for each candidate that needs one."""
        if not 0 < self.probability <= 1:
            raise ValueError(f"the probability is {self.probability:g}: it must be above 0 and at most 1")
        p, c, count = exact(self.probability), less_one(self.order), self.candidates.total()
        ranked, told = exact(0), exact(0)
        for parts, times in self.candidates.items():
            if parts not in self.known or self.known[parts].on_lattices:
                self.known[parts] = _Candidate(together(parts, SURELY), c, points)
            one = self.known[parts]
            rank = one.log_rank(p)
            ranked += times * rank
            told += times * (one.own - rank).exp()
        return ((p * told / (1 - (1 - p) ** count)).log() + ranked) / c

    def check(self, read: Callable[[arb], arb], claimed: float) -> Checked:
        """Whether what is read of the divergence is at most what is claimed."""
        found, more = decided(lambda: read(self.divergence(_POINTS[0])), claimed, _OTHER), None
        if found.outcome is not Outcome.VERIFIED and any(one.on_lattices for one in self.known.values()):
            more = decided(lambda: read(self.divergence(_POINTS[1])), claimed, _OTHER)
        return found if more is None else replace(more, seconds=found.seconds + more.seconds)


def check_selection(
    candidates: Sequence[Sequence[Part]], probability: float, order: float, epsilon: float, delta: float
) -> Checked:
    """Whether telling the best of several candidates is (epsilon, delta)-private; nothing is refuted, since another order may do.

    Parameters
    ----------
    candidates : sequence of sequence of Part
        The runs of each candidate, with bounds that have a divergence.
    probability, order : float
        With which each candidate is tried; of the divergence, above 1: any order is a bound.
    epsilon, delta : float
        The claim, as exact numbers.
    """
    return _Selection(candidates, probability, order).check(lambda found: converted(found, order, delta), epsilon)


def check_selection_cost(candidates: Sequence[Sequence[Part]], probability: float, order: float, cost: float) -> Checked:
    """Whether telling the best of several candidates has a Renyi divergence of at most ``cost``."""
    return _Selection(candidates, probability, order).check(lambda found: found, cost)
