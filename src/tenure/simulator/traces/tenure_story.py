"""Our own files: a story (`--log FILE.jsonl`: submitted, started, stopped …) or what `trace convert` wrote.

What a job did in a story becomes what it has to do: its runtime is the time it worked (held less lost),
all attempts together. Its waits, and who stopped it, are the policy's doing and stay behind.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tenure.core.words import End, Kind
from tenure.settings.errors import BadInput
from tenure.simulator.traces.gather import Block, Gathering
from tenure.simulator.traces.instants import NAN, Clock
from tenure.simulator.traces.json_values import json_values
from tenure.simulator.traces.options import Options
from tenure.simulator.traces.source import open_text
from tenure.simulator.traces.trace import Trace

ENDS = {end.name.lower(): end for end in End if end is not End.NOT_YET}
KINDS = {kind.name.lower(): kind for kind in Kind}
PARQUET = b"PAR1"


@dataclass(slots=True)
class Lived:
    """A job as its story goes on."""

    line: int
    submit: float
    gpus: float
    tenant: str
    min_runtime: float
    kind: int
    resumable: bool
    worked_gpu_s: float = 0.0
    started: float = NAN
    nodes: float = NAN
    end: int = End.NOT_YET
    out: bool = False  #: it left: nothing more will come


def read(file: Path, options: Options) -> Trace:
    """Jobs of a story in JSON lines or of a converted trace in parquet. Second 0 is the story's own."""
    if _mark(file) == PARQUET:
        from tenure.simulator.traces.convert import read_parquet

        return read_parquet(file, start=options.start)
    gathering = Gathering(file, "tenure", dated=False, start=options.start)
    jobs: dict[str, Lived] = {}
    with open_text(file) as text:
        for line, value in json_values(file, text):
            if not isinstance(value, dict) or not isinstance(value.get("event"), str):
                _refuse_other(file, line, value, gathering, known=bool(jobs))
                continue
            if value["event"] == "began":
                _begin(value, gathering)
            else:
                _happen(line, value, jobs)
    gathering.add(_block(jobs))
    return gathering.finish()


def _mark(file: Path) -> bytes:
    try:
        with open(file, "rb") as plain:
            return plain.read(4)
    except OSError:
        return b""  # open_text says what is wrong


def _refuse_other(file: Path, line: int, value: Any, gathering: Gathering, *, known: bool) -> None:
    if not known and not gathering.report.skipped:
        found = (
            f"the keys {', '.join(map(str, list(value)[:12]))}" if isinstance(value, dict) else "no object"
        )
        raise BadInput(str(file), f"line {line}", found, "events of a story: {t, event, job, account …}")
    gathering.report.note("skipped", "not an event", 1, line)


def _begin(value: dict[str, Any], gathering: Gathering) -> None:
    start = value.get("start")
    if isinstance(start, str) and gathering.zero is None:
        instant = Clock().epoch(start)
        if math.isfinite(instant):
            gathering.zero = instant


def _happen(line: int, value: dict[str, Any], jobs: dict[str, Lived]) -> None:
    name, event, t = str(value.get("job")), value["event"], _safe(value.get("t"))
    if event == "submitted" and name not in jobs:
        jobs[name] = Lived(
            line=line,
            submit=t,
            gpus=_safe(value.get("gpus")),
            tenant=str(value.get("account") or ""),
            min_runtime=_safe(value.get("min_runtime_s")),
            kind=KINDS.get(str(value.get("kind")), Kind.BATCH),
            resumable=value.get("resumable") is not False,
        )
        return
    job = jobs.get(name)
    if job is None:
        return
    if event == "started":
        nodes = value.get("nodes")
        job.out = False
        if not job.started <= t:
            job.started = t
        job.nodes = float(len(nodes)) if isinstance(nodes, dict) else NAN
    elif event == "stopped":
        held, lost = _safe(value.get("held_gpu_s")), _safe(value.get("lost_gpu_s", 0))
        job.worked_gpu_s += held - (lost if lost == lost else 0.0)
        job.end, job.out = ENDS.get(str(value.get("end")), End.NOT_YET), True
    elif event == "requeued":
        job.out = False
    elif event == "cancelled":
        job.end, job.out = End.CANCELLED, True


def _safe(value: Any) -> float:
    """The number a value is; NaN where it is none."""
    kind = type(value)
    if kind is float or kind is int:
        try:
            return float(value)
        except OverflowError:  # JSON knows integers of any length
            pass
    return NAN


def _block(jobs: dict[str, Lived]) -> Block:
    rows = list(jobs.values())

    def column(name: str, dtype: Any = np.float64) -> Any:
        return np.array([getattr(row, name) for row in rows], dtype)

    gpus, out, end = column("gpus"), column("out", np.bool_), column("end", np.int8)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        runtime = column("worked_gpu_s") / gpus
    ran = np.isfinite(column("started"))
    return Block(
        lines=[row.line for row in rows],
        ids=list(jobs),
        submit=column("submit"),
        runtime=np.where(ran, runtime, np.nan),
        gpus=gpus,
        tenants=[row.tenant for row in rows],
        started=column("started"),
        nodes=column("nodes"),
        min_runtime=column("min_runtime"),
        kind=column("kind", np.int8),
        end=end,
        resumable=column("resumable", np.bool_),
        guesses={
            "stopped for good before its work was done: what it had done is taken": (
                (end == End.PREEMPTED) | (end == End.NODE_FAILED)
            )
        },
        refused={
            "still waiting or running when the story ended": ~out,
            "cancelled before it started": out & ~ran,
        },
    )
