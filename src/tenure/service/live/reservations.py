"""Maintenance windows: nodes an operator takes out of service from an instant on, for so long, and why.

Nothing is protected or promised across the beginning of a window; what runs then leaves by the contract,
and when the window is over the node is back by itself. Reservations are kept beside the turns
(`ledger.meta`); what follows from them is asked for again and again until it is so: `Keeper.look` compares
what should be with what is, so that a crash between two steps loses nothing.
"""

from __future__ import annotations

import fnmatch
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tenure.client.messages import Done, Reservation
from tenure.core.words import NEVER_S, NodeState
from tenure.daemon.health import PROGRAM
from tenure.daemon.view import View
from tenure.ledger.records import Asked
from tenure.service.live.desk import Desk, iso, reason_text
from tenure.service.live.errors import NotKnown
from tenure.service.live.people import Who, check_admin
from tenure.settings.errors import BadInput, nearest, shown
from tenure.settings.units import duration_s, duration_text, instant

KEPT = "reservations"  #: key of `ledger.meta`
BY = "reservation"  #: who acts where a window begins or ends
MOST = 1000  #: reservations kept at one time
FURTHEST_S = 366 * 86400
ASK_AGAIN_S = 15.0
SOON_S = 3.0  #: a window that begins sooner is not announced any more: it begins
_writing = threading.Lock()


class Window(NamedTuple):
    """One reservation. Instants are epoch seconds."""

    id: str
    nodes: tuple[str, ...]
    begins: float
    ends: float
    by: str
    reason: str
    begun: bool = False  #: its nodes were put out of service; whatever is said of them since then holds


def reserve(desk: Desk, who: Who, body: Mapping[str, Any]) -> Reservation:
    """`{nodes: [names or patterns], from: date or duration from now, for: duration, reason}`.

    Administrators only. Raises Forbidden, BadInput, NotReady.
    """
    check_admin(who, "a reservation of nodes")
    nodes = _nodes(desk, body.get("nodes"))
    now = desk.now()
    begins = _begins(body.get("from"), now)
    try:
        length_s = duration_s(body.get("for"))
    except ValueError as wrong:
        raise BadInput("reserve", "for", shown(body.get("for")), str(wrong)) from None
    if not 0 < length_s <= FURTHEST_S:
        raise BadInput(
            "reserve", "for", duration_text(length_s), f"up to {duration_text(FURTHEST_S)}, above 0"
        )
    reason = reason_text(body.get("reason"))
    if not reason:
        raise BadInput("reserve", "reason", "nothing", "why, in a few words: it is recorded")
    with _writing:
        number, kept = _read(desk)
        if len(kept) >= MOST:
            raise BadInput("reserve", "", f"{len(kept)} reservations", f"at most {MOST} at one time")
        window = Window(str(number), nodes, begins, begins + length_s, who.user, reason)
        _write(desk, number + 1, [*kept, window])
    keeper = Keeper(desk)
    keeper.announce(window)
    return _told(window, now)


def reservations(desk: Desk, who: Who) -> list[Reservation]:
    """Those that are open or to come, by their beginning. Anybody in the lab may see them."""
    now = desk.now()
    return [_told(one, now) for one in sorted(_read(desk)[1], key=lambda one: (one.begins, one.id))]


def unreserve(desk: Desk, who: Who, name: str) -> Done:
    """Take a reservation back; nodes that it took out come back. Administrators only.

    Raises Forbidden, NotKnown, NotReady.
    """
    check_admin(who, "a reservation of nodes")
    with _writing:
        number, kept = _read(desk)
        gone = next((one for one in kept if one.id == name), None)
        if gone is None:
            known = ", ".join(one.id for one in kept[:8])
            raise NotKnown(f"there is no reservation {name[:60]!r}" + (f"; known: {known}" if known else ""))
        _write(desk, number, [*(one for one in kept if one.id != name), gone._replace(ends=desk.now())])
    Keeper(desk).look()
    return Done(subject=name, text=f"reservation {name} of {_few(gone.nodes)} is taken back")


