"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from dplateau.spec import InputError


def write_text(path: Path, text: str) -> None:
    """Write a file through a temporary one beside it; raises ``InputError`` where that fails, leaving nothing behind."""
    name = ""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except OSError as error:
        if name:
            Path(name).unlink(missing_ok=True)
        raise InputError(f"cannot write {path}: {error.strerror or error}.") from None


def write_folder(path: Path, fill: Callable[[Path], None]) -> None:
    """Let ``fill`` write into a temporary folder beside ``path``, then rename it; nothing is left behind where that fails."""
    if path.exists():
        raise InputError(f"{path} exists: choose another output folder, or remove it.")
    folder = ""
    try:
        folder = tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent)
        fill(Path(folder))
        os.rename(folder, path)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise InputError(f"cannot write {path}: {error.strerror or error}.") from None
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
