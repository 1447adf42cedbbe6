"""Drawn work: closed-loop lists of jobs for every account, and what else a shape describes.

An account keeps a number of GPUs outstanding (waiting, running or stopping): whenever it has fewer, the next
jobs of its list are submitted. The list, its busy and quiet phases and its debug jobs depend on the seed and
the account alone, so every policy meets the same jobs, at times that depend on the policy.

    workload_shapes    the numbers, and the lab each shape was meant for
    workload_lists     jobs drawn from classes; how long a list has to be
    workload_arrivals  jobs of a real trace of arrivals
    workload           all of it as the tables of a world
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tenure.core.columns import JOB
from tenure.core.tables import Table, empty
from tenure.core.words import NEVER_S, NONE, Kind
from tenure.settings.errors import BadInput
from tenure.simulator.workload_arrivals import read_arrivals, trace_lists
from tenure.simulator.workload_lists import (
    DAY_S,
    Draw,
    JobList,
    Seat,
    debug_list,
    unbudgeted_list,
    work_list,
)
from tenure.simulator.workload_shapes import (
    SHAPES,
    Shape,
    account_name,
    shape_from,
    shape_lab,
)
from tenure.simulator.world import HAPPENING, HIDDEN, STREAM, What

LONGEST_S = 3660 * DAY_S  #: drawn lists have to end somewhere


class Leaf(NamedTuple):
    """A leaf account that work is drawn for. `share`: of the cluster, as a fraction."""

    path: str
    account: int  #: row in the world's accounts
    share: float


@dataclass
class Drawn:
    """Drawn work, ready for a world. Rows: the accounts' lists, the unbudgeted one, debug jobs by arrival."""

    jobs: Table  #: columns.JOB; of a list's jobs `submit_s` is NEVER_S until they are submitted
    hidden: Table  #: world.HIDDEN
    streams: Table  #: world.STREAM
    happenings: Table  #: world.HAPPENING: PHASE only, sorted by t
    ids: list[str]
    remarks: list[str] = field(default_factory=list)  #: what was left out or guessed, a sentence each


def draw_workload(
    shape: Shape,
    *,
    leaves: Sequence[Leaf],
    cluster_gpus: int,
    seed: int,
    until_s: int,
    philly_file: Path | None = None,
) -> Drawn:
    """
    Draw the work of a shape for the given leaves.

    Lists are long enough that none runs dry before `until_s` under any policy (`workload_lists.enough`). In a
    lab made by `shape_lab` an account is known by its name, so that it has the same jobs in every tree; in
    another lab by its place in `leaves`. Raises BadInput for what cannot be drawn.
    """
    if seed < 0:
        raise BadInput("workload", "seed", str(seed), "0 or more")
    if not 0 < until_s <= LONGEST_S:
        raise BadInput("workload", "until", f"{until_s} s", f"an end within {LONGEST_S // DAY_S} days")
    if not leaves or cluster_gpus <= 0:
        raise BadInput("workload", "", "no account or no GPU", "a lab with both")
    draw = Draw(shape, seed, until_s, cluster_gpus)
    seats = number_seats(leaves, cluster_gpus)
    remarks: list[str] = []
    if shape.arrivals:
        if philly_file is None:
            raise BadInput("workload", "file", "nothing", "a trace of arrivals for the shape philly")
        lists, remarks = trace_lists(draw, seats, read_arrivals(philly_file))
    else:
        lists = [work_list(draw, seat) for seat in seats]
    lists.append(unbudgeted_list(draw, seats))
    return _rows(shape, [one for one in lists if one.ids], debug_list(draw, seats), remarks)


def number_seats(leaves: Sequence[Leaf], cluster_gpus: int) -> list[Seat]:
    """Number the accounts: by name where all leaves are named as in a shape's lab, else by place."""
    named = [re.search(r"(?:^|/)a(\d{2,})(?:/r(\d+))?$", leaf.path) for leaf in leaves]
    keys = [(int(found[1]), int(found[2] or 0)) for found in named if found]
    of_a_shape = len(set(keys)) == len(leaves)
    if not of_a_shape:
        keys = [(place, 0) for place in range(len(leaves))]
    parts: dict[int, int] = {}
    entitled: dict[int, float] = {}
    for leaf, (number, part) in zip(leaves, keys, strict=True):
        parts[number] = max(parts.get(number, 0), part + 1)
        entitled[number] = entitled.get(number, 0.0) + leaf.share * cluster_gpus
    return [
        Seat(
            account=leaf.account,
            name=account_name(number) if of_a_shape else leaf.path,
            number=number,
            part=part,
            parts=parts[number],
            account_gpus=entitled[number],
            gpus=leaf.share * cluster_gpus,
        )
        for leaf, (number, part) in zip(leaves, keys, strict=True)
    ]


def _rows(shape: Shape, lists: Sequence[JobList], debug: JobList, remarks: list[str]) -> Drawn:
    """Lay lists and debug jobs out as the tables of a world."""
    listed = sum(len(one.ids) for one in lists)
    total = listed + len(debug.ids)
    jobs = empty(total, JOB, max_runtime_s=NEVER_S, submit_s=NEVER_S, clusters=1, gpu_type=NONE)
    jobs["save_every_s"], jobs["restart_s"] = shape.save_every_s, shape.restart_s
    jobs["first_entry"] = np.arange(total)
    hidden = empty(total, HIDDEN, stream=NONE)
    streams = empty(len(lists), STREAM)
    first = 0
    for row, one in enumerate(lists):
        rows = slice(first, first + len(one.ids))
        _fill(jobs[rows], hidden[rows], one)
        jobs["kind"][rows] = np.where(one.jobs.session, Kind.SESSION, Kind.BATCH)
        jobs["resumable"][rows] = ~one.jobs.session
        jobs["saves_when_asked"][rows] = ~one.jobs.session & one.saves
        hidden["stream"][rows] = row
        streams[row] = (one.target, first, len(one.ids))
        first = rows.stop
    rows = slice(listed, total)
    _fill(jobs[rows], hidden[rows], debug)
    jobs["kind"][rows] = Kind.DEBUG
    jobs["submit_s"][rows] = debug.jobs.arrive_s
    ids = [name for one in lists for name in one.ids] + debug.ids
    return Drawn(jobs, hidden, streams, _phase_happenings(lists), ids, remarks)


def _fill(jobs: Table, hidden: Table, one: JobList) -> None:
    jobs["gpus"], jobs["min_runtime_s"], jobs["account"] = one.jobs.gpus, one.jobs.min_runtime_s, one.account
    hidden["work_s"], hidden["arrive_s"] = one.jobs.work_s, one.jobs.arrive_s


def _phase_happenings(lists: Sequence[JobList]) -> Table:
    changes = [(t, target, row) for row, one in enumerate(lists) for t, target in one.phases]
    changes.sort(key=lambda change: change[0])
    table = empty(len(changes), HAPPENING, what=What.PHASE, cluster=NONE, note=NONE)
    for name, place in (("t", 0), ("value", 1), ("row", 2)):
        table[name] = [change[place] for change in changes]
    return table


__all__ = [
    "SHAPES",
    "Drawn",
    "Leaf",
    "Shape",
    "draw_workload",
    "shape_from",
    "shape_lab",
]
