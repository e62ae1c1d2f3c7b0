"""The model that lies beside a certificate: whether it is the one that was certified."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dplateau.certificate.certificate import Certificate
from dplateau.certificate.weights import Entry, arrays_of, check_digest, digest_of
from dplateau.spec import ContradictionError, InputError

ABOUT: Final = "model.json"
"""The file that makes a folder one of a model."""
TEST: Final = "test.json"
"""The file that makes a folder one of a private test."""
WEIGHTS: Final = "weights.npz"
SCHEMA: Final = "schema.toml"
BITS: Final = "bfloat16"


def read_weights(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a ``weights.npz``; raises ``InputError`` where it is missing, damaged, or holds objects."""
    try:
        if not path.is_file():  # a pipe would be waited for
            raise FileNotFoundError
        with np.load(path, allow_pickle=False) as arrays:
            return {name: np.asarray(arrays[name]) for name in arrays.files}
    except Exception:  # zipfile, zlib, tokenize and NumPy raise a dozen types on damaged files
        raise InputError(f"{path} is missing or damaged: expected the arrays that train wrote.") from None


def check_beside(certificate: Certificate, path: Path) -> None:
    """Check weights and schema of the model that lies beside a certificate file, where there is one.

    Raises
    ------
    ContradictionError
        They are not those that the certificate is about.
    InputError
        They cannot be read.
    """
    folder = path.parent
    if any((folder / name).is_file() for name in (ABOUT, TEST)):
        if certificate.weights_sha256 is not None and (folder / WEIGHTS).is_file():
            check_model(certificate, folder, read_weights(folder / WEIGHTS))
        if certificate.schema_sha256 is not None and (folder / SCHEMA).is_file():
            from dplateau.data import load_schema
            from dplateau.data.schema_digest import schema_digest

            check_schema(certificate, folder, schema_digest(load_schema(folder / SCHEMA)))


def stored(weights: Any) -> dict[str, NDArray[Any]]:
    """The arrays of a tree as a ``weights.npz`` holds them, by path and dtype; bfloat16, which NumPy does not know, as its bits."""
    found = ((path, dtype, array.view(np.uint16) if dtype == BITS else array) for path, dtype, array in arrays_of(weights))
    return {f"{path} {dtype}": array for path, dtype, array in found}


def entries_of(path: Path, arrays: dict[str, NDArray[Any]]) -> list[Entry]:
    """The arrays of a file as ``arrays_of`` gives them: by what ``stored`` called them, or each by its own name."""
    if not all(name.startswith("[") for name in arrays):
        return arrays_of(arrays)
    found: list[Entry] = []
    for name, array in arrays.items():
        keys, _, dtype = name.rpartition(" ")
        found.append((keys, dtype, array))
    if any(array.dtype.name != ("uint16" if dtype == BITS else dtype) for _, dtype, array in found):
        raise InputError(f"{path} is damaged: an array has another type than its name says.")
    return found


def check_model(certificate: Certificate, folder: Path, arrays: dict[str, NDArray[Any]]) -> None:
    """Raise ``ContradictionError`` unless the certificate of a folder is about these weights."""
    try:
        check_digest(certificate, digest_of(entries_of(folder / WEIGHTS, arrays)))
    except ContradictionError:
        raise _other(folder, WEIGHTS, "weights") from None


def check_schema(certificate: Certificate, folder: Path, digest: str) -> None:
    """Raise ``ContradictionError`` unless the certificate of a folder is about this schema."""
    if certificate.schema_sha256 != digest:
        raise _other(folder, SCHEMA, "schema")


def _other(folder: Path, name: str, what: str) -> ContradictionError:
    return ContradictionError(
        f"{folder}: the certificate is about other {what} than the {what} in {name} beside it: one of the two was replaced, so"
        " nothing is known about what the model costs. Ask for the folder as train wrote it."
    )
