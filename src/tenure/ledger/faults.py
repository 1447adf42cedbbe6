"""What the drivers' errors mean: the one place where they are turned into the words of the record."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import exc

from tenure.ledger.records import LedgerError, LedgerUnavailable

#: SQLSTATEs of PostgreSQL, by class, that pass by themselves or with room, power or an administrator's hand
PASSING = ("08", "25", "40", "53", "55", "57", "58", "XX")


@contextmanager
def as_ledger_errors() -> Iterator[None]:
    """Raise LedgerUnavailable or LedgerError for whatever a driver raises inside.

    ValueError for a value that no column can hold, such as a number of more than 64 bits.
    """
    try:
        yield
    except OverflowError as error:  # SQLite's driver notices before it asks
        raise ValueError(f"larger than a database can hold: {error}") from error
    except exc.TimeoutError as error:  # of the pool
        raise LedgerUnavailable("the database is busy: no connection came free in time") from error
    except exc.DBAPIError as error:
        said = f"the database says: {sentence(error)}"
        if _state(error).startswith("22"):
            raise ValueError(said) from error
        raise (LedgerUnavailable if passes(error) else LedgerError)(said) from error
    except exc.SQLAlchemyError as error:
        raise LedgerError(str(error)) from error


def passes(error: exc.DBAPIError) -> bool:
    """Whether asking again later may succeed."""
    if error.connection_invalidated:
        return True
    cause = error.orig
    if isinstance(cause, sqlite3.Error):
        # what is malformed or missing is OperationalError or DatabaseError too, but no later call mends it
        return isinstance(cause, sqlite3.OperationalError) and not str(cause).startswith(("no such", "near"))
    state = _state(error)
    if not state:
        return isinstance(error, exc.OperationalError | exc.InterfaceError)
    return state.startswith(PASSING)


def _state(error: exc.DBAPIError) -> str:
    """PostgreSQL's SQLSTATE; "" where there is none."""
    return str(getattr(error.orig, "sqlstate", None) or "")


def sentence(error: BaseException) -> str:
    """The driver's own words on one line, without the statement and its values."""
    cause = getattr(error, "orig", None) or error
    return " ".join(str(cause).split())[:300] or type(cause).__name__
