"""The audit once more, tick by tick, in the plainest way: what the fast one must agree with.

Walks a story from its first second to its last in steps of `tick_s` (every instant of the story must be
a multiple of it) and looks at every job and node each time.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor
from typing import Any

from tenure.core.words import End, Happened, Kind, NodeState
from tenure.story.columns import Story

UGPU = 1_000_000
Totals = dict[tuple[Any, ...], int]


@dataclass
class NaiveJob:
    row: int
    account: int
    gpus: int
    budgeted: bool
    may_run: list[int]
    phase: str = "absent"
    held: bool = False
    cluster: int = -1
    nodes: dict[int, int] = field(default_factory=dict)
    protected_until_s: int = 0
    stopping: bool = False
    last_end: int = 0
    since_s: int = 0
    first_start_s: int | None = None
    submit_s: int = 0
    gang: bool = False


class NaiveAudit:
    """After `walk()`: `sums[(what, hour, cluster, account)]` and the lists of waits."""

    def __init__(self, story: Story, tick_s: int) -> None:
        self.story, self.tick_s = story, tick_s
        self.sums: Totals = defaultdict(int)
        self.jobs = [self._job(row) for row in range(len(story.jobs))]
        self.state = [NodeState.UP] * len(story.nodes)
        self.shares = [list(a.shares) for a in story.accounts]
        self.waits: list[tuple[int, int]] = []
        self.preempted: dict[int, int] = defaultdict(int)
        self.lost_gpu_s = 0
        self.children: dict[int, list[int]] = defaultdict(list)
        for row, account in enumerate(story.accounts):
            self.children[account.parent].append(row)
        self.leaves = [row for row in range(1, len(story.accounts)) if not self.children[row]]

    def _job(self, row: int) -> NaiveJob:
        story, job = self.story, self.story.jobs[row]
        gpus, may = int(job["gpus"]), []
        for cluster in range(len(story.clusters)):
            sizes = [n.gpus for n in story.nodes if n.cluster == cluster]
            alone = any(size >= gpus for size in sizes)
            gang = any(gpus % size == 0 and sizes.count(size) * size >= gpus for size in sizes)
            allowed = job["clusters"] == 0 or int(job["clusters"]) & (1 << cluster)
            if allowed and (alone or gang):
                may.append(cluster)
        gang_sized = gpus > max(n.gpus for n in story.nodes)
        budgeted = bool(job["min_runtime_s"] > 0)
        return NaiveJob(row, int(job["account"]), gpus, budgeted, may, gang=gang_sized)

    # --- what happens -------------------------------------------------------------------------------
    def _apply(self, event: Any) -> None:
        kind, t = Happened(event["event"]), int(event["t"])
        measured = t >= self.story.warmup_s
        if kind == Happened.NODE:
            self.state[event["by"]] = NodeState(event["code"])
        elif kind == Happened.SHARE:
            note = self.story.notes[event["y"]]
            row = next(r for r, a in enumerate(self.story.accounts) if a.path == note["account"])
            self.shares[row] = [round(note["new"] * UGPU)] * len(self.story.clusters)
        if event["job"] < 0:
            return
        job = self.jobs[event["job"]]
        if kind == Happened.SUBMITTED:
            job.phase, job.since_s, job.submit_s = "waiting", t, t
        elif kind == Happened.REQUEUED:
            job.phase, job.since_s = "waiting", t
        elif kind == Happened.STARTED:
            job.phase, job.cluster, job.stopping = "running", int(event["code"]), False
            job.protected_until_s = int(event["x"])
            rows = self.story.placements[event["nodes_at"] : event["nodes_at"] + event["n_nodes"]]
            job.nodes = {int(p["node"]): int(p["gpus"]) for p in rows}
            job.gang = len(job.nodes) > 1 if job.first_start_s is None else job.gang or len(job.nodes) > 1
            if job.first_start_s is None:
                job.first_start_s = t
            if measured:
                self.waits.append((job.row, t - job.since_s))
        elif kind == Happened.STOPPING:
            job.stopping = True
        elif kind == Happened.STOPPED:
            job.phase, job.nodes, job.last_end = "gone", {}, int(event["code"])
            if measured:
                self.lost_gpu_s += int(event["y"])
                self.preempted[job.row] += event["code"] == End.PREEMPTED
        elif kind == Happened.CANCELLED:
            job.phase = "gone"
        elif kind in (Happened.HELD, Happened.RELEASED):
            job.held = kind == Happened.HELD

    # --- what is so ---------------------------------------------------------------------------------
    def path_share(self, account: int, cluster: int) -> Fraction:
        share = Fraction(1)
        while account > 0:
            share *= Fraction(self.shares[account][cluster], UGPU)
            account = self.story.accounts[account].parent
        return share

    def below(self, account: int) -> set[int]:
        found = {account}
        for child in self.children[account]:
            found |= self.below(child)
        return found

    def down(self, cluster: int) -> int:
        total = 0
        for row, node in enumerate(self.story.nodes):
            held = sum(job.nodes.get(row, 0) for job in self.jobs)
            if node.cluster == cluster and self.state[row] == NodeState.DOWN:
                total += node.gpus - held
            elif node.cluster == cluster and self.state[row] != NodeState.UP and held == 0:
                total += node.gpus
        return total

    def held(self, account: int, cluster: int) -> int:
        rows = self.below(account)
        running = (j for j in self.jobs if j.phase == "running" and j.budgeted)
        return sum(j.gpus for j in running if j.account in rows and j.cluster == cluster)

    def room(self, account: int) -> int:
        room = 10**9
        while account >= 0:
            limit = self.story.accounts[account].max_gpus
            if limit is not None:
                held = sum(self.held(account, c) for c in range(len(self.story.clusters)))
                room = min(room, max(0, limit - held))
            account = self.story.accounts[account].parent
        return room

    def leaf_demand(self, account: int, entitled: list[int]) -> list[int]:
        """Micro-GPUs by cluster."""
        n = len(self.story.clusters)
        demand = [self.held(account, c) * UGPU for c in range(n)]
        room = self.room(account) * UGPU
        asking = [
            j
            for j in self.jobs
            if j.phase == "waiting" and j.budgeted and not j.held and j.account == account
        ]
        for c in range(n):
            wants = sum(j.gpus for j in asking if j.may_run == [c]) * UGPU
            demand[c] += min(wants, room)
            room -= min(wants, room)
        choices = sorted(
            {tuple(j.may_run) for j in asking if len(j.may_run) > 1}, key=lambda m: (len(m), bits(m))
        )
        for choice in choices:
            wants = min(room, sum(j.gpus for j in asking if tuple(j.may_run) == choice) * UGPU)
            room -= wants
            for c in sorted(choice, key=lambda c: -max(0, entitled[c] - demand[c])):
                take = min(wants, max(0, entitled[c] - demand[c]))
                demand[c] += take
                wants -= take
            demand[choice[0]] += wants
        return demand

    def demands(self, entitled: list[list[int]]) -> list[list[int]]:
        """Micro-GPUs by account and cluster."""
        accounts, n = self.story.accounts, len(self.story.clusters)
        demand = [[0] * n for _ in accounts]
        for row in reversed(range(len(accounts))):
            if row in self.leaves:
                demand[row] = self.leaf_demand(row, entitled[row])
                continue
            demand[row] = [sum(demand[child][c] for child in self.children[row]) for c in range(n)]
            if accounts[row].max_gpus is not None:
                room = self.room(row) * UGPU
                for c in range(n):
                    held = self.held(row, c) * UGPU
                    beyond = min(room, demand[row][c] - held)
                    demand[row][c], room = held + beyond, room - beyond
        return demand

    def _tick(self, t: int) -> None:
        hour, n = t // 3600, len(self.story.clusters)
        rows = range(len(self.story.accounts))
        down = [self.down(c) for c in range(n)]
        capacity = [sum(node.gpus for node in self.story.nodes if node.cluster == c) for c in range(n)]
        entitled = [
            [floor(self.path_share(a, c) * (capacity[c] - down[c]) * UGPU) for c in range(n)] for a in rows
        ]
        demand = self.demands(entitled)
        for c in range(n):
            free = sum(
                j.gpus for j in self.jobs if j.phase == "running" and not j.budgeted and j.cluster == c
            )
            self.sums["down", hour, c] += down[c] * self.tick_s
            self.sums["unbudgeted", hour, c] += free * self.tick_s
            self.sums["capacity", hour, c] += capacity[c] * self.tick_s
            for a in rows:
                self.sums["entitled", hour, c, a] += entitled[a][c] * self.tick_s
                self.sums["demand", hour, c, a] += demand[a][c] * self.tick_s
                self.sums["held", hour, c, a] += self.held(a, c) * self.tick_s

    def walk(self) -> NaiveAudit:
        events = list(self.story.events)
        for t in range(0, self.story.until_s, self.tick_s):
            while events and events[0]["t"] <= t:
                self._apply(events.pop(0))
            if t >= self.story.warmup_s:
                self._tick(t)
        for event in events:
            self._apply(event)
        return self

    # --- what is told -------------------------------------------------------------------------------
    def groups(self, job: NaiveJob) -> set[str]:
        row = self.story.jobs[job.row]
        found = {"all", "budgeted" if job.budgeted else "unbudgeted"}
        if 0 < row["min_runtime_s"] <= 900 and job.gpus <= 8:
            found.add("debug")
        if job.gang:
            found.add("gang")
        if row["kind"] == Kind.SESSION:
            found.add("session")
        return found

    def first_waits(self) -> list[tuple[int, int]]:
        found = []
        for job in self.jobs:
            if job.submit_s < self.story.warmup_s:
                continue
            if job.first_start_s is not None:
                found.append((job.row, job.first_start_s - job.submit_s))
            elif job.phase == "waiting" and not job.held and self.story.until_s - job.submit_s > 29_160:
                found.append((job.row, self.story.until_s - job.submit_s))
        return found


def bits(choice: tuple[int, ...]) -> int:
    return sum(1 << c for c in choice)


def nearest_rank(values: list[int], percent: int) -> int:
    """The smallest value that at least so many in a hundred do not exceed."""
    ordered = sorted(values)
    return next(v for v in ordered if sum(w <= v for w in values) * 100 >= percent * len(values))
