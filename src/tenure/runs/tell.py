"""How does a run stand? Its timeline to the minute, days, money, deadlines; all from its book.

Read by people, by `run status`, by a rehearsal's page: all three tell the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from math import isfinite
from typing import Any

from tenure.runs.deadlines import ladder_of
from tenure.runs.goodput import apart, money, sums
from tenure.runs.hook import Hook
from tenure.runs.state import State
from tenure.runs.words import Event
from tenure.settings.run_file import Run

Body = Mapping[str, Any]


def iso(at: float | None) -> str | None:
    """ISO 8601, UTC, to the second; None where it is never."""
    if at is None or not isfinite(at):
        return None
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _nodes(names: Sequence[str]) -> str:
    return f"{len(names)} node{'s' if len(names) != 1 else ''}"


def _launch(body: Body) -> str:
    where = f"into {body['window']}" if body["window"] else "on demand"
    least = "all or none" if body["at_least"] == body["count"] else f"at least {body['at_least']}"
    return f"launch of {body['count']} nodes {where} ({least})"


def _forecast(body: Body) -> str:
    if "cannot" in body:
        return f"forecast ({body['due']}): not yet: {body['cannot']}"
    over = f"overrun {body['p_overrun']:.1%}" if body["rest_days"] is not None else "all done"
    if body.get("lent") and body["rest_days"] is not None:
        return f"forecast ({body['due']}): {body['rest_days']:.2f} days of training are left"
    if body["extend"]:
        gain = body["cost_without"] - body["cost"]
        return (
            f"forecast ({body['due']}): {over}; extend by {body['extend_days']:g} d for "
            f"{float(body['extend_fee']):,.0f}, saves {gain:,.0f}"
        )
    why = "nothing on offer" if not body["offers"] else "not worth it"
    return f"forecast ({body['due']}): {over}; no extension ({why})"


def _window(body: Body) -> str:
    end = iso(body["end"])
    if body.get("soft"):
        many = f"{body['nodes']} node{'s' if body['nodes'] != 1 else ''}"
        until = f"protected until {end}" if body["end"] > body["start"] else body["said"]
        return f"{body['id']}: {many}, {until}"
    return f"window {body['id']} is {body['state']}: {body['nodes']} nodes until {end}"


#: One line an event; kinds that are not here are not told.
SENTENCES: dict[str, Callable[[Body], str]] = {
    "run_begun": lambda b: f"the run begins: {b['tokens']:.4g} tokens on {b['nodes']} nodes",
    "purchase_planned": lambda b: f"{b['by']} signs for {b['offer']['fee']} {b['offer']['currency']}",
    "purchase_approved": lambda b: f"{b['by']} says yes",
    "purchase_intended": lambda b: f"buys {b['offer']['id']} ({b['kind']}), sent once",
    "purchase_made": lambda b: f"bought: {b['window']} until {iso(b['end'])}",
    "purchase_refused": lambda b: f"the purchase was refused: {b['message']}",
    "window_adopted": lambda b: f"window {b['window']} is the run's",
    "window_seen": _window,
    "phase_entered": lambda b: f"{b['phase']}: {b['why']}",
    "launch_intended": _launch,
    "launched": lambda b: f"{_nodes(b['nodes'])} launched",
    "launch_refused": lambda b: f"launch refused: {b['code']}: {b['message']}",
    "launching_paused": lambda b: f"no launch until {iso(b['until'])}: {b['why']}",
    "gate_passed": lambda b: f"the gang passed its test: {b['text']}",
    "gate_failed": lambda b: f"the gang failed its test: {b['text']}",
    "attempt_started": lambda b: f"attempt {b['attempt']} from step {max(0, b['from_step'])}",
    "attempt_queued": lambda b: f"attempt {b['attempt']} is queued: {b['why']}",
    "attempt_placed": lambda b: f"attempt {b['attempt']} runs since {iso(b['since'])}",
    "attempt_stopping": lambda b: f"attempt {b['attempt']} is told to stop: {b['why']}",
    "attempt_ended": lambda b: f"attempt {b['attempt']} {b['end']}: {b['why']}",
    "trainer_asked": lambda b: f"asked to {b['kind']} by {iso(b['deadline'])}: {b['reason']}",
    "save_measured": lambda b: f"a save takes up to {b['save_s']:.0f} s, a step {b['step_s']:.1f} s",
    "release_intended": lambda b: f"{_nodes(b['nodes'])} let go",
    "release_failed": lambda b: f"nodes not let go: {b['said']}",
    "window_left": lambda b: f"window {b['window']} is left",
    "forecast_made": _forecast,
    "extension_wanted": lambda b: f"wants {b['days']:g} d more for {b['fee']} {b['currency']}",
    "extension_tried": lambda b: f"extension {b['state']}: {b['text']}",
    "extension_pursued": lambda b: f"extension {b['state']}: {b['text']}",
    "alarm_raised": lambda b: f"ALARM {b['mode']}: {b['text']}",
    "alarm_cleared": lambda b: f"over: {b['mode']}",
    "drain_asked": lambda b: (
        f"{b.get('by', 'somebody')} asks it to drain" + (f": {b['reason']}" if b.get("reason") else "")
    ),
    "resume_asked": lambda b: f"{b.get('by', 'somebody')} asks it to go on",
    "run_finished": lambda b: (
        f"finished: {b['tokens']:.6g} tokens in the verified checkpoint of step {b['step']}"
    ),
}


def timeline(events: Sequence[Event]) -> list[dict[str, Any]]:
    """A line an event that a person would want to know of."""
    return [
        {"at": iso(event.at), "kind": event.kind, "text": SENTENCES[event.kind](event.body)}
        for event in events
        if event.kind in SENTENCES
    ]


def fees(state: State, events: Sequence[Event]) -> dict[str, float]:
    """What each window and extension cost: by the purchases; else what the provider tells."""
    made = {event.body["intent"]: event for event in events if event.kind == "purchase_made"}
    failed = {event.body["intent"] for event in events if event.kind == "purchase_failed"}
    told: dict[str, float] = {}
    for event in events:
        if event.kind == "purchase_intended" and event.body["intent"] in made:
            if event.body["intent"] not in failed:
                bought = made[event.body["intent"]].body
                name = bought["extension"] or bought["window"]
                told[name] = told.get(name, 0.0) + float(Decimal(event.body["offer"]["fee"]))
    for window in state.windows.values():
        if window.id not in told and window.fee is not None:
            told[window.id] = float(window.fee)
    return told


def deadlines(run: Run, terminates_s: float, state: State) -> list[dict[str, Any]]:
    """Of each window that is not over."""
    found = []
    for window in sorted(state.windows.values(), key=lambda one: one.start):
        if not window.promised:
            continue
        rungs = ladder_of(window, terminates_s, run, state)
        found.append(
            {
                "window": window.id,
                "state": window.state,
                "start": iso(window.start),
                "checkpoint": iso(rungs.checkpoint),
                "drain": iso(rungs.drain),
                "term": iso(rungs.term),
                "end": iso(rungs.end),
            }
        )
    return found


def days(state: State) -> list[dict[str, Any]]:
    """Each day's goodput, taken apart."""
    return [
        {
            "day": told["day"],
            "until": iso(told["until"]),
            **told["of_day"],
            "so_far": told["so_far"]["goodput"],
        }
        for told in state.days
    ]


