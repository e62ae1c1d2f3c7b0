"""The last iterate forgets its start: reflection coupling."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Final

import numpy as np

from dplateau.accounting import Enclosure, Guarantee, Proved
from dplateau.accounting.best_of import least_delta
from dplateau.accounting.gaussian import Array
from dplateau.accounting.reflection import Steps, still_apart
from dplateau.accounting.slack import WithSlack
from dplateau.analyses.base import Analysis
from dplateau.analyses.exact_composition import ExactCompositionBound
from dplateau.analyses.fixed_order import FixedOrderBound
from dplateau.analyses.random_sizes import no_contraction
from dplateau.analyses.requirements import missing
from dplateau.analyses.shuffled import ShuffledBound
from dplateau.analyses.start_distance import starts
from dplateau.spec import Cyclic, FixedSize, FullBatch, Poisson, RandomAllocation, Run, Shuffled

COVERED: Final = (Poisson, FixedSize, RandomAllocation, Cyclic, Shuffled, FullBatch)
_SMALL: Final = 1e-3
"""Share of delta that may go to batches of random size that are too small to contract as much as expected."""
_SHARES: Final = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 1e-3)
"""Shares of delta that are tried for being apart still."""
_LEAST: Final = 1e-40
"""Look-backs that leave two runs apart with a smaller probability are not listed."""
_NEXT: Final = 1.002
"""Every look-back that is listed is longer than the one before by this factor at least."""


class ReflectionCouplingBound(Analysis):
    """Look back R steps. Two runs on the same records forget their starts, but for the probability S_R of being apart still:
    ``delta(epsilon) <= S_R + delta_R(epsilon)``, delta_R the bound of these from a common start. The least over R. **Proved.**

    Setting: convex or strongly convex losses, projection on a bounded set or strong convexity, any step sizes up to
    ``2/smoothness``; or smooth losses that need not be convex, clipped or not, with projection and any step sizes, where the bound
    is small while ``step_size smoothness diameter^2`` is at most some ten variances of a step's noise. Batches drawn or allocated
    at random, cyclic, shuffled or full. Where sizes are random the probability of a batch that is larger than is counted on is
    added to delta.

    Source: ours, ``docs/proofs/reflection-coupling.md``; the coupling is that of Lindvall, Rogers 1986.
    """

    name = "reflection-coupling"
    source = "last iterate, start forgotten by reflection; docs/proofs/reflection-coupling.md"
    status = Proved

    def why_not(self, run: Run) -> str | None:
        return missing(run, forgets=True, convex=False, samplings=COVERED) or no_contraction(run)

    def guarantee(self, run: Run) -> Guarantee:
        return _Forgotten(run)

    def about(self, run: Run, delta: float) -> float:
        return _Forgotten(run).about(delta)


@dataclass(frozen=True)
class _Forgotten(Guarantee):
    """The look-backs of a run."""

    family: ClassVar[bool] = True

    run: Run

    def epsilon(self, delta: float) -> Enclosure:
        return self.chosen(delta).epsilon(delta)

    def upper(self, delta: float) -> float:
        return self.chosen(delta).upper(delta)

    def delta(self, epsilon: float) -> Enclosure:
        return least_delta(lambda delta: self.chosen(delta).delta(epsilon), self.about, epsilon)

    def about(self, delta: float) -> float:
        """About what epsilon is, for searches."""
        return _best(self.run, delta)[0]

    def chosen(self, delta: float) -> Guarantee:
        """A look-back, or one that says nothing."""
        return _member(self.run, delta) or WithSlack(_window(self.run, 1), 1.0)

    def choice(self, delta: float) -> str | None:
        return self.chosen(delta).choice(delta)

    def why_not(self, delta: float) -> str | None:
        if _member(self.run, delta):
            return None
        reason = f"after all {self.run.steps:,} steps the start is not forgotten yet: the probability of that is above delta."
        if self.run.strong_convexity is None and self.run.smoothness and self.run.diameter:
            table = self.run.table
            pushed = float((table.step_size / table.deviation**2).min()) * self.run.smoothness * self.run.diameter**2
            reason += (
                f" Losses need not be convex, and step_size smoothness diameter^2 is {pushed:,.3g} variances of a step's noise: "
                "the bound wants about ten at most. Lower the diameter, or raise the noise."
            )
        return reason


@lru_cache(maxsize=16)
def _member(run: Run, delta: float) -> WithSlack | None:
    """The best look-back for ``delta``; None where all leave too much."""
    about, steps, slack = _best(run, delta)
    if math.isinf(about):
        return None
    note = f"looks back {steps:,} of {run.steps:,} steps; before them the start is forgotten, but for {slack:.1g} of delta"
    return WithSlack(_window(run, steps), slack, note, steps)


def _best(run: Run, delta: float) -> tuple[float, int, float]:
    """The best look-back for ``delta``: about what its epsilon is, the number of steps, and what it leaves; or an infinite one."""
    # Convex losses alone contract in batches of any size up to a limit.
    counted = run.sampling.random_size and run.strong_convexity != 0
    back, apart = _look_backs(run, _SMALL * delta if counted else 0.0)
    tried = {int(np.argmax(good)) for share in _SHARES if (good := apart <= share * delta).any()}
    found = [(_rough(run, int(back[k]), delta - float(apart[k])), int(back[k]), float(apart[k])) for k in sorted(tried)]
    return min(found, default=(math.inf, 0, 1.0))


def _window(run: Run, back: int) -> Guarantee:
    """The bound of the last steps from a common start."""
    part = run.part(run.steps - back, run.steps)
    if run.sampling.drawn or run.sampling.allocated or run.strong_convexity is None:
        return ExactCompositionBound().guarantee(part)
    return (ShuffledBound() if run.sampling.shuffled else FixedOrderBound()).guarantee(part)


def _rough(run: Run, back: int, delta: float) -> float:
    """Its epsilon, or where that takes long about that of one direction."""
    if not (run.sampling.drawn or run.sampling.allocated):
        return _window(run, back).upper(delta)
    return ExactCompositionBound().about(run.part(run.steps - back, run.steps), delta)


@lru_cache(maxsize=16)
def _look_backs(run: Run, budget: float) -> tuple[Array, Array]:
    """Numbers of steps, and what each adds to delta: the probability of being apart still, and that of unusual batches."""
    start, far = starts(run, budget, both=True), run.diameter or math.inf
    table, length = start.table, run.sampling.epoch_length(run.n)
    recent = np.append(0.0, np.cumsum(start.chance[::-1])) if start.chance.size > 1 else None
    ever, rounding = start.unusual, float(start.rounding.max())
    back: list[int] = []
    apart: list[float] = []
    for least, probability in still_apart(Steps(start.contraction, start.rounding, table.deviation**2, table.count), far):
        # Whole epochs: in the steps that these add the distance is that of the same noise, and grows where losses are not convex.
        # Of steps that are alike these may as well come last: a walk that has ended does not begin again.
        taken = run.steps - (run.steps - least) // length * length
        here = float(recent[taken]) if recent is not None else float(start.chance[0]) * taken
        if back and back[-1] < taken < _NEXT * back[-1]:
            continue
        extra, grown = rounding * (taken - least), 1.0
        if recent is not None:
            with np.errstate(over="ignore"):
                grown = float(np.prod(np.maximum(start.last(taken)[: taken - least], 1.0)))
        # Either the distance is that of the set, or no batch of the whole run may be unusual.
        known = probability(min(far, (start.mean(run.steps - taken) + extra) * grown)) + ever
        total = min(known, probability(far) + here if math.isfinite(far) else 1.0, 1.0)
        if taken == run.steps or total - here < _LEAST:
            break
        if back and taken == back[-1]:
            apart[-1] = min(apart[-1], total)
        else:
            back.append(taken)
            apart.append(total)
    return np.array(back), np.array(apart)
