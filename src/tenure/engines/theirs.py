"""What the real scheduler did: which job ran when and where. A file of plain facts, a JSON object a line.

`looked` (the first look), `started` (job, attempt, nodes), `stopped` (how it ended; `again`: it waits again),
`left` (it was taken back while it waited); `at`: epoch seconds by the engine's clock. Only added to, until it
is too large: then the older half of what is over is left out, and `looked` says from when on (`kept`) all is
there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import Any

from tenure.engines.protocol import Seen, SeenAttempt

Fact = dict[str, Any]
Key = tuple[str, int]

MOST_BYTES = 128 << 20  #: of the file: some 400,000 attempts


class Theirs:
    """The file, and what was last written of the attempts in sight."""

    def __init__(self, file: Path, most_bytes: int = MOST_BYTES) -> None:
        self._file, self._most_bytes = file, most_bytes
        self._told: dict[Key, str] = {}
        self._nodes: dict[Key, Mapping[str, int]] = {}
        self.since: float | None = None  #: when somebody first looked
        _cut_torn_line(file)
        for fact in facts_of(file):
            self._know(fact)

    def _know(self, fact: Fact) -> None:
        if fact["event"] == "looked":
            self.since = fact["at"]
        elif fact["event"] in ("started", "stopped"):
            key = (fact["job"], fact["attempt"])
            self._told[key] = fact["event"]
            if fact["event"] == "started":
                self._nodes[key] = fact["nodes"]
            else:
                self._nodes.pop(key, None)

    def open(self) -> dict[Key, Mapping[str, int]]:
        """Attempts that ran when somebody last looked: (job, attempt) → GPUs by node."""
        return dict(self._nodes)

    def news(self, seen: Seen) -> list[Fact]:
        """What is not written yet of what is seen. What had ended before the first look is not theirs."""
        since = seen.at if self.since is None else self.since
        found: list[Fact] = [{"event": "looked", "at": seen.at}] if self.since is None else []
        waiting = {arrival.job for arrival in seen.arrivals}
        down = {node.name for node in seen.nodes if not node.up}
        for one in seen.attempts:
            told = self._told.get((one.job, one.attempt))
            if one.started is None or told == "stopped":
                continue
            if told is None:
                if one.ended is not None and one.ended <= since:
                    continue
                found.append(_fact("started", one.started, one) | {"nodes": dict(one.nodes)})
            if one.ended is not None:
                again = one.job in waiting
                found.append(
                    _fact("stopped", max(one.started, one.ended), one)
                    | {"end": _end_of(one, again, down), "again": again}
                )
        return found

    def write(self, facts: list[Fact], seen: Seen) -> None:
        """Add them; they are on the disk when this returns. What is out of sight is told no more."""
        if facts:
            with self._file.open("a", encoding="utf-8") as out:
                out.writelines(json.dumps(fact) + "\n" for fact in facts)
                out.flush()
                os.fsync(out.fileno())
        for fact in facts:
            self._know(fact)
        if facts and self._file.stat().st_size > self._most_bytes:
            _leave_out_the_older_half(self._file, self.open().keys())
        here = {(one.job, one.attempt) for one in seen.attempts}
        for key in [key for key, told in self._told.items() if told == "stopped" and key not in here]:
            del self._told[key]


def facts_of(file: Path) -> Iterator[Fact]:
    """All facts in the order in which they were written; a line that is not whole ends them."""
    if not file.exists():
        return
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            if not line.endswith("\n"):
                return
            yield json.loads(line)


def kept_from(file: Path) -> float | None:
    """The epoch second from which on all facts are there; None where none was left out."""
    first = next(facts_of(file), {})
    at = first.get("kept")
    return None if at is None else float(at)


def _leave_out_the_older_half(file: Path, going_on: Set[Key]) -> None:
    """Of what was over by the middle of the file nothing stays; what was not stays whole."""
    middle, read = file.stat().st_size // 2, 0
    from_at = 0.0
    for fact in facts_of(file):
        read += len(json.dumps(fact)) + 1
        from_at = max(from_at, fact["at"])
        if read >= middle:
            break
    stay = going_on | {
        (fact["job"], fact["attempt"])
        for fact in facts_of(file)
        if fact["event"] == "stopped" and fact["at"] >= from_at
    }
    beside = file.with_suffix(".new")
    with beside.open("w", encoding="utf-8") as out:
        for fact in facts_of(file):
            if fact["event"] == "looked":
                fact |= {"kept": from_at}
            elif fact["at"] < from_at and (
                fact["event"] != "started" or (fact["job"], fact["attempt"]) not in stay
            ):
                continue
            out.write(json.dumps(fact) + "\n")
        out.flush()
        os.fsync(out.fileno())
    os.replace(beside, file)


def _fact(event: str, at: float, one: SeenAttempt) -> Fact:
    return {"event": event, "at": at, "job": one.job, "attempt": one.attempt}


def _end_of(one: SeenAttempt, again: bool, down: set[str]) -> str:
    """How it ended there, in a story's words."""
    if down & set(one.nodes) and (again or one.node_failed):
        return "node_failed"
    if again or "preempted" in one.detail:
        return "preempted"
    for said, end in ((one.node_failed, "node_failed"), (one.timed_out, "timed_out")):
        if said:
            return end
    if one.cancelled:
        return "cancelled"
    return "finished" if one.exit_code == 0 and one.signal is None else "failed"


def _cut_torn_line(file: Path) -> None:
    """A process that was killed may have written half a line: what comes next must not stand behind it."""
    if not file.exists():
        return
    with file.open("rb+") as held:
        whole = held.read().rfind(b"\n") + 1
        held.truncate(whole)


__all__ = ["Theirs", "facts_of", "kept_from"]
