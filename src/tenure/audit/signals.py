"""Signs of budgets used otherwise than meant: numbers to talk about, not verdicts.

- `splitting`: one job cut into many short ones, to have a fresh protection again and again or to look cheap.
  Seen as a *relay*: finished budgeted jobs of one account, size and declared minimum, each short, that
  follow each other with hardly a gap and hardly any overlap.
- `overdeclared`: finished jobs that declared a long minimum and used little of it: protected, and charged,
  for far longer than they needed; others could not plan with their GPUs.
- `idle_protected`: GPUs under protection that did hardly anything. A story shows it only where it carries
  `utilisation` events, which a simulation does not.

Thresholds stand in THRESHOLDS and are told with the signals.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tenure.audit.record import Record
from tenure.audit.sorting import distinct, numbered
from tenure.audit.stays import Attempts
from tenure.core.words import End, Happened

Ints = NDArray[np.int64]

THRESHOLDS = {
    "relay_jobs": 4,  #: a relay has at least so many jobs …
    "relay_job_s": 3600,  #: … each held for at most so long …
    "relay_gap_s": 300,  #: … and started at most so long after the last one stopped
    "relay_at_once": 1.5,  #: … on average at most so many at a time
    "declared_s": 3600,  #: a minimum counts as long from here on
    "used_part": 0.25,  #: … and as unused where the job took at most this part of it
    "busy_part": 0.1,  #: GPUs busy for at most this part are idle
}
HOUR_S = 3600


def signals_of(record: Record) -> dict[str, Any]:
    """{thresholds, found: [{signal, account, jobs, gpu_h, example, …}]}, by account and then by signal."""
    found = [*_splitting(record), *_overdeclared(record), *_idle_protected(record)]
    return {
        "thresholds": dict(THRESHOLDS),
        "found": sorted(found, key=lambda signal: (signal["account"], signal["signal"])),
    }


def _finished(record: Record) -> Ints:
    """Rows of the attempts of budgeted jobs that finished in the span, at the first attempt.

    After a stop little may be left to do: a short last attempt says nothing.
    """
    a, span = record.attempts, record.span
    within = (a.stop_s >= span.start_s) & (a.stop_s <= span.end_s)
    first = np.diff(a.job, prepend=-1) != 0
    return np.flatnonzero(within & first & (a.end == End.FINISHED) & record.budgeted[a.job])


def _by_account(record: Record, rows: Ints) -> Iterator[tuple[str, Ints]]:
    """(path, attempt rows) of each account with any."""
    account = record.account[record.attempts.job[rows]]
    for row in distinct(account).tolist():
        yield record.story.accounts[row].path, rows[account == row]


def _gpu_h(record: Record, rows: Ints, length_s: Ints) -> float:
    return int((record.gpus[record.attempts.job[rows]] * length_s).sum()) / HOUR_S


def _splitting(record: Record) -> Iterator[dict[str, Any]]:
    a = record.attempts
    rows = _finished(record)
    rows = rows[a.stop_s[rows] - a.start_s[rows] <= THRESHOLDS["relay_job_s"]]
    relay_of = _relays(record, a, rows)
    for path, mine in _by_account(record, rows[relay_of >= 0]):
        relay = relay_of[np.searchsorted(rows, mine)]
        held_s = a.stop_s[mine] - a.start_s[mine]
        numbers, place, sizes = np.unique(relay, return_inverse=True, return_counts=True)
        first, last = np.full(len(numbers), np.iinfo(np.int64).max), np.zeros(len(numbers), np.int64)
        np.minimum.at(first, place, a.start_s[mine])
        np.maximum.at(last, place, a.stop_s[mine])
        longest = int(np.argmax(sizes))
        yield {
            "signal": "splitting",
            "account": path,
            "jobs": len(mine),
            "gpu_h": _gpu_h(record, mine, held_s),
            "relays": len(numbers),
            "longest_jobs": int(sizes[longest]),
            "longest_h": int(last[longest] - first[longest]) / HOUR_S,
            "mean_job_s": int(held_s.sum()) / len(mine),
            "example": str(record.story.job_ids[a.job[mine[place == longest][0]]]),
        }


def _relays(record: Record, a: Attempts, rows: Ints) -> Ints:
    """For each row (ascending) the number of the relay it runs in, or -1."""
    if not len(rows):
        return rows
    job = a.job[rows]
    kind = numbered(record.account[job])[1]
    for same in (record.gpus, record.story.jobs["min_runtime_s"]):
        values, place = numbered(same[job])
        kind = numbered(kind * len(values) + place)[1]
    order = np.lexsort((a.start_s[rows], kind))
    kind, start_s, stop_s = kind[order], a.start_s[rows][order], a.stop_s[rows][order]
    apart = int(stop_s.max()) + int(THRESHOLDS["relay_gap_s"]) + 1  # keeps kinds apart on one axis
    latest = np.maximum.accumulate(stop_s + kind * apart)
    breaks = np.ones(len(rows), bool)
    breaks[1:] = start_s[1:] + kind[1:] * apart > latest[:-1] + THRESHOLDS["relay_gap_s"]
    breaks[1:] |= kind[1:] != kind[:-1]
    stretch = np.cumsum(breaks) - 1
    n = np.bincount(stretch)
    whole_s = np.maximum.reduceat(stop_s, np.flatnonzero(breaks)) - start_s[breaks]
    at_once = np.bincount(stretch, weights=stop_s - start_s) / np.maximum(whole_s, 1)
    relay = (n >= THRESHOLDS["relay_jobs"]) & (at_once <= THRESHOLDS["relay_at_once"])
    found = np.empty(len(rows), np.int64)
    found[order] = np.where(relay[stretch], stretch, -1)
    return found


def _overdeclared(record: Record) -> Iterator[dict[str, Any]]:
    a = record.attempts
    rows = _finished(record)
    declared_s = record.story.jobs["min_runtime_s"][a.job[rows]]
    protected_s = np.minimum(declared_s, a.protected_until_s[rows] - a.start_s[rows])
    long = rows[protected_s >= THRESHOLDS["declared_s"]]
    held_s = a.stop_s[long] - a.start_s[long]
    part = held_s / protected_s[protected_s >= THRESHOLDS["declared_s"]]
    little = part <= THRESHOLDS["used_part"]
    declaring = {path: len(mine) for path, mine in _by_account(record, long)}
    for path, mine in _by_account(record, long[little]):
        used_s = a.stop_s[mine] - a.start_s[mine]
        asked_s = a.protected_until_s[mine] - a.start_s[mine]
        worst = int(np.argmin(used_s / asked_s))
        yield {
            "signal": "overdeclared",
            "account": path,
            "jobs": len(mine),
            "gpu_h": _gpu_h(record, mine, used_s),
            "of_jobs": declaring[path],
            "declared_gpu_h": _gpu_h(record, mine, asked_s),
            "example": str(record.story.job_ids[a.job[mine[worst]]]),
            "example_declared_s": int(asked_s[worst]),
            "example_used_s": int(used_s[worst]),
        }


def _idle_protected(record: Record) -> Iterator[dict[str, Any]]:
    events, a = record.story.events, record.attempts
    told = np.flatnonzero(events["event"] == Happened.UTILISATION)
    if not len(told):
        return
    attempt_of = {
        (int(job), int(number)): row
        for row, (job, number) in enumerate(zip(a.job, events["attempt"][a.event], strict=True))
    }
    rows, since_s, until_s = [], [], []
    last_s: dict[int, int] = {}
    for event in events[told]:
        row = attempt_of.get((int(event["job"]), int(event["attempt"])))
        if row is None:
            continue
        from_s = max(last_s.get(row, int(a.start_s[row])), record.span.start_s)
        last_s[row] = int(event["t"])
        to_s = min(int(event["t"]), int(a.protected_until_s[row]), record.span.end_s)
        if event["x"] <= THRESHOLDS["busy_part"] * 1_000_000 and to_s > from_s:
            rows.append(row)
            since_s.append(from_s)
            until_s.append(to_s)
    where, length_s = np.array(rows, np.int64), np.array(until_s, np.int64) - np.array(since_s, np.int64)
    account = record.account[a.job[where]]
    for row in np.unique(account).tolist():
        mine = account == row
        yield {
            "signal": "idle_protected",
            "account": record.story.accounts[row].path,
            "jobs": len(np.unique(a.job[where[mine]])),
            "gpu_h": _gpu_h(record, where[mine], length_s[mine]),
            "example": str(record.story.job_ids[a.job[where[mine][int(np.argmax(length_s[mine]))]]]),
        }
