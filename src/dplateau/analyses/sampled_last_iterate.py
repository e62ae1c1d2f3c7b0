"""The last iterate under random batches, with the shift and the sampled record in one step."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np

from dplateau.accounting import Enclosure, ExactComposition, Guarantee, Proved, RenyiDP, compositions
from dplateau.accounting.best_of import BestOf, least_delta
from dplateau.accounting.contour import WIDTH
from dplateau.accounting.gaussian import Array, sums_from
from dplateau.accounting.lattice import rough_lattice_epsilon
from dplateau.accounting.mechanism import drawn, sensitivity, step_kinds
from dplateau.accounting.random_allocation import ALLOCATED
from dplateau.accounting.renyi import about_epsilon
from dplateau.accounting.slack import WithSlack
from dplateau.accounting.terms import Composition, Repeated
from dplateau.analyses.base import Analysis
from dplateau.analyses.random_sizes import contractions, no_contraction
from dplateau.analyses.requirements import missing
from dplateau.analyses.start_distance import starts
from dplateau.spec import ROUND_OFF, FixedSize, Poisson, RandomAllocation, Run, StepTable
from dplateau.spec.schedule import scaled

_BLOCKS: Final = 12
_ROUGH_BLOCKS: Final = 4
"""Steps are gathered into so many blocks of one shift, one rate and one noise."""
_SMALL: Final = 1e-3
"""Share of delta that may go to batches that are too small to contract as much as expected."""
_FEW: Final = 3.0
"""Moments say little of no more draws than this: look-backs are compared on small lattices, which take ten times as long."""
_FAR: Final = 0.05
"""Share of delta that may go to a record that has moved the iterate further than counted on, before the look-back."""
_NEARER: Final = 0.999
"""A start is told by what the record has done if that is nearer than so much of the diameter."""
_NOTHING: Final = 12.0
"""A distance below exp(-12) of the noise is nothing."""
_LONGEST: Final = 1 << 22
"""Longest look-back whose steps are written out, one by one."""
_LARGE: Final = 100.0
_SMALLEST_SHARE: Final = 1e-3
"""Least share of the noise, in variance, of either of its parts."""
_UP: Final = 1 + 1e-9
"""Room for the rounding of the shifts."""
_LOST: Final = 1e-6
"""Where shifts make up less than so much of the distance, all steps get the same one."""
Parts = tuple[Composition, ...]


class SampledLastIterateBound(Analysis):
    """Look back R steps: the distance that is left is absorbed by R steps of the sampled mechanism, each shifted by a part of it;
    all parts, contracted to the end, make it up. It is at most a diameter, and at most what the record has moved the iterate by
    until then, but for a small probability. The least over R, and plain composition. **Proved.**

    Setting: convex or strongly convex losses, projection on a bounded set or strong convexity, batches drawn at random (Poisson,
    fixed size, random allocation), any step sizes up to ``2/smoothness``. Where sizes are random a large batch may break the
    contraction: the probability is added to delta, so step sizes need head room below ``2/smoothness``. Under random allocation
    whole epochs are looked back, and the noise is split: one part hides the shifts, the other one the record of an epoch.

    Source: ours, ``docs/proofs/sampled-last-iterate.md``; after Altschuler, Talwar 2022, Theorem 3.1, and Bok, Su, Altschuler 2024,
    whose split of the noise in two it avoids.
    """

    name = "sampled-last-iterate"
    source = "last iterate, shifted sampled steps; docs/proofs/sampled-last-iterate.md"
    status = Proved
    renyi: ClassVar[bool] = False

    def why_not(self, run: Run) -> str | None:
        covered = (Poisson, FixedSize) if self.renyi else (Poisson, FixedSize, RandomAllocation)
        return missing(run, forgets=True, samplings=covered) or no_contraction(run)

    def guarantee(self, run: Run) -> Guarantee:
        return _LookBack(run, self.renyi)

    def about(self, run: Run, delta: float) -> float:
        return _LookBack(run, self.renyi).about(delta)


class SampledLastIterateRenyiBound(SampledLastIterateBound):
    """The same steps, composed by their Renyi divergences. **Proved.**

    Source: as for ``sampled-last-iterate``; conversion: Canonne, Kamath, Steinke 2020, Proposition 12.
    """

    name = "sampled-last-iterate-renyi"
    source = "as sampled-last-iterate, Renyi divergences of the steps"
    renyi = True
    dominated_by = "sampled-last-iterate"


@dataclass(frozen=True)
class _LookBack(Guarantee):
    family: ClassVar[bool] = True

    run: Run
    renyi: bool

    def epsilon(self, delta: float) -> Enclosure:
        return self._best(delta).epsilon(delta)

    def upper(self, delta: float) -> float:
        return self._best(delta).upper(delta)

    def delta(self, epsilon: float) -> Enclosure:
        return least_delta(lambda delta: self._best(delta).read(delta, epsilon), self.about, epsilon)

    def chosen(self, delta: float) -> Guarantee:
        return self._best(delta).chosen(delta)

    def choice(self, delta: float) -> str:
        return self.chosen(delta).choice(delta) or "composes all steps: no look-back gives less"

    def about(self, delta: float) -> float:
        """About what epsilon is, for searches."""
        return self._best(delta).about(delta)

    def _best(self, delta: float) -> BestOf:
        """The look-backs; they are searched in few blocks and in the first direction alone."""
        run, length, far = self.run, _unit(self.run), self._furthest(delta)
        most, window = -(-run.steps // length), run.table.last(far)
        few = float((window.rate * window.count).sum()) <= _FEW

        def steps(back: int) -> int:
            return run.steps - (most - back) * length

        return BestOf(
            lambda back: self._member(steps(back), delta),
            most,
            -(-far // length),
            lambda back, delta: self._rough(steps(back), delta, few=few),
        )

    def _furthest(self, delta: float) -> int:
        """Looking back further than this, nothing is left of a diameter, so it only adds steps."""
        run, last = self.run, self.run.table.last(1)
        c = float(contractions(run, last, _SMALL * delta / run.steps)[0][0])
        if c == 1 or "step_size" in run.table.changing:
            return run.steps if run.table.alike and _unit(run) == 1 else min(run.steps, _LONGEST)
        far = min(run.diameter or math.inf, starts(run, _SMALL * delta).surely(run.steps))
        left = math.log1p(far / float(last.deviation[0])) + _NOTHING
        return min(run.steps, math.ceil(left / -math.log(max(c, 1e-9))), _LONGEST)

    def _member(self, steps: int, delta: float) -> Guarantee:
        parts, slack, note = self._parts(steps, delta, _BLOCKS, self.run)
        if self.renyi:
            inner = RenyiDP(parts)
        elif _unit(self.run) == 1:
            inner = ExactComposition(parts, width=WIDTH)
        else:
            below, _, _ = self._parts(steps, delta, _BLOCKS, self.run, safe=False)
            inner = ExactComposition(parts, below, ALLOCATED)
        return inner if note is None else WithSlack(inner, slack, note, steps)

    def _rough(self, steps: int, delta: float, *, few: bool) -> float:
        """About what epsilon is, in few blocks and in the first direction alone: of few draws by a lattice, of more by moments."""
        parts, slack, _ = self._parts(steps, delta, _ROUGH_BLOCKS, drawn(self.run))
        if slack >= delta:
            return math.inf
        if self.renyi:
            return RenyiDP(parts[:1]).upper(delta - slack)
        with suppress(ArithmeticError, ValueError):
            if few:
                return rough_lattice_epsilon(parts[0], delta - slack)
        return about_epsilon(parts[0], delta - slack)

    def _parts(self, steps: int, delta: float, blocks: int, composed: Run, *, safe: bool = True) -> tuple[Parts, float, str | None]:
        """What a look-back composes, in each direction, what it leaves to chance, and the choice in words.

        Steps that are not shifted are those of ``composed``. ``safe`` says to which side laws of epochs are rounded.
        """
        if steps == self.run.steps:
            return compositions(composed, safe=safe)[0], 0.0, None
        window = self.run.table.last(steps)
        far, contracted, slack = _start(self.run, window, delta)
        note = f"looks back {steps:,} of {self.run.steps:,} steps, over a distance of {far:.3g}"
        if _unit(self.run) > 1:
            return _split(composed, window, contracted, far * _UP, safe=safe), slack, note
        return _shifted(self.run, window, contracted, far * _UP, blocks), slack, note


def _unit(run: Run) -> int:
    """Look-backs are multiples of so many steps, but for an epoch that is not complete."""
    return run.sampling.epoch_length(run.n) if run.sampling.allocated else 1


def _split(run: Run, window: StepTable, contracted: Array, far: float, *, safe: bool) -> Parts:
    """Whole epochs of random allocation with a part of the noise, and the shifts, one Gaussian, with the rest.

    Shifts that are proportional to what a step's noise is worth in the end make the least Gaussian.
    """
    weight, before = _worth(window, contracted)
    shift = before * far / math.sqrt(float(weight @ weight)) + 2 * ROUND_OFF * math.sqrt(window.steps)
    # Of many small steps the mus of the two parts decide: a step adds this variance to the likelihood ratio. With little noise an
    # epoch costs more than its mu says, so it gets more of it.
    square = np.minimum(window.noise**-2.0, _LARGE)
    told, more = (4 * np.sinh(square), 1.0) if run.adjacency == "replace" else (np.expm1(square), 1 + min(float(square.max()), 3.0))
    odds = more * math.sqrt(float((told * window.rate**2 * window.count).sum())) / shift
    share = min(max(odds / (1 + odds), _SMALLEST_SHARE), 1 - _SMALLEST_SHARE)
    part = run.part(run.steps - window.steps, run.steps)
    quieter = part.replace(noise_multiplier=scaled(part.noise_multiplier, math.sqrt(share) * (1 - 1e-15)))
    mu = shift / math.sqrt(1 - share) * _UP
    return tuple(replace(one, gaussian=math.hypot(one.gaussian, mu)) for one in compositions(quieter, safe=safe)[0])


def _start(run: Run, window: StepTable, delta: float) -> tuple[float, Array, float]:
    """The distance before the window, the contractions of its steps, and the probability that either is larger."""
    contracted, unusual = contractions(run, window, _SMALL * delta)
    slack = float((unusual * window.count).sum())
    far = run.diameter or math.inf
    # What the record has done until then counts if all earlier steps contract as well.
    earlier, before = starts(run, _SMALL * delta), run.steps - window.steps
    surely, likely = earlier.surely(before), earlier.likely(before, _FAR * delta)
    if likely < _NEARER * far and (math.isinf(far) or earlier.unusual <= max(_SMALL * delta, slack) * _UP):
        return likely, earlier.last(window.steps), earlier.unusual + (_FAR * delta if likely < surely else 0.0)
    return far, contracted, slack


def _shifted(run: Run, window: StepTable, contracted: Array, far: float, limit: int) -> Parts:
    """The steps of the window, in each direction, with shifts that absorb the distance ``far``.

    The shifts minimise the sum of squares of ``shift + q mu``, as if all steps were Gaussian; any that make up the distance do.
    """
    kinds, unit = step_kinds(run)
    if window.rate.size == 1 and contracted[0] == 1:
        shift = far / (window.steps * float(window.deviation[0])) + 2 * ROUND_OFF
        blocks = [(float(window.rate_towards(True)[0]), float(window.noise[0]), shift, window.steps)]
    else:
        blocks = _blocks(window, contracted, far, unit, limit)
    whole = sum(count * (shift + sensitivity(run) / noise) ** 2 for rate, noise, shift, count in blocks if rate == 1)
    return tuple(
        Composition(
            tuple(Repeated(kind(rate, unit / noise, shift), count) for rate, noise, shift, count in blocks if rate < 1),
            math.sqrt(whole),
        )
        for kind in kinds
    )


def _blocks(window: StepTable, contracted: Array, far: float, unit: float, limit: int) -> list[tuple[float, float, float, int]]:
    """Rate, noise multiplier, shift and number of steps of at most so many blocks, rates rounded up and noise down."""
    full = np.ones(window.steps)
    weight, before = _worth(window, contracted)
    rate, noise = window.rate_towards(True) * full, window.noise * full
    shift = _spread(weight, rate * unit / noise, before * far)
    change = np.abs(np.diff(np.log(rate))) + np.abs(np.diff(np.log(noise)))
    change = change + 4 * np.abs(np.diff(shift)) / max(float(shift.max()), 1e-300) + 1e3 * (np.diff(shift > 0) != 0)
    along = np.append(0.0, np.cumsum(np.minimum(change, 1.0)))
    block = np.floor(along / max(float(along[-1]), 1e-9) * limit * (1 - 1e-9)).astype(int)
    found: list[tuple[float, float, float, int]] = []
    for here in (np.flatnonzero(block == k) for k in np.unique(block)):
        mean = float((weight[here] * shift[here]).sum() / max(float(weight[here].sum()), 1e-300))
        found.append((float(rate[here].max()), float(noise[here].min()), mean + 2 * ROUND_OFF, int(here.size)))
    return found


def _worth(window: StepTable, contracted: Array) -> tuple[Array, float]:
    """What is left of each step's noise in the end, shape (steps,), and of a distance before the window."""
    with np.errstate(divide="ignore"):
        logs = np.log(contracted) * np.ones(window.steps)
    # What the first step of the window absorbs is contracted by all later steps, the distance before it by that one as well.
    after = np.exp(np.append(sums_from(logs)[1:], 0.0))
    return after * window.deviation, math.exp(float(logs.sum()))


def _spread(weight: Array, mean: Array, total: float) -> Array:
    """The shifts ``(k weight - mean)+`` whose sum, weighted by ``weight``, is ``total``."""
    order = np.argsort(mean / np.maximum(weight, 1e-300))
    w, m = weight[order], mean[order]
    # With the first j + 1 steps shifted, k = (total + sum of w m) / (sum of w^2); j is the largest that keeps all shifts >= 0.
    k = (total + np.cumsum(w * m)) / np.maximum(np.cumsum(w**2), 1e-300)
    j = int(np.flatnonzero(k * w >= m).max(initial=0))
    shift = np.maximum(k[j] * weight - mean, 0.0)
    # Differences lose a total that is small beside the moves.
    made = float(weight @ shift)
    return shift * max(total / made, 1.0) if made > total * _LOST else np.full_like(weight, total / float(weight.sum()))
