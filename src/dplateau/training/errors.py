"""Why a run ended without a model. Neither error carries weights."""

from __future__ import annotations


class TrainingInterrupted(KeyboardInterrupt):
    """The run was interrupted; nothing was released.

    It stays a ``KeyboardInterrupt``, so that code which handles errors does not swallow it.
    """


class TrainingDiverged(RuntimeError):  # noqa: N818 (named for what happened)
    """The weights are no longer finite; nothing was released."""
