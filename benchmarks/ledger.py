"""What a ledger takes: the time to reserve and to commit, as it grows, without what accounting takes.

    python benchmarks/ledger.py [--entries 100000] [--repeats 50] [--url postgresql://USER@HOST/DATABASE]

A reservation is timed with its cost known: it opens a connection, reads the terms, takes the lock, reads the sums, writes, and
waits for the disk: how long a disk takes is printed, too. Entries are added in one transaction to make a long ledger, by the
functions that reserve. Without ``--url`` it is a file of SQLite in a temporary folder. Then ``state``, and ``verify``, which reads
everything.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import patch

import dplateau as dp
from common import about, seconds, table
from dplateau.ledger import account as accounts
from dplateau.ledger import book
from dplateau.ledger.account import Account
from dplateau.ledger.book import Part
from dplateau.ledger.database import connected

RUN = dp.Run(n=1000, sampling=dp.Poisson(50), steps=1000, noise_multiplier=2.0)
COST = 1e-9
PARTS = tuple(Part("shards", f"shard {number}") for number in range(10))
ON_A_PART = RUN.replace(n=RUN.n // len(PARTS))


def fill(account: Account, entries: int) -> None:
    """Add entries until there are so many: runs on all records, on ten parts, and commits in turn."""
    with connected(account.url, write=True) as connection:
        for number in range(book.head(connection).number, entries):
            found = partial(book.exists, connection, account.name)
            if found("reserved", number=number) and not found("committed", reservation=number):
                what = {"account": account.name, "who": account.who, "reservation": number}
                book.append(connection, kind="committed", body={}, **what)
                continue
            part = PARTS[number // 4 % len(PARTS)] if number % 4 == 1 else None
            after = book.sums(connection, account.name, part).after(COST, whole=part is None)
            what: dict[str, Any] = {"account": account.name, "who": account.who, "cost": COST, "spent": after.total}
            body: dict[str, Any] = {"run": RUN.to_dict(), "purpose": ""}
            if part is not None:
                what |= {"partition_spent": after.partition, "part_spent": after.part, **part._asdict()}
                places = book.places(connection, account.name, part).after(ON_A_PART.n)
                body |= {"run": ON_A_PART.to_dict(), "places": [places.partition, places.part]}
            book.append(connection, kind="reserved", body=body, **what)


def timed(work: Callable[[], object], repeats: int) -> list[float]:
    """Seconds of each repeat, after one that does not count."""
    times = []
    for _ in range(repeats + 1):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return times[1:]


def disk(folder: str, repeats: int) -> list[float]:
    """Seconds to write 4 KB and wait for the disk."""
    file = os.open(os.path.join(folder, "disk"), os.O_CREAT | os.O_WRONLY)

    def write() -> None:
        os.write(file, bytes(4096))
        os.fsync(file)

    return timed(write, repeats)


def measured(account: Account, repeats: int) -> tuple[str, ...]:
    """Times to reserve, on all records and on a part, to commit, and to see the state."""
    reservations: list[accounts.Reservation] = []
    with patch.object(accounts, "cost_of", lambda *_: COST):
        whole = timed(lambda: reservations.append(account.reserve(RUN)), repeats)
        part = timed(lambda: account.reserve(ON_A_PART, part=PARTS[0]), repeats)
    commit = timed(lambda: reservations.pop().commit(), repeats)
    state = timed(account.state, min(repeats, 10))
    return tuple(f"{seconds(times)}, at most {1e3 * max(times):.1f} ms" for times in (whole, part, commit, state))


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--url")
    options = parser.parse_args()
    print(about("sqlalchemy", "psycopg"))
    with tempfile.TemporaryDirectory() as folder:
        ledger = dp.Ledger(options.url or f"sqlite:///{folder}/privacy.db")
        ledger.create("benchmark", n=1000, epsilon=2.0, delta=1e-6)
        account, rows = ledger.account("benchmark", who="benchmark"), []
        for entries in (1, options.entries // 100, options.entries):
            fill(account, entries)
            rows.append((f"{entries:,}", *measured(account, options.repeats), seconds(disk(folder, options.repeats))))
        print(table(("entries", "reserve", "reserve, a part", "commit", "state", "one write to the disk"), rows))
        begin = time.perf_counter()
        found = ledger.verify(ledger.head())
        took = seconds([time.perf_counter() - begin])
        print(f"\nverify, all {ledger.head().number:,} entries: {took}; problems: {len(found)}")


if __name__ == "__main__":
    main()
