"""Phased-SGD: phases of noiseless gradient steps on records of their own, each ending with noise on its mean iterate.

Source: Feldman, Koren, Talwar, "Private stochastic convex optimization: optimal rates in linear time" (STOC 2020), Algorithm 2 with
Theorems 4.4 (convex) and 5.3 (strongly convex). The noise is calibrated exactly: docs/proofs/localisation.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from numpy.typing import ArrayLike

from dplateau.algorithms.constants import clip_and_smoothness, least_multiplier
from dplateau.algorithms.localisation import (
    PhaseSchedule,
    convex_step,
    equal_count,
    equal_phases,
    halving_phases,
    phased_run,
)
from dplateau.calibration import calibrate
from dplateau.losses import GeneralisedLinearLoss
from dplateau.spec import InputError, Run
from dplateau.spec.schedule import integer, real
from dplateau.training import SecureGenerator
from dplateau.training.phased_sgd import train_phased_sgd
from dplateau.training.result import TrainResult


@dataclass(frozen=True)
class PhasedSGD:
    """A plan of Phased-SGD: everything about a training run except the records.

    Parameters
    ----------
    run : Run
        What is computed and released, with ``update="phased-sgd"``: its batches are the phases.
    loss : GeneralisedLinearLoss
        Loss of one record.
    batch_size : int, default 1
        Records of one gradient step inside a phase.
    weighting : {"uniform", "growing"}, default "uniform"
        Mean of a phase's points: plain, or with weights ``(1 - step_size * l2)^-t`` as Theorem 5.3 has it.
    """

    counts: ClassVar[str] = "points"
    """What ``progress`` is told."""

    run: Run
    loss: GeneralisedLinearLoss
    batch_size: int = 1
    weighting: str = "uniform"

    def fit(
        self,
        features: ArrayLike,
        target: ArrayLike,
        *,
        generator: SecureGenerator | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> TrainResult:
        """Carry out the plan on records; arguments, result and errors are those of ``dplateau.training.phased_sgd``."""
        return train_phased_sgd(
            self.run,
            self.loss,
            features,
            target,
            batch_size=self.batch_size,
            weighting=self.weighting,
            generator=generator,
            progress=progress,
        )


def plan_phased_sgd(
    n: int,
    loss: GeneralisedLinearLoss,
    *,
    epsilon: float,
    delta: float,
    d: int,
    diameter: float,
    feature_norm: float = 1.0,
    adjacency: str = "add-remove",
    batch_size: int = 1,
    phases: int | None = None,
    step_size: float | None = None,
    residual_clip: float | None = None,
    l2: float = 0.0,
) -> PhasedSGD:
    """Plan a run of Phased-SGD from public facts: it costs no privacy, and equal arguments give equal plans.

    Convex losses (``l2`` is 0): phase i takes n / 2^i records with steps eta / 4^i,

        ``eta = b (D / L) min(4 / sqrt(n), 1 / (z sqrt(d)))``, at most ``2 / M``,

    with diameter D, clip norm L, smoothness M, b records a step and noise multiplier z. For b = 1 that is the paper's eta with
    rho = 1 / z: the proof of Theorem 4.4 needs ``sqrt(d) z L eta <= D``. There are half as many phases as the paper's log2 n
    (``halving_count`` says why). Strongly convex ones (Theorem 5.3): k = log log n phases of equal size with steps eta / 2^(2^i),
    ``eta = 8 b k log(n) / (l2 n)``, at most ``2 / M``, and growing weights in the mean.

    Parameters
    ----------
    n : int
        Number of records, in an order that is public; random where the theorems are to apply.
    loss : GeneralisedLinearLoss
        Loss of one record; smooth.
    epsilon, delta : float
        What the run may cost, at most. The noise is calibrated to it and certified.
    d : int
        Number of features.
    diameter : float
        D: diameter of the ball around zero that iterates are projected on.
    feature_norm : float, default 1.0
        R: public bound on the Euclidean norm of every row.
    adjacency : {"add-remove", "replace"}, default "add-remove"
        What neighbouring data sets are; see ``Run``.
    batch_size : int, default 1
        b. Larger batches make the loop faster. With steps in proportion, as here, they change neither noise nor progress, until the
        steps meet ``2 / M``.
    phases : int, optional
        k.
    step_size : float, optional
        eta, in place of the values above.
    residual_clip : float, optional
        c: per-example gradients are clipped to L = ``c * feature_norm``; by default half of the largest residual, or 1.01 of it
        where the loss would not stay convex.
    l2 : float, default 0.0
        Coefficient of ``|w|^2 / 2``, which is added to the mean loss.

    Returns
    -------
    PhasedSGD
        The plan.

    Raises
    ------
    InputError
        An argument is out of range, the loss is not smooth, or no noise reaches epsilon.

    Examples
    --------
    >>> from dplateau.losses import Logistic
    >>> plan = plan_phased_sgd(10_000, Logistic(), epsilon=1.0, delta=1e-5, d=20, diameter=20.0)
    >>> plan.run.sampling.batch_size[:3], plan.run.steps
    ((5079.0, 2500.0, 1250.0), 7)
    """
    n, d, b = integer("n", n), integer("d", d), integer("batch_size", batch_size)
    l2 = real("l2", l2, inclusive=True)
    clip, smoothness = smooth_constants(loss, feature_norm, residual_clip, l2)
    z = least_multiplier(epsilon, delta, adjacency)
    if l2:
        eta = 8 * b * (phases or equal_count(n)) * math.log(n) / (l2 * n)
        eta = min(eta, 2 / smoothness) if step_size is None else real("step_size", step_size)
        schedule = equal_phases(n, eta, phases)
    else:
        eta = min(b * convex_step(n, z, d * loss.outputs, real("diameter", diameter), clip), 2 / smoothness)
        schedule = halving_phases(n, eta if step_size is None else real("step_size", step_size), phases)
    run = phased_run(
        n, schedule, update="phased-sgd", clip_norm=clip, smoothness=smoothness, l2=l2, diameter=diameter, adjacency=adjacency
    )
    check_batches(schedule, b)
    return PhasedSGD(calibrate(run, epsilon=epsilon, delta=delta), loss, batch_size=b, weighting="growing" if l2 else "uniform")


def smooth_constants(
    loss: GeneralisedLinearLoss, feature_norm: float, residual_clip: float | None, l2: float
) -> tuple[float, float]:
    """The clip norm and the smoothness; room for a larger rounding margin where clipping must never be active."""
    if residual_clip is None and not loss.convex_after_clipping:
        residual_clip = 1.01 * loss.lipschitz(1.0)
    return clip_and_smoothness(loss, real("feature_norm", feature_norm), residual_clip, l2)


def check_batches(schedule: PhaseSchedule, batch_size: int) -> None:
    """Every phase must have room for a batch."""
    if batch_size > min(schedule.sizes):
        raise InputError(
            f"batch_size {batch_size} exceeds the smallest phase of {min(schedule.sizes)} records: lower it or use fewer phases."
        )
