"""What is read from the table of entries, and the one way to add to it."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, func, insert, select

from dplateau.ledger.entry import NAMES, NOTHING, Entry, Head, canonical, changed, data_of
from dplateau.ledger.schema import entries
from dplateau.ledger.sums import Places, Sums
from dplateau.spec import InputError
from dplateau.spec.names import ADJACENCIES

_BLOCK = 1000


class Part(NamedTuple):
    """A part of a public partition of the records."""

    partition: str
    part: str


def part_of(entry: Entry) -> Part | None:
    """The part that a reservation is on; None for all records."""
    return None if entry.partition is None or entry.part is None else Part(entry.partition, entry.part)


@dataclass(frozen=True)
class Terms:
    """What the opening of an account fixed: the records, the budget, and in which privacy notion it is kept.

    Raises
    ------
    TypeError
        These are not the words and numbers that were once written: an order above 1 where divergences are counted, and only there.
    """

    n: int
    n_is: str
    unit: str
    adjacency: str
    epsilon: float
    delta: float
    notion: str
    order: float | None
    budget: float

    def __post_init__(self) -> None:
        numbers = self.epsilon, self.delta, self.budget, 2.0 if self.order is None else self.order
        if not (
            type(self.n) is int
            and self.n > 0
            and all(isinstance(one, int | float) and 0 < one <= sys.float_info.max for one in numbers)
            and numbers[-1] > 1
            and all(isinstance(one, str) for one in (self.n_is, self.unit, self.notion))
            and self.adjacency in ADJACENCIES
            and (self.order is None) == (self.notion == "gaussian")
        ):
            raise TypeError("these are not the terms of an account")


def head(connection: Connection) -> Head:
    """Number and digest of the last entry; raises ``LedgerError`` where that is no text."""
    row = connection.execute(select(entries.c.number, entries.c.digest).order_by(entries.c.number.desc()).limit(1)).first()
    found = Head(0, NOTHING) if row is None else Head(*row)
    if not isinstance(found.digest, str):
        raise changed(f"entry {found.number} of the ledger")
    return found


def append(connection: Connection, **fields: Any) -> Entry:
    """Add an entry at the end. The connection must write: then nobody else adds one meanwhile."""
    last = head(connection)
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    body = canonical(fields.pop("body"))
    entry = Entry(number=last.number + 1, time=now, previous=last.digest, body=body, **fields)
    entry = replace(entry, digest=entry.computed())
    connection.execute(insert(entries).values({name: getattr(entry, name) for name in NAMES}))
    return entry


def read(connection: Connection, account: str | None = None) -> Iterator[Entry]:
    """Entries in their order, some at a time."""
    wanted = select(entries).order_by(entries.c.number)
    if account is not None:
        wanted = wanted.where(entries.c.account == account)
    return selected(connection, wanted)


def selected(connection: Connection, wanted: Select[Any]) -> Iterator[Entry]:
    """The entries that a query selects, some at a time."""
    for row in connection.execution_options(yield_per=_BLOCK).execute(wanted):
        yield Entry(**row._mapping)  # type: ignore[arg-type]


def terms(connection: Connection, account: str) -> Terms:
    """The terms of an account.

    Raises
    ------
    InputError
        There is no such account, or what opened it cannot be read (``LedgerError``).
    """
    body = connection.execute(_of(account, "opened").with_only_columns(entries.c.body)).scalar()
    if body is None:
        known = ", ".join(map(str, names(connection))) or "it has none yet"
        raise InputError(f"the ledger has no account {account!r} (accounts: {known}): check the name, or create it.")
    what = f"the opening of the account {account!r}"
    with suppress(TypeError):
        return Terms(**data_of(body, what))
    raise changed(what)


def exists(connection: Connection, account: str, kind: str, **fields: int) -> bool:
    """Whether the account has an entry of this kind, with these fields."""
    wanted = _of(account, kind).where(*(entries.c[name] == value for name, value in fields.items()))
    return connection.execute(wanted.with_only_columns(entries.c.number).limit(1)).first() is not None


def has_run(connection: Connection, account: str, part: Part | None, run: dict[str, Any]) -> bool:
    """Whether the account has a reservation of this run, on all records or on the part."""
    e, (partition, name) = entries.c, part or (None, None)
    wanted = _of(account, "reserved").with_only_columns(e.body).where(e.partition == partition, e.part == name)  # None: IS NULL
    found = connection.execution_options(yield_per=_BLOCK).execute(wanted).scalars()
    known, what = canonical(run), f"a reservation of the account {account!r}"
    return any(plain(data_of(body, what).get("run")) == known for body in found)


def count(connection: Connection, account: str, kind: str) -> int:
    """How many entries of this kind the account has."""
    return connection.execute(_of(account, kind).with_only_columns(func.count())).scalar_one()


def names(connection: Connection) -> Sequence[str]:
    """All accounts, in the order in which they were opened."""
    opened = select(entries.c.account).where(entries.c.kind == "opened").order_by(entries.c.number)
    return connection.execute(opened).scalars().all()


def sums(connection: Connection, account: str, part: Part | None) -> Sums:
    """What is spent, from the last entries that say so: nothing is summed up again."""
    e = entries.c
    reserved = _of(account, "reserved")
    total = _last(connection, account, reserved.with_only_columns(e.spent))
    if part is None:
        return Sums(total)
    of_partition = select(e.partition_spent).where(e.account == account, e.partition == part.partition)
    of_part = select(e.part_spent).where(e.account == account, e.partition == part.partition, e.part == part.part)
    return Sums(total, _last(connection, account, of_partition), _last(connection, account, of_part))


def places(connection: Connection, account: str, part: Part) -> Places:
    """How many places a partition and its part have; entries of earlier versions do not say."""
    e = entries.c
    wanted = select(e.body).where(e.account == account, e.partition == part.partition).order_by(e.number.desc()).limit(1)
    stated = [connection.execute(one).scalar() for one in (wanted, wanted.where(e.part == part.part))]
    what = f"a reservation of the account {account!r}"
    said = [data_of(body or "{}", what).get("places", [0, 0]) for body in stated]
    if not all(isinstance(one, list) and [type(number) for number in one] == [int, int] for one in said):  # pyright: ignore
        raise changed(what)
    return Places(max(said[0][0], 0), max(said[1][1], 0))


def parts(connection: Connection, account: str) -> dict[Part, float]:
    """The sum of every part that has one."""
    e = entries.c
    mine = e.account == account, e.partition.is_not(None)
    last = select(func.max(e.number)).where(*mine).group_by(e.partition, e.part)  # read from an index alone
    wanted = select(e.partition, e.part, e.part_spent).where(e.number.in_(last)).order_by(e.partition, e.part)
    return {Part(partition, part): _number(account, spent) for partition, part, spent in connection.execute(wanted)}


def _of(account: str, kind: str) -> Select[Any]:
    return select(entries).where(entries.c.account == account, entries.c.kind == kind)


def _last(connection: Connection, account: str, wanted: Select[Any]) -> float:
    found = connection.execute(wanted.order_by(entries.c.number.desc()).limit(1)).first()
    return 0.0 if found is None else _number(account, found[0])


def plain(data: Any) -> str | None:
    """Data as a text; None where it holds what was never written, such as an infinite number."""
    with suppress(ValueError):
        return canonical(data)
    return None


def _number(account: str, value: object) -> float:
    """A sum, which whoever changed a row may have made anything else."""
    if not isinstance(value, float | int) or not 0 <= value < math.inf:
        raise changed(f"what the account {account!r} has spent")
    return float(value)
