"""What jobs did when: their attempts, and how long they were in each phase."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

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

    job: NDArray[Any]
    from_s: Ints
    to_s: Ints  #: NEVER_S: not over
    phase: NDArray[Any]  #: GONE, WAITS, RUNS
    held: Bools  #: a person's hold is on it
    since_s: Ints  #: its last submission or requeue
    after_node_failure: Bools  #: its last attempt ended with its node
    cluster: Ints  #: of its last attempt, or -1
    opens: Bools  #: the stretch begins with a start


def among(events: NDArray[Any], kinds: Iterable[int]) -> Bools:
    """Which events (words.Happened, small numbers) are of these kinds."""
    wanted = np.zeros(max(Happened) + 1, bool)
    wanted[list(kinds)] = True
    return wanted[events]


def events_of_jobs(story: Story, kinds: Iterable[Happened]) -> Ints:
    """Rows of these events, by job and then in time (the story's own order within an instant)."""
    rows = np.flatnonzero(among(story.events["event"], kinds) & (story.events["job"] >= 0))
    return rows[np.argsort(story.events["job"][rows], kind="stable")]


def attempts_of(story: Story) -> Attempts:
    rows = events_of_jobs(story, (Happened.STARTED, Happened.STOPPING, Happened.STOPPED))
    kind, job, t, code = (story.events[name][rows] for name in ("event", "job", "t", "code"))
    starts = kind == Happened.STARTED
    which = np.cumsum(starts) - 1  # the attempt a row speaks of: the last one started before it
    at = np.flatnonzero(starts)
    n = len(at)
    # a row before its job's first start would speak of another job's attempt
    own = (which >= 0) & (job == job[at[np.maximum(which, 0)]]) if n else np.zeros(0, bool)
    stopping_s, stop_s = np.full(n, NEVER_S), np.full(n, NEVER_S)
    end = np.full(n, End.NOT_YET, np.int64)
    told = np.flatnonzero(own & (kind == Happened.STOPPING))[::-1]  # the first telling stays
    stopping_s[which[told]] = t[told]
    over = np.flatnonzero(own & (kind == Happened.STOPPED))
    stop_s[which[over]], end[which[over]] = t[over], code[over]
    begun = story.events[rows[at]]
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
    kind, job, t, code = (story.events[name][rows] for name in ("event", "job", "t", "code"))
    n = len(rows)
    new = np.ones(n, bool)
    new[1:] = job[1:] != job[:-1]
    first = np.maximum.accumulate(np.where(new, np.arange(n), 0)) if n else np.zeros(0, np.int64)
    to_s = np.full(n, NEVER_S)
    to_s[:-1] = np.where(new[1:], NEVER_S, t[1:])

    def told(by: Iterable[int], value: NDArray[Any], otherwise: int) -> NDArray[Any]:
        """The value at the last event of these kinds so far."""
        last = last_where(among(kind, by), first)
        return np.where(last >= 0, value[np.maximum(last, 0)], value.dtype.type(otherwise))

    after = np.zeros(max(Happened) + 1, np.int8)
    for happened, phase in PHASE_AFTER.items():
        after[happened] = phase
    return Phases(
        job,
        t,
        to_s,
        told(PHASE_AFTER, after[kind], GONE),
        told((Happened.HELD, Happened.RELEASED), kind, Happened.RELEASED) == Happened.HELD,
        told((Happened.SUBMITTED, Happened.REQUEUED), t, 0),
        told((Happened.STOPPED,), code, End.NOT_YET) == End.NODE_FAILED,
        told((Happened.STARTED,), code, -1).astype(np.int64),
        kind == Happened.STARTED,
    )
