"""From a ``Run`` to the privacy losses of its steps, all noisy gradients released.

==============  =======================================  ===========================================
sampling        add-remove                               replace
==============  =======================================  ===========================================
Poisson         mixture against Gaussian, both ways      mixtures with opposite centres
fixed size      three centres, both ways                 C_q(G(2/z))
                (``empty_place.py``)
random          mixture of an epoch's batches against    mixtures with opposite
 allocation     Gaussian, both ways                      centres
                (``random_allocation.py``)
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
from dplateau.accounting.empty_place import EmptyOrPresent, PresentOrEmpty
from dplateau.accounting.family import Family, Members
from dplateau.accounting.gaussian import Array
from dplateau.accounting.privacy_loss import PoissonAdd, PoissonRemove, PoissonReplace, StepLaw
from dplateau.accounting.random_allocation import allocations
from dplateau.accounting.terms import Composition, Repeated, Term
from dplateau.spec import Poisson, Run
from dplateau.spec.schedule import constant, is_constant, largest
from dplateau.spec.steps import Counts, distinct, on_grid

DISTINCT: Final = 1024
"""Runs with more terms than this are rounded to a grid of about as many, on the safe side."""
_FEW: Final = 24
"""Up to this many noise levels of one rate are evaluated one by one; more become a family."""
_ALONE: Final = 49
"""Where laws that form no families have more levels, they are rounded to about so many."""
_RATES: Final = 8
"""Up to this many rates are looked at one by one; where there are more, rate and noise vary together in one family."""
_MANY: Final = 256
"""Up to this many pairs of rate and noise are evaluated one by one; more become a family."""
_LOUDEST: Final = 1e100
"""More noise counts as this much: squares of its inverse, and small shares of them, leave double precision."""
_LONG: Final = 1.6
"""Greatest range of the log of the noise, and of the log odds of the rates, of one family."""


def sensitivity(run: Run) -> float:
    """Sensitivity of the sum of clipped gradients to one record, in units of the clip norm."""
    return 2.0 if run.adjacency == "replace" else 1.0


def _fixed_order_mu(run: Run) -> float:
    """mu of the noisy gradients when positions decide the batches."""
    z, length = run.noise_multiplier, run.sampling.period(run.n, run.steps)
    epochs = math.ceil(run.steps / length)
    if is_constant(z):
        return math.sqrt(epochs) * sensitivity(run) / constant(z)
    losses = np.zeros(epochs * length)
    losses[: run.steps] = run.table.written().noise ** -2.0
    places = losses.reshape(-1, length)
    # A shuffled record may sit anywhere in every epoch; a cyclic one keeps its place.
    total = places.max(axis=1).sum() if run.sampling.shuffled else places.sum(axis=0).max()
    return math.sqrt(float(total)) * sensitivity(run)


def step_kinds(run: Run) -> tuple[tuple[type[StepLaw], ...], float]:
    """The law of a drawn batch in each direction, and its mu times the noise multiplier."""
    match run.sampling.random_size, run.adjacency == "replace":
        case True, True:
            return (PoissonReplace,), 1.0
        case True, False:
            return (PoissonRemove, PoissonAdd), 1.0
        case False, True:
            return (Amplified,), 2.0
        case _:
            return (PresentOrEmpty, EmptyOrPresent), 1.0


def _terms(kind: type[StepLaw], rate: Array, noise: Array, counts: Counts, shift: float) -> tuple[Term, ...]:
    """Terms for all pairs with a rate below 1: families where there are many, in pieces whose laws do not differ too much.

    What bounds the interpolation in a family is not proved for laws with an empty place.
    """
    sampled = rate < 1
    qs, mus, counts = rate[sampled], shift / noise[sampled], counts[sampled]
    piece = _pieces(np.log(qs) - np.log1p(-qs)) * qs.size + _pieces(np.log(mus))
    terms: list[Term] = []
    for here in (np.flatnonzero(piece == which) for which in np.unique(piece)):
        rates = np.unique(qs[here])
        if rates.size <= _RATES:
            groups, many = [here[qs[here] == q] for q in rates], _FEW
        else:
            groups, many = [here], _MANY
        for group in groups:
            if group.size > many and kind not in (PresentOrEmpty, EmptyOrPresent):
                terms.append(Family(kind, Members.of(qs[group], mus[group], counts[group])))
            else:
                terms += [Repeated(kind(float(qs[i]), float(mus[i])), int(counts[i])) for i in group]
    return tuple(terms)


def _pieces(x: Array) -> Array:
    """The number of the piece that each x lies in, all pieces being of one length, at most ``_LONG``."""
    low, high = (float(x.min()), float(x.max())) if x.size else (0.0, 0.0)
    count = max(math.ceil((high - low) / _LONG), 1)
    return np.minimum(((x - low) / max(high - low, 1e-300) * count).astype(int), count - 1)


def _allocated(run: Run) -> bool:
    """Whether every record is in one batch of an epoch, drawn at random, and there is a choice."""
    return run.sampling.allocated and run.sampling.epoch_length(run.n) > 1


def drawn(run: Run) -> Run:
    """The run with Poisson batches in place of allocated ones, which need about the same noise and take less time: for searches."""
    return run.replace(sampling=Poisson(run.sampling.divisors(run.n))) if _allocated(run) else run


def compositions(run: Run, *, safe: bool = True) -> tuple[tuple[Composition, ...], bool]:
    """What the steps of ``run`` compose to, in each direction, and whether noise levels were rounded, or laws.

    ``safe`` says to which side they are: the result then dominates the run (True), or is dominated by it.
    """
    if safe and largest(run.noise_multiplier) > _LOUDEST:
        return compositions(run.replace(noise_multiplier=np.minimum(run.noise_multiplier, _LOUDEST)))[0], True
    if _allocated(run):
        return allocations(run, safe=safe), True
    if not run.sampling.drawn:
        return (Composition((), _fixed_order_mu(run)),), False
    kinds, shift = step_kinds(run)
    rate, noise, counts = run.table.draws(up=safe)
    moved = run.sampling.random_size and bool((rate != run.table.draws(up=not safe)[0]).any())
    alone = PresentOrEmpty in kinds and rate.size > _FEW
    if alone:
        # These laws form no families: their levels are few. Rates up and noise down are safe.
        levels = _ALONE if np.ptp(rate) == 0 or np.ptp(noise) == 0 else math.isqrt(_ALONE)
        rate, noise, counts = distinct(on_grid(rate, levels, up=safe), on_grid(noise, levels, up=not safe), counts)
    found = [_terms(kind, rate, noise, counts, shift) for kind in kinds]
    rounded = len(found[0]) > DISTINCT
    if rounded:
        # Rates up is safe. With few rates, what is left are families, which need no rounding of the noise.
        rate, noise, counts = distinct(on_grid(rate, math.isqrt(DISTINCT), up=safe), noise, counts)
        found = [_terms(kind, rate, noise, counts, shift) for kind in kinds]
    whole = rate == 1
    gaussian = sensitivity(run) * math.sqrt(float((counts[whole] / noise[whole] ** 2).sum()))
    return tuple(Composition(terms, gaussian) for terms in found), rounded or alone or moved
