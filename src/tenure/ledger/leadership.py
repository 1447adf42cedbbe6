"""Who decides: a lease in the database, with an epoch that every write of a turn is checked against.

A leader that was thought dead and comes back has an old epoch: it can write nothing more, whatever its clock
says. Both databases let one transaction at a time hold the row.
"""

from __future__ import annotations

from sqlalchemy import Connection, select, update

from tenure.ledger.database import Database
from tenure.ledger.records import Lease, NotTheLeader
from tenure.ledger.tables import LEADERSHIP

ROW = LEADERSHIP.c


def lead(db: Database, holder: str, now: float, ttl_s: float) -> Lease | None:
    """Take the lead; None while another holds it. Whoever holds it already gets a new epoch."""
    with db.writing() as connection:
        found = connection.execute(select(LEADERSHIP).with_for_update()).one()
        if found.until > now and found.holder != holder:
            return None
        lease = Lease(holder, found.epoch + 1, now + ttl_s)
        connection.execute(update(LEADERSHIP).values(holder=holder, epoch=lease.epoch, until=lease.until))
    return lease


def renew(db: Database, lease: Lease, now: float, ttl_s: float) -> Lease:
    """Keep the lead. Raises NotTheLeader where somebody else took it."""
    with db.writing(durable=False) as connection:
        hold(connection, lease)
        connection.execute(update(LEADERSHIP).values(until=now + ttl_s))
    return lease._replace(until=now + ttl_s)


def yield_lease(db: Database, lease: Lease) -> None:
    """Let go of the lead, so that the next server need not wait. Nothing happens where it is lost already."""
    with db.writing() as connection:
        connection.execute(update(LEADERSHIP).where(ROW.epoch == lease.epoch).values(until=0.0))


def hold(connection: Connection, lease: Lease) -> None:
    """Keep everybody else from leading until this transaction ends. Raises NotTheLeader."""
    found = connection.execute(select(LEADERSHIP).with_for_update()).one()
    if found.epoch != lease.epoch:
        raise NotTheLeader(f"{found.holder} leads now (epoch {found.epoch}; ours was {lease.epoch})")
