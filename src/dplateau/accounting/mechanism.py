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

from dplateau.accounting.amplified import Amplified
from dplateau.accounting.gaussian import Array
from dplateau.accounting.privacy_loss import PoissonAdd, PoissonRemove, PoissonReplace, StepLaw
from dplateau.accounting.terms import Composition, Family, Repeated, Term
from dplateau.spec import Cyclic, FixedSize, FullBatch, OnePass, Poisson, Run, Shuffled, per_step

DISTINCT: Final = 256
"""Runs with more terms than this are rounded to a grid of about as many, on the safe side."""
_FEW: Final = 24
"""Up to this many noise levels of one rate are evaluated one by one; more become a family."""


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


def _rounded(values: Array, levels: int, *, up: bool) -> Array:
    """``values`` > 0 moved up (or down) to a geometric grid of so many levels."""
    low, high = float(values.min()), float(values.max())
    if low == high:
        return values
    step = math.log(high / low) / (levels - 1)
    place = np.log(values / low) / step
    moved = np.clip(low * np.exp(step * (np.ceil(place) if up else np.floor(place))), low, high)
    return np.maximum(moved, values) if up else np.minimum(moved, values)


def step_kinds(run: Run) -> tuple[tuple[type[StepLaw], ...], float]:
    """The steps' law in each direction, and its mu times the noise multiplier."""
    if isinstance(run.sampling, FixedSize):
        return (Amplified,), 2.0
    return ((PoissonReplace,), 1.0) if run.adjacency == "replace" else ((PoissonRemove, PoissonAdd), 1.0)


def _groups(rate: Array, noise: Array) -> tuple[Array, Array]:
    """Distinct (rate, noise) pairs, shape (2, k), and how often each occurs."""
    return np.unique(np.stack([rate, noise]), axis=1, return_counts=True)


def _terms(kind: type[StepLaw], pairs: Array, counts: Array, shift: float) -> tuple[Term, ...]:
    """Terms for all pairs with a rate below 1. The interpolation of a family is not proved for ``PoissonReplace``."""
    terms: list[Term] = []
    for q in np.unique(pairs[0][pairs[0] < 1]):
        here = pairs[0] == q
        mus, times = (shift / pairs[1][here])[::-1], counts[here][::-1]
        if mus.size > _FEW and kind is not PoissonReplace:
            terms.append(Family(kind, float(q), mus, times))
        else:
            terms += [Repeated(kind(float(q), float(mu)), int(count)) for mu, count in zip(mus, times, strict=True)]
    return tuple(terms)


def compositions(run: Run, *, safe: bool = True) -> tuple[tuple[Composition, ...], bool]:
    """What the steps of ``run`` compose to, in each direction, and whether noise levels were rounded.

    ``safe`` says to which side they are: the result then dominates the run (True), or is dominated by it.
    """
    if isinstance(run.sampling, (Cyclic, Shuffled, OnePass, FullBatch)):
        return (Composition((), _fixed_order_mu(run)),), False
    if not isinstance(run.sampling, (Poisson, FixedSize)):
        raise TypeError(f"no composition is known for {type(run.sampling).__name__}")
    size, z = run.sampling.batch_size, run.noise_multiplier
    kinds, shift = step_kinds(run)
    if isinstance(size, tuple) or isinstance(z, tuple):
        rate, noise = per_step(size, run.steps) / run.n, per_step(z, run.steps)
        pairs, counts = _groups(rate, noise)
    else:
        rate, noise = np.array([size / run.n]), np.array([z])
        pairs, counts = np.stack([rate, noise]), np.array([run.steps])
    found = [_terms(kind, pairs, counts, shift) for kind in kinds]
    rounded = len(found[0]) > DISTINCT
    if rounded:
        # Rates up and noise down is safe. A family needs no rounding of the noise.
        several = np.unique(rate).size > 1
        levels = math.isqrt(DISTINCT) if several else DISTINCT
        rate = _rounded(rate, levels, up=safe)
        noise = noise if several and PoissonReplace not in kinds else _rounded(noise, levels, up=not safe)
        pairs, counts = _groups(rate, noise)
        found = [_terms(kind, pairs, counts, shift) for kind in kinds]
    whole = pairs[0] == 1
    gaussian = sensitivity(run) * math.sqrt(float((counts[whole] / pairs[1][whole] ** 2).sum()))
    return tuple(Composition(terms, gaussian) for terms in found), rounded
