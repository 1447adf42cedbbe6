"""Microsoft Philly, `cluster_job_log` (Jeon et al., ATC '19): a JSON array of jobs with their attempts.

A job has status (Pass, Killed, Failed), vc, jobid, user, submitted_time and attempts, each with
start_time, end_time and detail [{ip, gpus []}]. A job may have no attempt; an attempt may lack a time; a
last attempt without end had not ended. Times name no zone. https://github.com/msr-fiddle/philly-traces
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tenure.settings.errors import BadInput
from tenure.simulator.traces.ends import ends_of
from tenure.simulator.traces.gather import Block, Gathering
from tenure.simulator.traces.instants import NAN, Clock
from tenure.simulator.traces.json_values import json_values
from tenure.simulator.traces.options import Options
from tenure.simulator.traces.source import open_text
from tenure.simulator.traces.trace import Trace

BLOCK_ROWS = 10_000
TENANTS = ("vc", "user")


class Job(NamedTuple):
    line: int
    id: str
    submit: float
    submit_text: str
    runtime: float
    gpus: float
    tenant: str
    started: float
    nodes: float
    state: str
    unended: bool
    sizes_differ: bool
    times_lacking: bool


def read(file: Path, options: Options) -> Trace:
    """Jobs of a `cluster_job_log`; the tenant is the virtual cluster (options.tenant: `user`).

    Runtime is the sum of the attempts; size is that of the largest attempt.
    """
    tenant = options.tenant or TENANTS[0]
    if tenant not in TENANTS:
        raise BadInput(str(file), "tenant", repr(tenant), ", ".join(TENANTS))
    clock = Clock(options.timezone)
    gathering = Gathering(file, "philly", dated=True, start=options.start)
    jobs: list[Job] = []
    with open_text(file, "cluster_job_log") as text:
        for line, value in json_values(file, text):
            if not isinstance(value, dict) or not isinstance(value.get("jobid"), str):
                _refuse_other(file, line, value, gathering)
                continue
            jobs.append(_job(line, value, tenant, clock))
            if len(jobs) >= BLOCK_ROWS:
                gathering.add(_block(jobs, clock))
                jobs = []
    if jobs:
        gathering.add(_block(jobs, clock))
    return gathering.finish()


def _refuse_other(file: Path, line: int, value: Any, gathering: Gathering) -> None:
    """A stray member is dropped; a file that begins with one is something else."""
    if gathering.report.read == 0 and not gathering.report.dropped and isinstance(value, dict):
        keys = ", ".join(map(str, list(value)[:12]))
        raise BadInput(
            str(file), f"line {line}", f"the keys {keys}", "jobs with jobid, submitted_time, attempts"
        )
    gathering.drop("no job: a JSON value without jobid", line)


def _job(line: int, value: dict[str, Any], tenant: str, clock: Clock) -> Job:
    attempts = value.get("attempts")
    attempts = [a for a in attempts if isinstance(a, dict)] if isinstance(attempts, list) else []
    runtime, started, lacking = 0.0, NAN, False
    sizes: list[tuple[int, int]] = []
    for attempt in attempts:
        begin, end = _time(attempt.get("start_time"), clock), _time(attempt.get("end_time"), clock)
        held = end - begin
        if held == held:
            runtime += held
        else:
            lacking = True
        if begin == begin and not started <= begin:
            started = begin
        size = _size(attempt.get("detail"))
        if size[0] > 0:
            sizes.append(size)
    last = attempts[-1] if attempts else {}
    submit_text = str(value.get("submitted_time", ""))
    gpus, nodes = max(sizes, default=(0, 0))
    timed = not lacking or runtime > 0
    return Job(
        line=line,
        id=value["jobid"],
        submit=clock.epoch(submit_text),
        submit_text=submit_text,
        runtime=runtime if attempts and timed else NAN,
        gpus=float(gpus),
        tenant=str(value.get(tenant) or ""),
        started=started,
        nodes=float(nodes),
        state=str(value.get("status", "")),
        unended=bool(attempts) and not _is_time(last.get("end_time"), clock),
        sizes_differ=len({size[0] for size in sizes}) > 1,
        times_lacking=lacking,
    )


def _time(value: Any, clock: Clock) -> float:
    return clock.epoch(value) if isinstance(value, str) else NAN


def _is_time(value: Any, clock: Clock) -> bool:
    return _time(value, clock) == _time(value, clock)


def _size(detail: Any) -> tuple[int, int]:
    """(GPUs, nodes) of an attempt's detail."""
    if not isinstance(detail, list):
        return 0, 0
    held = [
        len(part["gpus"]) for part in detail if isinstance(part, dict) and isinstance(part.get("gpus"), list)
    ]
    return sum(held), len(held)


def _block(jobs: list[Job], clock: Clock) -> Block:
    column = Job(*map(list, zip(*jobs)))  # type: ignore[arg-type]  # a Job of columns
    unended = np.array(column.unended, np.bool_)
    gpus = np.array(column.gpus, np.float64)
    runtime = np.array(column.runtime, np.float64)
    return Block(
        lines=column.line,  # type: ignore[arg-type]
        ids=column.id,
        submit=np.array(column.submit, np.float64),
        runtime=runtime,
        gpus=gpus,
        tenants=column.tenant,
        started=np.array(column.started, np.float64),
        nodes=np.array(column.nodes, np.float64),
        end=ends_of(column.state),
        guesses={
            "attempts of different sizes: the largest is taken": np.array(column.sizes_differ, np.bool_),
            "an attempt without its times, left out": np.array(column.times_lacking, np.bool_),
            **clock.guesses(column.submit_text),
        },
        refused={
            "no attempt: it never ran": np.isnan(runtime) & (gpus == 0),
            "its last attempt had not ended": unended,
        },
    )
