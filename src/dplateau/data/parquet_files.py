"""Parquet files in a folder or in an object store, read one after the other in the order of their names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from os import fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dplateau.data.files import existing_file
from dplateau.data.read_csv import used_names
from dplateau.data.schema import Schema
from dplateau.data.stream_parquet import parquet_groups, parquet_pieces
from dplateau.files import as_path, reading
from dplateau.spec import InputError
from dplateau.spec.one_line import SECRET

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import fs

SUFFIXES: Final = (".parquet", ".pq")
ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
VERSION: Final = re.compile("mtime|modif|created|updated|etag|version|generation|commit|blob|md5|digest|sha|hash", re.IGNORECASE)
"""What stores of fsspec call the time of a file, or a number or digest that it has by what it holds."""
LINK: Final = "120000"
"""How git, and so GitHub's store, marks a link, of which it hands on the rows of the file that it leads to."""
HIDDEN: Final = ("_", ".")
"""What names of files begin with that hold no rows: marks of writers that have ended, checksums, metadata."""
_IN_MEMORY: Final = " Rows in memory: leave out stream, or write them with to_parquet."


@dataclass(frozen=True)
class ParquetFiles:
    """Parquet files, in the order of their paths.

    Attributes
    ----------
    name : str
        What messages call them.
    filesystem : pyarrow.fs.FileSystem
        Where they are.
    root : str
        The folder, or the only file.
    paths : tuple of str
        Their paths there, sorted.
    """

    name: str
    filesystem: fs.FileSystem = field(repr=False)
    root: str = field(repr=False)
    paths: tuple[str, ...] = field(repr=False)

    def __str__(self) -> str:
        return self.name

    def mark(self) -> tuple[Any, ...]:
        """What changes when a file is written again, comes or goes.

        Raises
        ------
        InputError
            The files cannot be listed, or their store says nothing of a file that does.
        """
        listed = _listed(self.name, self.filesystem, self.root)
        return tuple((one.path, one.size, self._version(one)) for one in listed)

    def groups(self, schema: Schema) -> tuple[int, ...]:
        """The number of rows of each row group of all files, after checking that they have the schema's columns, in one type each.

        Raises
        ------
        InputError
            A file is not Parquet or is damaged, lacks a column, or has another type in it than the first file.
        """
        found, first = [], None
        for path in self.paths:
            groups, kinds = parquet_groups(self._called(path), schema, self.filesystem, path)
            first = first or kinds
            if other := [name for name in used_names(schema) if kinds[name] != first[name]]:
                name = other[0]
                raise InputError(
                    f"{self._called(path)}: column {name!r} is of type {kinds[name]}, in the first file of the folder"
                    f" {first[name]}: write all files with the same types."
                )
            found.append(groups)
        return tuple(chain.from_iterable(found))

    def pieces(self, schema: Schema, rows: int, columns: list[str] | None = None) -> Iterator[pa.Table]:
        """The rows of all files, in pieces of at most ``rows`` rows; see ``parquet_pieces``."""
        for path in self.paths:
            yield from parquet_pieces(self._called(path), schema, rows, None, columns, self.filesystem, path)

    def _version(self, one: fs.FileInfo) -> object:
        """When a file was written, or what else its store has for it: of what fsspec knows, pyarrow hands on the time only."""
        if one.mtime_ns is not None:
            return one.mtime_ns
        store, name = _store(self.filesystem), self._called(one.path)
        try:
            about = {} if store is None else store.info(one.path)
        except Exception:
            raise _unread(name) from None
        if str(about.get("mode")) == LINK:
            raise InputError(f"{name} is a link, whose rows may be used twice, and change unseen: name the files themselves.")
        found = sorted((key, str(value)) for key, value in about.items() if VERSION.search(key) and value is not None)
        if not found:
            raise InputError(
                f"{name}: its store does not say when a file was written, so nobody could see that it changes while it is in use:"
                " copy it to a disk."
            )
        return tuple(found)

    def _called(self, path: str) -> str:
        inside = path.removeprefix(self.root).lstrip("/")
        return f"{self.name.rstrip('/')}/{inside}" if inside else self.name


def rows_at(path: str | Path) -> Path | ParquetFiles:
    """A local file, or the Parquet files of a folder or of an address like ``s3://bucket/folder``.

    Raises
    ------
    InputError
        There is nothing, or pyarrow cannot open it; a folder holds no Parquet file, others beside them, or one of them twice.
    """
    given = path if isinstance(path, str) else fspath(as_path(path, "the file of rows", _IN_MEMORY))
    if not ADDRESS.match(given):
        return _in_folder(given, Path(given)) if Path(given).is_dir() else existing_file(given)
    from pyarrow import fs

    name = SECRET.sub(r"\1", given)
    if given.startswith("fsspec+") and ("::" in given or given.startswith("fsspec+ftp:")):
        raise InputError(
            f"{name} is an address in layers or of FTP, which can hide links and changes of files: name the files themselves,"
            " or copy them to a disk."
        )
    try:
        filesystem, root = fs.FileSystem.from_uri(given)
    except Exception:  # Stores of fsspec raise what they like, with addresses and keys in it.
        raise InputError(
            f"{name} is not an address that pyarrow can open: expected a file, a folder, or an address like s3://bucket/folder,"
            " gs://bucket/folder or file:///folder. Check its beginning, and who you are to its store."
        ) from None
    if _is_here(filesystem):
        return _in_folder(name, Path(root)) if Path(root).is_dir() else existing_file(root, name)
    return parquet_files(name, filesystem, root)


