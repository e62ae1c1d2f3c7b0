"""Migrations of the ledger's table, run by Alembic."""
