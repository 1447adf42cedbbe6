"""What jobs did when: their attempts, and how long they were in each phase."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tenure.core.words import NEVER_S, End, Happened
from tenure.story.columns import Story

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

GONE, WAITS, RUNS = 0, 1, 2
PHASE_AFTER = {
    Happened.SUBMITTED: WAITS,
    Happened.REQUEUED: WAITS,
    Happened.STARTED: RUNS,
    Happened.STOPPED: GONE,
    Happened.CANCELLED: GONE,
}


class Attempts(NamedTuple):
    """One row a start, by job and then in time. `stop_s` is NEVER_S while it runs; `event`: its STARTED."""

    event: Ints
    job: Ints
    start_s: Ints
    stopping_s: Ints  #: told to stop; NEVER_S if never
    stop_s: Ints
    protected_until_s: Ints
    cluster: Ints
    n_nodes: Ints
    end: Ints  #: words.End


class Phases(NamedTuple):
    """One row for each stretch of a job's life, by job and then in time."""

    job: Ints
    from_s: Ints
    to_s: Ints  #: NEVER_S: not over
    phase: Ints  #: GONE, WAITS, RUNS
    held: Bools  #: a person's hold is on it
    since_s: Ints  #: its last submission or requeue
    after_node_failure: Bools  #: its last attempt ended with its node
    cluster: Ints  #: of its last attempt, or -1
    opens: Bools  #: the stretch begins with a start


def events_of_jobs(story: Story, kinds: tuple[Happened, ...]) -> Ints:
    """Rows of these events, by job and then in time (the story's own order within an instant)."""
    rows = np.flatnonzero(np.isin(story.events["event"], kinds))
    return rows[np.argsort(story.events["job"][rows], kind="stable")]


def attempts_of(story: Story) -> Attempts:
    rows = events_of_jobs(story, (Happened.STARTED, Happened.STOPPING, Happened.STOPPED))
    events = story.events[rows]
    starts = events["event"] == Happened.STARTED
    which = np.cumsum(starts) - 1  # the attempt a row speaks of: the last one started before it
    at = np.flatnonzero(starts)
    n = len(at)
    # a row before its job's first start would speak of another job's attempt
    own = (
        (which >= 0) & (events["job"] == events["job"][at[np.maximum(which, 0)]]) if n else np.zeros(0, bool)
    )
    stopping_s, stop_s = np.full(n, NEVER_S), np.full(n, NEVER_S)
    end = np.full(n, End.NOT_YET, np.int64)
    told = np.flatnonzero(own & (events["event"] == Happened.STOPPING))[::-1]  # the first telling stays
    stopping_s[which[told]] = events["t"][told]
    over = np.flatnonzero(own & (events["event"] == Happened.STOPPED))
    stop_s[which[over]], end[which[over]] = events["t"][over], events["code"][over]
    begun = events[at]
    return Attempts(
        rows[at],
        begun["job"].astype(np.int64),
        begun["t"].copy(),
        stopping_s,
        stop_s,
        begun["x"].copy(),
        begun["code"].astype(np.int64),
        begun["n_nodes"].astype(np.int64),
        end,
    )


def last_where(marks: Bools, first: Ints) -> Ints:
    """For each row the last marked row up to it within its group, or -1. `first`: the group's first row."""
    rows = np.where(marks, np.arange(len(marks)), -1)
    last = np.maximum.accumulate(rows) if len(rows) else rows
    return np.where(last >= first, last, -1)


def phases_of(story: Story) -> Phases:
    rows = events_of_jobs(story, (*PHASE_AFTER, Happened.HELD, Happened.RELEASED))
    events = story.events[rows]
    rows = rows[events["job"] >= 0]
    events = events[events["job"] >= 0]
    kind, job, t = events["event"], events["job"].astype(np.int64), events["t"]
    n = len(rows)
    new = np.ones(n, bool)
    new[1:] = job[1:] != job[:-1]
    first = np.maximum.accumulate(np.where(new, np.arange(n), 0)) if n else np.zeros(0, np.int64)
    to_s = np.full(n, NEVER_S)
    to_s[:-1] = np.where(new[1:], NEVER_S, t[1:])

    def told(last: Ints, value: NDArray[np.generic], otherwise: int) -> Ints:
        return np.where(last >= 0, value[np.maximum(last, 0)], otherwise).astype(np.int64)

    after = np.zeros(max(Happened) + 1, np.int64)
    for happened, phase in PHASE_AFTER.items():
        after[happened] = phase
    moved = last_where(np.isin(kind, tuple(PHASE_AFTER)), first)
    hold = last_where(np.isin(kind, (Happened.HELD, Happened.RELEASED)), first)
    since = last_where(np.isin(kind, (Happened.SUBMITTED, Happened.REQUEUED)), first)
    stop = last_where(kind == Happened.STOPPED, first)
    start = last_where(kind == Happened.STARTED, first)
    return Phases(
        job,
        t.copy(),
        to_s,
        told(moved, after[kind], GONE),
        told(hold, kind, Happened.RELEASED) == Happened.HELD,
        told(since, t, 0),
        told(stop, events["code"], End.NOT_YET) == End.NODE_FAILED,
        told(start, events["code"], -1),
        kind == Happened.STARTED,
    )
