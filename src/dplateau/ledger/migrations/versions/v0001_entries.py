"""The table of entries: rows are added at its end, and neither changed nor removed.

The triggers stop mistakes. They do not stop somebody who owns the database: what such a person changes, the chain shows.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0001"
down_revision: Final = None
branch_labels: Final = None
depends_on: Final = None

TABLE: Final = "ledger_entries"
REFUSED: Final = "entries of a ledger are neither changed nor removed"
NEXT: Final = "an entry of a ledger follows the last one"

SQLITE: Final = (
    f"CREATE TRIGGER {TABLE}_no_update BEFORE UPDATE ON {TABLE} BEGIN SELECT RAISE(ABORT, '{REFUSED}'); END",
    f"CREATE TRIGGER {TABLE}_no_delete BEFORE DELETE ON {TABLE} BEGIN SELECT RAISE(ABORT, '{REFUSED}'); END",
    f"CREATE TRIGGER {TABLE}_next BEFORE INSERT ON {TABLE} "
    f"WHEN NEW.number IS NOT (SELECT COALESCE(MAX(number), 0) + 1 FROM {TABLE}) BEGIN SELECT RAISE(ABORT, '{NEXT}'); END",
)
POSTGRESQL: Final = (
    f"CREATE FUNCTION {TABLE}_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION '{REFUSED}'; END $$",
    f"CREATE FUNCTION {TABLE}_follows() RETURNS trigger LANGUAGE plpgsql AS "
    f"$$ BEGIN IF NEW.number <> (SELECT COALESCE(MAX(number), 0) + 1 FROM {TABLE}) "
    f"THEN RAISE EXCEPTION '{NEXT}'; END IF; RETURN NEW; END $$",
    f"CREATE TRIGGER {TABLE}_no_change BEFORE UPDATE OR DELETE ON {TABLE} FOR EACH ROW EXECUTE FUNCTION {TABLE}_refuse()",
    f"CREATE TRIGGER {TABLE}_no_truncate BEFORE TRUNCATE ON {TABLE} FOR EACH STATEMENT EXECUTE FUNCTION {TABLE}_refuse()",
    f"CREATE TRIGGER {TABLE}_next BEFORE INSERT ON {TABLE} FOR EACH ROW EXECUTE FUNCTION {TABLE}_follows()",
)


def upgrade() -> None:
    """Make table, indexes and triggers."""
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        TABLE,
        sa.Column("number", number, primary_key=True, autoincrement=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("time", "kind", "account", "who")),
        sa.Column("reservation", number),
        *(sa.Column(name, sa.Text()) for name in ("partition", "part")),
        *(sa.Column(name, sa.Double()) for name in ("cost", "spent", "partition_spent", "part_spent")),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("body", "previous", "digest")),
    )
    op.create_index(f"{TABLE}_reservation", TABLE, ["reservation"], unique=True)
    op.create_index(f"{TABLE}_kind", TABLE, ["account", "kind", "number"])
    op.create_index(f"{TABLE}_partition", TABLE, ["account", "partition", "number"])
    op.create_index(f"{TABLE}_part", TABLE, ["account", "partition", "part", "number"])
    for statement in SQLITE if op.get_bind().dialect.name == "sqlite" else POSTGRESQL:
        op.execute(statement)


def downgrade() -> None:
    """There is no older schema to go back to, and entries are not removed."""
    raise NotImplementedError
