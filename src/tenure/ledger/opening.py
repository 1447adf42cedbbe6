"""Open a record: a file (SQLite) or a URL (PostgreSQL), with the settings each needs to lose nothing."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, exc
from sqlalchemy.engine import URL, make_url

from tenure.ledger.database import Database
from tenure.ledger.faults import as_ledger_errors, sentence
from tenure.ledger.migrate import bring_up, holds_something_else, version_of
from tenure.ledger.records import LedgerUnavailable
from tenure.settings.errors import BadInput, shown

BUSY_S = 10.0  #: how long a writer waits for one of another process
WAIT_FOR_CONNECTION_S = 10.0
ALLOWED = "a file's path, sqlite:///PATH or postgresql+psycopg://USER@HOST/DATABASE"

#: For PostgreSQL: nobody waits for ever, and a server that stopped in mid-write does not hold up the next.
SESSION = {
    "lock_timeout": "10s",
    "statement_timeout": "60s",
    "idle_in_transaction_session_timeout": "30s",
}
NOT_THERE = ("does not exist", "authentication failed", "could not translate host name", "no pg_hba.conf")


def open_database(url_or_path: str | os.PathLike[str], *, create: bool = True) -> Database:
    """Open the database and bring its schema up to date.

    Raises BadInput where the URL is wrong, LedgerUnavailable, LedgerTooNew.
    """
    url = url_of(url_or_path)
    name = url.render_as_string(hide_password=True) if url.drivername != "sqlite" else str(url.database)
    engine = _sqlite(url, create) if url.drivername == "sqlite" else _postgresql(url)
    database = Database(engine)
    try:
        _check(database, name, create)
        bring_up(database)
    except BaseException:
        engine.dispose()
        raise
    return database


def url_of(url_or_path: str | os.PathLike[str]) -> URL:
    """The URL with its driver. Raises BadInput."""
    given = os.fspath(url_or_path)
    if not given.strip() or "\0" in given:
        raise BadInput("database", "", shown(given), ALLOWED)
    if isinstance(url_or_path, os.PathLike) or "://" not in given:
        return URL.create("sqlite", database=given)
    try:
        url = make_url(given)
    except (exc.ArgumentError, ValueError):
        kind = given.partition("://")[0]  # the rest may hold a password
        raise BadInput("database", "", f"no URL: {shown(kind + '://…')}", ALLOWED) from None
    safe = shown(url.render_as_string(hide_password=True))
    if url.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        if not url.database:
            raise BadInput("database", "", f"{safe} without a database", ALLOWED)
        return url.set(drivername="postgresql+psycopg")
    if url.drivername in ("sqlite", "sqlite+pysqlite"):
        if not url.database or url.database == ":memory:" or url.query or url.host:
            raise BadInput("database", "", safe, f"{ALLOWED}; a record in memory would not survive anything")
        return URL.create("sqlite", database=url.database)
    raise BadInput("database", "", f"the kind {shown(url.drivername)}", ALLOWED)


def _sqlite(url: URL, create: bool) -> Engine:
    path = Path(str(url.database)).absolute()
    if path.is_dir():
        raise BadInput("database", "", f"the folder {shown(str(path))}", "a file, or a file yet to be made")
    if not path.exists():
        if not create:
            raise BadInput("database", "", f"no file {shown(str(path))}", "a record that is there")
        if not path.parent.is_dir():
            raise BadInput("database", "", f"no folder {shown(str(path.parent))}", "a folder that is there")
        try:  # it will hold commands and environments: for its owner only
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        except OSError as error:
            raise LedgerUnavailable(f"{path}: {error.strerror}") from error
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        connect_args={"timeout": BUSY_S, "check_same_thread": False},
        pool_size=12,  # more are waited for: making one for a single question costs ten times the question
        max_overflow=0,
        pool_timeout=WAIT_FOR_CONNECTION_S,
    )
    event.listen(engine, "connect", _set_up_sqlite)
    event.listen(engine, "begin", _begin)
    return engine


def _set_up_sqlite(driver: sqlite3.Connection, record: Any) -> None:
    driver.isolation_level = None  # transactions begin where we say so, not where the driver guesses
    for pragma in (
        "auto_vacuum=INCREMENTAL",  # counts only for a file that is still empty
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=ON",
        f"busy_timeout={int(BUSY_S * 1000)}",
        "cache_size=-2000",  # KiB, of each connection
        "journal_size_limit=67108864",
    ):
        driver.execute(f"PRAGMA {pragma}").close()


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql(f"BEGIN {connection.get_execution_options().get('begins', 'DEFERRED')}")


def _postgresql(url: URL) -> Engine:
    query = dict(url.query)
    settings = " ".join(f"-c {key}={value}" for key, value in SESSION.items())
    query["options"] = f"{settings} {query.get('options', '')}".strip()
    query.setdefault("connect_timeout", "5")
    query.setdefault("application_name", "tenure")
    return create_engine(
        url.set(query=query),
        pool_size=8,
        max_overflow=24,
        pool_timeout=WAIT_FOR_CONNECTION_S,
        pool_pre_ping=True,  # a server restarted between two calls is not noticed
        isolation_level="READ COMMITTED",
    )


def _check(database: Database, name: str, create: bool) -> None:
    """Raise BadInput where there is no database, or one of something else."""
    try:
        with as_ledger_errors(), database.engine.connect() as connection:
            strange = holds_something_else(connection)
            absent = version_of(connection) is None
    except LedgerUnavailable as error:
        if any(words in str(error) for words in NOT_THERE):
            raise BadInput("database", "", f"{shown(name)}: {error}", ALLOWED) from error
        raise
    except Exception as error:
        if "not a database" in str(error):
            raise BadInput("database", "", f"{shown(name)}: {sentence(error)}", ALLOWED) from error
        raise
    if strange:
        raise BadInput("database", "", f"{shown(name)} with tables of something else", "an empty database")
    if absent and not create:
        raise BadInput("database", "", f"no record in {shown(name)}", "a record that is there")
