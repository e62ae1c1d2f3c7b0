"""Persons that arrive in blocks, all rows of one after another: given out by persons, whatever the blocks are."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dplateau.losses import GeneralisedLinearLoss
from dplateau.spec import InputError, Run
from dplateau.training.chunks import read_through, rounded_up, stretched, with_batches
from dplateau.training.integers import block_of
from dplateau.training.loop import Block, Chunk
from dplateau.training.persons import Names, check_most_rows, checked_groups, names_of, twice
from dplateau.training.records import Blocks, Part, Records, Steps


def kind_of(run: Run) -> type[Records]:
    """How the records of a run are given out."""
    return PersonRecords if run.unit == "person" else Records


Piece = tuple[NDArray[Any], NDArray[Any], NDArray[np.int64]]
"""Features and target of whole persons, and how many rows each of them has."""


class PersonRecords(Records):
    """The records of a run with ``unit="person"``: ``given`` and ``total`` count persons.

    A person whose rows do not follow one another would be two records. Labels are remembered as 64-bit numbers, those of texts by
    a hash with a secret key; where two are equal, nothing is released.
    """

    def __init__(self, blocks: Blocks, run: Run, loss: GeneralisedLinearLoss, own: Part | None = None) -> None:
        self._run, self._key = run, secrets.token_bytes(16) if own is None else own.key
        self._whole: deque[Piece] = deque()
        self._held: list[tuple[NDArray[Any], NDArray[Any]]] = []
        self._label: Any = None
        self._named: list[Names] = []
        if own is not None and not own.records:
            raise InputError("this process has no persons, and others compare theirs with its: every process needs one at least.")
        super().__init__(blocks, run, loss, own)

    def _sight(self) -> bytes:
        return b""  # persons are told apart by their labels

    def among(self, given: int) -> str:
        return f"the first {given:,} persons"

    def block(self, capacity: int, counts: NDArray[np.int32], chunk: Chunk, steps: Steps) -> tuple[int, Chunk, Block]:
        features, target, each = self._take(int(counts.sum()))
        after = np.concatenate([[0], np.cumsum(each)])
        rows = np.diff(after[np.concatenate([[0], np.cumsum(counts)])]).astype(np.int32)
        size, capacity = block_of(self.d, self._loss.outputs), rounded_up(int(rows.max()))
        room = read_through(len(target), capacity, size)
        features, target, each = (stretched(part, room) for part in (features, target, np.repeat(each, each).astype(np.float64)))
        return capacity, with_batches(chunk, None, stretched(rows, len(chunk.noise))), Block(features, target, each)

    def each(self) -> Iterator[Piece]:
        while self._whole or self._next():
            while self._whole:
                yield self._whole.popleft()
        self.finish()

    def finish(self) -> None:
        self._whole.clear()
        while self._next():
            self._whole.clear()
        super().finish()
        self.names = Names(self._named[0].text, np.concatenate([one.numbers for one in self._named]))
        if twice(self.names.numbers):
            raise InputError(
                "some person's rows do not follow one another: sort the rows by person, in an order that does not depend on what "
                "they say. Nothing was released."
            )

    def close(self) -> None:
        self._whole.clear()
        self._held = []
        super().close()

    def _take(self, count: int) -> Piece:
        """The next ``count`` persons; a process may give none to the batches of a block."""
        assert self.dtype is not None
        parts: list[Piece] = [(np.zeros((0, self.d), self.dtype), np.zeros(0), np.zeros(0, np.int64))]
        while count:
            if not self._whole:
                if not self._next():
                    raise InputError(
                        f"the records end after {self._seen:,} persons but {self._declared}: declare the number of persons that "
                        "there are. Nothing was released."
                    )
                continue
            features, target, each = self._whole.popleft()
            if len(each) > count:
                rows = int(each[:count].sum())
                self._whole.appendleft((features[rows:], target[rows:], each[count:]))
                features, target, each = features[:rows], target[:rows], each[:count]
            parts.append((features, target, each))
            count -= len(each)
            self.given += len(each)
        return tuple(np.concatenate(part) for part in zip(*parts, strict=True))  # type: ignore[return-value]

    def _next(self) -> bool:
        block = next(self._blocks, None)
        if block is None:
            return self._close()
        if len(block) != 3:
            raise InputError(f"a block has {len(block)} parts: expected features, target and groups, for records that are persons.")
        features, target = self._checked(*block[:2])
        groups = block[2]
        if len(target):
            self._divide(features.copy(), target.copy(), checked_groups(groups, len(target)))  # the caller may fill them anew
        return True

    def _divide(self, features: NDArray[Any], target: NDArray[Any], labels: NDArray[Any]) -> None:
        """Take in rows, the last of whose persons may go on in the next block."""
        starts = np.flatnonzero(np.concatenate([[True], labels[1:] != labels[:-1]]))
        if self._held and labels[0] == self._label:
            end = starts[1] if len(starts) > 1 else len(labels)
            self._held.append((features[:end], target[:end]))
            starts = starts[1:]
        if not len(starts):
            return
        self._close()
        first, last = starts[0], starts[-1]
        if last > first:
            self._add(features[first:last], target[first:last], np.diff(starts))
        self._held, self._label = [(features[last:], target[last:])], labels[-1]
        self._name(labels[starts])

    def _close(self) -> bool:
        """The held rows are all of their person; False where there are none."""
        if not self._held:
            return False
        features, target = (np.concatenate(part) for part in zip(*self._held, strict=True))
        self._held = []
        self._add(features, target, np.array([len(target)]))
        return True

    def _add(self, features: NDArray[Any], target: NDArray[Any], each: NDArray[np.int64]) -> None:
        if self._run.is_last_iterate:
            check_most_rows(int(each.max()))
        self._count(len(each))
        self._whole.append((features, target, each))

    def _name(self, labels: NDArray[Any]) -> None:
        """Remember new persons."""
        named = names_of(labels, self._key)
        if self._named and named.text != self._named[0].text:
            raise InputError("groups have texts in one place and numbers in another: expected one type.")
        self._named.append(named)
