"""How an estimator reads a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from dplateau.data.row_stream import RowStream
from dplateau.estimators.ready import Stream
from dplateau.spec import InputError


def check_stream(stream: object) -> None:
    """Raise ``InputError`` unless it can be read in blocks."""
    if not hasattr(stream, "blocks"):
        raise InputError(f"the stream is of type {type(stream).__name__}: expected what open_stream(path, schema) returns.")


def blocks_of(stream: Stream, norm: float, *, once: bool) -> tuple[bool, Callable[[], Iterable[tuple[Any, ...]]]]:
    """Whether the stream has made sure that no row is longer than ``norm``, and how to read its blocks.

    Where it has, and rows are used ``once``, plain numbers come as ``Columns``, which ``dplateau.training`` encodes.
    """
    if not (isinstance(stream, RowStream) and stream.bounded and stream.feature_norm and stream.feature_norm <= norm):
        return False, partial(_whole_blocks, stream)
    return True, stream.unplaced if once else stream.blocks


def _whole_blocks(stream: Stream) -> Iterator[tuple[Any, ...]]:
    """The blocks of a stream; raises ``InputError`` where one lacks a part or has another width than the stream says."""
    for block in stream.blocks():
        if not isinstance(block, (tuple, list)) or len(block) < 2:
            raise InputError("a block of the stream is not (features, target): expected two arrays. Nothing was released.")
        shape = getattr(block[0], "shape", ())
        if len(shape) == 2 and shape[1] != stream.d:
            raise InputError(f"a block has {shape[1]} features, and the stream says {stream.d}. Nothing was released.")
        yield tuple(block)
