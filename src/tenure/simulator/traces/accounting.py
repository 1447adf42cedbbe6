"""Tables that a cluster's accounting wrote and its owners published: one row a job, named times and states.

Helios and Acme differ in their columns alone; what they have in common is here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tenure.core.words import End
from tenure.settings.errors import BadInput
from tenure.simulator.traces.delimited import Rows, Table
from tenure.simulator.traces.ends import ends_of
from tenure.simulator.traces.gather import Block, Gathering
from tenure.simulator.traces.instants import Clock, durations, numbers
from tenure.simulator.traces.options import Options
from tenure.simulator.traces.source import open_text
from tenure.simulator.traces.trace import Trace

NEEDED = ("job_id", "gpu_num", "submit_time", "start_time", "end_time", "state")
SLACK_S = 1.0  #: times are whole seconds: a duration may differ by one


@dataclass(frozen=True)
class Layout:
    """`tenants`: the columns that may name the tenant, the usual one first."""

    format: str
    tenants: tuple[str, ...]


def read_accounting(file: Path, options: Options, layout: Layout) -> Trace:
    """Jobs of such a table. Runtime is end − start; `duration` stands in where one of them is missing."""
    tenant = options.tenant or layout.tenants[0]
    if tenant not in layout.tenants:
        raise BadInput(str(file), "tenant", repr(tenant), ", ".join(layout.tenants))
    clock = Clock(options.timezone)
    gathering = Gathering(file, layout.format, dated=True, start=options.start)
    with open_text(file) as text:
        table = Table(file, text)
        where = {name: table.need("header", name) for name in (*NEEDED, tenant)}
        for name in ("duration", "node_num"):
            at = table.at(name)
            if at is not None:
                where[name] = at
        for rows in table.blocks(gathering):
            gathering.add(_block(rows, where, tenant, clock))
    return gathering.finish()


def _block(rows: Rows, where: Mapping[str, int], tenant: str, clock: Clock) -> Block:
    columns = rows.columns
    submit = clock.column(columns[where["submit_time"]])
    started = clock.column(columns[where["start_time"]])
    runtime = clock.column(columns[where["end_time"]]) - started
    end = ends_of(columns[where["state"]])
    guesses = clock.guesses(columns[where["submit_time"]])
    if "duration" in where:
        stated = durations(columns[where["duration"]])
        lacking = np.isnan(runtime) & (stated > 0)
        with np.errstate(invalid="ignore"):
            other = np.abs(stated - runtime) > SLACK_S
        guesses["no start or no end: the duration is taken"] = lacking
        guesses["the duration is not end − start: end − start is taken"] = other
        runtime = np.where(lacking, stated, runtime)
    never = (end == End.CANCELLED) & ~(runtime > 0)
    return Block(
        lines=rows.lines,
        ids=columns[where["job_id"]],
        submit=submit,
        runtime=runtime,
        gpus=numbers(columns[where["gpu_num"]]),
        tenants=columns[where[tenant]],
        started=started,
        nodes=numbers(columns[where["node_num"]]) if "node_num" in where else None,
        end=end,
        guesses=guesses,
        refused={"cancelled before it started": never & (numbers(columns[where["gpu_num"]]) > 0)},
    )
