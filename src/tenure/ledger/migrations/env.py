"""Alembic's entry: runs the revisions on the connection it is handed, inside that one's transaction."""

from __future__ import annotations

from alembic import context

from tenure.ledger.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    transactional_ddl=True,
    render_as_batch=True,  # SQLite changes a column by copying its table
)
with context.begin_transaction():
    context.run_migrations()
