"""What an estimator needs of a stream, and how it reads one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from numpy.typing import NDArray

from dplateau.data.row_stream import RowStream


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


def blocks_of(stream: Stream, norm: float, *, once: bool) -> tuple[bool, Callable[[], Iterable[tuple[Any, ...]]]]:
    """Whether the stream has made sure that no row is longer than ``norm``, and how to read its blocks.

    Where it has, and rows are used ``once``, plain numbers come as ``Columns``, which ``dplateau.training`` encodes.
    """
    if not (isinstance(stream, RowStream) and stream.bounded and stream.feature_norm and stream.feature_norm <= norm):
        return False, stream.blocks
    return True, stream.unplaced if once else stream.blocks
