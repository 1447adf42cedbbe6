"""How long jobs waited, by group, and how often they were stopped."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tenure.audit.record import Record
from tenure.audit.sorting import distinct
from tenure.audit.stays import WAITS
from tenure.core.words import NEVER_S, End, Happened, Kind

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

DEBUG_GPUS = 8
DEBUG_S = 900
STILL_WAITING_S = 29_160  #: 8.1 h: a job that never started counts once it has waited so long
HOUR_S = 3600
DAY_S = 86400


def groups_of(record: Record) -> dict[str, Bools]:
    """(jobs,) membership. A debug job is one of at most 8 GPUs and 15 minutes, whatever it says it is."""
    jobs = record.story.jobs
    short = (jobs["min_runtime_s"] > 0) & (jobs["min_runtime_s"] <= DEBUG_S)
    return {
        "all": np.ones(len(jobs), bool),
        "debug": short & (jobs["gpus"] <= DEBUG_GPUS),
        "gang": record.is_gang,
        "session": jobs["kind"] == Kind.SESSION,
        "unbudgeted": ~record.budgeted,
        "budgeted": record.budgeted,
    }


def waits_of(record: Record) -> dict[str, dict[str, Any]]:
    """Submission or requeue to start, a value for each start in the span."""
    job, wait_s, _ = starts_of(record)
    return summaries(record, job, wait_s)


def starts_of(record: Record) -> tuple[Ints, Ints, Ints]:
    """(job, seconds waited, instant) of each start in the span."""
    p = record.phases
    rows = np.flatnonzero(p.opens)
    rows = rows[(p.from_s[rows] >= record.span.start_s) & (p.from_s[rows] <= record.span.end_s)]
    return p.job[rows], p.from_s[rows] - p.since_s[rows], p.from_s[rows]


def first_waits_of(record: Record) -> dict[str, dict[str, Any]]:
    """Submission to first start, of jobs submitted in the span.

    A job that waits at the end and never started counts with its wait so far if that is over 8.1 h; one on
    hold does not, and neither does one that left before it started.
    """
    job, wait_s = first_waits(record)
    return summaries(record, job, wait_s)


def first_waits(record: Record) -> tuple[Ints, Ints]:
    """(job, seconds)."""
    p, span = record.phases, record.span
    submit_s: Ints = record.story.jobs["submit_s"]
    recent = (submit_s >= span.start_s) & (submit_s <= span.end_s)
    started = np.zeros(len(submit_s), bool)
    opens = np.flatnonzero(p.opens & (p.from_s <= span.end_s))
    opens = opens[np.diff(p.job[opens], prepend=-1) != 0]  # rows are by job and then in time: the first
    job = p.job[opens]
    started[job] = True
    first_s = p.from_s[opens]
    mine = recent[job]
    job, waited = job[mine], (first_s - submit_s[job])[mine]
    open_ = (p.from_s <= span.end_s) & (p.to_s > span.end_s) & (p.phase == WAITS) & ~p.held
    still = distinct(p.job[open_])
    still = still[recent[still] & ~started[still] & (span.end_s - submit_s[still] > STILL_WAITING_S)]
    return np.concatenate([job, still]), np.concatenate([waited, span.end_s - submit_s[still]])


def head_waits_of(record: Record) -> dict[str, dict[str, Any]]:
    """Seconds from a multi-node job's coming to the head of its account to its next start.

    Of jobs that came there in the span, each once; one that has not started by the end counts with its time
    so far, one that left does not. `large`: jobs of a quarter of their cluster or more.
    """
    p, span, events = record.phases, record.span, record.story.events
    told = np.flatnonzero((events["event"] == Happened.FIRST_AT_HEAD) & (events["t"] >= span.start_s))
    jobs, nth = np.unique(events["job"][told], return_index=True)
    head_s = np.full(len(record.gpus), NEVER_S)
    head_s[jobs] = events["t"][told[nth]]
    rows = np.flatnonzero(p.opens & (p.from_s >= head_s[p.job]))
    rows = rows[np.diff(p.job[rows], prepend=-1) != 0]
    until_s = np.full(len(record.gpus), NEVER_S)
    until_s[p.job[(p.phase == WAITS) & (p.to_s > span.end_s)]] = span.end_s
    until_s[p.job[rows]] = p.from_s[rows]
    found = jobs[until_s[jobs] < NEVER_S]
    wait_s = until_s[found] - head_s[found]
    return {"all": summary(wait_s), "large": summary(wait_s[record.is_large[found]])}


def summaries(record: Record, job: Ints, values: Ints) -> dict[str, dict[str, Any]]:
    return {group: summary(values[member[job]]) for group, member in groups_of(record).items()}


def summary(values: Ints) -> dict[str, Any]:
    """{n, mean, p50, p90, p99, max}, percentiles nearest-rank; None where there is no value."""
    n = len(values)
    if n == 0:
        return {"n": 0, "mean": None, "p50": None, "p90": None, "p99": None, "max": None}
    ordered = np.sort(values)
    rank = {f"p{p}": int(ordered[-(-p * n // 100) - 1]) for p in (50, 90, 99)}
    return {"n": n, "mean": int(ordered.sum()) / n, **rank, "max": int(ordered[-1])}


def preemptions_of(record: Record) -> dict[str, Any]:
    """Attempts in the span that ended `preempted`, for whatever cause: all, budgeted, unbudgeted."""
    events = record.story.events
    stops = events[(events["event"] == Happened.STOPPED) & (events["code"] == End.PREEMPTED)]
    stops = stops[(stops["t"] >= record.span.start_s) & (stops["t"] <= record.span.end_s)]
    charged = record.budgeted[stops["job"]]

    def counted(chosen: Bools) -> dict[str, Any]:
        job, lost = stops["job"][chosen], stops["y"][chosen]
        days = record.span.length_s / DAY_S
        return {
            "count": len(job),
            "per_day": len(job) / days if days else None,
            "lost_gpu_h": int(lost.sum()) / HOUR_S,
            "max_per_job": int(np.bincount(job).max()) if len(job) else 0,
        }

    whole = counted(np.ones(len(stops), bool))
    return whole | {"budgeted": counted(charged), "unbudgeted": counted(~charged)}
