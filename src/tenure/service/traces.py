"""Traces of real jobs: what one holds, and one form for all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tenure.service.outputs import placed
from tenure.settings.errors import BadInput
from tenure.simulator.traces import Trace, detect_format, read_trace
from tenure.simulator.traces.describe import describe as description_of

ProgressCall = Callable[[float, str], None]
PARQUET = (".parquet", ".pq")


@dataclass(frozen=True)
class Reading:
    """How a trace's file is to be read; None: as the file itself suggests."""

    format: str | None = None
    columns: Mapping[str, str] | None = None  #: csv only: which column is which
    timezone: str = "UTC"  #: of times that name none
    tenant: str | None = None  #: the field that names the tenant


def describe(
    file: Path,
    reading: Reading,
    *,
    gpus: int | None = None,
    chart: Path | None = None,
    progress: ProgressCall | None = None,
) -> dict[str, Any]:
    """What a trace holds; `gpus` of a cluster give its offered load, `chart` names a picture to draw.

    Raises BadInput where the file cannot be read as such a trace.
    """
    trace = _read(file, reading, progress)
    description = description_of(trace, gpus=gpus, timezone=reading.timezone)
    if chart is not None:
        from tenure.simulator.traces.describe_chart import draw

        with placed(chart) as draft:
            draw(description, draft)
    return description.to_dict()


def convert(
    file: Path, out: Path, reading: Reading, *, progress: ProgressCall | None = None
) -> dict[str, Any]:
    """Write a trace as Parquet; what became of each row of the file. Raises BadInput as `describe` does."""
    from tenure.simulator.traces.convert import write_parquet

    if out.suffix.lower() not in PARQUET:
        raise BadInput(str(out), "", f"the ending {out.suffix!r}", " or ".join(PARQUET))
    trace = _read(file, reading, progress)
    with placed(out) as draft:
        write_parquet(trace, draft)
    return {"file": str(out), "jobs": len(trace), "report": trace.report.to_dict()}


def _read(file: Path, reading: Reading, progress: ProgressCall | None) -> Trace:
    if progress is not None:
        progress(0.0, f"reading {file.name}")
    format_ = reading.format or ("csv" if reading.columns else detect_format(file))
    return read_trace(
        file, format_, columns=reading.columns, timezone=reading.timezone, tenant=reading.tenant
    )
