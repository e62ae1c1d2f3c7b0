"""ADP-SGD: falling steps, with noise that falls more slowly than they do.

Source: Wu, Wang, Cristali, Gu, Willett, "Adaptive differentially private empirical risk minimization" (2021), Algorithms 1 and 3,
with clipping, momentum and noise that is calibrated exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from dplateau.algorithms.deprecated import also_by_keywords
from dplateau.algorithms.noise_allocation import adapted_noise, noise_energy
from dplateau.algorithms.noise_optimum import optimal_noise
from dplateau.algorithms.noisy_sgd import NoisySGD, usual_batch
from dplateau.algorithms.problem import Budget, Problem
from dplateau.algorithms.step_schedules import polynomial_decay
from dplateau.spec import FullBatch, InputError, Poisson, Run
from dplateau.spec.arguments import integer, one_of, real
from dplateau.spec.schedule import schedule

ALLOCATIONS: Final = ("adapted", "optimal")
_STABLE: Final = 1.9
"""The first step is at most this times ``(1 + momentum) / smoothness``; from 2 on heavy-ball momentum is not stable."""


@also_by_keywords("n", "loss", d=None)
def plan_adp_sgd(
    problem: Problem,
    budget: Budget,
    *,
    steps: int = 400,
    batch_size: float | None = None,
    decay: Sequence[float] | None = None,
    step_size: float | None = None,
    noise: str = "adapted",
    momentum: float = 0.9,
    average: float = 0.0,
) -> NoisySGD:
    """Plan ADP-SGD. It uses no private data, and is deterministic.

    The defaults are one rule, found on Adult, for all data sets:

    - *Falling steps*: ``eta_t`` proportional to ``1 / sqrt(T/4 + t)``, so that the last is a bit less than half of the first.
    - *Adapted noise*: the noise on the summed gradient of step t is proportional to ``eta_t^(-1/2)``. With full batches no other
      noise that costs the same moves the weights less.
    - *Scale of the steps*: noise alone moves the score of a row by a standard deviation of at most ``R^2 / (2 M)``, as in
      ``plan_noisy_sgd``; the first step is at most ``1.9 (1 + m) / M``.
    - *Momentum 0.9 and the last iterate*: falling steps take the place of averaging.

    Every noisy gradient is accounted for, so all iterates may be released.

    Parameters
    ----------
    problem, budget : Problem, Budget
        Public facts, and what may be spent.
    steps : int, default 400
        T.
    batch_size : float, optional
        Expected size of Poisson batches; ``n``, and the default up to 2^19 records, means full batches.
    decay : sequence of float, optional
        The sizes of the steps up to a factor, one a step: ``polynomial_decay`` and ``square_root_decay`` are those of the paper.
    step_size : float, optional
        The first step.
    noise : {"adapted", "optimal"}, default "adapted"
        "optimal": ``optimal_noise``, which is better with small batches and takes some seconds; the same with full batches.
    momentum, average : float
        See ``NoisySGD``. With neither momentum nor averaging the steps are those of the paper.

    Raises
    ------
    InputError
        An argument is out of range, or no noise reaches epsilon.

    Examples
    --------
    >>> from dplateau.losses import Logistic
    >>> plan = plan_adp_sgd(Problem(32_561, 124, Logistic()), Budget(epsilon=1.0, delta=1e-5))
    >>> plan.run.steps, plan.run.released, round(plan.run.step_size[0] / plan.run.step_size[-1], 2)
    (400, 'all', 2.22)
    """
    n, steps = problem.n, integer("steps", steps)
    momentum = real("momentum", momentum, inclusive=True, high=0.999)
    average = real("average", average, inclusive=True, high=1.0)
    one_of("noise", noise, ALLOCATIONS)
    batch_size = usual_batch(n) if batch_size is None else real("batch_size", batch_size)
    sizes = np.atleast_1d(np.asarray(polynomial_decay(steps, steps / 4, 1.0) if decay is None else schedule("decay", decay)))
    if sizes.size != steps:
        raise InputError(f"decay has {sizes.size} entries for {steps} steps: give one entry a step.")
    run = Run(
        n=n,
        sampling=FullBatch() if batch_size == n else Poisson(batch_size),
        steps=steps,
        noise_multiplier=adapted_noise(sizes),
        clip_norm=problem.clip * problem.feature_norm,
        step_size=tuple((sizes / sizes[0]).tolist()),
        adjacency=budget.adjacency,
        unit=problem.unit,
        released="all",
        update="post-processed" if momentum or average else "sgd",
    )
    run = optimal_noise(run, epsilon=budget.epsilon, delta=budget.delta) if noise == "optimal" else budget.calibrated(run)
    if step_size is None:
        moved = problem.clip * math.sqrt(noise_energy(run))
        step_size = min(_STABLE * (1 + momentum) * float(sizes[0] / sizes.max()), (1 - momentum) / (2 * moved))
        step_size /= problem.smooth("no step size follows from it")
    first = real("step_size", step_size)
    run = run.replace(step_size=tuple((first * sizes / sizes[0]).tolist()))
    return NoisySGD(run, problem.loss, momentum=momentum, average=average, l2=problem.l2)
