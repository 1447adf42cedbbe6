"""Reading what other clusters ran: one reader a format, one shape for all of them.

`read_trace(file, format)` gives a `Trace`: jobs sorted by submission, tenants, and a report of what was
dropped, clamped and guessed. A question that cannot be answered raises BadInput with one clear message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from importlib import import_module
from pathlib import Path

from tenure.settings.errors import BadInput, nearest
from tenure.simulator.traces.detect import detect_format
from tenure.simulator.traces.options import Options
from tenure.simulator.traces.trace import TRACE_JOB, Finding, ImportReport, Trace

#: Format → module of its reader (loaded when used).
FORMATS: Mapping[str, str] = {
    "csv": "plain_csv",
    "helios": "helios",
    "philly": "philly",
    "pai": "pai",
    "acme": "acme",
    "swf": "swf",
    "sacct": "sacct",
    "tenure": "tenure_story",
}


def read_trace(
    file: Path,
    format: str,
    *,
    columns: Mapping[str, str] | None = None,
    timezone: str = "UTC",
    start: datetime | None = None,
    tenant: str | None = None,
) -> Trace:
    """The trace in `file`.

    `columns` (csv only) maps job, submit, runtime, gpus, account, start, end, min_runtime, max_runtime,
    priority, state, nodes to the file's own names. `timezone` is that of times which name none. `start`
    is the instant of second 0; without it, a file with dates starts at its first submission. `tenant`
    chooses the field that names the tenant where a format has several (a user, a group, a queue …).
    Raises BadInput: not a file of that format, damaged, or without a single job.
    """
    if format not in FORMATS:
        raise BadInput(str(file), "format", repr(format), nearest(format, FORMATS))
    if columns and format != "csv":
        raise BadInput(str(file), "columns", f"a column map for format {format}", "a column map for csv only")
    reader = import_module(f"{__name__}.{FORMATS[format]}")
    read: Callable[[Path, Options], Trace] = reader.read
    return read(Path(file), Options(columns or None, timezone, start, tenant))


__all__ = ["FORMATS", "TRACE_JOB", "Finding", "ImportReport", "Trace", "detect_format", "read_trace"]
