"""A table of jobs with a header: a map says which column means what; without one, usual names are tried."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tenure.settings.errors import BadInput
from tenure.settings.errors import shown as shown_value
from tenure.simulator.traces.delimited import Rows, Table, shown
from tenure.simulator.traces.ends import ends_of
from tenure.simulator.traces.gather import Block, Gathering
from tenure.simulator.traces.instants import Clock, F8s, durations, is_number, numbers
from tenure.simulator.traces.options import Options
from tenure.simulator.traces.source import open_text
from tenure.simulator.traces.trace import Trace

#: What a column map may name, and the names tried (any case) where it does not.
USUAL: Mapping[str, tuple[str, ...]] = {
    "job": ("job", "job_id", "jobid", "id", "name"),
    "submit": ("submit", "submit_s", "submit_time", "submission_time", "submitted", "arrival_s",
               "arrival_time", "arrival", "timestamp"),
    "runtime": ("runtime", "runtime_s", "duration", "duration_s", "service_sec", "run_time", "elapsed"),
    "gpus": ("gpus", "num_gpus", "num_gpu", "gpu_num", "gpu_count", "ngpus"),
    "account": ("account", "tenant", "vc", "cluster", "project", "team", "group", "user"),
    "start": ("start", "start_time", "started"),
    "end": ("end", "end_time", "ended"),
    "min_runtime": ("min_runtime", "min_runtime_s"),
    "max_runtime": ("max_runtime", "max_runtime_s", "time_limit", "timelimit"),
    "priority": ("priority",),
    "state": ("state", "status"),
    "nodes": ("nodes", "node_num", "num_nodes"),
}  # fmt: skip
NEEDED = ("submit", "gpus")


def read(file: Path, options: Options) -> Trace:
    """Jobs of a delimited file. Numbers are seconds after second 0; dates set second 0 (options.start first).

    Needs `submit`, `gpus` and one of `runtime`, `end` (then the runtime is end − start, or end − submit).
    """
    with open_text(file) as text:
        table = Table(file, text)
        where = _where(table, options.columns)
        clock = Clock(options.timezone)
        gathering = Gathering(file, "csv", dated=False, start=options.start)
        for number_of, rows in enumerate(table.blocks(gathering)):
            if number_of == 0:
                gathering.dated = _dated(rows.columns[where["submit"]], clock, file)
            gathering.add(_block(rows, where, clock, gathering))
    return gathering.finish()


def _where(table: Table, columns: Mapping[str, str] | None) -> dict[str, int]:
    """Column numbers by what they mean. A map given is obeyed; without one, usual names are looked for."""
    unknown = sorted(set(columns or {}) - set(USUAL))
    if unknown:
        raise BadInput(str(table.file), f"columns.{unknown[0]}", "a key that is not known", ", ".join(USUAL))
    if columns:
        where = {key: table.need(f"columns.{key}", name) for key, name in columns.items()}
    else:
        found = {key: table.at(*names) for key, names in USUAL.items()}
        where = {key: at for key, at in found.items() if at is not None}
    lacking = [key for key in NEEDED if key not in where]
    if "runtime" not in where and "end" not in where:
        lacking.append("runtime (or end)")
    if lacking:
        allowed = f"a column map that names {', '.join(lacking)}"
        raise BadInput(str(table.file), "columns", shown(table.header), allowed)
    return where


def _dated(texts: Sequence[str], clock: Clock, file: Path) -> bool:
    """Whether a column of times holds dates rather than numbers: what its first readable cell is.

    Raises BadInput where cells are filled and none is readable.
    """
    for text in texts:
        if is_number(text):
            return False
        if clock.epoch(text) == clock.epoch(text):  # not NaN
            return True
    filled = next((text for text in texts if text.strip()), None)
    if filled is not None:
        allowed = "seconds as a number, or dates such as 2024-03-01 10:00:00"
        raise BadInput(str(file), "columns.submit", shown_value(filled), allowed)
    return False


def _block(rows: Rows, where: Mapping[str, int], clock: Clock, gathering: Gathering) -> Block:
    def texts(key: str) -> Sequence[str] | None:
        return rows.columns[where[key]] if key in where else None

    def told(key: str, read: Callable[[Sequence[str]], F8s]) -> F8s | None:
        return read(rows.columns[where[key]]) if key in where else None

    times = clock.column if gathering.dated else numbers
    submit = times(rows.columns[where["submit"]])
    started = told("start", times)
    if "runtime" in where:
        runtime = durations(rows.columns[where["runtime"]])
    else:
        runtime = times(rows.columns[where["end"]]) - (submit if started is None else started)
    states, ids = texts("state"), texts("job")
    return Block(
        lines=rows.lines,
        ids=[f"line-{line}" for line in rows.lines] if ids is None else ids,
        submit=submit,
        runtime=runtime,
        gpus=numbers(rows.columns[where["gpus"]]),
        tenants=texts("account"),
        started=started,
        nodes=told("nodes", numbers),
        min_runtime=told("min_runtime", durations),
        max_runtime=told("max_runtime", durations),
        priority=told("priority", numbers),
        end=None if states is None else ends_of(states),
        guesses=clock.guesses(rows.columns[where["submit"]]) if gathering.dated else {},
    )
