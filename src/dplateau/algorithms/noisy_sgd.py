"""Noisy-SGD: gradient steps on clipped, noisy gradients, of which the last iterate, or a mean of iterates, is released.

Source: Altschuler and Talwar, "Privacy of noisy stochastic gradient descent: more iterations without more privacy loss" (NeurIPS
2022), algorithm 1; Bu, Dong, Long, Su, "Deep learning with Gaussian differential privacy" (HDSR 2020), algorithm 1, with clipping.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
from numpy.typing import ArrayLike

from dplateau.algorithms.deprecated import also_by_keywords
from dplateau.algorithms.problem import Budget, Problem
from dplateau.losses import GeneralisedLinearLoss
from dplateau.spec import FullBatch, InputError, Poisson, RandomAllocation, Run, Sampling
from dplateau.spec.schedule import integer, largest, real, smallest
from dplateau.training import SecureGenerator, TrainResult, train, train_stream
from dplateau.training.records import Blocks

LARGEST_FULL_BATCH: Final = 1 << 19
LARGE_BATCH: Final = 1 << 17
EPOCHS: Final = 10
"""How often each record of a stream is used, about."""
_FAINT: Final = 7.5e-4
"""From this noise in the mean of all mean gradients on, shorter steps are better: there is little to be learnt but a direction."""


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

    def fit(
        self,
        features: ArrayLike,
        target: ArrayLike,
        *,
        groups: ArrayLike | None = None,
        generator: SecureGenerator | None = None,
        dtype: str = "float32",
        progress: Callable[[int, int], None] | None = None,
    ) -> TrainResult:
        """Carry out the plan on records; arguments, result and errors are those of ``dplateau.training.train``."""
        return train(
            self.run,
            self.loss,
            features,
            target,
            groups=groups,
            l2=self.l2,
            generator=generator,
            dtype=dtype,
            momentum=self.momentum,
            average=self.average,
            progress=progress,
        )

    def fit_stream(
        self,
        read: Callable[[], Blocks],
        *,
        generator: SecureGenerator | None = None,
        dtype: str = "float32",
        progress: Callable[[int, int], None] | None = None,
    ) -> TrainResult:
        """Carry out the plan on records that are read several times; see ``dplateau.training.train_stream``."""
        return train_stream(
            self.run,
            self.loss,
            read,
            l2=self.l2,
            generator=generator,
            dtype=dtype,
            momentum=self.momentum,
            average=self.average,
            progress=progress,
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
    average: float | None = None,
    sampling: Sampling | None = None,
    diameter: float | None = None,
    stream: bool = False,
) -> NoisySGD:
    """Plan Noisy-SGD. It uses no private data, and is deterministic.

    The defaults are one rule, found on Adult, MNIST and other public data, and the same for every data set:

    - *Full batches.* At equal epsilon and steps they have the least noise in the mean gradient. Beyond 2^19 records noise no
      longer matters and time does: Poisson batches of 2^17 expected records.
    - *400 steps with momentum 0.9.* The privacy of T full-batch steps depends on ``sqrt(T) / noise_multiplier`` alone, so steps
      cost time and no privacy, as long as the step size shrinks with them. Momentum lets small steps reach directions of little
      curvature. 200 steps are nearly as good.
    - *Residuals clipped at half of their largest norm* (at 1/2 for squared loss, whose targets are meant to lie in [-1, 1]). Noise
      is proportional to the clip norm. What is lost is the difference between a record that is wrong and one that is very wrong;
      a loss of one score stays convex (the logistic one becomes linear where the margin is negative, like a hinge).
    - *Step size* ``min(2, (1 - m) b / (2 c z sqrt(T))) / M``, with batch b, residual clip c, noise multiplier z and smoothness M at
      rows of norm R. Over T steps, noise alone then moves the score of a row by a standard deviation of at most R^2 / (2 M), that
      is 2 for the logistic loss: as large as an informative score, hence as far as steps can go before noise wins. The cap
      2 / M is stable for every momentum >= 0. Where ``c z / (b sqrt(T))`` exceeds 0.00075 (a few thousand records at epsilon 0.1,
      say), steps are shorter in proportion, and the model is the last iterate: only a direction can be learnt there, long steps
      bend it, and all gradients should count alike.
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
        See ``NoisySGD``; ``average`` is 0.5, or 0 where noise is overwhelming. With neither momentum nor averaging the steps are
        plain gradient steps, and last-iterate bounds apply: the noise is then calibrated to the least of them and of composition,
        and ``fit`` needs ``dtype="float64"``.
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
    n, loss, clip = problem.n, problem.loss, problem.clip
    momentum = real("momentum", momentum, inclusive=True, high=0.999)
    if sampling is None:
        usual = stream_batch(n, integer("steps", steps)) if stream else usual_batch(n)
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
        clip_norm=clip * problem.feature_norm,
        diameter=diameter,
        adjacency=budget.adjacency,
        unit=problem.unit,
        released="last",
        update="post-processed",
    )
    run = _quietest(budget, run, schemes)
    noise = clip * _noise_of_the_mean(run) * math.sqrt(run.steps)
    shorter = min(1.0, _FAINT * run.steps / noise)
    if average is None:
        average = 0.5 if shorter == 1 or step_size is not None else 0.0
    if step_size is None:
        step_size = min(2.0, (1 - momentum) / (2 * noise) * shorter) / problem.smoothness
    run = run.replace(step_size=step_size)
    if not momentum and not average and loss.convex_after_clipping:
        once = float(np.min(problem.l2))
        run = run.replace(update="sgd", smoothness=problem.smoothness, strong_convexity=once, l2=once)
        run = _quietest(budget, run, schemes)
    return NoisySGD(run, loss, momentum=momentum, average=average, l2=problem.l2)


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
