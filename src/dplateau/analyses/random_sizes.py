"""The contraction of every step of a run, and how likely a batch of random size is too large for it.

Under Poisson sampling and random allocation alike the size of one batch is binomial.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from dplateau.accounting import binomial
from dplateau.accounting.gaussian import Array
from dplateau.analyses.requirements import contraction
from dplateau.spec import Run, StepTable

_LOOK_BACK: Final = 10_000
"""Steps over which the budget of losses that need not be convex is spread."""
UNLIKELY: Final = 1e-6
"""A step whose batch is more often too large than this is not covered."""


def too_large(run: Run, steps: StepTable, rows: int) -> Array:
    """Probability, for each row of ``steps``, that so many of the records are drawn that the step is not a contraction."""
    allowed = 2 / (steps.step_size * (run.smoothness or math.inf)) * steps.size
    return binomial.more_than(allowed * (1 - 1e-12), rows, steps.rate)


def most_rows(run: Run, *, both: bool) -> int:
    """The records of the larger one of two data sets; of the one that has ``run.n``, unless the maps of ``both`` must contract."""
    return run.n + (both and run.adjacency == "add-remove")


def no_contraction(run: Run) -> str | None:
    """Why the batches of ``run`` are too often too large; None where they are not."""
    if not run.sampling.random_size or run.strong_convexity is None:  # where steps may expand nothing is counted on
        return None
    if (chance := float(too_large(run, run.table.last(1), most_rows(run, both=True)).max())) <= UNLIKELY:
        return None
    return (
        f"a batch is too large for a contraction with probability {chance:.1e} a step. "
        "Lower step_size further below 2/smoothness, raise batch_size, or use FixedSize."
    )


def contractions(
    run: Run, steps: StepTable, budget: float, *, least: Array | float = 1.0, both: bool = False
) -> tuple[Array, Array]:
    """Lipschitz constants of the steps, and the probability that one is larger; one entry a row.

    Parameters
    ----------
    run : Run
        With smoothness, step size and strong convexity.
    steps : StepTable
        All its steps, or the last ones.
    budget : float
        Probability that may go to batches of random size too small to contract as strongly convex losses let expect.
    least : float or ndarray
        The smallest batch as a share of its public size, where sizes are not random.
    both : bool
        The steps of both data sets, of which one may have a record more than ``run.n``.
    """
    rows = most_rows(run, both=both)
    if not run.sampling.random_size:
        most = rows / run.n if run.sampling.full else 1.0
        return np.broadcast_to(contraction(run, steps.step_size, least, most), steps.rate.shape), np.zeros(steps.rate.size)
    if run.strong_convexity is None:
        # A look-back pays for its own steps, of which there are not so many.
        each = budget / min(steps.steps, _LOOK_BACK)
        most = binomial.most(rows, steps.rate, each) if each > 0 else np.full_like(steps.rate, rows)
        return contraction(run, steps.step_size, most=most / steps.size), np.full(steps.rate.size, each)
    if run.strong_convexity and budget > 0:
        # Between these sizes all batches lie, but for the budget: half of it for each end.
        each = budget / (2 * steps.steps)
        fewest, largest = binomial.fewest(run.n - 1, steps.rate, each), binomial.most(rows, steps.rate, each)
        contracted = contraction(run, steps.step_size, fewest / steps.size, largest / steps.size)
        if contracted.max() <= 1:
            return contracted, np.full(steps.rate.size, budget / steps.steps)
    return np.ones(steps.rate.size), too_large(run, steps, rows)
