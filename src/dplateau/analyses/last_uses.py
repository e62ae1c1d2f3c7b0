"""The strings of a record whose places in the batches are known: where it arrives, and what room there is to absorb it.

A record that is used in step t moves the iterate by at most ``s_t = step_size_t * sensitivity_t``. What is left of it at the end
is contracted by ``w_t``, the product of the later contractions, and the noise of step t by the same: a jump ``w_t s_t`` with room
``w_t^2 v_t``. Iterates are at most a diameter apart, and at most what uses in all steps so far, and their rounding, add up to. So a
string may also start after any step, with one jump, ``w_t`` times that distance, in place of all earlier ones. Every start gives a
bound, the mu of its string with what the steps after it may round off; the least one counts. Starts after a use, and where hardly
anything is left of what came before, are tried.
Proof: ``docs/proofs/fixed-order.md``.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from dplateau.accounting.gaussian import ULP, Array, sums_from
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
_FORGOTTEN: Final = 1e-13
"""Steps are left out where the distance that they may leave in the end is less of the last step's jump and noise; it is kept."""


def least(cost: Callable[[Array], Array], count: int, wide: int = _WIDE) -> tuple[Array, int]:
    """The least that ``cost`` takes over look-backs 0 to ``count - 1``, and one that reaches it (for the largest of several costs).

    ``cost`` maps look-backs of shape (k,) to shape (..., k). Few are all tried; of many, ``wide`` at once, on a grid that is
    refined where they are least. Every look-back is a bound, so a missed minimum costs nothing but tightness.
    """
    best, place = np.asarray(np.inf), 0
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


def rounded_mu(squares: Array | float, steps: Array | float) -> Array:
    """mu of a cost, rounded up, with what the training loop may round off in the ``steps`` in which shifts are absorbed."""
    return np.sqrt(squares) * (1 + np.maximum(_ROUNDING, _EACH * steps)) + 2 * ROUND_OFF * np.sqrt(steps)


@dataclass(frozen=True)
class ConstantSteps:
    """So many equal steps: contraction c, gap s of one use, variance v of the noise, diameter, uses one epoch ``length`` apart."""

    contraction: float
    gap: float
    variance: float
    diameter: float
    length: int
    steps: int

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

    def _far(self, after: Array) -> Array:
        """The largest distance, contracted by the ``after`` steps that follow."""
        moved = self.gap + 2 * ROUND_OFF * math.sqrt(self.variance)
        far = moved * self._sum(self.contraction, after, np.asarray(self.steps - 1))
        return far if math.isinf(self.diameter) else np.minimum(far, self.diameter * self.contraction**after)

    @property
    def _remembered(self) -> float:
        """After so many steps hardly anything is left of a distance."""
        if self.contraction >= 1:
            return math.inf
        left = _FORGOTTEN * min(self.gap, math.sqrt(self.variance)) / float(self._far(np.zeros(1))[0])
        return math.ceil(math.log(left) / math.log(max(self.contraction, 1e-300)))

    def cost(self, last: Array, previous: Array, uses: int) -> Array:
        """The least mu of a record with ``uses`` uses: ``last`` steps after the last one, ``previous`` after the one before,
        and one epoch more after each earlier one. Shapes of ``last`` and ``previous`` are broadcast.
        """
        last, previous = (np.asarray(part, dtype=float)[..., None] for part in np.broadcast_arrays(last, previous))
        c, s, remembered = self.contraction, self.gap, self._remembered

        def mu(back: Array) -> Array:
            """Starting after the use ``back`` epochs before ``previous``, or later, but before the next one."""
            earlier = back >= 1
            until = np.where(earlier, previous + (back - 1) * self.length, last)
            start = np.clip(remembered, until + 1, np.minimum(previous + back * self.length, self.steps))
            middle = s * c**previous * self._sum(c**self.length, np.asarray(1.0), back - 1)
            prior, prior_room = np.where(earlier, s * c**previous, 0.0), np.where(earlier, self._room(last + 1, previous), 0.0)
            middle_room = self._room(previous + 1, previous + (back - 1) * self.length)
            jumps = np.broadcast_arrays(self._far(start), middle, prior, s * c**last)
            rooms = np.broadcast_arrays(self._room(until + 1, start - 1), middle_room, prior_room, self._room(np.zeros(1), last))
            return rounded_mu(taut_string(np.stack(jumps, axis=-1), np.stack(rooms, axis=-1)), start)

        result = mu(np.array([uses - 1.0]))[..., 0]
        if c < 1 or math.isfinite(self.diameter):
            start = np.clip(remembered, 0, last)
            alone = rounded_mu(taut_string(self._far(start), self._room(np.zeros(1), start - 1)), start[..., 0])
            result = np.minimum(result, np.minimum(alone, least(mu, uses - 1)[0]))
        return result


