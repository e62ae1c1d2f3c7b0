"""Persons with several rows: which rows are whose, and the rows of batches that were drawn of persons."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dplateau.losses import GeneralisedLinearLoss
from dplateau.spec import InputError, Run
from dplateau.training.batches import Batches
from dplateau.training.checks import records_of

MOST_ROWS: Final = 1 << 10
"""Of a person, where a bound counts on the rounding of each row."""
INTERLEAVED: Final = (
    "some person's rows do not follow one another, and persons are taken in a fixed order, which may not depend on how many rows a "
    "person has: sort the rows by person, in an order that does not depend on what they say, or choose batches that are drawn "
    "(solver noisy-sgd). Nothing was released."
)
_KINDS: Final = "biufUSTO"
_LOWER: Final = 1 - 2.0**-50
"""A factor that pays for a quotient and three products, each right to 2^-53."""


class Persons(NamedTuple):
    """The rows of n persons; made by ``persons_of``.

    ``order`` (N,) lists the rows, those of a person next to one another, the persons by the first row of each; those of person i
    stand from ``starts[i]`` to ``starts[i + 1]``, of shape (n + 1,).
    """

    order: NDArray[np.int32]
    starts: NDArray[np.int64]

    @property
    def n(self) -> int:
        """How many persons there are."""
        return len(self.starts) - 1

    @property
    def counts(self) -> NDArray[np.int64]:
        """Rows of each person, shape (n,)."""
        return np.diff(self.starts)

    @property
    def mean(self) -> float:
        """Rows of a person, on average."""
        return len(self.order) / self.n

    def sizes(self) -> NDArray[np.float64]:
        """For each row, in the order in which it was given, how many rows its person has; shape (N,)."""
        found = np.empty(len(self.order))
        found[self.order] = np.repeat(self.counts, self.counts)
        return found

    def shares(self) -> NDArray[np.float64]:
        """For each row, in ``order``, at most one over the number of its person's rows, which add up to 1 or less."""
        return np.repeat(np.where(self.counts > 1, _LOWER / self.counts, 1.0), self.counts)

    def among(self, first: int, stop: int) -> Persons:
        """Persons ``first`` to ``stop``, alone, and their rows numbered from 0 in ``order``."""
        starts = self.starts[first : stop + 1] - self.starts[first]
        return Persons(np.arange(starts[-1], dtype=np.int32), starts)

    def rows_of(self, plan: Batches) -> Batches:
        """Batches of persons as batches of their rows."""
        each = self.counts[plan.records]
        after = np.concatenate([[0], np.cumsum(each)])
        places = np.arange(after[-1]) + np.repeat(self.starts[plan.records] - after[:-1], each)
        return Batches(self.order[places], np.diff(after[np.concatenate([[0], np.cumsum(plan.counts)])]).astype(np.int32))


class Names(NamedTuple):
    """Labels of persons, by which they are told apart: shape (k,). Those of texts are hashes."""

    text: bool
    numbers: NDArray[np.int64]


def twice(numbers: NDArray[np.int64]) -> bool:
    """Whether a number occurs more than once."""
    numbers = np.sort(numbers)
    return bool((numbers[1:] == numbers[:-1]).any())


def names_of(labels: NDArray[Any], key: bytes) -> Names:
    """Checked labels as 64-bit numbers, those of texts by a hash with a ``key`` of 16 bytes.

    Raises
    ------
    InputError
        There are texts and numbers, or numbers of more than 64 bits.
    """
    text = isinstance(labels[0], str | bytes)
    if labels.dtype.kind == "O" and any(isinstance(one, str) != text for one in labels):
        raise InputError("groups have texts in one place and numbers in another: expected one type.")
    if not text:
        try:
            return Names(False, labels.astype(np.int64))
        except OverflowError:
            raise InputError("groups have whole numbers of more than 64 bits: use texts.") from None
    words = (one if isinstance(one, bytes) else one.encode("utf-8", "surrogatepass") for one in labels.tolist())
    hashes = b"".join(blake2b(word, digest_size=8, key=key).digest() for word in words)
    return Names(True, np.frombuffer(hashes, np.int64))


def persons_of(run: Run, groups: ArrayLike | None, rows: int, *, part: bool = False) -> Persons | None:
    """Whose each of so many rows is, after checking that there are ``run.n`` persons, or a ``part`` of them; None where records
    are rows.

    Raises
    ------
    InputError
        See ``check_unit``, ``codes_of``, ``check_followed``; or there are more or fewer persons than ``run.n``, or too many rows.
    """
    check_unit(run, groups)
    if groups is None:
        return None
    if rows >= 1 << 31:
        raise InputError(f"there are {rows} rows: training in memory takes fewer than 2^31.")
    codes = codes_of(groups, rows)
    counts = np.bincount(codes)
    if len(counts) != run.n and not part:
        raise InputError(f"groups name {len(counts)} persons but the run has n = {run.n}: the run must describe this data set.")
    check_followed(run, codes)
    if run.is_last_iterate:
        check_most_rows(int(counts.max(initial=0)))
    return Persons(np.argsort(codes, kind="stable").astype(np.int32), np.concatenate([[0], np.cumsum(counts)]))


