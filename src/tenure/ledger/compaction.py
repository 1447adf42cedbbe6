"""Let old history shrink: what only a recovery or a replay would need, and reasons that stand no more.

No figure changes. Everything an audit reads stays for ever; of the reasons why jobs waited those stay that
stood at the cut or came later, so that a report about any time since then is the same too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sqlalchemy import Connection, Delete, Update, delete, func, select, update

from tenure.ledger.database import Database, driver
from tenure.ledger.meta import read_meta, write_meta
from tenure.ledger.tables import COMMANDS, EVENTS, KEYFRAMES, NOTES, ORDERS, TURNS

PROGRESS = "compacted"  #: key of `meta`: {n, turn} up to which events and turns are compacted
CHUNK = 2000  #: rows a transaction looks at: turns go on in between
PAGES = 2000  #: pages of SQLite's file given back at a time

#: A reason for waiting stands until the next of these, as in reports.
ENDS_A_REASON = ("waiting", "started", "cancelled", "held", "released")


class Compacted(NamedTuple):
    """How many rows shrank or went."""

    turns: int  #: that lost their patch and news, and can no longer be replayed
    keyframes: int
    commands: int  #: answered ones that lost their body
    orders: int  #: carried out or refused, gone
    notes: int  #: sent or failed, gone
    events: int  #: superseded reasons for waiting, gone


def compact(db: Database, before_t: int) -> Compacted:
    """Shrink what is older than `before_t`; may be called again and again, beside everything else.

    The newest keyframe older than `before_t` stays, and every patch after it: any turn since then can be
    replayed, and the newest state recovered.
    """
    done = read_meta(db, PROGRESS) or {"n": 0, "turn": 0}
    upto = _last_turn_before(db, before_t)
    keyframe = _newest_keyframe(db, upto)
    last_n = _last_event_before(db, before_t)
    found = Compacted(
        turns=_in_chunks(db, done["turn"], keyframe, _strip_turns),
        keyframes=_at_once(db, delete(KEYFRAMES).where(KEYFRAMES.c.turn < keyframe)),
        commands=_in_chunks(db, done["turn"], keyframe, _strip_commands),
        orders=_in_chunks(db, done["turn"], keyframe, _drop_orders),
        notes=_drop_notes(db, before_t),
        events=_in_chunks(db, done["n"], last_n, _drop_reasons),
    )
    write_meta(db, PROGRESS, {"n": max(done["n"], last_n), "turn": max(done["turn"], keyframe)})
    _give_back(db)
    return found


def _last_turn_before(db: Database, before_t: int) -> int:
    row = TURNS.c
    wanted = select(row.turn).where(row.t < before_t).order_by(row.t.desc(), row.turn.desc()).limit(1)
    with db.reading() as connection:
        return int(connection.execute(wanted).scalar() or 0)


def _newest_keyframe(db: Database, upto: int) -> int:
    wanted = select(func.coalesce(func.max(KEYFRAMES.c.turn), 0)).where(KEYFRAMES.c.turn <= upto)
    with db.reading() as connection:
        return int(connection.execute(wanted).scalar_one())


def _last_event_before(db: Database, before_t: int) -> int:
    row = EVENTS.c
    wanted = select(row.n).where(row.t < before_t).order_by(row.t.desc(), row.n.desc()).limit(1)
    with db.reading() as connection:
        return int(connection.execute(wanted).scalar() or 0)


Change = Callable[[int, int], Update | Delete]  #: of rows after the first number up to the second


def _in_chunks(db: Database, after: int, upto: int, change: Change) -> int:
    rows = 0
    for at in range(after, upto, CHUNK):
        rows += _at_once(db, change(at, min(at + CHUNK, upto)))
    return rows


def _at_once(db: Database, change: Update | Delete) -> int:
    with db.writing(durable=False) as connection:
        return _changed(connection, change)


def _changed(connection: Connection, change: Update | Delete) -> int:
    return max(0, connection.execute(change).rowcount)


def _strip_turns(after: int, upto: int) -> Update:
    row = TURNS.c
    return (
        update(TURNS)
        .where(row.turn > after, row.turn <= upto, row.patch.is_not(None))
        .values(patch=None, news=None)
    )


def _strip_commands(after: int, upto: int) -> Update:
    row = COMMANDS.c
    return update(COMMANDS).where(row.turn > after, row.turn <= upto).values(body="{}")


def _drop_orders(after: int, upto: int) -> Delete:
    row = ORDERS.c
    return delete(ORDERS).where(row.turn > after, row.turn <= upto, row.state != "open")


def _drop_notes(db: Database, before_t: int) -> int:
    return _at_once(db, delete(NOTES).where(NOTES.c.t < before_t, NOTES.c.state != "open"))


def _drop_reasons(after: int, upto: int) -> Delete:
    """Of the reasons that end with these events. Those still standing go when what ends them is compacted."""
    row, end, before = EVENTS.c, EVENTS.alias("end_of_reason"), EVENTS.alias("before")
    ended = (
        select(before.c.n)
        .where(before.c.job == end.c.job, before.c.n < end.c.n, before.c.event.in_(ENDS_A_REASON))
        .order_by(before.c.n.desc())
        .limit(1)
        .correlate(end)
        .scalar_subquery()
    )
    ends = select(ended).where(end.c.n > after, end.c.n <= upto, end.c.event.in_(ENDS_A_REASON))
    return delete(EVENTS).where(row.event == "waiting", row.n.in_(ends))


def _give_back(db: Database) -> None:
    """Let the file of SQLite shrink. PostgreSQL does so by itself."""
    if not db.is_sqlite:
        return
    before, left = None, 1
    while left and left != before:
        before = left
        with db.writing(durable=False) as connection:
            # each row fetched frees a page
            driver(connection).execute(f"PRAGMA incremental_vacuum({PAGES})").fetchall()
        with db.reading() as connection:
            left = int(connection.exec_driver_sql("PRAGMA freelist_count").scalar() or 0)
