"""What is done while a run trains? Watch it, ask for saves by the clock, leave in time, and say how it ended.

The last save of a window is asked for by the deadline ladder, never by a provider's warning. An extension
that is bought and not paid by then counts as failed; where it is paid later, the window is a place again. The
trainer holds the same deadlines itself, so what is asked here late or not at all is done there.
"""

from __future__ import annotations

from datetime import UTC, datetime
from math import isfinite
from typing import Any

from tenure.planner.forecast_answer import ASKED_AT
from tenure.providers.protocol import GONE, RUNNING, STARTING, Window
from tenure.runs.assembling import finish
from tenure.runs.deciding import Deciding
from tenure.runs.heartbeats import stall_of, unsafe_of
from tenure.runs.look import (
    ABSENT,
    ENDED,
    QUEUED,
    UNDER_WAY,
    AskTrainer,
    Forecast,
    StartTrainer,
    StopTrainer,
    TellWindow,
    TrainerSeen,
    computing_s,
)
from tenure.runs.state import (
    ASSEMBLING,
    CUT_OFF,
    DRAINED,
    DRAINING,
    EXIT_INCOMPLETE,
    FAILED,
    FINISHED,
    INCOMPLETE,
    PAUSED,
    WAITING,
    Attempt,
)
from tenure.trainer.words import STARTING as STARTING_UP

DAY_S, HOUR_S = 86400.0, 3600.0
GONE_AGAIN_S = 10.0  #: what was told to stop is looked for so often
STOP_AGAIN_S = 120.0  #: past its grace; told again, and a person is called


def train(d: Deciding) -> None:
    """In `running` and `draining`."""
    live = d.live
    if live is None:  # its end is written; where it goes on was not
        leave(d, "the attempt has ended")
        return
    tell_window(d, live)
    note_beats(d, live)
    trainer = d.look.trainer
    rungs = d.term()
    if live.stopping:
        await_end(d, live)
        return
    if trainer is not None and trainer.state == ENDED:
        ended(d, live, trainer)
        return
    if trainer is not None and trainer.state == QUEUED:
        queued(d, live, trainer)
        return
    if trainer is not None and trainer.state == UNDER_WAY and trainer.placed is not None:
        placed(d, live, trainer.placed)
    if rungs is not None and d.now >= rungs.term:
        stop(d, live, CUT_OFF, "the window's end came first")
        return
    if d.complete and d.state.request is None:
        ask(d, "drain", "all tokens are in a verified checkpoint", d.now + HOUR_S)
    gone = lost_nodes(d, live)
    if gone:
        stop(d, live, FAILED, f"{', '.join(gone[:4])} lost")
        return
    if trainer is not None and trainer.state == ABSENT:
        d.acts.append(StartTrainer(live.number, live.nodes))
    if watch(d, live):
        return
    deadlines(d, live)
    if d.state.phase != DRAINING:
        forecasts(d)


def queued(d: Deciding, live: Attempt, trainer: TrainerSeen) -> None:
    """A scheduler has it in its queue, at first or again: it is not silent, and there is nobody to ask."""
    if live.waiting is None:
        computed = computing_s(d.look.beats, live.placed)
        d.event("attempt_queued", {"attempt": live.number, "computing_s": computed, "why": trainer.detail})
    if d.state.drain_asked:
        stop(d, live, DRAINED, "a person asked it to drain while it was queued")
        return
    since = d.now if live.waiting is None else live.waiting
    long_at = since + d.run.file.alarms.late_start
    d.wake_at(long_at)
    if d.now >= long_at:
        text = f"attempt {live.number} has been queued for {(d.now - since) / HOUR_S:.1f} h: {trainer.detail}"
        d.alarm("queued", text)


def placed(d: Deciding, live: Attempt, since: float) -> None:
    """The scheduler runs it, or runs it elsewhere."""
    if live.waiting is None and live.placed == since:
        return
    if live.waiting is None and isfinite(live.placed):  # both ends of the queue lay between two looks
        computed = computing_s(d.look.beats, live.placed)
        told = {"attempt": live.number, "computing_s": computed, "why": "it was interrupted"}
        d.event("attempt_queued", told)
    d.event("attempt_placed", {"attempt": live.number, "since": since})


