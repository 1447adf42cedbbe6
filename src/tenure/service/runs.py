"""What a person can ask about a run: carry it, how it stands, drain it, let it go on, rehearse it."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import FrameType
from typing import Any

import structlog

from tenure.checkpoints.store import Store
from tenure.checkpoints.words import StoreError
from tenure.engines.clock import ChosenClock, Clock
from tenure.ledger.database import Database
from tenure.ledger.holders import is_gone, own_name
from tenure.ledger.opening import open_database
from tenure.ledger.records import LedgerUnavailable
from tenure.planner.forecast_answer import answer
from tenure.planner.run_model import NeverEnds
from tenure.providers.capability import capability
from tenure.providers.opening import provider_for
from tenure.providers.protocol import ProviderError, Window
from tenure.runs import gauges
from tenure.runs.alarms import Webhook
from tenure.runs.book import RunBook, runs_in
from tenure.runs.controller import LEASE_S, Controller, HeldByAnother
from tenure.runs.deciding import Deciding
from tenure.runs.extending import Extender
from tenure.runs.foretelling import extensions_on_sale, paid_time
from tenure.runs.gating import gate_of
from tenure.runs.hook import Hook
from tenure.runs.look import Look
from tenure.runs.outlook import foresee
from tenure.runs.parts import Parts, Trainer
from tenure.runs.preflight_stores import gone_with_the_window
from tenure.runs.rehearse import Asked, Rehearsal, rehearse
from tenure.runs.shelf import StoreShelf, StoreVault
from tenure.runs.signing import Rules
from tenure.runs.state import State
from tenure.runs.tell import standing
from tenure.runs.words import AlreadyRecorded, Event, Fenced
from tenure.service.buying import Place
from tenure.service.forecasts import Forecasted
from tenure.service.run_place import database, signing_key
from tenure.settings.errors import BadInput
from tenure.settings.run_file import Run, read_run_file

LOCAL_NODE = "here"
OF_A_REHEARSAL = (
    ("days", 0.05, 3650.0),
    ("tight_from_h", 0.0, 1e5),
    ("failures", 0.0, 24.0),
    ("speed", 1e-3, 1e9),
)
GATE_S = 90.0  #: the gang's test takes no longer: a controller's lease must outlast it
RECORD_RETRY_S = 5.0
IN_MEMORY = "/dev/shm"  #: what a rehearsal writes is thrown away
SELDOM_S = 3600.0  #: in a rehearsal nothing happens between two events, so it is looked no more often
log = structlog.get_logger()


class CannotCarry(Exception):
    """The run is not carried (any more), and why."""


@dataclass(frozen=True)
class Carried:
    """How carrying ended: `standing` as `status` tells it."""

    standing: dict[str, Any]
    done: bool


class _Stopping:
    """A clock whose waits end when somebody wants the controller to end."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.wanted = threading.Event()

    def now(self) -> float:
        return self._clock.now()

    def wait(self, seconds: float) -> None:
        self.wanted.wait(seconds)


def start(file: Path, place: Place, told: Callable[[Event], None] = lambda event: None) -> Carried:
    """Carry the run until it is done, or until SIGTERM or SIGINT: then it trains on, and is adopted later.

    `told`: called with every event as it is written. BadInput; CannotCarry where another controller has it.
    """
    run = read_run_file(file)
    gone = gone_with_the_window(run, in_rehearsal=place.client is not None)
    if gone is not None:
        raise BadInput(file.name, "store", run.store_url, gone)
    stopping = _Stopping(place.clock)
    with ExitStack() as stack:
        db = stack.enter_context(database(place.data, place.db))
        book = RunBook(db, run.file.run, place.clock.now)
        parts = _parts(run, place, book, stack)
        _free_of_the_dead(book)
        controller = Controller(run, parts, stopping, own_name())
        stack.enter_context(_ends_on_signals(stopping.wanted.set))
        try:
            controller.adopt()
            stack.callback(controller.close)
            _carry(run, controller, stopping, place, told)
        except HeldByAnother as other:
            raise CannotCarry(f"{other}: one controller carries a run") from other
        except Fenced as fenced:
            raise CannotCarry(f"{fenced}: this one ends") from fenced
        return Carried(_standing(run, controller.terminates_s, book, place), controller.finished)


def _free_of_the_dead(book: RunBook) -> None:
    """Give back the lease of a controller that died on this machine, so that nobody waits for its end.

    It is not carried on under the dead one's name: whoever came next would take the living for dead.
    """
    there = book.holder()
    if is_gone(there):
        if book.claim(there, LEASE_S):
            book.let_go()


