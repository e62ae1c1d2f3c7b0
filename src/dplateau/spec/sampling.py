"""How the records of each step are chosen.

Batch sizes are public. Those of ``Poisson`` and ``RandomAllocation`` are *expected* sizes; the realised one depends on the records
and is never used. Each scheme says what callers need to know of it, so that they ask it and do not tell kinds apart:

=================  =====  =======  ========  =========  ====  ===========  ============  ======
kind               drawn  ordered  shuffled  allocated  full  random_size  epoch_length  period
=================  =====  =======  ========  =========  ====  ===========  ============  ======
poisson            yes    no       no        no         no    yes          1             1
fixed-size         yes    no       no        no         no    no           1             1
random-allocation  no     no       no        yes        no    yes          epoch         epoch
cyclic             no     yes      no        no         no    no           epoch         epoch
shuffled           no     no       yes       no         no    no           epoch         epoch
one-pass           no     yes      no        no         no    no           1             steps
full               no     no       no        no         yes   no           1             1
=================  =====  =======  ========  =========  ====  ===========  ============  ======
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from dplateau.spec.arguments import integer, real
from dplateau.spec.errors import InputError
from dplateau.spec.schedule import (
    Schedule,
    check_length,
    constant,
    entries,
    is_constant,
    largest,
    part,
    plain,
    schedule,
    smallest,
    window,
)
from dplateau.spec.shown import shown

_ROUNDING: Final = 1e-12
"""A quotient that is this near above a whole number is that number."""


@dataclass(frozen=True, repr=False)
class Sampling(ABC):
    """A batch scheme. Concrete schemes are final.

    Attributes
    ----------
    kind : str
        The name used in JSON and on the command line.
    drawn : bool
        Every step draws its batch afresh, independently of all other steps.
    ordered : bool
        The records' public order decides the batches.
    shuffled : bool
        The order is drawn afresh in every epoch.
    allocated : bool
        Every record draws one batch of each epoch, independently of all others.
    full : bool
        Every batch holds all records. Exactly one of these five holds.
    once : bool
        No record is used twice.
    random_size : bool
        A batch may be larger or smaller than its public size.
    """

    kind: ClassVar[str]
    drawn: ClassVar[bool] = False
    ordered: ClassVar[bool] = False
    shuffled: ClassVar[bool] = False
    allocated: ClassVar[bool] = False
    full: ClassVar[bool] = False
    once: ClassVar[bool] = False
    random_size: ClassVar[bool] = False

    def __repr__(self) -> str:
        return shown(self)

    @abstractmethod
    def check(self, n: int, steps: int) -> None:
        """Raise ``InputError`` unless the scheme can be run for ``steps`` steps on ``n`` records."""

    def epoch_steps(self, n: int) -> float:
        """Steps in one expected pass over ``n`` records (not always a whole number where batches are drawn)."""
        return self.epoch_length(n)

    def steps(self, n: int, epochs: float) -> int:
        """The whole number of steps that is nearest to ``epochs`` passes over ``n`` records, expected ones under random sampling.

        Raises
        ------
        InputError
            The scheme cannot be run on ``n`` records, has a batch size for every step, or ``epochs`` is less than half a step.
        """
        if self.by_step:
            raise InputError("batch_size has an entry for every step, so the number of steps is that of its entries.")
        self.check(integer("n", n), 1)
        passes, length = real("epochs", epochs), self.epoch_steps(n)
        if passes * length < 0.5:
            raise InputError(f"epochs is {passes:g}: that is less than half a step. Give at least {0.5 / length:.3g}.")
        return max(1, round(real("the number of steps", passes * length)))

    @abstractmethod
    def divisors(self, n: int) -> Schedule:
        """The public size that the summed gradient of a step is divided by: constant, or one a step (``Poisson``,
        ``FixedSize``, ``OnePass``) or one a batch of the epoch (``Cyclic``, ``Shuffled``).
        """

    def batch_sizes(self, n: int, first: int, last: int) -> NDArray[np.float64]:
        """Records in the batches of steps ``first`` to ``last``: expected ones where they are random, exact ones otherwise."""
        return window(self.divisors(n), first, last)

    def largest_likely(self, size: float) -> int:
        """A size that no batch of public size at most ``size`` exceeds: never, or hardly ever where sizes are random."""
        return math.ceil(size + 8 * math.sqrt(size) + 8) if self.random_size else int(size)

    def epoch_length(self, n: int) -> int:
        """Steps of an epoch, where the batches of every epoch partition the records; otherwise 1."""
        return 1

    def period(self, n: int, steps: int) -> int:
        """Steps after which a record may be used again: an epoch, all ``steps`` of one pass, or 1."""
        return self.epoch_length(n)

    def remainder(self, n: int) -> int:
        """Records in the last batch of an epoch where it is smaller than the public size; otherwise 0."""
        return 0

    def most_steps(self, n: int) -> float:
        """The number of steps that ``n`` records allow, infinite where they are used again."""
        return math.inf

    @property
    def by_step(self) -> bool:
        """Whether every step of the run has a size of its own."""
        return False

    def part(self, first: int, last: int) -> Sampling:
        """The scheme of steps ``first`` to ``last``; sizes of an epoch stay, sizes given step by step are cut."""
        return self

    def to_dict(self) -> dict[str, object]:
        """Plain data for JSON."""
        return {"kind": self.kind}


@dataclass(frozen=True, repr=False)
class _Sized(Sampling):
    """A scheme with batch sizes, of whole numbers where they are not random."""

    batch_size: Schedule

    def __post_init__(self) -> None:
        object.__setattr__(self, "batch_size", schedule("batch_size", self.batch_size))
        if self.random_size:
            return
        for size in entries(self.batch_size):
            if size != math.floor(size):
                raise InputError(f"batch_size {size:g} is not a whole number: batches of random size may have one.")

    @property
    def by_step(self) -> bool:
        return not is_constant(self.batch_size)

    def divisors(self, n: int) -> Schedule:
        return self.batch_size

    def part(self, first: int, last: int) -> Sampling:
        return replace(self, batch_size=part(self.batch_size, first, last)) if self.by_step else self

    def to_dict(self) -> dict[str, object]:
        return {"kind": self.kind, "batch_size": plain(self.batch_size)}

    def _check_largest(self, what: str, n: int) -> None:
        if (size := largest(self.batch_size)) > n:
            raise InputError(f"batch_size {size:g} exceeds n = {n}: {what} needs batches of at most n records. Lower batch_size.")


@dataclass(frozen=True, repr=False)
class _Drawn(_Sized):
    """A batch drawn afresh in every step."""

    drawn: ClassVar[bool] = True

    def epoch_steps(self, n: int) -> float:
        sizes = entries(self.batch_size)
        return n * len(sizes) / sum(sizes)


@dataclass(frozen=True, repr=False)
class Poisson(_Drawn):
    """Every record joins the batch of every step independently with probability ``batch_size / n``.

    Parameters
    ----------
    batch_size : float or sequence of float
        Expected number of records in a batch, at least 1, constant or one a step; it need not be a whole number. It is not a rate.
    """

    kind: ClassVar[str] = "poisson"
    random_size: ClassVar[bool] = True

    def check(self, n: int, steps: int) -> None:
        check_length("batch_size", self.batch_size, steps)
        self._check_largest("Poisson sampling", n)
        if (least := smallest(self.batch_size)) < 1:
            remedy = f"For a rate of {least:g} among n = {n} give batch_size {least * n:g}." if least * n >= 1 else "Raise it."
            raise InputError(
                f"batch_size {least:g} is below 1: expected a number of records, the mean size of a batch, and not a rate. {remedy}"
            )


@dataclass(frozen=True, repr=False)
class FixedSize(_Drawn):
    """Every step draws a fresh uniformly random subset of exactly ``batch_size`` records, without replacement.

    Parameters
    ----------
    batch_size : int or sequence of int
        Batch size, constant or one a step.
    """

    kind: ClassVar[str] = "fixed-size"

    def check(self, n: int, steps: int) -> None:
        check_length("batch_size", self.batch_size, steps)
        self._check_largest("fixed-size sampling", n)


@dataclass(frozen=True, repr=False)
class RandomAllocation(_Sized):
    """In every epoch each record draws one of its batches, uniformly and independently of all other records and epochs.

    Also known as balls-and-bins sampling (Chua et al. 2025) and as random allocation (Feldman, Shenfeld 2025). Every record is used
    once an epoch, as with ``Shuffled``, and its place is hidden, as with ``Poisson``. Sizes are random; no two records need know of
    each other. The divisor is ``n`` over the number of batches.

    Parameters
    ----------
    batch_size : float
        Expected number of records in a batch, at least 1 and constant. An epoch has ``n / batch_size`` batches, rounded up.
    """

    kind: ClassVar[str] = "random-allocation"
    allocated: ClassVar[bool] = True
    random_size: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_constant(self.batch_size):
            raise InputError("batch_size is a sequence: random allocation has batches of one expected size.")

    def check(self, n: int, steps: int) -> None:
        self._check_largest("random allocation", n)
        if (size := constant(self.batch_size)) < 1:
            raise InputError(f"batch_size {size:g} is below 1: expected a number of records, the mean size of a batch.")

    def epoch_length(self, n: int) -> int:
        return math.ceil(n / constant(self.batch_size) * (1 - _ROUNDING))

    def divisors(self, n: int) -> Schedule:
        return n / self.epoch_length(n)


@dataclass(frozen=True, repr=False)
class _Epochs(_Sized):
    """Batches that partition the records, epoch after epoch. A constant size leaves a smaller last batch where it does not
    divide n; that batch is divided by ``batch_size`` too, because the divisor is public and constant.
    """

    def check(self, n: int, steps: int) -> None:
        self._check_largest(f"{self.kind} sampling", n)
        if not is_constant(self.batch_size) and (total := sum(entries(self.batch_size))) != n:
            raise InputError(f"batch_size sums to {total:g} but n = {n}: the batches of one epoch must use every record once.")

    @property
    def by_step(self) -> bool:
        return False

    def epoch_length(self, n: int) -> int:
        return math.ceil(n / constant(self.batch_size)) if is_constant(self.batch_size) else len(entries(self.batch_size))

    def remainder(self, n: int) -> int:
        return int(n % constant(self.batch_size)) if is_constant(self.batch_size) else 0

    def batch_sizes(self, n: int, first: int, last: int) -> NDArray[np.float64]:
        sizes = window(self.batch_size, first, last)
        if rest := self.remainder(n):
            sizes[(np.arange(first, last) + 1) % self.epoch_length(n) == 0] = rest
        return sizes


@dataclass(frozen=True, repr=False)
class Cyclic(_Epochs):
    """Batches are consecutive blocks of the records in their given, public order, the same in every epoch.

    Parameters
    ----------
    batch_size : int or sequence of int
        Size of every batch, or the sizes of the batches of one epoch (they must sum to n).
    """

    kind: ClassVar[str] = "cyclic"
    ordered: ClassVar[bool] = True


@dataclass(frozen=True, repr=False)
class Shuffled(_Epochs):
    """As ``Cyclic``, but the order is drawn afresh, uniformly, at the start of every epoch.

    Parameters
    ----------
    batch_size : int or sequence of int
        Size of every batch, or the sizes of the batches of one epoch (they must sum to n).
    """

    kind: ClassVar[str] = "shuffled"
    shuffled: ClassVar[bool] = True


@dataclass(frozen=True, repr=False)
class OnePass(_Sized):
    """Every record is used at most once: step t takes the next ``batch_size[t]`` records in their given, public order.

    Parameters
    ----------
    batch_size : int or sequence of int
        Batch size, constant or one a step; the sum over the steps is at most n.
    """

    kind: ClassVar[str] = "one-pass"
    ordered: ClassVar[bool] = True
    once: ClassVar[bool] = True

    def check(self, n: int, steps: int) -> None:
        check_length("batch_size", self.batch_size, steps)
        sizes = entries(self.batch_size)
        used = sizes[0] * steps if is_constant(self.batch_size) else sum(sizes)
        if used > n:
            raise InputError(f"one pass needs {used:g} records for {steps} steps but n = {n}: lower batch_size or steps.")

    def epoch_steps(self, n: int) -> float:
        return n // constant(self.batch_size) if is_constant(self.batch_size) else len(entries(self.batch_size))

    def period(self, n: int, steps: int) -> int:
        return steps

    def most_steps(self, n: int) -> float:
        return self.epoch_steps(n)


@dataclass(frozen=True, repr=False)
class FullBatch(Sampling):
    """Every step uses every record."""

    kind: ClassVar[str] = "full"
    full: ClassVar[bool] = True

    def check(self, n: int, steps: int) -> None:
        return None

    def divisors(self, n: int) -> Schedule:
        return float(n)


_ALL: Final = (Poisson, FixedSize, RandomAllocation, Cyclic, Shuffled, OnePass, FullBatch)
SAMPLINGS: dict[str, type[Sampling]] = {scheme.kind: scheme for scheme in _ALL}


def sampling_from_dict(data: object) -> Sampling:
    """The scheme that ``Sampling.to_dict`` wrote; raises ``InputError`` on anything else."""
    if not isinstance(data, dict) or data.get("kind") not in tuple(SAMPLINGS):
        raise InputError(f"sampling must be an object whose 'kind' is one of {', '.join(SAMPLINGS)}.")
    scheme = SAMPLINGS[data["kind"]]
    given, wanted = set(data) - {"kind"}, set() if scheme is FullBatch else {"batch_size"}
    if given != wanted:
        raise InputError(f"sampling of kind '{scheme.kind}' has the fields {sorted(given)}: expected {sorted(wanted)}.")
    return scheme(**{key: data[key] for key in wanted})
