"""Orders that are recorded and not yet carried out: in their order, as often as it takes, each told once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from tenure.daemon.reconcile import Key
from tenure.engines.protocol import (
    Engine,
    EngineError,
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

MOST_AT_ONCE = 100  #: orders of one kind given to an engine together
TOGETHER = ("start", "stop", "notice")
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

    def carry_out(
        self,
        engine: Engine,
        is_wanted: Callable[[Key], bool],
        ghosts: frozenset[str],
        leads: Callable[[], bool] = lambda: True,
    ) -> Carried:
        """Carry out what can be; a start that nobody wants any more (its end is recorded) is left out.

        `ghosts`: jobs of which an attempt may still run: none is started until it is gone.
        `leads`: asked before each call of the engine; once it says no, what is open stays open.
        """
        carried = Carried([], [], "")
        rows = [row for row in list(self._rows.values()) if self._is_due(carried, row, is_wanted, ghosts)]
        while rows:
            run = _one_go(rows)
            errors = _carried_out(engine, run, leads)
            if len(errors) < len(run):  # another may lead by now, who carries out the rest
                rows = run = run[: len(errors)]
            for row, error in zip(run, errors, strict=True):
                if error is None:
                    self._settle(carried, row, "done", "")
                elif isinstance(error, OrderRefused):
                    self._refused(carried, row, error)
            silent = next((e for e in errors if e is not None and not isinstance(e, OrderRefused)), None)
            if silent is not None:
                return carried._replace(silent=str(silent) or "no answer")
            del rows[: len(run)]
        return carried

    def _is_due(
        self, carried: Carried, row: OrderRow, is_wanted: Callable[[Key], bool], ghosts: frozenset[str]
    ) -> bool:
        """Whether to carry it out now; a start that nobody wants any more is settled here."""
        key = _key(row)
        if row.id in self.unenrolled:
            return False
        if row.kind == "start" and (key in self.refused or key[0] in ghosts):
            return False
        if row.kind == "start" and not is_wanted(key):
            self._settle(carried, row, "refused", "over before it was carried out")
            return False
        return True

    def _refused(self, carried: Carried, row: OrderRow, error: OrderRefused) -> None:
        """It will never be. A start or a submission stays open until that is recorded, crash or no crash."""
        if row.kind == "enrol":
            self.unenrolled[row.id] = str(error)
        elif row.kind == "start":
            self.refused[_key(row)] = (str(error), bool(getattr(error, "node_is_bad", False)))
            self._refused_ids[_key(row)] = row.id
        else:
            self._settle(carried, row, "refused", str(error))
        carried.refused.append((row, str(error)))

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


def _one_go(rows: Sequence[OrderRow]) -> list[OrderRow]:
    """The first, or as many of its kind as stand together: some engines take those at once."""
    run = [rows[0]]
    while run[0].kind in TOGETHER and len(run) < min(len(rows), MOST_AT_ONCE):
        if rows[len(run)].kind != run[0].kind:
            break
        run.append(rows[len(run)])
    return run


def _carried_out(
    engine: Engine, run: Sequence[OrderRow], leads: Callable[[], bool]
) -> list[EngineError | None]:
    """For each, None or why it was not carried out; after one that got no answer the rest is not tried.

    Fewer where `leads` said no in between.
    """
    many = getattr(engine, "carry_out_many", None)
    if many is not None and len(run) > 1:
        return list(many([order_of(row) for row in run])) if leads() else []
    found: list[EngineError | None] = []
    for row in run:
        if not leads():
            return found
        try:
            engine.carry_out(order_of(row))
        except EngineUnavailable as error:
            return found + [error] * (len(run) - len(found))
        except OrderRefused as error:
            found.append(error)
        else:
            found.append(None)
    return found


def _key(row: OrderRow) -> Key:
    return row.job, int(row.body.get("attempt") or 0)


__all__ = ["OpenOrders", "order_of"]