def stop(d: Deciding, live: Attempt, how: str, why: str) -> None:
    """End the attempt's processes. The attempt itself ends once they are seen to be gone."""
    d.event("attempt_stopping", {"attempt": live.number, "end": how, "why": why})
    d.acts.append(StopTrainer(live.number))
    d.wake_at(d.now + GONE_AGAIN_S)


def await_end(d: Deciding, live: Attempt) -> None:
    """
    Told to stop: it may yet save for as long as `launch.grace`, and the next must not train beside it.

    A silent engine says nothing of its end, so it is waited for; only nodes that are all gone say as much.
    """
    trainer, nodes = d.look.trainer, d.look.nodes
    here = {node.id for node in nodes or () if node.state != GONE}
    nodes_gone = nodes is not None and here.isdisjoint(live.nodes)
    if nodes_gone or (trainer is not None and trainer.state in (ENDED, ABSENT)):
        end(d, live, live.stopped_as, live.why)
        return
    d.wake_at(d.now + GONE_AGAIN_S)
    over = d.now - live.stopping - d.run.file.launch.grace
    if over >= STOP_AGAIN_S:
        how = "nobody can see whether it has ended" if trainer is None else "it is still there"
        text = f"attempt {live.number} was told to stop {d.now - live.stopping:.0f} s ago and {how}"
        d.alarm("trainer not ended", f"{text}: nothing is started beside it")
    told = max(live.stopping, live.stop_told)
    if (
        d.now - told >= STOP_AGAIN_S or told < d.look.since <= d.now
    ):  # by one that may have died before it was
        d.event("stop_repeated", {"attempt": live.number})
        d.acts.append(StopTrainer(live.number))


def tell_window(d: Deciding, live: Attempt) -> None:
    """The trainer's own copy of the deadlines, anew where they have moved."""
    rungs = d.term()
    body: dict[str, Any] = {
        "run": d.run.file.run,
        "attempt": live.number,
        "window": ",".join(live.windows),
        "margin_s": d.run.file.deadlines.margin,
    }
    times = (None, None, None) if rungs is None else (rungs.checkpoint, rungs.drain, rungs.term)
    for key, instant in zip(("checkpoint_at", "drain_at", "ends_at"), times):
        body[key] = None if instant is None or not isfinite(instant) else instant
    if rungs is not None and body["checkpoint_at"] is not None and body["ends_at"] is None:
        body["until"] = rungs.end  # of a protection: a checkpoint is due before it, and nobody has to leave
    if d.look.window_told != body:
        d.acts.append(TellWindow(body))


def note_beats(d: Deciding, live: Attempt) -> None:
    """First step, and the time of saves and steps: what the deadlines hang from."""
    beats = d.look.beats.values()
    if not beats:
        return
    if live.first_beat is None and has_stepped(d):
        d.event("attempt_stepped", {"attempt": live.number})
    save = max(beat.save_p99_s for beat in beats)
    step = max(beat.step_s for beat in beats)
    known = d.state.save_s or 0.0
    if save > known * 1.01 or step > d.state.step_s * 1.2:
        d.event("save_measured", {"save_s": max(save, known) or d.save_s, "step_s": step})


def has_stepped(d: Deciding) -> bool:
    """Whether every rank that speaks has left its start behind."""
    beats = d.look.beats.values()
    return bool(beats) and all(beat.step >= 0 and beat.state != STARTING_UP for beat in beats)


def lost_nodes(d: Deciding, live: Attempt) -> list[str]:
    """Nodes of the attempt that are gone or going; none where the provider is silent."""
    if d.look.nodes is None:
        return []
    up = {node.id for node in d.look.nodes if node.state in (STARTING, RUNNING) and node.healthy is not False}
    return [node for node in live.nodes if node not in up]


