"""``train_stream``: random allocation on records that need not fit in memory.

In every epoch each record draws its batch: one number a record is all that is kept of an epoch. The source is read once for every
few consecutive batches, and their records are kept. With room for a tenth of the records, it is read ten times an epoch. All
readings must be the same: their digests are compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dplateau.losses import GeneralisedLinearLoss
from dplateau.spec import InputError, Run
from dplateau.spec.arguments import integer
from dplateau.spec.schedule import constant
from dplateau.training.charged import Budgeted
from dplateau.training.checks import check_is_run
from dplateau.training.chunks import read_through, rounded_up
from dplateau.training.cluster import Cluster
from dplateau.training.integers import block_of
from dplateau.training.loop import Block, Chunk
from dplateau.training.noise import SecureGenerator
from dplateau.training.one_pass import in_passes
from dplateau.training.options import Options
from dplateau.training.person_records import kind_of
from dplateau.training.records import Blocks, Part, Records, Steps
from dplateau.training.result import TrainResult

BYTES: Final = 1 << 30
"""Size of the records that are kept in memory at once, unless more or fewer are asked for."""
_TARGET: Final = 8
"""Size of a target."""
_DIFFER: Final = "two readings of the records differ: expected the same records in the same order. Nothing was released."


def train_stream(
    run: Run,
    loss: GeneralisedLinearLoss,
    read: Callable[[], Blocks],
    *,
    rows: int | None = None,
    l2: float | Sequence[float] | NDArray[np.float64] = 0.0,
    generator: SecureGenerator | None = None,
    dtype: str = "float64",
    momentum: float = 0.0,
    average: float = 0.0,
    start: ArrayLike | None = None,
    keep_iterates: bool = False,
    progress: Callable[[int, int], None] | None = None,
    ledger: Budgeted | None = None,
    cluster: Cluster | None = None,
    own: int | None = None,
) -> TrainResult:
    """Train a generalised linear model by random allocation on records that need not fit in memory, exactly as ``run`` says.

    The steps are those of ``train``. The source is read once for about every ``rows`` records that an epoch uses.

    Parameters
    ----------
    run : Run
        What to compute and release, with ``RandomAllocation``.
    loss : GeneralisedLinearLoss
        Loss of one example.
    read : callable
        ``read()`` begins anew with the first record: an iterable of (features, target), arrays of shapes (k, d) and (k,), ``run.n``
        rows in all, in the same order every time. ``Stream.blocks`` is one. Lengths must not depend on what the records say. For a
        run with ``unit="person"``, (features, target, groups), as in ``train_one_pass``; the source is then read once more.
    rows : int, optional
        About how many rows are kept in memory, by default as many as take 1 GiB; one batch at least. Memory is needed
        for two to three times as many.
    l2, generator, dtype, momentum, average, start, keep_iterates, ledger
        See ``train``.
    progress : callable, optional
        Called with the records done and their total, every one counted once an epoch; see ``dplateau.training.progress_bar``. Of
        batches it counts their expected sizes.
    cluster, own
        See ``train_one_pass``. Each process draws the batches of its own records; ``rows`` are kept in each.

    Raises
    ------
    InputError
        As ``train``; and a reading has fewer or more records than ``run.n``, or blocks of another width. Nothing is released.
    TrainingInterrupted, TrainingDiverged
        As ``train``.
    """
    check_is_run(run)
    if not run.sampling.allocated:
        other = "train_one_pass" if run.sampling.once else "train"
        raise InputError(f"the run's sampling is {run.sampling.kind}: expected random-allocation. Use dplateau.training.{other}.")
    opened = partial(_Allocated, read, run, loss, None if rows is None else integer("rows", rows))
    options = Options(l2, generator, dtype, momentum, average, start, keep_iterates, progress, ledger)
    return in_passes(run, loss, opened, _Epochs, options, cluster, own)


class _Allocated(Records):
    """The records of consecutive batches of an epoch, in the order of the batches; for each such group the source is read."""

    def __init__(
        self, read: Callable[[], Blocks], run: Run, loss: GeneralisedLinearLoss, rows: int | None, own: Part | None = None
    ) -> None:
        self._opened: Callable[[Blocks], Records] = lambda blocks: kind_of(run)(blocks, run, loss, own)
        self._read, self._run, self._loss, self.given = read, run, loss, 0
        self.own = run.n if own is None else own.records
        first = self._opened(read())
        self.sight = first.sight
        first.close()
        assert first.dtype is not None
        self.d, self.dtype = first.d, first.dtype
        self.rows = rows or BYTES // (self.d * self.dtype.itemsize + _TARGET)
        self._digest: bytes | None = None
        self._batch, self._first, self._counts = np.zeros(0, np.int32), 0, np.zeros(0, np.int64)
        self.sizes: NDArray[np.int64] | None = None
        if run.unit == "person":
            self.sizes = np.concatenate([each for _, _, _, each in self._pieces_of(self._read())])  # the source is read once more
        self.mean = 1.0 if self.sizes is None else float(self.sizes.mean())

    def expected(self, steps: int) -> int:
        """How many records so many steps use on average. How many they do use is private: it tells who was in them."""
        return round(steps / self._run.sampling.epoch_length(self._run.n) * self._run.n)

    def among(self, given: int) -> str:
        return "the records"

    def choose(self, batch: NDArray[np.int32], first: int, counts: NDArray[Any]) -> None:
        """Records are wanted whose ``batch`` is ``first`` or one after it; each has so many rows."""
        self._batch, self._first, self._counts = batch, first, counts.astype(np.int64)

    def _pieces_of(self, blocks: Blocks) -> Iterator[tuple[int, NDArray[Any], NDArray[Any], NDArray[np.int64]]]:
        """All records of a reading, some at a time: the number of the first, features, target, and the rows of each record.

        At the end, raise ``InputError`` unless they were those of the reading before: a record that changes its place may be used
        twice in an epoch.
        """
        source, digests = self._opened(blocks), (sha256(), sha256(), sha256())
        if (source.d, source.dtype) != (self.d, self.dtype):
            raise InputError(
                f"a reading has {source.d} features of type {source.dtype}, the first one {self.d} of type {self.dtype}: expected "
                "the same records every time. Nothing was released."
            )
        try:
            first = 0
            for rows, labels, *many in source.each():
                each = many[0] if many else np.ones(len(labels), np.int64)
                for digest, part in zip(digests, (rows, labels, each), strict=True):
                    digest.update(np.ascontiguousarray(part).data)
                if self.sizes is not None and not np.array_equal(each, self.sizes[first : first + len(each)]):
                    raise InputError(_DIFFER)
                yield first, rows, labels, each
                first += len(each)
            self.names = source.names
        finally:
            source.close()
        read = b"".join(digest.digest() for digest in digests)
        if self._digest not in (None, read):
            raise InputError(_DIFFER)
        self._digest = read

    def block(self, capacity: int, counts: NDArray[np.int32], chunk: Chunk, steps: Steps) -> tuple[int, Chunk, Block]:
        room = steps.room(counts, capacity, block_of(self.d, self._loss.outputs))
        features, target, sizes = np.zeros((room, self.d), self.dtype), np.zeros(room), np.ones(room)
        free = np.cumsum(self._counts) - self._counts
        for begin, rows, labels, each in self._pieces_of(self._read()):
            many = np.repeat(each, each)
            batch = np.repeat(self._batch[begin : begin + len(each)] - self._first, each)
            here = np.flatnonzero((batch >= 0) & (batch < len(free)))
            here = here[np.argsort(batch[here], kind="stable")]
            batch = batch[here]
            # The k-th of a batch in this block goes to the k-th free place of the batch.
            place = free[batch] + np.arange(len(batch)) - np.searchsorted(batch, batch)
            features[place], target[place], sizes[place] = rows[here], labels[here], many[here]
            free += np.bincount(batch, minlength=len(free))
        return capacity, chunk, Block(features, target, None if self.sizes is None else sizes)

    def finish(self) -> None:
        """Every reading was counted."""

    def close(self) -> None:
        """Every reading was closed."""


class _Epochs(Steps):
    """The steps of a run, as many at once as there is room for their records."""

    def __init__(self, run: Run, records: Records, *rest: Any) -> None:
        super().__init__(run, records, *rest)
        assert isinstance(records, _Allocated)
        self._allocated, self.total = records, records.expected(run.steps)
        self._mean = records.mean
        if self._cluster is not None:
            rows = self._cluster.exchanged(np.array(records.mean * records.own))
            self._mean = float(rows.sum()) / run.n  # of all records, for loops of one shape

    def parts(self) -> Iterator[tuple[int, NDArray[np.int32], int]]:
        records, run = self._allocated, self.run
        epoch, group = run.sampling.epoch_length(run.n), max(1, min(self._length, int(records.rows / (self._size * self._mean))))
        # How many steps are made at once depends on the rows of persons, which are private: of these whole epochs are told.
        told = 1 if records.sizes is None else epoch
        for start in range(0, run.steps, epoch):
            batch = self._begun.generator.integers(epoch, records.own).astype(np.int32)
            every = np.bincount(batch, records.sizes, epoch).astype(np.int32)[: run.steps - start]
            groups = {begin: every[begin : begin + group] for begin in range(0, len(every), group)}
            most = self._most(*(int(number) for counts in groups.values() for number in (counts.max(), counts.sum())))
            for place, (begin, counts) in enumerate(groups.items()):
                self.begun, self._rows = records.expected((start + begin) // told * told), most[2 * place + 1]
                records.choose(batch, begin, counts)
                yield rounded_up(max(self._likely(1), most[2 * place])), counts, self._length

    def room(self, counts: NDArray[np.int32], capacity: int, size: int) -> int:
        return read_through(max(self._likely(len(counts)), self._rows), capacity, size)

    @property
    def _size(self) -> float:
        """Records of a batch, on average, where there are most."""
        return constant(self.run.sampling.divisors(self.run.n)) * (float(self._held.max()) / self.run.n)

    def _likely(self, batches: int) -> int:
        """Rows that so many batches hardly ever exceed."""
        return math.ceil(self._mean * self.run.sampling.largest_likely(self._size * batches))

    def _most(self, *numbers: int) -> list[int]:
        """The largest of each number among the processes."""
        self.idle()
        return list(numbers) if self._cluster is None else self._cluster.most(*numbers)