def _carry(
    run: Run, controller: Controller, stopping: _Stopping, place: Place, told: Callable[[Event], None]
) -> None:
    seen = 0
    gauge = place.data / f"run-{run.file.run}.prom"
    while not stopping.wanted.is_set():
        try:
            wake = controller.step()
        except LedgerUnavailable as silent:
            log.warning("the record does not answer", error=str(silent))
            stopping.wait(RECORD_RETRY_S)
            continue
        for event in controller.parts.book.after(seen):
            told(event)
            seen = event.number
        now = stopping.now()
        gauges.write(
            gauge, gauges.lines(run, controller.terminates_s, controller.state, now, controller.reached)
        )
        if controller.finished:
            return
        stopping.wait(max(0.05, min(wake - now, run.file.poll)))


@contextmanager
def _ends_on_signals(end: Callable[[], None]) -> Iterator[None]:
    """Where this is the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def heard(number: int, frame: FrameType | None) -> None:
        end()

    before = {one: signal.signal(one, heard) for one in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _parts(run: Run, place: Place, book: RunBook, stack: ExitStack) -> Parts:
    provider = provider_for(run, place.clock, client=place.client)
    rules = Rules(signing_key(place.data), run.file.approval.above, run.file.approval.budget)
    budget = run.file.approval.budget
    extend = None
    if run.file.extend and budget is not None:
        person = place.person
        extend = Extender(book, provider, rules, place.clock, nodes=run.nodes, budget=budget, person=person)
    webhook = Webhook(run.file.run, run.file.alarms.webhook, place.clock.now)
    stack.callback(webhook.close)
    return Parts(
        book=book,
        provider=provider,
        shelf=StoreShelf(_store(run)),
        trainer=_trainer(run, place, stack),
        hook=_hook(run, place.clock.now),
        sound=webhook,
        gate=gate_of(run, bound_s=GATE_S),
        extend=extend,
    )


def _store(run: Run) -> Store:
    try:
        return Store(run.store_url, run.file.run, run.file.store.options)
    except StoreError as wrong:
        raise BadInput("run", "store", run.store_url, str(wrong)) from None


def _hook(run: Run, now: Callable[[], float]) -> Hook:
    try:
        return Hook(run.hook, now)
    except OSError as wrong:
        allowed = f"a folder that can be made and written to ({wrong.strerror})"
        raise BadInput("run", "hook", str(run.hook), allowed) from None


def _trainer(run: Run, place: Place, stack: ExitStack) -> Trainer:
    from tenure.runs.launching import EngineTrainer, LabTrainer

    if run.file.launch.engine == "lab":
        from tenure.client.asking import Client

        client = Client(run.file.provider.get("url"))
        return LabTrainer(run, stack.enter_context(client))
    from tenure.engines.local.engine import LocalEngine

    engine = LocalEngine(place.data / "run-engine", {LOCAL_NODE: max(1, run.file.launch.gpus)})
    stack.callback(engine.close)
    return EngineTrainer(run, engine, LOCAL_NODE)


def status(file: Path, place: Place) -> dict[str, Any]:
    """How the run stands, by its book and its heartbeats; asks no provider."""
    run = read_run_file(file)
    with database(place.data, place.db) as db:
        book = _book(db, run, place)
        return _standing(run, capability(run.file.provider["name"]).terminates_s, book, place)


def _book(db: Database, run: Run, place: Place) -> RunBook:
    if run.file.run not in runs_in(db):
        raise CannotCarry(f"{run.file.run} has no book in {place.data}: it was never started")
    return RunBook(db, run.file.run, place.clock.now)


def _standing(run: Run, terminates_s: float, book: RunBook, place: Place) -> dict[str, Any]:
    events = list(book.events())
    told = standing(
        run, terminates_s, State.of(events), events, _hook(run, place.clock.now), place.clock.now()
    )
    return {**told, "carried_by": book.holder()}


def forecast(file: Path, place: Place) -> Forecasted:
    """Forecast it now, from its book and heartbeats, with what its provider sells; writes and buys nothing.

    CannotCarry where nothing can be told: no book, no step yet, no window, a silent provider.
    """
    run = read_run_file(file)
    provider = provider_for(run, place.clock, client=place.client)
    with database(place.data, place.db) as db:
        state = State.of(_book(db, run, place).events())
        try:
            windows = provider.windows(ids=state.bought) if state.bought else []
            look = _look(run, state, place, windows)
            d = Deciding(run, provider.capability.terminates_s, state, look)
            window = _window_of(d)
            if window is None:
                raise CannotCarry(f"{run.file.run} has no window now, and none to come")
            offers = extensions_on_sale(provider, window)
        except ProviderError as silent:
            raise CannotCarry(f"the provider does not answer: {silent}") from silent
        tokens = (
            d.reached() if state.live is not None else max((one.kept for one in state.attempts), default=0.0)
        )
        length = window.end - window.start
        times = {"left_s": paid_time(d, window).left, "window_s": length}
        try:
            found = foresee(run, state, look.at, tokens=tokens, **times, offers=offers)
        except (ValueError, NeverEnds, ArithmeticError) as cannot:
            raise CannotCarry(f"{run.file.run}: {cannot}") from cannot
        return Forecasted({**answer(found, run.plan), "run": run.file.run}, found, run.plan)


def _window_of(d: Deciding) -> Window | None:
    """The window it trains in; else one it can train in now, or will next."""
    live = d.live
    mine = [found for which in (live.windows if live is not None else ()) if (found := d.window(which))]
    return min(mine, key=lambda one: one.end) if mine else next(iter([*d.places(), *d.coming()]), None)


def _look(run: Run, state: State, place: Place, windows: Sequence[Window]) -> Look:
    """What a forecast goes by; of nodes, processes and the store it needs nothing."""
    live = state.live
    beats = {} if live is None else _hook(run, place.clock.now).beats(live.number)
    return Look(place.clock.now(), windows, None, (), {}, None, beats, None, None, None)


def drain(file: Path, place: Place, reason: str = "") -> dict[str, Any]:
    """Ask the run to save, leave and wait. Its controller takes it up at its next step."""
    return _ask(file, place, "drain_asked", reason)


def resume(file: Path, place: Place) -> dict[str, Any]:
    """Ask a drained run to go on."""
    return _ask(file, place, "resume_asked", "")


def _ask(file: Path, place: Place, kind: str, reason: str) -> dict[str, Any]:
    run = read_run_file(file)
    with database(place.data, place.db) as db:
        book = _book(db, run, place)
        try:
            event = book.ask(kind, {"by": place.person, "reason": reason})
        except AlreadyRecorded as before:
            event = before.event
        return {"run": run.file.run, "asked": kind, "event": event.number, "carried_by": book.holder()}


def rehearsed(file: Path, asked: dict[str, Any], told: Callable[[float], None]) -> dict[str, Any]:
    """Live the run's whole window, and what comes after, in virtual time; nothing real is asked or paid.

    `asked`: days, start (datetime), seed, tight_from_h, failures, speed; absent ones are drawn or planned.
    """
    run = read_run_file(file)
    for key, least, most in OF_A_REHEARSAL:
        told_value = asked.get(key)
        if told_value is not None and not least <= told_value <= most:
            raise BadInput("rehearse", key, str(told_value), f"a number from {least:g} to {most:g}")
    days = asked.get("days") or _best_days(run)
    when = asked.get("start") or run.file.start or datetime(2027, 3, 1, tzinfo=UTC)
    wanted = Asked(
        when.timestamp(),
        float(days),
        int(asked.get("seed", 7)),
        asked.get("tight_from_h"),
        asked.get("failures"),
        asked.get("speed"),
    )
    quick = IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="tenure-rehearsal-", dir=quick) as name:
        folder = Path(name)
        alarms = run.file.alarms.model_copy(update={"stall": 3 * SELDOM_S, "silent": 6 * SELDOM_S})
        seldom = {"poll": max(run.file.poll, SELDOM_S), "alarms": alarms}
        changed = run.file.model_copy(update={"hook": "hook", "windows": [], **seldom})
        stage = run.model_copy(update={"folder": folder, "file": changed})
        db = open_database(folder / "record.db")
        vault = StoreVault(Store(str(folder / "store"), run.file.run))

        def make_book(clock: ChosenClock) -> RunBook:
            return RunBook(db, run.file.run, clock.now)

        try:
            lived = rehearse(stage, wanted, make_book, vault, told)
            return _of_rehearsal(stage, lived, wanted)
        finally:
            db.engine.dispose()


def _best_days(run: Run) -> float:
    from tenure.planner.plan_window import plan_window

    return float(plan_window(run.plan).chosen.days)


def _of_rehearsal(run: Run, lived: Rehearsal, asked: Asked) -> dict[str, Any]:
    terminates = capability("aws").terminates_s
    events = list(lived.book.events())
    told = standing(run, terminates, lived.state, events, Hook(run.hook), lived.now)
    bill = {key: str(Decimal(value)) for key, value in lived.bill._asdict().items()}
    return {
        **told,
        "rehearsal": {"seed": asked.seed, "days": asked.days, "requests": sum(lived.sends.values())},
        "bill": {**bill, "total": str(lived.bill.total)},
        "forecasts": [dict(one) for one in lived.state.forecasts.values()],
    }


__all__ = ["CannotCarry", "Carried", "Place", "drain", "forecast", "rehearsed", "resume", "start", "status"]
