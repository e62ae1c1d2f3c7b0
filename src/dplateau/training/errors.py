"""Why a run ended without a model. None of the errors carries weights."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import TypeVar

import jax

from dplateau.spec import InputError
from dplateau.spec.errors import ProcessLost as ProcessLost

T = TypeVar("T")


class TrainingInterrupted(KeyboardInterrupt):
    """The run was interrupted; nothing was released.

    It stays a ``KeyboardInterrupt``, so that code which handles errors does not swallow it.
    """


class TooCoarse(InputError):  # noqa: N818 (named for what is wrong)
    """The run's numbers do not fit into whole numbers of 53 or 64 bits."""


class TrainingDiverged(RuntimeError):  # noqa: N818 (named for what happened)
    """The weights are no longer finite; nothing was released."""


def uninterrupted(work: Callable[[], T], *, double: bool = True) -> T:
    """What ``work`` returns, done in double precision if ``double``; ``TrainingInterrupted`` where the keyboard interrupts it.

    That is raised outside the handler, so that the error does not lead back to the frames that hold the weights.
    """
    done: list[T] = []
    with suppress(KeyboardInterrupt), jax.enable_x64(True) if double else nullcontext():
        done.append(work())
    if not done:
        raise TrainingInterrupted("training was interrupted: nothing was released.")
    return done[0]
