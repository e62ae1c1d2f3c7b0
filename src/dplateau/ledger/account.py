"""``Account``: the budget of one data set, and what is reserved from it before anybody trains."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection

from dplateau.certificate import Certificate
from dplateau.filter import cost_of, no_cost
from dplateau.ledger import book
from dplateau.ledger.book import Part, Terms
from dplateau.ledger.charge import digest_of
from dplateau.ledger.continued import continued
from dplateau.ledger.database import connected
from dplateau.ledger.entry import changed
from dplateau.ledger.grant import Forecast, check, forecast, refusal
from dplateau.ledger.sums import covers
from dplateau.ledger.words import part_of
from dplateau.spec import BudgetError, InputError, Run, Runs


@dataclass(frozen=True, kw_only=True)
class State:
    """What an account has spent.

    Attributes
    ----------
    name : str
        The account.
    n : int
        Number of records.
    n_is : str
        Why n is public.
    unit : str
        What a record is: a row, or all rows of a person.
    adjacency : str
        Of all runs.
    epsilon, delta : float
        What all runs together satisfy, however they are chosen.
    notion : str
        The privacy notion in which the budget is kept.
    order : float or None
        Of the Renyi divergence.
    budget, spent : float
        Renyi divergences or squared mus, as ``Filter`` counts them.
    left : float
        The share of the budget that is left, from 1 to 0.
    reserved, committed : int
        Reservations, and how many of them ended with a result.
    parts : tuple of (str, str, float)
        Partitions, their parts, and the share of the budget that runs on the part cost.
    closed : bool
        Whether nothing more can be reserved.
    """

    name: str
    n: int
    n_is: str
    unit: str
    adjacency: str
    epsilon: float
    delta: float
    notion: str
    order: float | None
    budget: float
    spent: float
    left: float
    reserved: int
    committed: int
    parts: tuple[tuple[str, str, float], ...]
    closed: bool

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        parts = [{"partition": partition, "part": part, "share": share} for partition, part, share in self.parts]
        return {**vars(self), "parts": parts}


@dataclass(frozen=True)
class Account:
    """The account of a data set, seen by somebody who trains on it. ``Ledger.account`` makes it.

    It holds an address and names only, and connects when it is used: it can be pickled, copied and sent to other processes.

    Attributes
    ----------
    url : str
        The ledger's address, with a password where it has one.
    name : str
        The account.
    who : str
        Who trains.
    purpose : str
        What for.
    """

    url: str = field(repr=False)
    name: str
    who: str
    purpose: str = ""

    def reserve(self, run: Run | Runs, *, part: tuple[str, str] | None = None, done: int = 0) -> Reservation:
        """Take a run out of the budget, before its first noise is drawn. It stays spent, whether or not the training ends.

        Of several processes that reserve at once, each sees what the others took. A run that goes on while others are reserved may
        use nothing that they release: its parameters and its start are fixed here. **Proved** (``docs/proofs/ledger.md``).

        Parameters
        ----------
        run : Run or Runs
            What will be computed, on all records or on some of them that were chosen without looking at what they say, such as a
            fold of a cross-validation: n is their number. ``Runs``, fixed in advance, are one reservation, at what they cost
            together.
        part : (str, str), optional
            The names of a partition and of its part, where the run sees only the records of that part, and n is its number of
            records. Parts are disjoint, and which one a record is in follows from the record alone by a public rule. Together the
            parts have no more records than the account.
        done : int, default 0
            Steps that an earlier training of this run made, from whose checkpoint this one goes on: it uses the records in the
            steps after these only, and they are all it costs. The account must have a reservation of the run, which paid for what
            the checkpoint holds; whatever it holds, the steps after it cost no more. For runs that release all iterates; at the
            beginning of an epoch, where the sampling has any.

        Returns
        -------
        Reservation
            Commit it when the training ended.

        Raises
        ------
        BudgetError
            The budget does not cover it, or the account is closed. Nothing is reserved.
        InputError
            The run is not on these records, or cannot go on after ``done`` steps, or the ledger cannot be used (``LedgerError``).
            Nothing is reserved.
        """
        where = part_of(part)
        with connected(self.url) as connection:
            terms = book.terms(connection, self.name)
        check(run, where, terms)
        rest, done = continued(run, done)
        body: dict[str, Any] = {"run": run.to_dict(), "purpose": self.purpose}
        if done:
            body["done"] = done
            with connected(self.url) as connection:
                if not book.has_run(connection, self.name, where, body["run"]):
                    raise InputError(_unpaid(self.name, done))
        cost = cost_of(rest, terms.order)
        if not math.isfinite(cost):
            raise BudgetError(no_cost(rest, terms.order))
        with connected(self.url, write=True) as connection:
            if book.exists(connection, self.name, "closed"):
                raise BudgetError(f"the account {self.name!r} is closed: nothing was reserved. Ask who keeps the ledger.")
            if where is not None:
                body["places"] = _places(connection, self.name, where, run.n, terms)
            before = book.sums(connection, self.name, where)
            after = before.after(cost, whole=where is None)
            numbers = {} if where is None else {"partition_spent": after.partition, "part_spent": after.part, **where._asdict()}
            what = {"account": self.name, "who": self.who, "cost": cost, "spent": after.total, **numbers}
            entry = book.append(connection, kind="reserved", body=body, **what) if covers(terms.budget, after) else None
        if entry is None:  # What would fit is looked for when others can go on.
            raise BudgetError(refusal(self.name, rest, where, cost, before, terms, done=done))
        return Reservation(self, entry.number, run, cost, where, done)

    def state(self) -> State:
        """What is spent, and what is left.

        Raises
        ------
        InputError
            There is no such account, or the ledger cannot be used (``LedgerError``).
        """
        with connected(self.url) as connection:
            return state_of(connection, self.name)

    def forecast(self, run: Run | Runs, *, part: tuple[str, str] | None = None) -> Forecast:
        """What a run would cost, and what it would leave. Nothing is reserved, and others may reserve meanwhile.

        Parameters
        ----------
        run, part
            As in ``reserve``.

        Returns
        -------
        Forecast
            Shares of the budget.

        Raises
        ------
        InputError
            The run is not on these records, or the ledger cannot be used (``LedgerError``).
        """
        where = part_of(part)
        with connected(self.url) as connection:
            terms = book.terms(connection, self.name)
            closed = book.exists(connection, self.name, "closed")
            before = book.sums(connection, self.name, where)
            check(run, where, terms)
            if where is not None:
                _places(connection, self.name, where, run.n, terms)
        return forecast(run, where, before, terms, closed=closed)


def state_of(connection: Connection, name: str) -> State:
    """What an account has spent, and what is left."""
    terms = book.terms(connection, name)
    sums = book.sums(connection, name, None)
    shares = {part: spent / terms.budget for part, spent in book.parts(connection, name).items()}
    if math.inf in shares.values():
        raise changed(f"the budget of the account {name!r}")
    return State(
        name=name,
        **vars(terms),
        spent=sums.spent,
        left=sums.left(terms.budget),
        reserved=book.count(connection, name, "reserved"),
        committed=book.count(connection, name, "committed"),
        parts=tuple((part.partition, part.part, share) for part, share in shares.items()),
        closed=book.exists(connection, name, "closed"),
    )


@dataclass(frozen=True)
class Reservation:
    """A run that is paid for.

    Attributes
    ----------
    account : Account
        Who reserved it, and where.
    number : int
        The entry's number.
    run : Run or Runs
        What may be computed, once.
    cost : float
        What it costs, in units of the budget.
    part : (str, str) or None
        The partition and the part whose records it sees.
    done : int
        Steps of the run that are not computed again.
    """

    account: Account
    number: int
    run: Run | Runs
    cost: float
    part: tuple[str, str] | None = None
    done: int = 0

    def commit(self, certificate: Certificate | None = None) -> None:
        """Write down that the training ended. It gives nothing back.

        Parameters
        ----------
        certificate : Certificate, optional
            Of the release. Its SHA-256 is written down, and the digest of the weights that it is about.

        Raises
        ------
        InputError
            The certificate is about another run, the reservation is committed already, or the ledger cannot be used
            (``LedgerError``).
        """
        account, body = self.account, {}
        if certificate is not None:
            if not isinstance(certificate, Certificate):
                raise InputError(f"expected a certificate, got {type(certificate).__name__}.")
            if certificate.run.digest != self.run.digest:
                raise InputError(
                    f"the certificate is about another run than reservation {self.number}: commit the one of its release."
                )
            body = {
                "certificate_sha256": digest_of(certificate),
                "weights_sha256": certificate.weights_sha256,
                "certifies": certificate.certifies,
            }
        with connected(account.url, write=True) as connection:
            if not book.exists(connection, account.name, "reserved", number=self.number):
                raise InputError(f"the account {account.name!r} has no reservation {self.number}: check the ledger's address.")
            if book.exists(connection, account.name, "committed", reservation=self.number):
                raise InputError(f"reservation {self.number} is committed already: reserve again to train again.")
            book.append(connection, kind="committed", account=account.name, who=account.who, reservation=self.number, body=body)


def _places(connection: Connection, name: str, part: Part, n: int, terms: Terms) -> list[int]:
    """How many places the partition and the part have with a run on n of them."""
    found = book.places(connection, name, part).after(n)
    if found.partition > terms.n:
        raise InputError(
            f"with this run the parts of {part.partition!r} have {found.partition:,} records together, and the account "
            f"{terms.n:,}: disjoint parts have no more. Leave part out where a record is in several, as in folds to train on."
        )
    return [found.partition, found.part]


def _unpaid(name: str, done: int) -> str:
    """Why a training cannot go on from a checkpoint that nobody paid for."""
    return (
        f"the account {name!r} has no reservation of this run, so its first {done:,} steps were never taken out. If the training "
        "began without the ledger, reserve the whole run by hand, with account.reserve(run), and go on then."
    )
