"""A CSV file in pieces of whole records, checked so that no record can swallow its neighbours.

A parser that reads line breaks in quotes takes all between a stray quote and the next one for one field: the rows there are gone.
So every line is a record of its own unless the schema allows line breaks, and quotes are checked before anything is parsed.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np

from dplateau.data.schema import Csv
from dplateau.data.text_file import open_text
from dplateau.files import reading
from dplateau.spec import InputError

BLOCK = 1 << 22
"""Bytes that are read at a time. No line may be longer."""
QUOTE, NEWLINE = b'"\n'
STRAY_RETURN: Final = re.compile(rb"\r(?!\n)")


def whole_records(path: Path, csv: Csv) -> Iterator[tuple[int, bytes]]:
    """The file in pieces of whole records that end with a line break, each with the number of its first line.

    Comment lines are blanked, which keeps the numbers.

    Raises
    ------
    InputError
        A record cannot be told from its neighbours: a quote is not closed, a carriage return stands within a line, or it is too
        long. Only the line's number is named.
    """
    line, rest = 1, b""
    for line, read in whole_lines(path, csv):
        line -= breaks(rest)
        content, rest = _records(path, line, rest + read, csv) if csv.line_breaks else (_lines(path, line, read, csv), b"")
        yield line, content
        line += breaks(content)
    if rest:
        raise _unreadable(path, line)


def whole_lines(path: Path, csv: Csv) -> Iterator[tuple[int, bytes]]:
    """The file in pieces of whole lines that end with a line break, each with the number of its first line.

    Raises
    ------
    InputError
        A line is too long, or the file cannot be read, unpacked or decoded.
    """
    with reading(path), open_text(path, csv) as file:
        line, start = 1, file.read(len(codecs.BOM_UTF8))
        start = b"" if start == codecs.BOM_UTF8 else start
        while read := start + file.read(BLOCK - len(start)) + file.readline(BLOCK):
            start = b""
            read += b"" if read.endswith(b"\n") else b"\n"
            last = read.rfind(b"\n", 0, -1) + 1
            if len(read) - last > BLOCK:
                raise _fault(path, line, read[:last], f"it is longer than {BLOCK >> 10} KiB. Look for a missing line break.")
            yield line, read
            line += breaks(read)


def first_record(content: bytes, csv: Csv) -> tuple[bytes, bytes]:
    """The first record that is not blank, or nothing, and what comes after it."""
    found = re.compile(rb"(?![\r\n])" + _record(csv)).search(content)
    return (b"", b"") if found is None else (found.group(), content[found.end() :])


def breaks(content: bytes, end: int | None = None) -> int:
    """The number of line breaks, before the place ``end``."""
    return int(np.count_nonzero(np.frombuffer(content, np.uint8)[:end] == NEWLINE))  # five times as fast as bytes.count


def _lines(path: Path, line: int, content: bytes, csv: Csv) -> bytes:
    """Lines of which each is a record, with comments blanked."""
    mark = csv.comment.encode()
    if mark and mark in content:
        content = re.sub(rb"(?m)^" + re.escape(mark) + rb"[^\n]*", b"", content)
    if b"\r" in content and (stray := STRAY_RETURN.search(content)):
        what = "a carriage return stands within it. Write lines that end with a line feed."
        raise _fault(path, line, content[: stray.start()], what)
    if QUOTE in content and not _quotes_are_plain(content, ord(csv.delimiter)):
        end = _matched(csv, content)
        if end < len(content):
            what = "a quote is not closed where the line ends. Repair the line, or set line_breaks = true in the schema's [csv]."
            raise _fault(path, line, content[:end], what)
    return content


def _records(path: Path, line: int, content: bytes, csv: Csv) -> tuple[bytes, bytes]:
    """The whole records at the beginning, with comments blanked, and the rest."""
    end = _matched(csv, content)
    content, rest = content[:end], content[end:]
    if len(rest) > BLOCK:
        raise _unreadable(path, line + breaks(content))
    if csv.comment:  # Quoted fields are matched whole, so that a comment begins outside of them.
        content = re.sub(rb"(?m)^" + re.escape(csv.comment.encode()) + rb'[^\n]*|("[^"]*")', rb"\1", content)
    return content, rest


def _quotes_are_plain(content: bytes, delimiter: int) -> bool:
    """Whether all quotes stand around whole fields of one line or are doubled in them: then the quotes before a byte tell, by their
    parity, whether it is quoted, and most files need no closer look.
    """
    codes = np.frombuffer(content, np.uint8)
    is_quote = codes == QUOTE
    quotes, ends = np.flatnonzero(is_quote), np.flatnonzero(codes == NEWLINE)
    borders = np.zeros(256, bool)
    borders[[delimiter, QUOTE, *b"\r\n"]] = True
    return bool(
        not (np.cumsum(is_quote, dtype=np.uint8)[ends] & 1).any()
        and borders[codes[quotes[::2] - 1]].all()  # before the first byte stands the last one, a line break
        and borders[codes[quotes[1::2] + 1]].all()
    )


def _matched(csv: Csv, content: bytes) -> int:
    """Where the whole records at the beginning end."""
    found = _whole(csv).match(content)
    return 0 if found is None else found.end()


@cache
def _whole(csv: Csv) -> re.Pattern[bytes]:
    comment = re.escape(csv.comment.encode()) + rb"[^\n]*+\n|" if csv.comment else b""
    return re.compile(b"(?:" + comment + _record(csv) + b")*+")


def _record(csv: Csv) -> bytes:
    """A pattern of one record as the parser understands it.

    Within a line a quote that does not begin a field is a character like others. Where fields may hold line breaks every quote
    counts, so there they must stand around whole fields.
    """
    comma = re.escape(csv.delimiter.encode())
    if csv.line_breaks:
        field, end = rb'(?:"(?:[^"]++|"")*+"|[^"\r\n%b]*+)' % comma, rb"\r?\n"
    else:
        field, end = rb'(?:"(?:[^"\n]++|"")*+"[^\n%b]*+|(?!")[^\n%b]*+)' % (comma, comma), rb"\n"
    return rb"%b(?:%b%b)*+%b" % (field, comma, field, end)


def _fault(path: Path, line: int, before: bytes, what: str) -> InputError:
    """An error of the line that comes after ``before``, whose first line has the number ``line``."""
    return InputError(f"{path}, line {line + breaks(before)}: {what}")


def _unreadable(path: Path, line: int) -> InputError:
    return InputError(
        f"{path}, line {line}: no whole record of at most {BLOCK >> 10} KiB begins here. With line_breaks = true quotes must be"
        " closed, stand around whole fields, and be doubled within them."
    )
