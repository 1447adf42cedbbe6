"""One job of the several rows that Slurm writes for it: requeued attempts, heterogeneous components."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tenure.core.words import End
from tenure.simulator.traces.gather import Block
from tenure.simulator.traces.instants import CLOCK_CHANGE, F8s
from tenure.simulator.traces.trace import ImportReport

DAY_S = 86_400.0
FIELDS = ("submit", "started", "ended", "elapsed", "gpus", "limit", "nodes", "end", "running", "waiting",
          "asked", "by_partition", "unsure")  # fmt: skip
BLOCK_ROWS = 100_000
REQUEUED = "requeued: its attempts are one job, of their summed runtime"
COMPONENTS = "components of a heterogeneous job, joined to one"


class Records:
    """All rows of jobs as columns of numbers (FIELDS), NaN where not told; yes and no are 1 and 0."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.lines: list[int] = []
        self.tenants: list[str] = []
        self.clusters: set[str] = set()
        self.cluster_of: list[str] = []
        self._pieces: dict[str, list[F8s]] = {name: [] for name in FIELDS}

    def extend(self, **columns: F8s) -> None:
        """Add a block of rows."""
        for name in FIELDS:
            self._pieces[name].append(columns[name])

    def columns(self) -> dict[str, F8s]:
        """The columns, joined; the pieces are given up."""
        told = {name: np.concatenate(pieces) for name, pieces in self._pieces.items() if pieces}
        self._pieces = {}
        return told


def joined(records: Records, report: ImportReport) -> Iterator[Block]:
    """Blocks of jobs, each job once."""
    if not records.ids:
        return
    if len(records.clusters) > 1:  # ids are counted by cluster
        records.ids = [f"{cluster}:{job}" for cluster, job in zip(records.cluster_of, records.ids)]
    told = records.columns()
    n = len(records.ids)
    keep, requeued, components = np.ones(n, np.bool_), np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    _join_components(records.ids, told, keep, components)
    _join_attempts(records.ids, told, keep, requeued)
    away = np.flatnonzero(~keep)
    if len(away):
        line = min(records.lines[row] for row in away.tolist())
        report.note("skipped", "a row joined to another of its job", len(away), line)
    for first in range(0, n, BLOCK_ROWS):
        at = first + np.flatnonzero(keep[first : first + BLOCK_ROWS])
        also = {REQUEUED: requeued[at], COMPONENTS: components[at]}
        yield _block(records, told, at, also)


def _groups(ids: list[str], rows: NDArray[np.intp]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for row in rows.tolist():
        groups.setdefault(ids[row], []).append(row)
    return groups


def _join_components(
    ids: list[str], told: dict[str, F8s], keep: NDArray[np.bool_], marked: NDArray[np.bool_]
) -> None:
    """123+0, 123+1 … submitted together start together: one job `123` of all their GPUs and nodes."""
    parts: dict[tuple[str, float], list[int]] = {}
    for row, name in enumerate(ids):
        if "+" in name:
            base = name.rpartition("+")[0]
            parts.setdefault((base, float(told["submit"][row])), []).append(row)
    for (base, _), rows in parts.items():
        lead = max(rows, key=lambda row: (np.nan_to_num(told["elapsed"][row], nan=-1.0), -row))
        for name in ("gpus", "nodes"):
            told[name][lead] = np.nansum(told[name][rows])
        ids[lead] = base
        marked[lead] = len(rows) > 1
        keep[[row for row in rows if row != lead]] = False


def _join_attempts(
    ids: list[str], told: dict[str, F8s], keep: NDArray[np.bool_], marked: NDArray[np.bool_]
) -> None:
    """Rows of one id, each submitted no later than a day after the one before ended, are one job."""
    if len(set(ids)) == len(ids):
        return
    counts: dict[str, int] = {}
    for name in ids:
        counts[name] = counts.get(name, 0) + 1
    often = np.array([row for row, name in enumerate(ids) if counts[name] > 1 and keep[row]], np.intp)
    submit, started, ended = told["submit"], told["started"], told["ended"]
    for rows in _groups(ids, often).values():
        first_known = np.where(np.isnan(started), submit, started)
        rows.sort(key=lambda row: (np.nan_to_num(first_known[row], nan=np.inf), row))
        run = [rows[0]]
        for row in rows[1:]:
            before = run[-1]
            same_row = all(_equal(told[name][row], told[name][before]) for name in FIELDS)
            until = ended[before] if ended[before] == ended[before] else np.inf
            if not same_row and submit[row] <= until + DAY_S:
                run.append(row)
                continue
            _sum_up(run, told, keep, marked)
            run = [row]
        _sum_up(run, told, keep, marked)


def _equal(one: float, other: float) -> bool:
    return one == other or (one != one and other != other)


def _sum_up(run: list[int], told: dict[str, F8s], keep: NDArray[np.bool_], marked: NDArray[np.bool_]) -> None:
    """Let the last row of `run` speak for all: summed runtime, first submission and start, its own end."""
    if len(run) < 2:
        return
    last = run[-1]
    elapsed = told["elapsed"][run]
    told["elapsed"][last] = np.nansum(elapsed) if np.isfinite(elapsed).any() else np.nan
    for name in ("submit", "started"):
        known = told[name][run]
        if np.isfinite(known).any():
            told[name][last] = np.nanmin(known)
    if told["gpus"][last] == 0:
        told["gpus"][last] = told["gpus"][run].max()
    keep[run[:-1]] = False
    marked[last] = True


def _block(
    records: Records, told: dict[str, F8s], at: NDArray[np.intp], also: dict[str, NDArray[np.bool_]]
) -> Block:
    def column(name: str) -> F8s:
        return told[name][at]

    rows = at.tolist()
    ids = [records.ids[row] for row in rows]
    elapsed, end = column("elapsed"), column("end").astype(np.int8)
    ran = np.isfinite(column("started")) | (elapsed > 0)
    arrays = np.array(["[" in name for name in ids], np.bool_)
    on_gpus = column("gpus") > 0
    cancelled = (end == End.CANCELLED) & ~(elapsed > 0)
    return Block(
        lines=[records.lines[row] for row in rows],
        ids=ids,
        submit=column("submit"),
        runtime=elapsed,
        gpus=column("gpus"),
        tenants=[records.tenants[row] for row in rows],
        started=column("started"),
        nodes=column("nodes"),
        max_runtime=column("limit"),
        end=end,
        guesses={
            "no GPUs told as allocated: those asked for are taken": column("asked") > 0,
            "time limit of the partition, not told: taken as none": column("by_partition") > 0,
            CLOCK_CHANGE: column("unsure") > 0,
            **also,
        },
        refused={
            "array tasks that had not started": arrays & on_gpus,
            "cancelled before it started": cancelled & on_gpus,
            "still running": (column("running") > 0) & on_gpus,
            "still waiting": ((column("waiting") > 0) | ~ran) & on_gpus,
        },
    )
