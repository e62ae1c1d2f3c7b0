"""The public file of ``--test``: not one of private rows, and spelled as the schema is."""

from __future__ import annotations

import hashlib
from filecmp import cmp
from pathlib import Path
from typing import TYPE_CHECKING

from dplateau.cli.output import warn
from dplateau.spec.errors import InputError

if TYPE_CHECKING:
    from dplateau.data import Dataset, Schema


def public_rows(private: str | Path, test: Path, schema: Schema) -> Dataset:
    """The hold-out file, whose name stands before whatever is wrong with it."""
    from dplateau.estimators.table_rows import true_rows

    if any(test.samefile(one) or cmp(test, one, shallow=False) for one in _files(private) if test.is_file()):
        raise InputError(f"--test {test} is the private file itself, and its accuracy would be printed: give public rows, or none.")
    try:
        found = true_rows(test, schema)
        _warn(test, schema)
        return found
    except InputError as error:
        raise InputError(f"{'' if str(test) in str(error) else f'{test}: '}{error}") from None


def digest(file: Path) -> bytes:
    """By which processes compare a file with theirs: its size and its SHA-256."""
    with open(file, "rb") as content:
        return file.stat().st_size.to_bytes(8, "big") + hashlib.file_digest(content, "sha256").digest()


def check_not_private(private: str | Path, told: bytes) -> None:
    """Raise where the public file of process 0 is among the private files of this one."""
    size = int.from_bytes(told[:8], "big")
    if told and any(one.stat().st_size == size and digest(one) == told for one in _files(private)):
        raise InputError("--test is a private file here, and its accuracy would be printed: give public rows, or none.")


def _files(private: str | Path) -> list[Path]:
    """The local files that hold the private rows."""
    path = Path(private)
    return [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]


def _warn(test: Path, schema: Schema) -> None:
    """Say what of the schema never matches in the public file: it may be a spelling, and in the private file the same one."""
    from dplateau.data import check_file

    for column in check_file(test, schema).columns:
        near = column.spellings[0] if column.spellings else None
        if column.lost or near is not None:
            how = "no entry fits" if column.lost else "some entries do not fit"
            hint = "" if near is None else f" It contains {near.found!r}, but {near.declared!r} is declared: add it to the aliases."
            warn(f"column {column.name!r}: {how} the schema in the public file {test}.{hint}")
