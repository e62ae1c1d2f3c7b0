"""What the published closed forms have in common: equal steps, and batches that divide the records evenly."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dplateau.accounting import GaussianDP
from dplateau.accounting.mechanism import sensitivity
from dplateau.accounting.zcdp import ZeroConcentratedDP
from dplateau.analyses.last_uses import both_ways, rounded_mu
from dplateau.analyses.requirements import contraction
from dplateau.spec import Run


@dataclass(frozen=True)
class EqualSteps:
    """The constants of a run whose steps are alike.

    Attributes
    ----------
    factor : float
        c: Lipschitz constant of a gradient step on a full batch, rounded up.
    gap : float
        s: how far one record moves the iterate in a step that uses it.
    noise : float
        Standard deviation of the noise that a step adds to the iterate.
    batches, epochs : int
        Steps of one epoch, and number of epochs. One batch where the sampling has no epochs.
    """

    factor: float
    gap: float
    noise: float
    batches: int
    epochs: int

    @property
    def log_factor(self) -> float:
        """``log c``."""
        return log_contraction(self.factor)


def log_contraction(factor: float) -> float:
    """``log factor``, accurate close to 1, and far below any other for 0 or almost 0."""
    return math.log1p(factor - 1) if factor > 0.5 else math.log(max(factor, 1e-300))


def unequal(run: Run) -> str | None:
    """Why the steps of ``run`` are not alike; None where they are."""
    if not (changing := run.table.changing):
        return None
    return f"{changing[0]} changes from step to step: the closed form is for a constant one."


def uneven(run: Run) -> str | None:
    """Why ``run`` is not a number of whole epochs of equal steps and batches; None where it is."""
    if reason := unequal(run):
        return reason
    if run.sampling.remainder(run.n):
        return f"batch_size {run.table.only.size:g} does not divide n = {run.n}: the closed form is for equal batches."
    if run.steps % (batches := run.sampling.epoch_length(run.n)):
        return f"steps = {run.steps} is not a multiple of the {batches} batches of one epoch: the closed form is for whole epochs."
    return None


def not_random(run: Run) -> str | None:
    """Why the batches of ``run`` are not random; None where they are."""
    whole = bool((run.table.rate == 1).all())
    return "every batch holds every record. Use sampling=FullBatch()." if whole else None


def not_contracting(run: Run) -> str | None:
    """Why equal steps do not contract; None where they do."""
    if equal_steps(run).factor < 1:
        return None
    return "the gradient step does not contract: step_size must be below 2/smoothness. Lower step_size."


def equal_steps(run: Run) -> EqualSteps:
    """The constants of a run for which ``unequal`` is None."""
    step, batches = run.table.only, run.sampling.epoch_length(run.n)
    factor = min(1.0, float(np.nextafter(contraction(run, step.step_size), 2.0)))
    gap = sensitivity(run) * run.clip_norm * step.step_size / step.size
    return EqualSteps(factor, gap, step.deviation, batches, run.steps // batches)


def gaussian(run: Run, square: float) -> GaussianDP:
    """mu-GDP with this mu^2, rounded both ways."""
    mu = float(rounded_mu(square, run.steps))
    return GaussianDP(mu, mu * both_ways(run))


def concentrated(run: Run, rho: float) -> ZeroConcentratedDP:
    """``D_a <= rho a``, with the room for rounding that mu has: every shift of the proof grows by it."""
    return ZeroConcentratedDP(float(rounded_mu(2 * rho, run.steps)) ** 2 / 2)
