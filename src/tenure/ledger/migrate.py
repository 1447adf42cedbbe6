"""Bring a database to the schema of this release: the migrations of `migrations/`, run when it is opened."""

from __future__ import annotations

import threading
from pathlib import Path

from sqlalchemy import Connection, inspect, text

from tenure.ledger.database import Database
from tenure.ledger.records import LedgerTooNew
from tenure.ledger.tables import HEAD

MIGRATIONS = Path(__file__).with_name("migrations")
LOCK = 0x74656E757265  #: of PostgreSQL's advisory locks: "tenure"

_one_at_a_time = threading.Lock()  # Alembic keeps what it works on in a module


def version_of(connection: Connection) -> str | None:
    """The revision the database is at; None where it holds no record."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def holds_something_else(connection: Connection) -> bool:
    """Whether there are tables, none of them ours."""
    return version_of(connection) is None and bool(inspect(connection).get_table_names())


def bring_up(database: Database) -> None:
    """Run what is missing, in one transaction. Raises LedgerTooNew where a newer release was there before."""
    with database.reading() as connection:
        if version_of(connection) == HEAD:
            return
    with _one_at_a_time, database.writing() as connection:
        if not database.is_sqlite:
            connection.execute(text("SET LOCAL statement_timeout = 0"))  # a large record takes its time
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
        found = version_of(connection)  # another process may have been quicker
        if found != HEAD:
            upgrade(connection, found)


def upgrade(connection: Connection, found: str | None) -> None:
    """Run the migrations after `found` on a connection that is inside a transaction."""
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if found is not None and found not in known:
        raise LedgerTooNew(
            f"the record is at revision {found!r}; this release knows those up to {HEAD!r}: use a newer one"
        )
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