def check_unit(run: Run, groups: object) -> None:
    """Raise ``InputError`` unless labels of persons are given where the run is about persons, and nowhere else."""
    if run.unit == "person" and groups is None:
        raise InputError("a record of the run is a person: give groups, one label a row that says whose it is.")
    if run.unit != "person" and groups is not None:
        raise InputError("groups are given, and a record of the run is a row: use a run with unit='person'.")


def codes_of(groups: ArrayLike, rows: int) -> NDArray[np.int64]:
    """The number of each row's person, shape (rows,); persons are numbered from 0 by the first row of each.

    Raises
    ------
    InputError
        There is not one label a row, a label is missing, or labels are neither texts nor numbers. No label is quoted.
    """
    labels = checked_groups(groups, rows)
    try:
        _, first, codes = np.unique(labels, return_index=True, return_inverse=True)
    except TypeError:
        raise InputError("groups have labels of several types: expected texts only, or whole numbers only.") from None
    number = np.empty(len(first), np.int64)
    number[np.argsort(first)] = np.arange(len(first))
    return number[codes.reshape(-1)]


def check_followed(run: Run, codes: NDArray[np.int64]) -> None:
    """Raise ``InputError`` where persons are taken in a fixed order, and rows of one do not follow one another by ``codes_of``.

    Persons come in the order of their first rows. Among rows of others, a row less of a person could move that person, and with it
    all persons in between: every batch would tell of it, and bounds for a fixed order count one.
    """
    if run.sampling.ordered and interleaved(codes):
        raise InputError(INTERLEAVED)


def interleaved(codes: NDArray[np.int64]) -> bool:
    """Whether some person has rows of others in between, by ``codes_of``."""
    return bool((codes[1:] < codes[:-1]).any())


def checked_groups(groups: ArrayLike, rows: int) -> NDArray[Any]:
    """The labels as an array of shape (rows,), after checking that there is one a row and none is missing."""
    # In a list, numpy would turn the number 1 into the text "1".
    labels = np.asarray(groups, None if hasattr(groups, "dtype") else object)
    if labels.shape != (rows,):
        raise InputError(f"groups have shape {labels.shape}: expected one label for each of the {rows} rows.")
    if labels.dtype.kind not in _KINDS:
        raise InputError(f"groups have type {labels.dtype}: expected texts or whole numbers.")
    missing = np.zeros(0, bool)
    if labels.dtype.kind == "f":  # beyond 2^53 (float32: 2^24) two whole numbers may be one
        missing = ~((abs(labels) < np.ldexp(1.0, np.finfo(labels.dtype).nmant + 1)) & (labels == np.floor(labels)))
    elif labels.dtype.kind in "OT":
        missing = np.array([not isinstance(one, (str, int, np.integer)) or isinstance(one, bool) for one in labels], bool)
    if isinstance(groups, np.ma.MaskedArray) and np.ma.is_masked(groups):
        missing = np.ma.getmaskarray(groups)
    if bad := int(missing.sum()):
        raise InputError(f"{bad} of {rows} rows have no label in groups, or one that is neither text nor number: say whose.")
    return labels


def check_most_rows(rows: int) -> None:
    """Raise ``InputError`` where a person has more rows than a bound on rounding allows for."""
    if rows > MOST_ROWS:
        raise InputError(
            f"some person has more than {MOST_ROWS:,} rows, and the bound on rounding allows for no more: keep fewer, by a rule "
            "that looks at that person alone, or use solver noisy-sgd. Nothing was released."
        )


def block_of_persons(
    run: Run, loss: GeneralisedLinearLoss, features: ArrayLike, target: ArrayLike, groups: ArrayLike | None, *, part: bool = False
) -> tuple[NDArray[Any], ...]:
    """All records, or a ``part`` of them, as one block, in their order; those of persons with the number of each row's person, or
    its label.
    """
    rows, labels = records_of(loss, features, target)
    persons = persons_of(run, groups, len(rows), part=part)
    if persons is None or groups is None:
        return rows, labels
    whose = checked_groups(groups, len(rows))[persons.order] if part else np.repeat(np.arange(run.n), persons.counts)
    return rows[persons.order], labels[persons.order], whose
