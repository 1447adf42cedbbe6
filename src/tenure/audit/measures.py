"""The measures of a story: the same numbers whether it was simulated or lived."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tenure.audit.delivered import Delivery
from tenure.audit.hours import Hours, stretches
from tenure.audit.record import Record
from tenure.audit.span import AuditError
from tenure.audit.stays import GONE, RUNS, WAITS
from tenure.audit.waits import first_waits_of, head_waits_of, preemptions_of, waits_of
from tenure.core.words import End, Happened
from tenure.story.columns import Story

HOUR_S = 3600
NO_SPEED = {"wall_s": None, "jobs_per_s": None, "turns": None}


@dataclass(frozen=True)
class Measures:
    """What `--json` writes. GPU-hours, seconds, parts of one; None where there is nothing to divide by."""

    span_s: int
    seed: int
    policy: dict[str, Any]
    jobs: dict[str, int]
    gpu_hours: dict[str, float]
    gpu_s: dict[str, int]  #: the same, exact
    occupancy: float | None
    availability: float | None
    unbudgeted_share: float | None
    delivered: dict[str, Any]
    wait_s: dict[str, dict[str, Any]]
    first_wait_s: dict[str, dict[str, Any]]
    head_wait_s: dict[str, dict[str, Any]]  #: of multi-node jobs, from the head of their account
    preemptions: dict[str, Any]
    speed: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def measure(story: Story, *, since_s: int | None = None, speed: dict[str, Any] | None = None) -> Measures:
    """Measure a story from the end of its warm-up, or from `since_s`, to its end.

    `speed` {wall_s, jobs_per_s, turns}: how fast it was played, which a story does not know.
    Raises AuditError where the story contradicts itself.
    """
    record = Record(story, since_s=since_s)
    return measure_record(record, stretches(record), speed=speed)


def measure_record(
    record: Record, parts: Iterable[Hours], *, speed: dict[str, Any] | None = None
) -> Measures:
    """The measures, where the record is at hand, and its hours, in stretches one after another."""
    delivery, sums = Delivery(record), Counter[str]()
    for hours in parts:
        delivery.add(hours)
        sums.update(gpu_seconds(hours))
    gpu_s = dict(sums)
    busy = gpu_s["budgeted"] + gpu_s["unbudgeted"]
    healthy = gpu_s["capacity"] - gpu_s["down"]
    gpu_s["lost"] = lost_gpu_s(record)
    return Measures(
        span_s=record.span.length_s,
        seed=record.story.seed,
        policy=record.story.policy,
        jobs=jobs_of(record),
        gpu_hours={name: seconds / HOUR_S for name, seconds in gpu_s.items()},
        gpu_s=gpu_s,
        occupancy=busy / healthy if healthy else None,
        availability=healthy / gpu_s["capacity"] if gpu_s["capacity"] else None,
        unbudgeted_share=gpu_s["unbudgeted"] / busy if busy else None,
        delivered=delivery.measures(),
        wait_s=waits_of(record),
        first_wait_s=first_waits_of(record),
        head_wait_s=head_waits_of(record),
        preemptions=preemptions_of(record),
        speed={**NO_SPEED, **(speed or {})},
    )


def gpu_seconds(hours: Hours) -> dict[str, int]:
    """{capacity, down, idle, budgeted, unbudgeted}, exact: the first is the sum of the others (S4).

    Raises AuditError where more GPUs were held than there were: the story contradicts itself.
    """
    if (hours.idle_gpu_s < 0).any():
        cluster, hour = (int(at[0]) for at in np.nonzero(hours.idle_gpu_s < 0))
        raise AuditError(
            f"more GPUs were held than cluster {cluster} has, in the hour from {int(hours.edges[hour])} s on"
        )
    sums = {
        "capacity": int(hours.capacity_gpu_s.sum()),
        "down": int(hours.down_gpu_s.sum()),
        "idle": int(hours.idle_gpu_s.sum()),
        "budgeted": int(hours.held_gpu_s[:, 0, :].sum()),
        "unbudgeted": int(hours.unbudgeted_gpu_s.sum()),
    }
    assert sums["capacity"] == sum(gpu_s for name, gpu_s in sums.items() if name != "capacity")
    return sums


def lost_gpu_s(record: Record) -> int:
    """GPU-seconds of work lost by stops in the span, preempted or not."""
    events = record.story.events
    stops = events[events["event"] == Happened.STOPPED]
    return int(stops["y"][(stops["t"] >= record.span.start_s) & (stops["t"] <= record.span.end_s)].sum())


def jobs_of(record: Record) -> dict[str, int]:
    """Jobs submitted and ended in the span, and those waiting (on hold or not) or running at its end.

    An attempt that ended otherwise and was not queued again counts under how it ended.
    """
    span, p, events = record.span, record.phases, record.story.events
    within = (events["t"] >= span.start_s) & (events["t"] <= span.end_s)
    happened = events["event"][within]
    counts = {"submitted": int((happened == Happened.SUBMITTED).sum())}
    final = _final_ends(record)
    for end in (End.FINISHED, End.FAILED, End.CANCELLED):
        counts[end.name.lower()] = int((final == end).sum())
    counts["cancelled"] += int((happened == Happened.CANCELLED).sum())
    at_end = (p.from_s <= span.end_s) & (p.to_s > span.end_s)
    counts["waiting"] = int((at_end & (p.phase == WAITS)).sum())
    counts["running"] = int((at_end & (p.phase == RUNS)).sum())
    for end in (End.PREEMPTED, End.NODE_FAILED, End.TIMED_OUT):
        counts[end.name.lower()] = int((final == end).sum())
    return counts


def _final_ends(record: Record) -> NDArray[np.int64]:
    """Ends of attempts in the span after which their job did not come back."""
    a, p = record.attempts, record.phases
    last_phase = np.zeros(len(record.story.jobs), np.int64)
    last_phase[p.job] = p.phase  # the last assignment to a job is its last stretch
    last = np.ones(len(a.job), bool)
    last[:-1] = a.job[1:] != a.job[:-1]
    over = last & (a.stop_s >= record.span.start_s) & (a.stop_s <= record.span.end_s)
    gone = last_phase[a.job] == GONE
    return a.end[over & gone]
