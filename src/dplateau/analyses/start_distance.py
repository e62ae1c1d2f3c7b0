"""How far apart one record can have driven two runs before the steps that a last-iterate bound looks back over.

Let the runs share batches and noise. A step that uses the record adds at most ``s_t = step_size_t * sensitivity_t`` to their
distance, rounding at most ``e_t``, and every step contracts it: before the last R steps the distance is at most the sum of
``c_{t+1} ... c_{T-R} (s_t x_t + e_t)``, where ``x_t`` is 1 if step t uses the record.
Proof: ``docs/proofs/reflection-coupling.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Final

import numpy as np

from dplateau.accounting.gaussian import Array, sums_from
from dplateau.accounting.mechanism import sensitivity
from dplateau.accounting.reflection import geometric_sum
from dplateau.analyses.random_sizes import contractions
from dplateau.spec import ROUND_OFF, Run, StepTable

_UP: Final = 1 + 1e-9
_POWER: Final = 4e-15
"""Room for the rounding of a contraction, for every step of a power of it."""
_GROUPS: Final = 1000
"""Most groups of steps whose weights are looked at."""
_LARGE: Final = 300.0
"""Distances that grow by more than exp(300) are infinite."""
_GONE: Final = 40.0
"""Weights below exp(-40) are summed up, whatever the record's coins."""


