"""The model that lies beside a certificate: whether it is the one that was certified."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dplateau.certificate.certificate import Certificate
from dplateau.certificate.weights import check_weights
from dplateau.spec import ContradictionError, InputError

ABOUT: Final = "model.json"
"""The file that makes a folder one of a model."""
WEIGHTS: Final = "weights.npz"
SCHEMA: Final = "schema.toml"


def read_weights(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a ``weights.npz``; raises ``InputError`` where it is missing, damaged, or holds objects."""
    try:
        if not path.is_file():  # a pipe would be waited for
            raise FileNotFoundError
        with np.load(path, allow_pickle=False) as arrays:
            return {name: np.asarray(arrays[name]) for name in arrays.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
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
    if (folder / ABOUT).is_file():
        if certificate.weights_sha256 is not None and (folder / WEIGHTS).is_file():
            check_model(certificate, folder, read_weights(folder / WEIGHTS))
        if certificate.schema_sha256 is not None and (folder / SCHEMA).is_file():
            from dplateau.data import load_schema
            from dplateau.data.schema_digest import schema_digest

            check_schema(certificate, folder, schema_digest(load_schema(folder / SCHEMA)))


def check_model(certificate: Certificate, folder: Path, arrays: dict[str, NDArray[Any]]) -> None:
    """Raise ``ContradictionError`` unless the certificate of a folder is about these weights."""
    try:
        check_weights(certificate, arrays)
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
