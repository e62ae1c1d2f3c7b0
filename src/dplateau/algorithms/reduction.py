"""Strongly convex losses by repeating a method for convex ones, each time on more records and from a closer start.

Source: Feldman, Koren, Talwar, "Private stochastic convex optimization: optimal rates in linear time" (STOC 2020), Theorem 5.1. All
runs together are one pass: their phases, one after the other, are the phases of one ``Run``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import reduce
from operator import add
from typing import Final

from dplateau.algorithms.constants import least_multiplier
from dplateau.algorithms.localisation import PhaseSchedule, convex_step, halving_phases, phased_run
from dplateau.algorithms.phased_erm import PhasedERM, lipschitz_of
from dplateau.algorithms.phased_sgd import PhasedSGD, check_batches, smooth_constants
from dplateau.calibration import calibrate
from dplateau.losses import GeneralisedLinearLoss
from dplateau.spec import InputError
from dplateau.spec.run import PHASED
from dplateau.spec.schedule import integer, real

_FACTOR: Final = 10.0
"""The constant of Theorem 4.4's excess risk."""
_FEWEST: Final = 16


def plan_reduction(
    n: int,
    loss: GeneralisedLinearLoss,
    *,
    epsilon: float,
    delta: float,
    d: int,
    l2: float,
    diameter: float,
    method: str = "phased-sgd",
    feature_norm: float = 1.0,
    adjacency: str = "add-remove",
    batch_size: int = 1,
    residual_clip: float | None = None,
    accuracy: float = 1e-3,
) -> PhasedSGD | PhasedERM:
    """Plan the reduction of Theorem 5.1 from public facts: it costs no privacy, and equal arguments give equal plans.

    ``ceil(log2 log2 n)`` runs of the method, run i on ``2^(i-2) n / log2 n`` records, rounded down; the last one takes the rest as
    well. The first takes the minimiser to be at most ``min(D, L / l2)`` away; a run from distance D_i has excess risk at most
    ``10 L D_i (1 / sqrt(n_i) + z sqrt(d) / n_i)``, and strong convexity turns that into the next distance.

    Parameters
    ----------
    n : int
        Number of records, at least 16, in an order that is public; random where the theorem is to apply.
    loss : GeneralisedLinearLoss
        Loss of one record; smooth for Phased-SGD, Lipschitz for Phased-ERM.
    epsilon, delta : float
        What the run may cost, at most. The noise is calibrated to it and certified.
    d : int
        Number of features.
    l2 : float
        Coefficient of ``|w|^2 / 2``, which is added to the mean loss and makes it strongly convex.
    diameter : float
        D: diameter of the ball around zero that iterates (of Phased-ERM: noisy results) are projected on.
    method : {"phased-sgd", "phased-erm"}, default "phased-sgd"
        What is repeated.
    feature_norm : float, default 1.0
        R: public bound on the Euclidean norm of every row.
    adjacency : {"add-remove", "replace"}, default "add-remove"
        What neighbouring data sets are; see ``Run``.
    batch_size, residual_clip
        See ``plan_phased_sgd``.
    accuracy : float, default 1e-3
        See ``plan_phased_erm``.

    Returns
    -------
    PhasedSGD or PhasedERM
        The plan.

    Raises
    ------
    InputError
        An argument is out of range, or no noise reaches epsilon.

    Examples
    --------
    >>> from dplateau.losses import Logistic
    >>> plan = plan_reduction(10_000, Logistic(), epsilon=1.0, delta=1e-5, d=20, l2=0.01, diameter=20.0, method="phased-erm")
    >>> plan.run.steps, int(sum(plan.run.sampling.batch_size))
    (23, 10000)
    """
    n, strength, size = integer("n", n, low=_FEWEST), real("l2", l2), real("diameter", diameter)
    z, weights = least_multiplier(epsilon, delta, adjacency), integer("d", d) * loss.outputs
    if method not in PHASED:
        raise InputError(f"method is {method!r}: expected one of {', '.join(PHASED)}.")
    by_steps, b = method == "phased-sgd", integer("batch_size", batch_size)
    if by_steps:
        lipschitz, smoothness = smooth_constants(loss, feature_norm, residual_clip, strength)
    else:
        lipschitz, smoothness = lipschitz_of(loss, feature_norm), None
    steepest = lipschitz + strength * size / 2

    def step(records: int, distance: float) -> float:
        eta = convex_step(records, z, weights, distance, steepest)
        return eta if smoothness is None else min(b * eta, 2 / smoothness)

    runs = _runs(n, min(size, lipschitz / strength), steepest / strength, z * math.sqrt(weights), step)
    schedule: PhaseSchedule = reduce(add, runs)
    run = phased_run(
        n,
        schedule,
        update=method,
        clip_norm=lipschitz,
        smoothness=smoothness,
        l2=strength,
        diameter=size,
        adjacency=adjacency,
    )
    if not by_steps:
        return PhasedERM(calibrate(run, epsilon=epsilon, delta=delta), loss, real("accuracy", accuracy, high=1.0))
    check_batches(schedule, b)
    return PhasedSGD(calibrate(run, epsilon=epsilon, delta=delta), loss, batch_size=b)


def part_sizes(n: int) -> list[int]:
    """Records of each run."""
    logarithm = math.log2(n)
    sizes = [math.floor(2.0 ** (i - 2) * n / logarithm) for i in range(1, math.ceil(math.log2(logarithm)) + 1)]
    return [*sizes[:-1], n - sum(sizes[:-1])]


def _runs(n: int, distance: float, curvature: float, noise: float, step: Callable[[int, float], float]) -> Iterator[PhaseSchedule]:
    """The phases of each run; ``curvature`` is the Lipschitz constant over the strong convexity, ``noise`` is ``z sqrt(d)``."""
    for records in part_sizes(n):
        yield halving_phases(records, step(records, distance))
        risk = _FACTOR * curvature * distance * (1 / math.sqrt(records) + noise / records)
        distance = min(distance, math.sqrt(2 * risk))