def watch(d: Deciding, live: Attempt) -> bool:
    """
    Steps that stop. True where the attempt is stopped for it.

    Silence counts from when this controller could hear: an old heartbeat at its first look is no silence.
    """
    alarms, beats = d.run.file.alarms, d.look.beats.values()
    again = isfinite(live.placed)  # started anew by a scheduler: what was asked of it before is no request
    unsafe = unsafe_of(beat for beat in beats if not (again and beat.state == STARTING_UP))
    if unsafe:
        rungs = d.term()
        d.alarm("drain not taken up", "; ".join(unsafe[:4]), None if rungs is None else rungs.term)
    moved = isfinite(live.placed) and all(beat.alive_at < live.placed for beat in beats)
    if (live.first_beat is None and not has_stepped(d)) or moved:
        began = max(live.started, live.placed)
        began_by = max(began, d.look.since) + d.run.file.gang.start_within
        d.wake_at(began_by)
        if d.now >= began_by:
            d.alarm("no heartbeat", f"attempt {live.number} has not stepped for {d.now - began:.0f} s")
            stop(d, live, FAILED, "no heartbeat")
            return True
        return False
    if not beats:
        text = "no heartbeat can be read any more; the trainer holds the deadlines that it knows"
        d.alarm("hook silent", text, None if (rungs := d.term()) is None else rungs.term)
        return False
    newest = max(beat.at for beat in beats)
    stall = stall_of(d.look.beats, d.now, least_s=alarms.stall)
    d.wake_at(newest + alarms.stall)
    if stall is None:
        return False
    silent_at = max(newest, d.look.since, live.placed) + alarms.silent
    d.alarm("stall", stall.text, silent_at)
    d.wake_at(silent_at)
    if d.now >= silent_at and d.state.phase != DRAINING:
        stop(d, live, FAILED, stall.text)
        return True
    return False


def deadlines(d: Deciding, live: Attempt) -> None:
    """Ask for saves and the drain when they are due."""
    rungs = d.term()
    if rungs is not None:
        for instant in (rungs.checkpoint, rungs.drain, rungs.term):
            d.wake_at(instant)
    asked = d.state.request or {}
    if asked.get("kind") == "drain":
        if d.look.request_told is None or d.look.request_told.get("id") != asked["id"]:
            d.acts.append(AskTrainer(asked))
        return
    margin = d.run.file.deadlines.margin
    if d.state.drain_asked:
        ask(d, "drain", "a person asked for it", d.now + 2 * d.save_s + margin)
    elif rungs is not None and d.now >= rungs.drain:
        pending = "; the extension is not paid" if d.pending_extension() else ""
        ask(d, "drain", f"the window ends{pending}", rungs.term - margin)
    elif rungs is None and d.places():
        ask(d, "drain", f"window {d.places()[0].id} is active: on-demand ends", d.now + 2 * d.save_s + margin)
    elif rungs is not None and d.now >= rungs.checkpoint and asked.get("until") != rungs.end:
        what = "the window's end" if isfinite(rungs.term) else "the end of the protection"
        ask(d, "checkpoint", f"{what} is near", min(rungs.drain, rungs.end - margin), until=rungs.end)
    elif asked and (d.look.request_told is None or d.look.request_told.get("id") != asked["id"]):
        d.acts.append(AskTrainer(asked))


def ask(d: Deciding, kind: str, reason: str, deadline: float, until: float | None = None) -> None:
    """Write a request and put it where the trainer looks."""
    live = d.live
    assert live is not None
    which = f"{kind}-{live.number}-{int(deadline)}"
    body: dict[str, Any] = {"id": which, "kind": kind, "deadline": deadline, "reason": reason}
    body |= {"attempt": live.number, "until": until}
    d.event("trainer_asked", body)
    d.acts.append(AskTrainer(body))
    if kind == "drain":
        d.enter(DRAINING, reason)


def forecasts(d: Deciding) -> None:
    """Each day, at fixed parts of the window, and each hour of its last day."""
    live, began = d.live, d.state.began
    if live is None or began is None or not live.windows:
        return
    known = [found for which in live.windows if (found := d.window(which))]
    if not known:
        return
    window = min(known, key=lambda one: one.end)
    due = due_forecast(window, began, d.now, min(d.ladder(window).drain, window.end))
    if window.soft:  # nothing is bought by it: a forecast a day
        days = int((d.now - began) / DAY_S)
        due = f"day {days}" if days else ""
    if due and due not in d.state.forecasts:
        d.acts.append(Forecast(due, window.id))
    day = began + (int((d.now - began) / DAY_S) + 1) * DAY_S
    d.wake_at(day)
    for part in ASKED_AT:
        d.wake_at(window.start + part * (window.end - window.start))


