"""Snowball-SGD: PNSGD with batches that grow as ``1 / sqrt(T - t + 1)``, so that the last records, too, are hidden.

Source: Feldman, Koren, Talwar, "Private stochastic convex optimization: optimal rates in linear time" (STOC 2020), Theorems 3.5,
3.6 and 5.4.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dplateau.algorithms.constants import clip_and_smoothness, default_distance, gaussian_mu, moved
from dplateau.algorithms.pnsgd import LARGEST, PNSGD
from dplateau.calibration import calibrate
from dplateau.losses import GeneralisedLinearLoss
from dplateau.spec import InputError, OnePass, Run
from dplateau.spec.schedule import integer, real
from dplateau.utility import (
    DECAYING_STEPS,
    FIXED_STEPS,
    jnn_step_sizes,
    snowball_batch_sizes,
    snowball_steps,
    snowball_strongly_convex_step_size,
)

RULES: Final = ("fixed", "falling", "strongly-convex")


def plan_snowball_sgd(
    n: int,
    loss: GeneralisedLinearLoss,
    *,
    epsilon: float,
    delta: float,
    d: int,
    rule: str | None = None,
    feature_norm: float = 1.0,
    adjacency: str = "add-remove",
    least_batch: int = 1,
    diameter: float | None = None,
    residual_clip: float | None = None,
    l2: float = 0.0,
) -> PNSGD:
    """Plan Snowball-SGD from public facts; it costs no privacy, and equal arguments give equal plans.

    The batches, steps and noise are those of the theorem, at the rho that epsilon and delta allow: ``T`` is the largest number of
    steps whose batches n records can fill, and records that are left over join the last batches. The noise, in the theorem ``L /
    sqrt(w)`` on the mean gradient of w weights, is then scaled to what the schedule that runs really costs.

    Parameters
    ----------
    n : int
        Number of records.
    loss : GeneralisedLinearLoss
        Loss of one record.
    epsilon, delta : float
        What the run may cost, at most. The noise is calibrated to it and certified.
    d : int
        Number of features.
    rule : {"fixed", "falling", "strongly-convex"}, optional
        Theorem 3.5, with equal steps; Theorem 3.6, with the falling steps of Definition 3.3; Theorem 5.4, which needs l2. By
        default the last with an l2 term, and "falling" without.
    feature_norm : float, default 1.0
        R: public bound on the Euclidean norm of every row.
    adjacency : {"add-remove", "replace"}, default "add-remove"
        What neighbouring data sets are; see ``Run``.
    least_batch : int, default 1
        Batches below this size are raised to it: fewer steps, no less privacy.
    diameter : float, optional
        D: diameter of the ball around zero that iterates are projected on, by default ``100 sqrt(K) / feature_norm`` for
        K scores.
    residual_clip : float, optional
        c: per-example gradients are clipped to ``c * feature_norm``; by default half of the largest residual, or all of it where
        the loss would not stay convex.
    l2 : float, default 0.0
        Coefficient of ``|w|^2 / 2``, which is added to the mean loss.

    Returns
    -------
    PNSGD
        The plan.

    Raises
    ------
    InputError
        An argument is out of range, n records fill no batch, or no noise reaches epsilon.

    Examples
    --------
    >>> from dplateau.losses import Logistic
    >>> plan = plan_snowball_sgd(20_000, Logistic(), epsilon=1.0, delta=1e-6, d=20)
    >>> plan.run.sampling.batch_size[0], plan.run.sampling.batch_size[-1]
    (1, 80)
    """
    n, d, least_batch = integer("n", n), integer("d", d), integer("least_batch", least_batch)
    norm, l2 = real("feature_norm", feature_norm), real("l2", l2, inclusive=True)
    rule = rule or ("strongly-convex" if l2 else "falling")
    if rule not in RULES:
        raise InputError(f"rule is {rule!r}: expected one of {', '.join(RULES)}.")
    if rule == "strongly-convex" and not l2:
        raise InputError("rule 'strongly-convex' needs a strongly convex objective: give l2 > 0, or choose another rule.")
    diameter = 2 * default_distance(loss, norm) if diameter is None else real("diameter", diameter)
    clip, smoothness = clip_and_smoothness(loss, norm, residual_clip, l2)
    # The theorems are about replacing a record, which moves a step twice as far as removing one.
    rho = gaussian_mu(epsilon, delta, adjacency) * 2 / moved(adjacency)
    weights = d * loss.outputs
    sizes = _filled(n, weights, rho, DECAYING_STEPS if rule == "falling" else FIXED_STEPS, least_batch)
    step_sizes = np.minimum(_step_sizes(rule, len(sizes), clip, diameter, l2), LARGEST / smoothness)
    run = Run(
        n=n,
        sampling=OnePass(tuple(sizes.tolist())),
        steps=len(sizes),
        noise_multiplier=tuple((sizes / math.sqrt(weights)).tolist()),
        clip_norm=clip,
        step_size=tuple(step_sizes.tolist()),
        smoothness=smoothness,
        strong_convexity=l2,
        l2=l2,
        diameter=diameter,
        adjacency=adjacency,
        released="last",
    )
    return PNSGD(calibrate(run, epsilon=epsilon, delta=delta), loss, l2)


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
