"""How does a trainer read and write the hook folder (docs/reference/trainer-hook.md)?

Files are written beside themselves and renamed. What cannot be parsed is taken as not written yet: the value
before it holds. Errors of the file system come out as OSError; the watcher turns them into words and goes on.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Folder:
    """One rank's view of the hook folder."""

    def __init__(self, path: Path, rank: int) -> None:
        self.path, self.rank = path, rank
        self._read: dict[str, tuple[tuple[int, int, int], dict[str, Any]]] = {}
        self._line_torn = False

    def read(self, name: str) -> dict[str, Any] | None:
        """The newest whole value of a file; None where there is none. OSError where there is no folder."""
        path = self.path / name
        try:
            told = path.stat()
        except FileNotFoundError:
            self.path.stat()  # no file is an answer, no folder is none
            self._read.pop(name, None)
            return None
        stamp = (told.st_mtime_ns, told.st_ino, told.st_size)
        kept = self._read.get(name)
        if kept is not None and kept[0] == stamp:
            return kept[1]
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            found = None
        if not isinstance(found, dict):
            return None if kept is None else kept[1]
        self._read[name] = (stamp, found)
        return found

    def write_beat(self, body: Mapping[str, Any]) -> None:
        """`heartbeat-RANK.json`. Where the disk is full, the room the file has already is used again."""
        text = json.dumps(body, separators=(",", ":"))
        target = self.path / f"heartbeat-{self.rank}.json"
        beside = self.path / f".heartbeat-{self.rank}.{os.getpid()}"
        try:
            beside.write_text(text.ljust(1024) + "\n", encoding="utf-8")
            beside.replace(target)
        except OSError as refused:
            with contextlib.suppress(OSError):
                beside.unlink()
            if refused.errno not in FULL or not _in_place(target, text):
                raise

    def append_beat(self, body: Mapping[str, Any]) -> None:
        """A line of `heartbeats-RANK.jsonl`. A line that was cut off by a full disk is ended first."""
        line = json.dumps(body, separators=(",", ":")) + "\n"
        with (self.path / f"heartbeats-{self.rank}.jsonl").open("ab", buffering=0) as log:
            data = (b"\n" if self._line_torn else b"") + line.encode()
            try:
                written = log.write(data)
            except OSError:
                raise
            self._line_torn = written != len(data)
            if self._line_torn:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _in_place(path: Path, text: str) -> bool:
    """Write over a file without a byte more than it has. False where it does not fit."""
    data = text.encode()
    try:
        with path.open("r+b", buffering=0) as file:
            room = os.fstat(file.fileno()).st_size
            if len(data) >= room:
                return False
            file.write(data.ljust(room - 1) + b"\n")
    except OSError:
        return False
    return True
