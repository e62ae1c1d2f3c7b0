"""``train_one_pass`` and ``train_stream`` on several processes: the batch of a step is the union of the records that each gives.

Every process reads records of its own. In one pass it gives the next ones, in their public order. How many they are follows from
public numbers (``shares``), so which step uses a record does, too, as with one process. By random allocation it gives those that
drew the step.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from dplateau.losses import GeneralisedLinearLoss
from dplateau.spec import InputError, Run
from dplateau.spec.arguments import integer
from dplateau.training.checks import check_curvature
from dplateau.training.chunks import chunk_length, stretched
from dplateau.training.cluster import APART, Cluster
from dplateau.training.errors import uninterrupted
from dplateau.training.loop import Block, Chunk, How, run_shared_block
from dplateau.training.options import Begun, Options
from dplateau.training.records import Part, Records, Steps
from dplateau.training.result import TrainResult, result_of
from dplateau.training.shared import (
    agree_on_call,
    agree_on_settings,
    charged_together,
    check_ledger,
    check_persons_apart,
    held_by_all,
    of_devices,
    unlike,
)


def in_passes_shared(
    run: Run,
    loss: GeneralisedLinearLoss,
    opened: Callable[..., Records],
    kind: type[Steps],
    cluster: Cluster,
    own: int | Callable[[], int] | None,
    options: Options,
) -> TrainResult:
    """As ``in_passes``, where every process of a cluster reads records of its own, and all get the same result.

    ``opened(own=...)`` begins to read them.
    """

    def counted() -> int:
        if cluster.own > 1:
            raise InputError(f"there are {cluster.own} devices: records that are read in pieces use one device a process.")
        if callable(own):
            return own()
        if own is None and run.n % cluster.processes:
            many = f"n = {run.n:,} is not a multiple of {cluster.processes} processes"
            raise InputError(f"{many}: say how many {run.unit}s each has (own).")
        return integer("own", run.n // cluster.processes if own is None else own, low=0)

    def prepare() -> tuple[Records, Begun]:
        options.check(run, loss)
        records = uninterrupted(partial(opened, own=Part(mine, key)))
        begun = options.begun(run, loss, records.d, cluster.index)
        check_curvature(run, loss, run.clip_norm, 0.0, begun.l2)
        return records, begun

    agree_on_call(cluster, run.sampling.kind, run)
    check_ledger(cluster, options.ledger)
    mine = cluster.together(counted)
    held, key = held_by_all(cluster, run, mine), cluster.told(secrets.token_bytes(16))
    records, begun = cluster.together(prepare)
    lengths = chunk_length(run, begun.first.size)  # machines that round otherwise may find another
    settings = (*options.agreed(begun), str(records.dtype), lengths, getattr(records, "rows", None))
    agree_on_settings(cluster, loss, settings, records.d, begun.generator)
    unlike(cluster, "rows", records.sight or cluster.index.to_bytes(32, "big"))
    if records.names is not None:
        check_persons_apart(cluster, records.names)
    steps = kind(run, records, begun, options.average, cluster, held)
    with charged_together(cluster, options.ledger, run), cluster.watched():
        mean, iterates = uninterrupted(partial(_pass, cluster, loss, steps, begun, options))
    return result_of(run, loss, begun, options, mean, iterates, processes=cluster.processes)


def _of_one_size(cluster: Cluster, capacity: int, block: Block) -> tuple[int, Block]:
    """Room for a batch of persons, and the block, as the process needs them that has most rows: all compute with equal shapes."""
    most, rows = cluster.most(capacity, len(block.target) - capacity)
    return most, jax.tree.map(lambda one: stretched(one, rows + most), block)


def _pass(
    cluster: Cluster, loss: GeneralisedLinearLoss, steps: Steps, begun: Begun, options: Options
) -> tuple[NDArray[Any], list[NDArray[Any]]]:
    """The mean iterate, and all iterates where they are kept, after every record of every process was seen."""
    arithmetic, progress = begun.arithmetic, options.progress
    run, records = steps.run, steps.records
    constants: Any = jax.tree.map(cluster.put, arithmetic.constants)
    state: Any = jax.tree.map(cluster.put, begun.state)
    longest, kept, told = cluster.put(np.zeros(())), [begun.first[None]], -1
    steps.idle = lambda: jax.block_until_ready(state)
    how: Any = {"mesh": cluster.mesh, "how": How(loss, arithmetic.bits, options.keep)}

    def read(capacity: int, counts: NDArray[np.int32], chunk: Chunk) -> Callable[[], tuple[int, Chunk, Block]]:
        """Read now, and say later what went wrong: other processes are told when none is at work."""
        found: Future[tuple[int, Chunk, Block]] = Future()
        try:
            found.set_result(records.block(capacity, counts, chunk, steps))
        except Exception as error:
            found.set_exception(error)
        return found.result

    try:
        for capacity, counts, chunk in steps.chunks():
            taken = read(capacity, counts, chunk)  # while the block before is worked on
            jax.block_until_ready(state)
            capacity, chunk, block = cluster.together(taken)
            begun.check_rows(run, loss, float(longest), "some records")
            if progress is not None and steps.begun > told:
                progress(told := steps.begun, steps.total)
            if block.sizes is not None:
                capacity, block = _of_one_size(cluster, capacity, block)
            part: Block = jax.tree.map(lambda one: cluster.put(one[None], APART), block)
            jax.block_until_ready(part)  # the copy is made: the caller may do with the arrays what it likes
            del taken, block
            shared = of_devices(cluster, [chunk])
            state, longest, iterates = run_shared_block(state, longest, part, shared, constants, capacity=capacity, **how)
            del part
            if iterates is not None:
                kept.append(np.asarray(iterates)[: len(counts)])
        jax.block_until_ready(state)
        begun.check_rows(run, loss, float(longest), "some records")
        cluster.together(records.finish)
        if run.sampling.once and records.names is not None:
            check_persons_apart(cluster, records.names)
    except KeyboardInterrupt:
        with suppress(Exception):
            jax.block_until_ready(state)
        raise
    finally:
        records.close()
    mean = np.asarray(state.mean)
    if progress is not None:
        progress(steps.total, steps.total)
    return mean, kept
