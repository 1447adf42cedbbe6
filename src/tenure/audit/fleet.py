"""A fleet as a story shows it: how many GPUs were there, worked, idled; what interrupted work; what was kept.

Every figure has its definition in MEANING, and shares of GPU-time are given over all GPUs and over healthy
ones, because the two are not one number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from tenure.audit.hours import stretches
from tenure.audit.measures import gpu_seconds, lost_gpu_s
from tenure.audit.record import Record
from tenure.core.words import NEVER_S, NONE, Cause, End, Happened, NodeState
from tenure.story.columns import Story

DAY_S = 86_400.0
MOST_RUNS = 20
AUTOMATIC = frozenset(("chance", "tenure", "health", "engine", ""))  #: who is no person, in a note's `by`
MEANING = {
    "active": "GPUs held by attempts, mean over the span",
    "spare": "healthy GPUs that nobody held, mean over the span",
    "down": "GPUs out of service, mean over the span",
    "availability": "healthy GPU-time ÷ all GPU-time",
    "interruptions": "attempts that ended before their work did; unplanned: its node died or it failed; "
    "planned: drained, moved or stopped by a person; by the scheduler: made way for other work",
    "manual": "what a person did to a node, a job or a share",
    "node_failures": "nodes told to be down that were not; ÷ node-days of all nodes",
    "goodput": "GPU-time held less GPU-time lost (work redone and restarts) ÷ all GPU-time, and ÷ healthy "
    "GPU-time",
    "effective_time": "of a run: time held less time lost ÷ its wall time, waiting in it; held: ÷ time held "
    "only",
}
PLANNED = {Cause.DRAIN: "drained", Cause.MOVED: "moved", Cause.FORCED: "stopped by a person"}


def fleet_of(story: Story, *, since_s: int | None = None) -> dict[str, Any]:
    """What a fleet's report says of a story. AuditError where the story contradicts itself."""
    record = Record(story, since_s=since_s)
    sums: Counter[str] = Counter()
    for hours in stretches(record):
        sums.update(gpu_seconds(hours))
    span_s = record.span.length_s
    held, healthy = sums["budgeted"] + sums["unbudgeted"], sums["capacity"] - sums["down"]
    kept = held - lost_gpu_s(record)
    return {
        "name": story.lab,
        "from": "a story",
        "span_days": span_s / DAY_S,
        "nodes": len(story.nodes),
        "gpus": {
            "all": int(record.capacity.sum()),
            "active": held / span_s if span_s else None,
            "spare": sums["idle"] / span_s if span_s else None,
            "down": sums["down"] / span_s if span_s else None,
        },
        "availability": _over(healthy, sums["capacity"]),
        "interruptions": interruptions_of(record),
        "manual": manual_of(record),
        "node_failures": _node_failures(record),
        "goodput": {"of_all": _over(kept, sums["capacity"]), "of_healthy": _over(kept, healthy)},
        "held": {"of_all": _over(held, sums["capacity"]), "of_healthy": _over(held, healthy)},
        "runs": runs_of(record),
        "policy": str(story.policy.get("name", "unnamed")),
    }


