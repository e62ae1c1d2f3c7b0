"""Noisy full-batch gradient descent on a bounded set (Altschuler, Talwar)."""

from __future__ import annotations

import math

from dplateau.accounting import Guarantee, Proved
from dplateau.analyses.base import Analysis
from dplateau.analyses.closed_forms import concentrated, equal_steps, unequal
from dplateau.analyses.requirements import missing
from dplateau.spec import FullBatch, Run


class NoisyGDBound(Analysis):
    """``D_a <= a/(2 eta^2 sigma^2) min{T s^2, min over R of R (D~/R + s)^2}``. **Proved.**

    Here s = 2 eta L/n (eta L/n under add-remove) and D~ = D + s; R <= T is how many steps the proof looks back. After about
    D~/s steps the bound no longer grows.

    Setting: convex smooth losses, full batches, projection on a set of diameter D, constant step size up to ``2/smoothness``
    and constant noise.

    Source: Altschuler, Talwar 2022, (B.1) and Remark B.2.
    """

    name = "noisy-gd"
    source = "Altschuler, Talwar 2022, (B.1)"
    status = Proved
    dominated_by = "fixed-order"

    def why_not(self, run: Run) -> str | None:
        return missing(run, diameter=True, samplings=(FullBatch,)) or unequal(run)

    def guarantee(self, run: Run) -> Guarantee:
        steps = equal_steps(run)
        s, far = steps.gap, (run.diameter or 0.0) + steps.gap
        best = min(far / s, float(run.steps))
        looks = {max(look, 1) for look in (math.floor(best), math.ceil(best))}
        cost = min(run.steps * s**2, *(look * (far / look + s) ** 2 for look in looks))
        return concentrated(run, cost / (2 * steps.noise**2))
