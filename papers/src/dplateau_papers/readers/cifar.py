"""CIFAR-10's binary version: rows of one label and 3 x 1024 bytes of pixels."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from dplateau.data.examples import LabelledExamples
from dplateau.data.files import existing_file
from dplateau.spec import InputError
from dplateau_papers.readers.checks import check_classes, checked_part, existing_folder

SIDE: Final = 32
PIXELS: Final = 3 * SIDE * SIDE
ROW: Final = 1 + PIXELS
CLASSES: Final = 10
BATCHES: Final = {"train": tuple(f"data_batch_{i}" for i in range(1, 6)), "test": ("test_batch",)}


def read_cifar(folder: str | Path, part: str = "train") -> LabelledExamples:
    """Read CIFAR-10 from its binary version.

    The python version holds pickles, which can run any program when they are read, so it is refused.

    Parameters
    ----------
    folder : str or Path
        ``cifar-10-batches-bin``, with ``data_batch_1.bin`` to ``data_batch_5.bin`` and ``test_batch.bin``.
    part : {"train", "test"}, default "train"
        Which examples.

    Returns
    -------
    LabelledExamples
        ``x``: uint8, shape (n, 32, 32, 3), red, green and blue last; ``y``: uint8, shape (n,), 0 to 9.

    Raises
    ------
    InputError
        A file is missing, empty or damaged, or is of the python version.

    Notes
    -----
    Source: A. Krizhevsky, "The CIFAR-10 dataset", https://www.cs.toronto.edu/~kriz/cifar.html, section "Binary version".
    """
    folder = existing_folder(folder)
    paths = [_file(folder, name) for name in BATCHES[checked_part(part)]]
    sizes = [_rows(path) for path in paths]
    images, labels = np.empty((sum(sizes), SIDE, SIDE, 3), np.uint8), np.empty(sum(sizes), np.uint8)
    start = 0
    for path, size in zip(paths, sizes, strict=True):
        images[start : start + size], labels[start : start + size] = _batch(path, size)
        start += size
    return LabelledExamples(images, labels)


def _file(folder: Path, name: str) -> Path:
    path = folder / f"{name}.bin"
    if path.exists():
        return path
    if (folder / name).exists():
        raise InputError(
            f"{folder / name} is a pickle, which can run any program when it is read: expected CIFAR-10's binary version."
            " Fetch cifar-10-binary.tar.gz and unpack it."
        )
    raise InputError(f"{folder} has no {path.name}: expected CIFAR-10's binary version, the folder cifar-10-batches-bin.")


def _rows(path: Path) -> int:
    """The number of rows, from the size of the file."""
    size = existing_file(path).stat().st_size
    if size % ROW:
        raise InputError(f"{path} has {size:,} bytes, no multiple of the {ROW} of a row: it was cut off, or is something else.")
    return size // ROW


def _batch(path: Path, size: int) -> LabelledExamples:
    """One file of ``size`` rows; colours are moved last."""
    try:
        rows = np.fromfile(path, np.uint8)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or 'input/output error'}.") from None
    if rows.size != size * ROW:
        raise InputError(f"{path} changed while it was read: try again.")
    rows = rows.reshape(size, ROW)
    check_classes(path, rows[:, 0], CLASSES)
    return LabelledExamples(rows[:, 1:].reshape(size, 3, SIDE, SIDE).transpose(0, 2, 3, 1), rows[:, 0])
