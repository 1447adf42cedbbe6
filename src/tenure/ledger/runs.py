"""What has happened to each training run: events that are never edited, and who may write the next one.

A run is carried by one controller at a time, which holds its lease. The lease's epoch is checked in the very
transaction that writes an event, so a controller that was thought dead and comes back can write nothing more.
What a person asks for (drain, approve) is written without a lease, under epoch 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, select, update

from tenure.ledger.database import Database
from tenure.ledger.records import Lease, NotTheLeader
from tenure.ledger.tables import RUN_EVENTS, RUNS
from tenure.ledger.text_form import read, told

RUN, EVENT = RUNS.c, RUN_EVENTS.c


class RunEvent(NamedTuple):
    """An event as written. `key` is "" where it has none."""

    number: int
    at: float
    kind: str
    body: Mapping[str, Any]
    key: str


class RunRow(NamedTuple):
    """A run and its lease."""

    run: str
    holder: str
    epoch: int
    until: float
    created: float
    last: int


def begin_run(db: Database, run: str, now: float) -> None:
    """Let there be such a run; nothing happens where it is there."""
    with db.writing() as connection:
        row = {"run": run, "holder": "", "epoch": 0, "until": 0.0, "created": now, "last": 0}
        db.put_if_absent(connection, RUNS, row)


def runs(db: Database) -> list[RunRow]:
    """All runs, the oldest first."""
    with db.reading() as connection:
        found = connection.execute(select(RUNS).order_by(RUN.created, RUN.run)).all()
    return [RunRow(*row) for row in found]


def claim_run(db: Database, run: str, holder: str, now: float, ttl_s: float) -> Lease | None:
    """The right to carry this run; None while another holds it. Its holder gets a new epoch."""
    with db.writing() as connection:
        found = _locked(connection, run)
        if found.until > now and found.holder != holder:
            return None
        lease = Lease(holder, found.epoch + 1, now + ttl_s)
        _put_lease(connection, run, lease)
    return lease


def renew_run(db: Database, run: str, lease: Lease, until: float) -> Lease:
    """Keep it until then (0: let go). Raises NotTheLeader where somebody else took it."""
    kept = lease._replace(until=until)
    with db.writing(durable=False) as connection:
        _hold(connection, run, lease)
        _put_lease(connection, run, kept)
    return kept


def write_event(
    db: Database,
    run: str,
    lease: Lease | None,
    event: RunEvent,
) -> tuple[RunEvent, bool]:
    """Write it under the next number; (event, True). With a key that is there already: (the old one, False).

    Raises NotTheLeader where the lease is somebody else's by now. Its number is not looked at.
    """
    with db.writing() as connection:
        found = _locked(connection, run)
        if lease is not None and found.epoch != lease.epoch:
            raise NotTheLeader(_who(run, found, lease))
        if event.key:
            there = connection.execute(
                select(RUN_EVENTS).where(EVENT.run == run, EVENT.key == event.key)
            ).one_or_none()
            if there is not None:
                return _event(there), False
        written = event._replace(number=found.last + 1)
        row = {
            "run": run,
            "number": written.number,
            "at": written.at,
            "epoch": lease.epoch if lease is not None else 0,
            "kind": written.kind,
            "key": written.key or None,
            "body": told(dict(written.body)),
        }
        db.insert(connection, RUN_EVENTS, [row])
        connection.execute(update(RUNS).where(RUN.run == run).values(last=written.number))
    return written, True


def run_events(db: Database, run: str, kinds: Sequence[str] = (), after: int = 0) -> list[RunEvent]:
    """Events of a run with numbers above `after`, in order; of these kinds, or all."""
    query = select(RUN_EVENTS).where(EVENT.run == run, EVENT.number > after).order_by(EVENT.number)
    if kinds:
        query = query.where(EVENT.kind.in_(list(kinds)))
    with db.reading() as connection:
        return [_event(row) for row in connection.execute(query).all()]


def _locked(connection: Connection, run: str) -> Any:
    """The run's row, kept from everybody else until the transaction ends."""
    return connection.execute(select(RUNS).where(RUN.run == run).with_for_update()).one()


def _hold(connection: Connection, run: str, lease: Lease) -> None:
    found = _locked(connection, run)
    if found.epoch != lease.epoch:
        raise NotTheLeader(_who(run, found, lease))


def _put_lease(connection: Connection, run: str, lease: Lease) -> None:
    change = update(RUNS).where(RUN.run == run)
    connection.execute(change.values(holder=lease.holder, epoch=lease.epoch, until=lease.until))


def _who(run: str, found: Any, lease: Lease) -> str:
    return f"{found.holder} carries {run!r} now (epoch {found.epoch}; ours was {lease.epoch})"


def _event(row: Any) -> RunEvent:
    return RunEvent(row.number, row.at, row.kind, read(row.body), row.key or "")
