"""The last iterate under batches that were fixed in advance."""

from __future__ import annotations

import math

import numpy as np

from dplateau.accounting import GaussianDP, Guarantee, Proved
from dplateau.analyses.base import Analysis
from dplateau.analyses.last_uses import both_ways, constant_steps, is_constant, too_many, varying_steps
from dplateau.analyses.requirements import missing
from dplateau.spec import Cyclic, FullBatch, OnePass, Run


class FixedOrderBound(Analysis):
    """The last iterate is mu-GDP, with mu from the taut string of the worst place in the order. **Proved.**

    Setting: convex or strongly convex losses; every record has its public place in the batches (cyclic, one pass, full batch);
    any step sizes up to ``2/smoothness``, any noise, any batch sizes; with a diameter the bound stops growing with the steps, and
    with strong convexity it does so even without one. Covers, and is never above: Feldman, Koren, Talwar 2020, Theorem 3.1;
    Altschuler, Talwar 2022, Propositions 2.17, 3.2, 5.6, Theorem 5.8 and B.1; Bok, Su, Altschuler 2024 (their closed forms).

    Source: ours, after the shifted interpolation of Bok, Su, Altschuler 2024; ``docs/proofs/fixed-order.md``.
    """

    name = "fixed-order"
    source = "last iterate, taut string; docs/proofs/fixed-order.md"
    status = Proved

    def why_not(self, run: Run) -> str | None:
        return missing(run, samplings=(Cyclic, OnePass, FullBatch)) or too_many(run)

    def guarantee(self, run: Run) -> Guarantee:
        mu = _worst_place(run)
        return GaussianDP(mu, mu * both_ways(run))


def _worst_place(run: Run) -> float:
    """mu of the place where a record costs most."""
    length = run.sampling.period(run.n, run.steps)
    if is_constant(run):
        # Later uses are worse, one by one; so the place whose last use is the last step is worse than every other.
        return float(constant_steps(run).cost(np.asarray(0.0), np.asarray(float(length)), math.ceil(run.steps / length)))
    steps, _ = varying_steps(run)
    return float(steps.alone().max()) if length >= steps.jump.size else steps.worst(length)
