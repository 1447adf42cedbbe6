"""What a job that is not submitted would meet: the next turn, decided on a copy of the board with it in.

The copy has one row more; the board that the scheduler works on is never touched. What is asked twice within
a second of one turn is decided once. Few are decided at a time, and those that can be left out (receipts)
take a fifth of a processor at most, so that a storm of submissions cannot take the scheduler's away from it.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np

from tenure.core.board import Board, Lab, as_kernels_want
from tenure.core.live import NEWS, News, live_turn_entry
from tenure.core.tables import columns, empty
from tenure.core.tell_one import Called, Instant
from tenure.core.words import NEVER_S, NONE, Happened, Phase
from tenure.daemon.asked import Door
from tenure.daemon.view import View
from tenure.service.live.moments import moments_of
from tenure.settings.job import JobFile
from tenure.settings.live_job import Submission

AT_A_TIME = 2
REST = 4  #: after a decision, as many times its length without one that can be left out
KEPT = 500
PATIENCE_S = 30.0
THIS = "this job"


class Foresight:
    """Answers of the newest turns. Safe to use from many threads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Any, dict[str, Any]] = OrderedDict()
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(AT_A_TIME)
        self._rested = 0.0  #: when the next decision that can be left out may be made

    def has_time(self) -> bool:
        """Whether a question that can be left out may be decided now."""
        return time.monotonic() >= self._rested

    def ask(
        self, view: View, job: Submission, called: Called, *, now_s: int, decide: bool = True
    ) -> dict[str, Any] | None:
        """What the next turn would make of the job: as `decided`.

        None where too many ask at once or, without `decide`, where nobody has asked the same at this second.
        """
        key = (view.turn, max(now_s, view.t), *(_frozen(getattr(job, name)) for name in JobFile.model_fields))
        with self._lock:
            found = self._kept.get(key)
        if found is not None or not decide:
            return found
        if not self._slots.acquire(timeout=PATIENCE_S):
            return None
        began = time.monotonic()
        try:
            found = decided(view, job, called, now_s)
        finally:
            self._slots.release()
            self._rested = time.monotonic() + REST * (time.monotonic() - began)
        with self._lock:
            self._kept[key] = found
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return found


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def decided(view: View, job: Submission, called: Called, now_s: int) -> dict[str, Any]:
    """Whether it starts at once, where and whom it stops; else why not, and the earliest start.

    Instants are seconds of the record.
    """
    lab, board, row = with_one_more(view, job)
    news = empty(1, NEWS, cluster=NONE, note=NONE, saved_s=NONE)
    now_s = max(now_s, view.t)
    news["t"], news["what"], news["row"] = now_s, News.SUBMIT, row
    seen = int(board.counts["n_out"][0])
    args = as_kernels_want(lab), as_kernels_want(board)
    live_turn_entry(*args, view.policy, columns(news), 1, 1, now_s)
    instant = Instant(lab, board, view.policy, with_this(called, row), now_s, moments_of(view))
    said = board.out[seen : int(board.counts["n_out"][0])]
    placements = board.placed[: int(board.counts["n_placed"][0])]
    phase = int(board.stays["phase"][row])
    mine = said[said["job"] == row]
    answer: dict[str, Any] = {
        "starts_now": phase == Phase.RUNNING,
        "reason": None,
        "need": None,
        "have": None,
    }
    if phase == Phase.RUNNING:
        started = mine[mine["event"] == Happened.STARTED][-1]
        answer |= instant.placed(started, placements)
        answer["sentence"] = instant.why_started(row, int(started["rule"]))
        answer["earliest_start"] = {"earliest_s": now_s, "latest_s": now_s}
        cluster, account = int(board.stays["cluster"][row]), int(board.stays["account"][row])
        answer["numbers"] = instant.standing(cluster, account)
    else:
        answer |= instant.why_waits(row)
    if phase == Phase.CLAIMING:
        answer |= instant.placed(mine[mine["event"] == Happened.CLAIMED][-1], placements)
    stops = said[(said["event"] == Happened.STOPPING) & (said["by"] == row)]
    answer["stops"] = [instant.stopped(one, asked=row) for one in stops]
    return answer


def with_this(called: Called, row: int) -> Called:
    """The names with one more, of the row asked about."""
    return called._replace(jobs=_Ids(called.jobs, row))


class _Ids:
    """The ids of a view, without copying them, and one more."""

    def __init__(self, ids: Sequence[str], row: int) -> None:
        self._ids, self._row = ids, row

    def __getitem__(self, row: int) -> str:
        return THIS if row == self._row else self._ids[row]


def with_one_more(view: View, job: Submission) -> tuple[Lab, Board, int]:
    """Lab and board of the view with a row more, of this job, which is absent so far; and that row.

    Raises BadInput where the job cannot be in this lab.
    """
    board = view.scratch()
    row = len(view.core.jobs)
    one = empty(1, view.core.jobs.dtype, first_entry=len(board.entries))
    for name, value in door_of(view).columns(job).items():
        one[name] = value
    jobs = np.concatenate([view.core.jobs, one])
    jobs.flags.writeable = False
    entries = empty(
        int(one["clusters"][0]).bit_count(), board.entries.dtype, next=NONE, prev=NONE, queue=NONE
    )
    entries["job"] = row
    stay = empty(1, board.stays.dtype, node=NONE, taker=NONE, plan=NONE, patient_s=NEVER_S)
    stay["account"], stay["gpus"] = one["account"], one["gpus"]
    stay["budgeted"] = one["min_runtime_s"] > 0
    board = board._replace(
        stays=np.concatenate([board.stays, stay]),
        entries=np.concatenate([board.entries, entries]),
        by_job=np.concatenate([board.by_job, empty(1, board.by_job.dtype)]),
    )
    return view.core._replace(jobs=jobs), board, row


def door_of(view: View) -> Door:
    """Checks a job against the lab of the view; work given to an inner account runs as its own leaf."""
    rows = view.lab.rows()
    own = {one.own_leaf_of: row for row, one in enumerate(view.lab.accounts) if one.own_leaf_of is not None}
    return Door(view.lab, view.gpu_types, {path: own.get(row, row) for path, row in rows.items() if path})
