"""The search for the instance of a run that tells two neighbouring data sets apart best."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from operator import itemgetter
from typing import Final, TypeAlias

import numpy as np

from dplateau.audit.instance import ZERO, Gradient, Instance, check_instance, check_run, places
from dplateau.audit.lower_bound import random_walks
from dplateau.audit.oracle import rough_laws
from dplateau.spec import InputError, Run

_Random: TypeAlias = np.random.Generator
_COORDINATES: Final = 9
_SPREADS: Final = (0.5, 0.15, 0.04)


def worst_instance(run: Run, delta: float, *, tries: int = 12, seed: int = 0, best: Instance | None = None) -> Instance:
    """The instance with the largest epsilon at ``delta`` that a search finds: known bad cases, then steps from the best of them.

    A bound's epsilon at ``delta`` does not depend on the instance, so the same one is the worst for every bound.

    Parameters
    ----------
    run : Run
        The setting; needs a diameter, a step size and a smoothness.
    delta : float
        Where epsilon is read.
    tries : int, default 12
        Random steps from the best instance so far, of falling length.
    seed : int, default 0
        Of those steps.
    best : Instance, optional
        Where to start, in place of the known cases.

    Raises
    ------
    InputError
        The run does not have what the oracle needs.
    """
    check_run(run)
    value = -1.0 if best is None else _value(run, best, delta)
    if best is None:
        best, value = _best(run, delta, known_cases(run))
        best, value = max((best, value), _best(run, delta, _pushed(run, best)), key=itemgetter(1))
    random = np.random.default_rng([seed, 1])
    for attempt in range(tries):
        candidate = _moved(random, run, best, _SPREADS[len(_SPREADS) * attempt // tries])
        reached = _value(run, candidate, delta)
        if reached > value:
            best, value = candidate, reached
    return best


def _best(run: Run, delta: float, candidates: Iterator[Instance]) -> tuple[Instance, float]:
    values = [(candidate, _value(run, candidate, delta)) for candidate in candidates]
    return max(values, key=itemgetter(1))


def _value(run: Run, instance: Instance, delta: float) -> float:
    """Epsilon, quickly; -1 where the instance is not one of the run's or its laws are out of reach."""
    try:
        check_instance(run, instance)
        return rough_laws(run, instance).rough_epsilon(delta)
    except (InputError, ArithmeticError):
        return -1.0


def known_cases(run: Run) -> Iterator[Instance]:
    """The instances that meet the bounds in the literature, or come near: steep records that pull apart, late in the run.

    The record's slopes are as large as the losses may have them; the others' curvature is the least or the greatest, either of
    which may contract least; the start is in the middle or at a wall. A strong convexity comes from an l2 term or from every loss.
    """
    half, smoothness, convexity = check_run(run)
    last, steepest = (run.steps - 1) % places(run), run.clip_norm
    yield random_walks(run)
    if convexity < 0:
        most = min(smoothness, steepest / half)
        for own, other in product((-most, 0.0), (-most, 0.0, most)):
            up, down = (Gradient(own, sign * (steepest - abs(own) * half)) for sign in (-1, 1))
            first = None if run.adjacency == "add-remove" else down
            yield from (Instance(first, up, (Gradient(other, 0.0),), start, last) for start in (0.0, -half))
        return
    for l2, total in ((convexity, convexity), (0.0, convexity), (convexity, smoothness), (0.0, min(smoothness, steepest / half))):
        least, other = convexity - l2, Gradient(total - l2, 0.0)
        if max(least, other.curvature) * half > steepest or total < convexity or l2 < run.l2:
            continue
        up, down = (Gradient(least, sign * (steepest - least * half)) for sign in (-1, 1))
        first = None if run.adjacency == "add-remove" else down
        for start in (0.0, -half):
            yield Instance(first, up, (other,), start, last, l2)


def _pushed(run: Run, instance: Instance) -> Iterator[Instance]:
    """The same with all others pushing one way, so that the projection rarely or always ends the step."""
    half, _, _ = check_run(run)
    sizes = run.sampling.divisors(run.n)
    count = max(float(np.mean(sizes)) - 1, 0.5)
    for push in (-3.0, -1.0, 1.0, 3.0):
        room = run.clip_norm - abs(instance.others[0].curvature) * half
        offset = min(max(push * run.clip_norm / count, -room), room)
        yield replace(instance, others=tuple(replace(other, offset=offset) for other in instance.others))


def _moved(random: _Random, run: Run, instance: Instance, spread: float) -> Instance:
    """A neighbour of the instance: a few of its coordinates moved, and put back into what the run allows."""
    half, smoothness, convexity = check_run(run)
    chosen = random.random(_COORDINATES) < 0.35
    shift: list[float] = np.where(chosen, spread * random.standard_normal(_COORDINATES), 0.0).tolist()
    l2 = min(max(instance.l2 + shift[0] * smoothness, run.l2), smoothness) if convexity > 0 else 0.0  # else it would only contract

    def gradient(old: Gradient, curvature: float, offset: float) -> Gradient:
        high = min(smoothness - l2, run.clip_norm / half)
        low = max(convexity - l2, 0.0) if convexity >= 0 else -high
        c = min(max(old.curvature + curvature * smoothness, low), high)
        room = run.clip_norm - abs(c) * half
        return Gradient(c, min(max(old.offset + offset * run.clip_norm, -room), room))

    first = instance.first and gradient(instance.first, shift[1], shift[2])
    second = instance.second and gradient(instance.second, shift[3], shift[4])
    others = _others(random, run, instance, bool(chosen[8]))
    others = tuple(gradient(other, shift[5], shift[6]) for other in others)
    start = min(max(instance.start + 2 * half * shift[7], -half), half)
    position = int(random.integers(places(run))) if random.random() < spread / 2 else instance.position
    if run.sampling.allocated:  # The law is computed for others without gradients.
        l2, others = max(l2, convexity, 0.0), (ZERO,)
    return Instance(first, second, others, start, position, l2)


def _others(random: _Random, run: Run, instance: Instance, chosen: bool) -> tuple[Gradient, ...]:
    """One map a batch where positions are public, changed in one stretch of batches; not yet within what the run allows."""
    count = places(run)
    if count == 1 or not chosen:
        return instance.others
    others = list(instance.others * count if len(instance.others) == 1 else instance.others)
    first, stop = sorted(random.integers(0, count + 1, 2).tolist())
    turned = Gradient((run.smoothness or 0.0) * float(random.random()), run.clip_norm * float(random.uniform(-1, 1)))
    return tuple(turned if first <= place < stop else other for place, other in enumerate(others))
