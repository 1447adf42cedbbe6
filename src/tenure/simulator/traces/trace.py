"""What every reader gives: the jobs of a trace as columns, and what became of each row of the file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tenure.core.tables import B1, I1, I4, I8, Table, table_type
from tenure.core.words import NONE

#: One row a job, sorted by `submit_s`; rows of one instant keep the order of the file.
TRACE_JOB = table_type(
    submit_s=I8,  #: seconds after second 0, never negative
    runtime_s=I8,  #: time it held its GPUs, all its attempts together; at least 1
    min_runtime_s=I8,  #: NONE = the trace names none
    max_runtime_s=I8,  #: its time limit; NEVER_S = none
    gpus=I4,  #: at least 1
    tenant=I4,  #: row of `Trace.tenants`
    priority=I4,
    kind=I1,  #: words.Kind
    end=I1,  #: words.End as the trace tells it; NOT_YET = it does not say
    fails=B1,  #: it ended badly by itself: a replay ends it as `failed`
    resumable=B1,
)


@dataclass
class Finding:
    """How often something was done to a row, and where first. `line` counts from 1; None = not known."""

    count: int
    line: int | None


@dataclass
class ImportReport:
    """What an import did: `read` = `kept` + all of `dropped`; the other two name rows that were kept."""

    file: str
    format: str
    read: int = 0
    kept: int = 0
    dropped: dict[str, Finding] = field(default_factory=dict)
    clamped: dict[str, Finding] = field(default_factory=dict)
    guessed: dict[str, Finding] = field(default_factory=dict)
    skipped: dict[str, Finding] = field(default_factory=dict)  #: lines that are no jobs (steps, blanks)

    def note(self, what: str, reason: str, count: int, line: int | None) -> None:
        """Add `count` rows to one of `dropped`, `clamped`, `guessed`, `skipped`."""
        if count <= 0:
            return
        findings: dict[str, Finding] = getattr(self, what)
        seen = findings.get(reason)
        if seen is None:
            findings[reason] = Finding(count, line)
        else:
            seen.count += count

    def to_dict(self) -> dict[str, Any]:
        """For JSON: {file, format, read, kept, dropped {reason: {count, first_line}}, clamped, …}."""
        told: dict[str, Any] = {
            "file": self.file,
            "format": self.format,
            "read": self.read,
            "kept": self.kept,
        }
        for what in ("dropped", "clamped", "guessed", "skipped"):
            told[what] = {
                reason: {"count": found.count, "first_line": found.line}
                for reason, found in getattr(self, what).items()
            }
        return told

    def table(self) -> list[tuple[str, str, int, int | None]]:
        """Rows (what, reason, count, first line), for printing."""
        rows: list[tuple[str, str, int, int | None]] = [
            ("read", "rows that speak of a job", self.read, None),
            ("kept", "jobs of the trace", self.kept, None),
        ]
        for what in ("dropped", "clamped", "guessed", "skipped"):
            rows += [(what, reason, f.count, f.line) for reason, f in getattr(self, what).items()]
        return rows

    def __str__(self) -> str:
        lines = [f"{self.file} ({self.format})"]
        for what, reason, count, line in self.table():
            where = "" if line is None else f" (first: line {line})"
            lines.append(f"  {what:<8} {count:>10,}  {reason}{where}")
        return "\n".join(lines)


@dataclass
class Trace:
    """A trace: `rows` (TRACE_JOB) and what they are called.

    `start` is the instant of second 0 in ISO 8601 UTC, or None where the file only has numbers.
    `started_s` and `nodes` tell when and on how many nodes a job really ran, where the trace says so
    (row for row with `rows`; NONE where it does not).
    """

    ids: list[str]
    tenants: list[str]
    rows: Table  #: TRACE_JOB
    start: str | None
    report: ImportReport
    started_s: NDArray[np.int64] | None = None  #: NEVER_S where not known
    nodes: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def span_s(self) -> int:
        """From the first submission to the last, in seconds."""
        if len(self.rows) == 0:
            return 0
        return int(self.rows["submit_s"][-1] - self.rows["submit_s"][0])

    @property
    def gpu_s(self) -> int:
        """GPU-seconds of all jobs."""
        return int((self.rows["runtime_s"] * self.rows["gpus"]).sum())


__all__ = ["NONE", "TRACE_JOB", "Finding", "ImportReport", "Trace"]