class Keeper:
    """Makes so what reservations ask for: asks the scheduler to close nodes, and to take them up again."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._asked: dict[str, tuple[str, float]] = {}

    def announce(self, window: Window) -> None:
        """Tell the scheduler of a new window at once. Raises LedgerError."""
        now = self._desk.now()
        if window.begins <= now + SOON_S:
            return  # `look` puts the nodes out of service when it sees that it has begun
        others = [one for one in _read(self._desk)[1] if one.begins > now and one.ends > now]
        reason = f"reservation {window.id}: {window.reason}"
        commands = []
        for node in window.nodes:
            begins = min([window.begins, *(one.begins for one in others if node in one.nodes)])
            commands.append(self._command(window.by, node, self._t(begins), reason))
        self._ask(commands)

    def look(self) -> None:
        """One round. Raises LedgerError."""
        desk, now = self._desk, self._desk.now()
        view = desk.daemon.view()
        with _writing:
            _, kept = _read(desk)
        if view is None or not kept or not desk.daemon.health().leader:
            return
        begun = {one.id for one in kept if not one.begun and self._begins(view, one, now)}
        commands = [one for window in kept if window.id in begun for one in self._drains(view, window, now)]
        commands += [one for one in self._due(view, kept, now) if self._fresh(one, now)]
        if commands:
            self._ask(commands)
        over = {one.id for one in kept if one.ends <= now and not self._holds(view, one, kept, now)}
        if over or begun:
            with _writing:
                number, kept = _read(desk)
                left = [
                    one._replace(begun=one.begun or one.id in begun) for one in kept if one.id not in over
                ]
                _write(desk, number, left)

    def _begins(self, view: View, window: Window, now: float) -> bool:
        """Whether its instant has come, and the turn of that instant too."""
        t = self._t(now)
        rows = {node.name: row for row, node in enumerate(view.lab.nodes)}
        closed_s = view.board.posts["closed_s"]
        pending = any(closed_s[rows[name]] <= t for name in window.nodes if name in rows)
        return window.begins <= now < window.ends and not pending

    def _drains(self, view: View, window: Window, now: float) -> list[Asked]:
        """For nodes that are still in service: the announcement came too late for a turn, or was lost."""
        states = dict(zip((node.name for node in view.lab.nodes), view.board.posts["state"].tolist()))
        body = {"state": "draining", "from": "up", "reason": f"reservation {window.id}: {window.reason}"}
        return [
            Asked(BY, "node", name, body, now) for name in window.nodes if states.get(name) == NodeState.UP
        ]

    def _due(self, view: View, kept: Sequence[Window], now: float) -> list[Asked]:
        by_node: dict[str, list[Window]] = {}
        for window in kept:
            for name in window.nodes:
                by_node.setdefault(name, []).append(window)
        found = []
        for row, node in enumerate(view.lab.nodes):
            windows = by_node.get(node.name)
            if not windows:
                continue
            to_come = [one for one in windows if one.begins > now + SOON_S and one.ends > now]
            coming = min(to_come, default=None, key=lambda one: one.begins)
            closes = int(view.board.posts["closed_s"][row])
            wanted = NEVER_S if coming is None else self._t(coming.begins)
            beginning = [
                self._t(one.begins) for one in windows if one.begins <= now + SOON_S and one.ends > now
            ]
            if closes not in (wanted, *beginning):
                why = "" if coming is None else f"reservation {coming.id}: {coming.reason}"
                found.append(self._command(BY, node.name, wanted, why or "its reservation is taken back"))
            if any(one.ends <= now for one in windows) and self._out_by_us(view, row, windows, now):
                reason = "its reservation is over"
                old = NodeState(int(view.board.posts["state"][row])).name.lower()
                body = {"state": "up", "from": old, "reason": reason}
                found.append(Asked(BY, "node", node.name, body, now))
        return found

    def _out_by_us(self, view: View, row: int, windows: Sequence[Window], now: float) -> bool:
        """Out of service because a window began, and no window is open any more."""
        if any(one.begins <= now < one.ends for one in windows):
            return False
        state = NodeState(int(view.board.posts["state"][row]))
        if state not in (NodeState.DRAINING, NodeState.DRAINED):
            return False
        word = self._desk.ledger.node_states().get(view.lab.nodes[row].name)
        return word is None or word.by in ("", BY, PROGRAM)

    def _holds(self, view: View, window: Window, kept: Sequence[Window], now: float) -> bool:
        """Whether a window that is over still has something to be undone."""
        rows = {node.name: row for row, node in enumerate(view.lab.nodes)}
        for name in window.nodes:
            row = rows.get(name)
            if row is None:
                continue
            mine = [one for one in kept if name in one.nodes]
            others = [self._t(one.begins) for one in mine if one.ends > now]
            closes = int(view.board.posts["closed_s"][row])
            stale = closes == self._t(window.begins) and closes not in others
            if stale or self._out_by_us(view, row, mine, now):
                return True
        return False

    def _fresh(self, command: Asked, now: float) -> bool:
        """Whether this was not asked for a moment ago."""
        key = f"{command.verb} {command.subject}"
        what = str(command.body.get("at_t", command.body.get("state")))
        last = self._asked.get(key)
        if last is not None and last[0] == what and now < last[1] + ASK_AGAIN_S:
            return False
        self._asked[key] = what, now
        return True

    def _command(self, by: str, node: str, at_t: int, reason: str) -> Asked:
        body = {"at_t": None if at_t >= NEVER_S else at_t, "reason": reason}
        return Asked(by, "close", node, body, self._desk.now())

    def _ask(self, commands: Sequence[Asked]) -> None:
        self._desk.ledger.ask(commands)
        self._desk.daemon.wake()

    def _t(self, epoch: float) -> int:
        return max(0, int(epoch - self._desk.start))


# --- what is given and what is kept -------------------------------------------------------------------


def _nodes(desk: Desk, given: Any) -> tuple[str, ...]:
    """Names and patterns (`jupiter-00*`) as names, in the lab's order. Raises BadInput."""
    if isinstance(given, str):
        given = given.split(",")
    if not isinstance(given, list) or not given or not all(isinstance(one, str) for one in given):
        raise BadInput("reserve", "nodes", shown(given), "names of nodes, or patterns such as jupiter-00*")
    names = [node.name for node in desk.lab.nodes]
    chosen: set[str] = set()
    for pattern in given[:1000]:
        found = fnmatch.filter(names, pattern.strip()[:300])
        if not found:
            raise BadInput("reserve", "nodes", shown(pattern), nearest(pattern[:100], names))
        chosen.update(found)
    return tuple(name for name in names if name in chosen)


