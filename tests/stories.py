"""Stories written by hand, and random stories that break no rule of bookkeeping.

`Teller` tells a story line by line; `random_story(seed)` plays a careless scheduler over a small cluster:
no GPU is held twice, attempts are numbered, what a dead node carried ends with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tenure.core.board import EVENT, PLACEMENT
from tenure.core.tables import empty
from tenure.core.words import NEVER_S, NONE, Cause, End, Happened, Kind, NodeState, Reason, Rule
from tenure.story.columns import STORY_JOB, Story, StoryAccount, StoryNode

WHOLE = 1_000_000
HOUR_S = 3600


def account_rows(shares: Mapping[str, float], limits: Mapping[str, int]) -> list[StoryAccount]:
    """Rows of a tree from {path: share of the parent's}; parents are named before their children."""
    rows = [StoryAccount(path="", parent=NONE, shares=(WHOLE,))]
    row_of = {"": 0}
    for path, share in shares.items():
        parent = row_of[path.rpartition("/")[0]]
        row_of[path] = len(rows)
        rows.append(StoryAccount(path, parent, (round(share * WHOLE),), limits.get(path)))
    return rows


class Teller:
    """Tells a story. Every method takes the instant first; instants may come in any order."""

    def __init__(
        self,
        accounts: Mapping[str, float] | Sequence[StoryAccount],
        *,
        nodes: Sequence[int] | Mapping[str, Sequence[int]] = (8,),
        limits: Mapping[str, int] | None = None,
        warmup_s: int = 0,
        until_s: int = 4 * HOUR_S,
    ) -> None:
        by_cluster = dict(nodes) if isinstance(nodes, Mapping) else {"jupiter": nodes}
        self.clusters = list(by_cluster)
        self.nodes = [
            StoryNode(f"{name}-{i:04d}", c, gpus, rack=c)
            for c, name in enumerate(self.clusters)
            for i, gpus in enumerate(by_cluster[name])
        ]
        if isinstance(accounts, Mapping):
            rows = account_rows(accounts, limits or {})
            width = len(self.clusters)
            accounts = [StoryAccount(a.path, a.parent, a.shares * width, a.max_gpus) for a in rows]
        self.accounts = list(accounts)
        self.warmup_s, self.until_s = warmup_s, until_s
        self.jobs: dict[str, dict[str, Any]] = {}
        self.attempt: dict[str, int] = {}
        self.events: list[dict[str, Any]] = []
        self.placements: list[tuple[int, int]] = []
        self.notes: list[dict[str, Any]] = []
        self.price: tuple[float | None, ...] = ()

    # --- rows -------------------------------------------------------------------------------------
    def _event(self, t: int, happened: Happened, job: str | None = None, **fields: Any) -> None:
        self.events.append({"t": t, "event": happened, "job": job, **fields})

    def _note(self, **words: Any) -> int:
        self.notes.append({key: value for key, value in words.items() if value is not None})
        return len(self.notes) - 1

    def _node_row(self, name: str) -> int:
        return next(row for row, node in enumerate(self.nodes) if node.name == name)

    def _account_row(self, path: str) -> int:
        for row, account in enumerate(self.accounts):
            if account.own_leaf_of is not None and self.accounts[account.own_leaf_of].path == path:
                return row
        return next(row for row, account in enumerate(self.accounts) if account.path == path)

    # --- what can happen --------------------------------------------------------------------------
    def submit(
        self,
        t: int,
        job: str,
        account: str,
        gpus: int,
        min_runtime_s: int = HOUR_S,
        **more: Any,
    ) -> None:
        """`more`: kind, resumable, clusters (bits)."""
        self.jobs[job] = {
            "submit_s": t,
            "account": self._account_row(account),
            "gpus": gpus,
            "min_runtime_s": min_runtime_s,
            "resumable": True,
            **more,
        }
        self._event(t, Happened.SUBMITTED, job)

    def start(self, t: int, job: str, nodes: Mapping[str, int] | None = None, **fields: Any) -> None:
        """`nodes` {name: gpus}; by default the first node."""
        attempt = self.attempt[job] = self.attempt.get(job, 0) + 1
        where = nodes or {self.nodes[0].name: self.jobs[job]["gpus"]}
        at = len(self.placements)
        self.placements += [(self._node_row(name), gpus) for name, gpus in where.items()]
        cluster = self.nodes[self.placements[at][0]].cluster
        minimum_s = min(self.jobs[job]["min_runtime_s"], 8 * HOUR_S)
        protected_until_s = fields.pop("protected_until_s", t + minimum_s)
        self._event(
            t,
            Happened.STARTED,
            job,
            attempt=attempt,
            code=cluster,
            rule=fields.pop("rule", Rule.OWED),
            x=protected_until_s,
            nodes_at=at,
            n_nodes=len(where),
            **fields,
        )

    def stopping(self, t: int, job: str, grace_until_s: int, **fields: Any) -> None:
        """`fields`: cause, rule, by (a job), mine_ppm, theirs_ppm."""
        ratios = (fields.pop("mine_ppm", 0) << 32) | fields.pop("theirs_ppm", 0)
        self._event(
            t,
            Happened.STOPPING,
            job,
            attempt=self.attempt[job],
            x=grace_until_s,
            y=ratios,
            code=fields.pop("cause", Cause.PREEMPTED),
            rule=fields.pop("rule", Rule.ABOVE_TARGET),
            **fields,
        )

    def stop(self, t: int, job: str, end: End = End.FINISHED, *, lost_gpu_s: int = 0) -> None:
        start_s = max(e["t"] for e in self.events if e["job"] == job and e["event"] == Happened.STARTED)
        held_gpu_s = (t - start_s) * self.jobs[job]["gpus"]
        self._event(t, Happened.STOPPED, job, attempt=self.attempt[job], code=end, x=held_gpu_s, y=lost_gpu_s)

    def requeue(self, t: int, job: str) -> None:
        self._event(t, Happened.REQUEUED, job, attempt=self.attempt[job])

    def plan(self, t: int, job: str, at_s: int) -> None:
        self._event(t, Happened.PLANNED, job, x=at_s)

    def unplan(self, t: int, job: str) -> None:
        self._event(t, Happened.UNPLANNED, job)

    def claim(self, t: int, job: str, nodes: Mapping[str, int]) -> None:
        at = len(self.placements)
        self.placements += [(self._node_row(name), gpus) for name, gpus in nodes.items()]
        self._event(t, Happened.CLAIMED, job, x=sum(nodes.values()), nodes_at=at, n_nodes=len(nodes))

    def unclaim(self, t: int, job: str) -> None:
        self._event(t, Happened.UNCLAIMED, job)

    def head(self, t: int, job: str) -> None:
        self._event(t, Happened.FIRST_AT_HEAD, job)

    def notice(self, t: int, job: str, interruptible_at_s: int, by: str | None = None) -> None:
        self._event(t, Happened.NOTICE, job, attempt=self.attempt[job], x=interruptible_at_s, by=by)

    def waiting(self, t: int, job: str, reason: Reason, need: int = 0, have: int = 0) -> None:
        self._event(t, Happened.WAITING, job, rule=reason, x=need, y=have)

    def cancel(self, t: int, job: str, by: str | None = None, reason: str | None = None) -> None:
        self._event(t, Happened.CANCELLED, job, y=self._note(by=by, reason=reason))

    def hold(self, t: int, job: str, by: str = "pia", reason: str = "later") -> None:
        self._event(t, Happened.HELD, job, y=self._note(by=by, reason=reason))

    def release(self, t: int, job: str, by: str = "pia", reason: str = "now") -> None:
        self._event(t, Happened.RELEASED, job, y=self._note(by=by, reason=reason))

    def node(self, t: int, name: str, state: NodeState, reason: str | None = None) -> None:
        note = NONE if reason is None else self._note(reason=reason)
        self._event(t, Happened.NODE, None, by=self._node_row(name), code=state, y=note)

    def share(self, t: int, account: str, old: float, new: float, **words: Any) -> None:
        note = self._note(account=account, old=old, new=new, by=words.pop("by", "pia"), **words)
        self._event(t, Happened.SHARE, None, y=note)

    def utilisation(self, t: int, job: str, part: float) -> None:
        self._event(t, Happened.UTILISATION, job, attempt=self.attempt[job], x=round(part * WHOLE))

    # --- the whole --------------------------------------------------------------------------------
    def story(self) -> Story:
        """All rows in time order; jobs, placements and notes in the order the lines speak of them."""
        lines = sorted(self.events, key=lambda e: e["t"])  # stable: told order within an instant
        names = list(dict.fromkeys(e["job"] for e in lines if e["job"] is not None))
        job_row = {name: row for row, name in enumerate(names)}
        jobs = empty(len(names), STORY_JOB)
        for name, row in job_row.items():
            for field, value in self.jobs[name].items():
                jobs[field][row] = value
        events = empty(len(lines) + 1, EVENT, job=NONE, by=NONE)
        placements: list[tuple[int, int]] = []
        notes: list[dict[str, Any]] = []
        for row, line in enumerate(lines, start=1):
            fields = dict(line)
            fields["job"] = NONE if line["job"] is None else job_row[line["job"]]
            if isinstance(line.get("by"), str):
                fields["by"] = job_row[line["by"]]
            if line.get("n_nodes"):
                fields["nodes_at"] = len(placements)
                placements += self.placements[line["nodes_at"] : line["nodes_at"] + line["n_nodes"]]
            if line["event"] in NOTED and line["y"] != NONE:
                note = self.notes[line["y"]]
                fields["y"] = len(notes) if note else NONE
                notes += [note] if note else []
            for field, value in fields.items():
                events[field][row] = NONE if value is None else value
        return Story(
            lab="hand",
            policy={"name": "hand", "max_protected_s": 8 * HOUR_S},
            seed=1,
            warmup_s=self.warmup_s,
            until_s=self.until_s,
            clusters=self.clusters,
            nodes=self.nodes,
            accounts=self.accounts,
            job_ids=names,
            jobs=jobs,
            events=events,
            placements=np.array(placements, PLACEMENT),
            notes=notes,
            prices=self.price,
        )


NOTED = (Happened.CANCELLED, Happened.HELD, Happened.RELEASED, Happened.NODE, Happened.SHARE)


class _Play:
    """A careless scheduler: starts what fits, stops what it likes, so long as the books balance."""

    def __init__(self, teller: Teller, rng: np.random.Generator, grid_s: int) -> None:
        self.tell, self.rng, self.grid_s = teller, rng, grid_s
        self.free = {node.name: node.gpus for node in teller.nodes}
        self.state = {node.name: NodeState.UP for node in teller.nodes}
        self.waiting: list[str] = []
        self.held: set[str] = set()
        self.running: dict[str, dict[str, int]] = {}
        self.until: dict[str, int] = {}  # when a job told to stop ends
        self.planned: set[str] = set()
        self.claimed: set[str] = set()
        self.shares = {a.path: a.shares[0] / WHOLE for a in teller.accounts if a.path}
        parents = {a.parent for a in teller.accounts}
        self.leaves = [a.path for row, a in enumerate(teller.accounts) if row not in parents]

    def pick(self, of: Sequence[Any]) -> Any:
        return of[int(self.rng.integers(len(of)))]

    def submit(self, t: int) -> None:
        sizes = [n.gpus for n in self.tell.nodes]
        gpus = int(self.pick([1, 1, 2, 3, max(sizes), 2 * min(sizes), max(sizes) * 1000]))
        name = f"j{len(self.tell.jobs)}"
        clusters = int(self.rng.integers(0, 2 ** len(self.tell.clusters) - 1))  # 0: on any
        kind = int(self.pick([Kind.BATCH, Kind.DEBUG, Kind.SESSION]))
        self.tell.submit(
            t,
            name,
            self.pick(self.leaves),
            gpus,
            int(self.pick([0, 300, 600, 3600, 9000])),
            kind=kind,
            resumable=bool(self.rng.integers(2)),
            clusters=clusters,
        )
        self.waiting.append(name)

    def place(self, job: str) -> dict[str, int] | None:
        row = self.tell.jobs[job]
        for c in self.rng.permutation(len(self.tell.clusters)):
            if row["clusters"] and not row["clusters"] >> int(c) & 1:
                continue
            here = [n for n in self.tell.nodes if n.cluster == c and self.state[n.name] == NodeState.UP]
            for node in here:
                if self.free[node.name] >= row["gpus"]:
                    return {node.name: row["gpus"]}
            for size in sorted({n.gpus for n in here}):
                whole = [n.name for n in here if n.gpus == size and self.free[n.name] == size]
                if row["gpus"] % size == 0 and 1 < row["gpus"] // size <= len(whole):
                    return dict.fromkeys(whole[: row["gpus"] // size], size)
        return None

    def start(self, t: int) -> None:
        for job in list(self.waiting):
            where = None if job in self.held else self.place(job)
            if where is None or self.rng.random() < 0.3:
                continue
            self.waiting.remove(job)
            self.planned.discard(job)
            self.claimed.discard(job)
            self.tell.start(t, job, where)
            self.running[job] = where
            for name, gpus in where.items():
                self.free[name] -= gpus

    def stop(self, t: int, job: str, end: End) -> None:
        for name, gpus in self.running.pop(job).items():
            self.free[name] += gpus
        self.until.pop(job, None)
        lost = int(self.rng.integers(0, 900)) if end in (End.PREEMPTED, End.NODE_FAILED) else 0
        self.tell.stop(t, job, end, lost_gpu_s=lost)
        if end in (End.PREEMPTED, End.NODE_FAILED) and self.tell.jobs[job]["resumable"]:
            self.tell.requeue(t, job)
            self.waiting.append(job)

    def leave(self, t: int) -> None:
        quiet = [job for job in self.running if job not in self.until]
        if not quiet:
            return
        job = self.pick(quiet)
        if self.rng.random() < 0.4:
            self.stop(t, job, self.pick([End.FINISHED, End.FINISHED, End.FAILED, End.TIMED_OUT]))
            return
        self.until[job] = t + int(self.pick([15, 120])) // self.grid_s * self.grid_s
        self.tell.stopping(
            t,
            job,
            self.until[job],
            by=self.waiting[0] if self.waiting else None,
            mine_ppm=int(self.rng.integers(2_000_000)),
            theirs_ppm=int(self.rng.integers(2_000_000)),
        )

    def node(self, t: int) -> None:
        name = self.pick(list(self.state))
        state = self.pick([NodeState.DOWN, NodeState.DRAINING, NodeState.UP, NodeState.UP, NodeState.TESTING])
        self.state[name] = state
        self.tell.node(t, name, state, self.pick([None, "xid 79"]))
        if state == NodeState.DOWN:
            for job in [job for job, where in self.running.items() if name in where]:
                self.stop(t, job, End.NODE_FAILED)

    def share(self, t: int) -> None:
        path = self.pick(list(self.shares))
        old, new = self.shares[path], round(self.shares[path] * float(self.rng.uniform(0.2, 1.0)), 4)
        self.shares[path] = new
        self.tell.share(t, path, old, new, reason="review")

    def wish(self, t: int) -> None:
        """Something about a waiting job: held, released, cancelled, promised, claimed."""
        if not self.waiting:
            return
        job = self.pick(self.waiting)
        if job in self.held:
            self.held.remove(job)
            self.tell.release(t, job)
        elif self.rng.random() < 0.3:
            self.held.add(job)
            self.tell.hold(t, job)
        elif job in self.planned:
            self.planned.remove(job)
            self.tell.unplan(t, job)
        elif job in self.claimed:
            self.claimed.remove(job)
            self.tell.unclaim(t, job)
        elif self.rng.random() < 0.4:
            self.planned.add(job)
            self.tell.head(t, job)
            self.tell.plan(t, job, t + 1800)
        elif self.rng.random() < 0.5:
            self.claimed.add(job)
            self.tell.claim(t, job, {self.tell.nodes[0].name: 1})
        elif self.rng.random() < 0.5:
            self.waiting.remove(job)
            self.tell.cancel(t, job, by="ann", reason=None)
        else:
            self.tell.waiting(t, job, Reason.SHAPE, 8, 4)

    def turn(self, t: int) -> None:
        for job in [job for job, at in self.until.items() if at <= t]:
            self.stop(t, job, self.pick([End.PREEMPTED, End.PREEMPTED, End.FINISHED]))
        does = self.rng.choice(6, p=[0.34, 0.3, 0.14, 0.14, 0.06, 0.02])
        if does == 0:
            self.submit(t)
        elif does == 1:
            self.start(t)
        else:
            (self.leave, self.wish, self.node, self.share)[does - 2](t)


def random_story(
    seed: int,
    *,
    turns: int = 60,
    until_s: int = 3 * HOUR_S,
    clusters: int = 1,
    limits: bool = False,
    grid_s: int = 1,
) -> Story:
    """A legal story of a few accounts and nodes in which everything happens; same seed, same story.

    All instants are multiples of `grid_s`.
    """
    rng = np.random.default_rng([seed, 77])
    sizes = [(8, 8, 8, 8), (4, 4, 8)]
    teller = Teller(
        {"p": 0.6, "p/x": 0.5, "p/y": 0.3, "q": 0.35, "z": 0.0},
        nodes={f"c{i}": sizes[i % 2] for i in range(clusters)},
        limits={"p": 14, "q": 6} if limits else None,
        warmup_s=int(rng.integers(0, until_s // 3)) // grid_s * grid_s,
        until_s=until_s,
    )
    play = _Play(teller, rng, grid_s)
    instants = np.sort(rng.integers(0, until_s + 1, turns)) // grid_s * grid_s
    for t in instants.tolist():
        due = sorted({at for at in play.until.values() if at < t})
        for at in due:  # graces end between turns, at their own second
            for job in [job for job, end_s in play.until.items() if end_s == at]:
                play.stop(at, job, End.PREEMPTED)
        play.turn(t)
    return teller.story()


__all__ = ["NEVER_S", "Teller", "random_story"]
