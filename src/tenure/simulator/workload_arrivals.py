"""Arrivals of a real trace as closed-loop lists: tenants become accounts, by rank of the GPU-time they used.

Meant for the Philly trace of 2017 (Jeon et al., ATC '19, CC-BY-4.0); any trace with tenants will do.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tenure.simulator.traces import detect_format, read_trace
from tenure.simulator.workload_lists import (
    DAY_S,
    OFFSET,
    TRACE,
    Draw,
    Ints,
    JobList,
    Jobs,
    Seat,
    between,
    cap_gpus,
    generator,
    joined,
    target_gpus,
    whole_s,
)


class Arrivals(NamedTuple):
    """Jobs of a trace in order of arrival; seconds since the first one."""

    arrive_s: Ints
    run_s: NDArray[np.float64]
    gpus: Ints
    tenant: Ints  #: row of `tenants`
    tenants: list[str]


class TenantJobs(NamedTuple):
    """One tenant's jobs of the stretch, scaled to an account."""

    arrive_s: Ints  #: since the start of the stretch
    run_s: Ints
    gpus: Ints


def read_arrivals(path: Path) -> Arrivals:
    """The jobs of a trace in any format the importer knows; BadInput if it cannot be read."""
    trace = read_trace(path, detect_format(path))
    rows = trace.rows
    return Arrivals(
        arrive_s=rows["submit_s"] - rows["submit_s"][0],
        run_s=rows["runtime_s"].astype(np.float64),
        gpus=rows["gpus"].astype(np.int64),
        tenant=rows["tenant"].astype(np.int64),
        tenants=trace.tenants,
    )


def trace_lists(draw: Draw, seats: Sequence[Seat], arrivals: Arrivals) -> tuple[list[JobList], list[str]]:
    """
    A list for each account that has a tenant: jobs with the trace's arrivals, held back while at the target.

    Accounts and tenants are matched by rank, of entitlement and of GPU-time. Also what was left out.
    """
    shape = draw.shape
    tenants = tenants_by_rank(arrivals, least_jobs=shape.least_jobs)
    entitled = {seat.number: seat.account_gpus for seat in seats}
    by_rank = sorted(entitled, key=lambda number: (-entitled[number], number))
    tenant_of = dict(zip(by_rank, tenants, strict=False))
    low, high = offset_bounds(arrivals, tenants, stretch_s=shape.stretch_days * DAY_S)
    offset_s = round(low + (high - low) * float(generator(draw.seed, 0, OFFSET).random()))
    lists = []
    for seat in seats:
        if seat.number in tenant_of and seat.gpus > 0:
            scaled = scaled_jobs(
                draw,
                arrivals,
                tenant_of[seat.number],
                offset_s=offset_s,
                entitled_gpus=seat.account_gpus,
            )
            lists.append(_trace_list(draw, seat, scaled))
    return lists, _left_out(draw, arrivals, tenants, n_accounts=len(by_rank))


def _trace_list(draw: Draw, seat: Seat, scaled: TenantJobs) -> JobList:
    """A tenant's stretch, played again and again until the end; protections are drawn anew each time."""
    shape = draw.shape
    rng = generator(draw.seed, seat.number, TRACE)
    rows = len(scaled.gpus)
    rounds: list[Jobs] = []
    for start_s in range(0, draw.until_s, round(shape.stretch_days * DAY_S)):
        part = between(shape.trace_protection_part, rng.random(rows))
        protection_s = whole_s(part * scaled.run_s)
        rounds.append(
            Jobs(
                gpus=scaled.gpus,
                min_runtime_s=np.clip(protection_s, shape.trace_protection_least_s, shape.protection_most_s),
                work_s=scaled.run_s,
                session=np.zeros(rows, np.bool_),
                arrive_s=scaled.arrive_s + start_s,
            )
        )
    jobs = joined(rounds)
    places = np.flatnonzero(jobs.arrive_s < draw.until_s)[seat.part :: seat.parts]
    return JobList(
        jobs=jobs.take(places),
        account=np.full(len(places), seat.account, np.int64),
        ids=[f"{seat.name}-{place}" for place in places.tolist()],
        target=target_gpus(shape.busy_target, seat.gpus),
        saves=shape.save_on_notice,
    )


