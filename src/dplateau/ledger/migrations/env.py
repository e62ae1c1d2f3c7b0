"""What Alembic runs: the migrations, in the transaction of the connection that it is given."""

from alembic import context

from dplateau.ledger.schema import VERSION_TABLE

context.configure(connection=context.config.attributes["connection"], version_table=VERSION_TABLE)
with context.begin_transaction():
    context.run_migrations()
