"""Text files as people have them, packed by gzip and in other encodings, as a stream of UTF-8 bytes.

The encodings are those of which every character is read by itself. One with shifts (ISO-2022, UTF-7) would let a record change how
the next ones are read. Everything is read in pieces, so a file that unpacks to much more than its size fills no memory here.
"""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, cast

from dplateau.spec import InputError

if TYPE_CHECKING:
    from dplateau.data.schema import Csv

GZIP: Final = b"\x1f\x8b"
MARKS: Final = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
PIECE: Final = 1 << 16
RATIO: Final = 100
SMALL: Final = 1 << 30
"""A packed file may unpack to so many bytes, or to ``RATIO`` times its size, whichever is more."""


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file, unpacked if it begins as gzip does or is named so.

    Raises
    ------
    InputError
        While it is read: it is not a whole gzip file, or unpacks to more than a hundred times its size (and a gigabyte).
    """
    with path.open("rb") as file:
        start = file.read(len(GZIP))
        file.seek(0)
        if start == GZIP or path.suffix.lower() == ".gz":
            with io.BufferedReader(_Unpacked(path, file), PIECE) as unpacked:
                yield cast(IO[bytes], unpacked)
        else:
            yield file


@contextmanager
def open_text(path: Path, csv: Csv) -> Iterator[IO[bytes]]:
    """The text of a file as UTF-8; bytes of a file in UTF-8 are handed on as they are.

    A file that begins with the byte order mark of UTF-16 is read so, if its first line is a header: otherwise that line is a
    record, which must not decide how the others are read.

    Raises
    ------
    InputError
        As ``open_bytes``; or, while it is read, bytes that are no text in the encoding. Only a line's number is named.
    """
    with open_bytes(path) as file:
        encoding = csv.encoding
        if encoding == "utf-16" or (encoding == "utf-8" and csv.header):
            with open_bytes(path) as again:
                found = MARKS.get(again.read(2))
            if found is None and encoding == "utf-16":
                raise InputError(f"{path} has no byte order mark: declare encoding utf-16-le or utf-16-be in the schema's [csv].")
            encoding = found or encoding
        if encoding == "utf-8":
            yield file
        else:
            with io.BufferedReader(_Decoded(path, file, encoding), PIECE) as decoded:
                yield cast(IO[bytes], decoded)


class _Unpacked(io.RawIOBase):
    """What a gzip file holds."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self._path, self._size = path, path.stat().st_size
        self._file, self._seen = gzip.GzipFile(fileobj=file), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            found = self._file.read(len(buffer))
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise InputError(f"{self._path} is not a whole gzip file, or is damaged: pack it anew.") from None
        self._seen += len(found)
        if self._seen > max(SMALL, RATIO * self._size):
            raise InputError(
                f"{self._path} unpacks to more than {RATIO} times its size: unpack it, and name the file that comes out."
            )
        buffer[: len(found)] = found
        return len(found)


class _Decoded(io.RawIOBase):
    """A text in another encoding as UTF-8."""

    def __init__(self, path: Path, file: IO[bytes], encoding: str) -> None:
        self._path, self._file, self._encoding = path, file, encoding
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._line, self._held, self._ended = 1, b"", False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._held and not self._ended:
            read = self._file.read(PIECE)
            self._ended = not read
            try:
                self._held = self._decoder.decode(read, final=self._ended).encode()
            except UnicodeDecodeError as error:
                before = error.object[: error.start].decode(self._encoding, "ignore").count("\n")
                raise InputError(
                    f"{self._path}, line {self._line + before} is not text in {self._encoding}: check the encoding in [csv]."
                ) from None
            self._line += self._held.count(b"\n")
        part, self._held = self._held[: len(buffer)], self._held[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)
