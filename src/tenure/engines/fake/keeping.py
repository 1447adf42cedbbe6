"""Where does a fake cluster live on when the process that asks it is killed? In one SQLite file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any


class Keeping:
    """A mapping of names to JSON values in a file; what one process writes, the next one reads."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None, timeout=30, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=OFF")  # a killed process loses nothing; a fake has no power cut
        self._db.execute("CREATE TABLE IF NOT EXISTS kept (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID")
        self._version = -1

    def begin(self) -> bool:
        """Nobody else may write from now on; True if somebody else has since this process last looked."""
        self._db.execute("BEGIN IMMEDIATE")
        (version,) = self._db.execute("PRAGMA data_version").fetchone()
        changed: bool = version != self._version
        self._version = version
        return changed

    def read(self) -> dict[str, Any]:
        """All of it."""
        return {name: json.loads(value) for name, value in self._db.execute("SELECT name, value FROM kept")}

    def write(self, changed: Iterable[tuple[str, Any]]) -> None:
        """Write these, delete those whose value is None, and let others write again."""
        for name, value in changed:
            if value is None:
                self._db.execute("DELETE FROM kept WHERE name = ?", (name,))
            else:
                self._db.execute("INSERT OR REPLACE INTO kept VALUES (?, ?)", (name, json.dumps(value)))
        self._db.execute("COMMIT")

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()
