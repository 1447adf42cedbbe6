"""Which named nodes are in use by a run, where nobody launches machines? A small file, written whole.

For windows whose nodes exist already (agreed by hand, one's own cluster): a launch assigns names, letting go
frees them. The file is locked while it is changed, so that two processes assign no node twice.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tenure.providers.protocol import GONE, RESERVED, RUNNING, NoCapacity, Node, NotSent


class Kept:
    """What is noted about nodes and purchases: `{"bought": {…}, "nodes": {name: {…}}}`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> dict[str, Any]:
        """As it stands. NotSent where the file cannot be read."""
        try:
            return _whole(json.loads(self._path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return _whole({})
        except (OSError, ValueError) as wrong:
            raise NotSent(f"{self._path.name} cannot be read: {wrong}") from wrong

    @contextmanager
    def changing(self) -> Iterator[dict[str, Any]]:
        """To be changed in place; on the disk, whole, when the block ends. NotSent where it cannot be."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            lock = self._path.with_name(f"{self._path.name}.lock").open("a", encoding="utf-8")
        except OSError as wrong:
            raise NotSent(f"{self._path.name} cannot be written: {wrong}") from wrong
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            told = self.read()
            yield told
            beside = self._path.with_name(f"{self._path.name}.{os.getpid()}")
            try:
                with beside.open("w", encoding="utf-8") as out:
                    json.dump(told, out, indent=1, sort_keys=True)
                    out.flush()
                    os.fsync(out.fileno())
                beside.replace(self._path)
            except OSError as wrong:
                raise NotSent(f"{self._path.name} cannot be written: {wrong}") from wrong

    def assign(
        self, token: str, names: Sequence[str], least: int, most: int, note: Mapping[str, Any]
    ) -> list[str]:
        """`least` to `most` of the names that nobody has; the same token gets the same. NoCapacity."""
        with self.changing() as told:
            before = [name for name, held in told["nodes"].items() if held["token"] == token]
            if before:
                return before
            free = [name for name in names if name not in told["nodes"]]
            if len(free) < least:
                raise NoCapacity("in-use", f"{len(free)} of {least} nodes are free")
            for name in free[:most]:
                told["nodes"][name] = {**note, "token": token}
            return free[:most]

    def nodes(
        self,
        *,
        active: Callable[[str], bool] = lambda window: True,
        down: Callable[[str], bool] = lambda node: False,
        machines: bool = True,
    ) -> list[Node]:
        """
        All that are in use. `active`: whether a window gives its nodes; `down`: whether a node does not work;
        `machines`: names are addresses.
        """
        return [
            Node(
                id=name,
                state=RUNNING if active(held["window"]) else GONE,
                zone=held["zone"],
                window=held["window"],
                market=RESERVED,
                token=held["token"],
                launched=held["at"],
                tags=held["tags"],
                reservation=held["window"],
                address=name if machines else "",
                healthy=False if down(name) else None,
            )
            for name, held in self.read()["nodes"].items()
        ]

    def let_go(self, names: Sequence[str]) -> None:
        """They are free again; unknown ones are no error."""
        with self.changing() as told:
            for name in names:
                told["nodes"].pop(name, None)


def _whole(told: dict[str, Any]) -> dict[str, Any]:
    return {"bought": told.get("bought", {}), "nodes": told.get("nodes", {})}
