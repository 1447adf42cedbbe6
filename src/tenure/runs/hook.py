"""How does a controller speak to its trainer? Through a folder: requests and deadlines in, heartbeats out.

Each file is written beside itself and renamed, so nobody ever reads half of one. What cannot be read counts
as not there: the next look reads it again.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tenure.runs.look import Beat

FIELDS = ("step", "tokens", "step_s", "state", "committed_step", "committed_tokens", "save_p99_s", "answered")


class Hook:
    """The hook folder of a run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._offset = 0
        self._last: dict[int, Beat] = {}
        self._spent: defaultdict[int, float] = defaultdict(float)

    def ask(self, body: Mapping[str, Any]) -> None:
        """Put a request there: {id, kind, deadline, reason}."""
        self._write("request.json", body)

    def tell_window(self, body: Mapping[str, Any]) -> None:
        """Put the window and its deadlines there."""
        self._write("window.json", body)

    def request(self) -> Mapping[str, Any] | None:
        """What was asked last."""
        return self._read(self.folder / "request.json")

    def window(self) -> Mapping[str, Any] | None:
        """What was told of the window."""
        return self._read(self.folder / "window.json")

    def beats(self, attempt: int) -> dict[int, Beat]:
        """The newest heartbeat of each rank of an attempt; those of older attempts are left out."""
        found = {}
        for path in self.folder.glob("heartbeat-*.json"):
            told = self._read(path)
            beat = None if told is None else _beat(told)
            if beat is not None and beat.attempt == attempt:
                found[beat.rank] = beat
        return found

    def computing_s(self, attempt: int) -> float:
        """Seconds rank 0 of an attempt has spent in steps, by its heartbeats; saves and waits left out."""
        for beat in self._new_lines():
            before = self._last.get(beat.attempt)
            if before is not None and beat.step > before.step:
                spent = (beat.step - before.step) * (beat.step_s or before.step_s)
                passed = max(0.0, beat.at - before.at)
                self._spent[beat.attempt] += min(spent, passed) if spent else passed
            self._last[beat.attempt] = beat
        return self._spent[attempt]

    def _new_lines(self) -> Iterator[Beat]:
        """Heartbeats of rank 0 that were not read before; what is half written is read when it is whole."""
        try:
            with (self.folder / "heartbeats-0.jsonl").open("rb") as lines:
                lines.seek(self._offset)
                for line in lines:
                    if not line.endswith(b"\n"):
                        return
                    self._offset += len(line)
                    try:
                        beat = _beat(json.loads(line))
                    except ValueError:
                        continue
                    if beat is not None:
                        yield beat
        except OSError:
            return

    def _read(self, path: Path) -> Mapping[str, Any] | None:
        try:
            told = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return told if isinstance(told, dict) else None

    def _write(self, name: str, body: Mapping[str, Any]) -> None:
        beside = self.folder / f".{name}.{os.getpid()}"
        beside.write_text(json.dumps(dict(body)), encoding="utf-8")
        beside.replace(self.folder / name)


def _beat(told: Mapping[str, Any]) -> Beat | None:
    try:
        known = {name: told[name] for name in FIELDS if told.get(name) is not None}
        return Beat(rank=int(told["rank"]), attempt=int(told["attempt"]), at=float(told["at"]), **known)
    except (KeyError, TypeError, ValueError):
        return None
