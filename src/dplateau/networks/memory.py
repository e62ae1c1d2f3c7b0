"""The memory of the steps, kept from one step to the next.

A step of a network frees large arrays, and the next one asks for as many. glibc returns arrays of more than 32 MB to the operating
system at once, and what is free at the end of its memory; to have it back costs a page fault for every 4 KB, which took more than a
third of the time of a transformer's step. While a network is trained, freed memory is kept; at the end it is given back.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final

_C: Final = ctypes.CDLL(None) if os.name == "posix" else None
_TRIM, _MMAP = -1, -3
"""``M_TRIM_THRESHOLD`` and ``M_MMAP_THRESHOLD`` of ``mallopt``."""
_NEVER: Final = 2**31 - 1
_LARGEST: Final = 1 << 25
"""The largest ``M_MMAP_THRESHOLD`` that glibc comes to by itself, and half of its ``M_TRIM_THRESHOLD`` then."""
_SET_BY_USER: Final = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")
_lock, _trainings = Lock(), [0]


@contextmanager
def kept_memory() -> Iterator[None]:
    """While it lasts, memory that is freed stays with the process. Nothing changes where the C library is not glibc, or where the
    environment sets how it returns memory.
    """
    with _lock:
        _trainings[0] += 1
        _thresholds(_NEVER, _NEVER)
    try:
        yield
    finally:
        with _lock:
            _trainings[0] -= 1
            if not _trainings[0]:
                _thresholds(_LARGEST, 2 * _LARGEST)
                give_back()


def give_back() -> None:
    """Return what is free to the operating system: a compiler leaves a hundred megabytes, among the memory of its threads."""
    _call("malloc_trim", 0)


def _thresholds(mmap: int, trim: int) -> None:
    _call("mallopt", _MMAP, mmap)
    _call("mallopt", _TRIM, trim)


def _call(name: str, *values: int) -> None:
    """A function of the C library, if it has it."""
    function: Callable[..., int] | None = None if any(map(os.environ.get, _SET_BY_USER)) else getattr(_C, name, None)
    if function is not None:
        function(*values)
