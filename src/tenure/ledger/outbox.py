"""Messages to owners: written with the turn that causes them, sent afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import literal_column, select

from tenure.ledger.database import Database
from tenure.ledger.meta import read_meta, write_meta
from tenure.ledger.records import Note
from tenure.ledger.tables import NOTES
from tenure.ledger.text_form import read

ROW = NOTES.c
QUIET_UNTIL = "quiet_until"  #: its key beside the record


def outbox(db: Database, limit: int) -> list[Note]:
    """The oldest messages not sent yet."""
    wanted = select(NOTES).where(ROW.state == literal_column("'open'")).order_by(ROW.number).limit(limit)
    with db.reading() as connection:
        return [_note(row) for row in connection.execute(wanted).mappings()]


def settle_notes(db: Database, settled: Sequence[tuple[int, str, str]]) -> None:
    """(number, sent or failed, detail) of messages."""
    db.settle(NOTES, settled)


def quiet_until(db: Database) -> dict[str, float]:
    """By person: the epoch second before which no further message leaves."""
    return dict(read_meta(db, QUIET_UNTIL) or {})


def keep_quiet_until(db: Database, until: Mapping[str, float]) -> None:
    """Keep it in place of what was kept before."""
    write_meta(db, QUIET_UNTIL, dict(until))


def _note(row: Any) -> Note:
    kept = {name: row[name] for name in Note._fields if name != "body"}
    return Note(body=read(row["body"]), **kept)