def _over(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _within(record: Record) -> np.ndarray:
    events = record.story.events
    return (events["t"] >= record.span.start_s) & (events["t"] <= record.span.end_s)


def interruptions_of(record: Record) -> dict[str, Any]:
    """Counts by what interrupted, in three groups: unplanned, planned, scheduler."""
    events = record.story.events
    within = _within(record)
    groups: dict[str, Counter[str]] = {"unplanned": Counter(), "planned": Counter(), "scheduler": Counter()}
    why = _reasons_of_nodes(record.story)
    stopping = _last_stopping(record.story)
    for row in np.flatnonzero(within & (events["event"] == Happened.STOPPED)):
        end, t, job = int(events["code"][row]), int(events["t"][row]), int(events["job"][row])
        if end == End.NODE_FAILED:
            groups["unplanned"][why.get(t, "node down")] += 1
        elif end == End.FAILED:
            groups["unplanned"]["job failed"] += 1
        elif end == End.PREEMPTED:
            cause, person = stopping.get((job, int(events["attempt"][row])), (int(Cause.PREEMPTED), False))
            named = "stopped by a person" if person else PLANNED.get(Cause(cause))
            groups["planned" if named else "scheduler"][named or "made way for other work"] += 1
    return {
        name: {"total": sum(counts.values()), "causes": dict(counts.most_common())}
        for name, counts in groups.items()
    }


def _reasons_of_nodes(story: Story) -> dict[int, str]:
    """Why nodes went down at each instant at which any did."""
    events, found = story.events, {}
    for row in np.flatnonzero((events["event"] == Happened.NODE) & (events["code"] == NodeState.DOWN)):
        note = int(events["y"][row])
        told = story.notes[note] if 0 <= note < len(story.notes) else {}
        found[int(events["t"][row])] = str(told.get("reason") or "node down")
    return found


def _last_stopping(story: Story) -> dict[tuple[int, int], tuple[int, bool]]:
    """(cause, whether a person did it) of each attempt that was told to stop."""
    events = story.events
    rows = np.flatnonzero(events["event"] == Happened.STOPPING)
    return {
        (int(events["job"][row]), int(events["attempt"][row])): (
            int(events["code"][row]),
            bool(events["n_nodes"][row]),
        )
        for row in rows
    }


def manual_of(record: Record) -> dict[str, int]:
    """What people did, by what they did it to."""
    story, counts = record.story, Counter[str]()
    events = story.events
    noted = (Happened.NODE, Happened.SHARE, Happened.CANCELLED, Happened.HELD, Happened.RELEASED)
    for row in np.flatnonzero(_within(record)):
        kind = Happened(int(events["event"][row]))
        if kind == Happened.STOPPING and events["n_nodes"][row]:
            counts["jobs stopped"] += 1
        elif kind in noted:
            note = int(events["y"][row])
            told: Mapping[str, Any] = story.notes[note] if note != NONE and note < len(story.notes) else {}
            by = str(told.get("by") or "")
            if by not in AUTOMATIC and not by.startswith("tenure"):
                name = {Happened.NODE: "nodes", Happened.SHARE: "shares"}.get(kind, "jobs")
                counts[name] += 1
    return dict(counts)


def _node_failures(record: Record) -> dict[str, float]:
    """Times a node went down, and the node-days over which; a service makes a rate of them."""
    events, failures = record.story.events, 0
    state: dict[int, int] = {}
    within = _within(record)
    for row in np.flatnonzero(events["event"] == Happened.NODE):
        node, now = int(events["by"][row]), int(events["code"][row])
        if now == NodeState.DOWN and state.get(node) != now and within[row]:
            failures += 1
        state[node] = now
    return {"events": failures, "node_days": len(record.story.nodes) * record.span.length_s / DAY_S}


def runs_of(record: Record) -> list[dict[str, Any]]:
    """The largest jobs of more than one node: how much of their time they worked and kept."""
    story, tries = record.story, record.attempts
    start_s, end_s = record.span.start_s, record.span.end_s
    biggest = max((node.gpus for node in story.nodes), default=0)
    lost: Counter[int] = Counter()
    stops: Counter[int] = Counter()
    events = story.events
    for row in np.flatnonzero(_within(record) & (events["event"] == Happened.STOPPED)):
        job = int(events["job"][row])
        lost[job] += int(events["y"][row])
        stops[job] += int(events["code"][row]) in (End.NODE_FAILED, End.FAILED, End.PREEMPTED)
    held: Counter[int] = Counter()
    for job, begin, stop in zip(tries.job.tolist(), tries.start_s.tolist(), tries.stop_s.tolist()):
        held[job] += max(0, min(stop, end_s) - max(begin, start_s))
    ended = {int(j): int(s) for j, s in zip(tries.job, tries.stop_s)}  # the last attempt's end
    found: list[dict[str, Any]] = []
    for job in sorted(held, key=lambda job: (-int(record.gpus[job]), job)):
        gpus = int(record.gpus[job])
        if gpus <= biggest or not held[job] or len(found) >= MOST_RUNS:
            continue
        begin = max(start_s, int(story.jobs["submit_s"][job]))
        wall = min(end_s, ended[job] if ended[job] < NEVER_S else end_s) - begin
        kept = max(0.0, held[job] - lost[job] / gpus)
        found.append(
            {
                "run": str(story.job_ids[job]),
                "gpus": gpus,
                "wall_h": wall / 3600.0,
                "interruptions": stops[job],
                "effective_time": _over(kept, wall),
                "effective_time_held": _over(kept, held[job]),
            }
        )
    return found
