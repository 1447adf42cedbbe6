"""A world for runs: a provider in memory with windows, capacity and faults, a drawn trainer, commits.

Time is the world's; a controller's clock may be ahead or behind. `World.live` moves from event to event and
steps the controller when it wants to be, or not at all while it is dead. What must never be is checked as it
is lived.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from tenure.engines.clock import ChosenClock
from tenure.ledger.database import Database
from tenure.ledger.records import Lease
from tenure.providers.capability import capability
from tenure.providers.protocol import (
    ACTIVE,
    EXPIRED,
    FAILED,
    GONE,
    ON_DEMAND,
    PAID,
    PAYMENT_PENDING,
    RESERVED,
    RUNNING,
    SCHEDULED,
    STARTING,
    STOPPING,
    Extension,
    Health,
    NoCapacity,
    Node,
    NotSent,
    Offer,
    Refused,
    Unclear,
    Window,
)
from tenure.runs.book import RunBook
from tenure.runs.controller import Controller
from tenure.runs.drawn import NEVER, DrawnTrainer, Draws
from tenure.runs.extending import Extender
from tenure.runs.hook import Hook
from tenure.runs.look import NOTHING_KEPT, Kept, Sound
from tenure.runs.parts import Parts, PartSilent
from tenure.runs.signing import Rules
from tenure.runs.state import State
from tenure.runs.words import AlreadyRecorded, Event, Fenced
from tenure.settings.run_file import Run, run_file_of

HOUR, DAY = 3600.0, 86400.0
START = 1_800_000_000.0  #: of the first window, in most worlds


@dataclass
class Lent:
    """A window as the memory provider keeps it."""

    id: str
    start: float
    end: float
    nodes: int
    fee: Decimal = Decimal(100_000)
    broken: int = 0  #: of its nodes, never to be had
    failed: bool = False
    extensions: list[Extension] = field(default_factory=list)
    pay_at: list[float] = field(default_factory=list)


class MemoryProvider:
    """Implements `providers.protocol.Provider`. Faults are told by `fault(call)`: "", "before", "after"."""

    name = "aws"

    def __init__(self, now: Callable[[], float]) -> None:
        self.capability = capability("aws")
        self.now = now
        self.lent: dict[str, Lent] = {}
        self.alive: dict[str, Node] = {}
        self.gone: dict[str, tuple[Node, float]] = {}
        self.by_token: dict[str, list[str]] = {}
        self.sent: list[tuple[str, float, str]] = []  #: launches: token, instant, window
        self.fault: Callable[[str], str] = lambda call: ""
        self.open: Callable[[float], int] = lambda now: 10_000  #: nodes to be had on demand now
        self.sold: Callable[[Lent, float], bool] = lambda window, now: False  #: are extensions on offer?
        self.extension_day = Decimal(50_000)
        self.payment_s = 600.0
        self.pays = True
        self.boot_s = 120.0
        self.stuck: set[str] = set()  #: nodes that terminate does not end
        self.hidden_until: dict[str, float] = {}  #: eventual consistency
        self.stop_s = 60.0
        self.listed_s = NEVER  #: windows are listed for so long after their end
        self.stopping: dict[str, float] = {}
        self.on_gone: Callable[[list[str]], None] = lambda nodes: None
        self._made = 0

    # --- the world's side ------------------------------------------------------------------------------
    def next_event(self) -> float:
        times = list(self.stopping.values())
        times += [node.launched + self.boot_s for node in self.alive.values() if node.state == STARTING]
        for window in self.lent.values():
            times += [window.start, self.term(window), window.end, *window.pay_at]
        now = self.now()
        return min((at for at in times if at > now), default=NEVER)

    def term(self, window: Lent) -> float:
        return window.end - self.capability.terminates_s

    def advance(self) -> None:
        now = self.now()
        for window in self.lent.values():
            for place, at in enumerate(window.pay_at):
                one = window.extensions[place]
                if one.state == PAYMENT_PENDING and at <= now:
                    state = PAID if self.pays and now < window.end else FAILED
                    window.extensions[place] = one._replace(state=state)
                    if state == PAID:
                        window.end = one.end
        for node in list(self.alive.values()):
            if node.state == STARTING and node.launched + self.boot_s <= now:
                self.alive[node.id] = node._replace(state=RUNNING)
        taken = [
            node.id
            for node in self.alive.values()
            if node.window and now >= self.term(self.lent[node.window])
        ]
        self.end_nodes(taken)
        for which, at in list(self.stopping.items()):
            if at <= now:
                node = self.alive.pop(which)
                del self.stopping[which]
                self.gone[which] = (node._replace(state=GONE), at)

    def end_nodes(self, ids: Sequence[str], *, at_once: bool = False) -> None:
        now, ended = self.now(), []
        for which in ids:
            node = self.alive.get(which)
            if node is not None and node.state != STOPPING:
                self.alive[which] = node._replace(state=STOPPING)
                self.stopping[which] = now if at_once else now + self.stop_s
                ended.append(which)
        if ended:
            self.on_gone(ended)

    def lend(self, start: float, end: float, nodes: int, name: str = "", **more: Any) -> Lent:
        made = Lent(name or f"cb-{len(self.lent) + 1}", start, end, nodes, **more)
        self.lent[made.id] = made
        return made

    # --- the controller's side -------------------------------------------------------------------------
    def _fault(self, call: str, when: str) -> None:
        if self._said == when:
            raise (NotSent if when == "before" else Unclear)(f"{call}: drawn")

    def _begin(self, call: str) -> None:
        self._said = self.fault(call)
        self._fault(call, "before")

    def windows(
        self, ids: Sequence[str] | None = None, tag: tuple[str, str] | None = None
    ) -> Sequence[Window]:
        self._begin("windows")
        now = self.now()
        found = []
        for one in self.lent.values():
            if (ids is not None and one.id not in ids) or now >= one.end + self.listed_s:
                continue
            state = SCHEDULED if now < one.start else ACTIVE if now < one.end else EXPIRED
            state = FAILED if one.failed else state
            told = Window(
                one.id, (f"cr-{one.id}",), state, "z1", one.start, one.end, one.nodes, one.fee, "USD", {}
            )
            found.append(told)
        return found

    def offer_again(self, offer: Offer) -> Offer | None:
        window = next(iter(self.windows([offer.extends])), None)
        hours = round(offer.length_s / HOUR)
        return next(iter(self.extension_offers(window, hours)), None) if window else None

    def against(self, offer: Offer) -> Sequence[str]:
        return []

    def extension_offers(self, window: Window, hours: int) -> Sequence[Offer]:
        self._begin("extension_offers")
        one = self.lent[window.id]
        if not self.sold(one, self.now()) or self.now() > one.end - HOUR:
            return []
        days = hours / 24
        fee = self.extension_day * Decimal(str(days))
        what = (f"ext-{one.id}-{hours}-{int(one.end)}", "aws", "p5", one.nodes, 8, "z1")
        return [Offer(*what, one.end, one.end + hours * HOUR, fee, "USD", "Linux/UNIX", extends=one.id)]

    def extend(self, window: Window, offer: Offer, intent: str) -> Extension:
        self._begin("extend")
        one = self.lent[window.id]
        made = Extension(
            offer.id, one.id, PAYMENT_PENDING, offer.start, offer.end, offer.fee, "USD", self.now()
        )
        one.extensions.append(made)
        one.pay_at.append(self.now() + self.payment_s)
        self._fault("extend", "after")
        return made

    def extensions(self, window: Window) -> Sequence[Extension]:
        self._begin("extensions")
        return list(self.lent[window.id].extensions)

    def launch(
        self, token: str, count: int, at_least: int, window: Window | None, tags: Mapping[str, str]
    ) -> Sequence[Node]:
        self._begin("launch")
        if token not in self.by_token:
            self._make(token, count, at_least, window, tags)
        self._fault("launch", "after")
        known = self.alive | {which: node for which, (node, _) in self.gone.items()}
        return [known[which] for which in self.by_token[token]]

    def _make(
        self, token: str, count: int, at_least: int, window: Window | None, tags: Mapping[str, str]
    ) -> None:
        now = self.now()
        self.sent.append((token, now, window.id if window else ""))
        if window is not None:
            one = self.lent[window.id]
            if not one.start <= now < self.term(one):
                raise Refused("ReservationNotActive", f"{one.id} is not active")
            room = one.nodes - one.broken - sum(node.window == one.id for node in self.alive.values())
        else:
            room = self.open(now)
        got = min(count, room)
        if got < at_least or got <= 0:
            raise NoCapacity("InsufficientInstanceCapacity", f"{room} of {count}")
        self.by_token[token] = []
        for _ in range(got):
            self._made += 1
            which = f"i-{self._made}"
            market = RESERVED if window else ON_DEMAND
            node = Node(which, STARTING, "z1", window.id if window else "", market, token, now, dict(tags))
            self.alive[which] = node
            self.by_token[token].append(which)

    def nodes(self, tag: tuple[str, str]) -> Sequence[Node]:
        self._begin("nodes")
        now = self.now()
        mine = [node for node in self.alive.values() if node.tags.get(tag[0]) == tag[1]]
        return [node for node in mine if self.hidden_until.get(node.id, 0.0) <= now]

    def terminate(self, ids: Sequence[str]) -> None:
        self._begin("terminate")
        self.end_nodes([which for which in ids if which not in self.stuck])
        self._fault("terminate", "after")

    def health(self, window: Window) -> Health:
        self._begin("health")
        one = self.lent[window.id]
        used = sum(node.window == one.id for node in self.alive.values())
        return Health(one.id, "ok", one.nodes, max(0, one.nodes - one.broken - used), one.broken)

    def on_demand_hours(self, now: float) -> float:
        """Billed so far."""
        over = [(at - node.launched) for node, at in self.gone.values() if node.market == ON_DEMAND]
        still = [now - node.launched for node in self.alive.values() if node.market == ON_DEMAND]
        return (sum(over) + sum(still)) / HOUR


class MemoryVault:
    """Commits, newest last; fenced by attempt. `silent`: nobody answers."""

    def __init__(self) -> None:
        self.commits: list[Kept] = []
        self.silent = False
        self.corrupt: set[int] = set()

    def take_over(self, attempt: int) -> None:
        pass

    def commit(self, step: int, attempt: int, tokens: float) -> None:
        if self.commits and attempt < self.commits[-1].attempt:
            return  # a stale gang commits over nobody
        self.commits.append(Kept(step, tokens, attempt))

    def newest(self, read: Callable[[int], None] | None = None) -> Kept:
        if self.silent:
            raise PartSilent("drawn")
        good = [one for one in self.commits if one.step not in self.corrupt]
        return max(good, key=lambda one: one.step, default=NOTHING_KEPT)


class Pages:
    """What several memory books share: events by number, and who holds the lease."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.keys: dict[str, Event] = {}
        self.lease = Lease("", 0, 0.0)