@dataclass(frozen=True)
class StartDistance:
    """The distance before a look-back, on the ``mean``, ``surely`` or ``likely`` at most; each takes the number of steps before it.

    Attributes
    ----------
    table : StepTable
        All steps of the run: one row where they are alike, otherwise one a step.
    contraction, chance : ndarray
        c of each row, and the probability that a batch makes it larger.
    gap, used : ndarray
        s in the iterate's units, and the probability that the record is used, of each row.
    epoch : int
        Steps between two uses of a record whose place is fixed; 1 where batches are drawn or hold all records.
    """

    table: StepTable
    contraction: Array
    chance: Array
    gap: Array
    used: Array
    epoch: int
    _known: dict[tuple[int, float], float] = field(default_factory=dict, compare=False, repr=False)

    @property
    def unusual(self) -> float:
        """The probability that any step of the run contracts less."""
        return float((self.chance * self.table.count).sum())

    def last(self, steps: int) -> Array:
        """Contractions of the last steps, in the rows of ``table.last``."""
        return self.contraction if self.table.alike else self.contraction[-steps:]

    @cached_property
    def rounding(self) -> Array:
        """e: what rounding may add to the distance in a step."""
        return 2 * ROUND_OFF * self.table.deviation

    def mean(self, before: int) -> float:
        """An upper bound on the mean distance after ``before`` steps."""
        return self._after(before, self.used) if self.table.count.size == 1 else float(self._means[before])

    def surely(self, before: int) -> float:
        """A distance after ``before`` steps that is never exceeded."""
        every = np.ones_like(self.used)
        return self._after(before, every) if self.table.count.size == 1 else float(self._sures[before])

    def likely(self, before: int, tail: float) -> float:
        """A distance after ``before`` steps that is exceeded with at most this probability, where batches are drawn."""
        if not before or not tail > 0:
            return self.surely(before)
        weight, count, rate, rest = self._weights(before)
        if (key := (self._near(before), tail)) not in self._known:
            self._known[key] = _quantile(weight, count, rate, tail)
        return min((self._known[key] + rest) * (_UP + _POWER * before), self.surely(before))

    def _after(self, before: int, used: Array) -> float:
        """The sum after so many steps that are alike."""
        c, gap, e = float(self.contraction[0]), float(self.gap[0] * used[0]), float(self.rounding[0])
        if before * math.log(max(c, 1.0)) > _LARGE:
            return math.inf
        uses = -(-before // self.epoch)
        gap *= max(c, 1.0) ** max(min(self.epoch, before) - 1, 0)  # The first place of an epoch, whose steps expand.
        between = c**self.epoch if uses > 1 else 1.0  # The power of an epoch that is not over may overflow.
        # c itself is rounded, and its powers the more.
        return (gap * geometric_sum(between, uses) + e * geometric_sum(c, before)) * (_UP + _POWER * before)

    @cached_property
    def _means(self) -> Array:
        return self._walked(self.used)

    @cached_property
    def _sures(self) -> Array:
        return self._walked(np.ones_like(self.used))

    def _walked(self, used: Array) -> Array:
        """The sum after 0, 1, ... steps that differ. A use of fixed place counts at its epoch's end: the largest of all places."""
        far, use, result = 0.0, 0.0, [0.0]
        steps = zip(self.contraction.tolist(), (self.gap * used).tolist(), self.rounding.tolist(), strict=True)
        for t, (c, gap, e) in enumerate(steps):
            far = c * far + e
            use = max(use * max(c, 1.0), gap) if t % self.epoch else gap
            if (t + 1) % self.epoch == 0 or t + 1 == self.gap.size:
                far += use
            result.append(far)
        return np.array(result) * _UP

    def _near(self, before: int) -> int:
        """Steps whose weight is not negligible, where all are alike: the same for all that are far enough from the start."""
        c = float(self.contraction[0])
        if self.table.count.size > 1 or c >= 1:
            return before
        return min(before, math.ceil(_GONE / -math.log(max(c, 1e-17))))

    def _weights(self, before: int) -> tuple[Array, Array, Array, float]:
        """Groups of steps: the ends' weights, half the number of steps for each end, rates; and what is left, at most."""
        if self.table.count.size > 1:
            with np.errstate(divide="ignore"):
                logs = np.log(self.contraction[:before])
            after = np.append(sums_from(logs[1:]), 0.0)
            kept = after >= -_GONE
            weight = np.exp(after) * self.gap[:before]
            rounding = float(np.exp(after) @ self.rounding[:before])
            return weight[kept], np.ones(int(kept.sum())), self.used[:before][kept], float(weight[~kept].sum()) + rounding
        c, gap, rate = float(self.contraction[0]), float(self.gap[0]), self.used
        near = self._near(before)
        rest = gap * c**near * geometric_sum(c, before - near) + float(self.rounding[0]) * geometric_sum(c, before)
        if c == 1:
            return np.array([gap]), np.array([float(near)]), rate, rest
        size = -(-near // _GROUPS)
        first = np.arange(0, near, size)
        number = np.minimum(size, near - first)
        ends = np.concatenate([first, first + number - 1])
        return gap * c ** ends.astype(float), np.tile(number / 2, 2), np.repeat(rate, ends.size), rest


def _quantile(weight: Array, count: Array, rate: Array, tail: float) -> float:
    """What the sum of the weights of used steps exceeds with at most this probability (Chernoff)."""
    best, theta = math.inf, np.geomspace(1e-3, 700.0, 60) / float(weight.max())
    for _ in range(2):
        # The logarithm of the mean of exp(theta sum): convex in a weight, so within a group the mean of its ends is above it.
        grown = count @ np.log1p(rate[:, None] * np.expm1(np.multiply.outer(weight, theta)))
        found = (grown * _UP - math.log(tail)) / theta
        place = int(np.argmin(found))
        best = min(best, float(found[place]))
        theta = np.geomspace(theta[max(place - 1, 0)], theta[min(place + 1, theta.size - 1)], 60)
    return best


@lru_cache(maxsize=16)
def starts(run: Run, budget: float, *, both: bool = False) -> StartDistance:
    """The distances of ``run``, whose batches of random size may contract less than expected with the probability ``budget``.

    With ``both``, the maps of the data set without the record contract as well.
    """
    table = run.table if run.table.alike else run.table.written()
    sizes = run.sampling.batch_sizes(run.n, 0, 1 if table.alike else run.steps)
    if table.alike and (rest := run.sampling.remainder(run.n)):
        sizes = np.array([float(rest)])
    smallest = sizes - (both and run.adjacency == "add-remove")
    contracted, chance = contractions(run, table, budget, least=smallest / table.size, both=both)
    gap = table.step_size * sensitivity(run) * run.clip_norm / table.size
    used = np.ones_like(gap) if run.sampling.ordered else table.rate
    return StartDistance(table, contracted, chance, gap, used, run.sampling.epoch_length(run.n) if run.sampling.ordered else 1)
