"""Why a run ended without a model. None of these errors carries weights, or leads to frames that hold noise, or weights that no
guarantee covers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Final, TypeVar

import jax

from dplateau.spec import InputError
from dplateau.spec.errors import ProcessLost as ProcessLost
from dplateau.training.settings import usual

T = TypeVar("T")
E = TypeVar("E", bound=BaseException)


class TrainingInterrupted(KeyboardInterrupt):
    """The run was interrupted; nothing was released.

    It stays a ``KeyboardInterrupt``, so that code which handles errors does not swallow it.
    """


class TooCoarse(InputError):  # noqa: N818 (named for what is wrong)
    """The run's numbers do not fit into whole numbers of 53 or 64 bits."""


class TrainingDiverged(RuntimeError):  # noqa: N818 (named for what happened)
    """The weights are no longer finite; nothing was released."""


OWN: Final = InputError, ProcessLost, TrainingDiverged


@contextmanager
def interrupts() -> Iterator[None]:
    """Take what an interrupt has become on its way out for an interrupt.

    Python's own locks, and archives, raise another error where it leaves them half-way.
    """
    try:
        yield
    except (RuntimeError, ValueError) as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        raise


def uninterrupted(work: Callable[[], T], *, double: bool = True) -> T:
    """What ``work`` returns, done in double precision if ``double``; ``TrainingInterrupted`` where the keyboard interrupts it.

    That, and the errors of this library, are raised outside the handler, so that they do not lead back to the frames that hold the
    weights and the noise.
    """
    done: list[T] = []
    failed: list[Exception] = []
    with suppress(KeyboardInterrupt), interrupts(), usual(), jax.enable_x64(True) if double else nullcontext():
        try:
            done.append(work())
        except OWN as error:
            failed.append(alone(error))
    if failed:
        raise failed.pop()
    if not done:
        raise TrainingInterrupted(
            "training was interrupted: nothing was released, and what a ledger reserved stays spent. Train anew."
        )
    return done[0]


def alone(error: E) -> E:
    """An error that leads to no frame, to be raised outside its handler."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)
