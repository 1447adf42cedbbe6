"""Orders that were recorded and are still to be carried out, and what became of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, literal_column, select

from tenure.ledger.database import Database
from tenure.ledger.records import OrderRow
from tenure.ledger.tables import ORDERS
from tenure.ledger.text_form import read

ROW = ORDERS.c
OPEN: ColumnElement[str] = literal_column(
    "'open'"
)  #: a partial index serves only where its condition stands in the statement


def open_orders(db: Database, limit: int | None) -> list[OrderRow]:
    """Those not carried out yet, oldest first."""
    wanted = select(ORDERS).where(ROW.state == OPEN).order_by(ROW.turn, ROW.place).limit(limit)
    with db.reading() as connection:
        return [_order(row) for row in connection.execute(wanted)]


def settle_orders(db: Database, settled: Sequence[tuple[str, str, str]]) -> None:
    """(id, state, detail) of orders carried out or refused.

    A power cut may lose the newest of these; those orders are carried out once more.
    """
    db.settle(ORDERS, settled, durable=False)


def _order(row: Any) -> OrderRow:
    return OrderRow(row.id, row.turn, row.kind, row.job, read(row.body), row.state, row.detail)
