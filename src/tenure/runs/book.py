"""Where is a run's book kept? In the ledger's database, written by whoever holds the run's lease."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tenure.ledger import runs as kept
from tenure.ledger.database import Database
from tenure.ledger.records import Lease, NotTheLeader
from tenure.runs.words import AlreadyRecorded, Event, Fenced


class RunBook:
    """The book of one run (`runs.words.Book`). Without a lease it can be read, and asked (`ask`).

    Every call may raise LedgerUnavailable: then nothing was written.
    """

    def __init__(self, db: Database, run: str, now: Callable[[], float]) -> None:
        self.run = run
        self._db, self._now = db, now
        self._lease: Lease | None = None
        self._read: list[Event] = []
        kept.begin_run(db, run, now())

    @property
    def lease(self) -> Lease | None:
        """The lease held; None: this book only reads."""
        return self._lease

    def claim(self, holder: str, ttl_s: float) -> bool:
        """Take the run's lease; False while somebody else holds it."""
        self._lease = kept.claim_run(self._db, self.run, holder, self._now(), ttl_s)
        return self._lease is not None

    def renew(self, ttl_s: float) -> None:
        """Keep the lease. Raises Fenced where somebody else took it."""
        try:
            self._lease = kept.renew_run(self._db, self.run, self._held(), self._now() + ttl_s)
        except NotTheLeader as lost:
            raise Fenced(str(lost)) from None

    def let_go(self) -> None:
        """Give the lease back: the next controller need not wait. Lost already: nothing happens."""
        if self._lease is not None:
            try:
                kept.renew_run(self._db, self.run, self._lease, 0.0)
            except NotTheLeader:
                pass
            self._lease = None

    def holder(self) -> str:
        """Who carries the run now; "" where nobody does."""
        row = next(row for row in kept.runs(self._db) if row.run == self.run)
        return row.holder if row.until > self._now() else ""

    def record(self, kind: str, body: Mapping[str, Any], *, key: str = "") -> Event:
        """Write an event. Raises AlreadyRecorded (its key is there), Fenced (another carries the run)."""
        return self._write(self._held(), kind, body, key)

    def ask(self, kind: str, body: Mapping[str, Any], *, key: str = "") -> Event:
        """Write what a person asks for; needs no lease. Raises AlreadyRecorded."""
        return self._write(None, kind, body, key)

    def events(self, *kinds: str) -> Sequence[Event]:
        """All events, or those of these kinds, in order. What was read once is not read again."""
        self._read += self.after(self._read[-1].number if self._read else 0)
        return [event for event in self._read if not kinds or event.kind in kinds]

    def after(self, number: int) -> list[Event]:
        """Events with higher numbers, read now."""
        found = kept.run_events(self._db, self.run, after=number)
        return [Event(one.number, one.at, one.kind, one.body, one.key) for one in found]

    def _held(self) -> Lease:
        if self._lease is None:
            raise Fenced(f"nobody here holds the lease of {self.run!r}")
        return self._lease

    def _write(self, lease: Lease | None, kind: str, body: Mapping[str, Any], key: str) -> Event:
        asked = kept.RunEvent(0, self._now(), kind, body, key)
        try:
            written, new = kept.write_event(self._db, self.run, lease, asked)
        except NotTheLeader as lost:
            raise Fenced(str(lost)) from None
        event = Event(written.number, written.at, written.kind, written.body, written.key)
        if not new:
            raise AlreadyRecorded(event)
        return event


def runs_in(db: Database) -> list[str]:
    """Names of all runs with a book, the oldest first."""
    return [row.run for row in kept.runs(db)]
