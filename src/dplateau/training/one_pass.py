"""``train_one_pass``: fulfil a one-pass ``Run`` on records that arrive in blocks, each looked at once, in constant memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from dplateau.losses import GeneralisedLinearLoss
from dplateau.spec import InputError, Run
from dplateau.spec.schedule import window
from dplateau.training.charged import Budgeted, charged
from dplateau.training.checks import check_curvature, check_options, checked_l2, checked_start, records_of
from dplateau.training.chunks import chunk_length, chunk_of, rounded_up, stretched
from dplateau.training.errors import uninterrupted
from dplateau.training.integers import block_of
from dplateau.training.loop import Arithmetic, Block, State, arithmetic_of, run_block
from dplateau.training.noise import SecureGenerator
from dplateau.training.result import TrainResult, result_of

_BLOCK: Final = 1 << 21
"""Numbers of the records that the compiled loop gets at once."""
Blocks = Iterable[tuple[Any, Any]]


def train_one_pass(
    run: Run,
    loss: GeneralisedLinearLoss,
    blocks: Blocks,
    *,
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
    """Train a generalised linear model in one pass over records that need not fit in memory, exactly as ``run`` says.

    The steps are those of ``dplateau.training.train``, which calls this function for one-pass runs. Memory does not grow with the
    number of records, as long as that of a block does not.

    Parameters
    ----------
    run : Run
        What to compute and release, with one-pass sampling.
    loss : GeneralisedLinearLoss
        Loss of one example.
    blocks : iterable of (features, target)
        The records in their public order, in pieces of any lengths: arrays of shapes (k, d) and (k,), ``run.n`` rows in all. The
        order and the lengths must not depend on what the records say.
    l2, generator, dtype, momentum, average, start, keep_iterates, ledger
        See ``train``.
    progress : callable, optional
        Called with the records done and their total; see ``dplateau.training.progress_bar``.

    Raises
    ------
    InputError
        As ``train``; and there are fewer or more records than ``run.n``, or a block has another width than the first. Nothing is
        released: the weights are returned after the last record was counted.
    TrainingInterrupted, TrainingDiverged
        As ``train``.
    """
    if not run.sampling.once:
        raise InputError(f"the run's sampling is {run.sampling.kind}: expected one-pass. Use dplateau.training.train.")
    return in_passes(
        run,
        loss,
        partial(Records, blocks, run, loss),
        Steps,
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


def in_passes(
    run: Run,
    loss: GeneralisedLinearLoss,
    opened: Callable[[], Records],
    kind: type[Steps],
    *,
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
    """What a run on records that are read in order, once or more often, releases; ``opened`` begins to read them."""
    check_options(run, dtype, momentum, average, keep_iterates)
    records = uninterrupted(opened)
    shape = loss.weights_shape(records.d)
    coefficients = checked_l2(l2, records.d)
    first = checked_start(run, start, shape)
    arithmetic = arithmetic_of(run, loss, coefficients, momentum, first)
    check_curvature(run, loss, run.clip_norm, 0.0, coefficients)
    generator = SecureGenerator() if generator is None else generator
    steps = kind(run, records, shape, arithmetic, average, generator)
    with charged(ledger, run):
        weights, iterates = uninterrupted(partial(_pass, loss, steps, first, arithmetic, coefficients, keep_iterates, progress))
    arithmetic.check(weights)
    return result_of(run, loss, generator, weights, iterates, dtype)


def _pass(
    loss: GeneralisedLinearLoss,
    steps: Steps,
    first: NDArray[Any],
    arithmetic: Arithmetic,
    l2: NDArray[np.float64],
    keep: bool,
    progress: Callable[[int, int], None] | None,
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """The released weights, and all iterates where they are kept, after every record was seen as often as the run has epochs."""
    run, records, constants = steps.run, steps.records, arithmetic.constants
    how: Any = {"loss": loss, "bits": arithmetic.bits, "keep": keep}
    start = arithmetic.started(first)
    state, longest, kept = State(start, np.zeros_like(first), start), np.zeros(()), [first[None]]

    def check(longest: Any, given: int) -> None:
        if not np.isfinite(largest := float(longest)):
            raise InputError(
                f"among {records.among(given)} some have features that are not finite numbers: clean or clip them first. "
                "Nothing was released."
            )
        check_curvature(run, loss, run.clip_norm * float(constants.share), largest, l2)

    try:
        for capacity, counts, chunk in steps.chunks():
            before = records.given
            features, target = records.take(int(counts.sum()), steps.room(counts, capacity, block_of(records.d, loss.outputs)))
            # Reading and copying go on while the block before is worked on: only then is that waited for.
            block = jax.device_put(Block(features, target), may_alias=False)
            jax.block_until_ready(block)  # the copy is made: the caller may do with the arrays what it likes
            del features, target
            check(longest, before)
            if progress is not None:
                progress(before, records.total)
            state, longest, iterates = run_block(state, longest, block, chunk, constants, capacity=capacity, **how)
            del block  # the loop frees it when it has done with it
            if iterates is not None:
                kept.append(np.asarray(iterates)[: chunk.steps])
        check(longest, records.given)
        records.finish()
    finally:
        jax.block_until_ready((state, longest))  # an interrupted process must not end while the loop is at work
        records.close()
    weights = arithmetic.released(np.asarray(state.mean))
    if progress is not None:
        progress(records.total, records.total)
    return weights, np.concatenate(kept) if keep else None


class Steps:
    """The steps of a run, a chunk at a time."""

    def __init__(
        self,
        run: Run,
        records: Records,
        shape: tuple[int, ...],
        arithmetic: Arithmetic,
        average: float,
        generator: SecureGenerator,
    ) -> None:
        self.run, self.records, self._generator = run, records, generator
        self._how = (shape, arithmetic, average, generator)
        self._length = chunk_length(run, int(np.prod(shape)))

    def chunks(self) -> Iterator[tuple[int, NDArray[np.int32], Any]]:
        """Room for a batch, the sizes of the batches, and the chunk, of consecutive steps whose records fit a block."""
        run, length = self.run, self._length
        largest = max(1, _BLOCK // self.records.d)
        begin = 0
        while begin < run.steps:
            counts = window(run.sampling.divisors(run.n), begin, min(begin + length, run.steps)).astype(np.int32)
            fitting = max(1, int(np.searchsorted(np.cumsum(counts), largest, side="right")))
            counts = counts[:fitting]
            capacity = int(counts.max())
            if (counts != capacity).any():
                capacity = rounded_up(capacity)
            end = begin + fitting
            yield capacity, counts, chunk_of(run, *self._how, begin, end, length, None, stretched(counts, length))
            begin = end

    def room(self, counts: NDArray[np.int32], capacity: int, size: int) -> int:
        """Rows of a block as the compiled loop sees it: it reads ``capacity`` rows of every batch, ``size`` at a time."""
        rows = int(counts.sum())
        whole = capacity <= size or capacity % size == 0  # The loop reads such batches without a rest.
        return rows if whole and (counts == capacity).all() else rounded_up(rows) + capacity + size


class Records:
    """The records of blocks of any lengths, given out in any other lengths; counts them and checks them.

    ``given`` is a public number: how many were given out, or were expected to be.
    """

    def __init__(self, blocks: Blocks, run: Run, loss: GeneralisedLinearLoss) -> None:
        self._blocks, self._n, self._loss = iter(blocks), run.n, loss
        self._pieces: deque[tuple[NDArray[Any], NDArray[Any]]] = deque()
        self._seen, self.given, self.d = 0, 0, 0
        self.dtype: np.dtype[Any] | None = None
        if not self._next():
            raise InputError("there are no records: expected blocks of (features, target).")

    @property
    def total(self) -> int:
        """Records that are given in all."""
        return self._n

    def among(self, given: int) -> str:
        """Those that were given out so far, in words."""
        return f"the first {given:,} records"

    def each(self) -> Iterator[tuple[int, NDArray[Any], NDArray[Any]]]:
        """All blocks, with the number of the first record of each; raises unless there are n records in all."""
        first = 0
        while self._pieces or self._next():
            if self._pieces:
                features, target = self._pieces.popleft()
                yield first, features, target
                first += len(target)
        self.finish()

    def take(self, count: int, room: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """The next ``count`` records, followed by any others up to ``room``, as one array each; without a copy where possible."""
        while self._seen - self.given < count:
            if not self._next():
                raise InputError(
                    f"the records end after {self._seen:,} rows but the run has n = {self._n:,}: declare the number of rows that "
                    "there are. Nothing was released."
                )
        self.given += count
        features, target = self._pieces[0]
        if len(target) >= room:
            self._pieces[0] = features[count:], target[count:]
            return features[:room], target[:room]
        rows, labels = np.zeros((room, self.d), features.dtype), np.zeros(room, target.dtype)
        filled = 0
        while filled < count:
            features, target = self._pieces.popleft()
            part = min(count - filled, len(target))
            rows[filled : filled + part], labels[filled : filled + part] = features[:part], target[:part]
            filled += part
            if part < len(target):
                self._pieces.appendleft((features[part:], target[part:]))
        return rows, labels

    def finish(self) -> None:
        """Count the records that no step used; raises unless there are n in all."""
        self._pieces.clear()
        while self._next():
            self._pieces.clear()
        if self._seen != self._n:
            raise InputError(
                f"there are {self._seen:,} records but the run has n = {self._n:,}: the run must describe this data set. Nothing "
                "was released."
            )

    def close(self) -> None:
        """Let go of the source, whose threads and files must not outlive an interrupted pass."""
        self._pieces.clear()
        if isinstance(self._blocks, Generator):
            self._blocks.close()

    def _next(self) -> bool:
        """Take in one more block; False at the end."""
        if self._pieces:  # Its arrays are the caller's, who may fill them anew with the next records.
            features, target = self._pieces[-1]
            self._pieces[-1] = features.copy(), target.copy()
        block = next(self._blocks, None)
        if block is None:
            return False
        features, target = records_of(self._loss, *block)
        if self.d not in (0, features.shape[1]):
            raise InputError(f"a block has {features.shape[1]} features, the ones before it {self.d}: expected one width.")
        if self.dtype not in (None, features.dtype):
            raise InputError(f"a block has features of type {features.dtype}, the ones before it {self.dtype}: expected one type.")
        self.d, self.dtype = features.shape[1], features.dtype
        self._seen += len(target)
        if self._seen > self._n:
            raise InputError(
                f"there are more records than n = {self._n:,}: the run must describe this data set. Nothing was released."
            )
        if len(target):
            self._pieces.append((features, target))
        return True
