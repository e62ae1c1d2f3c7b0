"""What the compiled loop is fed with: batches, noise and schedules of a chunk of steps, in arrays of few different sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import repeat
from typing import Any, Final, TypeVar

import jax
import numpy as np
from numpy.typing import NDArray

from dplateau.spec import Run, Sampling
from dplateau.spec.schedule import largest, window
from dplateau.training.batches import Batches, batches
from dplateau.training.exact_products import accelerated
from dplateau.training.loop import Arithmetic, Chunk, State
from dplateau.training.noise import SecureGenerator
from dplateau.training.options import Begun, Options
from dplateau.training.persons import Persons

P = TypeVar("P")

# A chunk is at most this many steps, numbers in memory and multiplications between two looks at the keyboard: of processors, and
# of an accelerator.
_STEPS: Final = 1024
_NUMBERS: Final = 1 << 22
_PRODUCTS: Final = 1 << 30
_ACCELERATED: Final = 1 << 36
_FINEST: Final = 2.0**32
"""Noise of more units than this has digits that a normal number in double precision lacks: its law would show them."""


def chunks(run: Run, begun: Begun, average: float, persons: Persons | None = None) -> Iterator[tuple[int, Chunk]]:
    """The chunks of a run, drawn as they are asked for, each with the room that a batch of it needs."""
    each = 1.0 if persons is None else persons.mean
    length = chunk_length(run, begun.first.size, each)
    plans = repeat(None) if run.is_full_batch else batches(run, length, begun.generator)
    for begin, plan in zip(range(0, run.steps, length), plans, strict=False):
        chunk = drawn_chunk(run, begun, average, begin, min(begin + length, run.steps), length, begun.first.shape)
        if plan is None:
            yield 0, chunk
            continue
        plan = plan if persons is None else persons.rows_of(plan)
        capacity, records, counts = _with_room(plan, run.sampling, float(chunk.divisor.max()), length, each)
        yield capacity, with_batches(chunk, records, counts)


def in_chunks(
    run: Run,
    begun: Begun,
    options: Options,
    state: State,
    parts: Iterator[P],
    run_part: Callable[[State, P], tuple[State, Any, int]],
) -> tuple[NDArray[Any], list[NDArray[Any]]]:
    """The mean iterate, and all iterates where they are kept, after all ``parts`` of a run.

    ``run_part`` has the state after a part, its iterates and how many steps it has. It begins a part and does not wait for its end:
    the next part is drawn meanwhile. Nothing else is done while one is at work: devices exchange their sums.
    """
    done, kept, progress = 0, [begun.first[None]], options.progress
    told, public = 0, chunk_length(run, begun.first.size)  # the length of a chunk of persons depends on how many rows they have
    try:
        for part in parts:
            jax.block_until_ready(state)
            if progress is not None and done >= told:
                progress(told, run.steps)
                told += public
            state, iterates, steps = run_part(state, part)
            done += steps
            if iterates is not None:
                kept.append(np.asarray(iterates)[:steps])
    finally:
        with suppress(Exception):  # an interrupted process must not end while the loop is at work; what failed there is told below
            jax.block_until_ready(state)
    mean = np.asarray(state.mean)
    if progress is not None:
        progress(done, run.steps)
    return mean, kept


def chunk_length(run: Run, weights: int, each: float = 1.0, numbers: int = _NUMBERS) -> int:
    """Steps of a chunk: as many as fit the memory and the patience that a chunk may take, with ``each`` rows a record."""
    products = _ACCELERATED if accelerated() else _PRODUCTS
    likely = math.ceil(each * run.sampling.largest_likely(largest(run.sampling.divisors(run.n))))
    return max(1, min(_STEPS, numbers // (weights + likely), products // (weights * likely), 1 << (run.steps - 1).bit_length()))


def noise_of(
    run: Run, arithmetic: Arithmetic, generator: SecureGenerator, begin: int, end: int, shape: tuple[int, ...]
) -> NDArray[np.float64]:
    """The noise of weights of this shape in steps ``begin`` to ``end``, in whole units, of shape (end - begin, *shape)."""
    scale = _deviations(run, arithmetic, begin, end)[:, None]
    noise = generator.normal((end - begin, math.prod(shape)))
    # The digits that it lacks do not show where the noise of the last step comes after it, and has all of its own.
    if (scale <= _FINEST).all() or _deviations(run, arithmetic, run.steps - 1, run.steps) <= _FINEST:
        noise *= scale
    else:
        noise *= np.sqrt(np.maximum(scale**2 - _FINEST**2, 0))
        rest = noise - np.rint(noise)
        rest += np.minimum(scale, _FINEST) * generator.normal(noise.shape)
        noise = np.rint(noise) + np.rint(rest)
    return np.rint(noise, out=noise).reshape(-1, *shape)


def _deviations(run: Run, arithmetic: Arithmetic, begin: int, end: int) -> NDArray[np.float64]:
    """Standard deviations of the noise of steps ``begin`` to ``end``, in whole units."""
    noise, scale = window(run.noise_multiplier, begin, end), run.clip_norm / arithmetic.constants.unit
    if not arithmetic.bits.trailing:
        return noise * scale
    step_size, divisor = window(run.step_size, begin, end), window(run.sampling.divisors(run.n), begin, end)  # type: ignore[arg-type]
    return step_size * noise / divisor * scale


def drawn_chunk(run: Run, begun: Begun, average: float, begin: int, end: int, length: int, shape: tuple[int, ...]) -> Chunk:
    """Steps ``begin`` to ``end`` with noise for weights of ``shape``, in arrays of ``length`` entries; without batches."""
    noise = noise_of(run, begun.arithmetic, begun.generator, begin, end, shape)
    averaged_from = run.steps - math.ceil(average * run.steps)
    step_size, divisor = window(run.step_size, begin, end), window(run.sampling.divisors(run.n), begin, end)  # type: ignore[arg-type]
    return Chunk(
        steps=end - begin,
        records=None,
        starts=None,
        counts=None,
        noise=stretched(noise, length),
        divisor=stretched(divisor, length),
        step_size=stretched(step_size, length),
        weight=stretched((1 / np.maximum(1, np.arange(begin, end) - averaged_from + 1)), length),
    )


def with_batches(chunk: Chunk, records: NDArray[np.int32] | None, counts: NDArray[np.int32]) -> Chunk:
    """A chunk with the list of its batches, which follow one another, and their sizes."""
    return chunk._replace(records=records, starts=np.cumsum(counts, dtype=np.int32) - counts, counts=counts)


def _with_room(
    plan: Batches, sampling: Sampling, largest: float, length: int, each: float
) -> tuple[int, NDArray[np.int32], NDArray[np.int32]]:
    """Room for one batch, and the chunk's records and counts stretched to public sizes.

    Where a rare batch is larger than its public room, the room grows: nothing is ever cut off. The list ends with room for one
    more batch, because the loop reads that far.
    """
    capacity = rounded_up(max(math.ceil(each * sampling.largest_likely(largest)), int(plan.counts.max())))
    total = rounded_up(max(math.ceil(each * sampling.largest_likely(largest * length)), len(plan.records)))
    return capacity, stretched(plan.records, total + capacity), stretched(plan.counts, length)


def rounded_up(size: int) -> int:
    """The next of at most sixteen sizes per power of two, so that few different loops are compiled."""
    step = max(16, 1 << max(0, size.bit_length() - 5))
    return -(-size // step) * step


def read_through(rows: int, capacity: int, size: int) -> int:
    """Rows of a block of ``rows`` from which a loop reads ``capacity`` for every batch, the last one too, ``size`` at a time."""
    return rounded_up(rows) + capacity + min(size, capacity)


def stretched(values: NDArray[Any], length: int) -> NDArray[Any]:
    """``values`` with zeros appended up to ``length`` entries."""
    if len(values) == length:
        return values
    longer = np.zeros((length, *values.shape[1:]), values.dtype)
    longer[: len(values)] = values
    return longer