class MemoryBook:
    """`runs.book.RunBook` without a database, by the same rules: for many histories in little time."""

    def __init__(self, pages: Pages, run: str, now: Callable[[], float]) -> None:
        self.run, self._pages, self._now = run, pages, now
        self.lease: Lease | None = None

    def claim(self, holder: str, ttl_s: float) -> bool:
        there = self._pages.lease
        if there.until > self._now() and there.holder != holder:
            return False
        self._pages.lease = self.lease = Lease(holder, there.epoch + 1, self._now() + ttl_s)
        return True

    def renew(self, ttl_s: float) -> None:
        self._hold()
        assert self.lease is not None
        self._pages.lease = self.lease = self.lease._replace(until=self._now() + ttl_s)

    def let_go(self) -> None:
        if self.lease is not None and self.lease.epoch == self._pages.lease.epoch:
            self._pages.lease = self.lease._replace(until=0.0)
        self.lease = None

    def holder(self) -> str:
        there = self._pages.lease
        return there.holder if there.until > self._now() else ""

    def record(self, kind: str, body: Mapping[str, Any], *, key: str = "") -> Event:
        self._hold()
        return self.ask(kind, body, key=key)

    def ask(self, kind: str, body: Mapping[str, Any], *, key: str = "") -> Event:
        if key and key in self._pages.keys:
            raise AlreadyRecorded(self._pages.keys[key])
        event = Event(len(self._pages.events) + 1, self._now(), kind, json.loads(json.dumps(body)), key)
        self._pages.events.append(event)
        self._pages.keys[key] = event
        return event

    def events(self, *kinds: str) -> Sequence[Event]:
        return [event for event in self._pages.events if not kinds or event.kind in kinds]

    def after(self, number: int) -> list[Event]:
        return self._pages.events[number:]

    def _hold(self) -> None:
        if self.lease is None or self.lease.epoch != self._pages.lease.epoch:
            raise Fenced(f"{self._pages.lease.holder} carries {self.run!r} now")


