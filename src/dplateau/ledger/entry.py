"""``Entry``: one line of the ledger, and the digest that chains it to the line before."""

from __future__ import annotations

import hashlib
import json
import math
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple

from dplateau.spec.errors import LedgerError

KINDS: Final = ("opened", "reserved", "committed", "closed")
NOTHING: Final = "0" * 64
"""What the first entry has in place of the digest of the one before."""


class Head(NamedTuple):
    """The last entry of a ledger: who keeps it can tell later that nothing before it was changed, and nothing cut off."""

    number: int
    digest: str


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One entry of a ledger.

    Attributes
    ----------
    number : int
        Its place, from 1.
    time : str
        When it was written: ISO 8601, UTC, by the clock of the machine that wrote it.
    kind : {"opened", "reserved", "committed", "closed"}
        What happened.
    account : str
        The account.
    who : str
        By whom.
    reservation : int or None
        Of "committed": the number of the reservation.
    partition, part : str or None
        Of "reserved": what the run saw; None for all records.
    cost : float or None
        Of "reserved": what the run costs, in units of the budget.
    spent : float or None
        Of "reserved": what the account has spent with it.
    partition_spent, part_spent : float or None
        Of "reserved", for a part: the largest sum of a part of the partition, and the sum of this part, with it.
    body : str
        The rest, as canonical JSON: the terms of an account, a run and its purpose, or the digests of a certificate.
    previous : str
        Digest of the entry before.
    digest : str
        SHA-256 of the canonical JSON of all of these.
    """

    number: int
    time: str
    kind: str
    account: str
    who: str
    reservation: int | None = None
    partition: str | None = None
    part: str | None = None
    cost: float | None = None
    spent: float | None = None
    partition_spent: float | None = None
    part_spent: float | None = None
    body: str
    previous: str
    digest: str = ""

    @property
    def data(self) -> dict[str, Any]:
        """The body, read.

        Raises
        ------
        LedgerError
            It is no object of JSON.
        """
        return data_of(self.body, f"entry {self.number} of the ledger")

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, with the body read."""
        return {name: getattr(self, name) for name in NAMES} | {"body": self.data}

    @property
    def typed(self) -> bool:
        """Whether every field holds what it was written with: a text or a number, or nothing where that may be."""
        texts = self.time, self.kind, self.account, self.who, self.body, self.previous, self.digest
        names, numbers = (self.partition, self.part), (self.cost, self.spent, self.partition_spent, self.part_spent)
        return (
            all(isinstance(one, str) for one in texts)
            and all(one is None or isinstance(one, str) for one in names)
            and all(one is None or (isinstance(one, int | float) and math.isfinite(one)) for one in numbers)
            and isinstance(self.reservation, int | None)
        )

    def computed(self) -> str:
        """The digest that follows from all other fields."""
        return hashlib.sha256(canonical([getattr(self, name) for name in NAMES[:-1]]).encode()).hexdigest()


NAMES: Final = tuple(field.name for field in fields(Entry))
"""Fields of an entry, the digest last: the columns of the table."""


def canonical(data: Any) -> str:
    """JSON without blanks, keys sorted, ASCII only, finite numbers in their shortest form: equal data, equal text."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)


def data_of(body: Any, what: str) -> dict[str, Any]:
    """A body, read; raises ``LedgerError`` where it is no object of JSON."""
    with suppress(ValueError, TypeError, RecursionError):
        if isinstance(found := json.loads(body), dict):
            return found
    raise changed(what)


def changed(what: str) -> LedgerError:
    """The error of whoever reads what somebody else wrote into the ledger."""
    return LedgerError(f"{what} was changed: dplateau ledger verify says where.")
