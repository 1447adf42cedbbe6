"""Which record this is, and small things kept beside it (the lab's file, the head of the story)."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from tenure.ledger.database import Database
from tenure.ledger.records import Identity, WrongLab
from tenure.ledger.tables import META
from tenure.ledger.text_form import read, told

IDENTITY = "identity"


def begin(db: Database, lab: str, start_epoch: float) -> Identity:
    """The record's identity: given now where it has none.

    Raises WrongLab, and ValueError where the start is no whole second.
    """
    if start_epoch != int(start_epoch):
        raise ValueError(f"the start of a record is a whole second, not {start_epoch}")
    with db.writing() as connection:
        given = told({"lab": lab, "start": start_epoch})
        db.put_if_absent(connection, META, {"key": IDENTITY, "value": given})
        stored = read(connection.execute(select(META.c.value).where(META.c.key == IDENTITY)).scalar_one())
    if stored["lab"] != lab:
        raise WrongLab(
            f"this is the record of the lab {stored['lab']!r}, not of {lab!r}: name another database, "
            "or the lab as it was"
        )
    return Identity(stored["lab"], float(stored["start"]))


def read_meta(db: Database, key: str) -> Any:
    """The value kept under a key; None where there is none."""
    with db.reading() as connection:
        text = connection.execute(select(META.c.value).where(META.c.key == key)).scalar()
    return None if text is None else read(text)


def write_meta(db: Database, key: str, value: Any) -> None:
    """Keep a small value (JSON) under a key."""
    if key == IDENTITY:
        raise ValueError("the identity of a record does not change")
    with db.writing() as connection:
        db.put(connection, META, [{"key": key, "value": told(value)}])
