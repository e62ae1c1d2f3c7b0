"""IDX, the format of MNIST and Fashion-MNIST: a magic number, the dimensions, and then the bytes of one array."""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

import numpy as np
from numpy.typing import NDArray

from dplateau.data.examples import LabelledExamples
from dplateau.data.files import existing_file
from dplateau.spec import InputError
from dplateau_papers.readers.checks import check_classes, checked_part, existing_folder

GZIP: Final = b"\x1f\x8b"
UNSIGNED_BYTE: Final = 8
PIECE: Final = 1 << 20
"""Bytes that are unpacked at a time, so that nothing but the array itself is large."""
LARGEST_RATIO: Final = 1032
"""No gzip file unpacks to more than so many times its size (the limit of DEFLATE)."""
NAMES: Final = {"train": "train", "test": "t10k"}
CLASSES: Final = 10


def read_idx(path: str | Path) -> NDArray[np.uint8]:
    """Read an IDX file of unsigned bytes, plain or compressed by gzip.

    Parameters
    ----------
    path : str or Path
        The file; its first bytes tell whether it is compressed.

    Returns
    -------
    array of uint8
        Of the dimensions that the file declares. Memory is needed for this array and 1 MB.

    Raises
    ------
    InputError
        The file is missing, empty, damaged or not IDX, holds another type than unsigned bytes, or is shorter or longer than its
        header says.

    Notes
    -----
    Source: Y. LeCun, C. Cortes, C. Burges, "The MNIST database of handwritten digits", section "File formats".
    """
    path = existing_file(path)
    with _opened(path) as (file, largest):
        shape = _shape(path, file)
        count = math.prod(shape)
        if count > largest:  # Before the array is made: a damaged header must not ask for the whole memory.
            raise InputError(f"{path} is shorter than its header says ({count:,} bytes of data): it was cut off, fetch it anew.")
        array = np.empty(count, np.uint8)
        rest = memoryview(array)  # type: ignore[arg-type]
        while rest:
            got = file.readinto(rest[:PIECE])  # type: ignore[attr-defined]
            if not got:
                raise InputError(f"{path} ends {len(rest):,} bytes before its header says: it was cut off, fetch it anew.")
            rest = rest[got:]
        if file.read(1):
            raise InputError(f"{path} goes on after the {count:,} bytes of data that its header says: fetch it anew.")
    return array.reshape(shape)


def read_mnist(folder: str | Path, part: str = "train") -> LabelledExamples:
    """Read MNIST, Fashion-MNIST, or another data set in their format.

    Parameters
    ----------
    folder : str or Path
        It holds ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte`` and the same with ``t10k``, plain or with ``.gz``.
    part : {"train", "test"}, default "train"
        Which examples.

    Returns
    -------
    LabelledExamples
        ``x``: uint8, shape (n, rows, columns), 0 to 255; ``y``: uint8, shape (n,), 0 to 9.

    Raises
    ------
    InputError
        A file is missing or damaged, or images and labels do not fit each other.
    """
    folder, name = existing_folder(folder), NAMES[checked_part(part)]
    image_file, label_file = (_file(folder, f"{name}-{what}-ubyte") for what in ("images-idx3", "labels-idx1"))
    images, labels = read_idx(image_file), read_idx(label_file)
    for path, array, dimensions in ((image_file, images, 3), (label_file, labels, 1)):
        if array.ndim != dimensions:
            raise InputError(f"{path} has {array.ndim} dimensions: expected {dimensions}, as MNIST has.")
    if len(images) != len(labels):
        raise InputError(f"{folder}: there are {len(images):,} images but {len(labels):,} labels: they do not belong together.")
    check_classes(label_file, labels, CLASSES)
    return LabelledExamples(images, labels)


def _file(folder: Path, name: str) -> Path:
    """The file of this name, compressed or not."""
    for path in (folder / name, folder / f"{name}.gz"):
        if path.exists():
            return path
    raise InputError(f"{folder} has neither {name} nor {name}.gz: expected the four files of MNIST or Fashion-MNIST.")


def _shape(path: Path, file: IO[bytes]) -> tuple[int, ...]:
    """The dimensions, from the header."""
    head = file.read(4)
    if len(head) < 4 or head[:2] != b"\0\0" or head[3] == 0:
        raise InputError(f"{path} is not an IDX file: expected the magic number 0, 0, type, dimensions in its first four bytes.")
    if head[2] != UNSIGNED_BYTE:
        raise InputError(f"{path} holds IDX type 0x{head[2]:02x}: expected unsigned bytes, 0x08.")
    sizes = file.read(4 * head[3])
    if len(sizes) < 4 * head[3]:
        raise InputError(f"{path} ends within its header: it was cut off, fetch it anew.")
    shape = tuple(int(size) for size in np.frombuffer(sizes, ">u4"))
    if 0 in shape or len(shape) > 32:
        raise InputError(f"{path} declares {len(shape)} dimensions, or none of its entries: expected an array that is not empty.")
    return shape


@contextmanager
def _opened(path: Path) -> Generator[tuple[IO[bytes], int]]:
    """The file, unpacked where it is compressed, and the largest number of bytes that it can hold."""
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            packed = file.read(2) == GZIP
            file.seek(0)
            if not packed:
                yield file, size
                return
            with gzip.GzipFile(fileobj=file, mode="rb") as unpacked:
                yield unpacked, size * LARGEST_RATIO  # type: ignore[misc]
    except EOFError:
        raise InputError(f"{path} is a gzip file that was cut off: fetch it anew.") from None
    except (gzip.BadGzipFile, zlib.error):
        raise InputError(f"{path} is a damaged gzip file: fetch it anew.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or 'input/output error'}.") from None
