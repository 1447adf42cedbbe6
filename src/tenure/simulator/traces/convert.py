"""A trace as parquet, and back: what `trace convert` writes, `format: tenure` reads.

One row a job; what is not known is null. The import report, start and format go along as metadata.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tenure.core.tables import I4, I8
from tenure.core.words import NEVER_S, NONE, End
from tenure.settings.errors import BadInput
from tenure.simulator.traces.gather import Block, Gathering
from tenure.simulator.traces.instants import Clock
from tenure.simulator.traces.trace import TRACE_JOB, Trace

COLUMNS = (
    "id",
    "tenant",
    *(name for name in TRACE_JOB.names or () if name != "tenant"),
    "started_s",
    "nodes",
)
UNKNOWN = {"min_runtime_s": NONE, "max_runtime_s": NEVER_S, "started_s": NEVER_S, "nodes": NONE}
META = b"tenure"
ALLOWED = "a trace that `tenure trace convert` wrote"


def write_parquet(trace: Trace, file: Path) -> None:
    """Write the trace. Raises BadInput where the file cannot be written."""
    n = len(trace)
    names = np.array(trace.tenants, object)
    columns: dict[str, Any] = {
        "id": pa.array(trace.ids, pa.string()),
        "tenant": pa.DictionaryArray.from_arrays(
            pa.array(trace.rows["tenant"]), pa.array(names, pa.string())
        ),
    }
    for name in COLUMNS[2:-2]:
        columns[name] = _nulled(name, trace.rows[name])
    started = np.full(n, NEVER_S, I8) if trace.started_s is None else trace.started_s
    nodes = np.full(n, NONE, I4) if trace.nodes is None else trace.nodes
    columns["started_s"], columns["nodes"] = _nulled("started_s", started), _nulled("nodes", nodes)
    told = {"trace": 1, "start": trace.start, "report": trace.report.to_dict()}
    table = pa.table(columns).replace_schema_metadata({META: json.dumps(told).encode()})
    try:
        pq.write_table(table, file, compression="zstd")
    except OSError as problem:
        raise BadInput(
            str(file), "", f"a place that cannot be written ({problem})", "a new file"
        ) from problem


def _nulled(name: str, values: Any) -> Any:
    """The column without gaps in its memory; null where it is not known."""
    values = np.ascontiguousarray(values)
    if name not in UNKNOWN:
        return pa.array(values)
    return pa.array(values, mask=values == UNKNOWN[name])


def read_parquet(file: Path, *, start: datetime | None = None) -> Trace:
    """A trace that `write_parquet` wrote; `start` renames second 0. Raises BadInput for any other file."""
    try:
        table = pq.read_table(file)
        told = json.loads((table.schema.metadata or {}).get(META, b"null"))
        columns = {name: _column(table, name) for name in COLUMNS if name != "fails"}
        first = told["start"]
    except (pa.ArrowException, OSError, KeyError, ValueError, TypeError, OverflowError) as problem:
        found = f"{type(problem).__name__}: {' '.join(str(problem).split())[:200]}"
        raise BadInput(str(file), "", f"no such parquet file ({found})", ALLOWED) from problem
    gathering = Gathering(file, "tenure", dated=False, start=start)
    if start is None and isinstance(first, str):
        instant = Clock().epoch(first)
        gathering.zero = instant if np.isfinite(instant) else None
    gathering.add(_block(columns))
    return gathering.finish()


def _column(table: Any, name: str) -> Any:
    """Texts as a list; numbers as float64 with NaN for null; yes and no as booleans."""
    column = table.column(name)
    if name in ("id", "tenant"):
        return ["" if text is None else text for text in column.cast(pa.string()).to_pylist()]
    if name == "resumable":
        return np.asarray(column.cast(pa.bool_()).fill_null(False).combine_chunks()).astype(np.bool_)
    return np.asarray(column.cast(pa.float64()).fill_null(float("nan")).combine_chunks(), np.float64)


def _block(columns: dict[str, Any]) -> Block:
    n = len(columns["id"])
    whole = {name: np.clip(np.nan_to_num(columns[name], nan=0.0), 0, 127) for name in ("kind", "end")}
    return Block(
        lines=range(1, n + 1),
        ids=columns["id"],
        submit=columns["submit_s"],
        runtime=columns["runtime_s"],
        gpus=columns["gpus"],
        tenants=columns["tenant"],
        started=columns["started_s"],
        nodes=columns["nodes"],
        min_runtime=columns["min_runtime_s"],
        max_runtime=columns["max_runtime_s"],
        priority=columns["priority"],
        kind=np.minimum(whole["kind"], 2).astype(np.int8),
        end=np.minimum(whole["end"], max(End)).astype(np.int8),
        resumable=columns["resumable"],
    )
