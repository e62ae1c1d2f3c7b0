"""PNSGD: one pass of projected noisy SGD with any batch sizes, step sizes and noise, of which the last iterate is released.

Source: Feldman, Koren, Talwar, "Private stochastic convex optimization: optimal rates in linear time" (STOC 2020), Algorithm 1. The
schedule that is chosen here when none is given is ours: docs/explanation/one-pass.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dplateau.algorithms.deprecated import also_by_keywords
from dplateau.algorithms.problem import Budget, Problem, moved, one_pass_run
from dplateau.algorithms.solver import FitOptions, StreamOptions
from dplateau.algorithms.step_schedules import LONGEST
from dplateau.losses import GeneralisedLinearLoss
from dplateau.spec import InputError, Run, Schedule
from dplateau.spec.arguments import integer, is_sequence, real
from dplateau.spec.schedule import check_length, schedule
from dplateau.training import Cluster, TrainResult, train
from dplateau.training.loop import arithmetic_of
from dplateau.training.one_pass import train_one_pass
from dplateau.training.records import Blocks

Array = NDArray[np.float64]

MOST_STEPS: Final = 4096
"""Steps that a schedule of ours takes at most: more help little, and each is a line of the certificate."""
LARGEST_BATCH: Final = 1 << 15
"""Records of a batch, but for records so many that this takes more steps: what rounding does to each adds up."""
LARGEST: Final = 2 - 1e-9
"""Largest ``step_size * smoothness`` of a contraction, with room for rounding."""
_FLOOR: Final = 3e-4
"""Steps that need no noise keep some: all together this share of the variance that the largest move of theirs, or of a later step,
would need. It must not be measured by what contraction leaves of it.
"""


@dataclass(frozen=True)
class PNSGD:
    """A plan of PNSGD: everything about a training run except the records.

    Parameters
    ----------
    run : Run
        What is computed and released, with one-pass sampling.
    loss : GeneralisedLinearLoss
        Loss of one record.
    l2 : float, default 0.0
        Coefficient of ``|w|^2 / 2``, which is added to the mean loss.
    """

    progress_unit: ClassVar[str] = "rows"
    """What ``progress`` counts."""

    run: Run
    loss: GeneralisedLinearLoss
    l2: float = 0.0

    def check_arithmetic(self, d: int) -> None:
        """Raise ``TooCoarse`` where rounding would be too much with d features."""
        arithmetic_of(self.run, self.loss, np.array([self.l2]), 0.0, np.zeros(self.loss.weights_shape(d)))

    def fit(
        self, features: ArrayLike, target: ArrayLike, *, cluster: Cluster | None = None, **options: Unpack[FitOptions]
    ) -> TrainResult:
        """Carry out the plan on records in memory; arguments, result and errors are those of ``dplateau.training.train``."""
        return train(self.run, self.loss, features, target, l2=self.l2, dtype="float64", cluster=cluster, **options)

    def fit_stream(self, read: Callable[[], Blocks], **options: Unpack[StreamOptions]) -> TrainResult:
        """Carry out the plan on records that are read once, in blocks; see ``dplateau.training.train_one_pass``."""
        return train_one_pass(self.run, self.loss, read(), l2=self.l2, **options)


@also_by_keywords("n", "loss")
def plan_pnsgd(
    problem: Problem,
    budget: Budget,
    *,
    batch_size: int | Sequence[int] | None = None,
    step_size: float | Sequence[float] | None = None,
    noise_multiplier: float | Sequence[float] | None = None,
    distance: float | None = None,
    diameter: float | None = None,
) -> PNSGD:
    """Plan one noisy pass. It uses no private data, and is deterministic.

    What is not given is chosen so:

    - *Noise*: the least that the steps and batches allow. A record of step t is hidden by the noise of all steps from t on, so only
      the sums of later noise matter; the schedule makes every one of them as small as the guarantee lets it be (``tail_noise``).
    - *Step sizes*: falling linearly to zero, from ``step_size`` or from the value that minimises the bound on the excess risk of
      the last iterate at weights ``distance`` from zero. Falling steps are what makes later noise small: each record moves the
      weights less than the one before it, so the noise for it is paid for already.
    - *Batches*: as many equal ones as it takes for the first step to be ``1/smoothness``, at most 4,096, or as many as it
      takes for batches of at most 32,768 records.

    Parameters
    ----------
    problem, budget : Problem, Budget
        Public facts, and what may be spent.
    batch_size : int or sequence of int, optional
        Batch sizes B_t; the number of steps is the length, or ``n // batch_size``.
    step_size : float or sequence of float, optional
        A sequence: the step sizes eta_t. A number: the first of linearly falling ones.
    noise_multiplier : float or sequence of float, optional
        Noise on the summed gradients, in units of the clip norm, up to a common factor, which is calibrated.
    distance : float, optional
        Public guess of the norm of the best weights, by default ``50 sqrt(K) / R`` for K scores. No guarantee rests on it.
    diameter : float, optional
        Diameter of the ball around zero that iterates are projected on; by default there is none.

    Raises
    ------
    InputError
        An argument is out of range, the steps exceed ``2 / smoothness``, or no noise reaches epsilon.

    Examples
    --------
    >>> from dplateau.losses import Logistic
    >>> plan = plan_pnsgd(Problem(1_000_000, 100, Logistic()), Budget(epsilon=1.0, delta=1e-7))
    >>> plan.run.steps, plan.run.released
    (4096, 'last')
    """
    n, l2 = problem.n, problem.largest_l2
    clip, smoothness = problem.contraction()
    far = problem.distance if distance is None else real("distance", distance)
    time = best_time(n, budget.mu, distance=far, lipschitz=clip, weights=problem.weights, adjacency=budget.adjacency)
    sizes = _batch_sizes(n, batch_size, steps_for(n, time, smoothness))
    steps = len(sizes)
    first = schedule("step_size", min(time / steps, LARGEST / smoothness) if step_size is None else step_size)
    check_length("step_size", first, steps)
    step_sizes = np.array(first) if isinstance(first, tuple) else first * np.arange(steps, 0, -1) / steps
    if (largest := float(step_sizes.max())) * smoothness > 2:
        raise InputError(f"step_size {largest:g} exceeds 2/smoothness = {2 / smoothness:g}: later noise hides no record. Lower it.")
    noise: Schedule = (
        tuple(tail_noise(step_sizes, np.array(sizes, dtype=float), l2).tolist())
        if noise_multiplier is None
        else schedule("noise_multiplier", noise_multiplier)
    )
    return planned_pass(problem, budget, sizes, step_sizes, noise, diameter)


def planned_pass(
    problem: Problem, budget: Budget, sizes: tuple[int, ...], step_sizes: Array, noise: Schedule, diameter: float | None
) -> PNSGD:
    """The plan with these batches and steps, and with this noise times the factor that the budget needs."""
    clip, smoothness = problem.contraction()
    run = one_pass_run(
        *(problem, budget, sizes, tuple(step_sizes.tolist())),
        noise=noise,
        clip_norm=clip,
        smoothness=smoothness,
        diameter=diameter,
    )
    return PNSGD(run, problem.loss, problem.largest_l2)


def best_time(n: int, mu: float, *, distance: float, lipschitz: float, weights: int, adjacency: str) -> float:
    """The sum of step sizes, doubled, at which the bound on the excess risk of linearly falling steps is least.

    The bound is ``distance^2 / (2 time) + time (L^2 / n + 2 log(T) w (a L / (mu n))^2) / 2`` with w weights and a = 1 (add-remove)
    or 2 (replace); docs/explanation/one-pass.md. Its log T is taken at the largest T.
    """
    noise = 2 * math.log(MOST_STEPS) * weights * (moved(adjacency) / (mu * n)) ** 2
    return distance / (lipschitz * math.sqrt(1 / n + noise))


def steps_for(n: int, time: float, smoothness: float) -> int:
    """Steps so that the first of them is ``1 / smoothness``."""
    return max(1, min(math.ceil(min(time * smoothness, n)), max(MOST_STEPS, -(-n // LARGEST_BATCH))))


def _batch_sizes(n: int, batch_size: int | Sequence[int] | None, steps: int) -> tuple[int, ...]:
    if is_sequence(batch_size):
        sizes = tuple(integer("batch_size", size) for size in batch_size)
        if not sizes:
            raise InputError("batch_size has no entry: give one a batch, or one number.")
        return sizes
    if batch_size is not None:
        size = integer("batch_size", batch_size)
        if size > n:
            raise InputError(f"batch_size {size} exceeds n = {n}: lower batch_size.")
        steps = n // size
    integer("n over the batch size", steps, high=LONGEST)
    rest = n % steps  # goes to the last batches, whose records have the least noise after them
    return (n // steps,) * (steps - rest) + (n // steps + 1,) * rest


def tail_noise(step_sizes: Array, batch_sizes: Array, strong_convexity: float = 0.0) -> Array:
    """The least noise for given steps and batches, up to a common factor.

    A record of step t moves the weights by ``eta_t / B_t`` at most, contracted by later steps, and is hidden by the contracted
    noise of steps t, ..., T. Their variances must add up to its square for every t; so the least sum of variances from t on is the
    largest such square from t on, and one schedule attains all of these sums at once. It is also the best one for every objective
    that weighs the variance of a later step no less than that of an earlier one. Steps that need no noise get a little.

    Parameters
    ----------
    step_sizes, batch_sizes : array of shape (T,)
        eta_t and B_t.
    strong_convexity : float
        m: a step contracts by ``1 - eta_t m``.

    Returns
    -------
    array of shape (T,)
        Noise multipliers.
    """
    own, alone = step_sizes / batch_sizes, np.log1p(-np.minimum(step_sizes * strong_convexity, 0.999))
    own = np.ldexp(own, -math.frexp(float(own.max()))[1])  # the same up to a factor, and its squares are numbers
    left = np.exp(np.maximum(np.append(np.cumsum(alone[::-1])[::-1][1:], 0.0), -200.0))
    sums = _largest_from_here((left * own) ** 2)
    variance = sums - np.append(sums[1:], 0.0)
    return np.sqrt(np.maximum(variance / left**2, _FLOOR / len(own) * _largest_from_here(own**2))) / own


def _largest_from_here(values: Array) -> Array:
    return np.maximum.accumulate(values[::-1])[::-1]
