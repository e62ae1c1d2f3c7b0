"""Phased-ERM: phases that minimise a regularised mean loss of records of their own, each ending with noise on the minimiser.

Source: Feldman, Koren, Talwar, "Private stochastic convex optimization: optimal rates in linear time" (STOC 2020), Algorithm 3 with
Theorem 4.8. The noise is calibrated exactly, and the minimiser is certified always, not with high probability:
docs/proofs/localisation.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from numpy.typing import ArrayLike

from dplateau.algorithms.constants import ROOM, least_multiplier
from dplateau.algorithms.localisation import convex_step, halving_phases, phased_run
from dplateau.calibration import calibrate
from dplateau.losses import GeneralisedLinearLoss
from dplateau.spec import InputError, Run
from dplateau.spec.schedule import integer, real
from dplateau.training import SecureGenerator
from dplateau.training.phased_erm import train_phased_erm
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

    counts: ClassVar[str] = "phases"
    """What ``progress`` is told."""

    run: Run
    loss: GeneralisedLinearLoss
    accuracy: float = 1e-3

    def fit(
        self,
        features: ArrayLike,
        target: ArrayLike,
        *,
        generator: SecureGenerator | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> TrainResult:
        """Carry out the plan on records; arguments, result and errors are those of ``dplateau.training.phased_erm``."""
        return train_phased_erm(
            self.run, self.loss, features, target, accuracy=self.accuracy, generator=generator, progress=progress
        )


def plan_phased_erm(
    n: int,
    loss: GeneralisedLinearLoss,
    *,
    epsilon: float,
    delta: float,
    d: int,
    distance: float,
    feature_norm: float = 1.0,
    adjacency: str = "add-remove",
    phases: int | None = None,
    step_size: float | None = None,
    diameter: float | None = None,
    accuracy: float = 1e-3,
    l2: float = 0.0,
) -> PhasedERM:
    """Plan a run of Phased-ERM from public facts: it costs no privacy, and equal arguments give equal plans.

    Phase i takes n / 2^i records and the regulariser ``|w - start|^2 / (eta_i n_i)`` with ``eta_i = eta / 4^i``,

        ``eta = (D / L) min(4 / sqrt(n), 1 / (z sqrt(d)))``,

    with D the distance, L the Lipschitz constant and z the noise multiplier, which takes the place of the paper's
    ``sqrt(log(1/delta)) / epsilon``. The number of phases is that of Phased-SGD.

    Parameters
    ----------
    n : int
        Number of records, in an order that is public; random where the theorem is to apply.
    loss : GeneralisedLinearLoss
        Loss of one record; it need not be smooth, but its gradients must be bounded.
    epsilon, delta : float
        What the run may cost, at most. The noise is calibrated to it and certified.
    d : int
        Number of features.
    distance : float
        D: public guess of the norm of the best weights. No guarantee rests on it.
    feature_norm : float, default 1.0
        R: public bound on the Euclidean norm of every row. Longer rows are refused: clip them first.
    adjacency : {"add-remove", "replace"}, default "add-remove"
        What neighbouring data sets are; see ``Run``.
    phases : int, optional
        k.
    step_size : float, optional
        eta.
    diameter : float, optional
        Diameter of a ball around zero that noisy results are projected on; by default there is none.
    accuracy : float, default 1e-3
        Inaccuracy of a phase in units of half of what the presence of a record can move its minimiser: the noise grows by this
        share.
    l2 : float, default 0.0
        Coefficient of ``|w|^2 / 2``, which is added to the mean loss.

    Returns
    -------
    PhasedERM
        The plan.

    Raises
    ------
    InputError
        An argument is out of range, gradients of the loss are unbounded, or no noise reaches epsilon.

    Examples
    --------
    >>> from dplateau.losses import Hinge
    >>> plan = plan_phased_erm(10_000, Hinge(), epsilon=1.0, delta=1e-5, d=20, distance=10.0)
    >>> plan.run.update, plan.run.steps
    ('phased-erm', 7)
    """
    n, lipschitz = integer("n", n), lipschitz_of(loss, feature_norm)
    z = least_multiplier(epsilon, delta, adjacency)
    eta = convex_step(n, z, integer("d", d) * loss.outputs, real("distance", distance), lipschitz)
    run = phased_run(
        n,
        halving_phases(n, eta if step_size is None else real("step_size", step_size), phases),
        update="phased-erm",
        clip_norm=lipschitz,
        smoothness=None,
        l2=real("l2", l2, inclusive=True),
        diameter=diameter,
        adjacency=adjacency,
    )
    return PhasedERM(calibrate(run, epsilon=epsilon, delta=delta), loss, real("accuracy", accuracy, high=1.0))


def lipschitz_of(loss: GeneralisedLinearLoss, feature_norm: float) -> float:
    """The largest gradient norm, which has to be finite."""
    lipschitz = loss.lipschitz(real("feature_norm", feature_norm)) * ROOM
    if not math.isfinite(lipschitz):
        raise InputError(f"{type(loss).__name__} has unbounded gradients: use Huber or Absolute, or Phased-SGD, which clips.")
    return lipschitz
