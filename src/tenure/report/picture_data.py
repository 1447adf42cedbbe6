"""The picture as the page holds it: columns of small whole numbers, base64, with names beside them."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tenure.audit.span import span_of
from tenure.core.words import NONE, Cause, End, NodeState, Rule
from tenure.report.colours import account_colours
from tenure.report.frames import parse_start
from tenure.report.picture import Picture, thinned
from tenure.story.columns import Story

MAX_BARS = 150_000  #: keeps the picture under about 8 MB
MAX_ID_CHARS = 4_000_000  #: … and the ids of its jobs under 4 MB
MOST = {"u1": 0xFF, "u2": 0xFFFF, "u4": 0xFFFFFFFF}


def words(kind: Any) -> list[str]:
    """Names of an enum by number, as people read them; unused numbers are empty."""
    names = [""] * (max(kind) + 1)
    for member in kind:
        names[member] = member.name.lower().replace("_", " ")
    return names


def _packed(values: ArrayLike, kind: str) -> tuple[str, str]:
    """NONE (−1) and whatever is beyond the type become its largest number."""
    wide = np.asarray(values, np.int64)
    wide = np.where((wide < 0) | (wide > MOST[kind]), MOST[kind], wide)
    return kind, base64.b64encode(wide.astype("<" + kind).tobytes()).decode()


def _ids(story: Story, jobs: NDArray[np.int32]) -> list[str]:
    """Ids of these jobs, the middle of long ones left out where all together would be too long."""
    ids = [str(story.job_ids[job]) for job in jobs.tolist()]
    most = max(12, MAX_ID_CHARS // max(1, len(ids)))
    if sum(map(len, ids)) <= MAX_ID_CHARS:
        return ids
    return [id_ if len(id_) <= most else f"{id_[: most // 2]}…{id_[1 - (most + 1) // 2 :]}" for id_ in ids]


def packed_picture(
    story: Story, picture: Picture, *, measured_from_s: int, max_bars: int = MAX_BARS
) -> dict[str, Any]:
    """What `static/picture.js` reads. Jobs are those drawn or named as takers; times are whole seconds."""
    picture = thinned(picture, max_bars)
    attempts, bars = picture.attempts, picture.bars
    stops = np.flatnonzero((attempts["cause"] != Cause.NONE) | (attempts["lost_gpu_s"] > 0))
    promises = np.flatnonzero(attempts["promised_s"] != NONE)
    by = attempts["by"][stops]
    drawn = np.unique(np.concatenate([attempts["job"], by[by != NONE]]))
    jobs = story.jobs[drawn]
    paths = list(account_colours(story).items())
    row_of = {path: i for i, (path, _) in enumerate(paths)}
    account = np.array([row_of[story.accounts[row].path] for row in range(len(story.accounts))], np.int64)
    row = {
        "start": (attempts["start_s"], "u4"),
        "end": (attempts["end_s"], "u4"),
        "protected": (attempts["protected_s"], "u4"),
        "job": (np.searchsorted(drawn, attempts["job"]), "u4"),
        "attempt": (attempts["attempt"], "u2"),
        "ended": (attempts["end"], "u1"),
        "started_by": (attempts["started_by"], "u1"),
        "unbudgeted": (attempts["unbudgeted"], "u1"),
        "stop_attempt": (stops, "u4"),
        "stop_by": (np.where(by == NONE, NONE, np.searchsorted(drawn, by)), "u4"),
        "stop_lost": (attempts["lost_gpu_s"][stops], "u4"),
        "stop_cause": (attempts["cause"][stops], "u1"),
        "stop_rule": (attempts["stopped_by"][stops], "u1"),
        "promise_attempt": (promises, "u4"),
        "promise_planned": (attempts["planned_s"][promises], "u4"),
        "promise_at": (attempts["promised_s"][promises], "u4"),
        "bar_attempt": (bars["attempt"], "u4"),
        "bar_lane": (bars["lane"], "u4"),
        "bar_lanes": (bars["lanes"], "u2"),
        "job_account": (account[jobs["account"]], "u2"),
        "job_gpus": (jobs["gpus"], "u4"),
    }
    zero = parse_start(story.start)
    return {
        "until_s": span_of(story).end_s,
        "warmup_s": measured_from_s,
        "start_ms": None if zero is None else int(zero.timestamp() * 1000),
        "clusters": story.clusters,
        "nodes": [node.name for node in story.nodes],
        "node_cluster": [node.cluster for node in story.nodes],
        "lane0": picture.lane0.tolist(),
        "accounts": [{"path": path or "(whole tree)", "colour": colour} for path, colour in paths],
        "jobs": _ids(story, drawn),
        "outages": [
            [int(o["node"]), int(o["start_s"]), int(o["end_s"]), int(o["state"])] for o in picture.outages
        ],
        "words": {"end": words(End), "cause": words(Cause), "rule": words(Rule), "node": words(NodeState)},
        "columns": {name: _packed(values, kind) for name, (values, kind) in row.items()},
        "left_out": picture.left_out,
        "left_out_gpu_h": round(picture.left_out_gpu_h, 1),
    }
