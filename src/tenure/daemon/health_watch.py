"""Looks after the nodes beside the loop of turns: runs the site's check, and asks for what follows.

It decides nothing by itself: `health.findings` does, and what follows is asked for as a person would ask, so
that it is written down, obeyed in order, and seen in the nodes' history with who and why. It never holds up a
turn. After a restart it counts anew: a sick node is found a little later, none is forgotten.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import structlog

from tenure.daemon.health import NodeNow, Step, Tally, Verdict, counted, findings
from tenure.daemon.site_check import check_node
from tenure.settings.live_file import HealthCheckFile

ASK_AGAIN_S = 15.0  #: a step asked for and not seen to be taken is asked for again
PACE_S = 1.0
TEST_EVERY_S = 30  #: of a node being tested whose check says nothing that can be understood


class Told(NamedTuple):
    """What the watch says of itself, for metrics, `doctor` and logs."""

    tallies: Mapping[str, Tally]
    held_back: Sequence[str]  #: failing nodes kept in service, because checks took out so many already
    running: int  #: checks under way
    unasked: str = ""  #: why the newest step could not be asked for


class HealthWatch:
    """`nodes` gives all nodes as the last turn left them; `ask` writes a step down as a command.

    `ask` may raise: it is asked for again later.
    """

    def __init__(
        self,
        check: HealthCheckFile | None,
        nodes: Callable[[], Sequence[NodeNow]],
        ask: Callable[[Step], object],
        now: Callable[[], float],
        *,
        run: Callable[..., Verdict] = check_node,
    ) -> None:
        self.check = check
        self._nodes, self._ask, self._now, self._run = nodes, ask, now, run
        self._tallies: dict[str, Tally] = {}
        self._due: dict[str, float] = {}
        self._under_way: dict[str, tuple[NodeNow, Future[Verdict]]] = {}
        self._asked: dict[str, tuple[tuple[str, float, str], float]] = {}
        self._held_back: tuple[str, ...] = ()
        self._unasked = ""
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._pool = ThreadPoolExecutor(check.at_once, "check") if check else None

    def start(self) -> None:
        """Watch from a thread of its own until `close`."""
        self._thread = threading.Thread(target=self._loop, name="health", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Start no more checks and wait for those under way (each is bounded by its timeout)."""
        self._stop.set()
        if self._pool:
            self._pool.shutdown(wait=True, cancel_futures=True)
        if self._thread:
            self._thread.join(timeout=10)

    def told(self) -> Told:
        """What it knows now; safe from any thread."""
        return Told(dict(self._tallies), self._held_back, len(self._under_way), self._unasked)

    def _loop(self) -> None:
        while not self._stop.wait(PACE_S):
            try:
                self.look()
            except Exception as wrong:  # one bad round must not end the watch
                self._unasked = f"{type(wrong).__name__}: {wrong}"

    def look(self) -> None:
        """One round: hear what checks said, ask for what follows, start the checks that are due."""
        now, nodes = self._now(), list(self._nodes())
        named = {node.name: node for node in nodes}
        for name, tally in list(self._tallies.items()):
            if name not in named or not tally.is_of(named[name]):
                del self._tallies[name]
        self._hear(named)
        found = findings(
            nodes,
            self._tallies,
            checked=self.check is not None,
            failures=self.check.failures if self.check else 1,
            most_drained=self.check.most_drained if self.check else 0,
        )
        self._say_held_back(tuple(found.held_back))
        for step in found.steps:
            self._ask_once(step, named[step.node], now)
        if self.check and not self._stop.is_set():
            self._begin(nodes, now)

    def _say_held_back(self, nodes: tuple[str, ...]) -> None:
        """Loudly, each time it changes: either the check is wrong or the fleet is."""
        if nodes != self._held_back:
            why = "checks took out as many nodes as they may: these fail and stay in service"
            structlog.get_logger("tenure.health").warning(
                "sick_nodes_kept", nodes=nodes[:50], n=len(nodes), why=why
            )
        self._held_back = nodes

    def _hear(self, named: Mapping[str, NodeNow]) -> None:
        for name, (then, future) in list(self._under_way.items()):
            if future.done():
                del self._under_way[name]
                node = named.get(name)
                if not future.cancelled() and node and (node.state, node.since) == (then.state, then.since):
                    self._tallies[name] = counted(self._tallies.get(name, Tally()), future.result(), node)

    def _ask_once(self, step: Step, node: NodeNow, now: float) -> None:
        what = (node.state, node.since, step.state)
        asked = self._asked.get(step.node)
        if asked and asked[0] == what and now < asked[1] + ASK_AGAIN_S:
            return
        self._asked[step.node] = what, now
        try:
            self._ask(step)
            self._unasked = ""
        except Exception as wrong:
            self._unasked = f"{step.node} should be {step.state} ({step.reason}): {wrong}"

    def _begin(self, nodes: Sequence[NodeNow], now: float) -> None:
        assert self.check is not None
        assert self._pool is not None
        for place, node in enumerate(nodes):
            if node.name in self._under_way or not wanted(node, self.check.when):
                continue
            tally = self._tallies.get(node.name, Tally())
            every = self.check.every
            if node.state == "testing":
                every = min(every, TEST_EVERY_S) if tally.state == "testing" else 0
            elif tally.failed:  # a failure is followed up sooner: the next one decides
                every = max(1, every // 4)
            # the first round is spread over its period, so that a large fleet is not asked all at once
            due = tally.at + every if tally.at or not every else self._first_due(node.name, place, len(nodes))
            if due <= now:
                run = self._pool.submit(
                    self._run, self.check.command, node.name, at=now, timeout_s=self.check.timeout
                )
                self._under_way[node.name] = node, run

    def _first_due(self, node: str, place: int, of: int) -> float:
        assert self.check is not None
        return self._due.setdefault(node, self._now() + self.check.every * place / max(1, of))


def wanted(node: NodeNow, when: str) -> bool:
    """Whether a node is checked now: one in service (idle, or `always`), and one being tested."""
    if node.state == "testing":
        return True
    return node.state == "up" and (when == "always" or node.attempts == 0)
