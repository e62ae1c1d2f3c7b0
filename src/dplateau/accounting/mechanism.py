"""From a ``Run`` to the privacy losses of its steps, all noisy gradients released.

==============  =======================================  ===========================================
sampling        add-remove                               replace
==============  =======================================  ===========================================
Poisson         mixture against Gaussian, both ways      mixtures with opposite centres
fixed size      C_q(G(2/z)): an empty place is one       C_q(G(2/z))
                value a record may be replaced by
cyclic          one Gaussian of 1/z an epoch             one Gaussian of 2/z an epoch
shuffled        as cyclic, each epoch's largest          as cyclic, each epoch's largest
one pass        one Gaussian of 1/z                      one Gaussian of 2/z
full batch      a Gaussian of 1/z a step                 a Gaussian of 2/z a step
==============  =======================================  ===========================================

With batches fixed by the positions, the worst position counts. Proofs: ``docs/proofs/exact-composition.md``.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from dplateau.accounting.gaussian import Array
from dplateau.accounting.privacy_loss import Amplified, Composition, PoissonAdd, PoissonRemove, PoissonReplace, StepLaw
from dplateau.spec import Cyclic, FixedSize, FullBatch, OnePass, Poisson, Run, Shuffled, per_step

DISTINCT: Final = 256
"""Runs with more distinct (rate, noise) pairs are rounded to a grid of this many noise levels, on the safe side."""


def sensitivity(run: Run) -> float:
    """Sensitivity of the sum of clipped gradients to one record, in units of the clip norm."""
    return 2.0 if run.adjacency == "replace" else 1.0


def _fixed_order_mu(run: Run) -> float:
    """mu of the noisy gradients when positions decide the batches."""
    z = run.noise_multiplier
    length = int(run.sampling.epoch_steps(run.n))
    if isinstance(run.sampling, FullBatch):
        length = 1
    if isinstance(run.sampling, OnePass):
        length = run.steps
    if not isinstance(z, tuple):
        return math.sqrt(math.ceil(run.steps / length)) * sensitivity(run) / z
    losses = np.zeros(math.ceil(run.steps / length) * length)
    losses[: run.steps] = per_step(z, run.steps) ** -2.0
    epochs = losses.reshape(-1, length)
    # A shuffled record may sit anywhere in every epoch; a cyclic one keeps its place.
    total = epochs.max(axis=1).sum() if isinstance(run.sampling, Shuffled) else epochs.sum(axis=0).max()
    return math.sqrt(float(total)) * sensitivity(run)


def _rounded(rate: Array, z: Array, *, safe: bool) -> tuple[Array, Array]:
    """Noise levels (and rates) on a geometric grid: noise down and rates up if ``safe``, else the other way."""

    def grid(values: Array, up: bool) -> Array:
        low, high = float(values.min()), float(values.max())
        if low == high:
            return values
        step = math.log(high / low) / (DISTINCT - 1)
        place = np.log(values / low) / step
        return np.clip(low * np.exp(step * (np.ceil(place - 1e-9) if up else np.floor(place + 1e-9))), low, high)

    return np.minimum(grid(rate, safe), 1.0), grid(z, not safe)


def _sampled(run: Run, *, safe: bool) -> tuple[list[tuple[float, float, int]], bool]:
    """Distinct (rate, noise multiplier, how often) of a run with random batches, and whether they were rounded."""
    size, z = run.sampling.divisors(run.n), run.noise_multiplier
    if not isinstance(size, tuple) and not isinstance(z, tuple):
        return [(size / run.n, z, run.steps)], False
    rate, noise = per_step(size, run.steps) / run.n, per_step(z, run.steps)
    pairs, counts = np.unique(np.stack([rate, noise]), axis=1, return_counts=True)
    rounded = counts.size > DISTINCT
    if rounded:
        pairs, counts = np.unique(np.stack(_rounded(rate, noise, safe=safe)), axis=1, return_counts=True)
    return [(float(q), float(s), int(count)) for (q, s), count in zip(pairs.T, counts, strict=True)], rounded


def _laws(run: Run, q: float, z: float) -> tuple[StepLaw, ...]:
    """The step's law in each direction."""
    if isinstance(run.sampling, FixedSize):
        return (Amplified(q, 2 / z),)
    if run.adjacency == "replace":
        return (PoissonReplace(q, 1 / z),)
    return PoissonRemove(q, 1 / z), PoissonAdd(q, 1 / z)


def compositions(run: Run, *, safe: bool = True) -> tuple[tuple[Composition, ...], bool]:
    """What the steps of ``run`` compose to, in each direction, and whether noise levels were rounded.

    ``safe`` says to which side they are: the result then dominates the run (True), or is dominated by it.
    """
    if isinstance(run.sampling, (Cyclic, Shuffled, OnePass, FullBatch)):
        return (Composition((), _fixed_order_mu(run)),), False
    if not isinstance(run.sampling, (Poisson, FixedSize)):
        raise TypeError(f"no composition is known for {type(run.sampling).__name__}")
    groups, rounded = _sampled(run, safe=safe)
    gaussian = math.sqrt(sum(count * (sensitivity(run) / z) ** 2 for q, z, count in groups if q == 1))
    laws = [(_laws(run, q, z), count) for q, z, count in groups if q < 1]
    ways = len(laws[0][0]) if laws else 1
    return tuple(Composition(tuple((law[way], count) for law, count in laws), gaussian) for way in range(ways)), rounded
