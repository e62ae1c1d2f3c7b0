"""LIBSVM text (``label index:value ...``, indices from 1 and increasing) to dense arrays."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dplateau.data.files import read_bytes
from dplateau.spec import InputError

LARGEST: Final = float(np.finfo(np.float32).max)


def read_libsvm(path: Path, size: int) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Read a LIBSVM file.

    Parameters
    ----------
    path : Path
        The file. Text after ``#`` is a comment.
    size : int
        The declared number of features: the largest index in the file would be a statistic of its rows.

    Returns
    -------
    features : array, shape (n, size)
        Dense features; what a line does not mention is 0.
    target : array, shape (n,)
        The labels, as numbers.

    Raises
    ------
    InputError
        A line is not LIBSVM, an index is out of range or out of order, or a value is NaN or infinite. Only line numbers are named.
    """
    lines = read_bytes(path).split(b"\n")  # a carriage return within a line begins no row
    rows = [(number, text) for number, line in enumerate(lines, 1) if (text := line.partition(b"#")[0].split())]
    if not rows:
        raise InputError(f"{path} has no rows: expected at least one.")
    features = np.zeros((len(rows), size), dtype=np.float32)
    target = np.empty(len(rows))
    for row, (number, (label, *pairs)) in enumerate(rows):
        try:
            if b"_" in b"".join((label, *pairs)):  # which Python takes for a part of a number
                raise ValueError
            indices, values = _pairs(pairs)
            target[row] = float(label)
        except ValueError:
            raise InputError(f"{path}, line {number}: expected a numeric label and then index:value pairs.") from None
        if any(not 1 <= index <= size for index in indices):
            raise InputError(f"{path}, line {number}: a feature index is not between 1 and the declared {size}.")
        if any(a >= b for a, b in pairwise(indices)):
            raise InputError(f"{path}, line {number}: feature indices do not increase: LIBSVM wants each index once, in order.")
        if not all(map(math.isfinite, (target[row], *values))) or max(map(abs, values), default=0.0) > LARGEST:
            raise InputError(f"{path}, line {number}: a value is NaN or infinite (or beyond float32): expected finite numbers.")
        features[row, [index - 1 for index in indices]] = values
    return features, target


def _pairs(pairs: list[bytes]) -> tuple[list[int], list[float]]:
    parts = [pair.partition(b":") for pair in pairs]
    return [int(index) for index, _, _ in parts], [float(value) for _, _, value in parts]
