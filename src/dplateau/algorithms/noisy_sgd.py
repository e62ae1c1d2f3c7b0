"""Noisy-SGD: gradient steps on clipped, noisy gradients, of which the last iterate, or a mean of iterates, is released.

Source: Altschuler and Talwar, "Privacy of noisy stochastic gradient descent: more iterations without more privacy loss" (NeurIPS
2022), algorithm 1; Bu, Dong, Long, Su, "Deep learning with Gaussian differential privacy" (HDSR 2020), algorithm 1, with clipping.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final, Unpack

import numpy as np
from numpy.typing import ArrayLike

from dplateau.algorithms.deprecated import also_by_keywords
from dplateau.algorithms.problem import Budget, Problem
from dplateau.algorithms.solver import FitOptions, StreamOptions
from dplateau.losses import GeneralisedLinearLoss, Huber, Squared
from dplateau.spec import FullBatch, InputError, Poisson, RandomAllocation, Run, Sampling
from dplateau.spec.arguments import boolean, integer, real
from dplateau.spec.schedule import largest, smallest
from dplateau.training import Cluster, TrainResult, train, train_stream
from dplateau.training.loop import arithmetic_of
from dplateau.training.records import Blocks

LARGEST_FULL_BATCH: Final = 1 << 19
LARGE_BATCH: Final = 1 << 17
EPOCHS: Final = 10
"""How often each record of a stream is used, about."""
PLENTY: Final = 4000.0
"""From this strength (see ``plan_noisy_sgd``) on, noise is so small that residuals are clipped at half of their largest norm."""
SCARCE: Final = 20.0
"""Below this strength, the steps of a regression are shorter: most of what they would add to a prediction is noise."""


@dataclass(frozen=True)
class NoisySGD:
    """A plan of Noisy-SGD: everything about a training run except the records.

    Parameters
    ----------
    run : Run
        What is computed and released.
    loss : GeneralisedLinearLoss
        Loss of one record.
    momentum : float, default 0.0
        Heavy-ball momentum m: ``v <- m v + g``, ``w <- w - step_size v``. Needs ``run.update == "post-processed"``.
    average : float, default 0.0
        Fraction of the iterates, counted from the end, whose mean is the model. Needs ``run.update == "post-processed"``.
    l2 : float or tuple of float, default 0.0
        Coefficient of ``|w|^2 / 2``, which is added to the mean loss; one for all features or one each.
    """

    progress_unit: ClassVar[str] = "steps"
    """What ``progress`` counts."""

    run: Run
    loss: GeneralisedLinearLoss
    momentum: float = 0.0
    average: float = 0.0
    l2: float | tuple[float, ...] = 0.0

    def check_arithmetic(self, d: int) -> None:
        """Raise ``TooCoarse`` where rounding would be too much with d features."""
        arithmetic_of(self.run, self.loss, np.atleast_1d(self.l2), self.momentum, np.zeros(self.loss.weights_shape(d)))

    def fit(
        self,
        features: ArrayLike,
        target: ArrayLike,
        *,
        dtype: str = "float32",
        cluster: Cluster | None = None,
        **options: Unpack[FitOptions],
    ) -> TrainResult:
        """Carry out the plan on records; arguments, result and errors are those of ``dplateau.training.train``."""
        return train(
            self.run,
            self.loss,
            features,
            target,
            l2=self.l2,
            dtype=dtype,
            momentum=self.momentum,
            average=self.average,
            cluster=cluster,
            **options,
        )

    def fit_stream(self, read: Callable[[], Blocks], *, dtype: str = "float32", **options: Unpack[StreamOptions]) -> TrainResult:
        """Carry out the plan on records that are read several times; see ``dplateau.training.train_stream``."""
        return train_stream(
            self.run, self.loss, read, l2=self.l2, dtype=dtype, momentum=self.momentum, average=self.average, **options
        )


@also_by_keywords("n", "loss", d=None)
def plan_noisy_sgd(
    problem: Problem,
    budget: Budget,
    *,
    steps: int = 400,
    batch_size: float | None = None,
    step_size: float | None = None,
    momentum: float = 0.9,
    average: float = 0.5,
    sampling: Sampling | None = None,
    diameter: float | None = None,
    stream: bool = False,
) -> NoisySGD:
    """Plan Noisy-SGD. It uses no private data, and is deterministic.

    The defaults are one rule from public facts, found on nine public data sets of 112 to 32,561 rows and tried on others (decision
    3). It goes by the *strength* ``b sqrt(T) / z`` of a run: its expected batch size b and noise multiplier z say how large a mean
    gradient that all records agree on is, in standard deviations of the noise left in the mean of all T noisy gradients. For full
    batches it is n times the mu of Gaussian DP.

    - *Full batches.* At equal epsilon and steps they have the least noise in the mean gradient. Beyond 2^19 records noise no
      longer matters and time does: Poisson batches of 2^17 expected records.
    - *400 steps with momentum 0.9.* The privacy of T full-batch steps depends on ``sqrt(T) / noise_multiplier`` alone, so steps
      cost time and no privacy, as long as the step size shrinks with them. Momentum lets small steps reach directions of little
      curvature. 200 steps are nearly as good.
    - *Residuals clipped at half of their largest norm* (at 1/2 for squared loss, whose targets are meant to lie in [-1, 1]). Noise
      is proportional to the clip norm. What is lost is the difference between a record that is wrong and one that is very wrong;
      a loss of one score stays convex (the logistic one becomes linear where the margin is negative, like a hinge). Where the
      strength S is below 4000, the clip norm is lower by the factor ``sqrt(S / 4000)``, though at least half, and for squared loss
      a quarter, of that.
    - *Step size* ``min(2, k (1 - m) b / (c z sqrt(T))) / M``, with batch b, residual clip c and smoothness M at rows of norm R.
      Over T steps, noise alone then moves the score of a row by a standard deviation of at most ``k R^2 / M``. k is 0.7 for the
      score of two classes, 1 for softmax and 0.35 for regression; there, where S is below 20, it is lower in proportion. The cap
      2 / M is stable for every momentum >= 0.
    - *The model is the mean of the last T / 2 iterates*, which averages most of their noise away. All noisy gradients are accounted
      for, so averages and momentum are free.
    - *No l2 term*: the noise and the number of steps already limit the weights.
    - *Streams*, which have to be read at least once an epoch: about ten epochs by random allocation, in batches of 2^17 expected
      records at most. At epsilon 1 and 400 steps the mean gradient then has 4 to 6 % more noise than with full batches (3 epochs:
      46 to 61 %, 30 epochs: less than 1 %), at epsilon 0.1 less than 0.1 % more. At epsilon 8 it has twice as much, but little.

    Parameters
    ----------
    problem, budget : Problem, Budget
        Public facts, and what may be spent.
    steps : int, default 400
        T.
    batch_size : float, optional
        Expected size of batches, drawn as ``Poisson`` or by ``RandomAllocation``, whichever needs less noise; ``n`` means full
        batches.
    step_size : float, optional
        eta.
    momentum, average : float
        See ``NoisySGD``. With neither momentum nor averaging the steps are plain gradient steps, and for a smooth loss of one score
        last-iterate bounds apply: the noise is then calibrated to the least of them and of composition, and ``fit`` needs
        ``dtype="float64"``.
    sampling : Sampling, optional
        How batches are chosen, in place of ``batch_size``.
    diameter : float, optional
        Diameter of the ball around zero that iterates are projected on; last-iterate bounds of convex losses need it.
    stream : bool, default False
        Whether the plan is for ``fit_stream``: batches are then drawn by ``RandomAllocation``.

    Raises
    ------
    InputError
        An argument is out of range, or no noise reaches epsilon.

    Examples
    --------
    >>> from dplateau.losses import Logistic
    >>> plan = plan_noisy_sgd(Problem(32_561, 124, Logistic()), Budget(epsilon=1.0, delta=1e-5))
    >>> plan.run.sampling, plan.run.steps, plan.run.clip_norm
    (FullBatch(), 400, 0.5)
    """
    n, loss = problem.n, problem.loss
    momentum = real("momentum", momentum, inclusive=True, high=0.999)
    average = real("average", average, inclusive=True, high=1.0)
    if sampling is None:
        usual = stream_batch(n, integer("steps", steps)) if boolean("stream", stream) else usual_batch(n)
        batch = usual if batch_size is None else real("batch_size", batch_size)
        drawn: tuple[Sampling, ...] = (FullBatch(),) if batch == n else (Poisson(batch), RandomAllocation(batch))
        schemes = (RandomAllocation(batch),) if stream else drawn
    elif batch_size is not None:
        raise InputError("sampling and batch_size are both given: give one of them.")
    else:
        schemes = (sampling,)
    run = Run(
        n=n,
        sampling=schemes[0],
        steps=steps,
        noise_multiplier=1.0,
        clip_norm=problem.clip * problem.feature_norm,
        diameter=diameter,
        adjacency=budget.adjacency,
        unit=problem.unit,
        released="last",
        update="post-processed",
    )
    run = _quietest(budget, run, schemes)
    strength = math.sqrt(run.steps) / _noise_of_the_mean(run)
    clip = _residual_clip(problem, strength)
    if step_size is None:
        step_size = min(2.0, _reach(loss, strength) * (1 - momentum) * strength / (clip * run.steps))
        step_size /= problem.smooth("no step size follows from it")
    run = run.replace(step_size=step_size, clip_norm=clip * problem.feature_norm)
    if not momentum and not average and loss.convex_after_clipping and math.isfinite(problem.smoothness):
        once = float(np.min(problem.l2))
        run = run.replace(update="sgd", smoothness=problem.smoothness, strong_convexity=once, l2=once)
        run = _quietest(budget, run, schemes)
    return NoisySGD(run, loss, momentum=momentum, average=average, l2=problem.l2)


def _residual_clip(problem: Problem, strength: float) -> float:
    """c, by what is given, or by the strength of the run."""
    if problem.residual_clip is not None:
        return problem.residual_clip
    least = 0.25 if _regression(problem.loss) else 0.5
    return problem.clip * min(1.0, max(least, math.sqrt(strength / PLENTY)))


def _reach(loss: GeneralisedLinearLoss, strength: float) -> float:
    """k: how far noise alone may move the score of a row of norm R, in units of R^2 / M."""
    if _regression(loss):
        return 0.35 * min(1.0, strength / SCARCE)
    return 0.7 if loss.outputs == 1 else 1.0


def _regression(loss: GeneralisedLinearLoss) -> bool:
    """Whether scores are predictions of a number, which may be too long; those of classes are only compared."""
    return isinstance(loss, Squared | Huber)


def _noise_of_the_mean(run: Run) -> float:
    """Noise of a step's mean gradient, in clip norms."""
    return largest(run.noise_multiplier) / smallest(run.sampling.divisors(run.n))


def _quietest(budget: Budget, run: Run, schemes: tuple[Sampling, ...]) -> Run:
    """The run with the batches that need the least noise, which is calibrated."""
    return min((budget.calibrated(run.replace(sampling=scheme)) for scheme in schemes), key=_noise_of_the_mean)


def usual_batch(n: int) -> int:
    """The batch size where none is given: all records, or 2^17 where there are more than 2^19."""
    return n if n <= LARGEST_FULL_BATCH else LARGE_BATCH


def stream_batch(n: int, steps: int) -> float:
    """The expected batch size on a stream where none is given: that of ten epochs, at most 2^17."""
    return min(max(1.0, n * EPOCHS / steps), n, LARGE_BATCH)
