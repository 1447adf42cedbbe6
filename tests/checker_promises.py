"""Promises to gangs (S17), places cleared for a taker (S13, S14) and who may take from whom (S12)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from checker_facts import Attempt, Job

if TYPE_CHECKING:
    from checker import Checker


@dataclass
class Promise:
    at_s: int
    made_s: int
    excused: bool = False  #: a node failed, was drained or told to close since, or a person put it on hold
    later: set[str] = field(default_factory=set)  #: jobs that started since


@dataclass
class Taking:
    """Stops for one taker that it has not answered by a start yet."""

    deadline_s: int = 0
    line: Mapping[str, Any] = field(default_factory=dict)
    victims: list[tuple[str, set[str], bool]] = field(default_factory=list)  #: id, nodes, anywhere
    freed: dict[str, int] = field(default_factory=dict)  #: node -> GPUs free for the taker
    place: set[str] | None = None  #: its nodes, where told (a gang that is stopped may hold more)
    excused: bool = False


class Promises:
    def __init__(self, checker: Checker) -> None:
        self.checker = checker
        self.open: dict[str, Promise] = {}
        self.ever: set[str] = set()
        self.takings: dict[str, Taking] = {}

    def says(self, line: Mapping[str, Any], rule: str, what: str) -> None:
        self.checker.says(line, rule, what)

    # --- promises -------------------------------------------------------------------------------------

    def planned(self, line: Mapping[str, Any], job: Job) -> None:
        facts, t, at_s = self.checker.facts, line["t"], line["at_s"]
        if job.phase != "waiting" or job.held:
            self.says(line, "S17", f"{job.id} is promised a start while {'held' if job.held else job.phase}")
        if at_s < t:
            self.says(line, "S17", f"{job.id} is promised a start in the past, at {at_s}")
        furthest_s = t + facts.max_protected_s + facts.grace_budgeted_s + facts.tick_s
        if at_s > furthest_s:
            self.says(line, "S17", f"{job.id} is promised {at_s}, later than all protections ({furthest_s})")
        old = self.open.get(job.id)
        if old and at_s > old.at_s and not old.excused:
            self.says(line, "S17", f"the promise to {job.id} moves from {old.at_s} to {at_s}, no node failed")
        self.open[job.id] = Promise(at_s, t)
        self.ever.add(job.id)

    def before(self, line: Mapping[str, Any], t: int) -> None:
        facts = self.checker.facts
        for job, promise in list(self.open.items()):
            latest_s = promise.at_s + facts.grace_budgeted_s + facts.tick_s
            if latest_s < t and not promise.excused:
                promise.excused = True  # told once
                self.says(line, "S17", f"{job} was promised {promise.at_s} and has not started by {latest_s}")
        for taker, taking in list(self.takings.items()):
            if taking.deadline_s < t:
                if not taking.excused:
                    who = [victim for victim, _, _ in taking.victims]
                    self.says(taking.line, "S14", f"{who} stopped for {taker}, which has not started by {t}")
                del self.takings[taker]

    def node_changed(self, line: Mapping[str, Any]) -> None:
        if line["state"] == "up" and line.get("closed_from_s") is None:
            return
        for promise in self.open.values():
            promise.excused = True
        for taking in self.takings.values():
            taking.excused = True
            taking.freed.clear()

    def left(self, job: Job) -> None:
        """The job was cancelled, or a person put it on hold: what was kept for it is free."""
        self.open.pop(job.id, None)
        self.takings.pop(job.id, None)

    def other(self, line: Mapping[str, Any]) -> None:
        """`claimed`: the nodes a place is cleared on; `unclaimed`: the hold ended without a start."""
        taking = self.takings.get(line.get("job", ""))
        if line.get("event") == "claimed" and taking is not None:
            taking.place = set(line["nodes"])
        elif line.get("event") == "unclaimed":
            self.takings.pop(line.get("job", ""), None)

    # --- takers ---------------------------------------------------------------------------------------

    def taken(self, line: Mapping[str, Any], victim: Job, attempt: Attempt) -> None:
        """An attempt is told to stop so that `by` may start."""
        taker = self.checker.jobs.get(str(line["by"]))
        if taker is None or taker is victim:
            self.says(line, "S22", f"{victim.id} is stopped for {line['by']!r}, which is no other job")
            return
        if line["rule"] is None or line["mine"] is None or line["theirs"] is None:
            self.says(line, "S22", f"the stop of {victim.id} names no rule or not both ratios")
        if taker.phase != "waiting" or taker.held:
            self.says(line, "S13", f"{victim.id} is stopped for {taker.id}, which is {taker.phase}")
            return
        if not taker.min_runtime_s:
            self.says(line, "S12", f"{victim.id} is stopped for {taker.id}, which is unbudgeted")
        facts = self.checker.facts
        lane = not facts.quotas  # that policy has no quick lane
        if lane and taker.quick and victim.quick and line["t"] < attempt.t + facts.max_protected_s:
            self.says(line, "S12", f"quick {victim.id} is stopped for quick {taker.id}")
        if taker.account == victim.account and victim.min_runtime_s:
            if taker.id not in self.ever:
                self.says(
                    line, "S12", f"{victim.id} is stopped for {taker.id} of its own account, not planned"
                )
            elif victim.gpus >= taker.gpus and (line["rule"] == "over_limit" or not self.lent(taker, victim)):
                self.says(line, "S12", f"{victim.id} is as large as {taker.id}, the gang of its own account")
        taking = self.takings.setdefault(taker.id, Taking())
        facts = self.checker.facts
        taking.deadline_s = max(taking.deadline_s, line["grace_until_s"] + facts.hold_s + facts.tick_s)
        taking.line = line
        own_limit = str(line["rule"]) == "over_limit"  # frees the limit, not a place
        taking.victims.append((victim.id, set(attempt.nodes), own_limit))

    def lent(self, taker: Job, victim: Job) -> bool:
        """It started on nodes promised already, to be there until the gang's date (S17)."""
        promise = self.open.get(taker.id)
        return promise is not None and victim.id in promise.later

    def freed(self, line: Mapping[str, Any], victim: Job, attempt: Attempt) -> None:
        stopping = attempt.stopping
        if not stopping or stopping["cause"] != "preempted" or str(stopping["rule"]) == "over_limit":
            return
        taking = self.takings.get(str(stopping["by"]))
        if taking is not None and not taking.excused:
            for node, gpus in attempt.nodes.items():
                taking.freed[node] = taking.freed.get(node, 0) + gpus

    def started(self, line: Mapping[str, Any], job: Job) -> None:
        self.open.pop(job.id, None)
        for promise in self.open.values():
            promise.later.add(job.id)
        taking = self.takings.pop(job.id, None)
        if taking and self.checker.facts.quotas and line["protected_until_s"] is not None:
            self.says(line, "S12", f"others were stopped for {job.id}, which starts beyond its quota")
        if taking and not taking.excused:
            for victim, nodes, anywhere in taking.victims:
                if not anywhere and not nodes & set(line["nodes"]):
                    self.says(line, "S13", f"{victim} was stopped for {job.id}, which starts elsewhere")
        for taker, other in self.takings.items():
            self.kept(line, job, taker, other)

    def kept(self, line: Mapping[str, Any], job: Job, taker: str, taking: Taking) -> None:
        """S14: nobody else starts on GPUs freed for a taker."""
        checker = self.checker
        most = checker.jobs[taker].gpus
        for node, gpus in line["nodes"].items():
            if node not in checker.facts.nodes or (taking.place is not None and node not in taking.place):
                continue
            free = checker.facts.nodes[node].gpus - checker.used[node]
            kept = min(taking.freed.get(node, 0), most)
            if gpus > free - kept:
                self.says(line, "S14", f"{job.id} starts on {node}, where {kept} GPUs are kept for {taker}")
