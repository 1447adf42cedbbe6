"""A trace's jobs on a lab: whose account each is, what minimum it declares, what sizes become of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tenure.core.columns import WHOLE
from tenure.core.tables import Table
from tenure.core.words import NONE
from tenure.settings.errors import BadInput, nearest
from tenure.settings.lab import OWN, Account, Lab
from tenure.settings.lab_tables import Holder
from tenure.settings.scenario_file import FROM_TRACE, OTHERS, ScenarioFile, TraceFile
from tenure.settings.units import LONGEST_NAME
from tenure.simulator.scenario_work import Work, new_work
from tenure.simulator.traces import Trace, read_trace


class Given(NamedTuple):
    """A trace with the account path of each of its tenants, in the lab it is played on."""

    trace: Trace
    lab: Lab
    paths: list[str]


def read_given(written: ScenarioFile, lab: Lab, folder: Path, file: str) -> Given:
    """Read the scenario's trace and give its tenants accounts; the lab has new ones where asked for."""
    asked = written.trace
    assert asked is not None
    trace = read_trace(
        folder / asked.file,
        asked.format,
        columns=asked.columns,
        timezone=asked.timezone,
        start=written.start,
        tenant=asked.tenant,
    )
    lab, paths = _accounts(asked, trace, lab, file)
    return Given(trace, lab, paths)


def _accounts(asked: TraceFile, trace: Trace, lab: Lab, file: str) -> tuple[Lab, list[str]]:
    where, rows = "trace.accounts", lab.rows()
    if isinstance(asked.accounts, Mapping):
        told = dict(asked.accounts)
        unknown = [tenant for tenant in trace.tenants if tenant not in told]
        if unknown and OTHERS not in told:
            found = f"no account for {len(unknown)} of {len(trace.tenants)} tenants, first '{unknown[0]}'"
            raise BadInput(
                file, where, found, f"an account path for each tenant, or '{OTHERS}' for all others"
            )
        paths = [told.get(tenant, told.get(OTHERS, "")) for tenant in trace.tenants]
    elif asked.accounts != FROM_TRACE:
        paths = [str(asked.accounts)] * len(trace.tenants)
    else:
        has_accounts = len(lab.accounts) > 1
        shares = asked.shares or ("given" if has_accounts else "equal")
        if shares != "given":
            return _new_accounts(trace, lab, as_used=shares == "as-used")
        paths = [_given(tenant, list(rows), file) for tenant in trace.tenants]
    for path in paths:
        if path not in rows or not path:
            raise BadInput(
                file, where, f"the unknown account '{path}'", nearest(path, [p for p in rows if p])
            )
    return lab, paths


def _given(tenant: str, paths: list[str], file: str) -> str:
    """The lab's account of that path, or the only one of that name."""
    if tenant in paths:
        return tenant
    named = [path for path in paths if path.rsplit("/", 1)[-1] == clean(tenant)]
    if len(named) == 1:
        return named[0]
    found = f"the tenant '{tenant}', which is {'several accounts' if named else 'no account'} of the lab"
    hint = "shares: equal makes accounts of tenants, accounts: PATH puts all in one"
    offer = nearest(tenant, [path for path in paths if path])
    raise BadInput(file, "trace.accounts", found, f"{offer} ({hint})")


def _new_accounts(trace: Trace, lab: Lab, *, as_used: bool) -> tuple[Lab, list[str]]:
    """Tenants as accounts below the root, with what those already there leave."""
    rows = lab.rows()
    names, taken = [], set(rows)
    for tenant in trace.tenants:
        name = clean(tenant)
        if tenant in rows:
            names.append(tenant)
            continue
        number = 2
        while name in taken:
            name, number = f"{clean(tenant)}-{number}", number + 1
        taken.add(name)
        names.append(name)
    fresh = [row for row, name in enumerate(names) if name not in rows]
    top = [account for account in lab.accounts if account.parent == 0]
    left = [WHOLE - sum(account.shares[c] for account in top) for c in range(len(lab.clusters))]
    used = np.bincount(
        trace.rows["tenant"],
        trace.rows["runtime_s"] * trace.rows["gpus"].astype(np.float64),
        len(trace.tenants),
    )[fresh]
    weights = used if as_used and used.sum() > 0 else np.ones(len(fresh))
    parts = (
        np.stack([_parts(weights.astype(np.float64), whole) for whole in left], axis=1)
        if fresh
        else np.zeros((0, 0))
    )
    added = [
        Account(names[row], 0, tuple(int(part) for part in parts[k]), (), None, None)
        for k, row in enumerate(fresh)
    ]
    return lab._replace(accounts=lab.accounts + tuple(added)), names


def _parts(weights: NDArray[np.float64], whole: int) -> NDArray[np.int64]:
    """Whole millionths by weight, rounded down; at least one for each where there are enough."""
    parts = np.floor(weights / weights.sum() * whole).astype(np.int64)
    if whole >= len(parts):
        parts = np.maximum(parts, 1)
        parts[np.argmax(parts)] -= max(0, int(parts.sum()) - whole)
    return parts