class Skewed:
    """The world's clock, read with an error."""

    def __init__(self, clock: ChosenClock, ahead_s: float = 0.0) -> None:
        self._clock, self.ahead_s = clock, ahead_s

    def now(self) -> float:
        return self._clock.now() + self.ahead_s

    def wait(self, seconds: float) -> None:
        raise AssertionError("a controller in a world does not wait by itself")


PLAN: dict[str, Any] = {
    "tokens": 4 * 8 * 3000.0 * 2 * DAY,  # two days of four nodes at the plan's speed
    "nodes": 4,
    "throughput": {"mean": 3000, "sd": 150},
    "failures": {"per_node_day": 0.05},
    "recovery": {"restart": "10m", "checkpoint_every": "1h", "stall": "2m"},
    "prices": {"reserved_per_day": 5000, "on_demand_per_day": 8000},
    "overrun": {"move": 500, "on_demand": True, "stall_per_day": 40000, "p_fallback": 0.7},
    "windows": {"days": 3},
}


def run_of(folder: Path, plan: Mapping[str, Any] | None = None, **keys: Any) -> Run:
    """A run's file with these keys."""
    raw = {
        "run": "example",
        "plan": {**PLAN, **(plan or {})},
        "provider": "aws",
        "store": "memory",
        "hook": "hook",
        "launch": {"command": ["true"]},
        "poll": 300,
        "deadlines": {"save": 120, "margin": 300},
        **keys,
    }
    return run_file_of(raw, folder)


