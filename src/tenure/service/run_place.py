"""Where are a run's book and its key of signatures? In the folder of a server (`--data`), or its database."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tenure.engines.clock import Clock
from tenure.ledger.database import Database
from tenure.ledger.opening import open_database
from tenure.runs.book import RunBook
from tenure.runs.words import Event
from tenure.settings.errors import BadInput, shown

RECORD_FILE, KEY_FILE = "record.db", "approval.key"  #: in the folder
KEY_BYTES = 32


@contextmanager
def database(data: Path, db: str | None = None) -> Iterator[Database]:
    """The database of a run's book, made where there is none. BadInput, LedgerUnavailable."""
    if db is None:
        _make(data)
    opened = open_database(db if db is not None else data / RECORD_FILE)
    try:
        yield opened
    finally:
        opened.engine.dispose()


def _make(data: Path) -> None:
    try:
        data.mkdir(parents=True, exist_ok=True)
    except OSError as wrong:
        allowed = f"a folder, or one that can be made ({wrong.strerror})"
        raise BadInput("", "--data", shown(str(data)), allowed) from None


def signing_key(data: Path) -> bytes:
    """The key of signatures, made at first (mode 600). Who can read it can sign for anybody."""
    path = data / KEY_FILE
    _make(data)
    try:
        made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_bytes()
    with os.fdopen(made, "wb") as out:
        out.write(secrets.token_bytes(KEY_BYTES))
        out.flush()
        os.fsync(out.fileno())
    return path.read_bytes()


class AskedBook:
    """A run's book for a person's commands: no lease is needed, and a controller may be at work meanwhile."""

    def __init__(self, db: Database, run: str, clock: Clock) -> None:
        self.run = run
        self._book = RunBook(db, run, clock.now)

    def record(self, kind: str, body: Mapping[str, Any], *, key: str = "") -> Event:
        """Write it."""
        return self._book.ask(kind, body, key=key)

    def events(self, *kinds: str) -> Sequence[Event]:
        """All, or those of these kinds."""
        return self._book.events(*kinds)
