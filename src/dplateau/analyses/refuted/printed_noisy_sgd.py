"""Noisy SGD with random batches as printed by Altschuler and Talwar: the smaller direction of the sampled step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dplateau.accounting import Guarantee, Refuted
from dplateau.accounting.gaussian import Array
from dplateau.accounting.mechanism import sensitivity
from dplateau.accounting.privacy_loss import PoissonAdd
from dplateau.analyses.base import Analysis
from dplateau.analyses.closed_forms import not_random, unequal
from dplateau.analyses.requirements import contraction, missing
from dplateau.analyses.split_noise import SplitNoise, absorbed
from dplateau.spec import FixedSize, Poisson, Run


class PrintedNoisySGD(Analysis):
    """(B.2) with ``S_a(q, s) = D_a(N(0, s^2) || (1 - q) N(0, s^2) + q N(1, s^2))``. **Refuted.**

    One step, replace, q = 0.1, noise of 4 gradient norms, order 32: 2.59e-2 printed, 4.15e-2 true. With q = 0.5 and z = 1 the
    printed step never costs more than log 2: ``tests/refutations/test_renyi_direction.py`` and ``test_printed_noisy_sgd.py``.
    ``noisy-sgd`` is the repair.

    Source: Altschuler, Talwar 2022, Definition 2.10 and (B.2); Remark B.2 for add-remove.
    """

    name = "printed-noisy-sgd"
    source = "Altschuler, Talwar 2022, (B.2), as printed"
    status = Refuted

    def why_not(self, run: Run) -> str | None:
        return missing(run, diameter=True, samplings=(Poisson, FixedSize)) or unequal(run) or not_random(run)

    def guarantee(self, run: Run) -> Guarantee:
        return _printed(run, absorbed(run, 1.0))


class PrintedNoisySGDStronglyConvex(Analysis):
    """(B.3) with the same sampled step. **Refuted** with (B.2): for one step they are equal.

    Source: Altschuler, Talwar 2022, Definition 2.10 and (B.3).
    """

    name = "printed-noisy-sgd-strong"
    source = "Altschuler, Talwar 2022, (B.3), as printed"
    status = Refuted

    def why_not(self, run: Run) -> str | None:
        reason = missing(run, diameter=True, strongly_convex=True, samplings=(Poisson, FixedSize))
        return reason or unequal(run) or not_random(run)

    def guarantee(self, run: Run) -> Guarantee:
        factor = float(contraction(run, run.table.only.step_size))
        return _printed(run, absorbed(run, min(factor, 1.0)))


class PrintedNoisySGDSchedule(Analysis):
    """(5.7) with the same sampled step; the distance is absorbed over R - 1 steps, in proportion to the step sizes. **Refuted.**

    Source: Altschuler, Talwar 2022, Definition 2.10 and (5.7).
    """

    name = "printed-noisy-sgd-schedule"
    source = "Altschuler, Talwar 2022, (5.7), as printed"
    status = Refuted

    def why_not(self, run: Run) -> str | None:
        reason = missing(run, diameter=True, samplings=(Poisson, FixedSize)) or not_random(run)
        if reason is None and "step_size" not in run.table.changing:
            return "all steps are alike: it is for a step_size that changes."
        return reason or unequal(run.replace(step_size=None))

    def guarantee(self, run: Run) -> Guarantee:
        steps = run.table.written()
        eta, sigma = steps.step_size, float(steps.deviation[0] / steps.step_size[0])
        travel = np.concatenate([[0.0], np.cumsum(eta[::-1])])

        def far(looks: Array) -> Array:
            with np.errstate(divide="ignore"):
                return (run.diameter or 0.0) * np.sqrt(looks - 1) / (sigma * travel[looks.astype(np.int64) - 1])

        return _printed(run, lambda looks: np.where(looks > 1, far(np.maximum(looks, 2)), np.inf))


def _printed(run: Run, far: Callable[[Array], Array]) -> SplitNoise:
    (rate,), (noise,), _ = run.table.draws()
    return SplitNoise((PoissonAdd,), float(rate), sensitivity(run) / float(noise), run.steps, far)
