"""A small lab under a live loop, on a cluster in memory and a chosen clock, to ask things of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from live_world import QUIET, START
from tenure.core.words import NEVER_S, Phase
from tenure.daemon.run import Daemon
from tenure.daemon.view import View
from tenure.engines.fake import Behaviour, ChosenClock, FakeCluster, Faults
from tenure.ledger.ledger import open_ledger
from tenure.ledger.records import Answer, Asked
from tenure.settings.lab import lab_of

LAB = {
    "lab": "small",
    "clusters": {"mars": {"nodes": 2, "gpus_per_node": 8}},
    "accounts": {
        "a": {"share": "50%"},
        "b": {"share": "50%", "accounts": {"x": {"share": "50%"}, "y": {"share": "30%"}}},
    },
}


class Small:
    """See the module. Jobs run for the `runtime` their environment names (an hour), and end well."""

    def __init__(
        self,
        folder: Path,
        lab: Mapping[str, Any] = LAB,
        *,
        faults: Faults | None = None,
        keyframe_every: int = 5,
        more_nodes: Mapping[str, int] | None = None,
    ) -> None:
        self.folder = folder
        self.clock = ChosenClock(START)
        self.lab = lab_of(lab)
        self.behaviours: dict[str, Behaviour] = {}
        nodes = {node.name: node.gpus for node in self.lab.nodes} | dict(more_nodes or {})
        self.engine = FakeCluster(nodes, self.clock, behave=self._behave, faults=faults)
        self.ledger = open_ledger(folder / "record.sqlite")
        self.keyframe_every = keyframe_every
        self.daemon = self.wake_up()
        self.settle()

    def wake_up(self, name: str = "tested") -> Daemon:
        self.daemon = Daemon(
            self.lab,
            self.ledger,
            self.engine,
            self.clock,
            name=name,
            keyframe_every=self.keyframe_every,
            log=QUIET,
        )
        return self.daemon

    def _behave(self, job: str, attempt: int, start: Any) -> Behaviour:
        if job in self.behaviours:
            return self.behaviours[job]
        return Behaviour(float(start.env.get("RUNTIME", 3600)), fails="FAILS" in start.env)

    # --- time -----------------------------------------------------------------------------------------------

    @property
    def t(self) -> int:
        return int(self.clock.now() - START)

    def settle(self) -> None:
        for _ in range(50):
            if not self.daemon.turn_now() and not self.daemon.turn_now():
                return
        raise AssertionError("no rest")

    def to(self, t: int) -> None:
        """Live on to that second."""
        while True:
            change = self.engine.next_change()
            view = self.daemon.view()
            coming = [] if view is None or view.next_t >= NEVER_S else [view.next_t]
            coming += [] if change is None else [int(np.ceil(change - START))]
            coming = [max(one, self.t + 1) for one in coming]
            if not coming or min(coming) > t:
                break
            self.clock.set(START + min(coming))
            self.settle()
        self.clock.set(START + t)
        self.settle()

    # --- asking ---------------------------------------------------------------------------------------------

    def tell(self, verb: str, subject: str = "", by: str = "ann", **body: Any) -> int:
        """Write a command down; nobody obeys it yet."""
        return self.ledger.ask([Asked(by, verb, subject, body, self.clock.now())])[0]

    def ask(self, verb: str, subject: str = "", by: str = "ann", **body: Any) -> Answer:
        number = self.tell(verb, subject, by, **body)
        self.settle()
        answer = self.ledger.answer(number)
        assert answer is not None
        return answer

    def submit(self, account: str = "a", gpus: int = 8, *, by: str = "ann", **spec: Any) -> str:
        """Submit a job that must be taken; its id."""
        answer = self.ask("submit", by=by, spec=self.spec(account, gpus, **spec))
        assert answer.ok, answer.body
        return str(answer.body["job"])

    def spec(self, account: str = "a", gpus: int = 8, **spec: Any) -> dict[str, Any]:
        runtime, fails = spec.pop("runtime", 3600), spec.pop("fails", False)
        env = {"RUNTIME": str(runtime)} | ({"FAILS": "1"} if fails else {})
        return {"account": account, "gpus": gpus, "command": ["true"], "env": env} | spec

    # --- looking --------------------------------------------------------------------------------------------

    @property
    def view(self) -> View:
        view = self.daemon.view()
        assert view is not None
        return view

    def phase(self, job: str) -> Phase:
        row = self.view.row_of(job)
        if row < 0:
            return Phase.ENDED
        return Phase(int(self.view.board.stays["phase"][row]))

    def end(self, job: str) -> str:
        row = self.ledger.job(job)
        assert row is not None
        return row.end

    def lines(self, *events: str) -> list[dict[str, Any]]:
        told = [json.loads(line) for line in self.ledger.story_lines()][1:]
        return [line for line in told if not events or line["event"] in events]
