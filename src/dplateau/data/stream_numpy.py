"""A ``.npy`` array in pieces. It is read and not mapped: a mapped file that shrinks ends the process without a message."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dplateau.data.files import existing_file
from dplateau.data.readers import array_table, array_width
from dplateau.data.rows import count_not_finite
from dplateau.data.schema import Schema
from dplateau.files import reading
from dplateau.spec import InputError

if TYPE_CHECKING:
    import pyarrow as pa

HEADERS: Final = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def count_npy(path: Path, schema: Schema) -> int:
    """The number of rows of a ``.npy`` file, from its header."""
    return _header(path, schema)[0]


def npy_pieces(path: Path, schema: Schema, rows: int) -> Iterator[pa.Table]:
    """The rows of a ``.npy`` array of shape (n, width + 1), the target last, ``rows`` at a time.

    Raises
    ------
    InputError
        The file is damaged, ends early, holds something else than numbers in C order, or numbers that are NaN or infinite.
    """
    n, dtype, offset = _header(path, schema)
    width = array_width(schema)
    with reading(path), path.open("rb") as file:
        file.seek(offset)
        for start in range(0, n, rows):
            count = min(rows, n - start)
            block = np.fromfile(file, dtype, count * (width + 1))
            if block.size < count * (width + 1):
                raise InputError(
                    f"{path} ends after {start + block.size // (width + 1)} rows where its header says {n}: write it anew."
                )
            block = block.reshape(count, width + 1)
            if block.dtype.kind == "f" and (bad := count_not_finite(block)):
                raise InputError(
                    f"{path}, rows {start + 1} to {start + count}: {bad} rows are NaN or infinite: expected finite numbers."
                    " Repair or drop them."
                )
            yield array_table(schema, block[:, :-1], block[:, -1])
        if file.read(1):
            raise InputError(f"{path} goes on after the {n} rows that its header says: write it anew.")


def _header(path: Path, schema: Schema) -> tuple[int, np.dtype[Any], int]:
    """The number of rows, their type, and where they begin."""
    existing_file(path)
    try:
        with path.open("rb") as file:
            shape, by_columns, dtype = HEADERS[np.lib.format.read_magic(file)](file)
            offset = file.tell()
    except Exception:  # NumPy parses the header as Python, and raises many types on damaged files
        raise InputError(f"{path} is not a NumPy file, or is damaged: expected .npy with one array.") from None
    width = array_width(schema)
    if len(shape) != 2 or shape[0] < 0 or shape[1] != width + 1:
        raise InputError(f"{path} has shape {shape}: expected (n, {width + 1}), the declared features and then the target.")
    if dtype.kind not in "biuf":
        raise InputError(f"{path} has type {dtype}: expected numbers.")
    if by_columns and shape[0] > 1:
        raise InputError(f"{path} is stored column by column: save numpy.ascontiguousarray(array) to read it row by row.")
    return shape[0], dtype, offset
