"""One database, SQLite or PostgreSQL: how to read it, and how to write to it, whole or not at all."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from sqlalchemy import Connection, Engine, Table, bindparam, update
from sqlalchemy.dialects import postgresql, sqlite

from tenure.ledger.faults import as_ledger_errors
from tenure.ledger.records import LedgerUnavailable
from tenure.ledger.tables import COUNTERS

WRITE_WAIT_S = 20.0  #: longest wait for another writer

Rows = Sequence[Mapping[str, Any]]


class Database:
    """An engine with its rules. Safe to use from many threads."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.is_sqlite = engine.dialect.name == "sqlite"
        # SQLite lets a second writer sleep and try again; queued here, it goes on at once
        self._writers = threading.Lock()
        self._file = str(engine.url.database) if self.is_sqlite else ""
        self._known = _which(self._file) if self._file else None

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that only reads."""
        with as_ledger_errors(), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self, *, durable: bool = True) -> Iterator[Connection]:
        """A transaction that is written whole when the block ends, or not at all where it raises.

        `durable`: on the disk before it returns. Otherwise a power cut may undo the newest of them (never
        half of one): for what would only be done once more.
        """
        with self._writing_alone(), as_ledger_errors(), self.engine.connect() as connection:
            if self.is_sqlite:
                level = "FULL" if durable else "NORMAL"
                driver(connection).execute(f"PRAGMA synchronous={level}").close()
                connection = connection.execution_options(begins="IMMEDIATE")
            with connection.begin():
                self._look_at_file()
                if not self.is_sqlite and not durable:
                    connection.exec_driver_sql("SET LOCAL synchronous_commit = off")
                yield connection

    def _look_at_file(self) -> None:
        """A file that was removed can be written to as long as it is open; nobody would find it again."""
        if self._file and (self._known is None or _which(self._file) != self._known):
            raise LedgerUnavailable(
                f"the record's file {self._file} was removed or replaced: put it back, or stop this server"
            )

    @contextmanager
    def _writing_alone(self) -> Iterator[None]:
        if not self.is_sqlite:
            yield
            return
        if not self._writers.acquire(timeout=WRITE_WAIT_S):
            raise LedgerUnavailable(f"another write has gone on for {WRITE_WAIT_S:.0f} s")
        try:
            yield
        finally:
            self._writers.release()

    def insert(self, connection: Connection, table: Table, rows: Rows) -> None:
        """Insert rows, if there are any."""
        if rows:
            connection.execute(table.insert(), list(rows))

    def put(self, connection: Connection, table: Table, rows: Rows, *, keep: tuple[str, ...] = ()) -> None:
        """Insert rows; where the primary key is there already, write all columns anew but those of `keep`."""
        if rows:
            connection.execute(_upsert(table, keep, self.is_sqlite), list(rows))

    def put_if_absent(self, connection: Connection, table: Table, row: Mapping[str, Any]) -> None:
        """Insert a row, unless its primary key is there already."""
        make = sqlite.insert if self.is_sqlite else postgresql.insert
        connection.execute(make(table).on_conflict_do_nothing(), [row])

    def settle(self, table: Table, settled: Sequence[tuple[Any, str, str]], *, durable: bool = True) -> None:
        """(primary key, state, detail) of rows that have a `state` and a `detail`."""
        if not settled:
            return
        (key,) = table.primary_key
        change = (
            update(table)
            .where(key == bindparam("a_key"))
            .values(state=bindparam("new_state"), detail=bindparam("new_detail"))
        )
        lines = [{"a_key": which, "new_state": state, "new_detail": said} for which, state, said in settled]
        with self.writing(durable=durable) as connection:
            connection.execute(change, lines)


def _which(file: str) -> tuple[int, int] | None:
    """Which file that is, whatever it is called; None where there is none."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def driver(connection: Connection) -> Any:
    """The driver's own connection, for what must be said outside of any transaction."""
    return connection.connection.driver_connection


@cache
def _upsert(table: Table, keep: tuple[str, ...], is_sqlite: bool) -> sqlite.Insert | postgresql.Insert:
    statement = (sqlite.insert if is_sqlite else postgresql.insert)(table)
    keys = [column.name for column in table.primary_key]
    changed = {
        column.name: statement.excluded[column.name]
        for column in table.columns
        if column.name not in keys and column.name not in keep
    }
    return statement.on_conflict_do_update(index_elements=keys, set_=changed)


def count_on(connection: Connection, name: str, by: int) -> int:
    """Take the next `by` numbers of a counter; returns the number before the first of them.

    The row stays locked until the transaction ends, so numbers follow the order of the commits.
    """
    row = COUNTERS.c
    change = update(COUNTERS).where(row.name == name).values(last=row.last + by).returning(row.last)
    return int(connection.execute(change).scalar_one()) - by
