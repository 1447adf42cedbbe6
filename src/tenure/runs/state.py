"""Where does a run stand? All of it follows from its book, so a controller that comes back knows it too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from tenure.providers.protocol import Window
from tenure.runs.words import Event

#: Phases of a run.
WAITING = "waiting"  #: for a window to start
ASSEMBLING = "assembling"  #: nodes come together, the gate is passed
RUNNING = "running"
DRAINING = "draining"  #: the last save of this place is asked for
STALLED = "stalled"  #: work is left and there is no place to do it in
PAUSED = "paused"  #: a person asked it to drain
DONE = "done"
PHASES = (WAITING, ASSEMBLING, RUNNING, DRAINING, STALLED, PAUSED, DONE)

#: How an attempt ended.
DRAINED, INCOMPLETE, FAILED, CUT_OFF, FINISHED = "drained", "incomplete", "failed", "cut off", "finished"
EXIT_INCOMPLETE = 75


@dataclass
class Launch:
    """A launch as intended, and what became of it."""

    token: str
    nodes: int
    at_least: int
    window: str  #: "" = on demand
    at: float
    outcome: str = ""  #: "" = not known (yet): the same token may be sent again
    made: tuple[str, ...] = ()  #: nodes that came of it
    answered: float = float("-inf")  #: when that was known


@dataclass
class Attempt:
    """One stay of the trainer on a gang."""

    number: int
    nodes: tuple[str, ...]
    windows: tuple[str, ...]  #: none: on demand alone
    started: float
    from_tokens: float
    ended: float | None = None
    end: str = ""
    tokens: float = 0.0  #: reached
    kept: float = 0.0  #: tokens in the newest verified checkpoint at its end
    computing_s: float = 0.0
    first_beat: float | None = None
    stopping: float = 0.0  #: since when its processes are to end; 0: they are not
    stop_told: float = 0.0  #: again
    stopped_as: str = ""  #: how it will have ended, and why
    why: str = ""
    waiting: float | None = None  #: since when a scheduler has it in its queue; None: it is not
    waited_s: float = 0.0  #: in the queue so far
    placed: float = float("-inf")  #: since when it runs where it runs now
    computed_s: float = 0.0  #: on the places where it ran before


@dataclass
class State:
    """Folded from the events, in order."""

    phase: str = WAITING
    since: float = 0.0
    began: float | None = None  #: first step ever
    attempts: list[Attempt] = field(default_factory=list)
    launches: dict[str, Launch] = field(default_factory=dict)
    rounds: int = 0  #: launches refused in a row in this assembling
    last_round: float = float("-inf")
    refusal: str = ""  #: of the newest launch, in the provider's words, where it was not for lack of capacity
    assembling_since: float = 0.0
    on_demand: bool = False  #: the place is the open market
    paused_until: float = float("-inf")  #: no launch on demand before
    gate_passed: tuple[str, ...] = ()  #: nodes among which the gate was passed
    gate_failed: float = float("-inf")  #: when it was failed last
    gate_text: str = ""
    slow: tuple[str, ...] = ()  #: nodes it named
    request: Mapping[str, Any] | None = None
    bought: list[str] = field(default_factory=list)  #: ids of windows
    extended: dict[str, list[str]] = field(default_factory=dict)  #: offers bought, by window
    windows: dict[str, Window] = field(default_factory=dict)  #: as last seen
    spent: dict[str, float] = field(default_factory=dict)  #: windows left, with the end they had
    forecasts: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    wanted: dict[str, Mapping[str, Any]] = field(default_factory=dict)  #: extensions wanted, by offer
    alarms: dict[str, Mapping[str, Any]] = field(default_factory=dict)  #: raised and not cleared
    node_hours: dict[str, tuple[float, float | None]] = field(default_factory=dict)  #: on demand
    gone: set[str] = field(default_factory=set)
    releasing: dict[str, float] = field(default_factory=dict)  #: nodes to be let go, since when
    save_s: float | None = None  #: 99th percentile, the largest measured
    step_s: float = 0.0
    drain_asked: bool = False
    days: list[Mapping[str, Any]] = field(default_factory=list)
    final: Mapping[str, Any] | None = None

    @property
    def live(self) -> Attempt | None:
        """The attempt under way."""
        if self.attempts and self.attempts[-1].ended is None:
            return self.attempts[-1]
        return None

    @property
    def failures(self) -> int:
        """Attempts that failed."""
        return sum(attempt.end == FAILED for attempt in self.attempts)

    @property
    def open_launches(self) -> list[Launch]:
        """Intended, outcome unknown."""
        return [launch for launch in self.launches.values() if not launch.outcome]

    @classmethod
    def of(cls, events: Iterable[Event]) -> State:
        """As a whole book tells it."""
        state = cls()
        for event in events:
            state.apply(event)
        return state

    def apply(self, event: Event) -> None:
        """Take an event in. Kinds of others (buying) change nothing here."""
        take = getattr(self, f"_{event.kind}", None)
        if take is not None:
            take(event.body, event.at)

    # --- one method an event ---------------------------------------------------------------------------
    def _phase_entered(self, body: Mapping[str, Any], at: float) -> None:
        self.phase, self.since = body["phase"], at
        if self.phase == ASSEMBLING:
            self.rounds, self.last_round, self.assembling_since = 0, float("-inf"), at
            self.refusal = ""
            self.on_demand = bool(body.get("on_demand"))
        if self.phase in (ASSEMBLING, WAITING):
            self.request = None

    def _launch_intended(self, body: Mapping[str, Any], at: float) -> None:
        token = body["token"]
        self.launches[token] = Launch(token, body["count"], body["at_least"], body["window"], at)
        self.last_round = at

    def _launched(self, body: Mapping[str, Any], at: float) -> None:
        launch = self.launches[body["token"]]
        launch.outcome, launch.made, launch.answered = "launched", tuple(body["nodes"]), at
        self.rounds = 0 if launch.made else self.rounds
        self.refusal = ""

    def _launch_refused(self, body: Mapping[str, Any], at: float) -> None:
        self.launches[body["token"]].outcome = str(body["code"])
        self.rounds += 1
        self.refusal = "" if body.get("full", True) else f"{body['code']}: {body['message']}"

    def _launching_paused(self, body: Mapping[str, Any], at: float) -> None:
        self.paused_until, self.rounds = float(body["until"]), 0

    def _gate_passed(self, body: Mapping[str, Any], at: float) -> None:
        self.gate_passed = tuple(body["nodes"])

    def _gate_failed(self, body: Mapping[str, Any], at: float) -> None:
        self.gate_failed, self.slow = at, tuple(body["slow"])
        self.gate_text = str(body["text"])

    def _release_intended(self, body: Mapping[str, Any], at: float) -> None:
        for node in body["nodes"]:
            self.releasing.setdefault(node, at)

    def _node_billed(self, body: Mapping[str, Any], at: float) -> None:
        self.node_hours.setdefault(body["node"], (float(body["launched"]), None))

    def _node_gone(self, body: Mapping[str, Any], at: float) -> None:
        node = body["node"]
        self.gone.add(node)
        self.releasing.pop(node, None)
        if node in self.node_hours:
            self.node_hours[node] = (self.node_hours[node][0], at)

    def _attempt_started(self, body: Mapping[str, Any], at: float) -> None:
        told = (int(body["attempt"]), tuple(body["nodes"]), tuple(body["windows"]))
        self.attempts.append(Attempt(*told, at, float(body["from_tokens"])))
        self.request = None

    def _attempt_stepped(self, body: Mapping[str, Any], at: float) -> None:
        """Its first step was seen."""
        self.attempts[-1].first_beat = at
        self.began = at if self.began is None else self.began

    def _attempt_queued(self, body: Mapping[str, Any], at: float) -> None:
        """A scheduler has it in its queue: at first, or again."""
        attempt = self.attempts[-1]
        attempt.waiting = at
        attempt.computed_s += float(body["computing_s"])

    def _attempt_placed(self, body: Mapping[str, Any], at: float) -> None:
        attempt = self.attempts[-1]
        if attempt.waiting is not None:
            attempt.waited_s += at - attempt.waiting
        attempt.waiting, attempt.placed = None, float(body["since"])

    def _attempt_stopping(self, body: Mapping[str, Any], at: float) -> None:
        attempt = self.attempts[-1]
        attempt.stopping, attempt.stopped_as, attempt.why = at, body["end"], body["why"]

    def _stop_repeated(self, body: Mapping[str, Any], at: float) -> None:
        self.attempts[-1].stop_told = at

    def _attempt_ended(self, body: Mapping[str, Any], at: float) -> None:
        attempt = self.attempts[-1]
        attempt.ended, attempt.end = at, body["end"]
        attempt.tokens, attempt.computing_s = float(body["tokens"]), float(body["computing_s"])
        attempt.kept = max(0.0, float(body.get("kept", 0.0)))
        if attempt.waiting is not None:
            attempt.waited_s += at - attempt.waiting
            attempt.waiting = None
        if body["end"] == FAILED:
            self.gate_passed = ()

    def _trainer_asked(self, body: Mapping[str, Any], at: float) -> None:
        self.request = body

    def _purchase_made(self, body: Mapping[str, Any], at: float) -> None:
        if body["extension"]:
            self.extended.setdefault(body["window"], []).append(body["extension"])
        elif body["window"] not in self.bought:
            self.bought.append(body["window"])

    def _window_adopted(self, body: Mapping[str, Any], at: float) -> None:
        """Bought by other means, and named in the run's file."""
        if body["window"] not in self.bought:
            self.bought.append(body["window"])

    def _window_seen(self, body: Mapping[str, Any], at: float) -> None:
        fee = None if body["fee"] is None else Decimal(body["fee"])
        told = {**body, "fee": fee, "reservations": tuple(body["reservations"])}
        self.windows[body["id"]] = Window(**told)

    def _window_left(self, body: Mapping[str, Any], at: float) -> None:
        self.spent[body["window"]] = float(body["end"])

    def _save_measured(self, body: Mapping[str, Any], at: float) -> None:
        self.save_s, self.step_s = float(body["save_s"]), float(body["step_s"])

    def _forecast_made(self, body: Mapping[str, Any], at: float) -> None:
        self.forecasts[body["due"]] = body

    def _extension_wanted(self, body: Mapping[str, Any], at: float) -> None:
        self.wanted[body["offer"]] = body

    def _alarm_raised(self, body: Mapping[str, Any], at: float) -> None:
        self.alarms[body["mode"]] = body

    def _alarm_cleared(self, body: Mapping[str, Any], at: float) -> None:
        self.alarms.pop(body["mode"], None)

    def _day_told(self, body: Mapping[str, Any], at: float) -> None:
        self.days.append(body)

    def _drain_asked(self, body: Mapping[str, Any], at: float) -> None:
        self.drain_asked = True

    def _resume_asked(self, body: Mapping[str, Any], at: float) -> None:
        self.drain_asked = False

    def _run_finished(self, body: Mapping[str, Any], at: float) -> None:
        self.final = body
