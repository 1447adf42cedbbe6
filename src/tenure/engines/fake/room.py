"""The pretended machine room: nodes and attempts, moved on from instant to instant and by orders.

No clock, no lost calls, no file: those are `cluster`'s. Instants are true epoch seconds; what is shown adds
the skew that the engine's clock has at that moment.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tenure.engines.fake import faults as fate
from tenure.engines.fake.behaviour import Behave, Behaviour
from tenure.engines.fake.faults import Faults, Happening
from tenure.engines.fake.stay import SIGKILL, Stay
from tenure.engines.protocol import (
    Enrol,
    Forget,
    Notice,
    Order,
    OrderRefused,
    SeenAttempt,
    SeenNode,
    SetNode,
    Start,
    Stop,
    Withdraw,
)

NEVER = float("inf")
KEPT_BY_NODE = {fate.NODE_DOWN: "down", fate.NODE_DRAIN: "drains", fate.NODE_VANISHES: "gone"}


class Room:
    """What is there. `changed` names what `plain` would give differently since it was last emptied."""

    def __init__(self, nodes: Mapping[str, int], behave: Behave, faults: Faults) -> None:
        self.wrongs: list[str] = []
        self.past: list[SeenAttempt] = []
        self.stays: dict[tuple[str, int], Stay] = {}
        self.timetable: list[Happening] = sorted(faults.timetable)
        self.skew = 0.0
        self.silent = 0
        self.changed: set[str] = {"room"}
        self._behave = behave
        self._faults = faults
        self._nodes = {
            node: {"gpus": gpus, "down": 0, "drains": 0, "gone": 0} for node, gpus in nodes.items()
        }
        self._drained: dict[str, str] = {}  # by SetNode: node to reason
        self._forgotten: dict[str, int] = {}  # by job: attempts up to this one are over
        self._refused: dict[str, str] = {}  # "attempt job" to why: refused once is refused for ever
        self._work_s: dict[str, float] = {}  # useful work saved, by job
        self._picked = 0
        self._due: list[tuple[float, str, int]] = []
        self._used: Counter[str] = Counter()  # GPUs by node

    # --- time -------------------------------------------------------------------------------------------

    def catch_up(self, now: float) -> None:
        """All that is due by now happens, in its order; of one instant, ends come first."""
        while True:
            ends = self._next_due()
            happens = self.timetable[0].at if self.timetable else NEVER
            if min(ends, happens) > now:
                return
            if happens < ends:
                self.happen(self.timetable.pop(0))
                continue
            at, job, attempt = heapq.heappop(self._due)
            self._does(self.stays[job, attempt], at)

    def next_change(self) -> float | None:
        """The instant of the next thing that happens by itself."""
        coming = min(self._next_due(), self.timetable[0].at if self.timetable else NEVER)
        return None if coming == NEVER else coming

    def _next_due(self) -> float:
        while self._due:
            at, job, attempt = self._due[0]
            stay = self.stays.get((job, attempt))
            due = stay.next_due() if stay else None
            if due is not None and due[0] == at:
                return at
            heapq.heappop(self._due)  # no longer so
        return NEVER

    def _does(self, stay: Stay, at: float) -> None:
        """An attempt begins or ends, as it is due."""
        due = stay.next_due()
        assert due is not None, (stay, at)
        if due[1]:
            self._end(stay, at, due[1])
        else:
            stay.began_shown = at + self.skew
            self._touch(stay)

    def _end(self, stay: Stay, at: float, how: str) -> None:
        kept_s = stay.end(at, self.skew, how)
        if kept_s:
            self._work_s[stay.job] = self._work_s.get(stay.job, 0.0) + kept_s
            self.changed.add(f"job {stay.job}")
        self._used.subtract(stay.nodes)
        self._touch(stay)

    def _touch(self, stay: Stay) -> None:
        """It has changed: to be written down, and to be looked at when it does something next."""
        self.changed.add(f"stay {stay.attempt} {stay.job}")
        due = stay.next_due()
        if due is not None:
            heapq.heappush(self._due, (due[0], stay.job, stay.attempt))

    # --- what happens from outside ------------------------------------------------------------------------

    def put(self, happening: Happening) -> None:
        """It will happen."""
        self.timetable = sorted([*self.timetable, happening])
        self.changed.add("room")

    def happen(self, it: Happening) -> None:
        """It happens; `value` > 0 undoes it after so long, and what came twice is undone twice."""
        self.changed.add("room")
        what, undo = it.what.removeprefix("end of "), it.what.startswith("end of ")
        if what == fate.SKEW:
            self.skew += it.value
            return
        if what == fate.CANCEL:
            self._cancel(it)
            return
        if what == fate.SILENCE:
            self.silent = max(0, self.silent + (-1 if undo else 1))
        else:
            node = self._nodes[it.subject]
            kind = KEPT_BY_NODE[what]
            node[kind] = max(0, node[kind] + (-1 if undo else 1))
            if what == fate.NODE_DOWN and not undo:
                for stay in list(self.stays.values()):
                    if it.subject in stay.nodes and stay.ended is None:
                        self._lose(stay, it.at, f"node {it.subject} died")
        if it.value > 0 and not undo:
            self.put(Happening(it.at + it.value, f"end of {what}", it.subject))

    def _lose(self, stay: Stay, at: float, detail: str) -> None:
        """Its node died: only its own saves are left."""
        asked, stay.told = stay.told, False  # whatever it was asked: nobody saves on a dead node
        self._end(stay, at, detail)
        stay.told, stay.node_failed, stay.signal = asked, True, None

    def _cancel(self, it: Happening) -> None:
        jobs = sorted(stay.job for stay in self.stays.values() if stay.ended is None)
        job = it.subject
        if not job and jobs:
            self._picked += 1
            job = self._faults.pick(self._picked, jobs)
        for stay in list(self.stays.values()):
            if stay.job == job and stay.ended is None:
                self._end(stay, it.at, "cancelled at the cluster itself")
                stay.cancelled, stay.signal = True, SIGKILL

    # --- what is seen -------------------------------------------------------------------------------------

    def seen_nodes(self) -> list[SeenNode]:
        """Nodes, but for those that have vanished."""
        return [
            SeenNode(
                name,
                int(node["gpus"]),
                not node["down"],
                bool(node["drains"]) or name in self._drained,
                "down" if node["down"] else self._drained.get(name, ""),
            )
            for name, node in self._nodes.items()
            if not node["gone"]
        ]

    def seen_attempts(self, now: float) -> list[SeenAttempt]:
        """Attempts that were not forgotten."""
        return [stay.seen(now, self.skew) for stay in self.stays.values()]

    # --- orders -------------------------------------------------------------------------------------------

    def obey(self, order: Order, now: float) -> None:
        """Carry it out; the second time it does nothing more."""
        if isinstance(order, Start):
            self._start(order, now)
        elif isinstance(order, Stop):
            self._stop(order, now)
        elif isinstance(order, Forget):
            self._forget(order)
        elif isinstance(order, Notice):
            stay = self._known(order.job, order.attempt)
            if stay is not None:
                stay.noticed = order.at
                self.changed.add(f"stay {stay.attempt} {stay.job}")
            elif order.attempt > self._forgotten.get(order.job, 0):
                raise OrderRefused(f"no attempt {order.attempt} of job {order.job} is here")
        elif isinstance(order, SetNode):
            if order.node not in self._nodes:
                raise OrderRefused(f"there is no node {order.node}")
            if order.drain:
                self._drained[order.node] = order.reason
            else:
                self._drained.pop(order.node, None)
            self.changed.add("room")
        elif isinstance(order, (Enrol, Withdraw)):
            raise OrderRefused("the fake cluster keeps no queue")

    def _known(self, job: str, attempt: int) -> Stay | None:
        return self.stays.get((job, attempt))

    def _start(self, order: Start, now: float) -> None:
        if self._known(order.job, order.attempt) or order.attempt <= self._forgotten.get(order.job, 0):
            return
        self._check(order)
        behaviour = self._behave(order.job, order.attempt, order)
        left_s = behaviour.runtime_s - self._work_s.get(order.job, 0.0)
        if order.attempt > 1:
            left_s += behaviour.restart_s
        limit_s = NEVER if order.max_runtime_s is None else order.max_runtime_s
        begins = now + behaviour.starts_after_s
        stay = Stay(
            job=order.job,
            attempt=order.attempt,
            nodes=dict(order.nodes),
            behaviour=behaviour,
            begins=begins,
            ends=begins + max(0.0, min(left_s, limit_s)),
            at_limit=left_s > limit_s,
            began_shown=now + self.skew if begins <= now else None,
        )
        self.stays[order.job, order.attempt] = stay
        self._used.update(stay.nodes)
        self._touch(stay)
        dead = [node for node in stay.nodes if self._nodes[node]["down"]]
        if dead:
            self._lose(stay, now, f"node {dead[0]} is down")

    def _check(self, order: Start) -> None:
        """Refuse what no machine room could do, and keep in mind that it was asked."""
        name = f"{order.attempt} {order.job}"
        if name not in self._refused:
            why = "the fake cluster refuses to launch this" if self._faults.refuses(order.id) else ""
            wrong = ""
            for node, gpus in order.nodes.items():
                if node not in self._nodes:
                    why = why or f"there is no node {node}"
                elif gpus + self._used[node] > self._nodes[node]["gpus"]:
                    wrong = f"{order.job}: {gpus} GPUs on {node}, of which {self._used[node]} are in use"
            for stay in self.stays.values():
                if stay.job == order.job and stay.ended is None:
                    wrong = f"{order.job}: attempt {order.attempt} beside attempt {stay.attempt}"
            if not (why or wrong):
                return
            self.wrongs += [wrong] if wrong else []
            self._refused[name] = why or wrong
            self.changed.add("room")
        raise OrderRefused(self._refused[name])

    def _stop(self, order: Stop, now: float) -> None:
        stay = self._known(order.job, order.attempt)
        if stay is None:
            if order.attempt > self._forgotten.get(order.job, 0):
                self._never_start(order, now)
            return
        if stay.ended is not None:
            return
        after_s = stay.behaviour.leaves_after_s
        leaves = now + max(0.0, order.grace_s if after_s is None else min(after_s, order.grace_s))
        stay.told = True
        stay.leaves = leaves if stay.leaves is None else min(stay.leaves, leaves)
        self._touch(stay)

    def _never_start(self, order: Stop, now: float) -> None:
        """Told to stop before it was told to start: whatever comes later, it will not run."""
        self.stays[order.job, order.attempt] = Stay(
            job=order.job,
            attempt=order.attempt,
            nodes={},
            behaviour=Behaviour(0),
            begins=now,
            ends=now,
            at_limit=False,
            told=True,
            ended=now,
            ended_shown=now + self.skew,
            detail="told to stop before it was started",
        )
        self.changed.add(f"stay {order.attempt} {order.job}")

    def _forget(self, order: Forget) -> None:
        stay = self._known(order.job, order.attempt)
        if stay is not None:
            if stay.ended is None:
                raise OrderRefused(f"attempt {order.attempt} of job {order.job} is still running")
            self.past.append(stay.seen(stay.ended, 0.0))
            del self.stays[order.job, order.attempt]
            self.changed |= {f"stay {stay.attempt} {stay.job}", f"past {stay.attempt} {stay.job}"}
        self._forgotten[order.job] = max(order.attempt, self._forgotten.get(order.job, 0))
        self.changed.add(f"job {order.job}")

    # --- as JSON can hold it ------------------------------------------------------------------------------

    def plain(self, name: str) -> Any:
        """What one of the names in `changed` stands for; None = nothing (any more)."""
        kind, _, rest = name.partition(" ")
        if kind == "room":
            kept: Sequence[Any] = (self._nodes, self._drained, self._refused, self._picked, self.skew)
            return [*kept, self.silent, self.wrongs, [list(happening) for happening in self.timetable]]
        if kind == "job":
            return [self._work_s.get(rest, 0.0), self._forgotten.get(rest, 0)]
        number, _, job = rest.partition(" ")
        attempt = int(number)
        if kind == "past":
            return next(
                list(seen) for seen in reversed(self.past) if (seen.job, seen.attempt) == (job, attempt)
            )
        stay = self._known(job, attempt)
        return stay.plain() if stay else None

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Be what these say, by name."""
        (self._nodes, self._drained, self._refused, self._picked, self.skew, *rest) = kept["room"]
        self.silent, self.wrongs, self.timetable = rest[0], rest[1], [Happening(*row) for row in rest[2]]
        self.stays, self._work_s, self._forgotten = {}, {}, {}
        self.past, self._due, self._used = [], [], Counter()
        for name, value in kept.items():
            kind, _, rest_of_name = name.partition(" ")
            if kind == "job":
                self._work_s[rest_of_name], self._forgotten[rest_of_name] = value
            elif kind == "past":
                self.past.append(SeenAttempt(*value))
            elif kind == "stay":
                stay = Stay.of(value)
                self.stays[stay.job, stay.attempt] = stay
                if stay.ended is None:
                    self._used.update(stay.nodes)
                    self._touch(stay)
        self.changed.clear()
