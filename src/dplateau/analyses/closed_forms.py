"""What the published closed forms have in common: equal steps, and batches that divide the records evenly."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dplateau.accounting import GaussianDP
from dplateau.accounting.mechanism import sensitivity
from dplateau.accounting.zcdp import ZeroConcentratedDP
from dplateau.analyses.last_uses import rounded_mu
from dplateau.analyses.requirements import contraction, deviation
from dplateau.spec import Cyclic, FullBatch, Run, Schedule


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
        Steps of one epoch, and number of epochs. One batch under ``FullBatch``.
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


def scalar(value: Schedule | None) -> float:
    """``value``, which ``unequal`` has found to be constant."""
    if value is None or isinstance(value, tuple):
        raise TypeError("expected one number, not a schedule")
    return value


def batch_size(run: Run) -> float:
    """The constant public batch size."""
    return scalar(run.sampling.divisors(run.n))


def unequal(run: Run) -> str | None:
    """Why the steps of ``run`` are not alike; None where they are."""
    for name in ("step_size", "noise_multiplier"):
        if isinstance(getattr(run, name), tuple):
            return f"{name} changes from step to step: the closed form is for a constant one."
    if isinstance(run.sampling.divisors(run.n), tuple):
        return "batch_size changes from step to step: the closed form is for a constant one."
    return None


def uneven(run: Run) -> str | None:
    """Why ``run`` is no number of whole epochs of equal steps and batches; None where it is."""
    reason = unequal(run)
    if reason is not None or isinstance(run.sampling, FullBatch):
        return reason
    size = batch_size(run)
    if run.n % size:
        return f"batch_size {size:g} does not divide n = {run.n}: the closed form is for equal batches."
    if run.steps % (batches := round(run.n / size)):
        return f"steps = {run.steps} is no multiple of the {batches} batches of one epoch: the closed form is for whole epochs."
    return None


def not_random(run: Run) -> str | None:
    """Why the batches of ``run`` are not random; None where they are."""
    whole = run.sampling.divisors(run.n) == run.n
    return "every batch holds every record. Use sampling=FullBatch()." if whole else None


def equal_steps(run: Run) -> EqualSteps:
    """The constants of a run for which ``unequal`` is None."""
    size, eta = batch_size(run), scalar(run.step_size)
    batches = round(run.n / size) if isinstance(run.sampling, Cyclic) else 1
    factor = min(1.0, float(np.nextafter(contraction(run, eta), 2.0)))
    gap = sensitivity(run) * run.clip_norm * eta / size
    return EqualSteps(factor, gap, float(deviation(run)), batches, run.steps // batches)


def gaussian(run: Run, mu: float) -> GaussianDP:
    """mu-GDP, with room for rounding: ours, and that of the training loop."""
    return GaussianDP(rounded_mu(run, mu**2))


def concentrated(run: Run, rho: float) -> ZeroConcentratedDP:
    """``D_a <= rho a``, with the same room: every shift of the proof grows by it."""
    return ZeroConcentratedDP(rounded_mu(run, 2 * rho) ** 2 / 2)
