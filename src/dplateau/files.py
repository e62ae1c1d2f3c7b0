"""Files and folders that appear whole or not at all; small files that are read with care; locks between processes."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from dplateau.spec import InputError

LARGEST: Final = 1 << 28
"""Bytes of a certificate or a run: some millions of steps, each with a noise of its own."""
ROOM: Final = 1 << 20
"""Bytes that are free on the disk of a folder before what will be in it is computed."""
PATIENCE: Final = 10.0
"""Seconds to wait for another process."""
_NO_LOCKS: Final = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)
_READ: Final = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)


def as_path(value: Any, what: str, instead: str = "") -> Path:
    """``value`` as a path; raises ``InputError`` with what to do ``instead`` where it is none."""
    if not isinstance(value, str | os.PathLike):
        raise InputError(f"{what} is of type {type(value).__name__}: expected a path.{instead}")
    return Path(value)  # type: ignore[arg-type]


def write_file(path: str | Path, content: str | bytes, *, mode: int = 0o666) -> None:
    """Write a file: into a hidden one beside it first, which is then renamed.

    Parameters
    ----------
    path : str or Path
        The file; one that exists is replaced.
    content : str or bytes
        A text, which is written as UTF-8, or bytes.
    mode : int
        Permissions of the new file, of which the process may take some away.

    Raises
    ------
    InputError
        The file cannot be written (full disk, read-only folder); nothing is left behind, and a file that existed is as it was.
    """
    path = Path(path)
    _check_kind(path)
    part = _beside(path)
    try:
        with open(part, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(content.encode("utf-8") if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        raise _cannot_write(path, error) from None
    finally:
        with suppress(OSError):
            part.unlink()


def check_file(path: str | Path) -> None:
    """Raise ``InputError`` if no file can be written there: better before computing than after it."""
    path = Path(path)
    _check_kind(path)
    _check_parent(path)


@contextmanager
def new_folder(path: str | Path) -> Iterator[Path]:
    """A hidden folder to fill, which becomes ``path`` if the block ends well, and disappears if it does not.

    Parameters
    ----------
    path : str or Path
        The folder, which must not exist yet.

    Raises
    ------
    InputError
        The folder exists or cannot be written (full disk, read-only parent); nothing is left behind.
    """
    path = Path(path)
    check_new_folder(path)
    part = _beside(path)
    try:
        part.mkdir()
        yield part
        for file in (one for one in part.rglob("*") if one.is_file()):
            with file.open("rb") as content:
                os.fsync(content.fileno())
        part.rename(path)
    except OSError as error:
        raise _cannot_write(path, error) from None
    finally:
        shutil.rmtree(part, ignore_errors=True)


@contextmanager
def claimed(path: str | Path) -> Iterator[None]:
    """Keep other processes from making the same new folder while the block computes what will be in it.

    Raises
    ------
    InputError
        The folder exists, cannot be written, its disk is full, or another process is at work on it.
    """
    path = Path(path)
    check_new_folder(path)
    _check_room(path)
    lock = path.with_name(f".{path.name}.lock")
    with locked(lock, f"another process is at work on {path}: name another folder.", patience=0.0):
        try:
            check_new_folder(path)  # what had the lock before may have made it
            yield
        finally:
            with suppress(OSError):
                lock.unlink()


@contextmanager
def new_file(path: str | Path) -> Iterator[Path]:
    """A hidden file to write, which becomes ``path`` if the block ends well, and disappears if it does not.

    Parameters
    ----------
    path : str or Path
        The file, which must not exist yet.

    Raises
    ------
    InputError
        The file exists or cannot be written (full disk, read-only folder); nothing is left behind.
    """
    path = Path(path)
    check_new_file(path)
    part = _beside(path)
    try:
        yield part
        with part.open("rb") as content:
            os.fsync(content.fileno())
        try:
            os.link(part, path)  # unlike a renaming it replaces nothing
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            check_new_file(path)
            part.rename(path)
    except OSError as error:
        raise _cannot_write(path, error) from None
    finally:
        with suppress(OSError):
            part.unlink()


def check_new_file(path: str | Path) -> None:
    """Raise ``InputError`` if ``path`` exists, or if nothing can be created in its parent: better before than after computing."""
    _check_new(Path(path), "file")


def check_new_folder(path: str | Path) -> None:
    """Raise ``InputError`` if ``path`` exists, or if nothing can be created in its parent: better before training than after it."""
    _check_new(Path(path), "folder")


def _check_new(path: Path, what: str) -> None:
    if os.path.lexists(path):
        raise InputError(f"{path} exists already: name a new {what}, or remove it first.")
    _check_parent(path)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Say in one line what the operating system says where a file cannot be read."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or 'input/output error'}.") from None


def read_whole(path: Path, largest: int = LARGEST) -> bytes:
    """The bytes of a file or a pipe; raises ``InputError`` if it cannot be read or has more bytes, as a device has."""
    with reading(path), path.open("rb") as file:
        content = file.read(largest + 1)
    if len(content) > largest:
        raise InputError(f"{path} has more than {largest:,} bytes, which no file of this kind has.")
    return content


def read_small(path: Path, what: str, largest: int) -> tuple[bytes, int]:
    """The bytes of a small file, and its permissions. A pipe or a device is never waited for.

    Parameters
    ----------
    path : Path
        The file.
    what : str
        What is expected there, such as "a signature".
    largest : int
        Bytes that it may have.

    Raises
    ------
    FileNotFoundError
        Nothing is there.
    InputError
        It is not a file, has more bytes, or cannot be read.
    """
    try:
        with open(path, "rb", opener=lambda name, _: os.open(name, _READ)) as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise _no_file(path, what)
            content = file.read(largest + 1)
    except FileNotFoundError:
        if path.is_symlink():
            raise _no_file(path, what) from None
        raise
    except IsADirectoryError:
        raise _no_file(path, what) from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or 'input/output error'}.") from None
    if len(content) > largest:
        raise InputError(f"{path} has more than {largest:,} bytes: expected {what}.")
    return content, stat.S_IMODE(mode)


@contextmanager
def locked(path: Path, busy: str = "", *, patience: float = PATIENCE) -> Iterator[None]:
    """Let one process at a time into the block; where the system (Windows) or the file system has no such locks, all.

    Parameters
    ----------
    path : Path
        The file that is locked. It is made, and stays unless the block removes it.
    busy : str
        What to say where another process keeps it, in place of the usual.
    patience : float
        Seconds to wait for another process.

    Raises
    ------
    InputError
        It cannot be made or locked, or another process keeps it for longer, or removed it meanwhile.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, 0o600)
    except OSError as error:
        raise _cannot_write(path, error) from None
    try:
        busy = busy or f"another process has locked {path} for {patience:g} seconds: try again."
        end = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not os.path.exists(path) or not os.path.samestat(os.fstat(lock), os.stat(path)):
                    raise InputError(busy)  # who removed it, or who made the new one, may be in the block
                break
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise InputError(busy) from None
                time.sleep(0.01)
            except OSError as error:
                if error.errno in _NO_LOCKS:
                    break
                raise _cannot_write(path, error) from None
        yield
    finally:
        os.close(lock)


