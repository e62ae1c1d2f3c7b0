"""The errors that a caller can cause, and the warnings that a caller should read."""

from __future__ import annotations


class InputError(ValueError):
    """An argument, a file or a schema is not what was expected.

    The message says what was wrong, what was expected and what to do. It never quotes a private value.
    """


class ContradictionError(InputError):
    """A certificate contradicts itself, or what it has to agree with: the model beside it, its signature, a demand, a ledger."""


class LedgerError(InputError):
    """A ledger cannot be reached, read or written, or is of another version. Nothing was reserved that anyone may rely on."""


class UncertifiedError(RuntimeError):
    """No ``Proved`` bound covers what was asked for, so there is no epsilon to report."""


class NoCertificateError(UncertifiedError, AttributeError):
    """A model has none. For ``hasattr`` and ``dir``, by which notebooks show a model, it lacks the attribute."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.name = "certificate_"  # so that Python suggests no other attribute in its place


class BudgetError(UncertifiedError):
    """The budget of an account does not cover a run, or the account is closed. Nothing was reserved."""


class ProcessLost(RuntimeError):  # noqa: N818 (named for what happened)
    """Another process of a cluster ended, or cannot be reached; nothing was released."""


class AccuracyWarning(UserWarning):
    """The arguments are legal, but there is so much noise that the result may be of no use."""


class PrivacyWarning(UserWarning):
    """The arguments are legal, but the guarantee is weaker than a reader would think."""


class WeakPrivacyWarning(PrivacyWarning):
    """The guarantee holds, and promises little: its epsilon is above 10."""
