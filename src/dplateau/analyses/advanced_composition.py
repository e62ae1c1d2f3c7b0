"""Advanced composition of sampled Gaussian steps."""

from __future__ import annotations

from typing import Final

import numpy as np

from dplateau.accounting import Guarantee, Proved
from dplateau.accounting.advanced import AdvancedComposition
from dplateau.accounting.gaussian import Array
from dplateau.accounting.mechanism import on_grid, sensitivity
from dplateau.analyses.base import Analysis
from dplateau.spec import FixedSize, FullBatch, Poisson, Run, per_step

_LEVELS: Final = 32
"""Where rates or noise change from step to step, each is rounded to so many levels, on the safe side."""
SAMPLED = (Poisson, FixedSize, FullBatch)


def sampled_steps(run: Run) -> tuple[Array, Array, Array]:
    """Rates, noise multipliers and numbers of the steps of a run with random batches or full ones, shape (k,) each."""
    size, z = run.sampling.divisors(run.n), run.noise_multiplier
    if not isinstance(size, tuple) and not isinstance(z, tuple):
        return np.array([size / run.n]), np.array([z]), np.array([run.steps])
    pairs = np.stack([per_step(size, run.steps) / run.n, per_step(z, run.steps)])
    (rate, noise), count = np.unique(pairs, axis=1, return_counts=True)
    return rate, noise, count


def doubled(run: Run) -> float:
    """Sensitivity of a step in clip norms: a batch of fixed size replaces a record by another one in any case."""
    return 2.0 if isinstance(run.sampling, FixedSize) else sensitivity(run)


def not_sampled(run: Run) -> str | None:
    """Why the steps are not sampled; None where they are."""
    if isinstance(run.sampling, SAMPLED):
        return None
    covered = ", ".join(scheme.__name__ for scheme in SAMPLED)
    return f"it is for sampling {covered}, the run's is {type(run.sampling).__name__}."


class AdvancedCompositionAnalysis(Analysis):
    """Every step is an amplified Gaussian mechanism, and the steps are composed as (epsilon, delta) statements. **Proved.**

    The best that was known before the moments accountant, and far above the exact composition.

    Setting: Poisson or fixed-size sampling, or full batches; add-remove or replace; noise and rates may differ from step to step.

    Source: Wu et al. 2021 (P3), Lemmas 2.2 and A.1, with the exact Gaussian mechanism and the sharp amplification lemma of Balle,
    Barthe, Gaboardi 2018; Kairouz, Oh, Viswanath 2017, Theorem 3.5.
    """

    name = "advanced-composition"
    source = "Kairouz, Oh, Viswanath 2017, Theorem 3.5; Wu et al. 2021, Lemma 2.2"
    status = Proved
    dominated_by = "exact-composition"

    def why_not(self, run: Run) -> str | None:
        """See ``Analysis``."""
        return not_sampled(run)

    def guarantee(self, run: Run) -> Guarantee:
        """See ``Analysis``."""
        rate, noise, count = sampled_steps(run)
        gap = doubled(run) / noise
        if rate.size > _LEVELS:
            pairs, place = np.unique(
                np.stack([on_grid(rate, _LEVELS, up=True), on_grid(gap, _LEVELS, up=True)]), axis=1, return_inverse=True
            )
            rate, gap, count = *pairs, np.bincount(place.ravel(), weights=count)
        return AdvancedComposition(rate, gap, count)
