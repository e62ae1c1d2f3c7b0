"""``train_stream``: random allocation on records that need not fit in memory.

In every epoch each record draws its batch: one number a record is all that is kept of an epoch. The source is read once for every
few consecutive batches, and their records are kept. With room for a tenth of the records, it is read ten times an epoch. All
readings must be the same: their digests are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dplateau.losses import GeneralisedLinearLoss
from dplateau.spec import InputError, Run
from dplateau.spec.schedule import constant, integer
from dplateau.training.charged import Budgeted
from dplateau.training.chunks import chunk_of, rounded_up, stretched
from dplateau.training.noise import SecureGenerator
from dplateau.training.one_pass import Blocks, Records, Steps, in_passes
from dplateau.training.result import TrainResult

BYTES: Final = 1 << 30
"""Size of the records that are kept in memory at once, unless more or fewer are asked for."""
_TARGET: Final = 8
"""Size of a target."""


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
        rows in all, in the same order every time. ``Stream.blocks`` is one. Lengths must not depend on what the records say.
    rows : int, optional
        About how many records are kept in memory, by default as many as take 1 GiB; one batch at least. Memory is needed
        for two to three times as many.
    l2, generator, dtype, momentum, average, start, keep_iterates, ledger
        See ``train``.
    progress : callable, optional
        Called with the records done and their total, every one counted once an epoch; see ``dplateau.training.progress_bar``. Of
        batches it counts their expected sizes.

    Raises
    ------
    InputError
        As ``train``; and a reading has fewer or more records than ``run.n``, or blocks of another width. Nothing is released.
    TrainingInterrupted, TrainingDiverged
        As ``train``.
    """
    if not run.sampling.allocated:
        other = "train_one_pass" if run.sampling.once else "train"
        raise InputError(f"the run's sampling is {run.sampling.kind}: expected random-allocation. Use dplateau.training.{other}.")
    return in_passes(
        run,
        loss,
        partial(_Allocated, read, run, loss, None if rows is None else integer("rows", rows)),
        _Epochs,
        l2=l2,
        generator=generator,
        dtype=dtype,
        momentum=momentum,
        average=average,
        start=start,
        keep_iterates=keep_iterates,
        progress=progress,
        ledger=ledger,
    )


class _Allocated(Records):
    """The records of consecutive batches of an epoch, in the order of the batches; for each such group the source is read."""

    def __init__(self, read: Callable[[], Blocks], run: Run, loss: GeneralisedLinearLoss, rows: int | None) -> None:
        super().__init__(read(), run, loss)
        super().close()
        assert self.dtype is not None
        self._read, self._run = read, run
        self.rows = rows or BYTES // (self.d * self.dtype.itemsize + _TARGET)
        self._digest: bytes | None = None
        self._batch, self._first, self._counts, self._end = np.zeros(0, np.int32), 0, np.zeros(0, np.int64), 0

    @property
    def total(self) -> int:
        return self._expected(self._run.steps)

    def _expected(self, steps: int) -> int:
        """How many records so many steps use on average. How many they do use is private: it tells who was in them."""
        return round(steps / self._run.sampling.epoch_length(self._n) * self._n)

    def among(self, given: int) -> str:
        return "the records"

    def choose(self, batch: NDArray[np.int32], first: int, counts: NDArray[Any], end: int) -> None:
        """Records are wanted whose ``batch`` is ``first`` or one of those after it; each has so many. Step ``end`` is the next."""
        self._batch, self._first, self._counts, self._end = batch, first, counts.astype(np.int64), end

    def take(self, count: int, room: int) -> tuple[NDArray[Any], NDArray[Any]]:
        source = Records(self._read(), self._run, self._loss)
        if (source.d, source.dtype) != (self.d, self.dtype):
            raise InputError(
                f"a reading has {source.d} features of type {source.dtype}, the first one {self.d} of type {self.dtype}: expected "
                "the same records every time. Nothing was released."
            )
        features, target = np.zeros((room, self.d), self.dtype), np.zeros(room)
        digests = sha256(), sha256()
        free = np.cumsum(self._counts) - self._counts
        try:
            for begin, rows, labels in source.each():
                for digest, part in zip(digests, (rows, labels), strict=True):
                    digest.update(np.ascontiguousarray(part).data)
                batch = self._batch[begin : begin + len(labels)] - self._first
                here = np.flatnonzero((batch >= 0) & (batch < len(free)))
                here = here[np.argsort(batch[here], kind="stable")]
                batch = batch[here]
                # The k-th of a batch in this block goes to the k-th free place of the batch.
                place = free[batch] + np.arange(len(batch)) - np.searchsorted(batch, batch)
                features[place], target[place] = rows[here], labels[here]
                free += np.bincount(batch, minlength=len(free))
        finally:
            source.close()
        # A record that changes its place may be used twice in an epoch.
        read = b"".join(digest.digest() for digest in digests)
        if self._digest not in (None, read):
            raise InputError(
                "two readings of the records differ: expected the same records in the same order. Nothing was released."
            )
        self._digest = read
        self.given = self._expected(self._end)
        return features, target

    def finish(self) -> None:
        """Every reading was counted."""


class _Epochs(Steps):
    """The steps of a run, as many at once as there is room for their records."""

    def chunks(self) -> Iterator[tuple[int, NDArray[np.int32], Any]]:
        records = self.records
        assert isinstance(records, _Allocated)
        run, epoch = self.run, self.run.sampling.epoch_length(self.run.n)
        size = constant(run.sampling.divisors(run.n))
        group = max(1, min(self._length, int(records.rows / size)))
        for start in range(0, run.steps, epoch):
            batch = self._generator.integers(epoch, run.n).astype(np.int32)
            every = np.bincount(batch, minlength=epoch).astype(np.int32)
            for begin in range(start, min(start + epoch, run.steps), group):
                end = min(begin + group, start + epoch, run.steps)
                counts = every[begin - start : end - start]
                records.choose(batch, begin - start, counts, end)
                capacity = rounded_up(max(run.sampling.largest_likely(size), int(counts.max())))
                yield capacity, counts, chunk_of(run, *self._how, begin, end, self._length, None, stretched(counts, self._length))

    def room(self, counts: NDArray[np.int32], capacity: int, size: int) -> int:
        likely = self.run.sampling.largest_likely(constant(self.run.sampling.divisors(self.run.n)) * len(counts))
        return rounded_up(max(likely, int(counts.sum()))) + capacity + size
