"""Numbers of a release that may tell on which of two data sets it was made.

What has to be learnt (a direction, which low bits or which whole outputs one data set prefers) is learnt from releases of their
own; ``dplateau.audit.separation`` then chooses an event on others and counts it on yet others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dplateau.audit.separation import Scores

Array: TypeAlias = NDArray[Any]
Score: TypeAlias = Callable[[Array], Array]
"""From releases, shape ``(k, p)``, to one number each."""

_LOW: Final = 4
"""Low bits that are looked at together."""
_COORDINATES: Final = 4
"""How many of the last numbers of a release have their bits looked at."""
_MANTISSA: Final = {"float32": (np.uint32, 23), "float64": (np.uint64, 52)}


class Releases(NamedTuple):
    """Releases of training with the record, and without it, each of shape ``(k, p)``; NaN where nothing was released."""

    present: Array
    absent: Array

    def part(self, which: slice) -> Releases:
        """Some of them."""
        return Releases(self.present[which], self.absent[which])


def scored(learn: Releases, others: Sequence[Releases], known: dict[str, Score]) -> list[list[Scores]]:
    """All scores of each of ``others``: those that are ``known``, and those that are learnt from ``learn``."""
    scores = {**known, **_learnt(learn)}
    found: list[list[Scores]] = []
    with np.errstate(over="ignore", invalid="ignore"):  # releases may be of any size
        for releases in others:
            found.append([Scores(name, *(_finite(score(side)) for side in releases)) for name, score in scores.items()])
    return found


def along(direction: Array) -> Score:
    """The part of the last weights along a direction; 0 of releases that have fewer numbers."""

    def score(releases: Array) -> Array:
        last = releases[:, -len(direction) :].astype(np.float64)
        return last @ direction if last.shape[1] == len(direction) else np.zeros(len(releases))

    return score


def _finite(values: Array) -> Array:
    return np.nan_to_num(values.astype(np.float64), nan=0.0)


def _learnt(learn: Releases) -> dict[str, Score]:
    width = learn.present.shape[1]
    last = range(max(0, width - _COORDINATES), width)
    found: dict[str, Score] = {
        "nothing released": _nothing,
        "length": _length,
        "learnt direction": _direction(learn),
        "output": _preferred(learn, lambda releases: [row.tobytes() for row in np.ascontiguousarray(releases)]),
    }
    for j in last:
        found[f"zeros at the end of number {j + 1}"] = lambda releases, j=j: _zeros(releases[:, j])
        found[f"low bits of number {j + 1}"] = _preferred(learn, lambda releases, j=j: _low_bits(releases[:, j]))
    return found


def _nothing(releases: Array) -> Array:
    return np.asarray(np.isnan(releases).any(axis=1), dtype=np.float64)


def _length(releases: Array) -> Array:
    return np.sqrt((releases.astype(np.float64) ** 2).sum(axis=1))


def _direction(learn: Releases) -> Score:
    """The difference of the medians, each coordinate in units of its own spread."""
    present, absent = (_finite(side) for side in learn)
    centre, other = np.median(present, axis=0), np.median(absent, axis=0)
    moved = centre - other
    spread = np.maximum(np.median(abs(present - centre), axis=0), np.median(abs(absent - other), axis=0))
    spread = np.where(spread > 0, spread, np.maximum(abs(moved), 1e-300) / 1e3)
    weights = moved / spread
    with np.errstate(all="ignore"):
        weights = _finite(weights / max(float(abs(weights).max()), 1e-300))
    return lambda releases: (_finite(releases) - other) / spread @ weights


def _preferred(learn: Releases, kind: Callable[[Array], Sequence[object]]) -> Score:
    """How much likelier the kind of a release was with the record than without, on a logarithmic scale."""
    present, absent = (Counter(kind(side)) for side in learn)

    def score(releases: Array) -> Array:
        return np.array([np.log((present[one] + 0.5) / (absent[one] + 0.5)) for one in kind(releases)])

    return score


def _bits(numbers: Array) -> tuple[NDArray[np.uint64], int]:
    kind, mantissa = _MANTISSA[numbers.dtype.name]
    return np.ascontiguousarray(numbers).view(kind).astype(np.uint64), mantissa


def _zeros(numbers: Array) -> Array:
    """Zero bits at the end of the mantissa: many, if the number lies on a coarse lattice."""
    bits, mantissa = _bits(numbers)
    bits |= np.uint64(1 << mantissa)
    return np.log2((bits & (~bits + np.uint64(1))).astype(np.float64))


def _low_bits(numbers: Array) -> Sequence[object]:
    """The last bits that are not all zeros, as a number."""
    bits, mantissa = _bits(numbers)
    shift = _zeros(numbers).astype(np.uint64)
    return ((bits | np.uint64(1 << mantissa)) >> shift & np.uint64((1 << _LOW) - 1)).tolist()
