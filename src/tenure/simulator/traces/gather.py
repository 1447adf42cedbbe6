"""Collecting jobs block by block: what a row must satisfy, what is clamped, what is dropped and why.

Readers turn lines into blocks of columns; all judgement that does not depend on the format is here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tenure.core.tables import empty
from tenure.core.words import NEVER_S, NONE, End
from tenure.settings.errors import BadInput
from tenure.simulator.traces.instants import LATEST_S, F8s, iso
from tenure.simulator.traces.trace import TRACE_JOB, ImportReport, Trace

YEAR_S = 366 * 86400
LONGEST_S = YEAR_S  #: a job that ran longer is a slip of the clock
SPAN_S = 30 * YEAR_S  #: no trace is longer: a submission so long after the median one is a slip
EPOCH_FROM_S = 1e9  #: numbers from here on are Unix times (September 2001), not seconds after a start
MOST_GPUS = 1_000_000
MOST_PRIORITY = 2**31 - 1
NO_TENANT = "unnamed"
BAD_ENDS = (End.FAILED, End.NODE_FAILED)

Bools = NDArray[np.bool_]


@dataclass
class Block:
    """Some rows of a file, as columns of equal length; NaN = the row does not say.

    `submit` is Unix seconds where the gathering is dated, else seconds after second 0. `started` likewise.
    """

    lines: Sequence[int]
    ids: Sequence[str]
    submit: F8s
    runtime: F8s
    gpus: F8s
    tenants: Sequence[str] | None = None
    started: F8s | None = None
    nodes: F8s | None = None
    min_runtime: F8s | None = None
    max_runtime: F8s | None = None
    priority: F8s | None = None
    kind: NDArray[np.int8] | None = None
    end: NDArray[np.int8] | None = None
    resumable: Bools | None = None
    guesses: dict[str, Bools] = field(default_factory=dict)  #: reason → which rows; counted where kept
    refused: dict[str, Bools] = field(default_factory=dict)  #: reason → which rows to drop for it


class Gathering:
    """Grows a trace from blocks. `dated`: the blocks' times are Unix seconds."""

    def __init__(self, file: Path, format: str, *, dated: bool, start: datetime | None = None) -> None:
        self.file, self.dated = file, dated
        self.report = ImportReport(str(file), format)
        self.zero = None if start is None else _instant(start)
        self._tables: list[Any] = []
        self._submit: list[F8s] = []
        self._started: list[F8s] = []
        self._nodes: list[NDArray[np.int32]] = []
        self._lines: list[NDArray[np.int64]] = []
        self._ids: list[str] = []
        self._tenant_rows: dict[str, int] = {}

    def drop(self, reason: str, line: int | None, count: int = 1) -> None:
        """Count rows that the reader itself could not take."""
        self.report.read += count
        self.report.note("dropped", reason, count, line)

    def add(self, block: Block) -> None:
        """Judge a block and keep what can be kept."""
        n = len(block.ids)
        if n == 0:
            return
        self.report.read += n
        lines = np.asarray(block.lines, np.int64)
        keep = self._judge(block, lines)
        for reason, rows in block.guesses.items():
            self._note("guessed", reason, rows & keep, lines)
        at = np.flatnonzero(keep)
        table = empty(len(at), TRACE_JOB, max_runtime_s=NEVER_S, min_runtime_s=NONE, resumable=True)
        lines = lines[at]
        table["runtime_s"] = self._runtimes(block.runtime[at], lines)
        table["gpus"] = self._gpus(block.gpus[at], lines)
        table["tenant"] = self._tenants(block.tenants, at, lines)
        for name, given in (("min_runtime_s", block.min_runtime), ("max_runtime_s", block.max_runtime)):
            if given is not None:
                self._limits(table[name], given[at], lines, name)
        if block.priority is not None:
            stated = np.nan_to_num(block.priority[at], nan=0.0, posinf=0.0, neginf=0.0)
            table["priority"] = np.clip(stated, -MOST_PRIORITY, MOST_PRIORITY).astype(np.int32)
        for name in ("kind", "end", "resumable"):
            told = getattr(block, name)
            if told is not None:
                table[name] = told[at]
        table["fails"] = self._fails(table)
        self._keep(block, at, table, lines)

    def _keep(self, block: Block, at: NDArray[np.intp], table: Any, lines: NDArray[np.int64]) -> None:
        self._tables.append(table)
        self._lines.append(lines)
        self._submit.append(block.submit[at])
        n = len(at)
        self._started.append(np.full(n, np.nan) if block.started is None else block.started[at])
        nodes = np.full(n, NONE, np.int32)
        if block.nodes is not None:
            stated = block.nodes[at]
            good = np.isfinite(stated) & (stated >= 1) & (stated <= MOST_GPUS)
            nodes[good] = np.rint(stated[good]).astype(np.int32)
        self._nodes.append(nodes)
        ids = block.ids
        self._ids.extend(ids if n == len(ids) else [ids[i] for i in at.tolist()])

    def _judge(self, block: Block, lines: NDArray[np.int64]) -> Bools:
        gpus, submit, runtime = block.gpus, block.submit, block.runtime
        keep = np.ones(len(lines), np.bool_)
        rules: list[tuple[Bools, str]] = [
            (~np.isfinite(gpus), "no readable number of GPUs"),
            (gpus <= 0, "no GPUs"),
            (gpus > MOST_GPUS, "more than a million GPUs"),
            (~np.isfinite(submit), "no readable submit time"),
            (submit >= LATEST_S, "submitted after the year 2200"),
            (np.isnan(runtime), "no runtime: it never ran, or had not ended"),
            (runtime < 0, "negative runtime"),
            (runtime > LONGEST_S, "runtime above a year"),
        ]
        if not self.dated:
            rules.append((submit < 0, "submitted before second 0"))
        refused = [(bad, reason) for reason, bad in block.refused.items()]
        for bad, reason in refused + rules:
            self._note("dropped", reason, bad & keep, lines)
            keep &= ~bad
        return keep

    def _note(self, what: str, reason: str, rows: Bools, lines: NDArray[np.int64]) -> None:
        count = int(np.count_nonzero(rows))
        if count:
            self.report.note(what, reason, count, int(lines[rows].min()))

    def _runtimes(self, runtime: F8s, lines: NDArray[np.int64]) -> NDArray[np.int64]:
        whole = np.rint(runtime).astype(np.int64)
        self._note("clamped", "runtime under a second, taken as 1 s", whole < 1, lines)
        return np.maximum(whole, 1)

    def _gpus(self, gpus: F8s, lines: NDArray[np.int64]) -> NDArray[np.int32]:
        whole = np.ceil(gpus - 1e-9).astype(np.int32)
        self._note("clamped", "parts of a GPU, rounded up", np.abs(whole - gpus) > 1e-6, lines)
        return np.maximum(whole, 1)

    def _tenants(
        self, names: Sequence[str] | None, at: NDArray[np.intp], lines: NDArray[np.int64]
    ) -> NDArray[np.int32]:
        rows = self._tenant_rows
        if names is None:
            return np.full(len(at), rows.setdefault("all", len(rows)), np.int32)
        told = np.empty(len(at), np.int32)
        blank = np.zeros(len(at), np.bool_)
        for k, i in enumerate(at.tolist()):
            name = names[i].strip()
            if not name:
                blank[k], name = True, NO_TENANT
            row = rows.get(name)
            if row is None:
                row = rows[name] = len(rows)
            told[k] = row
        self._note("guessed", f"no tenant named, given to '{NO_TENANT}'", blank, lines)
        return told

    def _limits(self, column: NDArray[np.int64], given: F8s, lines: NDArray[np.int64], name: str) -> None:
        """Write what is a time into the column; infinity and NaN leave its default."""
        stated = np.isfinite(given) & (given >= 0)
        if name == "max_runtime_s":
            stated &= given > 0
        self._note("guessed", f"negative {name}, taken as none", np.isfinite(given) & (given < 0), lines)
        column[stated] = np.rint(np.minimum(given[stated], float(100 * YEAR_S))).astype(np.int64)

    @staticmethod
    def _fails(table: Any) -> Bools:
        """Failed, or its node did; timed out too where no limit tells a replay to stop it."""
        ended = np.isin(table["end"], BAD_ENDS)
        unlimited = table["max_runtime_s"] > table["runtime_s"]
        failed: Bools = ended | ((table["end"] == End.TIMED_OUT) & unlimited)
        return failed

    def finish(self) -> Trace:
        """The trace of all blocks. Raises BadInput where no job is left."""
        if not self._ids:
            raise BadInput(str(self.file), "", f"no job ({self._why_none()})", "at least one job on GPUs")
        table = np.concatenate(self._tables)
        submit, started = np.concatenate(self._submit), np.concatenate(self._started)
        lines, nodes = np.concatenate(self._lines), np.concatenate(self._nodes)
        self._tables, self._submit, self._started = [], [], []
        zero, keep = self._second_zero(submit, lines)
        table["submit_s"] = np.rint(np.where(keep, submit, zero) - zero).astype(np.int64)
        order = np.flatnonzero(keep)
        order = order[np.argsort(table["submit_s"][order], kind="stable")]
        if not len(order):
            raise BadInput(str(self.file), "", f"no job ({self._why_none()})", "at least one job on GPUs")
        table, lines, nodes = table[order], lines[order], nodes[order]
        ids = [self._ids[i] for i in order.tolist()]
        ids, table, lines, kept = self._unique(ids, table, lines)
        order = order[kept]
        self.report.kept = len(table)
        known = np.abs(started[order] - zero) <= SPAN_S  # neither NaN nor years away
        ran = np.full(len(order), NEVER_S, np.int64)
        ran[known] = np.rint(started[order][known] - zero).astype(np.int64)
        nodes = nodes[kept]
        label = self.zero if (self.zero is not None or not self.dated) else zero
        return Trace(
            ids=ids,
            tenants=list(self._tenant_rows),
            rows=table,
            start=None if label is None else iso(label),
            report=self.report,
            started_s=ran if known.any() else None,
            nodes=nodes if (nodes != NONE).any() else None,
        )

    def _why_none(self) -> str:
        dropped = [f"{f.count} dropped: {reason}" for reason, f in self.report.dropped.items()]
        return "; ".join(dropped) if dropped else "the file holds no rows"

    def _second_zero(self, submit: F8s, lines: NDArray[np.int64]) -> tuple[float, Bools]:
        """Where second 0 lies in the file's own count, and which rows lie within reach of it."""
        half = (len(submit) - 1) // 2
        middle = float(np.partition(submit, half)[half])  # one of the submissions, never between two
        if not self.dated and middle >= EPOCH_FROM_S:
            self.dated = True
            self._note("guessed", "numbers so large are Unix times", submit >= EPOCH_FROM_S, lines)
        near = np.abs(submit - middle) <= SPAN_S
        self._note("dropped", "submitted years away from all others", ~near, lines)
        if not self.dated:
            return 0.0, near
        zero = float(np.floor(submit[near].min())) if self.zero is None else self.zero
        early = near & (submit < zero)
        self._note("dropped", "submitted before the start given", early, lines)
        return zero, near & ~early

    def _unique(
        self, ids: list[str], table: Any, lines: NDArray[np.int64]
    ) -> tuple[list[str], Any, NDArray[np.int64], NDArray[np.intp]]:
        """Ids that come once: a row said twice is dropped, another job of the same name gets a new one."""
        everyone = np.arange(len(ids))
        if len(set(ids)) == len(ids):
            return ids, table, lines, everyone
        seen: dict[str, int] = {}
        taken, next_k = set(ids), dict.fromkeys(ids, 2)
        same, renamed = np.zeros(len(ids), np.bool_), np.zeros(len(ids), np.bool_)
        for row, name in enumerate(ids):
            first = seen.setdefault(name, row)
            if first == row:
                continue
            if table[first] == table[row]:
                same[row] = True
                continue
            renamed[row] = True
            while f"{name}~{next_k[name]}" in taken:
                next_k[name] += 1
            ids[row] = f"{name}~{next_k[name]}"
            taken.add(ids[row])
        self._note("dropped", "the same job said twice", same, lines)
        self._note("guessed", "an id used before, given a new name (ID~2 …)", renamed, lines)
        kept = everyone[~same]
        return [ids[i] for i in kept.tolist()], table[kept], lines[kept], kept


def _instant(start: datetime) -> float:
    return (start if start.tzinfo is not None else start.replace(tzinfo=UTC)).timestamp()
