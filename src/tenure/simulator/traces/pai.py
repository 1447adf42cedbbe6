"""Alibaba PAI 2020 (Weng et al., NSDI '22): `pai_job_table`, `pai_task_table`, `pai_instance_table`.

The files come without a header (their columns are in `.header` files beside them); a first row that is
the header is known too. Times are seconds of an undisclosed zero. There is no submit time: a job's
start_time is taken for it, which its description calls the time of submission. A job's GPUs are those of
its tasks, inst_num × plan_gpu, and plan_gpu counts hundredths of a GPU: a job of parts is rounded up.
A job may name tasks of no GPU (parameter servers); its runtime is that of its tasks on GPUs.
https://github.com/alibaba/clusterdata (cluster-trace-gpu-v2020)
"""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tenure.core.words import End
from tenure.settings.errors import BadInput
from tenure.simulator.traces.delimited import Rows, Table
from tenure.simulator.traces.ends import ends_of
from tenure.simulator.traces.gather import Block, Gathering
from tenure.simulator.traces.instants import NAN, F8s, numbers
from tenure.simulator.traces.options import Options
from tenure.simulator.traces.source import open_text
from tenure.simulator.traces.trace import ImportReport, Trace

JOB = ("job_name", "inst_id", "user", "status", "start_time", "end_time")
TASK = ("job_name", "task_name", "inst_num", "status", "start_time", "end_time", "plan_cpu", "plan_mem",
        "plan_gpu", "gpu_type")  # fmt: skip
INSTANCE = ("job_name", "task_name", "inst_name", "worker_name", "inst_id", "status", "start_time",
            "end_time", "machine")  # fmt: skip
ENDINGS = (".csv", ".csv.gz", ".csv.zst", ".tar.gz", "")
TENANTS = ("user",)
NOT_ENDED = ("running", "waiting")
Doubles: TypeAlias = "array[float]"


class Work:
    """What the tasks (or instances) of each job add up to: hundredths of a GPU, first start, last end."""

    def __init__(self) -> None:
        self.row_of: dict[str, int] = {}
        self.parts, self.start, self.end = array("d"), array("d"), array("d")

    def row(self, job: str) -> int:
        """The job's row, new where it has none."""
        row = self.row_of.setdefault(job, len(self.start))
        if row == len(self.start):
            self.parts.append(0.0)
            self.start.append(NAN)
            self.end.append(NAN)
        return row

    def stretch(self, row: int, start: float, end: float) -> None:
        """Let the job's time cover start … end."""
        if start == start and not self.start[row] <= start:
            self.start[row] = start
        if end == end and not self.end[row] >= end:
            self.end[row] = end


def read(file: Path, options: Options) -> Trace:
    """Jobs of the three tables: `file` is their folder or one of them. Tenants are the users.

    The instance table (7.5 million rows) is read only where tasks lack a time, and may be absent.
    """
    if (options.tenant or "user") not in TENANTS:
        raise BadInput(str(file), "tenant", repr(options.tenant), ", ".join(TENANTS))
    jobs, tasks = _table(file, "pai_job_table"), _table(file, "pai_task_table")
    if jobs is None or tasks is None:
        lacking_table = "pai_task_table.csv" if tasks is None else "pai_job_table.csv"
        allowed = "a folder with pai_job_table.csv and pai_task_table.csv, or one of the two"
        raise BadInput(str(file), "", f"no {lacking_table} there", allowed)
    gathering = Gathering(jobs, "pai", dated=False, start=options.start)
    work, lacking = _tasks(tasks, gathering.report)
    instances = _table(file, "pai_instance_table")
    if lacking and instances is not None:
        _instances(instances, work, lacking, gathering.report)
    with open_text(jobs, "pai_job_table") as text:
        table = Table(jobs, text, JOB)
        for rows in table.blocks(gathering):
            gathering.add(_block(rows, work))
    return gathering.finish()


