"""A world: a lab, its workload, and everything that will happen to it. No chance is left in it.

Two policies played over one world can be compared job by job: what chance decides was drawn before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tenure.core.columns import ACCOUNT, CLUSTER, JOB, NODE
from tenure.core.tables import B1, I8, Table, table_type
from tenure.story.columns import StoryAccount

#: What the scheduler cannot see of a job (row for row with JOB).
HIDDEN = table_type(
    work_s=I8,  #: useful work it has to do
    arrive_s=I8,  #: it can be submitted from this instant on
    stream=I8,  #: row of STREAM whose list it belongs to, or NONE: submitted at `arrive_s`
    fails=B1,  #: ends as `failed`
)

#: A closed loop: whenever fewer GPUs of the stream than `target` are outstanding (waiting, running or
#: stopping), its next jobs are submitted, the last one overshooting. Its jobs are consecutive rows.
STREAM = table_type(
    target=I8,  #: GPUs outstanding it wants at second 0; a PHASE happening changes it
    first_job=I8,
    n_jobs=I8,
)

#: What happens from outside, sorted by (t, order given).
HAPPENING = table_type(
    t=I8,
    value=I8,  #: see What
    row=I8,  #: stream, node, account or job row
    cluster=I8,  #: SHARE: cluster row, NONE = all
    note=I8,  #: row of World.notes, or NONE
    what=I8,  #: What
)


class What:
    """Kinds of happenings. `value`: PHASE: new target; NODE: words.NodeState; SHARE: millionths.

    CLOSE: from when on the node is to be out of service, seconds; NEVER_S: not any more.
    """

    PHASE, NODE, SHARE, CANCEL, HOLD, RELEASE, CLOSE = range(7)


class World(NamedTuple):
    jobs: Table  #: columns.JOB; rows are submission order where two arrive at one instant
    hidden: Table  #: HIDDEN
    streams: Table  #: STREAM
    happenings: Table  #: HAPPENING
    nodes: Table  #: columns.NODE
    clusters: Table  #: columns.CLUSTER
    accounts: Table  #: columns.ACCOUNT
    shares: NDArray[np.int64]  #: (clusters, accounts), millionths of the parent's


@dataclass
class Names:
    """What the rows are called."""

    lab: str
    clusters: list[str]
    nodes: list[str]
    accounts: list[StoryAccount]
    jobs: list[str] | NDArray[Any]
    gpu_types: list[str] = field(default_factory=list)
    prices: tuple[float | None, ...] = ()
    notes: list[dict[str, Any]] = field(default_factory=list)
    start: str | None = None
    remarks: list[str] = field(default_factory=list)  #: what the door warns of, a sentence each
    import_report: Any = None  #: traces.ImportReport, where work came from a trace


__all__ = ["ACCOUNT", "CLUSTER", "HAPPENING", "HIDDEN", "JOB", "NODE", "STREAM", "Names", "What", "World"]
