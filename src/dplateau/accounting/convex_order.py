"""Sums of independent random variables, enclosed in the convex order.

``V`` is above ``U`` in the convex order if ``E F(U) <= E F(V)`` for every convex F; sums of independent variables keep the order.
A law lies on numbers like those of floating-point arithmetic: lattices of spacing 2^scale that are the finer the nearer they are to
the middle of the law, or to 0. A sum that falls between its points is rounded

- *upwards in the order*: its mass is split between the two neighbours, and the mean kept. What lies too far out becomes mass at 0
  and mean at infinity, which is above everything of that mass and mean. Where values may be negative, F must rise: too small a
  value becomes the least one, too large a one the greatest, with what is missing as mean at infinity;
- *downwards*: what falls in a cell is merged into one mass at its mean. Where values may be negative, F must rise and be at least
  0, and what lies too far out is left out.

Nothing is subtracted: every mass is good to a relative error, which is known. Proof: ``docs/proofs/random-allocation.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import product
from typing import Final, NamedTuple

import numpy as np

from dplateau.accounting.gaussian import ULP, Array, sums_from
from dplateau.accounting.privacy_loss import TooSlowError

FINE: Final = 1 / 256
"""Greatest spacing, as a share of the distance from the middle, or from 0."""
_SIGNED: Final = 1 / 64
"""The same where values may be negative."""
_RARE, _RARE_COARSE, _RARE_SIGNED = 1e-52, 1e-32, 1e-32
"""Mass, or share of the mean, that an end of the lattices may leave out; of lattices that are not close; of a signed law."""
_LITTLE: Final = 1e-14
"""Mass, or share of the mean, of ends that are rarely asked for: their lattices are coarser."""
_COARSER: Final = 4.0
"""By so much."""
CLOSE, _AWAY = 1 / 100, 2.0
"""Lattices that are finer than this are coarser by so much but for the middle's: what is rounded there adds up most."""
_OCTAVE: Final = 4.0
"""Ratio of the distances at the two ends of a lattice."""
_FEW: Final = 8
"""Fewer points make no lattice of their own."""
LONGEST: Final = 8192
"""Greatest number of points of the smaller of two blocks that are added."""
_FEW_POINTS: Final = 6
"""Power of 2 of points in a cell that are few."""
_MOST: Final = 1 << 21
"""Greatest number of points of one spacing."""
_SPAN: Final = 1e100
"""Greatest ratio of the largest number to the least."""


def excess_at(x: Array, mass: Array, infinite: float) -> tuple[Array, Array]:
    """The mass from each point x on, and ``E (V - x)_+`` there; the points ascend, and ``infinite`` is the mean at infinity."""
    right = sums_from(mass)
    return right, infinite + np.append(sums_from(np.diff(x) * right[1:]), 0.0)


@lru_cache
def _shares(step: int) -> Array:
    """What the lower and the upper end of a cell get of the masses at its points, shape (step, 2)."""
    between = np.arange(step) / step
    return np.stack([1 - between, between], axis=1)


class Span(NamedTuple):
    """Points ``start`` to ``stop`` (not included) of the lattice of spacing 2^scale."""

    scale: int
    start: int
    stop: int

    @property
    def begin(self) -> float:
        """Where it starts."""
        return math.ldexp(self.start, self.scale)

    @property
    def end(self) -> float:
        """Where it stops."""
        return math.ldexp(self.stop, self.scale)


