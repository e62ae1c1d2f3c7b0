"""``train_one_pass`` on several processes: the batch of a step is the union of the next records of each.

Every process reads records of its own, in their public order, and gives the same number of them to every step, so which step uses
a record follows from public numbers, as with one process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

import jax
import numpy as np
from jax.sharding import PartitionSpec
from numpy.typing import ArrayLike, NDArray

from dplateau.losses import GeneralisedLinearLoss
from dplateau.spec import InputError, OnePass, Run
from dplateau.training.charged import Budgeted
from dplateau.training.checks import check_curvature, check_options, checked_l2, checked_start
from dplateau.training.chunks import in_arrays, noise_of, stretched
from dplateau.training.cluster import AXIS, Cluster, agree_on_code
from dplateau.training.errors import uninterrupted
from dplateau.training.loop import Arithmetic, Block, Chunk, State, arithmetic_of, run_shared_block
from dplateau.training.noise import SecureGenerator
from dplateau.training.records import Blocks, Records, Steps
from dplateau.training.result import TrainResult, result_of
from dplateau.training.shared import agree_on_settings, reserve_first

_APART: Final = PartitionSpec(AXIS)


class Prepared(NamedTuple):
    """What one process has checked by itself."""

    records: Records
    own: Run
    l2: NDArray[np.float64]
    first: NDArray[np.float64]
    arithmetic: Arithmetic
    generator: SecureGenerator


def own_part(run: Run, processes: int) -> Run:
    """The run on the records of one process: an equal share of all, and of every batch.

    Raises
    ------
    InputError
        Records are persons; or n, or a batch, cannot be divided by the number of processes.
    """
    if run.unit != "row":
        raise InputError("a record of the run is a person, whose rows might lie in several processes: train on one.")
    sizes = np.asarray(run.sampling.divisors(run.n))
    if run.n % processes or (sizes % processes).any():
        raise InputError(
            f"one pass on {processes} processes takes equal parts of all records and of every batch from each: n = {run.n:,} and"
            f" all batch sizes must be multiples of {processes}."
        )
    parts = (sizes / processes).astype(int)
    return run.replace(n=run.n // processes, sampling=OnePass(int(parts) if parts.ndim == 0 else tuple(parts.tolist())))


def train_one_pass_shared(
    run: Run,
    loss: GeneralisedLinearLoss,
    blocks: Blocks,
    *,
    cluster: Cluster,
    l2: float | Sequence[float] | NDArray[np.float64],
    generator: SecureGenerator | None,
    dtype: str,
    momentum: float,
    average: float,
    start: ArrayLike | None,
    keep_iterates: bool,
    progress: Callable[[int, int], None] | None,
    ledger: Budgeted | None,
) -> TrainResult:
    """As ``train_one_pass``, where every process of a cluster calls it with blocks of its own, and all get the same result."""

    def prepare() -> Prepared:
        if cluster.own > 1:
            raise InputError(f"there are {cluster.own} devices: one pass uses one device a process.")
        own = own_part(run, cluster.processes)
        check_options(run, dtype, momentum, average, keep_iterates)
        records = uninterrupted(partial(Records, blocks, own, loss))
        shape = loss.weights_shape(records.d)
        coefficients, first = checked_l2(l2, records.d), checked_start(run, start, shape)
        arithmetic = arithmetic_of(run, loss, coefficients, momentum, first)
        check_curvature(run, loss, run.clip_norm, 0.0, coefficients)
        source = (SecureGenerator() if generator is None else generator).for_process(cluster.index)
        return Prepared(records, own, coefficients, first, arithmetic, source)

    agree_on_code(cluster)
    found = cluster.together(prepare)
    settings = (dtype, momentum, average, keep_iterates, found.l2.tolist(), found.first.tolist(), str(found.records.dtype))
    agree_on_settings(cluster, run, loss, settings, found.records.d, found.generator)
    reserved = reserve_first(cluster, ledger, run)
    with cluster.watched():
        weights, iterates = uninterrupted(partial(_pass, cluster, run, loss, found, average, keep_iterates, progress))
    if reserved is not None:
        reserved.commit()
    found.arithmetic.check(weights)
    return result_of(run, loss, found.generator, weights, iterates, dtype, processes=cluster.processes)


def _chunks(cluster: Cluster, run: Run, found: Prepared, average: float) -> Iterator[tuple[int, NDArray[np.int32], Steps, Chunk]]:
    """Room for the own part of a batch, the sizes of the parts, and the chunk with the noise of the own slice."""
    shape, source = found.first.shape, found.generator
    steps = Steps(found.own, found.records, shape, found.arithmetic, average, source)
    begin = 0
    for capacity, counts, length in steps.parts():
        end = begin + len(counts)
        noise = noise_of(run, found.arithmetic, source, begin, end, cluster.slices.size(shape))
        yield capacity, counts, steps, in_arrays(run, average, begin, end, length, noise, None, stretched(counts, length))
        begin = end


def _pass(
    cluster: Cluster,
    run: Run,
    loss: GeneralisedLinearLoss,
    found: Prepared,
    average: float,
    keep: bool,
    progress: Callable[[int, int], None] | None,
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """The released weights, and all iterates where they are kept, after every record of every process was seen."""
    records, arithmetic = found.records, found.arithmetic
    constants: Any = jax.tree.map(cluster.put, arithmetic.constants)
    start = arithmetic.started(found.first)
    state: Any = jax.tree.map(cluster.put, State(start, np.zeros_like(found.first), start))
    longest, kept = cluster.put(np.zeros(())), [found.first[None]]
    how: Any = {"mesh": cluster.mesh, "loss": loss, "bits": arithmetic.bits, "keep": keep}

    def check(longest: Any) -> None:
        if not np.isfinite(largest := float(longest)):
            raise InputError(
                "some records have features that are not finite numbers: clean or clip them first. Nothing was released."
            )
        check_curvature(run, loss, arithmetic.bits.unclipped(run, records.d, float(arithmetic.constants.share)), largest, found.l2)

    def read(capacity: int, counts: NDArray[np.int32], chunk: Chunk, steps: Steps) -> Callable[[], tuple[int, Chunk, Block]]:
        """Read now, and say later what went wrong: other processes are told when none is at work."""
        try:
            taken = records.block(capacity, counts, chunk, steps)
        except Exception as error:
            failed = error
        else:
            return lambda: taken

        def fail() -> tuple[int, Chunk, Block]:
            raise failed

        return fail

    try:
        for capacity, counts, steps, chunk in _chunks(cluster, run, found, average):
            before = records.given
            taken = read(capacity, counts, chunk, steps)  # while the block before is worked on
            jax.block_until_ready(state)
            capacity, chunk, block = cluster.together(taken)
            check(longest)
            if progress is not None:
                progress(before * cluster.processes, run.n)
            assert block.ranges is None  # columns are for one process
            sizes = None if block.sizes is None else cluster.put(block.sizes[None], _APART)
            part = Block(cluster.put(block.features[None], _APART), cluster.put(block.target[None], _APART), sizes)
            places = {"noise": cluster.put(chunk.noise[None], _APART), "records": None, "steps": cluster.put(np.int64(chunk.steps))}
            rest = {name: cluster.put(one) for name, one in chunk._asdict().items() if name not in places}
            jax.block_until_ready(part)  # the copy is made: the caller may do with the arrays what it likes
            del taken, block
            state, longest, iterates = run_shared_block(
                state, longest, part, Chunk(**places, **rest), constants, capacity=capacity, **how
            )
            del part
            if iterates is not None:
                kept.append(np.asarray(iterates)[: len(counts)])
        jax.block_until_ready(state)
        check(longest)
        cluster.together(records.finish)
    except KeyboardInterrupt:
        with suppress(Exception):
            jax.block_until_ready(state)
        raise
    finally:
        records.close()
    weights = arithmetic.released(np.asarray(state.mean))
    if progress is not None:
        progress(run.n, run.n)
    return weights, np.concatenate(kept) if keep else None
