"""Advanced composition of sampled Gaussian steps."""

from __future__ import annotations

from typing import Final

from dplateau.accounting import Guarantee, Proved
from dplateau.accounting.advanced import AdvancedComposition
from dplateau.accounting.mechanism import sensitivity
from dplateau.analyses.base import Analysis
from dplateau.analyses.requirements import other_sampling
from dplateau.spec import FixedSize, FullBatch, Poisson, Run
from dplateau.spec.steps import distinct, on_grid

_LEVELS: Final = 32
"""Where rates or noise change from step to step, each is rounded to so many levels, on the safe side."""
SAMPLED = (Poisson, FixedSize, FullBatch)


def doubled(run: Run) -> float:
    """Sensitivity of a step in clip norms: a batch of fixed size replaces a record by another one in any case."""
    return 2.0 if run.sampling.drawn and not run.sampling.random_size else sensitivity(run)


class AdvancedCompositionBound(Analysis):
    """Every step is an amplified Gaussian mechanism, and the steps are composed as (epsilon, delta) statements. **Proved.**

    The best that was known before the moments accountant, and far above the exact composition.

    Setting: Poisson or fixed-size sampling, or full batches; add-remove or replace; noise and rates may differ from step to step.

    Source: Wu et al. 2021, Lemmas 2.2 and A.1, with the exact Gaussian mechanism and the sharp amplification lemma of Balle,
    Barthe, Gaboardi 2018; Kairouz, Oh, Viswanath 2017, Theorem 3.5.
    """

    name = "advanced-composition"
    source = "Kairouz, Oh, Viswanath 2017, Theorem 3.5; Wu et al. 2021, Lemma 2.2"
    status = Proved
    dominated_by = "exact-composition"

    def why_not(self, run: Run) -> str | None:
        return other_sampling(run, *SAMPLED)

    def guarantee(self, run: Run) -> Guarantee:
        rate, noise, count = run.table.draws()
        gap = doubled(run) / noise
        if rate.size > _LEVELS:
            rate, gap, count = distinct(on_grid(rate, _LEVELS, up=True), on_grid(gap, _LEVELS, up=True), count)
        return AdvancedComposition(rate, gap, count)
