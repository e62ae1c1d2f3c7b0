"""Opening a file, and telling its format."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from dplateau.data.schema import Schema
from dplateau.data.text_file import open_bytes
from dplateau.files import as_path, reading
from dplateau.spec import InputError
from dplateau.spec.one_line import without_keys

SUFFIXES: Final = {
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".libsvm": "libsvm",
    ".svm": "libsvm",
    ".svmlight": "libsvm",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".npz": "npz",
    ".npy": "npy",
}
TEXTS: Final = ("csv", "jsonl")
MAGIC: Final = {b"PAR1": "parquet", b"PK\x03\x04": "npz", b"\x93NUMPY": "npy"}


def existing_file(path: str | Path, name: str | None = None) -> Path:
    """``path`` if it is a readable file with something in it; raises ``InputError`` otherwise, which calls it by its ``name``."""
    path = as_path(path, "the file of rows", " Write rows in memory with to_parquet first.")
    called = name or without_keys(str(path))
    try:
        if path.is_dir():
            raise InputError(f"{called} is a directory: expected a file.")
        if path.exists() and not path.is_file():
            raise InputError(f"{called} is a pipe or a device, which can be read only once: expected a file.")
        with path.open("rb") as file:
            if not file.read(1):
                raise InputError(f"{called} is empty: expected a table with at least one row.")
    except FileNotFoundError:
        raise InputError(f"{called}: there is no such file. Check the path.") from None
    except OSError as error:
        raise InputError(f"{called} cannot be read: {error.strerror or 'input/output error'}.") from None
    return path


def read_bytes(path: Path) -> bytes:
    """The content of the file; raises ``InputError`` if it cannot be read."""
    with reading(path):
        return existing_file(path).read_bytes()


def format_of(path: Path, schema: Schema | None = None) -> str:
    """The format of a file: from its suffix, else its first bytes, else the schema, else the look of its first line.

    Where the schema says that there is no header, the first line of a CSV file is a record, and is not looked at.

    Gzip around it (``.csv.gz``) is looked through.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    if packed := suffixes[-1:] == [".gz"]:
        suffixes.pop()
    if known := SUFFIXES.get(suffixes[-1] if suffixes else ""):
        return _readable(path, known, packed=packed)
    with reading(path), open_bytes(existing_file(path)) as file:
        head = file.read(4096)
    for magic, name in MAGIC.items():
        if head.startswith(magic):
            return _readable(path, name, packed=packed)
    if schema is not None and schema.format is not None:
        return _readable(path, schema.format, packed=packed)
    if schema is not None and not schema.csv.header:
        return "csv"  # The first line is a record, and no record may decide how the others are read.
    if re.match(rb"[+-]?[0-9.eE+-]+(\s+\d+:[^\s:]+)+\s*(#|\r?\n|$)", head):
        return _readable(path, "libsvm", packed=packed)
    return "jsonl" if re.match(rb'(\xef\xbb\xbf)?\s*\{\s*"', head) else "csv"


def _readable(path: Path, kind: str, *, packed: bool) -> str:
    if packed and kind not in TEXTS:
        raise InputError(f"{path}: gzip is read around CSV and JSON lines only: unpack the file.")
    return kind
