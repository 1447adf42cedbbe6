"""What does a signal do? It sets a flag, and nothing else: what it asks for is agreed at the next step.

No save is begun, no collective called and nothing aborted inside a handler: a kernel or a collective that is
cut off may take its node down. Processes forked by the trainer (data loaders) inherit the handler, unheard.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterable
from types import FrameType
from typing import Any

BACK_UP = (signal.SIGTERM, signal.SIGUSR2)  #: not SIGUSR1, which NCCL and others may take for themselves


class Signals:
    """The flag of this process."""

    def __init__(self, which: Iterable[signal.Signals] = BACK_UP) -> None:
        self.which = tuple(which)
        self.heard = ""  #: name of the first signal that came; "" while none has
        self.trouble = ""
        self._pid = os.getpid()
        self._before: dict[signal.Signals, Any] = {}

    def install(self) -> None:
        """Listen. May be repeated: some frameworks put handlers of their own in between."""
        if threading.current_thread() is not threading.main_thread():
            self.trouble = "signals are not heard: the hook was not made in the main thread"
            return
        for signum in self.which:
            before = signal.signal(signum, self._hear)
            if before != self._hear:  # a bound method is equal to itself, not identical
                self._before.setdefault(signum, before)

    def restore(self) -> None:
        """Put back what was there before."""
        if threading.current_thread() is not threading.main_thread() or os.getpid() != self._pid:
            return
        for signum, before in self._before.items():
            signal.signal(signum, before if before is not None else signal.SIG_DFL)
        self._before.clear()

    def _hear(self, signum: int, frame: FrameType | None) -> None:
        if os.getpid() == self._pid and not self.heard:
            self.heard = signal.Signals(signum).name


def ignore_in_worker(worker: int = 0) -> None:
    """For `DataLoader(worker_init_fn=…)`: the group's SIGTERM must not end the data before the last save."""
    for signum in BACK_UP:
        signal.signal(signum, signal.SIG_IGN)
