"""Write a turn: all of it in one transaction, by the leader only, after the one before it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, func, select, update

from tenure.ledger.database import Database, count_on
from tenure.ledger.leadership import hold
from tenure.ledger.nodes import entry_line, write_entries
from tenure.ledger.records import (
    Answer,
    AttemptRow,
    JobRow,
    Lease,
    OrderRow,
    TurnRow,
    TurnTaken,
)
from tenure.ledger.tables import (
    ATTEMPTS,
    COMMANDS,
    EVENTS,
    JOBS,
    KEYFRAMES,
    NOTES,
    ORDERS,
    SHARES,
    TURNS,
)
from tenure.ledger.text_form import packed, told

Line = dict[str, Any]


class Prepared(NamedTuple):
    """The rows of a turn, made before the database is locked. Running numbers are still counted from 1."""

    turn: Line
    events: list[Line]
    jobs: list[Line]
    attempts: list[Line]
    orders: list[Line]
    answers: list[Line]
    shares: list[Line]
    notes: list[Line]
    nodes: list[Line]


def record(db: Database, turn: TurnRow, lease: Lease) -> None:
    """Write a turn whole, or nothing of it.

    Raises NotTheLeader; TurnTaken where the record has this turn already; ValueError where a turn before it
    is missing, where an event is no JSON object or is earlier than the newest one recorded, and where a
    command that was never asked, or has its answer, is answered; LedgerUnavailable.
    """
    rows = prepared(turn)
    with db.writing() as connection:
        hold(connection, lease)
        last = int(connection.execute(select(func.coalesce(func.max(TURNS.c.turn), 0))).scalar_one())
        if turn.turn <= last:
            raise TurnTaken(f"turn {turn.turn} is in the record already; the newest is {last}")
        if turn.turn != last + 1:
            raise ValueError(f"turn {turn.turn} cannot follow turn {last}")
        _write_events(db, connection, rows, lease)
        if turn.keyframe is not None:
            db.insert(connection, KEYFRAMES, [{"turn": turn.turn, "body": turn.keyframe}])
        _numbered(db, connection, rows)
        db.put(connection, ATTEMPTS, rows.attempts)
        db.insert(connection, ORDERS, rows.orders)
        _write_answers(connection, rows.answers)
        write_entries(db, connection, rows.nodes)


def prepared(turn: TurnRow) -> Prepared:
    when = {"turn": turn.turn, "t": turn.t, "at": turn.at}
    return Prepared(
        turn=when
        | {"digest": turn.digest, "code": turn.code}
        | {"news": packed(list(turn.news)), "patch": packed(turn.patch), "n_events": len(turn.events)},
        events=[event_line(text) for text in turn.events],
        jobs=[job_line(job) for job in turn.jobs],
        attempts=[attempt_line(attempt) for attempt in turn.attempts],
        orders=[order_line(order, place) for place, order in enumerate(turn.orders)],
        answers=[_answer_line(answer, turn.turn) for answer in turn.answers],
        shares=[when | {"account": share["account"], "body": told(share)} for share in turn.shares],
        notes=[
            when | {"user": note["user"], "body": told(note), "state": "open", "detail": ""}
            for note in turn.notes
        ],
        nodes=[entry_line(entry) for entry in turn.node_log],
    )


def event_line(text: str) -> Line:
    """An event's row. Raises ValueError."""
    try:
        event = json.loads(text)
        if type(event["t"]) is not int or type(event["event"]) is not str or "n" in event:
            raise ValueError("`t` is a whole number, `event` a word, and `n` is given by the record")
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"not a line of a story: {text[:120]!r} ({error})") from error
    return {"t": event["t"], "event": event["event"], "job": event.get("job"), "line": text.strip()}


def job_line(job: JobRow) -> Line:
    return job._asdict() | {"spec": told(job.spec)}


def attempt_line(attempt: AttemptRow) -> Line:
    return attempt._asdict() | {"nodes": told(attempt.nodes)}


def order_line(order: OrderRow, place: int) -> Line:
    return order._asdict() | {"body": told(order.body), "place": place}


def _answer_line(answer: Answer, turn: int) -> Line:
    return {"a_number": answer.number, "turn": turn, "ok": answer.ok, "answer": told(answer.body)}


def _write_events(db: Database, connection: Connection, rows: Prepared, lease: Lease) -> None:
    after = count_on(connection, "events", len(rows.events))
    db.insert(connection, TURNS, [rows.turn | {"epoch": lease.epoch, "events_after": after}])
    if not rows.events:
        return
    newest = select(EVENTS.c.t).order_by(EVENTS.c.n.desc()).limit(1)
    last_t = connection.execute(newest).scalar()
    for event in rows.events:
        if last_t is not None and event["t"] < last_t:
            raise ValueError(f"time runs backwards, from {last_t} s to {event['t']} s: {event['line'][:120]}")
        last_t = event["t"]
    db.insert(connection, EVENTS, _counted(rows.events, "n", after))


def _numbered(db: Database, connection: Connection, rows: Prepared) -> None:
    """What carries a running number of its own. A job keeps the one it was given first."""
    if rows.jobs:
        after = count_on(connection, "jobs", len(rows.jobs))
        db.put(connection, JOBS, _counted(rows.jobs, "seq", after), keep=("seq",))
    for name, table, lines in (("shares", SHARES, rows.shares), ("notes", NOTES, rows.notes)):
        if lines:
            db.insert(connection, table, _counted(lines, "number", count_on(connection, name, len(lines))))


def _counted(lines: Sequence[Mapping[str, Any]], name: str, after: int) -> list[Line]:
    return [{**line, name: number} for number, line in enumerate(lines, start=after + 1)]


def _write_answers(connection: Connection, answers: list[Line]) -> None:
    if not answers:
        return
    row = COMMANDS.c
    change = (
        update(COMMANDS)
        .where(row.number == bindparam("a_number"), row.turn.is_(None))
        .values(turn=bindparam("turn"), ok=bindparam("ok"), answer=bindparam("answer"))
    )
    written = connection.execute(change, answers).rowcount
    if written != len(answers):
        numbers = [answer["a_number"] for answer in answers]
        raise ValueError(f"of the commands {numbers} only {written} were waiting for an answer")
