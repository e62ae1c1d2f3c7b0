"""From a run to what its noisy gradients compose to (``docs/proofs/exact-composition.md``, sections 2 to 6)."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from math import ceil

from dplateau.spec import Run
from dplateau.verifier.allocation import composed as allocated
from dplateau.verifier.balls import exact
from dplateau.verifier.laws import Add, Amplified, Empty, Present, Remove, Replace, Sampled
from dplateau.verifier.statement import Composition, Statement
from dplateau.verifier.steps import sensitivity, steps


def kinds(run: Run) -> tuple[tuple[type[Sampled], ...], int]:
    """The law of a drawn batch in each direction, and its mu times the noise multiplier."""
    match run.sampling.random_size, run.adjacency == "replace":
        case True, True:
            return (Replace,), 1
        case True, False:
            return (Remove, Add), 1
        case False, True:
            return (Amplified,), 2
        case _:
            return (Present, Empty), 1


def composed(run: Run) -> Statement:
    """All noisy gradients of a run whose batches are drawn afresh, or decided by the records' places (Section 2)."""
    if run.sampling.allocated and run.sampling.epoch_length(run.n) > 1:
        return allocated(run)
    if not run.sampling.drawn:
        return Statement.of(Composition((), exact(_fixed_places(run))))
    counts: Counter[tuple[Fraction, Fraction]] = Counter()
    for step in steps(run):
        counts[step.batch / run.n, step.noise] += step.count
    laws, unit = kinds(run)
    whole = sum((count * (sensitivity(run) / noise) ** 2 for (q, noise), count in counts.items() if q == 1), Fraction(0))
    parts = [[(law(q, unit / noise), count) for (q, noise), count in counts.items() if q < 1] for law in laws]
    return Statement.of(*(Composition(tuple(part), exact(whole)) for part in parts))


def _fixed_places(run: Run) -> Fraction:
    """mu^2 of the noisy gradients where places decide the batches: the worst place, or of a shuffled record each epoch's worst."""
    length = run.sampling.period(run.n, run.steps)
    rows, square = steps(run), sensitivity(run) ** 2
    if len(rows) == 1:
        return ceil(Fraction(run.steps, length)) * square / rows[0].noise ** 2
    losses = [square / row.noise**2 for row in rows for _ in range(row.count)]
    if run.sampling.shuffled:
        return sum((max(losses[first : first + length]) for first in range(0, run.steps, length)), Fraction(0))
    return max(sum(losses[place::length], Fraction(0)) for place in range(min(length, run.steps)))