def _no_file(path: Path, what: str) -> InputError:
    return InputError(f"{path} is not a file: expected {what}.")


def _check_kind(path: Path) -> None:
    """Raise where a renamed file would take the place of what is none, such as /dev/null."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise InputError(f"{path} cannot be written: it is a {'folder' if path.is_dir() else 'pipe or a device'}. Name a file.")


def _check_parent(path: Path) -> None:
    parent = path.absolute().parent
    if not os.path.isdir(parent):
        raise InputError(f"{path} cannot be written: {parent} is not a folder. Create it first.")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise InputError(f"{path} cannot be written: no permission to write in {parent}. Name another folder.")
    try:
        _beside(path).lstat()
    except FileNotFoundError:
        pass
    except OSError as error:  # the name is too long
        raise _cannot_write(path, error) from None


def _check_room(path: Path) -> None:
    """Raise where the disk is full: what is computed is lost then, and what it cost is spent."""
    try:
        disk = shutil.disk_usage(path.absolute().parent)
    except OSError:
        return
    if disk.total and disk.free < ROOM:  # some file systems say 0 of everything
        raise InputError(f"{path} cannot be written: less than 1 MB is free on its disk. Make room, or name another folder.")


def _cannot_write(path: Path, error: OSError) -> InputError:
    """What the operating system said, as one line."""
    return InputError(f"{path} cannot be written: {error.strerror or 'input/output error'}. Nothing was left behind.")


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