class World:
    """All of it. `controllers`: those alive; each is stepped when it asks to be."""

    def __init__(self, folder: Path, db: Database | None, run: Run, draws: Draws | None = None) -> None:
        self.clock = ChosenClock(START - DAY)
        self.run, self.db, self.pages = run, db, Pages()
        self.provider = MemoryProvider(self.clock.now)
        self.hook = Hook(run.hook)
        self.vault = MemoryVault()
        self.sounded: list[tuple[float, Sound]] = []
        draws = draws or Draws(7, 3000.0, failures_per_node_day=0.0, save_every_s=3600.0)
        gpus = run.nodes * run.plan.gpus_per_node
        self.trainer = DrawnTrainer(
            self.hook, self.vault, draws, run.tokens, gpus, now=self.clock.now, fail_node=self._fail
        )
        self.provider.on_gone = self.trainer.nodes_gone
        self.gate: Any = None
        self.two_above = Decimal(10**9)  #: a second person signs above it
        self.controllers: dict[str, tuple[Controller, float]] = {}
        self.refused: list[str] = []
        self.checks: list[Callable[[World], None]] = []

    def _fail(self, node: str) -> None:
        self.provider.end_nodes([node], at_once=True)

    def book(self, now: Callable[[], float]) -> RunBook:
        """In the database, or in memory where there is none."""
        if self.db is None:
            return MemoryBook(self.pages, self.run.file.run, now)  # type: ignore[return-value]
        return RunBook(self.db, self.run.file.run, now)

    def parts(self, ahead_s: float = 0.0, extend: bool = True) -> tuple[Parts, Skewed]:
        clock = Skewed(self.clock, ahead_s)
        book = self.book(clock.now)
        rules = Rules(b"key", two_above=self.two_above, settle_s=2.0, look_s=1.0)
        spend = {"nodes": self.run.nodes, "budget": Decimal(10**9), "person": "ann"}
        buy = Extender(book, self.provider, rules, clock, **spend)  # type: ignore[arg-type]

        parts = Parts(
            book=book,
            provider=self.provider,
            shelf=self.vault,
            trainer=self.trainer,
            hook=Hook(self.run.hook, clock.now),
            sound=lambda alarm: self.sounded.append((self.clock.now(), alarm)),
            gate=self.gate,
            extend=buy if extend else None,
        )
        return parts, clock

    def controller(self, name: str = "one", ahead_s: float = 0.0) -> Controller:
        """A controller that has adopted the run; stepped from now on."""
        parts, clock = self.parts(ahead_s)
        made = Controller(self.run, parts, clock, name)
        made.adopt()
        for window in self.provider.lent.values():
            if window.id not in made.state.bought:
                made._record("window_adopted", {"window": window.id}, f"adopted/{window.id}")
        self.controllers[name] = (made, self.clock.now())
        return made

    def kill(self, name: str = "one") -> None:
        """As by kill -9: its lease is not given back."""
        self.controllers.pop(name, None)

    @property
    def state(self) -> State:
        """As the book tells it."""
        return State.of(self.book(self.clock.now).events())

    def live(self, until: float, stop: Callable[[], bool] = lambda: False) -> None:
        """Until then, or until `stop` says so."""
        while self.clock.now() < until and not stop():
            wakes = [wake for _, wake in self.controllers.values()]
            coming = min([until, self.provider.next_event(), self.trainer.next_event(), *wakes])
            self.clock.set(max(self.clock.now() + 0.001, coming))
            self.trainer.advance(self.clock.now())
            self.provider.advance()
            for check in self.checks:
                check(self)
            for name in list(self.controllers):
                self.step(name)

    def step(self, name: str) -> None:
        made, wake = self.controllers[name]
        news = self.trainer.process is None and made.state.phase in ("running", "draining")
        if self.clock.now() < wake and not news:
            return
        try:
            wake = made.step() - made.clock.ahead_s  # type: ignore[attr-defined]
        except Fenced as fenced:
            self.refused.append(str(fenced))
            self.kill(name)
            return
        self.controllers[name] = (made, max(wake, self.clock.now() + 1.0))

    def done(self) -> bool:
        return any(made.finished for made, _ in self.controllers.values())

    def state_is(self, *phases: str) -> bool:
        return any(made.state.phase in phases for made, _ in self.controllers.values())

    def modes(self) -> set[str]:
        return {alarm.mode for _, alarm in self.sounded}


__all__ = ["DAY", "HOUR", "PLAN", "START", "MemoryProvider", "World", "run_of"]
