"""``StepTable``: the steps of a run as arrays, the one form in which analyses read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplateau.spec.schedule import Schedule, is_constant, per_step

Array = NDArray[np.float64]


class Step(NamedTuple):
    """One step of a run whose steps are all alike."""

    noise: float
    step_size: float
    size: float
    rate: float
    deviation: float


@dataclass(frozen=True, eq=False)
class StepTable:
    """The steps in order, equal neighbours in one row: a run of equal steps has one row, whatever their number.

    Attributes
    ----------
    noise, step_size, size : array of shape (k,)
        Noise multiplier, step size (0 where none is stated) and public batch size.
    count : array of int, shape (k,)
        How many steps the row stands for.
    n : int
        Number of records.
    clip_norm : float
        What a gradient is clipped to.
    """

    noise: Array
    step_size: Array
    size: Array
    count: NDArray[np.int64]
    n: int
    clip_norm: float

    @classmethod
    def of_schedules(cls, n: int, steps: int, clip_norm: float, noise: Schedule, step_size: Schedule, size: Schedule) -> StepTable:
        """The table of a run with these parts."""
        values = (noise, step_size, size)
        if is_constant(*values):
            return cls(*(np.array([value], dtype=float) for value in values), np.array([steps]), n, clip_norm)
        columns = np.stack([per_step(value, steps) for value in values])
        first = np.flatnonzero(np.append(True, (np.diff(columns, axis=1) != 0).any(axis=0)))
        return cls(*columns[:, first], np.diff(np.append(first, steps)), n, clip_norm)

    @property
    def alike(self) -> bool:
        """Whether all steps are equal."""
        return self.count.size == 1

    @property
    def rate(self) -> Array:
        """Share of the records in a batch."""
        return self.size / self.n

    @property
    def deviation(self) -> Array:
        """Standard deviation of the noise that a step adds to the iterate."""
        return self.step_size * self.noise * self.clip_norm / self.size

    @property
    def only(self) -> Step:
        """The step that all steps are; raises ``TypeError`` where they differ."""
        if not self.alike:
            raise TypeError("the steps differ: expected equal ones")
        return Step(*(float(part[0]) for part in (self.noise, self.step_size, self.size, self.rate, self.deviation)))

    def written(self) -> StepTable:
        """The same with one row a step."""
        columns = (np.repeat(column, self.count) for column in (self.noise, self.step_size, self.size))
        return StepTable(*columns, np.ones(int(self.count.sum()), dtype=np.int64), self.n, self.clip_norm)

    def last(self, steps: int) -> StepTable:
        """The last steps: one row where all steps of the run are alike, and otherwise one a step."""
        if self.alike:
            return StepTable(self.noise, self.step_size, self.size, np.array([steps]), self.n, self.clip_norm)
        rows = self.written()
        return StepTable(*(part[-steps:] for part in (rows.noise, rows.step_size, rows.size, rows.count)), self.n, self.clip_norm)

    def draws(self) -> tuple[Array, Array, NDArray[np.int64]]:
        """Distinct pairs of rate and noise multiplier in ascending order, and how many steps have each."""
        return distinct(self.rate, self.noise, self.count)


def distinct(rate: Array, noise: Array, count: NDArray[np.int64]) -> tuple[Array, Array, NDArray[np.int64]]:
    """Equal pairs put together, in ascending order, their numbers added."""
    order = np.lexsort((noise, rate))
    pairs = np.stack([rate[order], noise[order]])
    first = np.flatnonzero(np.append(True, (np.diff(pairs, axis=1) != 0).any(axis=0)))
    return pairs[0, first], pairs[1, first], np.add.reduceat(count[order], first)
