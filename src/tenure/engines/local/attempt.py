"""What is known of one attempt on this machine? Read from its folder, and kept until something changes."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tenure.engines.local.processes import is_there, read_record, touched_between
from tenure.engines.protocol import SeenAttempt

SETTLED_NS = 100_000_000  #: clocks of file systems tick coarsely: two changes may bear one time


class Attempt:
    """An attempt's folder. Its shepherd is held by a pidfd, so its number is never mistaken for another's."""

    def __init__(self, folder: Path, order: Mapping[str, Any]) -> None:
        self.folder = folder
        self.path = str(folder)
        self.job: str = order["job"]
        self.attempt: int = order["attempt"]
        self.nodes: Mapping[str, int] = order["nodes"]
        self.slots: list[int] = order["slots"]
        self.boot: str = order["boot"]
        self.shepherd: dict[str, Any] | None = None
        self.began: dict[str, Any] | None = None
        self.ended: dict[str, Any] | None = None
        self.told = False
        self.pidfd = -1  #: of the living shepherd
        self.spawned = 0  #: pid of a shepherd started by this process, until it is reaped
        self.tries = 0
        self.next_try_s = 0.0  #: monotonic
        self._changed_ns = -1  #: when the folder had last changed, as far as all of that is read

    @classmethod
    def read(cls, folder: Path) -> Attempt | None:
        """The attempt of a folder, or None where there is no whole order in it."""
        order = read_record(f"{folder}/order.json")
        return None if order is None else cls(folder, order)

    def refresh(self) -> bool:
        """Read what is new; True if `seen` would show something else."""
        if self.ended is not None or (self.pidfd >= 0 and not self._folder_changed()):
            return False
        before = (self.began is None, self.told)
        if self.began is None:
            self.began = read_record(f"{self.path}/job.json")
        if self.pidfd < 0:
            self.shepherd = read_record(f"{self.path}/shepherd.json")
            self.ended = read_record(f"{self.path}/ended.json")
            if self.shepherd is not None and self.ended is None:
                self._hold(self.shepherd)
        self.told = self.told or os.path.exists(f"{self.path}/stop.json")
        return self.ended is not None or before != (self.began is None, self.told)

    def _folder_changed(self) -> bool:
        """Whether records may have come since the last look; what came just now is looked at twice."""
        changed_ns = os.stat(self.path).st_mtime_ns
        if changed_ns == self._changed_ns:
            return False
        self._changed_ns = changed_ns if time.time_ns() - changed_ns > SETTLED_NS else -1
        return True

    def _hold(self, shepherd: Mapping[str, Any]) -> None:
        try:
            pidfd = os.pidfd_open(shepherd["pid"])
        except (OSError, ValueError):
            return
        if is_there(shepherd["pid"], shepherd["ticks"]):
            self.pidfd = pidfd
        else:
            os.close(pidfd)

    def let_go(self) -> None:
        """The shepherd is gone, or is to be forgotten by this process."""
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1

    def reap(self) -> None:
        """Take a dead shepherd off the process table, where it was a child of this process."""
        try:
            if self.pidfd >= 0:
                found = os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED | os.WNOHANG)
                done = found.si_pid if found else 0
            else:
                done = os.waitpid(self.spawned, os.WNOHANG)[0] if self.spawned else 0
        except ChildProcessError:  # somebody else's to reap
            done = self.spawned
        if done == self.spawned:
            self.spawned = 0

    def lock(self) -> int:
        """The right to be its shepherd, as an open file; -1 while somebody has it."""
        handle = os.open(f"{self.path}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return -1
        return handle

    def seen(self) -> SeenAttempt:
        """As `Engine.see` shows it."""
        if self.ended is None:
            done = self.told and os.path.exists(f"{self.path}/signs/done")
            started = self.began["started"] if self.began else None
            saved = touched_between(f"{self.path}/signs/saved", started, time.time())
            return SeenAttempt(
                self.job, self.attempt, self.nodes, started=started, told=self.told, done=done, saved=saved
            )
        end = self.ended
        return SeenAttempt(
            job=self.job,
            attempt=self.attempt,
            nodes=self.nodes,
            started=end["started"],
            ended=end["ended"],
            exit_code=end["exit_code"],
            signal=end["signal"],
            node_failed=end["node_failed"],
            timed_out=end["timed_out"],
            told=end["told"],
            done=end["done"],
            saved=end["saved"],
            detail=end["detail"],
        )
