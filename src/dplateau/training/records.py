"""``Records``, which arrive in blocks of any lengths and are given out in any others, and ``Steps``, which ask for them."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from typing import Any, Final, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from dplateau.losses import GeneralisedLinearLoss
from dplateau.spec import InputError, Run
from dplateau.spec.columns import Columns, Placing
from dplateau.spec.schedule import window
from dplateau.training.checks import records_of
from dplateau.training.chunks import chunk_length, drawn_chunk, read_through, rounded_up, stretched, with_batches
from dplateau.training.cluster import Cluster
from dplateau.training.exact_products import accelerated
from dplateau.training.integers import block_of
from dplateau.training.loop import Block, Chunk
from dplateau.training.options import Begun
from dplateau.training.persons import Names
from dplateau.training.placed import Layout, Ranges, ranges_of
from dplateau.training.shares import shares

BLOCK: Final = 1 << 21
"""Numbers of the records that the compiled loop gets at once."""
Blocks = Iterable[tuple[Any, ...]]
_LOOKED_AT: Final = 4096
_FEW: Final = 1000
"""Of fewer records, two processes may have the same ones by chance."""
_ALIGNED: Final = 64
"""Bytes at a multiple of which a block must begin for the compiled loop to read it where it is."""


class Steps:
    """The steps of a run, a chunk at a time, with the own part of every batch, which is all of it without a cluster.

    ``begun`` is how many records of the ``total`` the steps before have used; ``held``, how many each process of a cluster has.
    """

    def __init__(
        self,
        run: Run,
        records: Records,
        begun: Begun,
        average: float,
        cluster: Cluster | None = None,
        held: NDArray[np.int64] | None = None,
    ) -> None:
        self.run, self.records, self._begun, self._average, self._cluster = run, records, begun, average, cluster
        self._length, shape = chunk_length(run, begun.first.size), begun.first.shape
        self._shape = shape if cluster is None else (cluster.slices.size(shape),)  # noise of the own slice
        self._held, self._place = np.array([run.n]) if held is None else held, 0 if cluster is None else cluster.index
        self.begun, self.total, self._rows, self._alike = 0, run.n, 0, False

    def chunks(self) -> Iterator[tuple[int, NDArray[np.int32], Any]]:
        """Room for a batch, the sizes of the batches, and the chunk, of consecutive steps whose records fit a block."""
        begin = 0
        for capacity, counts, length in self.parts():
            end = begin + len(counts)
            chunk = drawn_chunk(self.run, self._begun, self._average, begin, end, length, self._shape)
            yield capacity, counts, with_batches(chunk, None, stretched(counts, length))
            begin = end

    def idle(self) -> None:
        """Wait until no step is at work: processes exchange nothing else while one exchanges its sums."""

    def parts(self) -> Iterator[tuple[int, NDArray[np.int32], int]]:
        """Room for a batch, the sizes of the batches, and the entries of a chunk, without noise.

        All processes take the same steps at once, and have room for the largest part of any of them.
        """
        run, length, largest = self.run, self._length, max(1, BLOCK // self.records.d)
        begin = taken = 0
        while begin < run.steps:
            sizes = window(run.sampling.divisors(run.n), begin, min(begin + length, run.steps)).astype(np.int64)
            ends = taken + np.cumsum(sizes)
            upto = shares(self._held, np.concatenate([[taken], ends]))
            rows = (upto[:, 1:] - upto[:, :1]).max(axis=0)
            fitting = max(1, int(np.searchsorted(rows, largest, side="right")))
            counts = np.diff(upto, axis=1)[:, :fitting].astype(np.int32)
            capacity = int(counts.max())
            self.begun, self._rows, self._alike = taken, int(rows[fitting - 1]), bool((counts == capacity).all())
            yield capacity if self._alike else rounded_up(capacity), counts[self._place], length
            begin, taken = begin + fitting, int(ends[fitting - 1])

    def room(self, counts: NDArray[np.int32], capacity: int, size: int) -> int:
        """Rows of a block as the compiled loop sees it: it reads ``capacity`` rows of every batch, ``size`` at a time.

        They are those of the process with most rows, ``counts`` being the own ones.
        """
        whole = capacity <= size or capacity % size == 0  # The loop reads such batches without a rest.
        return self._rows if self._alike and whole else read_through(self._rows, capacity, size)


class Part(NamedTuple):
    """The records of one process of several: how many, and the key under which all of them hash the labels of persons."""

    records: int
    key: bytes


class Records:
    """The records of blocks of any lengths, given out in any other lengths; counts them and checks them.

    ``given`` is a public number: how many were given out, or were expected to be. Where other processes have the others of the
    run's records, there are ``own``, which are never given out as columns: processes with other files would compute otherwise.
    ``names`` are the persons', once all are known, where records are persons.
    """

    names: Names | None = None

    def __init__(self, blocks: Blocks, run: Run, loss: GeneralisedLinearLoss, own: Part | None = None) -> None:
        self._blocks, self._loss, self._shared = iter(blocks), loss, own is not None
        self._n = run.n if own is None else own.records
        self._declared = f"the run has n = {run.n:,}" if own is None else f"{self._n:,} were declared for this process"
        self._pieces: deque[tuple[NDArray[Any] | Columns, NDArray[Any]]] = deque()
        self._rooms: deque[NDArray[np.uint8]] = deque([_aligned(0)] * 2)
        self._seen, self.given, self.d = 0, 0, 0
        self.dtype: np.dtype[Any] | None = None
        self.layout: Layout | None = None
        self._placing: Placing | None = None
        self._ranges: Ranges | None = None
        if not self._next():
            raise InputError("there are no records: expected blocks of (features, target).")
        self.sight = self._sight() if self._shared else b""

    def _sight(self) -> bytes:
        """The digest of the first records, by which processes with the same ones are told apart; empty where they are too few."""
        if not self._pieces or len(self._pieces[0][1]) < min(self._n, _FEW):
            return b""
        features, target = self._pieces[0]
        first = [np.ascontiguousarray(one) for one in (_rows(features[:_LOOKED_AT]), target[:_LOOKED_AT])]
        return hashlib.sha256(b"".join([*(one.tobytes() for one in first), self._n.to_bytes(8, "big")])).digest()

    def among(self, given: int) -> str:
        """Those that were given out so far, in words."""
        return f"the first {given:,} records"

    def each(self) -> Iterator[tuple[NDArray[Any], ...]]:
        """All records, some at a time; raises unless there are n in all."""
        while self._pieces or self._next():
            while self._pieces:
                features, target = self._pieces.popleft()
                yield _rows(features), target
        self.finish()

    def block(self, capacity: int, counts: NDArray[np.int32], chunk: Chunk, steps: Steps) -> tuple[int, Chunk, Block]:
        """The records of the next batches, which have ``counts``, with the room for one batch and the chunk that go with them.

        A block with ``ranges`` lies in memory that is written anew with the block after the next.
        """
        count, outputs = int(counts.sum()), self._loss.outputs
        self._wait_for(count)
        if self._plain(count):
            return capacity, chunk, self._columns(count, steps.room(counts, capacity, block_of(self.d, outputs, columns=True)))
        return capacity, chunk, Block(*self.take(count, steps.room(counts, capacity, block_of(self.d, outputs))))

    def _wait_for(self, count: int) -> None:
        """Have the next ``count`` records at hand."""
        while self._seen - self.given < count:
            if not self._next():
                raise InputError(
                    f"the records end after {self._seen:,} rows but {self._declared}: declare the number of rows that "
                    "there are. Nothing was released."
                )

    def _plain(self, count: int) -> bool:
        """Whether the next ``count`` records are all columns of plain numbers, encoded in the same way; on accelerators never."""
        if self._shared or accelerated():  # their compilers may leave out the rounding on which the proof rests
            return False
        first = self._pieces[0][0]
        for features, target in self._pieces:
            if not (isinstance(features, Columns) and isinstance(first, Columns) and features.placing == first.placing):
                return False
            count -= len(target)
            if count <= 0:
                break
        return True

    def _columns(self, count: int, room: int) -> Block:
        """The next ``count`` records, not yet encoded, copied once: to where the compiled loop reads them."""
        parts: list[tuple[Any, NDArray[Any]]] = list(self._taken(count))
        placing = parts[0][0].placing
        kind = np.result_type(np.float32, *(column.dtype for features, _ in parts for column in features.values))
        numbers, labels = self._room(len(placing.low), room, kind), np.zeros(room)
        start = 0
        for features, target in parts:
            end = start + len(target)
            for row, column in zip(numbers, features.values, strict=True):
                row[start:end] = column
            labels[start:end] = target
            start = end
        if self._placing != placing:
            ranges, self.layout = ranges_of(placing)
            with jax.enable_x64(True):
                self._placing, self._ranges = placing, jax.device_put(ranges)
        return Block(numbers, labels, None, self._ranges)

    def _room(self, columns: int, rows: int, kind: np.dtype[Any]) -> NDArray[Any]:
        """Memory for a block, which the one before the last one had: what it holds is not a number of this one."""
        self._rooms.rotate()
        size = columns * rows * kind.itemsize
        if self._rooms[0].nbytes < size:
            self._rooms[0] = _aligned(size)
        return self._rooms[0][:size].view(kind).reshape(columns, rows)

    def take(self, count: int, room: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """The next ``count`` records, followed by any others up to ``room``, as one array each; without a copy where possible.

        They are at hand: see ``_wait_for``.
        """
        if self._pieces and len(self._pieces[0][1]) >= room:
            features, target = _rows(self._pieces[0][0]), self._pieces[0][1]
            self._pieces[0] = features[count:], target[count:]
            self.given += count
            return features[:room], target[:room]
        rows, labels = np.zeros((room, self.d), self.dtype), np.zeros(room)
        filled = 0
        for features, target in self._taken(count):
            end = filled + len(target)
            rows[filled:end], labels[filled:end] = _rows(features), target
            filled = end
        return rows, labels

    def _taken(self, count: int) -> Iterator[tuple[NDArray[Any] | Columns, NDArray[Any]]]:
        """The next ``count`` records, which are at hand, piece by piece."""
        self.given += count
        while count:
            features, target = self._pieces.popleft()
            if len(target) > count:
                self._pieces.appendleft((features[count:], target[count:]))
                features, target = features[:count], target[:count]
            yield features, target
            count -= len(target)

    def finish(self) -> None:
        """Count the records that no step used; raises unless there are n in all."""
        self._pieces.clear()
        while self._next():
            self._pieces.clear()
        if self._seen != self._n:
            raise InputError(
                f"there are {self._seen:,} records but {self._declared}: the run must describe this data set. Nothing was released."
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
            if not isinstance(features, Columns):
                self._pieces[-1] = features.copy(), target.copy()
        block = next(self._blocks, None)
        if block is None:
            return False
        features, target = self._checked(*block)
        self._count(len(target))
        if len(target):
            self._pieces.append((features, target))
        return True

    def _checked(self, *block: Any) -> tuple[Any, NDArray[np.float64]]:
        """Features and target of a block."""
        if len(block) != 2:
            raise InputError(
                f"a block has {len(block)} parts: expected features and target, and groups where a record of the run is a person."
            )
        features, target = records_of(self._loss, *block)
        width, kind = (
            (features.placing.d, np.dtype(np.float32)) if isinstance(features, Columns) else (features.shape[1], features.dtype)
        )
        if self.d not in (0, width):
            raise InputError(f"a block has {width} features, the ones before it {self.d}: expected one width.")
        if self.dtype not in (None, kind):
            raise InputError(f"a block has features of type {kind}, the ones before it {self.dtype}: expected one type.")
        self.d, self.dtype = width, kind
        return features, target

    def _count(self, records: int) -> None:
        """Count so many more; raises where there are more than n."""
        self._seen += records
        if self._seen > self._n:
            raise InputError(
                f"there are more records than n = {self._n:,}: the run must describe this data set. Nothing was released."
            )


def _rows(features: NDArray[Any] | Columns) -> NDArray[Any]:
    return features.rows() if isinstance(features, Columns) else features


def _aligned(size: int) -> NDArray[np.uint8]:
    """Zeros that the compiled loop can read without a copy."""
    bytes_ = np.zeros(size + _ALIGNED, np.uint8)
    start = -bytes_.ctypes.data % _ALIGNED
    return bytes_[start : start + size]