def _table(file: Path, name: str) -> Path | None:
    """The table of that name in the folder `file`, or beside the table `file`."""
    folder = file if file.is_dir() else file.parent
    if not file.is_dir() and name in file.name:
        return file
    for ending in ENDINGS:
        if (folder / f"{name}{ending}").is_file():
            return folder / f"{name}{ending}"
    return None


def _tasks(file: Path, report: ImportReport) -> tuple[Work, set[str]]:
    """The work of each job on GPUs, and the names of those whose tasks lack a time."""
    work, lacking = Work(), set[str]()
    count = Gathering(file, "pai", dated=False)  # of misfits alone
    with open_text(file, "pai_task_table") as text:
        for rows in Table(file, text, TASK).blocks(count):
            columns = rows.columns
            parts = numbers(columns[TASK.index("inst_num")]) * numbers(columns[TASK.index("plan_gpu")])
            starts = numbers(columns[TASK.index("start_time")])
            ends = numbers(columns[TASK.index("end_time")])
            told = zip(columns[0], parts.tolist(), starts.tolist(), ends.tolist())
            for job, part, start, end in told:
                if not part > 0:  # also NaN: tasks without GPUs
                    continue
                row = work.row(job)
                work.parts[row] += part
                work.stretch(row, start, end)
                if start != start or end != end:
                    lacking.add(job)
    _misfits(count.report, report, "a task's row that does not fit, left out")
    return work, lacking


def _instances(file: Path, work: Work, lacking: set[str], report: ImportReport) -> None:
    """Fill the times that tasks lack from those of their instances."""
    count = Gathering(file, "pai", dated=False)
    with open_text(file, "pai_instance_table") as text:
        for rows in Table(file, text, INSTANCE).blocks(count):
            starts = numbers(rows.columns[INSTANCE.index("start_time")]).tolist()
            ends = numbers(rows.columns[INSTANCE.index("end_time")]).tolist()
            for job, start, end in zip(rows.columns[0], starts, ends):
                if job in lacking:
                    work.stretch(work.row_of[job], start, end)
    _misfits(count.report, report, "an instance's row that does not fit, left out")


def _misfits(counted: ImportReport, report: ImportReport, reason: str) -> None:
    for found in (*counted.dropped.values(), *counted.skipped.values()):
        report.note("skipped", reason, found.count, found.line)


def _block(rows: Rows, work: Work) -> Block:
    names, users = rows.columns[0], rows.columns[JOB.index("user")]
    at = np.fromiter((work.row_of.get(name, -1) for name in names), np.int64, len(names))
    known = at >= 0
    parts, start, end = (_take(column, at, known) for column in (work.parts, work.start, work.end))
    said, ended = numbers(rows.columns[JOB.index("start_time")]), numbers(rows.columns[JOB.index("end_time")])
    states = rows.columns[JOB.index("status")]
    running = np.array([state.strip().lower() in NOT_ENDED for state in states], np.bool_)
    no_submit, no_end = np.isnan(said), np.isnan(end) & ~np.isnan(ended)
    submit = np.where(no_submit, start, said)
    end = np.where(no_end, ended, end)
    whole = np.where(known, np.ceil(parts / 100 - 1e-9), 0.0)
    with np.errstate(invalid="ignore"):
        fractions = np.abs(whole - parts / 100) > 1e-6
    return Block(
        lines=rows.lines,
        ids=names,
        submit=submit,
        runtime=end - np.where(np.isnan(start), submit, start),
        gpus=np.where(fractions, parts / 100, whole),
        tenants=users,
        started=start,
        end=np.where(running, End.NOT_YET, ends_of(states)).astype(np.int8),
        guesses={
            "the job's start_time is taken for its submission": ~no_submit,
            "no start_time: its first task's start is taken for its submission": no_submit,
            "its tasks have no end: the job's own is taken": no_end,
        },
        refused={"had not ended": running & known},
    )


def _take(column: Doubles, at: NDArray[np.int64], known: NDArray[np.bool_]) -> F8s:
    told = np.full(len(at), np.nan)
    told[known] = np.frombuffer(column, np.float64)[at[known]] if len(column) else 0.0
    return told
