"""Noisy gradient descent as Langevin dynamics (Ryffel, Bach, Pointcheval)."""

from __future__ import annotations

import math
from typing import Final

from dplateau.accounting import Guarantee, Proved
from dplateau.accounting.gaussian import Array
from dplateau.accounting.mechanism import sensitivity
from dplateau.analyses.base import Analysis
from dplateau.analyses.closed_forms import concentrated
from dplateau.analyses.requirements import missing
from dplateau.spec import FullBatch, Run, Sampling
from dplateau.spec.schedule import largest

_TINY: Final = 1e-300


class LangevinBound(Analysis):
    """``D_a <= 4 a L^2/(m n^2 s^2) (1 - exp(-m/2 sum of eta_k))`` for full batches, the iterate's noise being sqrt(2 eta_k) s.
    **Proved.**

    With constant steps the last factor is ``1 - exp(-m eta K/2)``. With ``eta_k = 1/(2 M + m k/2)``, k = 0, ..., K - 1, it is
    somewhat above the m K/(4 M + m K) that Corollary 3.3 prints, by at most 11 % of that. The corollary is true, by other shifts.
    Under add-remove L^2 becomes L^2/4.

    Setting: m-strongly convex, M-smooth losses, full batches, any step sizes below 1/smoothness, noise whose variance is
    proportional to the step size. The random start of the paper is not needed: the shifts of ``docs/proofs/fixed-order.md`` cost
    no more than twice this.

    Source: Ryffel, Bach, Pointcheval 2022, Theorem 3.2, Corollaries 3.2 and 3.3, for full batches only.
    """

    name = "langevin"
    source = "Ryffel, Bach, Pointcheval 2022, Theorem 3.2, full batches"
    status = Proved
    dominated_by = "fixed-order"

    def why_not(self, run: Run) -> str | None:
        return uncovered(run, FullBatch)

    def guarantee(self, run: Run) -> Guarantee:
        return concentrated(run, dynamics(run))


def uncovered(run: Run, sampling: type[Sampling]) -> str | None:
    """Why the theorem's formula does not describe ``run``; None where it does."""
    reason = missing(run, strongly_convex=True, samplings=(sampling,))
    if reason is not None or run.step_size is None or run.smoothness is None:
        return reason
    if (longest := largest(run.step_size)) * run.smoothness >= 1:
        return f"step_size {longest:g} is not below 1/smoothness = {1 / run.smoothness:g}. Lower step_size."
    variances = _variances(run)
    if variances.max() > variances.min() * (1 + 1e-9):
        return (
            "the variance of the iterate's noise is not proportional to step_size. Let noise_multiplier fall as the square root "
            "of 1/step_size."
        )
    return None


def dynamics(run: Run) -> float:
    """The theorem's formula, per unit of the order."""
    m, steps = run.strong_convexity or 0.0, run.table
    total = float(steps.step_size @ steps.count)
    exponent = m / 2 * total
    # (1 - e^-x) / m, for an m that is too small for double precision as well.
    time = -math.expm1(-exponent) / m if exponent > _TINY else total / 2
    moved = sensitivity(run) * steps.rate / steps.noise
    return float((moved**2 * (2 * time / steps.step_size)).max())


def _variances(run: Run) -> Array:
    """s^2 of each step: half the variance of the iterate's noise over the step size."""
    return run.table.deviation**2 / (2 * run.table.step_size)
