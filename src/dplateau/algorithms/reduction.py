"""Strongly convex losses by repeating a method for convex ones, each time on more records and from a closer start.

Source: Feldman, Koren, Talwar, "Private stochastic convex optimization: optimal rates in linear time" (STOC 2020), Theorem 5.1. All
runs together are one pass: their phases, one after the other, are the phases of one ``Run``.
"""

from __future__ import annotations

import math
from typing import Final

from dplateau.algorithms.deprecated import also_by_keywords
from dplateau.algorithms.localisation import PhaseSchedule, convex_step, halving_phases
from dplateau.algorithms.phased_erm import PhasedERM, lipschitz_of
from dplateau.algorithms.phased_sgd import MARGIN, PhasedSGD, batch_of, diameter_of
from dplateau.algorithms.problem import Budget, Problem, one_pass_run
from dplateau.spec.arguments import integer, one_of, real
from dplateau.spec.run import PHASED
from dplateau.utility.halving import halving_sizes

_FACTOR: Final = 10.0
"""The constant of Theorem 4.4's excess risk, here with z for its 1/rho: proved for n a power of 4 and batches of single records."""
_FEWEST: Final = 16


@also_by_keywords("n", "loss", batch_size=1)
def plan_reduction(
    problem: Problem,
    budget: Budget,
    *,
    diameter: float | None = None,
    method: str = "phased-sgd",
    batch_size: int | None = None,
    accuracy: float = 1e-3,
) -> PhasedSGD | PhasedERM:
    """Plan the reduction of Theorem 5.1. It uses no private data, and is deterministic.

    ``ceil(log2 log2 n)`` runs of the method, run i on ``2^(i-2) n / log2 n`` records, rounded down; the last one takes the rest as
    well. The first takes the minimiser to be at most ``min(D, L / l2)`` away; a run from distance D_i is taken to have an excess
    risk of ``10 L D_i (1 / sqrt(n_i) + z sqrt(d) / n_i)``, which strong convexity turns into the next distance. That is a guess
    from which the steps follow: it is proved for batches of single records and steps below ``2 / M``, not for larger batches.
    No guarantee rests on it.

    Parameters
    ----------
    problem, budget : Problem, Budget
        Public facts, and what may be spent. There must be 16 records or more, and an l2 term, which makes the objective strongly
        convex. The loss must be smooth for Phased-SGD, Lipschitz for Phased-ERM.
    diameter : float, optional
        D: diameter of the ball around zero that iterates (of Phased-ERM: noisy results) are projected on, by default
        ``100 sqrt(K) / R`` for K scores.
    method : {"phased-sgd", "phased-erm"}, default "phased-sgd"
        What is repeated.
    batch_size : int, optional
        See ``plan_phased_sgd``.
    accuracy : float, default 1e-3
        See ``plan_phased_erm``.

    Raises
    ------
    InputError
        An argument is out of range, or no noise reaches epsilon.

    Examples
    --------
    >>> from dplateau.losses import Logistic
    >>> plan = plan_reduction(Problem(10_000, 20, Logistic(), l2=0.01), Budget(epsilon=1.0, delta=1e-5), method="phased-erm")
    >>> plan.run.steps, int(sum(plan.run.sampling.batch_size))
    (23, 10000)
    """
    n, strength = integer("n", problem.n, low=_FEWEST), real("l2", problem.largest_l2)
    size, z, weights = diameter_of(problem, diameter), budget.least_multiplier, problem.weights
    one_of("method", method, PHASED)
    by_steps = method == "phased-sgd"
    lipschitz, smoothness = problem.contraction(MARGIN) if by_steps else (lipschitz_of(problem), None)
    smallest = min(halving_sizes(records)[-1] for records in part_sizes(n))
    b = batch_of(problem, batch_size, smallest) if by_steps else 1
    steepest, distance = lipschitz + strength * size / 2, min(size, lipschitz / strength)
    schedule = PhaseSchedule((), ())
    for records in part_sizes(n):
        eta = convex_step(records, z, weights, distance, steepest)
        schedule += halving_phases(records, eta if smoothness is None else min(b * eta, 2 / smoothness))
        risk = _FACTOR * (steepest / strength) * distance * (1 / math.sqrt(records) + z * math.sqrt(weights) / records)
        distance = min(distance, math.sqrt(2 * risk))
    run = one_pass_run(problem, budget, *schedule, update=method, clip_norm=lipschitz, smoothness=smoothness, diameter=size)
    if by_steps:
        return PhasedSGD(run, problem.loss, batch_size=b)
    return PhasedERM(run, problem.loss, real("accuracy", accuracy, high=1.0))


def part_sizes(n: int) -> list[int]:
    """Records of each run."""
    logarithm = math.log2(n)
    sizes = [math.floor(2.0 ** (i - 2) * n / logarithm) for i in range(1, math.ceil(math.log2(logarithm)) + 1)]
    return [*sizes[:-1], n - sum(sizes[:-1])]