def _is_here(filesystem: fs.FileSystem) -> bool:
    """Whether files are on this machine, where links are seen: also those that fsspec opens, as ``fsspec+file:///folder``."""
    from pyarrow import fs

    names = getattr(_store(filesystem), "protocol", ())
    return isinstance(filesystem, fs.LocalFileSystem) or "file" in ((names,) if isinstance(names, str) else names)


def _store(filesystem: fs.FileSystem) -> Any:
    """The store of fsspec behind a file system, or None."""
    return getattr(getattr(filesystem, "handler", None), "fs", None)


def _in_folder(name: str, path: Path) -> ParquetFiles:
    from pyarrow import fs

    return parquet_files(name, fs.LocalFileSystem(), path.absolute().as_posix())


def parquet_files(name: str, filesystem: fs.FileSystem, root: str) -> ParquetFiles:
    """The Parquet files in a folder of a file system and its folders, or one of its files; raises as ``rows_at``."""
    from pyarrow import fs

    listed = _listed(name, filesystem, root)
    paths = tuple(one.path for one in listed)
    if other := next((one.path for one in listed if one.type != fs.FileType.File or not _is_named(one.path)), None):
        if other == root:
            raise InputError(f"{name} is not a Parquet file: expected a name that ends in .parquet. Copy other files to a disk.")
        raise InputError(
            f"{name} holds {other.removeprefix(root).lstrip('/')!r}, which is not a Parquet file: expected a folder of such files,"
            " and nothing else, so that no rows are left out unnoticed."
        )
    if not paths:
        raise InputError(f"{name} holds no Parquet file: expected a folder with at least one file whose name ends in .parquet.")
    if isinstance(filesystem, fs.LocalFileSystem):
        _check_once(name, root, paths)
    return ParquetFiles(name, filesystem, root, paths)


def _is_named(path: str) -> bool:
    """Whether a path ends as those of Parquet files do, or does before the options of an address, such as its signature."""
    return any(one.endswith(SUFFIXES) for one in (path.lower(), re.split("[?#]", path.lower())[0]))


def _check_once(name: str, root: str, paths: Sequence[str]) -> None:
    """Raise if a link makes a file stand there twice: its records would be used twice."""
    first: dict[tuple[int, int], str] = {}
    for path in paths:
        with reading(Path(path)):
            about = Path(path).stat()
        if (other := first.setdefault((about.st_dev, about.st_ino), path)) != path:
            same, again = (one.removeprefix(root).lstrip("/") for one in (other, path))
            raise InputError(
                f"{name} holds one file twice, by a link: {same!r} and {again!r}. Remove one of them: no record may be used twice."
            )


def _unread(name: str) -> InputError:
    return InputError(f"{name} cannot be read: check the path, and who you are to its store.")


def _listed(name: str, filesystem: fs.FileSystem, root: str) -> Sequence[fs.FileInfo]:
    """The files of a folder and its folders that may hold rows, or a file by itself, by their paths."""
    from pyarrow import fs

    try:
        if store := _store(filesystem):
            store.invalidate_cache()  # or it tells of the files as it found them first
        about, keys = filesystem.get_file_info(root), set[str]()
        found = [about] if about.type != fs.FileType.Directory else filesystem.get_file_info(fs.FileSelector(root, recursive=True))
        if store and about.type == fs.FileType.Directory:
            # With folders, which pyarrow asks for, a key may be lost: that of a file named as one.
            keys = {path for path, one in store.find(root, detail=True).items() if one["type"] == "file"}
    except Exception:
        raise _unread(name) from None
    if about.type == fs.FileType.NotFound:
        raise InputError(f"{name}: there is no such file or folder. Check the path.")
    inside = [one for one in found if one.type != fs.FileType.Directory]
    if lost := keys - {one.path for one in inside}:
        raise InputError(
            f"{name} holds {min(lost).removeprefix(root).lstrip('/')!r} as a file and as a folder, and its store lists one of them:"
            " rename one, so that no rows are left out unnoticed."
        )
    return sorted((one for one in inside if not _is_hidden(one.path.removeprefix(root))), key=lambda one: one.path)


def _is_hidden(path: str) -> bool:
    """Whether a name in a path says that there are no rows; ``.`` and ``..``, which keys of a store may hold, say nothing."""
    return any(part.startswith(HIDDEN) and part.strip(".") != "" for part in path.strip("/").split("/"))
