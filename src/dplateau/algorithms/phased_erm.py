"""Phased-ERM: phases that minimise a regularised mean loss of records of their own, each ending with noise on the minimiser.

Source: Feldman, Koren, Talwar, "Private stochastic convex optimization: optimal rates in linear time" (STOC 2020), Algorithm 3 with
Theorem 4.8. The noise is calibrated exactly, and the minimiser is certified always, not with high probability:
docs/proofs/localisation.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Unpack

import numpy as np
from numpy.typing import ArrayLike

from dplateau.algorithms.deprecated import also_by_keywords
from dplateau.algorithms.localisation import convex_step, halving_phases
from dplateau.algorithms.problem import ROOM, Budget, Problem, one_pass_run
from dplateau.algorithms.solver import FitOptions
from dplateau.losses import GeneralisedLinearLoss
from dplateau.spec import InputError, Run
from dplateau.spec.arguments import real
from dplateau.training.phased_erm import phase_setting, train_phased_erm
from dplateau.training.phases import phases_of
from dplateau.training.result import TrainResult


@dataclass(frozen=True)
class PhasedERM:
    """A plan of Phased-ERM: everything about a training run except the records.

    Parameters
    ----------
    run : Run
        What is computed and released, with ``update="phased-erm"``: its batches are the phases.
    loss : GeneralisedLinearLoss
        Loss of one record.
    accuracy : float, default 1e-3
        How exactly phases are solved; see ``plan_phased_erm``.
    """

    progress_unit: ClassVar[str] = "phases"
    """What ``progress`` counts."""

    run: Run
    loss: GeneralisedLinearLoss
    accuracy: float = 1e-3

    def check_arithmetic(self, d: int) -> None:
        """Raise ``TooCoarse`` where rounding would be too much with d features, already where phases start at zero."""
        for phase in phases_of(self.run, "phased-erm"):
            phase_setting(self.run, phase, np.zeros(self.loss.weights_shape(d)), self.accuracy)

    def fit(self, features: ArrayLike, target: ArrayLike, **options: Unpack[FitOptions]) -> TrainResult:
        """Carry out the plan on records; arguments, result and errors are those of ``dplateau.training.phased_erm``."""
        return train_phased_erm(self.run, self.loss, features, target, accuracy=self.accuracy, **options)


@also_by_keywords("n", "loss")
def plan_phased_erm(
    problem: Problem,
    budget: Budget,
    *,
    distance: float | None = None,
    phases: int | None = None,
    step_size: float | None = None,
    diameter: float | None = None,
    accuracy: float = 1e-3,
) -> PhasedERM:
    """Plan Phased-ERM. It uses no private data, and is deterministic.

    Phase i takes n / 2^i records and the regulariser ``|w - start|^2 / (eta_i n_i)`` with ``eta_i = eta / 4^i``,

        ``eta = (D / L) min(4 / sqrt(n), 1 / (z sqrt(d)))``,

    with D the distance, L the Lipschitz constant and z the noise multiplier, which takes the place of the paper's
    ``sqrt(log(1/delta)) / epsilon``. The number of phases is that of Phased-SGD.

    Parameters
    ----------
    problem, budget : Problem, Budget
        Public facts, and what may be spent. The loss need not be smooth, but its gradients must be bounded. They are not clipped:
        longer rows than R are refused. The order of the records is public; the theorem needs it random.
    distance : float, optional
        D: public guess of the norm of the best weights, by default ``50 sqrt(K) / R`` for K scores. No guarantee rests on it.
    phases : int, optional
        k.
    step_size : float, optional
        eta.
    diameter : float, optional
        Diameter of a ball around zero that noisy results are projected on; by default there is none.
    accuracy : float, default 1e-3
        Inaccuracy of a phase in units of half of what the presence of a record can move its minimiser: the noise grows by this
        share.

    Raises
    ------
    InputError
        An argument is out of range, gradients of the loss are unbounded, or no noise reaches epsilon.

    Examples
    --------
    >>> from dplateau.losses import Hinge
    >>> plan = plan_phased_erm(Problem(10_000, 20, Hinge()), Budget(epsilon=1.0, delta=1e-5), distance=10.0)
    >>> plan.run.update, plan.run.steps
    ('phased-erm', 7)
    """
    lipschitz, far = lipschitz_of(problem), problem.distance if distance is None else real("distance", distance)
    eta = convex_step(problem.n, budget.least_multiplier, problem.weights, far, lipschitz)
    schedule = halving_phases(problem.n, eta if step_size is None else real("step_size", step_size), phases)
    run = one_pass_run(problem, budget, *schedule, update="phased-erm", clip_norm=lipschitz, smoothness=None, diameter=diameter)
    return PhasedERM(run, problem.loss, real("accuracy", accuracy, high=1.0))


def lipschitz_of(problem: Problem) -> float:
    """The largest gradient norm, which has to be finite."""
    lipschitz = problem.loss.lipschitz(problem.feature_norm) * ROOM
    if not math.isfinite(lipschitz):
        raise InputError(
            f"{type(problem.loss).__name__} has unbounded gradients: choose loss huber or absolute, or another solver."
        )
    return lipschitz
