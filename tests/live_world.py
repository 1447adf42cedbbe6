"""A scenario lived: the live loop on a cluster in memory, on a chosen clock, over a real record."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import structlog

from tenure.core.words import NEVER_S, NONE, Kind, NodeState
from tenure.daemon.run import Daemon
from tenure.engines.fake import Behaviour, ChosenClock, FakeCluster
from tenure.ledger.ledger import Ledger, open_ledger
from tenure.ledger.records import Asked
from tenure.simulator.scenario import build_world, load_scenario
from tenure.simulator.simulate import play
from tenure.simulator.world import Names, What, World
from tenure.story.jsonl import write_story

START = 1_767_571_200.0  #: a Monday
ASKING = {What.CANCEL: "cancel", What.HOLD: "hold", What.RELEASE: "release"}
QUIET = structlog.wrap_logger(None, processors=[lambda *_: (_ for _ in ()).throw(structlog.DropEvent)])


@dataclass
class Life:
    """A scenario under way. `check`: called after each turn with (life, turn taken)."""

    source: Any
    folder: Path
    check: Callable[[Life], None] | None = None
    until_s: int | None = None
    keyframe_every: int = 7
    t: int = 0
    turns: int = 0
    names: Names = field(init=False)
    world: World = field(init=False)

    def __post_init__(self) -> None:
        self.scenario = load_scenario(self.source)
        self.world, self.names = build_world(self.scenario)
        assert not len(self.world.streams)
        _, self.policy = self.scenario.policy("budget")
        self.until_s = self.scenario.until_s if self.until_s is None else self.until_s
        self.clock = ChosenClock(START)
        lab = self.scenario.lab
        self.engine = FakeCluster(
            {node.name: node.gpus for node in lab.nodes}, self.clock, behave=self._behave
        )
        self.ledger = self.open()
        self.daemon = self.wake_up()

    def open(self) -> Ledger:
        return open_ledger(self.folder / "record.sqlite")

    def wake_up(self) -> Daemon:
        """A server that starts anew, over the same record and the same cluster, which forgets the old one."""
        self.engine._wakes.clear()
        return Daemon(
            self.scenario.lab,
            self.ledger,
            self.engine,
            self.clock,
            name="tested",
            policy=self.policy,
            keyframe_every=self.keyframe_every,
            log=QUIET,
        )

    def _behave(self, job: str, attempt: int, start: Any) -> Behaviour:
        row = int(job) - 1
        asked, hidden = self.world.jobs[row], self.world.hidden[row]
        return Behaviour(
            runtime_s=int(hidden["work_s"]),
            checkpoint_every_s=int(asked["save_every_s"]),
            saves_when_asked=bool(asked["saves_when_asked"]),
            restart_s=int(asked["restart_s"]),
            fails=bool(hidden["fails"]),
            resumable=bool(asked["resumable"]),
        )

    # --- what happens, and when ---------------------------------------------------------------------------

    def spec(self, row: int) -> dict[str, Any]:
        """What is submitted for a row of the world."""
        job, lab = self.world.jobs[row], self.scenario.lab
        account = self.names.accounts[int(job["account"])]
        path = account.path if account.own_leaf_of is None else self.names.accounts[account.own_leaf_of].path
        spec: dict[str, Any] = {
            "account": path,
            "gpus": int(job["gpus"]),
            "min_runtime": int(job["min_runtime_s"]),
            "resumable": bool(job["resumable"]),
            "priority": int(job["priority"]),
            "kind": Kind(int(job["kind"])).name.lower(),
            "clusters": [name for c, name in enumerate(lab.clusters) if int(job["clusters"]) >> c & 1],
            "same_rack": bool(job["same_rack"]),
            "checkpoint_every": int(job["save_every_s"]),
            "restart": int(job["restart_s"]),
            "saves_when_asked": bool(job["saves_when_asked"]),
            "command": ["true"],
        }
        if job["max_runtime_s"] < NEVER_S:
            spec["max_runtime"] = int(job["max_runtime_s"])
        if job["gpu_type"] != NONE:
            spec["gpu"] = self.names.gpu_types[int(job["gpu_type"])]
        return spec

    def coming(self) -> list[tuple[int, int, list[Asked]]]:
        """(second, order, what is asked) of all that people and fate do, in order."""
        found: list[tuple[int, int, list[Asked]]] = []
        world, lab = self.world, self.scenario.lab
        for row in world.happenings:
            t, what, subject = int(row["t"]), int(row["what"]), int(row["row"])
            note = dict(self.names.notes[int(row["note"])]) if row["note"] != NONE else {}
            by = note.pop("by", "")
            if what == What.NODE:
                state = NodeState(int(row["value"]))
                name = lab.nodes[subject].name
                asked = Asked(by, "node", name, note | {"state": state.name.lower()}, 0)
                found.append((t, 0, [asked]))
            elif what == What.CLOSE:
                body = note | {"at_t": int(row["value"]) if row["value"] < NEVER_S else None}
                found.append((t, 0, [Asked(by, "close", lab.nodes[subject].name, body, 0)]))
            elif what in ASKING:
                there = world.hidden["arrive_s"][subject] < t or (
                    world.hidden["arrive_s"][subject] == t and self._was_there(subject, t)
                )
                found.append((t, 0, [Asked(by, ASKING[what], str(subject + 1) if there else "?", note, 0)]))
        for event in self.scenario.written.events:
            if event.account is not None:
                body = {"share": (event.share or 0) / 1_000_000, "reason": event.reason}
                body |= {"cluster": event.cluster} if event.cluster else {}
                found.append((event.at, 1, [Asked(event.by or "", "share", event.account, body, 0)]))
        for row in range(len(world.jobs)):
            asked = Asked("ann", "submit", "", {"spec": self.spec(row)}, 0)
            found.append((int(world.hidden["arrive_s"][row]), 2, [asked]))
        return sorted(found, key=lambda one: one[:2])

    def _was_there(self, row: int, t: int) -> bool:
        return False

    def _strike(self, asked: Asked, coming: list[tuple[int, int, list[Asked]]], t: int) -> None:
        """The cluster feels what happens to a node, too."""
        if asked.verb != "node" or asked.body["state"] != "down":
            return
        back = [
            at
            for at, _, (one,) in coming
            if at > t and one.verb == "node" and one.subject == asked.subject and one.body["state"] == "up"
        ]
        self.engine.happen("node_down", asked.subject, float(min(back, default=10**9) - t))

    # --- living it ------------------------------------------------------------------------------------------

    def instants(self) -> Iterator[int]:
        """Goes to each instant at which something happens, or a turn is due, and lets it happen."""
        coming = self.coming()
        all_of_it = list(coming)
        self.settle()
        while True:
            change = self.engine.next_change()
            view = self.daemon.view()
            assert view is not None, self.daemon.health()
            due = [view.next_t] if view.next_t < NEVER_S else []
            due += [int(np.ceil(change - START))] if change is not None else []
            due += [coming[0][0]] if coming else []
            if not due or min(due) > self.until_s:
                return
            self.t = min(due)
            self.clock.set(START + self.t)
            while coming and coming[0][0] == self.t:
                _, _, asked = coming.pop(0)
                for one in asked:
                    self._strike(one, all_of_it, self.t)
                self.ledger.ask(asked)
            self.settle()
            yield self.t

    def settle(self) -> None:
        """Turns until this instant has nothing more to say."""
        for _ in range(50):
            view = self.daemon.view()
            if not self.daemon.turn_now() and (view is None or self.daemon.view().turn == view.turn):
                return
            self.turns += 1
            if self.check is not None:
                self.check(self)
        raise AssertionError(f"no rest at second {self.t}")

    def live(self) -> Life:
        for _ in self.instants():
            pass
        return self

    def story(self) -> list[dict[str, Any]]:
        """What the record tells, jobs by the world's names."""
        lines = [json.loads(line) for line in self.ledger.story_lines()][1:]
        return [self._renamed(line) for line in lines]

    def _renamed(self, line: dict[str, Any]) -> dict[str, Any]:
        line.pop("n")
        for key in ("job", "by"):
            value = line.get(key)
            if isinstance(value, str) and value.isdigit():
                line[key] = str(self.names.jobs[int(value) - 1])
        return line


def played_story(source: Any, until_s: int | None = None) -> list[dict[str, Any]]:
    """What the simulator tells of the same scenario."""
    scenario = load_scenario(source)
    world, names = build_world(scenario)
    rule, knobs = scenario.policy("budget")
    until_s = scenario.until_s if until_s is None else until_s
    out = io.StringIO()
    write_story(play(world, names, knobs, rule=rule, until_s=until_s).story, out)
    lines = [json.loads(line) for line in out.getvalue().splitlines()][1:]
    for line in lines:
        line.pop("n")
    return lines


def first_difference(lived: list[Mapping[str, Any]], played: list[Mapping[str, Any]]) -> str:
    """Where two stories part; "" where they are the same."""
    for k, (one, other) in enumerate(zip(lived, played)):
        if one != other:
            return f"line {k}:\n lived  {one}\n played {other}\n after  {played[max(0, k - 3) : k]}"
    if len(lived) != len(played):
        more = lived[len(played) :] or played[len(lived) :]
        return f"{len(lived)} lines lived, {len(played)} played: {more[:3]}"
    return ""
