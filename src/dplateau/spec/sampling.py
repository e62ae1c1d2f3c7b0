"""How the records of each step are chosen.

Batch sizes are public. ``Poisson`` sizes are *expected* sizes; the realised one depends on the records and is never used.
Each scheme says what one epoch is, so that ``steps`` can be counted in epochs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from dplateau.spec.errors import InputError
from dplateau.spec.schedule import Schedule, check_length, schedule


class Sampling(ABC):
    """A batch scheme. Concrete schemes are final; ``kind`` is the name used in JSON and on the command line."""

    kind: ClassVar[str]

    @abstractmethod
    def check(self, n: int, steps: int) -> None:
        """Raise ``InputError`` unless the scheme can be run for ``steps`` steps on ``n`` records."""

    @abstractmethod
    def epoch_steps(self, n: int) -> float:
        """Steps in one expected pass over ``n`` records (not always a whole number under random sampling)."""

    @abstractmethod
    def divisors(self, n: int) -> Schedule:
        """The public size that the summed gradient of a step is divided by: constant, or one a step (``Poisson``,
        ``FixedSize``, ``OnePass``) or one a batch of the epoch (``Cyclic``, ``Shuffled``).
        """

    def to_dict(self) -> dict[str, object]:
        """Plain data for JSON."""
        size = getattr(self, "batch_size", None)
        return (
            {"kind": self.kind}
            if size is None
            else {"kind": self.kind, "batch_size": list(size) if isinstance(size, tuple) else size}
        )


def _check_sizes(what: str, sizes: Schedule, n: int) -> None:
    largest = max(sizes) if isinstance(sizes, tuple) else sizes
    if largest > n:
        raise InputError(f"batch_size {largest:g} exceeds n = {n}: {what} needs batches of at most n records. Lower batch_size.")


def _check_expected(sizes: Schedule, n: int) -> None:
    least = min(sizes) if isinstance(sizes, tuple) else sizes
    if least < 1:
        remedy = f"For a rate of {least:g} among n = {n} give batch_size {least * n:g}." if least * n >= 1 else "Raise it."
        raise InputError(
            f"batch_size {least:g} is below 1: expected a number of records, the mean size of a batch, and not a rate. {remedy}"
        )


def _whole(sizes: Schedule) -> Schedule:
    for size in sizes if isinstance(sizes, tuple) else (sizes,):
        if size != math.floor(size):
            raise InputError(f"batch_size {size:g} is not a whole number: only Poisson batches have fractional expected sizes.")
    return sizes


@dataclass(frozen=True)
class Poisson(Sampling):
    """Every record joins the batch of every step independently with probability ``batch_size / n``.

    Parameters
    ----------
    batch_size : float or sequence of float
        Expected number of records in a batch, at least 1, constant or one a step; it need not be a whole number. It is no rate.
    """

    batch_size: Schedule
    kind: ClassVar[str] = "poisson"

    def __post_init__(self) -> None:
        object.__setattr__(self, "batch_size", schedule("batch_size", self.batch_size))

    def check(self, n: int, steps: int) -> None:
        check_length("batch_size", self.batch_size, steps)
        _check_sizes("Poisson sampling", self.batch_size, n)
        _check_expected(self.batch_size, n)

    def epoch_steps(self, n: int) -> float:
        return n * len(self.batch_size) / sum(self.batch_size) if isinstance(self.batch_size, tuple) else n / self.batch_size

    def divisors(self, n: int) -> Schedule:
        return self.batch_size


@dataclass(frozen=True)
class FixedSize(Sampling):
    """Every step draws a fresh uniformly random subset of exactly ``batch_size`` records, without replacement.

    Parameters
    ----------
    batch_size : int or sequence of int
        Batch size, constant or one a step.
    """

    batch_size: Schedule
    kind: ClassVar[str] = "fixed-size"

    def __post_init__(self) -> None:
        object.__setattr__(self, "batch_size", _whole(schedule("batch_size", self.batch_size)))

    def check(self, n: int, steps: int) -> None:
        check_length("batch_size", self.batch_size, steps)
        _check_sizes("fixed-size sampling", self.batch_size, n)

    def epoch_steps(self, n: int) -> float:
        return n * len(self.batch_size) / sum(self.batch_size) if isinstance(self.batch_size, tuple) else n / self.batch_size

    def divisors(self, n: int) -> Schedule:
        return self.batch_size


@dataclass(frozen=True)
class _Epochs(Sampling):
    """Batches that partition the records, epoch after epoch. A constant size leaves a smaller last batch where it does not
    divide n; that batch is divided by ``batch_size`` too, because the divisor is public and constant.
    """

    batch_size: Schedule

    def __post_init__(self) -> None:
        object.__setattr__(self, "batch_size", _whole(schedule("batch_size", self.batch_size)))

    def check(self, n: int, steps: int) -> None:
        _check_sizes(f"{self.kind} sampling", self.batch_size, n)
        if isinstance(self.batch_size, tuple) and sum(self.batch_size) != n:
            raise InputError(
                f"batch_size sums to {sum(self.batch_size):g} but n = {n}: the batches of one epoch must use every record once."
            )

    def epoch_steps(self, n: int) -> float:
        return len(self.batch_size) if isinstance(self.batch_size, tuple) else math.ceil(n / self.batch_size)

    def divisors(self, n: int) -> Schedule:
        return self.batch_size


@dataclass(frozen=True)
class Cyclic(_Epochs):
    """Batches are consecutive blocks of the records in their given, public order, the same in every epoch.

    Parameters
    ----------
    batch_size : int or sequence of int
        Size of every batch, or the sizes of the batches of one epoch (they must sum to n).
    """

    kind: ClassVar[str] = "cyclic"


@dataclass(frozen=True)
class Shuffled(_Epochs):
    """As ``Cyclic``, but the order is drawn afresh, uniformly, at the start of every epoch.

    Parameters
    ----------
    batch_size : int or sequence of int
        Size of every batch, or the sizes of the batches of one epoch (they must sum to n).
    """

    kind: ClassVar[str] = "shuffled"


@dataclass(frozen=True)
class OnePass(Sampling):
    """Every record is used at most once: step t takes the next ``batch_size[t]`` records in their given, public order.

    Parameters
    ----------
    batch_size : int or sequence of int
        Batch size, constant or one a step; the sum over the steps is at most n.
    """

    batch_size: Schedule
    kind: ClassVar[str] = "one-pass"

    def __post_init__(self) -> None:
        object.__setattr__(self, "batch_size", _whole(schedule("batch_size", self.batch_size)))

    def check(self, n: int, steps: int) -> None:
        check_length("batch_size", self.batch_size, steps)
        used = sum(self.batch_size) if isinstance(self.batch_size, tuple) else self.batch_size * steps
        if used > n:
            raise InputError(f"one pass needs {used:g} records for {steps} steps but n = {n}: lower batch_size or steps.")

    def epoch_steps(self, n: int) -> float:
        return len(self.batch_size) if isinstance(self.batch_size, tuple) else n // self.batch_size

    def divisors(self, n: int) -> Schedule:
        return self.batch_size


@dataclass(frozen=True)
class FullBatch(Sampling):
    """Every step uses every record."""

    kind: ClassVar[str] = "full"

    def check(self, n: int, steps: int) -> None:
        return None

    def epoch_steps(self, n: int) -> float:
        return 1

    def divisors(self, n: int) -> Schedule:
        return float(n)


SAMPLINGS: dict[str, type[Sampling]] = {s.kind: s for s in (Poisson, FixedSize, Cyclic, Shuffled, OnePass, FullBatch)}


def sampling_from_dict(data: object) -> Sampling:
    """The scheme that ``Sampling.to_dict`` wrote; raises ``InputError`` on anything else."""
    if not isinstance(data, dict) or data.get("kind") not in tuple(SAMPLINGS):
        raise InputError(f"sampling must be an object whose 'kind' is one of {', '.join(SAMPLINGS)}.")
    scheme = SAMPLINGS[data["kind"]]
    given, wanted = set(data) - {"kind"}, set() if scheme is FullBatch else {"batch_size"}
    if given != wanted:
        raise InputError(f"sampling of kind '{scheme.kind}' has the fields {sorted(given)}: expected {sorted(wanted)}.")
    return scheme(**{key: data[key] for key in wanted})
