"""Work as tables: constructed jobs, a trace's and drawn ones, laid one behind the other.

Everything goes by columns: a trace of a million jobs never becomes a million objects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tenure.core.columns import JOB
from tenure.core.tables import Table, empty
from tenure.core.words import NEVER_S, NONE, Kind
from tenure.settings.errors import BadInput, dotted
from tenure.settings.job import DEBUG_GPUS, DEBUG_RUNTIME_S, KINDS, RESTART_S, SAVE_EVERY_S, advice
from tenure.settings.job_in_lab import account_row, clusters_for
from tenure.settings.lab import Lab
from tenure.settings.lab_tables import Holder
from tenure.settings.scenario_file import ScenarioJob
from tenure.simulator.world import HAPPENING, HIDDEN, STREAM


@dataclass
class Work:
    """Some jobs, and what they are called. Rows of `happenings` speak of `streams`."""

    jobs: Table  #: columns.JOB
    hidden: Table  #: world.HIDDEN
    ids: list[str]
    streams: Table = field(default_factory=lambda: empty(0, STREAM))
    happenings: Table = field(default_factory=lambda: empty(0, HAPPENING))


def new_work(rows: int) -> Work:
    """So many jobs of no account, with the defaults of a job that nothing was said about."""
    jobs = empty(rows, JOB, max_runtime_s=NEVER_S, gpu_type=NONE, resumable=True)
    jobs["save_every_s"], jobs["restart_s"] = SAVE_EVERY_S, RESTART_S
    return Work(jobs, empty(rows, HIDDEN, stream=NONE), [])


def constructed(
    written: Sequence[ScenarioJob],
    holder: Holder,
    leaf_of: Mapping[str, int],
    gpu_types: Sequence[str],
    file: str,
) -> Work:
    """
    The jobs of a scenario's `jobs`. `leaf_of`: row of the leaf where the work given to a path runs.

    Raises BadInput for an unknown account, cluster or GPU type, a size nothing can hold, an id used twice.
    """
    counts = np.array([job.count for job in written], np.int64)
    work = new_work(len(written))
    table, hidden = work.jobs, work.hidden
    for row, job in enumerate(written):
        table["account"][row] = account_row(leaf_of, job.account, file, dotted(["jobs", row, "account"]))
        table["clusters"][row] = clusters_for(job, holder, file, ("jobs", row))
        if job.gpu is not None:
            table["gpu_type"][row] = gpu_types.index(job.gpu)
    columns: dict[str, list[Any]] = {
        "min_runtime_s": [job.min_runtime for job in written],
        "max_runtime_s": [NEVER_S if job.max_runtime is None else job.max_runtime for job in written],
        "gpus": [job.gpus for job in written],
        "priority": [job.priority for job in written],
        "save_every_s": [job.checkpoint_every for job in written],
        "restart_s": [job.restart for job in written],
        "kind": [KINDS[job.kind] for job in written],
        "resumable": [job.resumable for job in written],
        "saves_when_asked": [job.saves for job in written],
        "same_rack": [job.same_rack for job in written],
    }
    for name, column in columns.items():
        table[name] = column
    hidden["work_s"] = [job.runtime for job in written]
    hidden["fails"] = [job.fails for job in written]
    spec = np.repeat(np.arange(len(written)), counts)
    copy = np.arange(len(spec)) - np.repeat(np.cumsum(counts) - counts, counts)
    submit = np.array([job.submit for job in written], np.int64)
    every = np.array([job.every for job in written], np.int64)
    work.jobs, work.hidden = table[spec], hidden[spec]
    work.hidden["arrive_s"] = submit[spec] + every[spec] * copy
    work.ids = job_ids(written, file)
    return work


def job_ids(written: Sequence[ScenarioJob], file: str) -> list[str]:
    """The id of every copy; BadInput where one is used twice."""
    ids: list[str] = []
    known: set[str] = set()
    for row, job in enumerate(written):
        name = job.id or f"job-{row}"
        own = [name] if job.count == 1 else [f"{name}-{copy}" for copy in range(job.count)]
        twice = next((one for one in own if one in known), None)
        if twice is not None:
            raise BadInput(file, dotted(["jobs", row, "id"]), f"'{twice}' again", "an id used once")
        known.update(own)
        ids += own
    return ids


def warnings_about(written: Sequence[ScenarioJob], lab: Lab) -> list[str]:
    """What is legal and surely not meant."""
    rows, told = lab.rows(), []
    for row, job in enumerate(written):
        name = job.id or f"jobs[{row}]"
        told.append(advice(job, name))
        account = rows.get(job.account, 0)
        while account > 0:
            most = lab.accounts[account].max_gpus
            if most is not None and job.gpus > most:
                told.append(
                    f"{name}: its {job.gpus} GPUs are more than max_gpus {most} of"
                    f" {lab.accounts[account].path}: it will never start"
                )
            account = lab.accounts[account].parent
    return [sentence for sentence in told if sentence is not None]


def joined(parts: Sequence[Work]) -> Work:
    """
    All of it: what arrives by itself in order of arrival (the parts' order where two arrive at one instant),
    then the streams' lists, each whole. Fills in what follows from the rest: first entries, debug kinds.
    """
    jobs = np.concatenate([part.jobs for part in parts])
    hidden = np.concatenate([part.hidden for part in parts])
    with_jobs = [part for part in parts if part.ids]
    ids = with_jobs[0].ids if len(with_jobs) == 1 else [one for part in parts for one in part.ids]
    streams, happenings = _streams(parts, hidden)
    listed = hidden["stream"] != NONE
    order = np.lexsort((np.where(listed, 0, hidden["arrive_s"]), hidden["stream"], listed))
    moved = bool((np.diff(order) != 1).any())  # a lone trace is in order already: copy nothing
    if moved:
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        streams["first_job"] = place[streams["first_job"]]
        jobs, hidden, listed = jobs[order], hidden[order], listed[order]
        ids = [ids[row] for row in order.tolist()]
    _debug_kinds(jobs)
    jobs["submit_s"] = np.where(listed, NEVER_S, hidden["arrive_s"])
    entries = bit_count(jobs["clusters"])
    jobs["first_entry"] = np.cumsum(entries) - entries
    return Work(jobs, hidden, ids, streams, happenings)


def _streams(parts: Sequence[Work], hidden: Table) -> tuple[Table, Table]:
    """The streams of all parts, their rows counted through; changes `hidden` likewise."""
    streams, happenings = [], []
    first_job = first_stream = 0
    for part in parts:
        rows = slice(first_job, first_job + len(part.jobs))
        mine = hidden["stream"][rows]
        mine[mine != NONE] += first_stream
        table, phases = part.streams.copy(), part.happenings.copy()
        table["first_job"] += first_job
        phases["row"] += first_stream
        streams.append(table)
        happenings.append(phases)
        first_job += len(part.jobs)
        first_stream += len(table)
    return np.concatenate(streams), np.concatenate(happenings)


def _debug_kinds(jobs: Table) -> None:
    """What counts as debug does so by its size and minimum, whatever is written."""
    minimum = jobs["min_runtime_s"]
    quick = (jobs["gpus"] <= DEBUG_GPUS) & (minimum > 0) & (minimum <= DEBUG_RUNTIME_S)
    jobs["kind"][~quick & (jobs["kind"] == Kind.DEBUG)] = Kind.BATCH
    jobs["kind"][quick] = Kind.DEBUG


def bit_count(bits: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many bits are set, row by row."""
    return np.bitwise_count(bits).astype(np.int64)
