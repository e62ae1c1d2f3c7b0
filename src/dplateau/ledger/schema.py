"""The table of entries, as queries see it. Migrations make it: ``migrations/versions``."""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Column, Double, Index, Integer, MetaData, Table, Text

VERSION_TABLE: Final = "ledger_version"
VERSION: Final = "0001"
"""The schema that this version of the library reads and writes."""
OLDER: Final[tuple[str, ...]] = ()
"""Schemas that can be migrated to it."""

number = BigInteger().with_variant(Integer, "sqlite")
metadata = MetaData()
entries = Table(
    "ledger_entries",
    metadata,
    Column("number", number, primary_key=True, autoincrement=False),
    Column("time", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("account", Text, nullable=False),
    Column("who", Text, nullable=False),
    Column("reservation", number),
    Column("partition", Text),
    Column("part", Text),
    Column("cost", Double),
    Column("spent", Double),
    Column("partition_spent", Double),
    Column("part_spent", Double),
    Column("body", Text, nullable=False),
    Column("previous", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Index("ledger_entries_reservation", "reservation", unique=True),
    Index("ledger_entries_kind", "account", "kind", "number"),
    Index("ledger_entries_partition", "account", "partition", "number"),
    Index("ledger_entries_part", "account", "partition", "part", "number"),
)
