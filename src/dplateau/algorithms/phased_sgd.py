"""Phased-SGD: phases of noiseless gradient steps on records of their own, each ending with noise on its mean iterate.

Source: Feldman, Koren, Talwar, "Private stochastic convex optimization: optimal rates in linear time" (STOC 2020), Algorithm 2 with
Theorems 4.4 (convex) and 5.3 (strongly convex). The noise is calibrated exactly: docs/proofs/localisation.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Final, Unpack

from numpy.typing import ArrayLike

from dplateau.algorithms.deprecated import also_by_keywords
from dplateau.algorithms.localisation import convex_step, equal_count, equal_phases, halving_phases
from dplateau.algorithms.pnsgd import MOST_STEPS
from dplateau.algorithms.problem import Budget, Problem, one_pass_run
from dplateau.algorithms.solver import FitOptions
from dplateau.losses import GeneralisedLinearLoss
from dplateau.spec import InputError, Run
from dplateau.spec.arguments import integer, real
from dplateau.training.phased_sgd import phase_noise, train_phased_sgd
from dplateau.training.phases import phases_of
from dplateau.training.result import TrainResult
from dplateau.utility.halving import halving_sizes

MARGIN: Final = 1.01
"""Where clipping must never be active: room for the rounding margin, which is larger than in one pass."""


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

    progress_unit: ClassVar[str] = "points"
    """What ``progress`` counts."""

    run: Run
    loss: GeneralisedLinearLoss
    batch_size: int = 1
    weighting: str = "uniform"

    def check_arithmetic(self, d: int) -> None:
        """Raise ``TooCoarse`` where rounding would be too much with d features."""
        for phase in phases_of(self.run, "phased-sgd"):
            phase_noise(self.run, self.loss, phase, self.batch_size, self.loss.weights_shape(d))

    def fit(self, features: ArrayLike, target: ArrayLike, **options: Unpack[FitOptions]) -> TrainResult:
        """Carry out the plan on records; arguments, result and errors are those of ``dplateau.training.phased_sgd``."""
        return train_phased_sgd(
            self.run, self.loss, features, target, batch_size=self.batch_size, weighting=self.weighting, **options
        )


@also_by_keywords("n", "loss", batch_size=1)
def plan_phased_sgd(
    problem: Problem,
    budget: Budget,
    *,
    diameter: float | None = None,
    batch_size: int | None = None,
    phases: int | None = None,
    step_size: float | None = None,
) -> PhasedSGD:
    """Plan Phased-SGD. It uses no private data, and is deterministic.

    Convex losses (no l2 term): phase i takes n / 2^i records with steps eta / 4^i,

        ``eta = b (D / L) min(4 / sqrt(n), 1 / (z sqrt(d)))``, at most ``2 / M``,

    with diameter D, clip norm L, smoothness M, b records a step and noise multiplier z. For b = 1 that is the paper's eta with
    rho = 1 / z: the proof of Theorem 4.4 needs ``sqrt(d) z L eta <= D``. There are half as many phases as the paper's log2 n:
    later ones would be lost in the rounding of the weights.

    Strongly convex losses (Theorem 5.3): k = ln ln n phases, rounded up, of equal size with steps eta / 2^(2^i),

        ``eta = 8 b k log(n) / (l2 n)``, at most ``2 / M``, and growing weights in the mean.

    Parameters
    ----------
    problem, budget : Problem, Budget
        Public facts, and what may be spent. The loss must be smooth. The order of the records is public; the theorems need it
        random.
    diameter : float, optional
        D: diameter of the ball around zero that iterates are projected on, by default ``100 sqrt(K) / R`` for K scores.
    batch_size : int, optional
        b, by default ``n / 4096`` or the size of the smallest phase. Larger batches make the loop faster. With steps in proportion,
        as here, they change neither noise nor progress, until the steps meet ``2 / M``.
    phases : int, optional
        k.
    step_size : float, optional
        eta, in place of the values above.

    Raises
    ------
    InputError
        An argument is out of range, the loss is not smooth, or no noise reaches epsilon.

    Examples
    --------
    >>> from dplateau.losses import Logistic
    >>> plan = plan_phased_sgd(Problem(10_000, 20, Logistic()), Budget(epsilon=1.0, delta=1e-5), diameter=20.0)
    >>> plan.run.sampling.batch_size[:3], plan.run.steps
    ((5079.0, 2500.0, 1250.0), 7)
    """
    n, l2, size = problem.n, problem.largest_l2, diameter_of(problem, diameter)
    clip, smoothness = problem.contraction(MARGIN)
    if l2:
        count = equal_count(n, phases)
        b = batch_of(problem, batch_size, n // count)
        eta = (
            min(8 * b * count * math.log(integer("n", n, low=2)) / (l2 * n), 2 / smoothness)
            if step_size is None
            else real("step_size", step_size)
        )
        schedule = equal_phases(n, eta, count)
    else:
        b = batch_of(problem, batch_size, halving_sizes(n, phases)[-1])
        eta = min(b * convex_step(n, budget.least_multiplier, problem.weights, size, clip), 2 / smoothness)
        schedule = halving_phases(n, eta if step_size is None else real("step_size", step_size), phases)
    run = one_pass_run(problem, budget, *schedule, update="phased-sgd", clip_norm=clip, smoothness=smoothness, diameter=size)
    return PhasedSGD(run, problem.loss, batch_size=b, weighting="growing" if l2 else "uniform")


def batch_of(problem: Problem, batch_size: int | None, smallest: int) -> int:
    """The batch size, which the smallest phase must have room for; by default there are at most some thousand batches.

    More of them are slower and not better.
    """
    if batch_size is None:
        return max(1, min(problem.n // MOST_STEPS, smallest))
    size = integer("batch_size", batch_size)
    if size > smallest:
        raise InputError(f"batch_size {size} exceeds the smallest phase of {smallest} records: lower it or use fewer phases.")
    return size


def diameter_of(problem: Problem, diameter: float | None) -> float:
    """The diameter, or the default."""
    return 2 * problem.distance if diameter is None else real("diameter", diameter)
