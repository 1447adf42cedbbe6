"""What goes on beside the loop of turns: health checks, messages, windows of nodes, counts, compacting.

None of it is on a turn's way: each looks at the newest view or reads the record, and acts by writing commands
down as a person would. Only the leader checks nodes and delivers; in shadow mode nobody
does, and the days are compared instead.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import structlog

from tenure.core.words import Kind, NodeState, Phase
from tenure.daemon.health import NodeNow, Step
from tenure.daemon.health_watch import HealthWatch
from tenure.daemon.messages import Courier
from tenure.daemon.tallies import Tallies
from tenure.daemon.view import View
from tenure.ledger.records import Asked, LedgerError, NodeEntry, Note
from tenure.service.live.compacting import Compactor
from tenure.service.live.desk import Desk
from tenure.service.live.reservations import Keeper
from tenure.service.live.shadows import Daily

PACE_S = 1.0
MOST_LINES = 10_000  #: of the record read at a time


@dataclass
class Aides:
    """`start` when the server starts, `close` when it ends; both may be called without a leader."""

    desk: Desk
    tallies: Tallies = field(default_factory=Tallies)
    watch: HealthWatch | None = None
    courier: Courier | None = None
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    _after: int | None = None  #: number of the newest story line counted
    _words: dict[str, NodeEntry] = field(default_factory=dict)
    _words_of: int = -1  #: the turn after which they were read

    def start(self) -> None:
        """Begin, each in a thread of its own."""
        desk = self.desk
        if not desk.shadow:
            live = desk.lab.live
            self.watch = HealthWatch(live.health_check, self.nodes, self.ask, desk.now)
            self.watch.start()
            if live.messages is not None:
                self.courier = Courier(desk.lab.name, live.messages, LeadersOutbox(desk), desk.now)
                self.courier.start()
        self.repeat("tallies", self.count)
        self.repeat("compacting", Compactor(desk).look)
        if desk.shadow:
            self.repeat("shadow", Daily(desk).look)
        else:
            self.repeat("reservations", Keeper(desk).look)

    def close(self) -> None:
        """End all of it; what has not left is delivered after the next start."""
        self._stop.set()
        for aide in (self.watch, self.courier):
            if aide is not None:
                aide.close()
        for thread in self._threads:
            thread.join(timeout=10)

    def repeat(self, name: str, step: Callable[[], object]) -> None:
        """In a thread of its own, once a second until the end. What goes wrong is tried again, and logged."""

        def on() -> None:
            pause_s = 0.0
            while not self._stop.wait(pause_s):
                pause_s = PACE_S
                try:
                    step()
                except LedgerError:  # the loop of turns says so already
                    continue
                except Exception:
                    structlog.get_logger("tenure.aides").exception("unforeseen", aide=name)
                    pause_s = 30 * PACE_S

        thread = threading.Thread(target=on, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    # --- nodes -----------------------------------------------------------------------------------------

    def nodes(self) -> Sequence[NodeNow]:
        """All nodes as the newest turn left them; none while another server leads."""
        view = self.desk.daemon.view()
        if view is None or not self.desk.daemon.health().leader:
            return ()
        posts = view.board.posts
        if self._words_of != view.turn:
            self._words, self._words_of = self.desk.ledger.node_states(), view.turn
        found = []
        for node, state, n_jobs in zip(view.lab.nodes, posts["state"].tolist(), posts["n_jobs"].tolist()):
            word = self._words.get(node.name)
            told = ("", "", 0.0) if word is None else (word.by, word.reason, word.at)
            found.append(NodeNow(node.name, NodeState(state).name.lower(), n_jobs, *told))
        return found

    def ask(self, step: Step) -> None:
        """Write the step down as a command. Raises LedgerError."""
        body = {"state": step.state, "reason": step.reason, "from": step.old}
        self.desk.ledger.ask([Asked(step.by, "node", step.node, body, self.desk.now())])
        self.desk.daemon.wake()

    # --- counts ----------------------------------------------------------------------------------------

    def count(self) -> None:
        """Count what was recorded since the last time. The first time: from now on."""
        ledger, view = self.desk.ledger, self.desk.daemon.view()
        if self._after is None:
            newest = ledger.events(limit=1, newest=True)
            if view is None:
                return
            self._after = json.loads(newest[0])["n"] if newest else 0
            self._know(view)
        while True:
            lines = [json.loads(line) for line in ledger.events(after_number=self._after, limit=MOST_LINES)]
            self.tallies.add(lines)
            if lines:
                self._after = lines[-1]["n"]
            if len(lines) < MOST_LINES:
                return

    def _know(self, view: View) -> None:
        """The jobs that were there before this process began, with their waits so far."""
        n = len(view.ids)
        stays, jobs = view.board.stays[:n], view.core.jobs
        for row in np.flatnonzero(~np.isin(stays["phase"], (Phase.ABSENT, Phase.ENDED))).tolist():
            waits = stays["phase"][row] in (Phase.WAITING, Phase.RESTING, Phase.HELD, Phase.CLAIMING)
            line = {
                "gpus": int(jobs["gpus"][row]),
                "min_runtime_s": int(jobs["min_runtime_s"][row]),
                "kind": Kind(int(jobs["kind"][row])).name.lower(),
            }
            since_t = int(stays["since_s"][row]) if waits else None
            self.tallies.knows(view.ids[row], line, since_t, gang=bool(stays["n_nodes"][row] > 1))


class LeadersOutbox:
    """The record's outbox, empty to whoever does not lead: one server delivers."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def outbox(self, limit: int) -> Sequence[Note]:
        """Notes that have not left."""
        return self._desk.ledger.outbox(limit) if self._desk.daemon.health().leader else ()

    def settle_notes(self, settled: Sequence[tuple[int, str, str]]) -> None:
        """They left, or never will."""
        self._desk.ledger.settle_notes(settled)

    def quiet_until(self) -> Mapping[str, float]:
        """By person, as the last server that delivered kept it."""
        return self._desk.ledger.quiet_until()

    def keep_quiet_until(self, quiet_until: Mapping[str, float]) -> None:
        """Keep it in the record."""
        self._desk.ledger.keep_quiet_until(quiet_until)
