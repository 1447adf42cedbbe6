"""What a server that starts anew reads (the newest keyframe and the patches after it), and any turn alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import func, select

from tenure.ledger.database import Database
from tenure.ledger.events import numbered_lines
from tenure.ledger.records import RecordedTurn
from tenure.ledger.tables import KEYFRAMES, TURNS
from tenure.ledger.text_form import unpacked

CHUNK = 100
ROW = TURNS.c

Patch = tuple[int, int, Mapping[str, Any], Sequence[Any]]  #: (turn, t, patch, news)


def last_turn(db: Database) -> int:
    """Number of the newest turn; 0 in a new record."""
    with db.reading() as connection:
        return int(connection.execute(select(func.coalesce(func.max(ROW.turn), 0))).scalar_one())


def newest_keyframe(db: Database, before: int | None = None) -> tuple[int, bytes] | None:
    """(turn, state after it) of the newest keyframe, or the newest of a turn before `before`."""
    wanted = select(KEYFRAMES).order_by(KEYFRAMES.c.turn.desc()).limit(1)
    if before is not None:
        wanted = wanted.where(KEYFRAMES.c.turn < before)
    with db.reading() as connection:
        row = connection.execute(wanted).one_or_none()
    return None if row is None else (row.turn, bytes(row.body))


def patches_after(db: Database, turn: int, upto: int | None = None) -> Iterator[Patch]:
    """Every turn after `turn`, oldest first, to the newest or to `upto`. Read in chunks: no lock is kept.

    Raises ValueError where the turns begin with one that was compacted.
    """
    while True:
        wanted = select(ROW.turn, ROW.t, ROW.patch, ROW.news).where(ROW.turn > turn)
        if upto is not None:
            wanted = wanted.where(ROW.turn <= upto)
        with db.reading() as connection:
            rows = connection.execute(wanted.order_by(ROW.turn).limit(CHUNK)).mappings().all()
        if not rows:
            return
        for row in rows:
            turn = row["turn"]
            if row["patch"] is None:
                raise ValueError(f"turn {turn} was compacted: its patch is gone")
            yield turn, row["t"], unpacked(row["patch"]), unpacked(row["news"])


def turn(db: Database, number: int) -> RecordedTurn | None:
    """A turn, to be decided again."""
    with db.reading() as connection:
        row = connection.execute(select(TURNS).where(ROW.turn == number)).mappings().one_or_none()
        if row is None:
            return None
        after = row["events_after"]
        events = numbered_lines(connection, after, after + row["n_events"])
    kept = {name: row[name] for name in ("turn", "t", "at", "digest", "code")}
    news, patch = (None if row[name] is None else unpacked(row[name]) for name in ("news", "patch"))
    return RecordedTurn(news=news, patch=patch, events=events, **kept)
