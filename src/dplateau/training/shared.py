"""``train`` on the records of several devices or processes, each of which sums its own part of every batch.

Where records are drawn one by one, each draws its own part; else all draw the same batches, from a key of process 0. Each device
sums its own records' integers, the sums are added and scattered over slices of the weights, each device adds the noise of its own
slice, and the noisy slices are gathered (``docs/proofs/several-processes.md``).
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import pairwise
from typing import Any, Final, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from dplateau.losses import GeneralisedLinearLoss
from dplateau.spec import InputError, Run, Runs
from dplateau.spec.arguments import of_type
from dplateau.training.batches import Batches, by_record, own_batches
from dplateau.training.charged import Budgeted, charged
from dplateau.training.checks import checked_data
from dplateau.training.chunks import chunk_length, drawn_chunk, in_chunks, rounded_up, stretched, with_batches
from dplateau.training.cluster import APART, Cluster, code_of
from dplateau.training.errors import uninterrupted
from dplateau.training.integers import block_of, encode, room_of
from dplateau.training.loop import SHARED, Chunk, How, State, run_shared_chunk
from dplateau.training.noise import SecureGenerator
from dplateau.training.options import Begun, Options
from dplateau.training.persons import Names, Persons, checked_groups, names_of, persons_of, twice
from dplateau.training.result import TrainResult, result_of

LOOKED_AT: Final = 4096
"""Rows by which processes that hold the same ones are told apart."""


class Prepared(NamedTuple):
    """What one process has checked by itself; the rows of a person stand next to one another."""

    rows: NDArray[Any]
    labels: NDArray[np.float64]
    persons: Persons | None
    groups: NDArray[Any] | None
    begun: Begun

    @property
    def records(self) -> int:
        """How many records this process has."""
        return len(self.rows) if self.persons is None else self.persons.n


class Held(NamedTuple):
    """What an own device holds: so many records, from number ``first`` of all on, whose rows theirs are if they are persons, and
    where these stand.
    """

    first: int
    records: int
    persons: Persons | None
    rows: slice


def train_shared(
    run: Run,
    loss: GeneralisedLinearLoss,
    features: ArrayLike,
    target: ArrayLike,
    groups: ArrayLike | None,
    cluster: Cluster,
    options: Options,
) -> TrainResult:
    """As ``train``, where every process of a cluster calls it with records of its own, and all get the same result."""

    def prepare() -> Prepared:
        options.check(run, loss)
        rows, labels = checked_data(run, loss, features, target, part=True)
        persons, whose = persons_of(run, groups, len(rows), part=True), None
        if persons is not None and groups is not None:
            rows, labels = rows[persons.order], labels[persons.order]
            whose = checked_groups(groups, len(rows))[persons.order[persons.starts[:-1]]]
        found = Prepared(rows, labels, persons, whose, options.begun(run, loss, rows.shape[1], cluster.index))
        if found.records < cluster.own:
            raise InputError(f"there are {found.records} {run.unit}s for {cluster.own} devices: every device needs one at least.")
        return found

    agree_on_call(cluster, "train", run)
    check_ledger(cluster, options.ledger)
    found = cluster.together(prepare)
    begun, each = found.begun, int(cluster.exchanged(np.array(len(found.rows))).sum()) / run.n
    length = chunk_length(run, begun.first.size, each)  # machines that round otherwise may find another
    agree_on_settings(cluster, loss, (*options.agreed(begun), length), found.rows.shape[1], begun.generator)
    check_apart(cluster, run, found.records, (found.rows[:LOOKED_AT], found.labels))
    if (labels := found.groups) is not None:
        compare_labels(cluster, lambda key: names_of(labels, key))
    data = cluster.together(partial(_encoded, cluster, run, loss, found, cluster.before(found.records)))
    with charged_together(cluster, options.ledger, run), cluster.watched():
        mean, iterates = uninterrupted(partial(_run_chunks, cluster, run, loss, data, begun, length, each, options))
    return result_of(run, loss, begun, options, mean, iterates, processes=cluster.processes)


def agree_on_call(cluster: Cluster, call: str, run: Run | Runs) -> None:
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


@contextmanager
def charged_together(cluster: Cluster, ledger: Budgeted | None, run: Run | Runs) -> Iterator[None]:
    """As ``charged``, out of the budget of process 0; an error in every process where it is refused."""
    with ExitStack() as stack:
        cluster.together(lambda: stack.enter_context(charged(ledger if cluster.first else None, run)))
        yield


def of_several(cluster: Cluster | None) -> Cluster | None:
    """The cluster, where it has several devices."""
    return None if cluster is None or of_type("cluster", cluster, Cluster).mesh.size < 2 else cluster


def of_all(cluster: Cluster | None, own: Callable[[], NDArray[Any]]) -> NDArray[Any]:
    """The sum of what each process finds of its own records; an error in one of them is raised in all."""
    return own() if cluster is None else cluster.exchanged(cluster.together(own)).sum(axis=0)


def drawn_once(cluster: Cluster | None, draw: Callable[[], ArrayLike]) -> NDArray[np.float64]:
    """The numbers that process 0 alone draws, one after the other, in every process."""

    def numbers() -> NDArray[np.float64]:
        return np.asarray(draw(), dtype=np.float64).reshape(-1)

    return numbers() if cluster is None else np.frombuffer(cluster.of_first(lambda: numbers().tobytes()))


def check_apart(cluster: Cluster, run: Run, own: int, sight: Sequence[NDArray[Any]]) -> None:
    """Raise ``InputError`` in every process unless there are ``run.n`` records, and each process has ``own`` of its own.

    By ``sight``, arrays of some of them, processes that hold the same ones are told apart.
    """
    held_by_all(cluster, run, own)
    unlike(cluster, "rows", hashlib.sha256(b"".join(np.ascontiguousarray(one).tobytes() for one in sight)).digest())


def common_key(cluster: Cluster, run: Run, generator: SecureGenerator) -> bytes | None:
    """What whole batches are drawn from, alike in all processes; None where each record is drawn by itself."""
    return None if by_record(run) else cluster.of_first(lambda: generator.key().tobytes())


def compare_labels(cluster: Cluster, named: Callable[[bytes], Names]) -> None:
    """``check_persons_apart`` for the names that ``named`` makes of the own persons' labels with a key that all have."""
    key = cluster.told(secrets.token_bytes(16))
    check_persons_apart(cluster, cluster.together(lambda: named(key)))


