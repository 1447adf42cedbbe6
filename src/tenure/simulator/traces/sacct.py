"""Slurm's `sacct --parsable2`: any choice of columns with a header, one row a job, array task or attempt.

Needed: JobID (or JobIDRaw), Submit, State, a size (AllocTRES, ReqTRES, AllocGRES or ReqGRES) and a time
(Elapsed, ElapsedRaw, or Start and End). Ask for all of it with
`sacct -a -D -X -P -S 2025-01-01 -o JobID,Submit,Start,End,ElapsedRaw,State,AllocTRES,ReqTRES,Account,User,
Partition,QOS,TimelimitRaw,NNodes`. Without -D, only the last attempt of a requeued job is told.
Forms of an id: 123, 123_4 (array task), 123_[5-9] (array tasks not yet started), 123+1 (component of a
heterogeneous job), 123.batch, 123.extern, 123.0 (steps). https://slurm.schedmd.com/sacct.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import numpy as np

from tenure.settings.errors import BadInput
from tenure.simulator.traces.attempts import Records, joined
from tenure.simulator.traces.delimited import BLOCK_ROWS, Rows, shown
from tenure.simulator.traces.ends import ends_of
from tenure.simulator.traces.gather import Gathering
from tenure.simulator.traces.instants import NAN, Clock, F8s, bounded, duration, durations, number, numbers
from tenure.simulator.traces.options import Options
from tenure.simulator.traces.source import open_text
from tenure.simulator.traces.trace import Trace
from tenure.simulator.traces.tres import gpus_of

SIZES = ("alloctres", "reqtres", "allocgres", "reqgres")
FREE_TEXT = ("jobname", "submitline", "comment", "admincomment", "workdir", "systemcomment", "extra")
TENANTS = ("account", "user", "partition", "qos", "group", "wckey", "cluster")
RUNNING = {"RUNNING", "R", "SUSPENDED", "S", "COMPLETING", "CG", "RESIZING", "RS"}
Texts = Callable[[str], Sequence[str] | None]  #: the texts of a column, where it is there
STEP = "a step of a job"
WAITING = {"PENDING", "PD", "REQUEUE_HOLD", "SPECIAL_EXIT"}


def read(file: Path, options: Options) -> Trace:
    """Jobs of such an output; the tenant is the Account (options.tenant: user, partition, qos, group …).

    Times are local to options.timezone unless they are epoch numbers (SLURM_TIME_FORMAT=%s).
    """
    clock = Clock(options.timezone)
    gathering = Gathering(file, "sacct", dated=True, start=options.start)
    records = Records()
    with open_text(file) as text:
        layout = Layout(file, text, options.tenant)
        for rows in layout.blocks(gathering):
            _record(rows, layout.where, clock, records)
    for block in joined(records, gathering.report):
        gathering.add(block)
    return gathering.finish()


class Layout:
    """The header of the output: which column is where."""

    def __init__(self, file: Path, text: IO[str], tenant: str | None) -> None:
        self.text, self.line = text, 0
        self.header = self._first()
        names = [name.split("%")[0].strip().lower() for name in self.header]
        self.width = len(names) if names[-1] else len(names) - 1  # --parsable ends lines with a bar
        found = {name: at for at, name in reversed(list(enumerate(names))) if name}
        self.free_text = [at for at, name in enumerate(names) if name in FREE_TEXT]
        self.where = dict(found)
        if "jobid" not in found and "jobidraw" in found:
            self.where["jobid"] = found["jobidraw"]
        self._check(file, found, tenant)

    def _first(self) -> list[str]:
        for line in self.text:
            self.line += 1
            if line.strip():
                return line.rstrip("\r\n").split("|")
        return [""]

    def _check(self, file: Path, found: Mapping[str, int], tenant: str | None) -> None:
        lacking = [name for name in ("JobID", "Submit", "State") if name.lower() not in self.where]
        if not any(name in found for name in SIZES):
            lacking.append("AllocTRES (or ReqTRES, AllocGRES, ReqGRES)")
        if not ({"elapsed", "elapsedraw"} & set(found) or {"start", "end"} <= set(found)):
            lacking.append("Elapsed (or ElapsedRaw, or Start and End)")
        if lacking:
            allowed = f"`sacct --parsable2` with a header and the columns {', '.join(lacking)} besides"
            raise BadInput(str(file), "header", shown(self.header), allowed)
        if tenant is not None and tenant.lower() not in found:
            raise BadInput(
                str(file), "tenant", f"{tenant!r}, not a column of this output", shown(self.header)
            )
        named = [name for name in TENANTS if name in found]
        key = tenant.lower() if tenant else named[0] if named else ""
        if key:
            self.where["tenant"] = found[key]

    def blocks(self, gathering: Gathering) -> Iterator[Rows]:
        """Rows of jobs; steps and headers again are skipped and counted."""
        rows: list[list[str]] = []
        lines: list[int] = []
        job_at, width, note = self.where["jobid"], self.width, gathering.report.note
        steps, first_step = 0, 0
        for line_number, line in enumerate(self.text, self.line + 1):
            if job_at == 0 and "." in line[: line.find("|")]:  # most lines: not worth a split
                steps += 1
                first_step = first_step or line_number
                continue
            cells = line.rstrip("\r\n").split("|")
            if len(cells) != width:
                fitted = self._fitted(cells)
                if fitted is None:
                    if line.strip():
                        gathering.drop("not as many cells as the header", line_number)
                    else:
                        note("skipped", "blank line", 1, line_number)
                    continue
                cells = fitted
            job = cells[job_at]
            if "." in job:
                steps += 1
                first_step = first_step or line_number
            elif job == self.header[job_at]:
                note("skipped", "the header again", 1, line_number)
            else:
                rows.append(cells)
                lines.append(line_number)
            if len(rows) >= BLOCK_ROWS:
                yield Rows(lines, list(zip(*rows)))
                rows, lines = [], []
        note("skipped", STEP, steps, first_step)
        if rows:
            yield Rows(lines, list(zip(*rows)))

    def _fitted(self, cells: list[str]) -> list[str] | None:
        """The row without the last bar of --parsable, and with bars put back into a job's name."""
        if cells[-1] == "" and len(cells) == self.width + 1 and len(self.header) == self.width + 1:
            return cells[:-1]
        extra = len(cells) - self.width
        if extra > 0 and len(self.free_text) == 1:
            at = self.free_text[0]
            return [*cells[:at], "|".join(cells[at : at + extra + 1]), *cells[at + extra + 1 :]]
        return None


