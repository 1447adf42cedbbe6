"""What became of nodes (drained, repairing, up …), who said so and why, and how often a person was needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, func, select

from tenure.ledger.database import Database, count_on
from tenure.ledger.records import NodeEntry
from tenure.ledger.tables import NODE_LOG

Line = dict[str, Any]
ROW = NODE_LOG.c


def entry_line(entry: NodeEntry) -> Line:
    return entry._asdict()


def write_entries(db: Database, connection: Connection, lines: Sequence[Line]) -> None:
    if lines:
        after = count_on(connection, "node_log", len(lines))
        rows = [{**line, "number": number} for number, line in enumerate(lines, start=after + 1)]
        db.insert(connection, NODE_LOG, rows)


def log_nodes(db: Database, entries: Sequence[NodeEntry]) -> None:
    """Append to the log, outside of a turn."""
    with db.writing() as connection:
        write_entries(db, connection, [entry_line(entry) for entry in entries])


def newest_entries(db: Database) -> dict[str, NodeEntry]:
    """The newest entry of every node that has one."""
    newest = select(func.max(ROW.number)).group_by(ROW.node)
    wanted = select(NODE_LOG).where(ROW.number.in_(newest)).order_by(ROW.node)
    with db.reading() as connection:
        return {row.node: _entry(row) for row in connection.execute(wanted)}


def entries(db: Database, node: str | None, limit: int) -> list[NodeEntry]:
    """The newest `limit` entries, of one node or of all, newest first."""
    wanted = select(NODE_LOG).order_by(ROW.number.desc()).limit(limit)
    if node is not None:
        wanted = wanted.where(ROW.node == node)
    with db.reading() as connection:
        return [_entry(row) for row in connection.execute(wanted)]


def repairs_by_people(db: Database, since: float, until: float) -> int:
    """How many repairs needed a person, between two instants."""
    wanted = select(func.count()).where(ROW.person, ROW.at >= since, ROW.at < until)
    with db.reading() as connection:
        return int(connection.execute(wanted).scalar_one())


def _entry(row: Any) -> NodeEntry:
    return NodeEntry(row.node, row.state, row.by, row.reason, row.at, row.person)