def check_persons_apart(cluster: Cluster, names: Names) -> None:
    """Raise ``InputError`` in every process unless each person is in one of them: ``names`` are those of the own persons, once."""
    cluster.agree({"type of groups": str(names.text)})
    counts = cluster.exchanged(np.array(len(names.numbers)))
    own = np.zeros(counts.max(), np.int64)
    own[: len(names.numbers)] = names.numbers
    everyone = np.concatenate([one[:count] for one, count in zip(cluster.exchanged(own), counts, strict=True)])
    if twice(everyone):
        raise InputError("some person has rows in two processes: give all rows of a person to one. Nothing was released.")


def held_by_all(cluster: Cluster, run: Run, own: int) -> NDArray[np.int64]:
    """How many records each process has; raises ``InputError`` in every process unless they are ``run.n``."""
    counts = cluster.exchanged(np.array(own, np.int64))
    if counts.sum() != run.n:
        held = ", ".join(f"{count:,}" for count in counts.tolist())
        raise InputError(
            f"the processes have {held} {run.unit}s, {counts.sum():,} in all, but the run has n = {run.n:,}: the run must describe"
            " this data set."
        )
    return counts


def _encoded(
    cluster: Cluster, run: Run, loss: GeneralisedLinearLoss, found: Prepared, first: int
) -> tuple[tuple[NDArray[np.int32], ...], list[Held]]:
    """The own rows by devices, each with room for those of the device with most, and what each device has."""
    arithmetic, d = found.begun.arithmetic, found.rows.shape[1]
    share = float(arithmetic.constants.share)
    own = list(_divided(found, cluster.own, first))
    (room,) = cluster.most(max(one.rows.stop - one.rows.start for one in own))
    if run.is_full_batch:
        room = room_of(room, block_of(d, loss.outputs))

    def whole(here: slice, persons: Persons | None) -> tuple[tuple[NDArray[np.int32], ...], NDArray[np.float64]]:
        together, sizes = not run.is_full_batch, None if persons is None else persons.sizes()
        return encode(found.rows[here], found.labels[here], arithmetic.bits, share, room, together=together, sizes=sizes)

    parts, norms = zip(*(whole(one.rows, one.persons) for one in own), strict=True)
    longest = max(float(one.max()) for one in norms)
    found.begun.check_rows(run, loss, longest, "some records")
    return tuple(part[0][None] if len(part) == 1 else np.stack(part) for part in zip(*parts, strict=True)), own


