"""What time is it, and how does one wait? Asked through an object, so that a test can choose the answer."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Protocol


class Clock(Protocol):
    """Tells the time, and waits."""

    def now(self) -> float:
        """Epoch seconds (UTC)."""
        ...

    def wait(self, seconds: float) -> None:
        """Come back after so long."""
        ...


class RealClock:
    """The machine's."""

    def now(self) -> float:
        """Epoch seconds."""
        return time.time()

    def wait(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(max(0.0, seconds))

    def steady(self) -> float:
        """Seconds that really passed, since some instant; nobody can set it. A sleeping machine's count."""
        return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class ChosenClock:
    """Stands still until it is moved; who waits on it moves it on. May be asked from several threads."""

    def __init__(self, now: float = 0.0) -> None:
        self._now = now
        self._lock = threading.Lock()

    def now(self) -> float:
        """Epoch seconds, as chosen."""
        with self._lock:
            return self._now

    def wait(self, seconds: float) -> None:
        """Move on by so much."""
        self.set(self.now() + max(0.0, seconds))

    def set(self, now: float) -> None:
        """Put it to an instant, which may be an earlier one."""
        with self._lock:
            self._now = now


class FileClock:
    """A chosen clock that several processes share: a file holds the instant."""

    def __init__(self, path: Path, now: float | None = None) -> None:
        """`now`: what it shows at first, where the file is not there yet (default: 0)."""
        self._path = path
        if not path.exists():
            self.set(0.0 if now is None else now)

    def now(self) -> float:
        """Epoch seconds, as last set by any process."""
        return float(self._path.read_text(encoding="ascii"))

    def wait(self, seconds: float) -> None:
        """Sleep until somebody has moved it on so far, or for so long by the machine's clock."""
        until, given_up = self.now() + seconds, time.monotonic() + seconds
        while self.now() < until and time.monotonic() < given_up:
            time.sleep(0.005)

    def set(self, now: float) -> None:
        """Put it to an instant."""
        beside = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        beside.write_text(repr(float(now)), encoding="ascii")
        beside.replace(self._path)
