"""The closed forms of Bok, Su, Altschuler 2024, all of them mu-GDP.

Their L is the sensitivity of one record's gradient: here s/eta times the batch size, with s the gap of ``EqualSteps``; that is 2 L
under replace and L under add-remove. c is the contraction of a gradient step, l the number of batches of an epoch.
"""

from __future__ import annotations

import math

from dplateau.accounting import Guarantee, Proved
from dplateau.analyses.base import Analysis
from dplateau.analyses.closed_forms import EqualSteps, equal_steps, gaussian, not_contracting, uneven
from dplateau.analyses.requirements import missing
from dplateau.spec import Cyclic, FullBatch, Run, Sampling

_PAPER = "Bok, Su, Altschuler 2024 (arXiv 2403.00278), section 4"


def _decay(steps: EqualSteps, power: float) -> float:
    """``1 - c^power``."""
    return -math.expm1(power * steps.log_factor)


def _strongly_convex(run: Run, sampling: type[Sampling]) -> str | None:
    return missing(run, strongly_convex=True, samplings=(sampling,)) or uneven(run) or not_contracting(run)


def _bounded(run: Run, sampling: type[Sampling]) -> str | None:
    if reason := missing(run, diameter=True, samplings=(sampling,)) or uneven(run):
        return reason
    steps = equal_steps(run)
    passes = (run.diameter or 0.0) / steps.gap
    needed = math.ceil(passes) if passes < 1e15 else math.inf
    if steps.epochs < needed:
        return (
            f"it starts at {needed:g} passes over the data (diameter over the movement of one record), the run has {steps.epochs}: "
            "until then plain composition is smaller."
        )
    return None


class ShiftedGDBound(Analysis):
    """Full batches, strongly convex: ``mu = s/(eta sigma) sqrt((1 - c^T)/(1 + c^T) (1 + c)/(1 - c))``. **Proved.**

    Setting: strongly convex smooth losses, constant step size below ``2/smoothness``, constant noise; no diameter. Tight.

    Source: Bok, Su, Altschuler 2024, section 4, NoisyGD for strongly convex losses.
    """

    name = "shifted-gd"
    source = f"{_PAPER}, NoisyGD, strongly convex"
    status = Proved
    dominated_by = "fixed-order"

    def why_not(self, run: Run) -> str | None:
        return _strongly_convex(run, FullBatch)

    def guarantee(self, run: Run) -> Guarantee:
        steps = equal_steps(run)
        gone = _decay(steps, run.steps)
        return gaussian(run, (steps.gap / steps.noise) ** 2 * gone / (2 - gone) * (1 + steps.factor) / (1 - steps.factor))


class ShiftedGDBoundedSetBound(Analysis):
    """Full batches, bounded: ``mu^2 = (3 D s + s^2 ceil(D/s))/(eta sigma)^2``, once ``T >= D/s``. **Proved.**

    Setting: convex smooth losses, projection on a set of diameter D, constant step size up to ``2/smoothness``, constant noise.

    Source: Bok, Su, Altschuler 2024, section 4, NoisyGD for convex losses on a bounded set.
    """

    name = "shifted-gd-bounded"
    source = f"{_PAPER}, NoisyGD, convex, bounded"
    status = Proved
    dominated_by = "fixed-order"

    def why_not(self, run: Run) -> str | None:
        return _bounded(run, FullBatch)

    def guarantee(self, run: Run) -> Guarantee:
        return gaussian(run, _on_bounded_set(run, 0.0))


class ShiftedCGDBound(Analysis):
    """Cyclic batches, strongly convex, E epochs. **Proved.**

    ``mu = s/(eta sigma) sqrt(1 + c^(2l-2) (1 - c^2)/(1 - c^l)^2 (1 - c^(l(E-1)))/(1 + c^(l(E-1))))``: the last batch's record.

    Setting: strongly convex smooth losses, equal cyclic batches, whole epochs, constant step size below ``2/smoothness``, constant
    noise; no diameter.

    Source: Bok, Su, Altschuler 2024, section 4, NoisyCGD for strongly convex losses.
    """

    name = "shifted-cgd"
    source = f"{_PAPER}, NoisyCGD, strongly convex"
    status = Proved
    dominated_by = "fixed-order"

    def why_not(self, run: Run) -> str | None:
        return _strongly_convex(run, Cyclic)

    def guarantee(self, run: Run) -> Guarantee:
        steps = equal_steps(run)
        length = steps.batches
        gone = _decay(steps, length * (steps.epochs - 1)) if steps.epochs > 1 else 0.0
        kept = steps.factor ** (2 * length - 2)
        earlier = kept * (1 - steps.factor) * (1 + steps.factor) / _decay(steps, length) ** 2 * gone / (2 - gone)
        return gaussian(run, (steps.gap / steps.noise) ** 2 * (1 + earlier))


class ShiftedCGDBoundedSetBound(Analysis):
    """Cyclic batches, bounded: ``mu^2 = (s^2 + 3 D s/l + (s/l)^2 ceil(D l/s))/(eta sigma)^2``, once ``E >= D/s``. **Proved.**

    Setting: convex smooth losses, equal cyclic batches, whole epochs, projection on a set of diameter D, constant step size up to
    ``2/smoothness``, constant noise. Not tight: D = 10, s = 0.2, l = 20 and unit noise give 0.6633, ``fixed-order`` 0.6576.

    Source: Bok, Su, Altschuler 2024, section 4, NoisyCGD for convex losses on a bounded set.
    """

    name = "shifted-cgd-bounded"
    source = f"{_PAPER}, NoisyCGD, convex, bounded"
    status = Proved
    dominated_by = "fixed-order"

    def why_not(self, run: Run) -> str | None:
        return _bounded(run, Cyclic)

    def guarantee(self, run: Run) -> Guarantee:
        return gaussian(run, _on_bounded_set(run, equal_steps(run).gap ** 2))


def _on_bounded_set(run: Run, last: float) -> float:
    """mu^2 of the bounded settings; ``last`` is what the last use costs beyond its share."""
    steps, far = equal_steps(run), run.diameter or 0.0
    share = steps.gap / steps.batches
    look = math.ceil(far / share)
    return (last + 3 * far * share + share**2 * look) / steps.noise**2
