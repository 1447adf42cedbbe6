"""The cluster as a picture: which attempt held which GPU when, as compact columns.

A story says how many GPUs an attempt held on which node, not which ones. A lane stands for a GPU: an attempt
gets the first free lanes of its node that lie together, or, where there are none, the first free ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tenure.audit.span import span_of
from tenure.core.tables import B1, I1, I2, I4, I8, Table, table_type
from tenure.core.words import NEVER_S, NONE, Happened, NodeState
from tenure.story.columns import Story

#: One row an attempt that started.
ATTEMPT = table_type(
    start_s=I8,
    end_s=I8,  #: until_s where it still runs
    protected_s=I8,  #: interruptible from here on; start_s where unbudgeted
    planned_s=I8,  #: when its promise was given, or NONE
    promised_s=I8,  #: the start promised, or NONE
    lost_gpu_s=I8,
    ratios=I8,  #: as in the story: mine << 32 | theirs, parts per million; 0 where not told
    nodes_at=I8,
    job=I4,
    attempt=I4,
    by=I4,  #: job it was stopped for, or NONE
    n_nodes=I4,
    started_by=I2,  #: words.Rule
    stopped_by=I2,  #: words.Rule
    end=I1,  #: words.End
    cause=I1,  #: words.Cause of the stop
    unbudgeted=B1,
)

#: One row a block of neighbouring lanes that an attempt held.
BAR = table_type(attempt=I4, lane=I4, lanes=I4)

#: One row an interval in which a node took nothing new.
OUTAGE = table_type(start_s=I8, end_s=I8, node=I4, state=I1)


@dataclass(frozen=True)
class Picture:
    """Bars over lanes. Lanes of node n are `lane0[n]` … `lane0[n + 1] - 1`."""

    attempts: Table  #: ATTEMPT, by start
    bars: Table  #: BAR
    outages: Table  #: OUTAGE
    lane0: NDArray[np.int64]
    left_out: int = 0  #: attempts too small to draw, see `thinned`
    left_out_gpu_h: float = 0.0


def _keys(job: NDArray[np.int32], attempt: NDArray[np.int32]) -> NDArray[np.int64]:
    return job.astype(np.int64) << 24 | attempt.astype(np.int64)


def attempts_of(story: Story) -> Table:
    """Every attempt of the story, in order of start."""
    events, jobs = story.events, story.jobs
    started = events[events["event"] == Happened.STARTED]
    rows = np.zeros(len(started), ATTEMPT)
    job = started["job"]
    rows["job"], rows["attempt"], rows["start_s"] = job, started["attempt"], started["t"]
    rows["nodes_at"], rows["n_nodes"] = started["nodes_at"], started["n_nodes"]
    rows["started_by"] = started["rule"]
    rows["unbudgeted"] = jobs["min_runtime_s"][job] == 0
    rows["protected_s"] = np.where(rows["unbudgeted"], started["t"], np.minimum(started["x"], NEVER_S))
    rows["end_s"] = span_of(story).end_s
    rows["by"] = rows["planned_s"] = rows["promised_s"] = NONE
    keys = _keys(job, started["attempt"])
    order = np.argsort(keys, kind="stable")
    for event in (Happened.STOPPING, Happened.STOPPED):
        told = events[events["event"] == event]
        if not len(told) or not len(rows):
            continue
        wanted = _keys(told["job"], told["attempt"])
        at = np.minimum(np.searchsorted(keys[order], wanted), len(order) - 1)
        row = order[at]
        fits = keys[row] == wanted
        row, told = row[fits], told[fits]
        if event == Happened.STOPPED:
            rows["end_s"][row], rows["end"][row], rows["lost_gpu_s"][row] = told["t"], told["code"], told["y"]
        else:
            rows["cause"][row], rows["by"][row], rows["stopped_by"][row] = (
                told["code"],
                told["by"],
                told["rule"],
            )
            rows["ratios"][row] = told["y"]
    _add_promises(events, rows, keys, order)
    return rows


def _add_promises(events: Table, rows: Table, keys: NDArray[np.int64], order: NDArray[np.intp]) -> None:
    """The last promise still in force when the attempt started, with when it was first given."""
    told = events[(events["event"] == Happened.PLANNED) | (events["event"] == Happened.UNPLANNED)]
    promise: dict[int, tuple[int, int]] = {}
    by_job: dict[int, list[tuple[int, int, int]]] = {}
    for event in told:
        by_job.setdefault(int(event["job"]), []).append(
            (int(event["t"]), int(event["event"]), int(event["x"]))
        )
    for job, words in by_job.items():
        low, high = np.searchsorted(keys[order], [job << 24, (job + 1) << 24])
        for row in order[low:high]:
            promise.pop(job, None)
            start = int(rows["start_s"][row])
            before = [word for word in words if word[0] <= start]
            for t, event, at_s in before:
                if event == Happened.PLANNED:
                    promise[job] = (promise.get(job, (t, 0))[0], at_s)
                elif t < start:
                    promise.pop(job, None)
            words = [word for word in words if word[0] > start]
            if job in promise:
                rows["planned_s"][row], rows["promised_s"][row] = promise[job]


@lru_cache(maxsize=1 << 16)
def _take(free: int, gpus: int, width: int) -> tuple[int, tuple[tuple[int, int], ...]]:
    """Lanes for `gpus` out of the free ones (bit = lane): what is left free, and blocks (first, count)."""
    run = free
    for _ in range(gpus - 1):
        run &= run >> 1
    if run:
        first = (run & -run).bit_length() - 1
        return free & ~(((1 << gpus) - 1) << first), ((first, gpus),)
    lanes = [lane for lane in range(width) if free >> lane & 1][:gpus]
    # a story that gives away more GPUs than a node has is drawn over itself, not refused
    lanes += [lane for lane in range(width) if lane not in lanes][: gpus - len(lanes)]
    blocks: list[tuple[int, int]] = []
    for lane in sorted(lanes):
        free &= ~(1 << lane)
        if blocks and sum(blocks[-1]) == lane:
            blocks[-1] = (blocks[-1][0], blocks[-1][1] + 1)
        else:
            blocks.append((lane, 1))
    return free, tuple(blocks)


def _lanes(story: Story, attempts: Table, lane0: NDArray[np.int64]) -> Table:
    """BARs of all attempts; what ends at an instant frees its lanes before what starts then takes them."""
    width = [node.gpus for node in story.nodes]
    free = [(1 << gpus) - 1 for gpus in width]
    first = lane0.tolist()
    node_of, gpus_of = story.placements["node"].tolist(), story.placements["gpus"].tolist()
    nodes_at, n_nodes = attempts["nodes_at"].tolist(), attempts["n_nodes"].tolist()
    ends = np.argsort(attempts["end_s"], kind="stable").tolist()
    end_s, start_s = attempts["end_s"].tolist(), attempts["start_s"].tolist()
    held: dict[int, list[tuple[int, int]]] = {}
    bars: list[tuple[int, int, int]] = []
    next_end = 0
    for row, start in enumerate(start_s):
        while next_end < len(ends) and end_s[ends[next_end]] <= start:
            for node, mask in held.pop(ends[next_end], ()):
                free[node] |= mask
            next_end += 1
        for place in range(nodes_at[row], nodes_at[row] + n_nodes[row]):
            node = node_of[place]
            left, blocks = _take(free[node], min(gpus_of[place], width[node]), width[node])
            free[node] = left
            mask = 0
            for lane, count in blocks:
                mask |= ((1 << count) - 1) << lane
                bars.append((row, first[node] + lane, count))
            if end_s[row] > start:  # an attempt of no length is gone before it could free its lanes
                held.setdefault(row, []).append((node, mask))
            else:
                free[node] |= mask
    return np.array(bars, BAR) if bars else np.zeros(0, BAR)


def outages_of(story: Story) -> Table:
    """Intervals in which a node was not up, one row a state."""
    told, end_s = story.events[story.events["event"] == Happened.NODE], span_of(story).end_s
    since: dict[int, tuple[int, int]] = {}
    rows: list[tuple[int, int, int, int]] = []
    for event in told:
        node, t = int(event["by"]), int(event["t"])
        if node in since and since[node][0] < t:
            rows.append((since[node][0], t, node, since[node][1]))
        since.pop(node, None)
        if event["code"] != NodeState.UP:
            since[node] = (t, int(event["code"]))
    rows += [(t, end_s, node, state) for node, (t, state) in since.items() if t < end_s]
    return np.array(sorted(rows), OUTAGE) if rows else np.zeros(0, OUTAGE)


def picture_of(story: Story) -> Picture:
    """The whole story as bars. O(attempts × nodes each); deterministic."""
    lane0 = np.concatenate([[0], np.cumsum([node.gpus for node in story.nodes])]).astype(np.int64)
    attempts = attempts_of(story)
    return Picture(attempts, _lanes(story, attempts, lane0), outages_of(story), lane0)


def thinned(picture: Picture, max_bars: int) -> Picture:
    """The picture without its smallest attempts (GPUs × time), so that at most `max_bars` bars remain."""
    if len(picture.bars) <= max_bars:
        return picture
    attempts = picture.attempts
    held = np.zeros(len(attempts), np.int64)
    np.add.at(held, picture.bars["attempt"], picture.bars["lanes"])
    held *= attempts["end_s"] - attempts["start_s"]
    blocks = np.bincount(picture.bars["attempt"], minlength=len(attempts))
    largest = np.argsort(-held, kind="stable")
    kept = np.zeros(len(attempts), bool)
    kept[largest[np.cumsum(blocks[largest]) <= max_bars]] = True
    row = np.cumsum(kept) - 1
    bars = picture.bars[kept[picture.bars["attempt"]]].copy()
    bars["attempt"] = row[bars["attempt"]]
    return Picture(
        attempts[kept],
        bars,
        picture.outages,
        picture.lane0,
        left_out=int((~kept).sum()),
        left_out_gpu_h=float(held[~kept].sum()) / 3600,
    )