def _left_out(draw: Draw, arrivals: Arrivals, tenants: Sequence[int], *, n_accounts: int) -> list[str]:
    remarks = []
    few = sorted(name for row, name in enumerate(arrivals.tenants) if row not in tenants)
    if few:
        remarks.append(
            f"tenants with fewer than {draw.shape.least_jobs} jobs were left out: {', '.join(few)}"
        )
    if len(tenants) > n_accounts:
        remarks.append(
            f"the {len(tenants) - n_accounts} smallest tenants were left out: there are no more accounts"
        )
    if len(tenants) < n_accounts:
        remarks.append(
            f"the trace has {len(tenants)} tenants: the {n_accounts - len(tenants)} smallest accounts"
            " send debug and unbudgeted jobs only"
        )
    return remarks


def tenants_by_rank(arrivals: Arrivals, *, least_jobs: int) -> list[int]:
    """Rows of the tenants with at least `least_jobs` jobs, most GPU-time first, ties by name."""
    used = np.bincount(arrivals.tenant, arrivals.gpus * arrivals.run_s, len(arrivals.tenants))
    jobs = np.bincount(arrivals.tenant, minlength=len(arrivals.tenants))
    ranked = sorted(
        range(len(arrivals.tenants)), key=lambda tenant: (-used[tenant], arrivals.tenants[tenant])
    )
    return [tenant for tenant in ranked if jobs[tenant] >= least_jobs]


def offset_bounds(arrivals: Arrivals, tenants: Sequence[int], *, stretch_s: float) -> tuple[float, float]:
    """
    Where a stretch may begin: not before every tenant has come once, and whole inside the trace.

    A trace that is too short for both begins as late as the whole stretch allows, at the earliest at 0.
    """
    latest = max(0.0, float(arrivals.arrive_s[-1]) - stretch_s)
    first_seen = [int(arrivals.arrive_s[arrivals.tenant == tenant][0]) for tenant in tenants]
    return min(float(max(first_seen, default=0)), latest), latest


def scaled_jobs(
    draw: Draw, arrivals: Arrivals, tenant: int, *, offset_s: int, entitled_gpus: float
) -> TenantJobs:
    """
    A tenant's jobs of the stretch, with a load of `trace_load` entitlements over it.

    GPUs are multiplied by the largest power of two the load asks for, up to `widen_most`, put on whole nodes
    (below a node: a power of two) and capped as drawn jobs are; run lengths are stretched by what is left.
    """
    shape = draw.shape
    stretch_s = shape.stretch_days * DAY_S
    inside = (
        (arrivals.tenant == tenant)
        & (arrivals.arrive_s >= offset_s)
        & (arrivals.arrive_s < offset_s + stretch_s)
    )
    gpus, run_s = arrivals.gpus[inside], arrivals.run_s[inside]
    wanted_gpu_s = shape.trace_load * entitled_gpus * stretch_s
    widen, factor = 1, wanted_gpu_s / max(1.0, float(gpus @ run_s))
    while 2 * widen <= min(factor, shape.widen_most):
        widen *= 2
    gpus = np.minimum(_on_nodes(gpus * widen, shape.gpus_per_node), cap_gpus(entitled_gpus, draw))
    stretch = wanted_gpu_s / max(1.0, float(gpus @ run_s))
    return TenantJobs(
        arrive_s=arrivals.arrive_s[inside] - offset_s,
        run_s=np.maximum(np.rint(run_s * stretch), 1).astype(np.int64),
        gpus=gpus,
    )


def _on_nodes(gpus: Ints, node_gpus: int) -> Ints:
    """Sizes rounded up to whole nodes, or below a node to a power of two (at most the node)."""
    below = np.minimum(2 ** np.ceil(np.log2(gpus)).astype(np.int64), node_gpus)
    return np.where(gpus > node_gpus, -(-gpus // node_gpus) * node_gpus, below)
