"""What a trace holds: how many jobs, how large, how long, whose, when, and what they want of a cluster."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from tenure.core.words import NEVER_S, NONE, End
from tenure.settings.errors import BadInput
from tenure.simulator.traces.trace import Trace

HOUR_S = 3600
QUARTER_S = 900  #: some zones are half or three quarters of an hour off
SHORT_S = (60, 900, 3600)
PERCENTILES = (10, 50, 90, 99)
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
CURVE_POINTS = 200


@dataclass(frozen=True)
class Description:
    """All numbers of a description. Shares are parts of 1; `gpu_h` is GPU-hours of the jobs' runtimes.

    `clock` says what hours and weekdays mean: `local` (the trace has dates) or `since second 0`.
    `offered_load` is GPU-hours over what `gpus` hold between the first and the last submission; None, as are
    `mean_gpus_wanted`, where all is submitted at one instant.
    """

    file: str
    format: str
    start: str | None
    clock: str
    timezone: str
    first_submit_s: int
    span_s: int
    jobs: int
    gpu_h: float
    mean_gpus_wanted: float | None
    gpus: int | None
    offered_load: float | None
    sizes: list[dict[str, Any]]  #: {gpus, jobs, jobs_share, gpu_h, gpu_h_share}
    runtime_s: dict[str, float]
    wait_s: dict[str, float] | None  #: as it was: start − submit, where the trace tells it
    tenants: list[dict[str, Any]]  #: {tenant, jobs, gpu_h, gpu_h_share}, most GPU-hours first
    by_hour: list[int]  #: submissions in each hour of the day
    by_weekday: list[int]  #: from Monday, or from the first day
    by_week_hour: list[int]  #: in each of the 168 hours of the week
    short: list[dict[str, Any]]  #: {up_to_s, jobs_share, gpu_h_share}
    ends: list[dict[str, Any]]  #: {end, jobs, jobs_share, gpu_h}
    with_min_runtime: int
    with_max_runtime: int
    runtime_curve: dict[str, list[float]]  #: {runtime_s, jobs_share, gpu_h_share}: cumulative
    report: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def describe(trace: Trace, *, gpus: int | None = None, timezone: str = "UTC") -> Description:
    """Describe a trace; `gpus` of a cluster give its offered load; hours are told in `timezone`.

    Raises BadInput for a zone that is not known or a cluster without GPUs.
    """
    if gpus is not None and gpus < 1:
        raise BadInput("", "gpus", str(gpus), "a whole number of GPUs, at least 1")
    rows = trace.rows
    runtime = rows["runtime_s"]
    gpu_s = runtime * rows["gpus"]
    total = int(gpu_s.sum())
    mean_gpus = total / trace.span_s if trace.span_s > 0 else None
    hours = _week_hours(trace, timezone)
    return Description(
        file=trace.report.file,
        format=trace.report.format,
        start=trace.start,
        clock="since second 0" if trace.start is None else "local",
        timezone=timezone,
        first_submit_s=int(rows["submit_s"][0]) if len(rows) else 0,
        span_s=trace.span_s,
        jobs=len(rows),
        gpu_h=total / HOUR_S,
        mean_gpus_wanted=mean_gpus,
        gpus=gpus,
        offered_load=None if gpus is None or mean_gpus is None else mean_gpus / gpus,
        sizes=_sizes(rows["gpus"], gpu_s, total),
        runtime_s=_spread(runtime),
        wait_s=_waits(trace),
        tenants=_tenants(trace, gpu_s, total),
        by_hour=np.bincount(hours % 24, minlength=24).tolist(),
        by_weekday=np.bincount(hours // 24, minlength=7).tolist(),
        by_week_hour=np.bincount(hours, minlength=168).tolist(),
        short=[_up_to(limit, runtime, gpu_s, total) for limit in SHORT_S],
        ends=_ends(rows["end"], gpu_s),
        with_min_runtime=int((rows["min_runtime_s"] != NONE).sum()),
        with_max_runtime=int((rows["max_runtime_s"] != NEVER_S).sum()),
        runtime_curve=_curve(runtime, gpu_s, total),
        report=trace.report.to_dict(),
    )


def _week_hours(trace: Trace, timezone: str) -> NDArray[np.int64]:
    """Hour of the week (0 = Monday 0:00, or second 0) of each submission."""
    submit = trace.rows["submit_s"]
    if trace.start is None:
        return np.asarray(submit // HOUR_S % 168)
    try:
        zone = ZoneInfo(timezone)
    except (KeyError, ValueError, OSError) as problem:
        raise BadInput("", "timezone", repr(timezone), "a name like Europe/Paris or UTC") from problem
    zero = int(datetime.fromisoformat(trace.start).timestamp())
    known, place = np.unique((submit + zero) // QUARTER_S, return_inverse=True)
    local = [_week_hour(quarter * QUARTER_S, zone) for quarter in known.tolist()]
    return np.asarray(np.array(local, np.int64)[place])


def _week_hour(epoch_s: int, zone: ZoneInfo) -> int:
    when = datetime.fromtimestamp(epoch_s, zone)
    return when.weekday() * 24 + when.hour


def _spread(values: NDArray[np.int64]) -> dict[str, float]:
    """Mean, nearest-rank percentiles and extremes."""
    ordered = np.sort(values)
    n = len(ordered)
    if n == 0:
        return {"n": 0}
    told: dict[str, float] = {"n": n, "mean": float(ordered.mean()), "min": int(ordered[0])}
    for p in PERCENTILES:
        told[f"p{p}"] = int(ordered[max(-(-p * n // 100), 1) - 1])
    return {**told, "max": int(ordered[-1])}


def _waits(trace: Trace) -> dict[str, float] | None:
    if trace.started_s is None:
        return None
    known = trace.started_s != NEVER_S
    return _spread(np.maximum(trace.started_s[known] - trace.rows["submit_s"][known], 0))


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _sizes(gpus: NDArray[np.int32], gpu_s: NDArray[np.int64], total: int) -> list[dict[str, Any]]:
    """Jobs by size: 1, 2, 3-4, 5-8, 9-16 … GPUs."""
    step = np.ceil(np.log2(np.maximum(gpus, 1))).astype(np.int64)
    told = []
    for k in np.unique(step).tolist():
        here = step == k
        low, high = 2 ** (k - 1) + 1 if k > 0 else 1, 2**k
        jobs, amount = int(here.sum()), int(gpu_s[here].sum())
        told.append(
            {
                "gpus": str(high) if low >= high else f"{low}-{high}",
                "jobs": jobs,
                "jobs_share": _share(jobs, len(gpus)),
                "gpu_h": amount / HOUR_S,
                "gpu_h_share": _share(amount, total),
            }
        )
    return told


def _tenants(trace: Trace, gpu_s: NDArray[np.int64], total: int) -> list[dict[str, Any]]:
    n = len(trace.tenants)
    jobs = np.bincount(trace.rows["tenant"], minlength=n)
    amount = np.zeros(n, np.int64)
    np.add.at(amount, trace.rows["tenant"], gpu_s)
    order = np.lexsort((np.arange(n), -amount))
    return [
        {
            "tenant": trace.tenants[row],
            "jobs": int(jobs[row]),
            "gpu_h": int(amount[row]) / HOUR_S,
            "gpu_h_share": _share(int(amount[row]), total),
        }
        for row in order.tolist()
        if jobs[row]
    ]


def _up_to(limit: int, runtime: NDArray[np.int64], gpu_s: NDArray[np.int64], total: int) -> dict[str, Any]:
    here = runtime <= limit
    return {
        "up_to_s": limit,
        "jobs_share": _share(int(here.sum()), len(runtime)),
        "gpu_h_share": _share(int(gpu_s[here].sum()), total),
    }


def _ends(end: NDArray[np.int8], gpu_s: NDArray[np.int64]) -> list[dict[str, Any]]:
    told = []
    for code in np.unique(end).tolist():
        here = end == code
        told.append(
            {
                "end": "not told" if code == End.NOT_YET else End(code).name.lower(),
                "jobs": int(here.sum()),
                "jobs_share": _share(int(here.sum()), len(end)),
                "gpu_h": int(gpu_s[here].sum()) / HOUR_S,
            }
        )
    return sorted(told, key=lambda row: -row["jobs"])


def _curve(runtime: NDArray[np.int64], gpu_s: NDArray[np.int64], total: int) -> dict[str, list[float]]:
    """Which part of the jobs, and of the GPU-hours, is in jobs up to so long."""
    if len(runtime) == 0:
        return {"runtime_s": [], "jobs_share": [], "gpu_h_share": []}
    order = np.argsort(runtime, kind="stable")
    ordered, summed = runtime[order], np.cumsum(gpu_s[order])
    points = np.unique(np.geomspace(1, max(int(ordered[-1]), 2), CURVE_POINTS).round().astype(np.int64))
    at = np.searchsorted(ordered, points, side="right")
    amounts = np.concatenate([[0], summed])[at]
    return {
        "runtime_s": points.tolist(),
        "jobs_share": (at / len(ordered)).tolist(),
        "gpu_h_share": (amounts / max(total, 1)).tolist(),
    }
