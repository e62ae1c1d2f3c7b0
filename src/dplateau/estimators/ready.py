"""What is fitted: ``Stream``, rows in blocks, with ``ReadyStream``; and ``Ready``, rows in memory that were checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dplateau.losses.named import ChosenLoss
from dplateau.spec import Assumption

Weights = tuple[NDArray[np.float64], NDArray[np.float64]]


class Stream(Protocol):
    """Records that are read in blocks: their public number and width, their order in words, and how to read them."""

    @property
    def n(self) -> int:
        """Number of records."""
        ...

    @property
    def d(self) -> int:
        """Number of features."""
        ...

    @property
    def order(self) -> str:
        """How the rows are ordered, for the certificate."""
        ...

    def blocks(self) -> Iterable[tuple[NDArray[Any], ...]]:
        """Pieces ``(features, target)`` of any lengths, n rows in all; every call begins anew with the first row.

        Where a stream's ``unit`` is "person" they are ``(features, target, groups)``, and n counts persons.
        """
        ...


class ReadyStream(NamedTuple):
    """What a fit does with the records of a stream."""

    prepared: Callable[[NDArray[Any]], NDArray[Any]]
    """Makes numbers of targets."""
    chosen: ChosenLoss
    assumptions: tuple[Assumption, ...]
    finished: Callable[[Weights], Any]
    """Sets the fitted attributes."""


class Ready(NamedTuple):
    """Checked data, and what a fit does with them."""

    rows: NDArray[Any]
    target: NDArray[Any]
    chosen: ChosenLoss
    assumptions: tuple[Assumption, ...]
    uncertified: str | None
    persons: NDArray[Any] | None
    """Whose each row is, where records are persons: the number of a person or, of several processes, the label."""
    finished: Callable[[Weights], Any]
    """Sets the fitted attributes."""
    total: int | None = None
    """Records of all processes, where several train together."""

    @property
    def n(self) -> int:
        """Number of records, of all processes where several train together."""
        if self.total is not None:
            return self.total
        return len(self.rows) if self.persons is None else int(self.persons.max()) + 1

    @property
    def unit(self) -> str:
        """What a record is."""
        return "row" if self.persons is None else "person"