def _begins(given: Any, now: float) -> float:
    """A date, or a duration from now. Raises BadInput."""
    if given in (None, "", "now"):
        return now
    allowed = "a date and time such as 2026-01-05T08:00:00Z, or a duration from now such as 2h"
    try:
        begins = now + duration_s(str(given).removeprefix("+"))
    except ValueError:
        try:
            begins = instant(given).timestamp()
        except ValueError:
            raise BadInput("reserve", "from", shown(given), allowed) from None
    if not now - 60 <= begins <= now + FURTHEST_S:
        raise BadInput(
            "reserve", "from", iso(begins), f"an instant from now to {duration_text(FURTHEST_S)} on"
        )
    return float(int(begins))


def _read(desk: Desk) -> tuple[int, list[Window]]:
    """(the next number, the windows kept)."""
    told = desk.ledger.meta(KEPT) or {"next": 1, "kept": []}
    return int(told["next"]), [Window(**{**one, "nodes": tuple(one["nodes"])}) for one in told["kept"]]


def _write(desk: Desk, number: int, kept: Sequence[Window]) -> None:
    desk.ledger.set_meta(KEPT, {"next": number, "kept": [one._asdict() for one in kept]})


def _told(window: Window, now: float) -> Reservation:
    state = "to come" if now < window.begins else "open" if now < window.ends else "over"
    return Reservation(
        id=window.id,
        nodes=list(window.nodes),
        begins=iso(window.begins),
        ends=iso(window.ends),
        state=state,
        by=window.by,
        reason=window.reason,
    )


def _few(nodes: Sequence[str]) -> str:
    return ", ".join(nodes[:3]) + (f" and {len(nodes) - 3} more" if len(nodes) > 3 else "")