def _divided(found: Prepared, devices: int, first: int) -> Iterator[Held]:
    """The own records, which are number ``first`` of all and those after it, in as many parts of about the same size."""
    persons = found.persons
    for a, b in pairwise(np.linspace(0, found.records, devices + 1).astype(int).tolist()):
        rows = slice(a, b) if persons is None else slice(int(persons.starts[a]), int(persons.starts[b]))
        yield Held(first + a, b - a, persons and persons.among(a, b), rows)


Drawn = tuple[list[Chunk], list[Batches]]
"""The own parts of a chunk: of each own device its steps with the noise of its slice, and its batches, unless all are used."""


def drawn(run: Run, begun: Begun, average: float, length: int, width: int, own: list[Held], key: bytes | None) -> Iterator[Drawn]:
    """The own parts of all chunks of ``length`` steps, drawn as they are asked for: batches among the own records, and noise for
    the own slices of ``width`` weights.
    """
    plans = [] if run.is_full_batch else [_plans(run, length, one, begun.generator, key) for one in own]
    for begin in range(0, run.steps, length):
        end = min(begin + length, run.steps)
        yield [drawn_chunk(run, begun, average, begin, end, length, (width,)) for _ in own], [next(plan) for plan in plans]


def _plans(run: Run, length: int, own: Held, generator: SecureGenerator, key: bytes | None) -> Iterator[Batches]:
    """The rows of the batches of a device, drawn among its records."""
    plans = own_batches(run, length, generator, key, own.first, own.records)
    return plans if own.persons is None else map(own.persons.rows_of, plans)


def in_global_arrays(cluster: Cluster, run: Run, part: Drawn, held: float) -> tuple[int, Chunk]:
    """A chunk of all processes with the room that a batch's part needs; ``held``, the most rows of any device, about.

    Rooms follow from the largest parts: each process tells the others how large its own are.
    """
    chunks, plans = part
    if not plans:
        return 0, of_devices(cluster, chunks)
    length, size = len(chunks[0].noise), held / run.n * float(chunks[0].divisor.max())
    likely = [math.ceil(run.sampling.largest_likely(size * steps)) for steps in (1, length)]
    needed = [max(int(plan.counts.max()) for plan in plans), max(len(plan.records) for plan in plans)]
    capacity, total = map(rounded_up, cluster.most(*map(max, zip(likely, needed, strict=True))))
    batched = [
        with_batches(chunk, stretched(plan.records, total + capacity), stretched(plan.counts, length))
        for chunk, plan in zip(chunks, plans, strict=True)
    ]
    return capacity, of_devices(cluster, batched)


def of_devices(cluster: Cluster, chunks: list[Chunk]) -> Chunk:
    """The chunk of all devices, from those of the own devices."""

    def put(name: str, parts: tuple[Any, ...]) -> Any:
        if parts[0] is None:
            return None
        return cluster.put(np.stack(parts), APART) if name in SHARED else cluster.put(parts[0])

    return Chunk(*map(put, Chunk._fields, zip(*chunks, strict=True)))


def _run_chunks(
    cluster: Cluster,
    run: Run,
    loss: GeneralisedLinearLoss,
    data: tuple[tuple[NDArray[np.int32], ...], list[Held]],
    begun: Begun,
    length: int,
    each: float,
    options: Options,
) -> tuple[NDArray[Any], list[NDArray[Any]]]:
    """The mean iterate, and all iterates where they are kept; a record has ``each`` rows on average."""
    held, width = each * cluster.most(*(one.records for one in data[1]))[0], cluster.slices.size(begun.first.shape)
    key = common_key(cluster, run, begun.generator)
    records = tuple(cluster.put(part, APART) for part in data[0])
    state, constants = jax.tree.map(cluster.put, (begun.state, begun.arithmetic.constants))
    how = How(loss, begun.arithmetic.bits, options.keep)

    def run_part(state: State, part: Drawn) -> tuple[State, Any, int]:
        capacity, chunk = in_global_arrays(cluster, run, part, held)
        made = run_shared_chunk(state, records, chunk, constants, mesh=cluster.mesh, how=how, capacity=capacity)
        return *made, int(part[0][0].steps)

    parts = drawn(run, begun, options.average, length, width, data[1], key)
    return in_chunks(run, begun, options, state, parts, run_part)
