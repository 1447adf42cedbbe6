"""The Standard Workload Format of the Parallel Workloads Archive: 18 numbers a line, a header in `;` lines.

Format: https://www.cs.huji.ac.il/labs/parallel/workload/swf.html. A processor is taken for a GPU.
Missing values are -1. Runtime 0 is a job that ran for less than half a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tenure.core.words import End
from tenure.settings.errors import BadInput
from tenure.simulator.traces.gather import Block, Gathering
from tenure.simulator.traces.instants import LATEST_S, F8s, number, numbers
from tenure.simulator.traces.options import Options
from tenure.simulator.traces.source import open_text
from tenure.simulator.traces.trace import Trace

WIDTH = 18
JOB, SUBMIT, WAIT, RUNTIME, ALLOCATED, REQUESTED, LIMIT, STATUS = 0, 1, 2, 3, 4, 7, 8, 10
TENANT = {"user": 11, "group": 12, "executable": 13, "queue": 14, "partition": 15}
STATUSES = {0: End.FAILED, 1: End.FINISHED, 5: End.CANCELLED}
PARTS = (2, 3, 4)  #: of a job that was checkpointed or swapped out; a line of status 0 or 1 tells the whole
BLOCK_ROWS = 20_000


def read(file: Path, options: Options) -> Trace:
    """Jobs of an SWF file; the tenant is the `user` (options.tenant: group, queue, executable, partition).

    Second 0 is the header's UnixStartTime, or options.start where given.
    """
    tenant = options.tenant or "user"
    if tenant not in TENANT:
        raise BadInput(str(file), "tenant", repr(tenant), ", ".join(TENANT))
    gathering = Gathering(file, "swf", dated=False, start=options.start)
    rows: list[list[str]] = []
    lines: list[int] = []
    with open_text(file) as text:
        for line_number, line in enumerate(text, 1):
            if line[:1] == ";":
                _header(line, gathering)
                continue
            cells = line.split()
            if len(cells) != WIDTH:
                _misfit(cells, line_number, gathering)
                continue
            rows.append(cells)
            lines.append(line_number)
            if len(rows) >= BLOCK_ROWS:
                gathering.add(_block(rows, lines, tenant))
                rows, lines = [], []
        if rows:
            gathering.add(_block(rows, lines, tenant))
    return gathering.finish()


def _header(line: str, gathering: Gathering) -> None:
    key, _, value = line.lstrip("; \t").partition(":")
    if key.strip() == "UnixStartTime" and gathering.zero is None:
        stated = number(value.strip().split(" ")[0])
        if 0 < stated < LATEST_S:
            gathering.zero = stated


def _misfit(cells: Sequence[str], line: int, gathering: Gathering) -> None:
    if cells:
        gathering.drop(f"not {WIDTH} numbers in a line", line)
    else:
        gathering.report.note("skipped", "blank line", 1, line)


def _stated(texts: Sequence[str]) -> F8s:
    """Numbers; -1 is the format's word for a missing one."""
    told = numbers(texts)
    told[told < 0] = np.nan
    return told


def _block(rows: list[list[str]], lines: list[int], tenant: str) -> Block:
    columns = list(zip(*rows, strict=True))
    gpus, asked = _stated(columns[ALLOCATED]), _stated(columns[REQUESTED])
    lacking = ~(gpus > 0) & (asked > 0)
    submit, wait = numbers(columns[SUBMIT]), _stated(columns[WAIT])
    status = numbers(columns[STATUS])
    end = np.full(len(lines), End.NOT_YET, np.int8)
    for code, what in STATUSES.items():
        end[status == code] = what
    named = {name: "" if name.startswith("-") else f"{tenant}{name}" for name in set(columns[TENANT[tenant]])}
    return Block(
        lines=lines,
        ids=columns[JOB],
        submit=submit,
        runtime=_stated(columns[RUNTIME]),
        gpus=np.where(lacking, asked, gpus),
        tenants=[named[name] for name in columns[TENANT[tenant]]],
        started=submit + wait,
        max_runtime=_stated(columns[LIMIT]),
        end=end,
        guesses={"no allocated processors, taken as requested": lacking},
        refused={"a part of a job that another line tells whole": np.isin(status, PARTS)},
    )