def standing(
    run: Run, terminates_s: float, state: State, events: Sequence[Event], hook: Hook, now: float
) -> dict[str, Any]:
    """All of it."""
    live = state.live
    beats = hook.beats(live.number) if live is not None else {}
    reached = min((beat.tokens for beat in beats.values()), default=0.0)
    ended = max((attempt.tokens for attempt in state.attempts), default=0.0)
    kept = state.final["tokens"] if state.final else _kept(state, beats)
    over = state.final is not None
    total = sums(run, state, hook, now, kept, whole=over)
    return {
        "run": run.file.run,
        "now": iso(now),
        "phase": state.phase,
        "since": iso(state.since) if state.since else None,
        "tokens": {"target": run.tokens, "reached": max(reached, ended), "kept": kept},
        "attempts": [
            {
                "attempt": attempt.number,
                "nodes": len(attempt.nodes),
                "windows": list(attempt.windows),
                "started": iso(attempt.started),
                "ended": iso(attempt.ended),
                "end": attempt.end,
            }
            for attempt in state.attempts
        ],
        "deadlines": deadlines(run, terminates_s, state),
        "save_s": state.save_s,
        "goodput": {**apart(run, total), "gpu_hours_paid": total.paid},
        "days": days(state),
        "money": money(run, state, now, fees(state, events)),
        "forecast": _newest(state),
        "alarms": [dict(told) for told in state.alarms.values()],
        "final": None if state.final is None else dict(state.final),
        "timeline": timeline(events),
    }


def _kept(state: State, beats: Mapping[int, Any]) -> float:
    said = max((beat.committed_tokens for beat in beats.values()), default=0.0)
    before = max((max(attempt.from_tokens, attempt.kept) for attempt in state.attempts), default=0.0)
    return max(0.0, said, before)


def _newest(state: State) -> dict[str, Any] | None:
    return dict(list(state.forecasts.values())[-1]) if state.forecasts else None
