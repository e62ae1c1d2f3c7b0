"""The process around a command line: Ctrl-C, also while modules are imported, and output that nobody reads."""

from __future__ import annotations

import io
import os
import signal
import sys
from typing import Any, Final, TextIO

INTERRUPTED: Final = 130
STOPPED: Final = "dplateau: stopped."
AGAIN: Final = 0.02
"""Seconds after which an interrupt that got lost is sent again."""


def stop_at_once() -> None:
    """Let Ctrl-C end the process: nothing has begun while commands are being loaded."""
    if _listens():
        signal.signal(signal.SIGINT, _stop)


def _listens() -> bool:
    """Whether Ctrl-C is for this process; what runs in the background ignores it."""
    return signal.getsignal(signal.SIGINT) in (signal.default_int_handler, _stop)


def _stop(*_: Any) -> None:
    os.write(2, f"{STOPPED}\n".encode())
    os._exit(INTERRUPTED)


class Interrupts:
    """Ctrl-C while a command runs: ``KeyboardInterrupt``, so that whatever has begun is cleaned up, and none is lost.

    Attributes
    ----------
    seen : bool
        There was one. An error that comes after it may be what a library made of it.
    """

    def __init__(self) -> None:
        self.seen = False
        if _listens():
            signal.signal(signal.SIGINT, self._interrupt)
            if os.name == "posix":  # elsewhere a process cannot send it to itself
                sys.unraisablehook = self._lost

    def _interrupt(self, *_: Any) -> None:
        self.seen = True
        raise KeyboardInterrupt

    def _lost(self, where: Any) -> None:
        """One that fell into a destructor or a callback, which cannot raise it, is sent again."""
        if issubclass(where.exc_type, KeyboardInterrupt):
            from threading import Timer

            Timer(AGAIN, os.kill, (os.getpid(), signal.SIGINT)).start()
        else:
            sys.__unraisablehook__(where)

    @staticmethod
    def ignore() -> None:
        """From now on: all is done, and what follows is the end of the process."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)


class _Pipe(io.FileIO):
    """A pipe whose reader may go: what is written after that is dropped. ``head`` has seen enough, and a training goes on."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            return memoryview(data).nbytes


def patient(stream: TextIO | None, number: int) -> TextIO:
    """Standard output or error that no reader is needed for. A process that is started without has one that goes nowhere.

    A pipe gets UTF-8, as files do; a terminal that lacks a character gets an escape.
    """
    if stream is None:
        return open(os.devnull, "w", encoding="utf-8")
    if stream.isatty():
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
        return stream
    stream.flush()
    raw = io.BufferedWriter(_Pipe(number, "w", closefd=False))
    return io.TextIOWrapper(raw, "utf-8", "backslashreplace", line_buffering=number == 2)
