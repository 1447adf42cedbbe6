"""Orders that are recorded and not yet carried out: in their order, as often as it takes, each told once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from tenure.daemon.reconcile import Key
from tenure.engines.protocol import (
    Engine,
    EngineUnavailable,
    Enrol,
    Forget,
    Notice,
    Order,
    OrderRefused,
    SetNode,
    Start,
    Stop,
    Withdraw,
)
from tenure.ledger.records import OrderRow

KINDS: dict[str, Callable[..., Order]] = {
    kind.__name__.lower(): kind for kind in (Start, Notice, Stop, Forget, Enrol, Withdraw, SetNode)
}

Settled = tuple[str, str, str]  #: (id, state, detail), as the ledger takes it


def order_of(row: OrderRow) -> Order:
    """The order of a row. Keys that its kind does not know (any more) are left out."""
    kind: Any = KINDS[row.kind]
    return kind(id=row.id, **{key: value for key, value in row.body.items() if key in kind._fields})  # type: ignore[no-any-return]


class Carried(NamedTuple):
    """What became of the open orders in one go."""

    settled: list[Settled]
    refused: list[tuple[OrderRow, str]]
    silent: str  #: why the engine did not answer; "" where it did


class OpenOrders:
    """The orders still open, oldest first."""

    def __init__(self, rows: Iterable[OrderRow] = ()) -> None:
        self._rows: OrderedDict[str, OrderRow] = OrderedDict((row.id, row) for row in rows)
        self.refused: dict[Key, tuple[str, bool]] = {}  #: starts that will never be: (why, the node is bad)
        self._refused_ids: dict[Key, str] = {}
        self.unenrolled: dict[str, str] = {}  #: why, by order: submissions that the engine will never take

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, rows: Iterable[OrderRow]) -> None:
        """Orders that have been recorded now."""
        self._rows.update((row.id, row) for row in rows)

    def unstarted(self) -> frozenset[Key]:
        """Attempts whose start is ordered and not carried out."""
        return frozenset(_key(row) for row in self._rows.values() if row.kind == "start")

    def open(self) -> frozenset[tuple[str, str, int]]:
        """(kind, job, attempt) of each."""
        return frozenset((row.kind, *_key(row)) for row in self._rows.values())

    def nodes(self) -> frozenset[str]:
        """Nodes of which the engine is still to be told how they are."""
        return frozenset(str(row.body["node"]) for row in self._rows.values() if row.kind == "setnode")

    def carry_out(self, engine: Engine, is_wanted: Callable[[Key], bool], ghosts: frozenset[str]) -> Carried:
        """Carry out what can be; a start that nobody wants any more (its end is recorded) is left out.

        `ghosts`: jobs of which an attempt may still run: none is started until it is gone.
        """
        carried = Carried([], [], "")
        for row in list(self._rows.values()):
            key = _key(row)
            if row.id in self.unenrolled:
                continue
            if row.kind == "start":
                if key in self.refused or key[0] in ghosts:
                    continue
                if not is_wanted(key):
                    self._settle(carried, row, "refused", "over before it was carried out")
                    continue
            try:
                engine.carry_out(order_of(row))
            except EngineUnavailable as error:
                return carried._replace(silent=str(error) or "no answer")
            except OrderRefused as error:
                if row.kind == "enrol":
                    self.unenrolled[row.id] = str(error)
                elif row.kind == "start":  # stays open until its end is recorded: a crash forgets nothing
                    self.refused[key] = (str(error), bool(getattr(error, "node_is_bad", False)))
                    self._refused_ids[key] = row.id
                else:
                    self._settle(carried, row, "refused", str(error))
                carried.refused.append((row, str(error)))
            else:
                self._settle(carried, row, "done", "")
        return carried

    def answered(self, orders: Iterable[str]) -> list[Settled]:
        """The answers to these refused submissions are recorded."""
        settled = []
        for order in orders:
            if order in self.unenrolled:
                self._rows.pop(order, None)
                settled.append((order, "refused", self.unenrolled.pop(order)))
        return settled

    def ended(self, keys: Iterable[Key]) -> list[Settled]:
        """The ends of these attempts are recorded: refused starts among them are settled."""
        settled = []
        for key in keys:
            if key in self._refused_ids:
                row = self._refused_ids.pop(key)
                why, _ = self.refused.pop(key)
                self._rows.pop(row, None)
                settled.append((row, "refused", why))
        return settled

    def _settle(self, carried: Carried, row: OrderRow, state: str, detail: str) -> None:
        del self._rows[row.id]
        carried.settled.append((row.id, state, detail))


def _key(row: OrderRow) -> Key:
    return row.job, int(row.body.get("attempt") or 0)


__all__ = ["OpenOrders", "order_of"]
