"""How whatever goes wrong is told: in one line on standard error, and an exit status."""

from __future__ import annotations

import os
import sys
from typing import Final

from dplateau.cli.output import printable
from dplateau.cli.parser import USAGE_ERROR, not_understood
from dplateau.spec.errors import ContradictionError, InputError, ProcessLost, UncertifiedError
from dplateau.spec.missing import remedy
from dplateau.spec.one_line import without_keys

CHECK_FAILED: Final = 1
BAD_INPUT: Final = 2


def told(error: Exception) -> int:
    """What went wrong, in one line; the exit status."""
    if isinstance(error, ContradictionError | ProcessLost):
        return failed(str(error), CHECK_FAILED)
    if isinstance(error, InputError | UncertifiedError):
        return failed(str(error))
    if isinstance(error, ModuleNotFoundError) and (said := remedy(error)) is not None:
        return failed(said)
    if isinstance(error, OSError):
        return failed(f"{f'{error.filename}: ' if error.filename else ''}{error.strerror or error}")
    if isinstance(error, MemoryError):
        return failed("there is not enough memory for this.")
    if isinstance(error, USAGE_ERROR):
        return failed(not_understood(error))
    return _crashed(error)


def _crashed(error: Exception) -> int:
    """A mistake of ours: where it happened. The message is left out, because those of libraries quote rows."""
    import traceback

    traceback.print_tb(error.__traceback__)
    return failed(f"{type(error).__name__}, a bug in dplateau: please report the lines above.", CHECK_FAILED)


def failed(message: str, code: int = BAD_INPUT) -> int:
    """Say what went wrong, in one line; the exit status."""
    print(f"dplateau: {printable(without_keys(' '.join(message.split())))}", file=sys.stderr)
    try:
        sys.stdout.flush()
    except OSError:  # Python's own flush at the end is to go nowhere, instead of failing once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code
