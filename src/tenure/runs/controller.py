"""How is a run carried to its end? Look, decide, write, act; again and again, by whoever holds its lease.

Everything that is to be done is in the book before it is done, and every act may be repeated: a controller
that dies at any point is followed by another that reads the book, looks, and goes on. What is decided is
decided in `decide`, a pure function; this file only looks and acts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tenure.engines.clock import Clock
from tenure.planner.forecast_answer import ASKED_AT
from tenure.providers.protocol import (
    ACTIVE,
    ATTEMPT_TAG,
    GONE,
    RUN_TAG,
    Extension,
    NoCapacity,
    Node,
    Offer,
    ProviderError,
    Refused,
    Window,
)
from tenure.runs import look as looks
from tenure.runs.decide import decide
from tenure.runs.deciding import DONE_PART, Deciding
from tenure.runs.foretelling import extensions_on_sale, paid_time
from tenure.runs.goodput import days_due, tell_day
from tenure.runs.heartbeats import RankBeat
from tenure.runs.look import NOTHING_KEPT, Act, Kept, Look, TrainerSeen
from tenure.runs.outlook import outlook
from tenure.runs.parts import NothingHolds, Parts, PartSilent
from tenure.runs.state import ASSEMBLING, DONE, DRAINING, RUNNING, State
from tenure.runs.words import AlreadyRecorded
from tenure.settings.errors import BadInput
from tenure.settings.run_file import Run

LEASE_S = 300.0
SILENT = (ProviderError, BadInput)  #: a file that an operator is just writing is silence too
MOST_TURNS = 12  #: in one step: what follows at once from what was done
VERIFY_AGAIN_S = 3600.0


class HeldByAnother(Exception):
    """Another controller carries this run: the text says who."""


class Verified(NamedTuple):
    """The newest verified checkpoint, as it was read when the trainer said so."""

    at: float
    said: tuple[Any, ...]
    kept: Kept


class Controller:
    """Carries one run. `holder`: its name in the lease."""

    def __init__(self, run: Run, parts: Parts, clock: Clock, holder: str) -> None:
        self.run, self.parts, self.clock, self.holder = run, parts, clock, holder
        self.state = State()
        self.terminates_s = parts.provider.capability.terminates_s
        self._applied = 0
        self._verified: Verified | None = None
        self._nodes: dict[str, Node] = {}
        self._hook_says = ""
        self._shelf_says = ""
        self._since: float | None = None
        self._looked, self._heard = 0.0, True

    # --- one carrier -----------------------------------------------------------------------------------
    def adopt(self) -> None:
        """Take the run, new or left by another. HeldByAnother while somebody carries it."""
        if not self.parts.book.claim(self.holder, self._lease_s):
            raise HeldByAnother(f"{self.run.file.run}: carried by {self.parts.book.holder()}")
        self._catch_up()
        if not self.parts.book.events("run_begun"):
            self._record("run_begun", {"nodes": self.run.nodes, "tokens": self.run.tokens})
        if self.state.releasing:  # who wrote that may have died before it was done
            self._release(looks.Release(tuple(self.state.releasing)))
        for window in self.run.file.given:
            if window not in self.state.bought:
                self._record("window_adopted", {"window": window}, f"adopted/{window}")

    def close(self) -> None:
        """Let go of the run; what trains goes on training."""
        self.parts.book.let_go()

    @property
    def _lease_s(self) -> float:
        return max(LEASE_S, 3 * self.run.file.poll)

    def carry(self) -> State:
        """Step until the run is done."""
        while True:
            wake = self.step()
            if self.finished:
                return self.state
            self.clock.wait(max(0.2, wake - self.clock.now()))

    @property
    def finished(self) -> bool:
        """Done, and no node is left that might bill."""
        return self.state.phase == DONE and not self._nodes and not self.state.releasing

    @property
    def reached(self) -> float:
        """Tokens trained on so far, of the slowest rank; saved or not."""
        live = self.state.live
        beats = self.parts.hook.beats(live.number).values() if live is not None else ()
        told = [attempt.tokens for attempt in self.state.attempts]
        return max([0.0, *told, min((beat.tokens for beat in beats), default=0.0)])

    # --- a step ----------------------------------------------------------------------------------------
    def step(self) -> float:
        """Look, decide, write, act, until nothing more follows; when to look again.

        Raises Fenced where another controller has taken the run: stop at once.
        """
        wake = self.clock.now()
        self._keep_lease(always=False)
        self._pursue()
        for _ in range(MOST_TURNS):
            self._catch_up()
            seen = self._look()
            turn = decide(self.run, self.terminates_s, self.state, seen)
            for kind, body, key in turn.events:
                self._record(kind, body, key)
            if turn.acts:
                self._keep_lease(always=True)
            for act in turn.acts:
                self._do(act, seen)
            wake = turn.wake
            if not turn.acts and not any(kind == "phase_entered" for kind, _, _ in turn.events):
                break
        self._tell_days()
        return wake

    def _keep_lease(self, *, always: bool) -> None:
        """Before anything is done, and in time. Raises Fenced."""
        lease = self.parts.book.lease
        if always or lease is None or lease.until - self.clock.now() < self._lease_s / 2:
            self.parts.book.renew(self._lease_s)

    def _catch_up(self) -> None:
        for event in self.parts.book.after(self._applied):
            self.state.apply(event)
            self._applied = event.number

    def _record(self, kind: str, body: Mapping[str, Any], key: str = "") -> bool:
        try:
            event = self.parts.book.record(kind, body, key=key)
        except AlreadyRecorded:
            return False  # an earlier controller has written it
        if event.number == self._applied + 1:
            self.state.apply(event)
            self._applied = event.number
        else:
            self._catch_up()
        return True

    def _pursue(self) -> None:
        """Extensions that waited for a person or for an answer."""
        if self.parts.extend is not None and self.state.wanted:
            for told in self.parts.extend.pursue():
                self._record("extension_pursued", {"state": told.state, "text": told.text})

    # --- looking ---------------------------------------------------------------------------------------
    def _look(self) -> Look:
        parts, state = self.parts, self.state
        tag = (RUN_TAG, self.run.file.run)
        windows, nodes = self._windows(), self._nodes_of(tag)
        live = state.live
        attempt = live.number if live is not None else 0
        beats = parts.hook.beats(attempt) if attempt else {}
        trainer = self._trainer(attempt) if attempt else None
        kept = self._kept(beats, trainer)
        now = self.clock.now()
        return Look(
            at=now,
            windows=windows,
            nodes=nodes,
            extensions=self._extensions(windows or ()),
            free=self._free(windows or (), nodes),
            trainer=trainer,
            beats=beats,
            kept=kept,
            request_told=parts.hook.request() if attempt else None,
            window_told=parts.hook.window() if attempt else None,
            hook_says=self._hook_says if attempt else "",
            since=self._listening_since(now, bool(beats) or not attempt),
            shelf_says=self._shelf_says,
        )

    def _listening_since(self, now: float, hears: bool) -> float:
        """Since when silence of the trainer is its own: looked steadily, and heartbeats could be read."""
        paused = now - self._looked > self.run.file.alarms.silent  # a machine that slept, not a slow look
        if self._since is None or paused or (hears and not self._heard):
            self._since = now
        self._looked, self._heard = now, hears
        return self._since

    def _windows(self) -> Sequence[Window] | None:
        if not self.state.bought:
            return []
        try:
            return self.parts.provider.windows(ids=self.state.bought)
        except SILENT:
            return None

    def _nodes_of(self, tag: tuple[str, str]) -> Sequence[Node] | None:
        try:
            found = [node for node in self.parts.provider.nodes(tag) if node.state != GONE]
        except SILENT:
            return None
        self._nodes = {node.id: node for node in found}
        return found

    def _extensions(self, windows: Sequence[Window]) -> list[Extension]:
        """Asked only where some were bought."""
        found: list[Extension] = []
        for window in windows:
            if window.id in self.state.extended:
                try:
                    found += self.parts.provider.extensions(window)
                except ProviderError:
                    continue
        return found

    def _free(self, windows: Sequence[Window], nodes: Sequence[Node] | None) -> dict[str, int]:
        """Asked only while nodes are wanted, or are billed on demand."""
        outside = any(not node.window for node in nodes or ())
        if self.state.phase != ASSEMBLING and not outside:
            return {}
        found = {}
        for window in windows:
            if window.state == ACTIVE:
                try:
                    found[window.id] = self.parts.provider.health(window).free
                except ProviderError:
                    continue
        return found

    def _trainer(self, attempt: int) -> TrainerSeen | None:
        try:
            return self.parts.trainer.seen(attempt)
        except PartSilent:
            return None

    def _kept(self, beats: Mapping[int, RankBeat], trainer: TrainerSeen | None) -> Kept | None:
        """
        The newest verified checkpoint: read again when a rank says it has committed one, or to be sure.

        The last one of a place, and the one that would end the run, by every byte.
        """
        ended = trainer is not None and trainer.state == looks.ENDED
        last = ended and (self.state.phase == DRAINING or (trainer is not None and trainer.exit_code == 0))
        anew = ended or self.state.phase != RUNNING
        said = (len(self.state.attempts), max((beat.committed_step for beat in beats.values()), default=-1))
        now, known = self.clock.now(), self._verified
        if not anew and known is not None and known.said == said and now - known.at < VERIFY_AGAIN_S:
            return known.kept
        try:
            kept = self.parts.shelf.newest(self._reading if last else None)
            idle = self.state.live is None and self.state.phase != DONE
            if not last and (ended or idle) and kept.tokens >= self.run.tokens * DONE_PART:
                kept = self.parts.shelf.newest(self._reading)
        except PartSilent as silent:
            self._shelf_says = str(silent) if isinstance(silent, NothingHolds) else ""
            return None
        self._shelf_says = self._emptied(kept)
        if self._shelf_says:
            return None
        self._verified = Verified(now, said, kept)
        return kept

    def _emptied(self, kept: Kept) -> str:
        """Why an empty store is not believed: a verified checkpoint in it is known of; "" where none is."""
        if kept != NOTHING_KEPT:
            return ""
        known = [max(one.from_tokens, one.kept) for one in self.state.attempts]
        known += [] if self._verified is None else [self._verified.kept.tokens]
        most = max(known, default=0.0)
        if most <= 0:
            return ""
        return f"the store is empty, and {most:,.0f} tokens were kept there: is its disk mounted?"

    def _reading(self, count: int) -> None:
        """Many bytes take long: meanwhile the run stays ours. Raises Fenced."""
        self._keep_lease(always=False)

    # --- acting ----------------------------------------------------------------------------------------
    def _do(self, act: Act, seen: Look) -> None:
        match act:
            case looks.Launch():
                self._launch(act, seen)
            case looks.Release():
                self._release(act)
            case looks.StartTrainer():
                self._start(act)
            case looks.StopTrainer():
                self._stop(act)
            case looks.AskTrainer():
                self._tell(self.parts.hook.ask, act.body)
            case looks.TellWindow():
                self._tell(self.parts.hook.tell_window, act.body)
            case looks.Gate():
                self._gate(act, seen)
            case looks.Forecast():
                self._forecast(act, seen)
            case looks.Extend():
                pass
            case looks.Sound():
                self.parts.sound(act)

    def _tell(self, put: Callable[[Mapping[str, Any]], None], body: Mapping[str, Any]) -> None:
        """Into the hook's folder. A full or absent one is told at the next look; it is tried again then."""
        try:
            put(body)
        except OSError as failed:
            self._hook_says = str(failed)
        else:
            self._hook_says = ""

    def _launch(self, act: looks.Launch, seen: Look) -> None:
        window = next((one for one in seen.windows or () if one.id == act.window), None)
        tags = {RUN_TAG: self.run.file.run, ATTEMPT_TAG: str(len(self.state.attempts) + 1)}
        try:
            got = self.parts.provider.launch(act.token, act.nodes, act.at_least, window, tags)
        except Refused as refused:
            body = {"token": act.token, "code": refused.code, "message": refused.message}
            self._record("launch_refused", {**body, "full": isinstance(refused, NoCapacity)})
        except ProviderError:
            return  # not sent, or unclear: the same token again at the next look
        else:
            self._record("launched", {"token": act.token, "nodes": [one.id for one in got]})

    def _release(self, act: looks.Release) -> None:
        try:
            self.parts.provider.terminate(act.nodes)
        except ProviderError as failed:
            self._record("release_failed", {"nodes": list(act.nodes), "said": str(failed)})

    def _start(self, act: looks.StartTrainer) -> None:
        nodes = [self._nodes[node] for node in act.nodes if node in self._nodes]
        try:
            self.parts.trainer.start(act.attempt, nodes)
        except PartSilent:
            return  # it is seen as absent, and started at the next look

    def _stop(self, act: looks.StopTrainer) -> None:
        try:
            self.parts.trainer.stop(act.attempt)
        except PartSilent:
            return

    def _gate(self, act: looks.Gate, seen: Look) -> None:
        if self.parts.gate is None:
            self._record("gate_passed", {"nodes": list(act.nodes), "text": "nothing is tested"})
            return
        nodes = [self._nodes[node] for node in act.nodes if node in self._nodes]
        windows = [one for one in seen.windows or () if one.id in act.windows]
        gated = self.parts.gate(nodes, windows)
        if gated.passed:
            self._record("gate_passed", {"nodes": list(act.nodes), "text": gated.text})
        else:
            self._record(
                "gate_failed", {"nodes": list(act.nodes), "text": gated.text, "slow": list(gated.slow)}
            )

    def _forecast(self, act: looks.Forecast, seen: Look) -> None:
        """Forecast; from the middle of the window on, what is found worth it is bought.

        Before, little is known and nothing is lost by waiting.
        """
        d = Deciding(self.run, self.terminates_s, self.state, seen)
        window = d.window(act.window)
        if window is None:
            return
        paid = paid_time(d, window)
        wanted = self.run.file.extend and not d.pending_extension()
        offers = extensions_on_sale(self.parts.provider, window) if wanted else []
        times = {"left_s": paid.left, "usable_s": paid.usable}
        told = outlook(self.run, self.state, d.now, tokens=d.reached(), **times, offers=offers)
        self._record(
            "forecast_made",
            {"due": act.due, "window": window.id, "lent": window.soft, **told},
            f"forecast/{act.due}",
        )
        chosen = next((offer for offer in offers if offer.id == told.get("extend")), None)
        if chosen is not None and d.now >= window.start + ASKED_AT[0] * (window.end - window.start):
            self._want(window, chosen, told)

    def _want(self, window: Window, offer: Offer, told: Mapping[str, Any]) -> None:
        body = {
            "offer": offer.id,
            "window": window.id,
            "days": told["extend_days"],
            "fee": str(offer.fee),
            "currency": offer.currency,
            "saves": told["cost_without"] - told["cost"],
        }
        self._record("extension_wanted", body, f"extension/{offer.id}")
        if self.parts.extend is None:
            return
        bought = self.parts.extend(window, offer)
        self._record("extension_tried", {"offer": offer.id, "state": bought.state, "text": bought.text})

    def _tell_days(self) -> None:
        kept = self._verified.kept.tokens if self._verified is not None else 0.0
        for day in days_due(self.state, self.clock.now()):
            told = tell_day(self.run, self.state, self.parts.hook, day, max(0.0, kept))
            self._record("day_told", told, f"day/{day}")
