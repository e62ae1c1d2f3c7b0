"""Exact composition of the steps' privacy losses."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Final

from dplateau.accounting import ExactComposition, Guarantee, Proved, compositions
from dplateau.accounting.contour import WIDTH, contour_epsilon
from dplateau.accounting.convex_order import FINE
from dplateau.accounting.lattice import rough_lattice_epsilon
from dplateau.accounting.mechanism import drawn
from dplateau.accounting.random_allocation import ABOUT, ALLOCATED, allocations
from dplateau.accounting.renyi import about_epsilon
from dplateau.accounting.sparse import rough_sparse_epsilon
from dplateau.accounting.terms import Composition
from dplateau.analyses.base import Analysis
from dplateau.spec import Run

_COARSE, _TINY = 1 / 64, 1e-16
"""The lattices of a search under random allocation, where delta is larger than this."""
_FEW: Final = 24.0
"""So many expected draws are few."""
_WIDE: Final = 1e-4
"""Beside an epoch with a replaced record, whose law takes seconds then, even a certified epsilon of drawn batches is at once."""


def few_draws(composition: Composition) -> bool:
    """Whether so few draws of a record are expected that a small lattice says more than a tilted Gaussian."""
    return 0 < composition.steps * composition.rate <= _FEW


class ExactCompositionBound(Analysis):
    """All noisy gradients are released; every step's dominating pair is composed exactly. **Proved.**

    Setting: any loss, gradients clipped to norm L; any sampling; add-remove or replace; noise, rates and batch sizes may differ
    from step to step. Assumptions: none beyond the ``Run`` itself. Tight for Poisson sampling, for
    batches fixed in advance and for random allocation.

    Source: the pairs for Poisson sampling: Abadi et al. 2016, Zhu, Dong, Wang 2022 (add-remove), ours (replace,
    ``docs/proofs/exact-composition.md``); for fixed size: Dong, Roth, Su 2022, Theorem 4.2 (C_p); for random allocation:
    ``docs/proofs/random-allocation.md`` (Chua et al. 2025 have the pair). The numerics are ours.
    """

    name = "exact-composition"
    source = "exact composition of dominating pairs; docs/proofs/exact-composition.md"
    status = Proved

    def why_not(self, run: Run) -> str | None:
        """Every run is covered."""
        return None

    def guarantee(self, run: Run) -> Guarantee:
        directions, rounded = compositions(run)
        below = compositions(run, safe=False)[0] if rounded else ()
        return ExactComposition(directions, below, ALLOCATED if run.sampling.allocated else WIDTH)

    def about(self, run: Run, delta: float) -> float:
        # Under random allocation the certified upper ends lie above this, and below what coarse lattices say, by about as much.
        allocated, one = run.sampling.allocated, compositions(drawn(run))[0][0]
        few = few_draws(one)
        if allocated and run.adjacency == "add-remove":

            def composed(fine: float) -> float:
                return rough_lattice_epsilon(allocations(run, safe=True, fine=fine)[0], delta, ALLOCATED)

            with suppress(ArithmeticError, ValueError):
                known = contour_epsilon(allocations(run, safe=True)[0], delta)
                if known.width <= ALLOCATED * known.upper:
                    return known.upper
            with suppress(ArithmeticError, ValueError):
                return composed(ABOUT) * (1 + ALLOCATED) if delta > _TINY else composed(FINE)
            with suppress(ArithmeticError, ValueError):
                return composed(_COARSE) * (1 - 2 * ALLOCATED)
        if allocated:
            about = ExactComposition((one,), width=_WIDE).upper(delta) if few else about_epsilon(one, delta, 0.0)
            # The lattices of the sums add something with every doubling.
            return about * (1 + (9.7 if few else 1.25 + 0.35 * math.log2(run.sampling.epoch_length(run.n))) * ALLOCATED)
        with suppress(ArithmeticError, ValueError):
            if few:
                return rough_sparse_epsilon(one, delta)
        return about_epsilon(one, delta, 0.0)