def due_forecast(window: Window, began: float, now: float, drain: float) -> str:
    """The newest forecast that is due by now; "" where none is."""
    if now >= drain:
        return ""
    days = int((now - began) / DAY_S)
    due = [(began + days * DAY_S, f"day {days}")] if days else []
    length = window.end - window.start
    due += [(window.start + part * length, f"{part:.0%} of {window.id}") for part in ASKED_AT]
    hours = int((drain - now) / HOUR_S)
    if hours < 24 and drain - now < 0.5 * length:
        ends = datetime.fromtimestamp(window.end, UTC).strftime("%Y-%m-%dT%H:%MZ")
        which = f"{hours + 1} h before {window.id} ends at {ends}"
        due.append((drain - (hours + 1) * HOUR_S, which))
    past = [one for one in due if one[0] <= now]
    return max(past)[1] if past else ""


def ended(d: Deciding, live: Attempt, trainer: TrainerSeen) -> None:
    """The trainer's processes are gone: how did it end?"""
    asked = d.state.request or {}
    if d.look.kept is None:
        d.alarm("store silent", "the trainer has ended, and what it saved is not known")
        return
    if trainer.done and not d.complete:
        text = f"the trainer says that all is done; {d.kept.tokens:.6g} of {d.run.tokens:.6g} tokens are kept"
        d.alarm("lost final checkpoint", text)
    if trainer.done or d.complete:
        end(d, live, FINISHED if d.complete else FAILED, "it says that all is done")
    elif trainer.exit_code == 0:
        end(d, live, DRAINED, str(asked.get("reason") or "it drained by itself"))
    elif trainer.exit_code == EXIT_INCOMPLETE:
        end(d, live, INCOMPLETE, "it left without its last save")
    else:
        rungs = d.term()
        late = rungs is not None and d.now >= rungs.drain
        end(d, live, CUT_OFF if late else FAILED, trainer.detail or f"exit {trainer.exit_code}")


def end(d: Deciding, live: Attempt, how: str, why: str) -> None:
    """Write the attempt's end, judge its last save, and go on."""
    reached = d.reached()
    body = {"attempt": live.number, "end": how, "why": why, "tokens": reached}
    computing = live.computed_s + computing_s(d.look.beats, live.placed)
    d.event("attempt_ended", {**body, "kept": d.kept.tokens, "computing_s": computing})
    if how in (DRAINED, INCOMPLETE, CUT_OFF) and reached > d.kept.tokens + 0.5:
        lost = reached - d.kept.tokens
        text = (
            f"attempt {live.number} ended ({how}) and {lost:,.0f} tokens past step {d.kept.step} "
            "are in no verified checkpoint"
        )
        d.alarm("lost final checkpoint", text)
    if how == FINISHED:
        finish(d)
    elif how == FAILED:
        rungs = d.term()
        on_demand = not live.windows
        if not on_demand and rungs is not None and d.now + d.run.file.deadlines.least > rungs.drain:
            leave(d, f"attempt {live.number} failed too near the window's end to begin again")
        else:
            d.enter(ASSEMBLING, f"attempt {live.number} failed: {why}", on_demand=on_demand)
    else:
        leave(d, f"attempt {live.number}: {how}")


def leave(d: Deciding, why: str) -> None:
    """Leave the place for good, unless it grows."""
    last = d.state.attempts[-1]
    for which in last.windows:
        window = d.window(which)
        if window is not None and not window.soft and d.state.spent.get(which, 0.0) < window.end:
            rungs = d.ladder(window)
            if d.now + d.run.file.deadlines.least > rungs.drain:
                d.event("window_left", {"window": which, "end": window.end})
    d.enter(PAUSED if d.state.drain_asked else WAITING, why)
