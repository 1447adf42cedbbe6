"""What the doors ask about jobs, their attempts and shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import literal_column, or_, select

from tenure.ledger.database import Database
from tenure.ledger.records import AttemptRow, JobRow
from tenure.ledger.tables import ATTEMPTS, JOBS, SHARES
from tenure.ledger.text_form import read

ROW = JOBS.c


def job(db: Database, id_: str) -> JobRow | None:
    with db.reading() as connection:
        row = connection.execute(select(JOBS).where(ROW.job == id_)).one_or_none()
    return None if row is None else _job(row)


class Wanted(NamedTuple):
    """Which jobs: those that match all that is given."""

    phase: str | Sequence[str] | None = None  #: one, or any of several
    account: str | None = None  #: it and all below it
    user: str | None = None
    array: str | None = None
    since_t: int | None = None  #: had not ended before


def jobs(
    db: Database, which: Wanted, *, limit: int = 1000, offset: int = 0, newest: bool = False
) -> list[JobRow]:
    """Jobs in the order in which they came, or with `newest` the last ones first."""
    wanted = select(JOBS)
    if which.phase is not None:
        phases = [which.phase] if isinstance(which.phase, str) else list(which.phase)
        wanted = wanted.where(ROW.phase == phases[0] if len(phases) == 1 else ROW.phase.in_(phases))
    if which.account:
        # "0" comes right after "/"
        below = (ROW.account > which.account + "/") & (ROW.account < which.account + "0")
        wanted = wanted.where(or_(ROW.account == which.account, below))
    if which.user is not None:
        wanted = wanted.where(ROW.user == which.user)
    if which.array:
        wanted = wanted.where(ROW.array == which.array, ROW.array != literal_column("''"))
    if which.since_t is not None:
        wanted = wanted.where(or_(ROW.ended_t.is_(None), ROW.ended_t >= which.since_t))
    wanted = wanted.order_by(ROW.seq.desc() if newest else ROW.seq).limit(limit).offset(offset)
    with db.reading() as connection:
        return [_job(row) for row in connection.execute(wanted)]


def attempts(db: Database, id_: str) -> list[AttemptRow]:
    """Attempts of a job, first to last."""
    wanted = select(ATTEMPTS).where(ATTEMPTS.c.job == id_).order_by(ATTEMPTS.c.attempt)
    with db.reading() as connection:
        return [_attempt(row) for row in connection.execute(wanted)]


def share_history(db: Database, account: str | None) -> list[Mapping[str, Any]]:
    """Changes of shares, oldest first, of one account or of all.

    {t, at, turn} and what the turn said: {account, cluster, old, new, by, reason}.
    """
    wanted = select(SHARES).order_by(SHARES.c.number)
    if account is not None:
        wanted = wanted.where(SHARES.c.account == account)
    with db.reading() as connection:
        rows = connection.execute(wanted).mappings().all()
    return [{"t": row["t"], "at": row["at"], "turn": row["turn"], **read(row["body"])} for row in rows]


def _job(row: Any) -> JobRow:
    return JobRow(
        job=row.job,
        account=row.account,
        user=row.user,
        phase=row.phase,
        end=row.end,
        submitted_t=row.submitted_t,
        ended_t=row.ended_t,
        gpus=row.gpus,
        min_runtime_s=row.min_runtime_s,
        spec=read(row.spec),
        detail=row.detail,
        array=row.array,
    )


def _attempt(row: Any) -> AttemptRow:
    kept = {name: getattr(row, name) for name in AttemptRow._fields if name != "nodes"}
    return AttemptRow(nodes=read(row.nodes), **kept)
