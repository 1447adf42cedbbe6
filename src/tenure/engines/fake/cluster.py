"""A cluster in memory: it runs nothing, keeps a chosen clock, and fails as it is told to.

It answers as any engine does, so the live loop, or a user's test, can be driven through months in a second.
Beside the engine's calls it has those of fate (`happen`, `next_change`) and of judgement (`wrongs`).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tenure.engines.clock import Clock, RealClock
from tenure.engines.fake.behaviour import Behave, by_command
from tenure.engines.fake.faults import CallFault, Faults, Happening
from tenure.engines.fake.keeping import Keeping
from tenure.engines.fake.room import Room
from tenure.engines.protocol import (
    EngineUnavailable,
    Enrol,
    Forget,
    Notice,
    Order,
    OrderRefused,
    Seen,
    SeenAttempt,
    SetNode,
    Start,
    Stop,
    Withdraw,
)

REMEMBERED = 64  #: answers kept so that one can come late
ORDERS: dict[str, Callable[..., Order]] = {
    kind.__name__: kind for kind in (Start, Stop, Forget, Notice, SetNode, Enrol, Withdraw)
}


class FakeCluster:
    """Nodes (GPUs by name), a clock, what jobs do (`behave`), and what goes wrong (`faults`).

    `FakeCluster.at(path, nodes)` lives in a file and outlives the process that asks it.
    """

    name = "fake"
    keeps_queue = False
    limit_step_s = 1

    def __init__(
        self,
        nodes: Mapping[str, int],
        clock: Clock | None = None,
        *,
        behave: Behave = by_command,
        faults: Faults | None = None,
        keeping: Keeping | None = None,
    ) -> None:
        self.clock = clock or RealClock()
        self.faults = faults or Faults()
        self._room = Room(nodes, behave, self.faults)
        self._keeping = keeping
        self._lock = threading.RLock()
        self._wakes: list[Callable[[], None]] = []
        self._answers: deque[Seen] = deque(maxlen=REMEMBERED)
        self._calls = 0
        self._later: list[tuple[int, Order]] = []  # delayed or echoed orders, by number of the call
        if keeping is not None:
            with self._at_once():
                pass  # made, where it was not there yet

    @classmethod
    def at(cls, path: Path, nodes: Mapping[str, int], clock: Clock | None = None, **rest: Any) -> FakeCluster:
        """The cluster that lives in this file; it is made with these nodes if there is none."""
        return cls(nodes, clock, keeping=Keeping(path), **rest)

    # --- the engine's calls ---------------------------------------------------------------------------

    def see(self) -> Seen:
        """What is, or was a while ago, where an answer comes late."""
        with self._at_once() as now:
            fault = self._next_call(now)
            if fault.lost_before or fault.lost_after or fault.delayed:
                raise EngineUnavailable("the fake cluster's answer was lost")
            room = self._room
            seen = Seen(now + room.skew, room.seen_nodes(), room.seen_attempts(now))
            self._answers.append(seen)
            if fault.late_s:
                return next((old for old in self._answers if old.at >= seen.at - fault.late_s), seen)
            return seen

    def carry_out(self, order: Order) -> None:
        """Do as told, unless something goes wrong."""
        with self._at_once() as now:
            fault = self._next_call(now)
            if fault.delayed:
                self._later.append((self._calls + fault.delayed, order))
            if fault.lost_before or fault.delayed:
                raise EngineUnavailable("the order was lost on its way to the fake cluster")
            if fault.echoed:
                self._later.append((self._calls + fault.echoed, order))
            for _ in range(2 if fault.doubled else 1):
                self._room.obey(order, now)
                self._room.catch_up(now)
            if fault.lost_after:
                raise EngineUnavailable("the fake cluster's answer was lost")

    def expect(self, attempts: Mapping[tuple[str, int], Mapping[str, int]]) -> None:
        """Nothing to do: what ended stays until it may be forgotten."""

    def log_of(self, job: str, attempt: int, *, last_bytes: int = 1 << 16) -> bytes:
        """A line or two about what it pretends."""
        with self._at_once() as now:
            stay = self._room.stays.get((job, attempt))
            if stay is None:
                return b""
            text = f"{job}, attempt {attempt}: pretends to do {stay.behaviour.runtime_s:g} s of work\n"
            if stay.ended is None:
                text += f"running: {stay.worked_s(now):.0f} s of work in this attempt\n"
            else:
                text += f"ended{': ' + stay.detail if stay.detail else ''}\n"
            return text.encode("utf-8", "replace")[-last_bytes:]

    def on_change(self, wake: Callable[[], None]) -> None:
        """Called when fate strikes (`happen`); what the clock brings is found by asking."""
        self._wakes.append(wake)

    def close(self) -> None:
        """Let go of the file, where it lives in one."""
        if self._keeping is not None:
            self._keeping.close()

    # --- fate and judgement -----------------------------------------------------------------------------

    def next_change(self) -> float | None:
        """The true epoch second at which the next thing happens by itself; None if nothing will."""
        with self._at_once():
            return self._room.next_change()

    def happen(self, what: str, subject: str = "", value: float = 0.0, at: float | None = None) -> None:
        """Something of `faults` happens now, or is put on the timetable."""
        with self._at_once() as now:
            if at is None or at <= now:
                self._room.happen(Happening(now, what, subject, value))
            else:
                self._room.put(Happening(at, what, subject, value))
        for wake in self._wakes:
            wake()

    @property
    def wrongs(self) -> list[str]:
        """What was ordered and no scheduler may ever order: GPUs twice, a job twice at one time."""
        with self._at_once():
            return list(self._room.wrongs)

    def running(self) -> list[SeenAttempt]:
        """The truth, whatever goes wrong with calls: attempts that hold GPUs now."""
        return [seen for seen in self.attempts() if seen.ended is None]

    def attempts(self) -> list[SeenAttempt]:
        """The truth, whatever goes wrong with calls: every attempt that ever was here, forgotten or not."""
        with self._at_once() as now:
            return self._room.past + self._room.seen_attempts(now)

    # --- one caller at a time, on the newest state --------------------------------------------------------

    @contextmanager
    def _at_once(self) -> Iterator[float]:
        """The instant; all that was due by then has happened. What changes is kept when it is left."""
        with self._lock:
            if self._keeping is not None and self._keeping.begin():
                self._restore(self._keeping.read())
            try:
                now = self.clock.now()
                self._room.catch_up(now)
                yield now
            finally:
                if self._keeping is not None:
                    changed = sorted(self._room.changed)
                    self._keeping.write(
                        [
                            ("calls", self._calls_plain()),
                            *((name, self._room.plain(name)) for name in changed),
                        ]
                    )
                self._room.changed.clear()

    def _next_call(self, now: float) -> CallFault:
        self._calls += 1
        due = [order for at, order in self._later if at <= self._calls]
        self._later = [(at, order) for at, order in self._later if at > self._calls]
        for order in due:
            try:
                self._room.obey(order, now)
            except OrderRefused:
                continue  # nobody is there to be told
            self._room.catch_up(now)
        if self._room.silent:
            raise EngineUnavailable("the fake cluster is silent")
        return self.faults.of_call(self._calls, now)

    def _calls_plain(self) -> list[Any]:
        return [self._calls, [(at, type(order).__name__, list(order)) for at, order in self._later]]

    def _restore(self, kept: Mapping[str, Any]) -> None:
        """Take the file's state for ours; an empty file is a new cluster."""
        if kept:
            self._calls, later = kept["calls"]
            self._later = [(at, ORDERS[kind](*fields)) for at, kind, fields in later]
            self._room.restore(kept)