def _record(rows: Rows, where: Mapping[str, int], clock: Clock, records: Records) -> None:
    """Add the rows to `records`, their texts read."""

    def texts(name: str) -> Sequence[str] | None:
        return rows.columns[where[name]] if name in where else None

    n = len(rows.lines)
    lacking = np.full(n, NAN)
    started = _instants(texts("start"), clock, lacking)
    ended = _instants(texts("end"), clock, lacking)
    states = rows.columns[where["state"]]
    words = [state.split(" ", 1)[0].rstrip("+").upper() for state in states]
    nodes = _nodes(texts, n)
    gpus, asked = _sizes(texts, nodes)
    limit, by_partition = _limits(texts, n)
    tenants = texts("tenant")
    clusters = texts("cluster")
    ids = rows.columns[where["jobid"]]
    if clusters is not None:
        records.clusters.update(clusters)
        records.cluster_of.extend(clusters)
    records.ids.extend(ids)
    records.lines.extend(rows.lines)
    records.tenants.extend(tenants if tenants is not None else ["all"] * n)
    records.extend(
        submit=_instants(rows.columns[where["submit"]], clock, lacking),
        started=started,
        ended=ended,
        elapsed=_elapsed(texts, ended - started),
        gpus=gpus,
        limit=limit,
        nodes=nodes,
        end=ends_of(states).astype(np.float64),
        running=np.array([word in RUNNING for word in words], np.float64),
        waiting=np.array([word in WAITING for word in words], np.float64),
        asked=asked,
        by_partition=by_partition,
        unsure=_unsure(rows.columns[where["submit"]], clock),
    )


def _instants(texts: Sequence[str] | None, clock: Clock, lacking: F8s) -> F8s:
    if texts is None:
        return lacking
    epoch = clock.epoch
    told = (float(text) if text.isascii() and text.isdigit() else epoch(text) for text in texts)
    return bounded(np.fromiter(told, np.float64, len(texts)))


def _unsure(texts: Sequence[str], clock: Clock) -> F8s:
    for rows in clock.guesses(texts).values():
        return rows.astype(np.float64)
    return np.zeros(len(texts))


def _elapsed(texts: Texts, between: F8s) -> F8s:
    raw = texts("elapsedraw")
    spelled = texts("elapsed")
    told = numbers(raw) if raw is not None else durations(spelled) if spelled is not None else between
    return np.where(np.isnan(told), between, told)


def _nodes(texts: Texts, n: int) -> F8s:
    for name in ("nnodes", "allocnodes", "reqnodes"):
        column = texts(name)
        if column is not None:
            return numbers(column)
    return np.full(n, NAN)


def _sizes(texts: Texts, nodes: F8s) -> tuple[F8s, F8s]:
    """(GPUs, whether they are those asked for because none are told as allocated)."""
    n = len(nodes)
    gpus, asked = np.zeros(n), np.zeros(n)
    for name in SIZES:
        column = texts(name)
        if column is None:
            continue
        known = {text: gpus_of(text) for text in set(column)}
        counted = np.fromiter((known[text] for text in column), np.float64, n)
        if name == "reqgres":  # asked for by node
            counted *= np.maximum(np.nan_to_num(nodes, nan=1.0, posinf=1.0), 1.0)
        here = (gpus == 0) & (counted > 0)
        gpus[here] = counted[here]
        if name.startswith("req"):
            asked[here] = 1.0
    return gpus, asked


def _limits(texts: Texts, n: int) -> tuple[F8s, F8s]:
    """(time limit in seconds or NaN, whether it is the partition's and not told)."""
    raw, spelled = texts("timelimitraw"), texts("timelimit")
    column = raw if raw is not None else spelled
    if column is None:
        return np.full(n, NAN), np.zeros(n)
    known = {text: number(text) * 60 if raw is not None else duration(text) for text in set(column)}
    by_partition = np.array([text.lower() == "partition_limit" for text in column], np.float64)
    return np.fromiter((known[text] for text in column), np.float64, n), by_partition
