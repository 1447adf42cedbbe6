"""A story: all that happened, in time order, as columns.

A story is made by a simulation or read from a record; the audit, the report and the commands look at
nothing else. `jsonl.py` writes and reads the file form (one JSON object a line).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tenure.core.tables import B1, I1, I4, I8, Table, table_type

#: What `x`, `y`, `code` mean for each event.
EVENT_FIELDS = {
    "SUBMITTED": {},
    "PLANNED": {"x": "at_s, the promised start"},
    "STARTED": {"x": "protected_until_s", "code": "cluster row", "rule": "why it was started"},
    "NOTICE": {"x": "interruptible_at_s", "by": "the challenger"},
    "STOPPING": {
        "x": "grace_until_s",
        "code": "words.Cause",
        "by": "the taker",
        "rule": "by which rule",
        "y": "mine and theirs, the two ratios compared, as parts per million: (mine << 32) | theirs",
        "n_nodes": "1 where a person did it: `nodes_at` is then a row of `notes` with {by, reason}",
    },
    "STOPPED": {"x": "held_gpu_s", "y": "lost_gpu_s", "code": "words.End"},
    "REQUEUED": {},
    "CANCELLED": {"y": "row of `notes` with {by, reason}, or NONE"},
    "HELD": {"y": "row of `notes`"},
    "RELEASED": {"y": "row of `notes`"},
    "WAITING": {"x": "need", "y": "have", "rule": "words.Reason"},
    "NODE": {
        "by": "node row",
        "code": "words.NodeState",
        "x": "0, or where it is told to close, from when on; NEVER_S: not any more",
        "y": "row of `notes` with {reason, by}, or NONE",
    },
    "SHARE": {"y": "row of `notes` with {account, old, new, by, reason}; shares as fractions"},
    "UNPLANNED": {},
    "CLAIMED": {"x": "GPUs to be cleared", "nodes_at": "the nodes claimed (rows of placements)"},
    "UNCLAIMED": {},
    "FIRST_AT_HEAD": {},
    "UTILISATION": {"x": "parts per million of its GPUs kept busy"},
}

#: One row a job that the story speaks of.
STORY_JOB = table_type(
    submit_s=I8,  #: its first submission; NEVER_S if it never came
    min_runtime_s=I8,
    clusters=I8,  #: bit c set: may run on cluster c; 0 = on any
    account=I4,  #: row of `accounts`
    gpus=I4,
    kind=I1,  #: words.Kind
    resumable=B1,
)


@dataclass(frozen=True)
class StoryAccount:
    """An account as the story knows it. `share`: millionths of the parent's at the start, by cluster row."""

    path: str  #: "" for the root
    parent: int  #: row, or NONE
    shares: tuple[int, ...]
    max_gpus: int | None = None
    own_leaf_of: int | None = None  #: this row holds the work given to that inner account itself


@dataclass(frozen=True)
class StoryNode:
    name: str
    cluster: int
    gpus: int
    rack: int = 0
    gpu: str | None = None


@dataclass
class Story:
    """All columns of a story. Rows of `events` are in time order, as in the file."""

    lab: str
    policy: dict[str, Any]
    seed: int
    warmup_s: int
    until_s: int
    clusters: list[str]
    nodes: list[StoryNode]
    accounts: list[StoryAccount]
    job_ids: list[str] | NDArray[Any]
    jobs: Table  #: STORY_JOB
    events: Table  #: EVENT
    placements: Table  #: PLACEMENT
    notes: list[dict[str, Any]] = field(default_factory=list)
    start: str | None = None  #: ISO 8601 UTC instant of second 0, where known
    prices: tuple[float | None, ...] = ()  #: price of a GPU-hour by cluster row, where given

    def account_path(self, account: int) -> str:
        """The path a person gave: work given to an inner account itself goes by that account's path."""
        own = self.accounts[account].own_leaf_of
        return self.accounts[account if own is None else own].path

    def share_matrix(self) -> NDArray[np.int64]:
        """(accounts, clusters) shares of the parent's, in millionths, at the start."""
        return np.array([a.shares for a in self.accounts], np.int64).reshape(len(self.accounts), -1)
