"""NumPy files to arrays: ``.npz`` with arrays ``X`` and ``y``, or one ``.npy`` array whose last column is the target."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dplateau.data.files import existing_file
from dplateau.data.rows import count_not_finite
from dplateau.spec import InputError


def read_numpy(path: Path, width: int, *, labelled: bool = True) -> tuple[NDArray[Any], NDArray[Any]]:
    """Read features and target from a NumPy file. Pickled objects are refused.

    Parameters
    ----------
    path : Path
        ``.npz`` with ``X``, shape (n, width), and ``y``, shape (n,); or ``.npy``, shape (n, width + 1), with the target last.
    width : int
        The declared number of features.
    labelled : bool, default True
        Whether the target is wanted. Otherwise the file may lack it, and zeros stand for it.

    Returns
    -------
    features : array, shape (n, width)
        Numbers.
    target : array, shape (n,)
        Numbers or, from ``.npz``, texts.

    Raises
    ------
    InputError
        The file is damaged, or arrays are missing, of other shapes, not numeric, NaN or infinite.
    """
    existing_file(path)
    try:
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                alone = not labelled and loaded.shape[1:] == (width,)
                features, target = (loaded, loaded[:, 0]) if alone else _split(path, loaded)
            else:
                if absent := [name for name in (("X", "y") if labelled else ("X",)) if name not in loaded]:
                    raise InputError(f"{path} lacks the array {absent[0]!r}: expected X (features) and y (target).")
                features = loaded["X"]
                target = loaded["y"] if labelled else features
    except InputError:
        raise
    except Exception:  # zipfile, zlib, tokenize and NumPy raise a dozen types on damaged files
        raise InputError(
            f"{path} is not a NumPy file, is damaged, or holds pickled objects: expected .npz with X and y, or .npy."
        ) from None
    if features.ndim != 2 or features.shape[1] != width:
        raise InputError(f"{path}: the features have shape {features.shape}: expected (n, {width}), as the schema declares.")
    if not labelled:
        target = np.zeros(len(features))
    if target.shape == (len(features), 1):
        target = target[:, 0]
    if target.shape != (len(features),):
        raise InputError(f"{path}: y has shape {target.shape}: expected ({len(features)},), one entry a row of X.")
    if len(features) == 0:
        raise InputError(f"{path} has no rows: expected at least one.")
    if features.dtype.kind not in "biuf" or target.dtype.kind not in "biufU":
        raise InputError(
            f"{path}: X has type {features.dtype.kind!r} and y has type {target.dtype.kind!r}: expected numbers (y may be text)."
        )
    for name, array in (("X", features), ("y", target)):
        if array.dtype.kind == "f" and (bad := count_not_finite(array)):
            raise InputError(f"{path}: {name} is NaN or infinite in {bad} rows: expected finite numbers. Repair or drop them.")
    return features, target


def _split(path: Path, array: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    if array.ndim != 2:
        raise InputError(f"{path} has shape {array.shape}: expected two dimensions, the last column being the target.")
    return array[:, :-1], array[:, -1]
