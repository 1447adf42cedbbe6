"""The answer of `plan failures`: how often things fail, by cause and age, on which nodes, at which size."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import special

from tenure.planner.failures import (
    GPUS_A_NODE,
    OfSize,
    by_cause,
    gpu_days_per_event,
    lemons_of,
    mttf_at,
    mttf_h,
    rate_of,
    weibull_of,
)
from tenure.settings.failure_rates_file import FailureRatesFile, RecordFile

DAY_S = 86_400.0
LEAST_FOR_TREND = 5
POINTS = 200  #: of a chart's line at most
CONVENTIONS = {
    "rate": "failures per 1,000 node-days, a node of 8 GPUs; low to high holds it with 95 % (Gamma "
    "posterior, Jeffreys' prior)",
    "class": "what the record counts: hardware, software, or all causes that stop a job; rates of two "
    "classes are not one rate",
    "share": "of all failures of the record, from counts",
    "trend.shape": "failures of the fleet grow as time to this power (power law, 95 %): below 1 they become "
    "rarer as it ages, infant mortality",
    "lives.shape": "of a Weibull of lives, parts still good counted as such: below 1 is infant mortality",
    "lemons": "nodes with more failures than chance gives any node of an even fleet with 1 %",
    "jobs.mttf_h": "24,000 ÷ (rate · nodes): every node of the job must be up",
}


@dataclass(frozen=True)
class Counted:
    """A record as counted: failures by cause and node; `times_d`: days after its start, where known."""

    told: RecordFile
    causes: Mapping[str, int]
    nodes: Mapping[str, int] = field(default_factory=dict)
    times_d: Sequence[float] = ()

    @property
    def events(self) -> int:
        return sum(self.causes.values())


def plan_failures(
    file: FailureRatesFile,
    records: Sequence[Counted],
    lives: tuple[np.ndarray, np.ndarray] | None = None,
    passed_over: int = 0,
) -> dict[str, Any]:
    """The keys of the JSON. `lives`: seconds of each, and which ended by failing; `passed_over`: others."""
    rows = [_record(counted) for counted in records]
    told: dict[str, Any] = {
        "records": rows,
        "lives": None if lives is None or file.lives is None else _lives(file, *lives),
        "sizes": _sizes(file),
        "jobs": _jobs(file, rows),
    }
    if told["lives"] is not None:
        told["lives"]["passed_over"] = passed_over
    told["warnings"] = _warnings(told)
    told["conventions"] = CONVENTIONS
    return told


def _record(counted: Counted) -> dict[str, Any]:
    told = counted.told
    node_days = told.nodes * told.days
    measured = rate_of(counted.events, node_days)
    hardware = sum(count for cause, count in counted.causes.items() if cause in set(told.hardware))
    lemons = lemons_of(counted.nodes, told.nodes) if counted.nodes else None
    return {
        "source": told.source,
        "class": told.kind,
        **measured._asdict(),
        "gpu_days_per_event": gpu_days_per_event(measured.rate) if measured.rate else None,
        "causes": [
            {"cause": cause.name, "share": cause.share, **cause.measured._asdict()}
            for cause in by_cause(counted.causes, node_days)
        ],
        "hardware": {"share": hardware / counted.events, **rate_of(hardware, node_days)._asdict()}
        if told.hardware
        else None,
        "lemons": None
        if lemons is None
        else {
            "nodes": [lemon._asdict() for lemon in lemons.found],
            "of_nodes": lemons.of_nodes,
            "of_events": lemons.of_events,
            "rate_without": lemons.rate_without,
        },
        "trend": trend_of(counted.times_d, told.days),
    }


def trend_of(times_d: Sequence[float], days: float) -> dict[str, Any] | None:
    """Whether failures become rarer as the fleet ages: a power law of their number, watched to `days`.

    The most likely shape is n / sum ln(T/t), and 2 n shape / (its estimate) is chi-squared with 2 n degrees
    (Crow 1974). None with too few failures.
    """
    within = np.asarray([t for t in times_d if 0.0 < t <= days])
    n = len(within)
    if n < LEAST_FOR_TREND:
        return None
    shape = n / float(np.log(days / within).sum())
    low, high = (shape * float(special.gammaincinv(n, p)) / n for p in (0.025, 0.975))
    verdict = "fewer as it ages" if high < 1.0 else "more as it ages" if low > 1.0 else "no sign of either"
    steps = np.unique(np.linspace(0, n - 1, min(n, POINTS)).astype(int))
    seen = np.sort(within)
    return {
        "shape": shape,
        "low": low,
        "high": high,
        "verdict": verdict,
        "seen": [[float(seen[i]), int(i) + 1] for i in steps],
        "days": days,
    }


def _lives(file: FailureRatesFile, lives_s: np.ndarray, failed: np.ndarray) -> dict[str, Any]:
    assert file.lives is not None
    early_s, found = file.lives.early, None
    if failed.sum() >= 2:
        weibull = weibull_of(lives_s, failed)
        found = {
            "shape": weibull.shape,
            "low": weibull.low,
            "high": weibull.high,
            "scale_days": weibull.scale / DAY_S,
            "verdict": weibull.verdict,
        }
    early = int((failed & (lives_s <= early_s)).sum())
    early_days = float(np.minimum(lives_s, early_s).sum()) / DAY_S
    late_days = float(lives_s.sum()) / DAY_S - early_days
    return {
        "part": file.lives.part,
        "parts": len(lives_s),
        "failed": int(failed.sum()),
        "part_days": early_days + late_days,
        "weibull": found,
        "early_days": early_s / DAY_S,
        "early": _of_parts(early, early_days),
        "late": _of_parts(int(failed.sum()) - early, late_days) if late_days > 0 else None,
        "survival": _survival(lives_s / DAY_S, failed),
    }


def _of_parts(events: int, days: float) -> dict[str, float]:
    measured = rate_of(events, days)
    return {
        "events": events,
        "per_1000_part_days": measured.rate,
        "low": measured.low,
        "high": measured.high,
    }


def _survival(days: np.ndarray, failed: np.ndarray) -> list[list[float]]:
    """(day, part that has not failed): Kaplan and Meier's, thinned to a chart's points."""
    order = np.argsort(days, kind="stable")
    days, failed = days[order], failed[order]
    at_risk = len(days) - np.arange(len(days))
    alive = np.cumprod(1.0 - failed / at_risk)
    steps = np.unique(np.linspace(0, len(days) - 1, min(len(days), POINTS)).astype(int))
    return [[0.0, 1.0], *([float(days[i]), float(alive[i])] for i in steps)]


def _sizes(file: FailureRatesFile) -> list[dict[str, Any]]:
    rows = []
    for size in sorted(file.sizes, key=lambda size: size.gpus):
        measured = rate_of(size.events, size.gpu_days / GPUS_A_NODE)
        hours = mttf_h(measured.rate, size.gpus / GPUS_A_NODE) if measured.rate else None
        rows.append({"gpus": size.gpus, **measured._asdict(), "mttf_h": hours})
    return rows


def _jobs(file: FailureRatesFile, records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """MTTF of jobs asked about, by each record and by the nearest size measured."""
    sizes = [OfSize(size.gpus, size.events, size.gpu_days) for size in file.sizes]
    rows: list[dict[str, Any]] = []
    for gpus in file.gpus:
        for record in records:
            nodes = gpus / GPUS_A_NODE
            rows.append(
                {
                    "gpus": gpus,
                    "by": record["source"],
                    "class": record["class"],
                    "mttf_h": _hours(record["rate"], nodes),
                    "low_h": _hours(record["high"], nodes),
                    "high_h": _hours(record["low"], nodes),
                    "warning": None,
                }
            )
        if sizes:
            measured, hours, warning = mttf_at(sizes, gpus)
            nodes = gpus / GPUS_A_NODE
            rows.append(
                {
                    "gpus": gpus,
                    "by": "the nearest size measured",
                    "class": "as sizes",
                    "mttf_h": None if math.isinf(hours) else hours,
                    "low_h": _hours(measured.high, nodes),
                    "high_h": _hours(measured.low, nodes),
                    "warning": warning,
                }
            )
    return rows


def _hours(rate: float, nodes: float) -> float | None:
    return mttf_h(rate, nodes) if rate > 0 else None


def _warnings(told: Mapping[str, Any]) -> list[str]:
    found = []
    for record in told["records"]:
        if record["class"] == "unsaid":
            found.append(
                f"{record['source']}: no class is given; a rate of hardware alone and one of all causes "
                "differ several times"
            )
        if record["events"] < 10:
            found.append(
                f"{record['source']}: {record['events']:g} failures leave the rate open from "
                f"{record['low']:.2g} to {record['high']:.2g}"
            )
        lemons = record["lemons"]
        if lemons and lemons["nodes"]:
            found.append(
                f"{record['source']}: {len(lemons['nodes'])} nodes ({lemons['of_nodes']:.1%}) have "
                f"{lemons['of_events']:.1%} of the failures: without them the rate is "
                f"{lemons['rate_without']:.2f} of what it is"
            )
    classes = {record["class"] for record in told["records"]} - {"unsaid"}
    if len(classes) > 1:
        found.append(f"records of several classes ({', '.join(sorted(classes))}): do not compare their rates")
    sizes = [size for size in told["sizes"] if size["rate"]]
    if len(sizes) > 1:
        rates = [size["rate"] for size in sizes]
        if max(rates) > 1.5 * min(rates):
            found.append(
                f"sizes fail {max(rates) / min(rates):.1f} times apart per node: what stops small jobs is "
                "not what stops large ones; a rate is good near the size it was counted at"
            )
    found += sorted({job["warning"] for job in told["jobs"] if job["warning"]})
    lives = told["lives"]
    if lives and lives["passed_over"]:
        found.append(f"{lives['part']}: {lives['passed_over']} rows without a time are left out of the lives")
    if lives and lives["weibull"] and lives["weibull"]["verdict"] != "no sign of either":
        found.append(
            f"{lives['part']}: {lives['weibull']['verdict']} (shape {lives['weibull']['shape']:.2f}): a "
            "constant rate, as plans take it, is an average over ages"
        )
    return found