def clean(tenant: str) -> str:
    """A tenant's name as an account's: no slash, no odd characters, not too long."""
    letters = ("-" if c == "/" else c if c.isprintable() and not c.isspace() else "_" for c in tenant.strip())
    name = "".join(letters)[: LONGEST_NAME - 10]
    return "unnamed" if not name else f"{name}_" if name == OWN else name


def traced(
    given: Given, written: ScenarioFile, holder: Holder, leaf_of: Mapping[str, int], file: str
) -> Work:
    """The trace's jobs as rows. What is left out or changed is counted in the trace's report."""
    asked, trace = written.trace, given.trace
    assert asked is not None
    gpus, keep = _sizes(asked, trace, holder, file)
    if written.until is not None:
        keep &= trace.rows["submit_s"] < written.until  # they would never come
    rows, gpus = trace.rows[keep], gpus[keep]
    work = new_work(len(rows))
    jobs, hidden = work.jobs, work.hidden
    jobs["gpus"] = gpus
    sizes, size_of = np.unique(gpus, return_inverse=True)
    bits = np.array([holder.clusters(size) for size in sizes.tolist()], np.int64)
    jobs["clusters"] = bits[size_of] if len(sizes) else 0
    leaves = np.array([leaf_of[path] for path in given.paths], np.int32)
    jobs["account"] = leaves[rows["tenant"]] if len(rows) else 0
    jobs["min_runtime_s"] = _minimum(asked.min_runtime, rows)
    for name in ("max_runtime_s", "priority", "kind", "resumable"):
        jobs[name] = rows[name]
    jobs["saves_when_asked"] = jobs["min_runtime_s"] > 0
    hidden["work_s"], hidden["arrive_s"], hidden["fails"] = rows["runtime_s"], rows["submit_s"], rows["fails"]
    work.ids = trace.ids if keep.all() else [trace.ids[row] for row in np.flatnonzero(keep).tolist()]
    return work


def remarks_about(work: Work, asked: TraceFile | None) -> list[str]:
    """What a reader of the results should know: jobs that name no minimum, or one beyond their limit."""
    told = []
    jobs = work.jobs
    free = int(np.count_nonzero(jobs["min_runtime_s"] == 0))
    if free and asked is not None and asked.min_runtime == ("fixed", 0):
        told.append(
            f"{free} jobs of the trace name no minimum and are unbudgeted: neither charged nor protected;"
            " trace.min_runtime gives them one (1h, runtime or 30%)"
        )
    beyond = int(np.count_nonzero(jobs["min_runtime_s"] > jobs["max_runtime_s"]))
    if beyond:
        told.append(
            f"{beyond} jobs of the trace have a min_runtime above the max_runtime at which they are stopped"
        )
    return told


def _minimum(asked: tuple[str, int], rows: Table) -> NDArray[np.int64]:
    """What each job declares: what it names itself, else as the scenario says.

    `runtime` is the whole of it; how much of that is protected, the policy's `max_protected` says.
    """
    how, value = asked
    runtime = rows["runtime_s"]
    stated = np.full(len(rows), value, np.int64)
    if how == "runtime":
        stated = runtime.copy()
    elif how == "part":
        stated = np.maximum((runtime * value + WHOLE // 2) // WHOLE, 1 if value else 0)
    named = rows["min_runtime_s"] != NONE
    return np.where(named, rows["min_runtime_s"], stated)


def _sizes(
    asked: TraceFile, trace: Trace, holder: Holder, file: str
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """GPUs of each job on this lab, and which jobs there is a place for."""
    sizes, size_of, counts = np.unique(trace.rows["gpus"], return_inverse=True, return_counts=True)
    becomes = np.zeros(len(sizes), np.int32)
    for k, size in enumerate(sizes.tolist()):
        held = holder.rounded_up(size)
        if asked.sizes == "refuse" and held != size:
            found = f"{counts[k]} jobs of {size} GPUs, which no cluster can hold"
            everywhere = holder.allowed(range(len(holder.lab.clusters)))
            raise BadInput(file, "trace.sizes", found, f"{everywhere}; or sizes: round-up | drop")
        if held is None:
            _leave_out(trace, int(counts[k]), "more GPUs than any cluster has")
        elif held != size and asked.sizes == "drop":
            _leave_out(trace, int(counts[k]), "a size no node shape can hold")
        else:
            becomes[k] = held
            if held != size:
                trace.report.note("clamped", "size rounded up to whole nodes", int(counts[k]), None)
    gpus = becomes[size_of]
    return gpus, gpus > 0


def _leave_out(trace: Trace, count: int, reason: str) -> None:
    trace.report.note("dropped", reason, count, None)
    trace.report.kept -= count
