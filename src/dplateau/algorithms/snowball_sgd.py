"""Snowball-SGD: PNSGD with batches that grow as ``1 / sqrt(T - t + 1)``, so that the last records, too, are hidden.

Source: Feldman, Koren, Talwar, "Private stochastic convex optimization: optimal rates in linear time" (STOC 2020), Theorems 3.5,
3.6 and 5.4.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dplateau.algorithms.deprecated import also_by_keywords
from dplateau.algorithms.pnsgd import LARGEST, MOST_STEPS, PNSGD, planned_pass
from dplateau.algorithms.problem import Budget, Problem
from dplateau.spec import InputError
from dplateau.spec.arguments import integer, one_of, real
from dplateau.utility import (
    DECAYING_STEPS,
    FIXED_STEPS,
    jnn_step_sizes,
    snowball_batch_sizes,
    snowball_steps,
    snowball_strongly_convex_step_size,
)

RULES: Final = ("fixed", "falling", "strongly-convex")


@also_by_keywords("n", "loss", least_batch=1)
def plan_snowball_sgd(
    problem: Problem,
    budget: Budget,
    *,
    rule: str | None = None,
    least_batch: int | None = None,
    diameter: float | None = None,
) -> PNSGD:
    """Plan Snowball-SGD. It uses no private data, and is deterministic.

    The batches, steps and noise are those of the theorem, at the rho that epsilon and delta allow: ``T`` is the largest number of
    steps whose batches n records can fill, and records that are left over join the last batches. The noise, in the theorem ``L /
    sqrt(w)`` on the mean gradient of w weights, is then scaled to what the schedule that runs really costs.

    Parameters
    ----------
    problem, budget : Problem, Budget
        Public facts, and what may be spent.
    rule : {"fixed", "falling", "strongly-convex"}, optional
        Theorem 3.5, with equal steps; Theorem 3.6, with the falling steps of Definition 3.3; Theorem 5.4, which needs l2. By
        default the last with an l2 term, and "falling" without.
    least_batch : int, optional
        Batches below this size are raised to it: fewer steps, no less privacy. By default ``n / 4096``, so that there are at most
        some thousand steps: more of them are slower to certify and not better.
    diameter : float, optional
        D: diameter of the ball around zero that iterates are projected on, by default ``100 sqrt(K) / R`` for K scores.

    Raises
    ------
    InputError
        An argument is out of range, n records fill no batch, or no noise reaches epsilon.

    Examples
    --------
    >>> from dplateau.losses import Logistic
    >>> plan = plan_snowball_sgd(Problem(20_000, 20, Logistic()), Budget(epsilon=1.0, delta=1e-6), least_batch=1)
    >>> plan.run.sampling.batch_size[0], plan.run.sampling.batch_size[-1]
    (1.0, 66.0)
    """
    n, l2 = problem.n, problem.largest_l2
    least = max(1, n // MOST_STEPS) if least_batch is None else integer("least_batch", least_batch)
    rule = ("strongly-convex" if l2 else "falling") if rule is None else rule
    one_of("rule", rule, RULES)
    if rule == "strongly-convex" and not l2:
        raise InputError("rule 'strongly-convex' needs a strongly convex objective: give l2 > 0, or choose another rule.")
    diameter = 2 * problem.distance if diameter is None else real("diameter", diameter)
    clip, smoothness = problem.contraction()
    rho = 2 / budget.least_multiplier  # the theorems are about replacing a record, which moves a sum by two clip norms
    sizes = _filled(n, problem.weights, rho, DECAYING_STEPS if rule == "falling" else FIXED_STEPS, least)
    step_sizes = np.minimum(_step_sizes(rule, len(sizes), clip, diameter, l2), LARGEST / smoothness)
    noise = tuple((sizes / math.sqrt(problem.weights)).tolist())
    return planned_pass(problem, budget, tuple(sizes.tolist()), step_sizes, noise, diameter)


def _filled(n: int, weights: int, rho: float, factor: float, least: int) -> NDArray[np.int64]:
    """The batch sizes of the longest snowball that n records fill; records that are left over join its last batches."""
    steps = snowball_steps(n, weights, rho, factor, least)
    sizes = snowball_batch_sizes(steps, weights, rho, factor, least)
    each, rest = divmod(n - int(sizes.sum()), steps)
    sizes += each
    sizes[steps - rest :] += 1
    return sizes


def _step_sizes(rule: str, steps: int, lipschitz: float, diameter: float, l2: float) -> NDArray[np.float64]:
    if rule == "strongly-convex":
        return np.full(steps, snowball_strongly_convex_step_size(max(steps, 2), l2))
    scale = diameter / (math.sqrt(2) * lipschitz)
    return jnn_step_sizes(steps, scale) if rule == "falling" else np.full(steps, scale / math.sqrt(steps))
