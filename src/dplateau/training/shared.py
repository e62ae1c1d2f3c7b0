"""``train`` on the rows of several devices or processes, each of which draws its own part of every batch.

A step of a run whose records are drawn one by one is the same wherever they lie: each device sums its own records' integers, the
sums are added and scattered over slices of the weights, each device adds the noise of its own slice, and the noisy slices are
gathered (``docs/proofs/several-processes.md``).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise, repeat
from typing import Any, Final, NamedTuple

import jax
import numpy as np
from jax.sharding import PartitionSpec
from numpy.typing import ArrayLike, NDArray

from dplateau.losses import GeneralisedLinearLoss
from dplateau.spec import InputError, Run
from dplateau.spec.schedule import window
from dplateau.training.batches import Batches, batches
from dplateau.training.charged import Budgeted, Reserved
from dplateau.training.checks import check_curvature, check_options, checked_data, checked_l2, checked_start
from dplateau.training.chunks import chunk_length, in_arrays, noise_of, rounded_up, stretched
from dplateau.training.cluster import AXIS, Cluster, code_of
from dplateau.training.errors import uninterrupted
from dplateau.training.integers import block_of, encode
from dplateau.training.loop import SHARED, Arithmetic, Chunk, State, arithmetic_of, run_shared_chunk
from dplateau.training.noise import SecureGenerator
from dplateau.training.result import TrainResult, result_of

LOOKED_AT: Final = 4096
"""Rows by which processes that hold the same ones are told apart."""
_APART: Final = PartitionSpec(AXIS)


class Prepared(NamedTuple):
    """What one process has checked by itself."""

    rows: NDArray[Any]
    labels: NDArray[np.float64]
    l2: NDArray[np.float64]
    first: NDArray[np.float64]
    arithmetic: Arithmetic
    generator: SecureGenerator


def train_shared(
    run: Run,
    loss: GeneralisedLinearLoss,
    features: ArrayLike,
    target: ArrayLike,
    *,
    groups: ArrayLike | None,
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
    """As ``train``, where every process of a cluster calls it with rows of its own, and all get the same result."""

    def prepare() -> Prepared:
        check_shared(run)
        check_groups(groups)
        check_options(run, dtype, momentum, average, keep_iterates)
        rows, labels = checked_data(run, loss, features, target, part=True)
        if len(rows) < cluster.own:
            raise InputError(f"there are {len(rows)} rows for {cluster.own} devices: every device needs one at least.")
        shape = loss.weights_shape(rows.shape[1])
        coefficients, first = checked_l2(l2, rows.shape[1]), checked_start(run, start, shape)
        arithmetic = arithmetic_of(run, loss, coefficients, momentum, first)
        source = (SecureGenerator() if generator is None else generator).for_process(cluster.index)
        return Prepared(rows, labels, coefficients, first, arithmetic, source)

    agree_on_call(cluster, "train", run)
    check_ledger(cluster, ledger)
    found = cluster.together(prepare)
    # Machines that round otherwise may find another length.
    length = chunk_length(run, found.first.size)
    settings = (dtype, momentum, average, keep_iterates, found.l2.tolist(), found.first.tolist(), length)
    agree_on_settings(cluster, loss, settings, found.rows.shape[1], found.generator)
    check_apart(cluster, run, len(found.rows), (found.rows[:LOOKED_AT], found.labels))
    data = cluster.together(partial(_encoded, cluster, run, loss, found))
    reserved = reserve_first(cluster, ledger, run)
    work = partial(_run_chunks, cluster, run, loss, data, found, average, keep_iterates, progress)
    with cluster.watched():
        weights, iterates = uninterrupted(work)
    if reserved is not None:
        reserved.commit()
    found.arithmetic.check(weights)
    return result_of(run, loss, found.generator, weights, iterates, dtype, processes=cluster.processes)


def agree_on_call(cluster: Cluster, call: str, run: Run) -> None:
    """Raise ``InputError`` in every process unless all begin the same, with the same code: the first thing that they exchange."""
    cluster.agree({**code_of(), "call": call, "run": run.digest})


def check_ledger(cluster: Cluster, ledger: object) -> None:
    """Raise ``InputError`` in every process where one has a ledger and process 0, which alone charges it, has none."""
    given = cluster.exchanged(np.array(ledger is not None))
    if given.any() and not given[0]:
        raise InputError(
            f"process {int(given.argmax())} has a ledger and process 0, which charges it, has none: give it to process 0."
        )


def agree_on_settings(
    cluster: Cluster, loss: GeneralisedLinearLoss, settings: tuple[Any, ...], d: int, generator: SecureGenerator
) -> None:
    """Raise ``InputError`` in every process unless all do the same, and each draws from a key of its own."""
    # Where the noise of one process comes from counts for all.
    said = repr((*settings, str(generator.source)))
    cluster.agree({"loss": repr(loss), "setting": said, "number of features": str(d)})
    unlike(cluster, "generator", generator.mark())


def unlike(cluster: Cluster, what: str, digest: bytes) -> None:
    """Raise ``InputError`` in every process if two have the same digest."""
    seen = [one.tobytes() for one in cluster.exchanged(np.frombuffer(digest, np.uint8))]
    if len(set(seen)) < len(seen):
        raise InputError(f"two processes have the same {what}: give each process its own. Nothing was drawn.")


def reserve_first(cluster: Cluster, ledger: Budgeted | None, run: Run) -> Reserved | None:
    """What process 0 takes out of its budget; an error in every process where it is refused."""
    return cluster.together(lambda: ledger.reserve(run) if cluster.first and ledger is not None else None)


def check_shared(run: Run) -> None:
    """Raise ``InputError`` unless a run's records can lie in several places."""
    if run.unit != "row":
        raise InputError("a record of the run is a person, whose rows might lie in several processes: train on one.")
    if run.sampling.kind not in ("full", "poisson", "random-allocation"):
        raise InputError(
            f"the run's sampling is {run.sampling.kind}: on several processes or devices batches are full, Poisson, or drawn by"
            " random allocation, where each record is drawn by itself."
        )


