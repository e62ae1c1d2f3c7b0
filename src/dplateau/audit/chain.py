"""The steps of one data set as mixtures of affine maps of the iterate, to which Gaussian noise is added."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlog1py, xlogy

from dplateau.audit.instance import ZERO, Gradient, Instance
from dplateau.spec import Cyclic, FixedSize, FullBatch, InputError, OnePass, Poisson, RandomAllocation, Run, Shuffled

_NEGLIGIBLE: Final = 1e-18
"""Batch sizes less likely than this (Poisson) are left out."""


class Map(NamedTuple):
    """With probability ``weight`` the iterate x becomes ``slope * x + shift`` before the noise."""

    weight: float
    slope: float
    shift: float


Mixture: TypeAlias = tuple[Map, ...]


class Step(NamedTuple):
    """One step: standard deviation of the noise in the iterate, and the maps.

    Where a record has a random place in each epoch ``hazard`` is the probability that the batch holds it, given that none before it
    in the epoch did; the step is then a draw from ``recorded``, else from ``maps``. Otherwise ``maps`` says everything.
    """

    deviation: float
    maps: Mixture
    recorded: Mixture = ()
    hazard: float = 0.0


@dataclass(frozen=True)
class Chain:
    """The steps of a run on one data set.

    Attributes
    ----------
    steps : tuple of Step
        The distinct steps.
    order : array of int, shape (T,)
        Which of them each step of the run is.
    period : int
        Batches of an epoch (random allocation, cyclic, shuffled), else 1.
    """

    steps: tuple[Step, ...]
    order: NDArray[np.int64]
    period: int


def chain(run: Run, instance: Instance, record: Gradient | None) -> Chain:
    """The chain of the data set that holds ``record`` (None: its place is empty) beside the instance's other records.

    Under random allocation the others must have no gradient: how many of them a batch has depends on all batches before it.
    """
    if run.sampling.allocated and any(other != ZERO for other in instance.others):
        raise InputError("others have gradients: under random allocation the law is computed for others without.")
    table, sampling = run.table.written(), run.sampling
    sizes, period = sampling.batch_sizes(run.n, 0, run.steps), sampling.epoch_length(run.n)
    batch = np.arange(run.steps) % sampling.period(run.n, run.steps)
    one = len(instance.others) == 1
    used = sampling.ordered & (batch == instance.position)
    before = 0 * batch if sampling.ordered else np.concatenate([[0.0], np.cumsum(sizes[:period])[:-1]])[batch]
    facts = np.stack([table.step_size, table.noise, table.size, sizes, used, 0 * batch if one else batch, before], axis=1)
    distinct, order = np.unique(facts, axis=0, return_inverse=True)
    steps = tuple(_step(run, instance, record, row) for row in distinct)
    return Chain(steps, order.reshape(-1), period)


def _step(run: Run, instance: Instance, record: Gradient | None, facts: NDArray[np.float64]) -> Step:
    step_size, noise, divisor, size, used, which, before = facts.tolist()
    other, scale, own = instance.others[int(which)], step_size / divisor, record or ZERO
    shrunk = 1 - step_size * instance.l2
    parts: dict[tuple[float, float], float] = {}

    def add(weight: float, others: float, with_record: bool) -> None:
        mine = own if with_record else ZERO
        slope = shrunk - scale * (others * other.curvature + mine.curvature)
        key = slope, -scale * (others * other.offset + mine.offset)
        if weight > 0:
            parts[key] = parts.get(key, 0.0) + weight

    def taken() -> Mixture:
        found = tuple(Map(weight, *key) for key, weight in parts.items())
        parts.clear()
        return found

    deviation, rate = scale * noise * run.clip_norm, size / run.n
    match run.sampling:
        case Poisson():
            for count, weight in _others(run.n - 1, rate, trivial=other == ZERO):
                add((1 - rate) * weight, count, False)
                add(rate * weight, count, True)
        case FixedSize():
            add(1 - rate, size, False)
            add(rate, size - 1, True)
        case Cyclic() | OnePass():
            add(1.0, size - used, bool(used))
        case FullBatch():
            add(1.0, size - 1, True)
        case Shuffled() | RandomAllocation():
            add(1.0, size - 1, True)
            recorded = taken()
            add(1.0, size, False)
            return Step(deviation, taken(), recorded, size / (run.n - before))
        case _:
            raise TypeError(f"no law is known for {type(run.sampling).__name__}")
    return Step(deviation, taken())


def _others(n: int, rate: float, *, trivial: bool) -> list[tuple[float, float]]:
    """How many of n other records join a Poisson batch, with probabilities; one entry where it does not matter."""
    if trivial or n == 0:
        return [(0.0, 1.0)]
    room = 10 * math.sqrt(n * rate * (1 - rate)) + 42  # 10 deviations, and more where Poisson's tail is longer than Gauss's
    counts = np.arange(max(math.floor(n * rate - room), 0), min(math.ceil(n * rate + room), n) + 1)
    coefficient = gammaln(n + 1) - gammaln(counts + 1) - gammaln(n - counts + 1)
    weights = np.exp(coefficient + xlogy(counts, rate) + xlog1py(n - counts, -rate))
    kept = weights > _NEGLIGIBLE
    total = float(weights[kept].sum())
    return list(zip(counts[kept].astype(float).tolist(), (weights[kept] / total).tolist(), strict=True))
