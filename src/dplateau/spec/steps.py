"""``StepTable``: the steps of a run as arrays, the one form in which analyses read them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplateau.spec.schedule import Schedule, is_constant, per_step

Array = NDArray[np.float64]
Counts = NDArray[np.int64]
_COLUMNS: Final = ("step_size", "noise_multiplier", "batch_size")
_NEARLY_ALL, _MOVED = 0.999, 2.0**-52
"""A rate above which the rounding of ``size / n`` is seen in 1 - rate, and more than that rounding."""


class Step(NamedTuple):
    """The step of a run whose steps are all alike: as in ``StepTable``."""

    step_size: float
    noise: float
    size: float
    rate: float
    deviation: float


@dataclass(frozen=True, eq=False)
class StepTable:
    """The steps in order, equal neighbours in one row: a run of equal steps has one row, whatever their number.

    Attributes
    ----------
    columns : array of shape (3, k)
        Step sizes (0 where none is stated), noise multipliers and public batch sizes.
    count : array of int, shape (k,)
        How many steps each row stands for.
    changing : tuple of str
        What is given step by step: "step_size", "noise_multiplier", "batch_size".
    n, clip_norm : number
        Of the run.
    """

    columns: Array
    count: Counts
    changing: tuple[str, ...]
    n: int
    clip_norm: float

    @classmethod
    def of(cls, n: int, steps: int, clip_norm: float, parts: tuple[Schedule, Schedule, Schedule]) -> StepTable:
        """The table of a run whose step sizes, noise multipliers and batch sizes are ``parts``."""
        changing = tuple(name for name, part in zip(_COLUMNS, parts, strict=True) if not is_constant(part))
        if not changing:
            return cls(np.array(parts, dtype=float)[:, None], np.array([steps]), changing, n, clip_norm)
        columns = np.stack([per_step(part, steps) for part in parts])
        first = np.flatnonzero(np.append(True, (columns[:, 1:] != columns[:, :-1]).any(axis=0)))
        return cls(columns[:, first], np.diff(np.append(first, steps)), changing, n, clip_norm)

    @property
    def step_size(self) -> Array:
        """Step sizes."""
        return self.columns[0]

    @property
    def noise(self) -> Array:
        """Noise multipliers."""
        return self.columns[1]

    @property
    def size(self) -> Array:
        """Public batch sizes."""
        return self.columns[2]

    @property
    def rate(self) -> Array:
        """Share of the records in a batch."""
        return self.size / self.n

    def rate_towards(self, one: bool) -> Array:
        """``rate``, where nearly all records are drawn moved past its rounding: what is left to 1 bounds the loss of an absence."""
        rate = self.rate
        near = (rate > _NEARLY_ALL) & (rate < 1)
        return np.where(near, np.minimum(rate + (_MOVED if one else -_MOVED), 1.0), rate)

    @property
    def deviation(self) -> Array:
        """Standard deviation of the noise that a step adds to the iterate."""
        return self.step_size * self.noise * self.clip_norm / self.size

    @property
    def steps(self) -> int:
        """Number of steps."""
        return int(self.count.sum())

    @property
    def alike(self) -> bool:
        """Whether all steps are equal: nothing is given step by step."""
        return not self.changing

    @property
    def only(self) -> Step:
        """The step that all steps are; raises ``TypeError`` where they differ."""
        if not self.alike:
            raise TypeError("the steps differ: expected equal ones")
        return Step(*(float(part[0]) for part in (*self.columns, self.rate, self.deviation)))

    def written(self) -> StepTable:
        """The same with one row a step."""
        columns = np.repeat(self.columns, self.count, axis=1)
        return replace(self, columns=columns, count=np.ones(columns.shape[1], dtype=np.int64))

    def last(self, steps: int) -> StepTable:
        """The last steps: one row where all steps of the run are alike, and otherwise one a step."""
        if self.alike:
            return replace(self, count=np.array([steps]))
        rows = self.written()
        return replace(self, columns=rows.columns[:, -steps:], count=rows.count[-steps:])

    def draws(self, *, up: bool = True) -> tuple[Array, Array, Counts]:
        """Distinct pairs of rate and noise multiplier in ascending order, and how many steps have each; rates near 1 rounded up."""
        return distinct(self.rate_towards(up), self.noise, self.count)


def distinct(first: Array, second: Array, count: Counts) -> tuple[Array, Array, Counts]:
    """Equal pairs put together, in ascending order, their numbers added."""
    order = np.lexsort((second, first))
    pairs = np.stack([first, second])[:, order]
    starts = np.flatnonzero(np.append(True, (pairs[:, 1:] != pairs[:, :-1]).any(axis=0)))
    return *pairs[:, starts], np.add.reduceat(count[order], starts)


def on_grid(values: Array, levels: int, *, up: bool) -> Array:
    """``values`` > 0 moved up (or down) to a geometric grid of so many levels, at least two."""
    low, high = float(values.min()), float(values.max())
    if low == high:
        return values
    step = math.log(high / low) / (levels - 1)
    place = np.log(values / low) / step
    moved = np.clip(low * np.exp(step * (np.ceil(place) if up else np.floor(place))), low, high)
    return np.maximum(moved, values) if up else np.minimum(moved, values)
