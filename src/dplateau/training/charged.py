"""What a training costs is written into a ledger before the training draws its first random number."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from dplateau.spec import InputError, Run, Runs


class Reserved(Protocol):
    """What was taken out of a budget for one training, and is never given back."""

    def commit(self, certificate: Any = None) -> object:
        """Note that the training ended, and with which certificate."""
        ...


class Budgeted(Protocol):
    """The account of a data set in a ledger; ``dplateau.Ledger.account`` gives one."""

    def reserve(self, run: Run | Runs, *, part: tuple[str, str] | None = None, done: int = 0) -> Reserved:
        """Take what ``run`` costs, on a part of the records or after ``done`` steps, out of the budget; or raise."""
        ...


@dataclass(frozen=True)
class OnPart:
    """An account that is charged for runs on one part of its records."""

    ledger: Budgeted
    part: tuple[str, str]

    def reserve(self, run: Run | Runs, *, part: tuple[str, str] | None = None, done: int = 0) -> Reserved:
        """Take what ``run`` costs on the part out of the budget."""
        if part is not None:
            raise InputError("the account is charged for one part already: leave part out.")
        return self.ledger.reserve(run, part=self.part, done=done)


def check_account(ledger: object) -> None:
    """Raise ``InputError`` unless it is left out or can reserve."""
    if ledger is not None and not hasattr(ledger, "reserve"):
        raise InputError(
            f"ledger is of type {type(ledger).__name__}: expected an account, as dplateau.Ledger(url).account(name) gives one."
        )


@contextmanager
def charged(ledger: Budgeted | None, run: Run | Runs, done: int = 0) -> Iterator[None]:
    """Reserve what ``run`` costs after ``done`` steps, and note that it ended if it did. What is interrupted stays spent."""
    check_account(ledger)
    reserved = None if ledger is None else ledger.reserve(run, done=done) if done else ledger.reserve(run)
    yield
    if reserved is not None:
        reserved.commit()