def check_groups(groups: object) -> None:
    """Raise ``InputError`` where records are to be persons."""
    if groups is not None:
        raise InputError("groups are given, and whose rows lie in which process is not checked: train persons on one process.")


def check_apart(cluster: Cluster, run: Run, own: int, sight: Sequence[NDArray[Any]]) -> None:
    """Raise ``InputError`` in every process unless there are ``run.n`` rows, and each process has ``own`` of its own.

    By ``sight``, arrays of some of them, processes that hold the same ones are told apart.
    """
    held_by_all(cluster, run, own)
    unlike(cluster, "rows", hashlib.sha256(b"".join(np.ascontiguousarray(one).tobytes() for one in sight)).digest())


def held_by_all(cluster: Cluster, run: Run, own: int) -> NDArray[np.int64]:
    """How many rows each process has; raises ``InputError`` in every process unless they are ``run.n``."""
    counts = cluster.exchanged(np.array(own, np.int64))
    if counts.sum() != run.n:
        held = ", ".join(f"{count:,}" for count in counts.tolist())
        raise InputError(
            f"the processes have {held} rows, {counts.sum():,} in all, but the run has n = {run.n:,}: the run must describe this"
            " data set."
        )
    return counts


def _encoded(
    cluster: Cluster, run: Run, loss: GeneralisedLinearLoss, found: Prepared
) -> tuple[tuple[NDArray[np.int32], ...], list[int]]:
    """The own rows by devices, each with room for those of the device with most, and how many each device has."""
    arithmetic, share, d = found.arithmetic, float(found.arithmetic.constants.share), found.rows.shape[1]
    edges = np.linspace(0, len(found.rows), cluster.own + 1).astype(int)
    own = np.diff(edges).tolist()
    (room,) = cluster.most(max(own))
    block = block_of(d, loss.outputs)
    if run.is_full_batch and room > block:
        room = -(-room // block) * block
    parts, norms = zip(
        *(
            encode(found.rows[a:b], found.labels[a:b], arithmetic.bits, share, room, together=not run.is_full_batch)
            for a, b in pairwise(edges)
        ),
        strict=True,
    )
    longest = max(float(one.max()) for one in norms)
    check_curvature(run, loss, arithmetic.bits.unclipped(run, d, share), longest, found.l2)
    return tuple(part[0][None] if len(part) == 1 else np.stack(part) for part in zip(*parts, strict=True)), own


class Drawn(NamedTuple):
    """The own parts of a chunk: of each own device its batches, none where all records are used, and its noise (steps, slice)."""

    begin: int
    end: int
    plans: list[Batches | None]
    noise: list[NDArray[np.float64]]

    def rooms(self) -> tuple[int, int]:
        """Records of the largest batch's part, and of all of a device's."""
        plans = [plan for plan in self.plans if plan is not None]
        return max((int(plan.counts.max()) for plan in plans), default=0), max((len(plan.records) for plan in plans), default=0)


def drawn(
    cluster: Cluster, run: Run, shape: tuple[int, ...], arithmetic: Arithmetic, own: list[int], generator: SecureGenerator
) -> Iterator[Drawn]:
    """The own parts of all chunks, drawn as they are asked for: batches among the own records, noise for the own slices."""
    length, width = chunk_length(run, math.prod(shape)), cluster.slices.size(shape)
    plans = [repeat(None) if run.is_full_batch else batches(run, length, generator, own=count) for count in own]
    for begin in range(0, run.steps, length):
        end = min(begin + length, run.steps)
        noise = [noise_of(run, arithmetic, generator, begin, end, width) for _ in own]
        yield Drawn(begin, end, [next(plan) for plan in plans], noise)


def in_global_arrays(
    cluster: Cluster, run: Run, shape: tuple[int, ...], average: float, part: Drawn, held: int
) -> tuple[int, Chunk]:
    """A chunk of all processes with the room that a batch's part needs; ``held``, the most records of any device.

    Rooms follow from the largest parts: each process tells the others how large its own are.
    """
    begin, end, length = part.begin, part.end, chunk_length(run, math.prod(shape))
    capacity, arrays = 0, [in_arrays(run, average, begin, end, length, noise, None, None) for noise in part.noise]
    if not run.is_full_batch:
        size = held / run.n * float(window(run.sampling.divisors(run.n), begin, end).max())
        likely = [math.ceil(run.sampling.largest_likely(size * steps)) for steps in (1, length)]
        capacity, total = map(rounded_up, cluster.most(*map(max, zip(likely, part.rooms(), strict=True))))
        for place, plan in enumerate(part.plans):
            assert plan is not None
            counts = stretched(plan.counts, length)
            starts = np.cumsum(counts, dtype=np.int32) - counts
            arrays[place] = arrays[place]._replace(records=stretched(plan.records, total + capacity), starts=starts, counts=counts)
    stacked = {name: np.stack([getattr(one, name) for one in arrays]) for name in SHARED if getattr(arrays[0], name) is not None}
    values = arrays[0]._asdict() | stacked | {"steps": np.int64(end - begin)}
    return capacity, Chunk(
        **{
            name: None if value is None else cluster.put(value, _APART if name in SHARED else None)
            for name, value in values.items()
        }
    )


def _run_chunks(
    cluster: Cluster,
    run: Run,
    loss: GeneralisedLinearLoss,
    data: tuple[tuple[NDArray[np.int32], ...], list[int]],
    found: Prepared,
    average: float,
    keep: bool,
    progress: Callable[[int, int], None] | None,
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """The released weights, and all iterates where they are kept."""
    arithmetic, shape = found.arithmetic, found.first.shape
    (held,) = cluster.most(max(data[1]))
    records = tuple(cluster.put(part, _APART) for part in data[0])
    constants: Any = jax.tree.map(cluster.put, arithmetic.constants)
    start = arithmetic.started(found.first)
    state: Any = jax.tree.map(cluster.put, State(start, np.zeros_like(found.first), start))
    how: Any = {"mesh": cluster.mesh, "loss": loss, "bits": arithmetic.bits, "keep": keep}
    kept = [found.first[None]]
    try:
        for part in drawn(cluster, run, shape, arithmetic, data[1], found.generator):  # while the chunk before it runs
            jax.block_until_ready(state)  # nothing is exchanged while a chunk exchanges its sums
            if progress is not None:
                progress(part.begin, run.steps)
            capacity, chunk = in_global_arrays(cluster, run, shape, average, part, held)
            state, iterates = run_shared_chunk(state, records, chunk, constants, capacity=capacity, **how)
            if iterates is not None:
                kept.append(np.asarray(iterates)[: part.end - part.begin])
    except KeyboardInterrupt:
        with suppress(Exception):  # the process must not end while the loop is at work, which ends when another process does
            jax.block_until_ready(state)
        raise
    weights = arithmetic.released(np.asarray(state.mean))
    if progress is not None:
        progress(run.steps, run.steps)
    return weights, np.concatenate(kept) if keep else None