@dataclass(frozen=True, eq=False)
class Block:
    """Masses at ``first``, ``first + 1``, ... on the lattice of spacing 2^scale, shape (k,).

    A law that is rounded downwards has its masses *above* these points: ``excess``, shape (k,), is how far, times mass over
    spacing.
    """

    scale: int
    first: int
    mass: Array
    excess: Array | None

    @property
    def place(self) -> Array:
        """The points."""
        return np.ldexp(self.first + np.arange(self.mass.size, dtype=float), self.scale)

    @property
    def value(self) -> Array:
        """Where the masses lie."""
        if self.excess is None:
            return self.place
        return self.place + np.ldexp(self.excess / np.maximum(self.mass, 1e-300), self.scale)

    def coarser(self, scale: int) -> Block:
        """The same on a lattice of at least this spacing."""
        if scale <= self.scale:
            return self
        if self.excess is None and scale <= self.scale + _FEW_POINTS:
            return self._by_cells(scale, 1 << scale - self.scale)
        at = np.ldexp(self.first + np.arange(self.mass.size, dtype=float), self.scale - scale)
        place = np.floor(at)
        first, between = int(place[0]), at - place
        index = (place - place[0]).astype(np.int64)
        if self.excess is None:
            size = int(index[-1]) + 2
            kept, up = self.mass * (1 - between), self.mass * between
            return Block(scale, first, np.bincount(index, kept, size) + np.bincount(index + 1, up, size), None)
        moved = np.ldexp(self.excess, self.scale - scale) + self.mass * between
        return Block(scale, first, np.bincount(index, self.mass), np.bincount(index, moved))

    def _by_cells(self, scale: int, step: int) -> Block:
        """The same with ``step`` points in each cell, rounded upwards."""
        first, ahead = divmod(self.first, step)
        cells = -(-(ahead + self.mass.size) // step)
        mass, up = np.zeros(cells * step), np.zeros(cells + 1)
        mass[ahead : ahead + self.mass.size] = self.mass
        parts = mass.reshape(cells, step) @ _shares(step)
        up[:-1] = parts[:, 0]
        up[1:] += parts[:, 1]
        return Block(scale, first, up, None)

    def doubled(self) -> Block:
        """Twice the masses."""
        return Block(self.scale, self.first, 2 * self.mass, None if self.excess is None else 2 * self.excess)

    def __add__(self, other: Block) -> Block:
        """The law of the sum of two independent variables."""
        scale = max(self.scale, other.scale)
        a, b = self.coarser(scale), other.coarser(scale)
        if min(a.mass.size, b.mass.size) > LONGEST:
            raise TooSlowError
        excess = None
        if a.excess is not None and b.excess is not None:
            excess = np.convolve(a.excess, b.mass) + np.convolve(a.mass, b.excess)
        return Block(scale, a.first + b.first, np.convolve(a.mass, b.mass), excess)


@dataclass(frozen=True, eq=False)
class Law:
    """A law on blocks.

    Attributes
    ----------
    blocks : tuple of Block
        What lies on lattices.
    zero : float
        Mass at 0.
    infinite : float
        Mean at infinity, of no mass.
    error : float
        Bound on the relative error of each mass.
    signed : bool
        Values may be negative; the law is then above another one for convex functions that rise.
    fine : float
        How fine the lattices of sums are, if it is not signed.
    """

    blocks: tuple[Block, ...]
    zero: float = 0.0
    infinite: float = 0.0
    error: float = 0.0
    signed: bool = False
    fine: float = FINE

    @cached_property
    def mean(self) -> float:
        """The mean."""
        return self.infinite + sum(float(block.mass @ block.value) for block in self.blocks)

    @cached_property
    def _spaced(self) -> dict[int, list[Block]]:
        """What lies on the lattice of each spacing."""
        return {scale: _together(blocks) for scale, blocks in _by_scale(self.blocks).items()}

    def __add__(self, other: Law) -> Law:
        """The law of the sum of two independent variables, rounded as both are."""
        scales = sorted({*self._spaced, *other._spaced})
        pairs, fine, other_fine = list[tuple[Block, Block]](), list[Block](), list[Block]()
        for scale in scales:
            mine, fine = self._spaced.get(scale, []), [b.coarser(scale) for b in _joined(fine)]
            if self is other:  # Each pair of two spacings occurs twice.
                pairs += product(mine, _together([*mine, *(block.doubled() for block in fine)]))
            else:
                others, other_fine = other._spaced.get(scale, []), [b.coarser(scale) for b in _joined(other_fine)]
                pairs += (*product(mine, _together([*others, *other_fine])), *product(fine, others))
                other_fine += others
            fine += mine
        # Whoever is at 0 adds to a mass there what the other one adds to the mean.
        infinite = self.infinite + other.infinite
        if self.zero or other.zero:
            infinite += self.zero * other.mean + other.zero * self.mean
        # A mass is a sum of products in a row, and before it a sum of no more masses than there are points.
        row = max(min(a.mass.size, b.mass.size) for a, b in pairs)
        rounding = ULP / 2 * (row + len(pairs) + self.points + other.points)
        law = Law((), self.zero + other.zero, infinite, self.error + other.error + rounding, self.signed, self.fine)
        return _placed(_joined(a + b for a, b in pairs), law)

    @property
    def points(self) -> int:
        """How many points its lattices have."""
        return sum(block.mass.size for block in self.blocks)

    def table(self) -> tuple[Array, Array]:
        """Where the masses lie, in ascending order, and the masses, but for those at 0 and infinity."""
        value = np.concatenate([block.value for block in self.blocks])
        if self.signed:  # What lies above the points is good to a relative error too, and no less is meant.
            value = value - 4 * self.error * (value - np.concatenate([block.place for block in self.blocks]))
        mass = np.concatenate([block.mass for block in self.blocks])
        order = np.argsort(value, kind="stable")
        order = order[mass[order] > 0]
        return value[order], mass[order]


def lattices(
    middle: float, width: float, ends: tuple[float, float], inner: tuple[float, float], *, signed: bool = False, fine: float = FINE
) -> list[Span]:
    """Lattices between two ``ends`` whose spacing is a share of the distance from ``middle``, but for ``width`` around it, and
    no more than that share of the distance from 0 where values are positive. Beyond ``inner`` they are coarser.
    """
    low, high = ends
    if not (low < high < _SPAN * width if signed else 0 < low < high < _SPAN * low):
        raise TooSlowError
    share = _SIGNED if signed else fine
    away = _AWAY if share < CLOSE else 1.0
    pieces: list[tuple[float, float, int]] = []

    def piece(start: float, end: float, distance: float) -> None:
        start, end = max(start, low), min(end, high)
        if start >= end:
            return
        coarser = _COARSER if end <= inner[0] or start >= inner[1] else 1.0
        scale = math.floor(math.log2(share * coarser * distance))
        if pieces and (scale == pieces[-1][2] or end - start < math.ldexp(_FEW, scale)):
            pieces[-1] = pieces[-1][0], end, pieces[-1][2]
        else:
            pieces.append((start, end, scale))

    body = middle / 2
    if signed:
        body = width
        while middle - body > low:
            body *= _OCTAVE
    else:
        at, body = low, max(body, width)
        while at < body:
            at, start = min(_OCTAVE * at, body), at
            piece(start, at, start * away)
    if signed or width <= middle / 2:
        while body > width:
            body, far = max(body / _OCTAVE, width), body
            piece(middle - far, middle - body, body * away)
        piece(middle - width, middle + width, width)
    else:
        piece(body, middle + width, width)
    far = width
    while middle + far < high:
        piece(middle + far, middle + _OCTAVE * far, far * away)
        far *= _OCTAVE
    if not (found := list(_aligned(pieces))):
        raise TooSlowError
    return found


def _aligned(pieces: list[tuple[float, float, int]]) -> Iterator[Span]:
    """The pieces with their ends moved to points that both neighbours have."""
    scales = [scale for _, _, scale in pieces]
    for i, (start, end, scale) in enumerate(pieces):
        first, last = max(scale, scales[max(i - 1, 0)]), max(scale, scales[min(i + 1, len(pieces) - 1)])
        begin = math.floor(math.ldexp(start, -first)) << (first - scale)
        stop = (math.floor(math.ldexp(end, -last)) + (i + 1 == len(pieces))) << (last - scale)
        if stop > begin:
            yield Span(scale, begin, stop)


def _by_scale(blocks: Iterable[Block]) -> dict[int, list[Block]]:
    found: dict[int, list[Block]] = {}
    for block in blocks:
        found.setdefault(block.scale, []).append(block)
    return found


def _joined(blocks: Iterable[Block]) -> list[Block]:
    """The same masses with one block for each spacing."""
    found: list[Block] = []
    for scale, alike in _by_scale(blocks).items():
        if len(alike) == 1:
            found += alike
            continue
        first, stop = min(block.first for block in alike), max(block.first + block.mass.size for block in alike)
        if stop - first > _MOST:
            raise TooSlowError
        mass, excess = np.zeros(stop - first), None if alike[0].excess is None else np.zeros(stop - first)
        for block in alike:
            here = slice(block.first - first, block.first - first + block.mass.size)
            mass[here] += block.mass
            if excess is not None and block.excess is not None:
                excess[here] += block.excess
        found.append(Block(scale, first, mass, excess))
    return found


def _together(blocks: list[Block]) -> list[Block]:
    """The same masses of one spacing, in one block where no more points lie between two than they have."""
    if len(blocks) < 2:
        return blocks
    groups, stop, points = list[list[Block]](), 0, 0
    for block in sorted(blocks, key=lambda one: one.first):
        if groups and block.first - stop <= points + block.mass.size:
            groups[-1].append(block)
        else:
            groups.append([block])
            stop, points = block.first, 0
        stop, points = max(stop, block.first + block.mass.size), points + block.mass.size
    return [block for group in groups for block in _joined(group)]


def _suited(value: Array, mass: Array, law: Law) -> list[Span]:
    """Lattices that suit these masses, whose values ascend."""
    share, far = np.cumsum(mass), np.cumsum((mass * np.maximum(value, 0.0))[::-1])
    left, middle, right = (float(value[min(k, value.size - 1)]) for k in np.searchsorted(share, (0.16, 0.5, 0.84)))
    least = 0 if law.signed else int(np.searchsorted(value, 0.0, "right"))

    def between(rare: float) -> tuple[float, float]:
        """What lies further out has no more mass, or share of the mean."""
        low = max(int(np.searchsorted(share, rare, "right")), least)
        high = value.size - 1 - int(np.searchsorted(far, rare * far[-1]))
        while not mass[high] > 0:
            high -= 1
        return float(value[low]), float(value[high])

    low, high = between(_RARE_SIGNED if law.signed else _RARE if law.fine < CLOSE else _RARE_COARSE)
    middle = max(middle, low)
    width = max((right - left) / 2, 1e-12 * abs(middle))
    high = max(high, low + law.fine * width) if law.signed else max(high, low * (1 + law.fine))
    return lattices(middle, width, (low, high), between(_LITTLE), signed=law.signed, fine=law.fine)


def _placed(blocks: list[Block], law: Law) -> Law:
    """What lies on many overlapping blocks, on lattices that suit it, in a law that is otherwise the given one."""
    value, mass = (np.concatenate(parts) for parts in zip(*((block.place, block.mass) for block in blocks), strict=True))
    order = np.argsort(value, kind="stable")  # It merges rows that are sorted.
    value, mass = value[order], mass[order]
    spans = _suited(value, mass, law)
    first, last = spans[0], spans[-1]
    # Each span has its points, and the one at its end, in one row.
    begin = np.cumsum([0, *(span.stop - span.start + 1 for span in spans)])
    cuts = np.searchsorted(value, [*(span.begin for span in spans), last.end])
    inside, ends = slice(cuts[0], cuts[-1]), (slice(0, cuts[0]), slice(cuts[-1], None))
    table = np.array([(span.scale, span.start, row) for span, row in zip(spans, begin[:-1].tolist(), strict=True)])
    scale, start, first_row = np.repeat(table, np.diff(cuts), axis=0).T
    at = np.ldexp(value[inside], -scale)
    place = np.floor(at)
    row = (place - start).astype(np.int64) + first_row
    up, stays = mass[inside] * (at - place), mass[inside] * (1 - (at - place))
    law = replace(law, error=law.error + ULP / 2 * float(np.bincount(row).max(initial=0)))

    def rows(whole: Array) -> list[Array]:
        return np.split(whole, begin[1:-1])

    excesses = [np.ldexp(block.excess, block.scale) for block in blocks if block.excess is not None]
    if excesses:
        further = np.concatenate(excesses)[order]
        moved = np.bincount(row, np.ldexp(further[inside], -scale) + up, begin[-1])
        placed = zip(spans, rows(np.bincount(row, mass[inside], begin[-1])), rows(moved), strict=True)
        merged = (
            Block(span.scale, 0, np.array([mass[end].sum()]), np.ldexp([mass[end] @ value[end] + further[end].sum()], -span.scale))
            for span, end in zip((first, last), ends, strict=True)
            if mass[end].size and not law.signed
        )
        return replace(law, blocks=(*(Block(span.scale, span.start, *parts) for span, *parts in placed), *merged))
    kept = rows(np.bincount(row, stays, begin[-1]) + np.bincount(row + 1, up, begin[-1]))
    blocks = [Block(span.scale, span.start, part, None) for span, part in zip(spans, kept, strict=True)]
    least, most = (float(mass[end].sum()) for end in ends)
    if law.signed:
        blocks += [Block(first.scale, first.start, np.array([least]), None), Block(last.scale, last.stop, np.array([most]), None)]
        return replace(law, blocks=tuple(blocks), infinite=law.infinite + float(mass[ends[1]] @ (value[ends[1]] - last.end)))
    moved = sum(float(mass[end] @ value[end]) for end in ends)
    return replace(law, blocks=tuple(blocks), zero=law.zero + least + most, infinite=law.infinite + moved)
