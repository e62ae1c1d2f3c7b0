"""Which records every step uses, a chunk of steps at a time.

A chunk is one flat list of records and the number of them that each step takes; nothing is padded or truncated here. The lists
are private (they name records), and so are their sizes where they are random: they go to the compiled loop and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count, pairwise, repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplateau.spec import Cyclic, FixedSize, FullBatch, InputError, OnePass, Poisson, RandomAllocation, Run, Shuffled
from dplateau.training.noise import SecureGenerator


class Batches(NamedTuple):
    """The batches of consecutive steps.

    ``records`` (int32, flat) lists them one batch after the other; step t takes the next ``counts[t]`` (int32).
    """

    records: NDArray[np.int32]
    counts: NDArray[np.int32]

    def among(self, first: int, stop: int) -> Batches:
        """The parts of the batches that are among records ``first`` to ``stop``, which are numbered from 0."""
        inside = (self.records >= first) & (self.records < stop)
        steps = np.repeat(np.arange(len(self.counts)), self.counts)[inside]
        return Batches(self.records[inside] - np.int32(first), np.bincount(steps, minlength=len(self.counts)).astype(np.int32))


def by_record(run: Run) -> bool:
    """Whether each record is drawn by itself: parts drawn from several generators are then together a batch."""
    return isinstance(run.sampling, FullBatch | Poisson | RandomAllocation)


def own_batches(
    run: Run, chunk: int, generator: SecureGenerator, key: bytes | None, first: int, own: int, start: int = 0
) -> Iterator[Batches]:
    """As ``batches``, but only the parts among so many ``own`` records, ``first`` being the number of the first of them.

    They are drawn from ``generator``, or, with a ``key``, taken from whole batches that all who have it draw alike.
    """
    if key is None:
        return batches(run, chunk, generator, start, own)
    whole = batches(run, chunk, SecureGenerator.of_key(key, insecure=generator.insecure), start)
    return (plan.among(first, first + own) for plan in whole)


def batches(run: Run, chunk: int, generator: SecureGenerator, start: int = 0, own: int | None = None) -> Iterator[Batches]:
    """The batches of a run, ``chunk`` steps at a time, drawn as they are asked for.

    They begin with step ``start``, which must begin an epoch where the sampling has epochs. With ``own``, only the batches' parts
    among so many of the n records are drawn, which are numbered from 0 (``by_record``).

    Raises
    ------
    InputError
        The sampling has no list of records (full batch), or n does not fit 32 bits.
    """
    if run.n >= 1 << 31:
        raise InputError(f"n is {run.n}: training in memory takes fewer than 2^31 records.")
    if own is not None and not by_record(run):
        raise InputError(f"{run.sampling.kind} batches are not drawn record by record: there are no parts to draw.")
    own = run.n if own is None else own
    sizes = (run.sampling.batch_sizes(run.n, begin, min(begin + chunk, run.steps)) for begin in range(start, run.steps, chunk))
    match run.sampling:
        case Poisson():
            return (_poisson(part, run.n, own, generator) for part in sizes)
        case FixedSize():
            return (_fixed_size(part, run.n, generator) for part in sizes)
        case RandomAllocation():
            return _allocated(map(len, sizes), own, run.sampling.epoch_length(run.n), generator)
        case Cyclic():
            return _consecutive(sizes, repeat(np.arange(run.n, dtype=np.int32)))
        case OnePass():
            return _consecutive(sizes, iter([np.arange(run.n, dtype=np.int32)]))
        case Shuffled():
            return _consecutive(sizes, (generator.permutation(run.n).astype(np.int32) for _ in count()))
        case FullBatch() | _:
            raise InputError("full-batch steps use every record: there are no batches to list.")


def _poisson(sizes: NDArray[np.float64], n: int, own: int, generator: SecureGenerator) -> Batches:
    """One coin for every own record and step, all of them one row of coins with the largest rate, thinned to each step's own: a
    record is drawn with that probability or less by rounding.
    """
    largest = float(sizes.max())
    heads = generator.bernoulli_positions(own * len(sizes), largest / n)
    steps = heads // own
    heads -= steps * own
    if sizes.min() < largest:
        kept = generator.uniform(heads.size) + 2.0**-53 <= sizes[steps] / largest * (1 - 2.0**-51)
        heads, steps = heads[kept], steps[kept]
    return Batches(heads.astype(np.int32), np.bincount(steps, minlength=len(sizes)).astype(np.int32))


def _fixed_size(sizes: NDArray[np.float64], n: int, generator: SecureGenerator) -> Batches:
    counts = sizes.astype(np.int32)
    edges = np.flatnonzero(np.diff(counts, prepend=-1, append=-1))
    parts = [generator.subsets(int(b - a), int(counts[a]), n).ravel() for a, b in pairwise(edges)]
    return Batches(np.concatenate(parts).astype(np.int32), counts)


def _allocated(steps: Iterable[int], n: int, length: int, generator: SecureGenerator) -> Iterator[Batches]:
    """Every record draws its batch of the epoch; batches list their records in ascending order."""
    epoch, used = _epoch(n, length, generator), 0
    for missing in steps:
        parts: list[Batches] = []
        while missing:
            if used == length:
                epoch, used = _epoch(n, length, generator), 0
            last = min(used + missing, length)
            begin, end = (int(epoch.counts[:step].sum()) for step in (used, last))
            parts.append(Batches(epoch.records[begin:end], epoch.counts[used:last]))
            missing, used = missing - (last - used), last
        yield Batches(*map(np.concatenate, zip(*parts, strict=True)))


def _epoch(n: int, length: int, generator: SecureGenerator) -> Batches:
    """The batches of one epoch."""
    batch = generator.integers(length, n)
    return Batches(np.argsort(batch, kind="stable").astype(np.int32), np.bincount(batch, minlength=length).astype(np.int32))


def _consecutive(sizes: Iterable[NDArray[np.float64]], orders: Iterator[NDArray[np.int32]]) -> Iterator[Batches]:
    """Batches cut one after the other from the records in the first order, then in the second, and so on."""
    order, used = next(orders), 0
    for part in sizes:
        counts, pieces = part.astype(np.int32), []
        missing = int(counts.sum())
        while missing:
            if used == len(order):
                order, used = next(orders), 0
            pieces.append(order[used : used + missing])
            used += len(pieces[-1])
            missing -= len(pieces[-1])
        yield Batches(np.concatenate(pieces), counts)
