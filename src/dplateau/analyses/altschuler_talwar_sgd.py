"""Noisy SGD with random batches on a bounded set (Altschuler, Talwar), repaired.

As printed the sampled step is ``D(N || mixture)``, the smaller direction, and its batch is shared with a coin that the noise
reveals. Here it is the larger direction of the pair that plain composition uses, which the proof below allows for:

===========  ===============================  =========================
sampling     add-remove                       replace
===========  ===============================  =========================
Poisson      mixture against Gaussian, both   mixtures, opposite centres
fixed size   C_q(G(2/z_2))                    C_q(G(2/z_2))
===========  ===============================  =========================

with z_2 the part of the noise multiplier that hides the draws. A Poisson batch may be so large that its gradient step is no
contraction; the probability of that goes to delta. Proof: ``docs/proofs/sampled-last-iterate.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from dplateau.accounting import Guarantee, Proved, binomial
from dplateau.accounting.gaussian import Array
from dplateau.accounting.mechanism import step_kinds
from dplateau.analyses.base import Analysis
from dplateau.analyses.closed_forms import not_random, unequal
from dplateau.analyses.requirements import contraction, missing
from dplateau.analyses.split_noise import SplitNoise, absorbed
from dplateau.spec import ROUND_OFF, FixedSize, Poisson, Run
from dplateau.spec.schedule import largest

_TAIL: Final = 1e-18
"""Probability per step of a batch that is smaller or larger than ``NoisySGDStronglyConvexBound`` assumes."""


class NoisySGDBound(Analysis):
    """``D_a <= min over R and the split of R S_a + a D^2/(2 eta^2 sigma_1^2 R)``. **Proved.**

    Setting: convex smooth losses, Poisson or fixed-size batches, projection on a set of diameter D, constant step size, batch size
    and noise; step size up to ``2/smoothness``, and for Poisson batches somewhat below it.

    Source: Altschuler, Talwar 2022, (B.2), with the sampled step of this file.
    """

    name = "noisy-sgd"
    source = "Altschuler, Talwar 2022, (B.2), repaired"
    status = Proved
    dominated_by = "sampled-last-iterate"

    def why_not(self, run: Run) -> str | None:
        return missing(run, diameter=True, samplings=(Poisson, FixedSize)) or unequal(run) or _sampled(run)

    def guarantee(self, run: Run) -> Guarantee:
        return _split(run, absorbed(run, 1.0), _too_large(run))


class NoisySGDStronglyConvexBound(Analysis):
    """``D_a <= min over R and the split of R S_a + a D^2 (1 - c^2)/(2 eta^2 sigma_1^2 (c^(-2R) - 1))``. **Proved.**

    Setting: as for ``NoisySGDBound``, with strongly convex losses: a gradient step contracts by c < 1. A Poisson batch contracts
    less the smaller it is: c belongs to a batch that is exceptionally small or large, and the exceptions go to delta.

    Source: Altschuler, Talwar 2022, (B.3), with the sampled step of this file.
    """

    name = "noisy-sgd-strong"
    source = "Altschuler, Talwar 2022, (B.3), repaired"
    status = Proved
    dominated_by = "sampled-last-iterate"

    def why_not(self, run: Run) -> str | None:
        reason = missing(run, diameter=True, strongly_convex=True, samplings=(Poisson, FixedSize)) or unequal(run) or _sampled(run)
        if reason is None and _contraction(run)[0] >= 1:
            return "the smallest batches may be empty, or step_size is too large, so a step need not contract. Raise batch_size."
        return reason

    def guarantee(self, run: Run) -> Guarantee:
        factor, escape = _contraction(run)
        return _split(run, absorbed(run, factor), escape)


class NoisySGDScheduleBound(Analysis):
    """``D_a <= min over R and the split of R S_a + a D^2/(2 sum of the last R eta_t^2 sigma_1^2)``. **Proved.**

    Where steps fall as ``t^-c`` there is no plateau: after some ``D n T^c/L`` steps D_a grows as ``T^c``, not as T (Example 5.9).

    Setting: as for ``NoisySGDBound``, with step sizes that change from step to step. The distance is absorbed in proportion to the
    variance of each step, which is never worse than the printed choice, in proportion to the step size.

    Source: Altschuler, Talwar 2022, (5.7), with the sampled step of this file.
    """

    name = "noisy-sgd-schedule"
    source = "Altschuler, Talwar 2022, (5.7), repaired"
    status = Proved
    dominated_by = "sampled-last-iterate"

    def why_not(self, run: Run) -> str | None:
        return missing(run, diameter=True, samplings=(Poisson, FixedSize)) or _no_schedule(run) or _sampled(run)

    def guarantee(self, run: Run) -> Guarantee:
        deviations = run.table.written().deviation
        reach = np.sqrt(np.cumsum(deviations[::-1] ** 2))
        return _split(run, lambda looks: (run.diameter or 0.0) / reach[looks.astype(np.int64) - 1], _too_large(run))


def _no_schedule(run: Run) -> str | None:
    if "step_size" not in run.table.changing:
        return "all steps are alike: noisy-sgd covers them. It is for a step_size that changes."
    return unequal(run.replace(step_size=None))


def _sampled(run: Run) -> str | None:
    """Why the batches are not random enough, or the steps too long for the largest of them."""
    if reason := not_random(run):
        return reason
    if (escape := _too_large(run)) * run.n > 1:
        most = 2 * float(run.table.size[0]) / (largest(run.step_size or 0.0) * (run.smoothness or 0.0))
        return (
            f"a Poisson batch of more than {most:.4g} records is not a contraction at this step_size, and has probability "
            f"{escape:.1g} or more a step. Lower step_size, or use FixedSize batches."
        )
    return None


def _too_large(run: Run) -> float:
    """A bound on the probability that a batch is so large that its step is not a contraction.

    The draws of the other records and the record itself: one more than what the others alone may hold.
    """
    if not run.sampling.random_size:
        return 0.0
    size = float(run.table.size[0])
    most = math.floor(2 * size / (largest(run.step_size or 0.0) * (run.smoothness or math.inf)) * (1 - 1e-12))
    return float(binomial.more_than(most - 1, run.n, size / run.n))


def _contraction(run: Run) -> tuple[float, float]:
    """The contraction of a strongly convex step, rounded up, and the probability that a batch does not have it."""
    size = float(run.table.size[0])
    least, most, escape = 1.0, 1.0, 0.0
    if run.sampling.random_size:
        # The record of the larger data set is left out below and counted above.
        rate = size / run.n
        low = int(binomial.fewest(run.n - 1, rate, _TAIL))
        allowed = math.floor(2 * size / (run.table.only.step_size * (run.smoothness or math.inf)) * (1 - 1e-12))
        high = min(int(binomial.most(run.n, rate, _TAIL)) + 1, allowed)
        least, most = low / size, high / size
        escape = float(binomial.more_than(high - 1, run.n, rate)) + float(binomial.fewer_than(low, run.n - 1, rate))
    elif run.adjacency == "add-remove":
        least = 1 - 1 / size  # The place of an absent record is empty.
    factor = float(np.nextafter(contraction(run, run.table.only.step_size, least=least, most=most), 2.0))
    return min(factor, 1.0), escape


def _split(run: Run, far: Callable[[Array], Array], escape: float) -> SplitNoise:
    kinds, shift = step_kinds(run)
    (rate,), (noise,), _ = run.table.draws()
    return SplitNoise(kinds, float(rate), shift / float(noise), run.steps, far, escape, ROUND_OFF)
