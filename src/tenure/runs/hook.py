"""How does a controller speak to its trainer? Through a folder: requests and deadlines in, heartbeats out.

Each file is written beside itself and renamed, so nobody ever reads half of one. What cannot be read counts
as not there: the next look reads it again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tenure.runs.heartbeats import RankBeat, read_beats
from tenure.trainer.words import REQUEST_FILE, WINDOW_FILE

DATE = "written_at"


class Hook:
    """The hook folder of a run."""

    def __init__(self, folder: Path, now: Callable[[], float] = time.time) -> None:
        """`now`: the clock that each file is dated by; trainers whose own is behind are led by it."""
        self.folder, self._now = folder, now
        folder.mkdir(parents=True, exist_ok=True)
        self._known: dict[Path, tuple[tuple[int, int, int], dict[str, Any]]] = {}

    def ask(self, body: Mapping[str, Any]) -> None:
        """Put a request there: {id, kind, deadline, reason}."""
        self._write(REQUEST_FILE, body)

    def tell_window(self, body: Mapping[str, Any]) -> None:
        """Put the window and its deadlines there."""
        self._write(WINDOW_FILE, body)

    def request(self) -> Mapping[str, Any] | None:
        """What was asked last."""
        return _undated(self._read(self.folder / REQUEST_FILE))

    def window(self) -> Mapping[str, Any] | None:
        """What was told of the window."""
        return _undated(self._read(self.folder / WINDOW_FILE))

    def beats(self, attempt: int) -> dict[int, RankBeat]:
        """The newest heartbeat of each rank of an attempt; those of older attempts are left out."""
        return read_beats(self.folder, attempt)

    def _read(self, path: Path) -> Mapping[str, Any] | None:
        try:
            told = path.stat()
            stamp = (told.st_mtime_ns, told.st_ino, told.st_size)
            known = self._known.get(path)
            if known is not None and known[0] == stamp:
                return known[1]
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        if not isinstance(found, dict):
            return None
        self._known[path] = (stamp, found)
        return found

    def _write(self, name: str, body: Mapping[str, Any]) -> None:
        beside = self.folder / f".{name}.{os.getpid()}"
        beside.write_text(json.dumps({**body, DATE: self._now()}), encoding="utf-8")
        beside.replace(self.folder / name)


def _undated(told: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """As it was given to be told: what says the same at another instant is the same."""
    return None if told is None else {key: value for key, value in told.items() if key != DATE}
