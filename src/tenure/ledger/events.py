"""What happened: lines of the story, of one job, of a stretch of time, or all of them to be audited."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sqlalchemy import Connection, select

from tenure.ledger.database import Database
from tenure.ledger.meta import read_meta
from tenure.ledger.tables import EVENTS
from tenure.ledger.text_form import told

STORY_HEAD = "began"  #: key of `meta` with the first line of the story, as a mapping
#: Key of that mapping: lines of second 0 (without `n`) that became known only later, such as that a node
#: was not there yet. They stand right after the first line, which is told without them.
FROM_THE_START = "from_the_start"
CHUNK = 5000
ROW = EVENTS.c


def numbered_lines(connection: Connection, after: int, upto: int) -> list[str]:
    """Lines with numbers after `after` up to `upto`."""
    wanted = select(ROW.n, ROW.line).where(ROW.n > after, ROW.n <= upto).order_by(ROW.n)
    return [with_number(line, n) for n, line in connection.execute(wanted)]


def with_number(line: str, n: int) -> str:
    return f'{{"n":{n},{line[1:]}'


class Stretch(NamedTuple):
    """`since_t` ≤ t < `until_t`, and numbers after `after_number`."""

    since_t: int | None = None
    until_t: int | None = None
    after_number: int = 0


def events(
    db: Database, stretch: Stretch, *, job: str | None = None, limit: int = 1000, newest: bool = False
) -> list[str]:
    """Lines with their number `n`, oldest first: the first `limit`, or with `newest` the last `limit`.

    Numbers only grow, but some may be missing: they are a place to go on from.
    """
    with db.reading() as connection:
        # time never runs backwards in a record: an instant is a place in the order of the numbers
        first = _number_at(connection, stretch.since_t)
        end = _number_at(connection, stretch.until_t)
        if stretch.since_t is not None and first is None:
            return []
        # one lower bound: of two, SQLite may search by the wrong one
        wanted = select(ROW.n, ROW.line).where(ROW.n > max(stretch.after_number, (first or 0) - 1))
        if end is not None:
            wanted = wanted.where(ROW.n < end)
        if job is not None:
            wanted = wanted.where(ROW.job == job)
        wanted = wanted.order_by(ROW.n.desc() if newest else ROW.n).limit(limit)
        found = [with_number(line, n) for n, line in connection.execute(wanted)]
    return found[::-1] if newest else found


def _number_at(connection: Connection, t: int | None) -> int | None:
    """Number of the first event at `t` or later; None where there is none, or no `t`."""
    if t is None:
        return None
    wanted = select(ROW.n).where(ROW.t >= t).order_by(ROW.t, ROW.n).limit(1)
    return connection.execute(wanted).scalar()


def story_lines(db: Database, since_t: int | None = None, until_t: int | None = None) -> Iterator[str]:
    """The lines of a story's file, `began` first, each with its newline.

    Measures begin at `since_t` and end at `until_t`, or with the newest event. All lines from the beginning
    are given nevertheless: what runs and waits at `since_t` began before it. So the first line says that the
    time until `since_t` is warm-up. Raises ValueError where the daemon has not stored the first line yet.
    """
    head = read_meta(db, STORY_HEAD)
    if head is None:
        raise ValueError("the record has no story yet: no turn was recorded")
    if since_t is not None:
        head = head | {"warmup_s": since_t}
    if until_t is not None:
        head = head | {"until_s": until_t}
    opening = head.pop(FROM_THE_START, ())
    yield told(head | {"n": 1}) + "\n"
    for n, line in enumerate(opening, start=2):
        yield with_number(line, n) + "\n"
    written, after = 1 + len(opening), 0
    while True:
        wanted = select(ROW.n, ROW.t, ROW.line).where(ROW.n > after).order_by(ROW.n).limit(CHUNK)
        with db.reading() as connection:
            rows = [(n, t, line) for n, t, line in connection.execute(wanted)]
        for n, t, line in rows:
            if until_t is not None and t > until_t:
                return
            written, after = written + 1, n
            yield with_number(line, written) + "\n"
        if len(rows) < CHUNK:
            return
