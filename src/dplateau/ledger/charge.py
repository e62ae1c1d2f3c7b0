"""``Charge``: by which entries a certificate was paid for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from dplateau.certificate import Certificate
from dplateau.ledger.book import selected
from dplateau.ledger.entry import Entry
from dplateau.ledger.schema import entries
from dplateau.spec import ContradictionError
from dplateau.spec.selection import run_from_dict


class Charge(NamedTuple):
    """A reservation, and the entry that says which certificate came out of it."""

    reserved: Entry
    committed: Entry

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, without the run."""
        one = self.reserved
        return {
            "account": one.account,
            "who": one.who,
            "purpose": one.data.get("purpose", ""),
            "reserved": one.number,
            "reserved_at": one.time,
            "committed": self.committed.number,
            "committed_at": self.committed.time,
        }


def digest_of(certificate: Certificate) -> str:
    """The SHA-256 under which a ledger knows a certificate: of what it says but for its label, as dplateau writes it."""
    return hashlib.sha256(certificate.unlabelled.to_json().encode()).hexdigest()


def charges(connection: Connection, certificate: Certificate) -> Iterator[Charge]:
    """The reservations that were committed with this certificate.

    Raises
    ------
    ContradictionError
        An entry names it, but is not as it was written, or is about a reservation of another run.
    """
    digest = digest_of(certificate)
    named = select(entries).where(entries.c.kind == "committed", entries.c.body.contains(digest, autoescape=True))
    for committed in list(selected(connection, named.order_by(entries.c.number))):
        reserved = next(selected(connection, select(entries).where(entries.c.number == committed.reservation)), None)
        if reserved is None or not _agree(reserved, committed, digest, certificate):
            raise ContradictionError(
                f"entry {committed.number} of the ledger names this certificate, but it or its reservation is not what was written:"
                " 'dplateau ledger verify' says what is wrong."
            )
        yield Charge(reserved, committed)


def _agree(reserved: Entry, committed: Entry, digest: str, certificate: Certificate) -> bool:
    """Whether both entries are as they were written, and about the certificate's run."""
    try:
        run = run_from_dict(reserved.data["run"])
        named = committed.data["certificate_sha256"]
    except (ValueError, KeyError, TypeError):
        return False
    return (
        (reserved.kind, reserved.account, named) == ("reserved", committed.account, digest)
        and run.digest == certificate.run.digest
        and all(one.typed and one.digest == one.computed() for one in (reserved, committed))
    )
