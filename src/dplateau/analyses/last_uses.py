"""The strings of a record whose places in the batches are known: where it arrives, and what room there is to absorb it.

A record that is used in step t moves the iterate by at most ``s_t = step_size_t * sensitivity_t``. What is left of it at the end
is contracted by ``w_t``, the product of the later contractions, and the noise of step t by the same: a jump ``w_t s_t`` with room
``w_t^2 v_t``. Any two iterates are at most a diameter apart, so a string may also start after any use, with one jump
``w_t diameter`` in place of all earlier ones. Every start gives a bound; the least one counts.
Proof: ``docs/proofs/fixed-order.md``.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, overload

import numpy as np

from dplateau.accounting import GaussianDP
from dplateau.accounting.gaussian import Array
from dplateau.accounting.mechanism import sensitivity
from dplateau.accounting.taut_string import taut_string
from dplateau.analyses.requirements import contraction
from dplateau.spec import ROUND_OFF, Run

_ROUNDING: Final = 1e-9
"""Relative room for the rounding of sums; they keep twelve digits or more."""
_EACH: Final = 1e-15
"""The same for every step: a contraction is a double, and its powers are off by that much more."""
_WIDE: Final = 128
"""So many look-backs are tried side by side; where there are no more, all of them."""
_NARROW: Final = 8
"""The same where every look-back costs a whole string."""
_MOST: Final = 1 << 27
"""Steps that are looked at one by one."""
_FORGOTTEN: Final = -300.0
"""Steps that the later ones contract by exp(-300) are left out; the distance that they may leave behind is kept."""


def least(cost: Callable[[Array], Array], count: int, wide: int = _WIDE) -> tuple[Array, int]:
    """The least that ``cost`` takes over look-backs 0 to ``count - 1``, and one that reaches it (for the largest of several costs).

    ``cost`` maps look-backs of shape (k,) to shape (..., k). Few are all tried; of many, ``wide`` at once, on a grid that is
    refined where they are least. Every look-back is a bound, so a missed minimum costs nothing but tightness.
    """
    best, place = np.asarray(np.inf), 0
    wide = count if count <= _WIDE else wide
    tried = np.arange(count) if count <= _WIDE else np.unique(np.geomspace(1, count, wide).round().astype(np.int64)) - 1
    while tried.size:
        costs = cost(tried)
        best = np.minimum(best, costs.min(axis=-1))
        index = int(np.argmin(costs.reshape(-1, tried.size).max(axis=0)))
        place, low, high = (int(tried[i]) for i in (index, max(index - 1, 0), min(index + 1, tried.size - 1)))
        if high - place <= 1 and place - low <= 1:
            break
        tried = np.union1d(place, np.linspace(low, high, min(high - low + 1, wide)).round().astype(np.int64))
    return best, place


@dataclass(frozen=True)
class ConstantSteps:
    """Equal steps: contraction c, gap s of one use, variance v of the noise, diameter, uses one epoch ``length`` apart."""

    contraction: float
    gap: float
    variance: float
    diameter: float
    length: int

    def _sum(self, base: float, first: Array, last: Array) -> Array:
        """``base^first + ... + base^last``; 0 where there is no term."""
        first, last = np.broadcast_arrays(np.asarray(first, dtype=float), np.asarray(last, dtype=float))
        count = np.maximum(last - first + 1, 0.0)
        if base == 1:
            return count
        log = math.log(max(base, 1e-300))
        return np.exp(first * log) * np.expm1(count * log) / np.expm1(log)

    def _room(self, first: Array, last: Array) -> Array:
        """Contracted variance of the steps with ``first`` to ``last`` steps after them."""
        return self.variance * self._sum(self.contraction**2, first, last)

    def cost(self, last: Array, previous: Array, uses: int) -> Array:
        """The least mu^2 of a record with ``uses`` uses: ``last`` steps after the last one, ``previous`` after the one before,
        and one epoch more after each earlier one. Shapes of ``last`` and ``previous`` are broadcast.
        """
        last, previous = (np.asarray(part, dtype=float)[..., None] for part in np.broadcast_arrays(last, previous))
        c, s, far = self.contraction, self.gap, self.diameter

        def string(back: Array, first_rise: Array, first_room: Array, *, begin: bool) -> Array:
            """``back`` full epochs between the first jump and the use at ``previous``."""
            inner = back - 1 + begin
            middle = s * c**previous * self._sum(c**self.length, np.asarray(1.0), inner)
            room = self._room(previous + 1, previous + inner * self.length)
            kept = (back >= 0) if begin else (back >= 1)
            prior, prior_room = np.where(kept, s * c**previous, 0.0), np.where(kept, self._room(last + 1, previous), 0.0)
            parts = (
                np.broadcast_arrays(first_rise, middle, prior, s * c**last),
                np.broadcast_arrays(first_room, room, prior_room, self._room(np.zeros(1), last)),
            )
            return taut_string(np.stack(parts[0], axis=-1), np.stack(parts[1], axis=-1))

        def from_diameter(back: Array) -> Array:
            after = previous + back * self.length
            until = np.where(back >= 1, after - self.length, last)
            return string(back, far * c**after, self._room(until + 1, after - 1), begin=False)

        zero = np.zeros(1)
        result = string(np.array([uses - 2.0]), zero, zero, begin=True)[..., 0]
        if math.isfinite(far):
            alone = taut_string(far * c**last, self._room(zero, last - 1))
            result = np.minimum(result, np.minimum(alone, least(from_diameter, uses - 1)[0]))
        return result


@dataclass(frozen=True)
class VaryingSteps:
    """Steps of any kind, from the first that is not forgotten: ``weight`` w, ``jump`` w s and ``room`` w^2 v, each of shape (T,).

    ``start`` is the contracted distance that steps before the first may have left.
    """

    weight: Array
    jump: Array
    room: Array
    start: float
    diameter: float

    def string(self, uses: Array, jumps: Array | None = None) -> tuple[Array, Array]:
        """Jump of every use at the steps ``uses`` (rising), and the room from there to the next one, shape (K,) each."""
        return (self.jump[uses] if jumps is None else jumps), np.add.reduceat(self.room, uses)

    def cost(self, uses: Array, jumps: Array | None = None, *, back: int | None = None) -> float:
        """The least mu^2 of a record that is used in the steps ``uses`` (rising); ``jumps`` in place of its own, and two
        look-backs (0 and ``back``, in uses) in place of the best.
        """
        rise, room = self.string(uses, jumps)
        result = float(taut_string(np.append(self.start, rise), np.append(self.room[: uses[0]].sum(), room)))
        if math.isinf(self.diameter):
            return result
        from_diameter = self.from_diameter(uses, jumps)
        if back is None:
            return min(result, float(least(from_diameter, uses.size, _NARROW)[0]))
        return min(result, float(from_diameter(np.array([0, min(back, uses.size - 1)])).min()))

    def alone(self) -> Array:
        """The least mu^2 of every record that is used once, by its step."""
        before, left = np.append(0.0, np.cumsum(self.room)[:-1]), np.append(np.cumsum(self.room[::-1])[::-1], 0.0)
        jumps = np.stack(np.broadcast_arrays(self.start, self.jump), axis=-1)
        result = taut_string(jumps, np.stack([before, left[:-1]], axis=-1))
        if math.isfinite(self.diameter):
            result = np.minimum(result, taut_string((self.weight * self.diameter)[:, None], left[1:, None]))
        return result

    def worst(self, length: int) -> float:
        """The largest cost over the places of an epoch of ``length`` steps.

        Places are told apart by their last use. A group of them costs at most what its last place would with the largest jump of
        the group in every epoch; the most expensive group is split until it is a single place.
        """
        missing = -self.jump.size % length
        epochs = np.concatenate([np.zeros(missing), self.jump]).reshape(-1, length)

        def members(first: int, last: int) -> tuple[Array, Array]:
            uses = np.arange(last, epochs.size, length) - missing
            return uses[uses >= 0], epochs[:, first : last + 1].max(axis=1)[uses >= 0]

        whole = members(0, length - 1)
        back = 0 if math.isinf(self.diameter) else least(self.from_diameter(*whole), whole[0].size, _NARROW)[1]
        queue = [(-math.inf, 0, length - 1, False)]
        while not queue[0][3]:
            _, first, last, _ = heapq.heappop(queue)
            if first == last:
                heapq.heappush(queue, (-self.cost(*members(first, last)), first, last, True))
                continue
            middle = (first + last) // 2
            for part in ((first, middle), (middle + 1, last)):
                heapq.heappush(queue, (-self.cost(*members(*part), back=back), *part, False))
        return -queue[0][0]

    def from_diameter(self, uses: Array, jumps: Array | None = None) -> Callable[[Array], Array]:
        """Cost of starting at the diameter, after the use so many uses before the last."""
        rise, room = self.string(uses, jumps)
        others = self.room.copy()
        others[uses] = 0
        rest = np.add.reduceat(others, uses)

        def cost(backs: Array) -> Array:
            costs: list[float] = []
            for place in uses.size - 1 - backs:
                first = self.weight[uses[place]] * self.diameter
                rises, rooms = np.append(first, rise[place + 1 :]), np.append(rest[place], room[place + 1 :])
                costs.append(float(taut_string(rises, rooms)))
            return np.array(costs)

        return cost


@overload
def rounded_mu(run: Run, squares: float, sign: int = 1) -> float: ...
@overload
def rounded_mu(run: Run, squares: Array, sign: int = 1) -> Array: ...
def rounded_mu(run: Run, squares: float | Array, sign: int = 1) -> float | Array:
    """mu of a cost, with what the training loop may round off; rounded up, or down with ``sign`` -1."""
    mus = np.sqrt(squares) * (1 + sign * max(_ROUNDING, _EACH * run.steps)) + 2 * ROUND_OFF * math.sqrt(run.steps)
    return mus if isinstance(squares, np.ndarray) else float(mus)


def gaussian(run: Run, square: float) -> GaussianDP:
    """mu-GDP with this mu^2, rounded both ways."""
    return GaussianDP(rounded_mu(run, square), rounded_mu(run, square, -1))


def is_constant(run: Run) -> bool:
    """Whether all steps are alike, so that no array of them is needed."""
    return run.table.alike and not (run.sampling.remainder(run.n) and run.strong_convexity)


def constant_steps(run: Run) -> ConstantSteps:
    """The equal steps of ``run``."""
    step = run.table.only
    return ConstantSteps(
        contraction=float(contraction(run, step.step_size)),
        gap=step.step_size * sensitivity(run) * run.clip_norm / step.size,
        variance=step.deviation**2,
        diameter=math.inf if run.diameter is None else run.diameter,
        length=run.sampling.period(run.n, run.steps),
    )


def varying_steps(run: Run) -> tuple[VaryingSteps, int]:
    """The steps of ``run`` that are not forgotten, and the number of those that are."""
    count = _counted(run)
    earlier, steps = run.steps - count, run.table.last(count).written()
    share = run.sampling.batch_sizes(run.n, earlier, run.steps) / steps.size
    with np.errstate(divide="ignore"):
        logs = np.log(contraction(run, steps.step_size, least=share))
    after = np.concatenate([np.cumsum(logs[::-1])[::-1][1:], [0.0]])
    gap = steps.step_size * sensitivity(run) * run.clip_norm / steps.size
    first = int(np.searchsorted(after, _FORGOTTEN)) if after[0] < _FORGOTTEN else 0
    weight = np.exp(after[first:])
    far = math.inf if run.diameter is None else run.diameter
    before = math.exp(after[first - 1]) * min(far, float(gap[:first].sum()) + earlier * float(gap[0])) if first else 0.0
    assert first or not earlier
    return VaryingSteps(weight, weight * gap[first:], (weight * steps.deviation[first:]) ** 2, before, far), earlier + first


def too_many(run: Run) -> str | None:
    """Why the steps of ``run`` cannot be looked at one by one, where that is needed; None where they can."""
    if is_constant(run) or (count := _counted(run)) <= _MOST:
        return None
    return f"{count:,} steps would have to be looked at one by one, as an epoch's last batch is smaller: the most is {_MOST:,}."


def _counted(run: Run) -> int:
    """So many of the last steps, at least, are not forgotten; all where they are given one by one. Of equal steps the last one of
    each epoch may contract less, and is not counted on.
    """
    c = float(contraction(run, run.table.step_size[0]))
    if not run.table.alike or c >= 1:
        return run.steps
    length = run.sampling.epoch_length(run.n)
    epochs = math.ceil(_FORGOTTEN / math.log(max(c, 1e-300)) / max(length - 1, 1)) + 2
    return min(run.steps, epochs * length)
