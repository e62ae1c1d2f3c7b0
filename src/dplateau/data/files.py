"""Opening a file, and telling its format."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from dplateau.data.schema import Schema
from dplateau.spec import InputError

SUFFIXES: Final = {
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".libsvm": "libsvm",
    ".svm": "libsvm",
    ".svmlight": "libsvm",
    ".npz": "npz",
    ".npy": "npy",
}
MAGIC: Final = {b"PAR1": "parquet", b"PK\x03\x04": "npz", b"\x93NUMPY": "npy"}


def existing_file(path: str | Path) -> Path:
    """``path`` if it is a readable file with something in it; raises ``InputError`` otherwise."""
    path = Path(path)
    try:
        if path.is_dir():
            raise InputError(f"{path} is a directory: expected a file.")
        if path.exists() and not path.is_file():
            raise InputError(f"{path} is a pipe or a device, and rows are read more than once: write them to a file.")
        with path.open("rb") as file:
            if not file.read(1):
                raise InputError(f"{path} is empty: expected a table with at least one row.")
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file. Check the path.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or 'input/output error'}.") from None
    return path


def read_bytes(path: Path) -> bytes:
    """The content of the file; raises ``InputError`` if it cannot be read."""
    try:
        return existing_file(path).read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or 'input/output error'}.") from None


def format_of(path: Path, schema: Schema | None = None) -> str:
    """The format of a file: from its suffix, else its first bytes, else the schema, else the look of its first line."""
    if known := SUFFIXES.get(path.suffix.lower()):
        return known
    with existing_file(path).open("rb") as file:
        head = file.read(4096)
    for magic, name in MAGIC.items():
        if head.startswith(magic):
            return name
    if schema is not None and schema.format is not None:
        return schema.format
    return "libsvm" if re.match(rb"[+-]?[0-9.eE+-]+(\s+\d+:[^\s:]+)+\s*(#|\r?\n|$)", head) else "csv"