@dataclass(frozen=True)
class VaryingSteps:
    """Steps of any kind, from the first that is not forgotten: ``jump`` w s and ``room`` w^2 v, each of shape (T,).

    ``start`` is the contracted distance that steps before the first may have left, and ``far``, of shape (T,), the largest one
    after each step. Strings start ``late`` only where a diameter bounds that, or steps contract: there it saves rounding.
    """

    jump: Array
    room: Array
    far: Array
    start: float
    late: bool

    def cost(self, uses: Array, jumps: Array, *, back: int | None = None) -> float:
        """The least mu of a record that is used in the steps ``uses`` (rising) with these ``jumps``, each of shape (K,); with two
        look-backs (0 and ``back``, in uses) in place of the best.
        """
        room = np.add.reduceat(self.room, uses)
        square = taut_string(np.append(self.start, jumps), np.append(self.room[: uses[0]].sum(), room))
        result = float(rounded_mu(square, self.room.size))
        if not self.late:
            return result
        from_afar = self.from_afar(uses, jumps)
        if back is None:
            return min(result, float(least(from_afar, uses.size, _NARROW)[0]))
        return min(result, float(from_afar(np.array([0, min(back, uses.size - 1)])).min()))

    def alone(self) -> Array:
        """The least mu of every record that is used once, by its step."""
        before, left = np.append(0.0, np.cumsum(self.room)[:-1]), np.append(sums_from(self.room), 0.0)
        jumps = np.stack(np.broadcast_arrays(self.start, self.jump), axis=-1)
        result = rounded_mu(taut_string(jumps, np.stack([before, left[:-1]], axis=-1)), self.room.size)
        if self.late:
            result = np.minimum(result, rounded_mu(taut_string(self.far[:, None], left[1:, None]), np.arange(self.room.size)[::-1]))
        return result

    def worst(self, length: int) -> float:
        """The largest mu over the places of an epoch of ``length`` steps.

        Places are told apart by their last use. A group of them costs at most what its last place would with the largest jump of
        the group in every epoch; the most expensive group is split until it is a single place.
        """
        missing = -self.jump.size % length
        epochs = np.concatenate([np.zeros(missing), self.jump]).reshape(-1, length)

        def members(first: int, last: int) -> tuple[Array, Array]:
            uses = np.arange(last, epochs.size, length) - missing
            return uses[uses >= 0], epochs[:, first : last + 1].max(axis=1)[uses >= 0]

        whole = members(0, length - 1)
        back = least(self.from_afar(*whole), whole[0].size, _NARROW)[1] if self.late else 0
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

    def from_afar(self, uses: Array, jumps: Array) -> Callable[[Array], Array]:
        """mu of starting at the largest distance, after the use so many uses before the last."""
        room = np.add.reduceat(self.room, uses)
        others = self.room.copy()
        others[uses] = 0
        rest = np.add.reduceat(others, uses)

        def cost(backs: Array) -> Array:
            costs: list[float] = []
            for place in uses.size - 1 - backs:
                rises, rooms = np.append(self.far[uses[place]], jumps[place + 1 :]), np.append(rest[place], room[place + 1 :])
                costs.append(float(taut_string(rises, rooms)))
            return rounded_mu(np.array(costs), self.room.size - 1 - uses[uses.size - 1 - backs])

        return cost


def both_ways(run: Run) -> float:
    """What a mu that was rounded up is multiplied by to be rounded down."""
    return max(1 - 2 * max(_ROUNDING, _EACH * run.steps), 0.0)


def is_constant(run: Run) -> bool:
    """Whether all steps are alike, so that no array of them is needed: of an l2 term a smaller last batch has as much."""
    return run.table.alike and not (run.sampling.remainder(run.n) and (run.strong_convexity or 0.0) > run.l2)


def constant_steps(run: Run) -> ConstantSteps:
    """The equal steps of ``run``."""
    step = run.table.only
    return ConstantSteps(
        contraction=float(contraction(run, step.step_size)),
        gap=step.step_size * sensitivity(run) * run.clip_norm / step.size,
        variance=step.deviation**2,
        diameter=math.inf if run.diameter is None else run.diameter,
        length=run.sampling.period(run.n, run.steps),
        steps=run.steps,
    )


def varying_steps(run: Run) -> tuple[VaryingSteps, int]:
    """The steps of ``run`` that are not forgotten, and the number of those that are."""
    count = _counted(run)
    earlier, steps = run.steps - count, run.table.last(count).written()
    share = run.sampling.batch_sizes(run.n, earlier, run.steps) / steps.size
    with np.errstate(divide="ignore"):
        logs = np.log(contraction(run, steps.step_size, least=share))
    after = np.append(sums_from(logs)[1:], 0.0)
    gap = steps.step_size * sensitivity(run) * run.clip_norm / steps.size
    weight, moved = np.exp(after), gap + 2 * ROUND_OFF * steps.deviation
    total, bounded = np.cumsum(weight * moved) + earlier * weight[0] * moved[0], run.diameter is not None
    far = total * (1 + ULP * count)  # A sum loses a digit a step, at most.
    if bounded:
        # From the step on after which it was a diameter.
        limit = weight * run.diameter
        far = np.minimum(limit, far + np.minimum.accumulate(np.minimum(limit - total, 0.0)))
    hardly = far <= _FORGOTTEN * min(gap[-1], steps.deviation[-1])
    first = min(int(hardly.sum()), far.size - 1)  # A tiny diameter leaves hardly anything of the last step either.
    assert first or not earlier
    weight, before = weight[first:], float(far[first - 1]) if first else 0.0
    room = (weight * steps.deviation[first:]) ** 2
    late = bounded or bool(run.strong_convexity)
    return VaryingSteps(weight * gap[first:], room, far[first:], before, late), earlier + first


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
    length, noise = run.sampling.epoch_length(run.n), float(run.table.noise[0]) / sensitivity(run)
    share = _FORGOTTEN * min(noise, 1.0) / (1 + 2 * ROUND_OFF * noise) / run.steps
    epochs = math.ceil(math.log(share) / math.log(max(c, 1e-300)) / max(length - 1, 1)) + 2
    return min(run.steps, epochs * length)
