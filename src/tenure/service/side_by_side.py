"""What they did and what Tenure would have done, as plain text for a terminal, a file or a letter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tenure.report.frames import seconds
from tenure.service.outputs import placed

NOTHING = "–"
CLASSES = ("all", "debug", "gang", "session", "unbudgeted", "budgeted")
MOST_ACCOUNTS = 60


def text_of(told: Mapping[str, Any]) -> str:
    """The comparison's tables and what limits it; `told` as the server answers."""
    theirs, ours = told["runs"]
    parts = [
        f"What they did, and what Tenure would have done: {told['from']} to {told['until']}",
        _accounts(theirs["delivered"]["accounts"], ours["delivered"]["accounts"]),
        _waits(theirs["wait_s"], ours["wait_s"]),
        _whole(theirs, ours, told["too_long_gpu_h"]),
    ]
    for way, title in (("sooner", "Tenure would have started sooner"), ("later", "… and later")):
        if told["jobs"][way]:
            parts.append(f"{title}\n{_jobs(told['jobs'][way])}")
    out = told["left_out"]
    limits = list(told["limits"])
    if out["jobs"]:
        limits.append(
            f"on neither side: {out['jobs']} jobs that Tenure cannot place, {_hours(out['gpu_h'])} GPU-h"
        )
    parts.append("Bear in mind\n" + "\n".join(f"  - {one}" for one in limits))
    return "\n\n".join(parts) + "\n"


def write_page(told: Mapping[str, Any], path: Path) -> None:
    """Write the comparison as one HTML page."""
    from tenure.report.comparison import write_comparison

    with placed(path) as draft:
        write_comparison(told["runs"], draft, title="What they did, and what Tenure would have done")


def _accounts(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    rows = [
        (
            path or "(all)",
            _hours(one["owed_gpu_h"]),
            _hours(one["delivered_gpu_h"]),
            _part(one["ratio"]),
            _hours(ours[path]["owed_gpu_h"]),
            _hours(ours[path]["delivered_gpu_h"]),
            _part(ours[path]["ratio"]),
        )
        for path, one in list(theirs.items())[:MOST_ACCOUNTS]
        if path in ours
    ]
    head = ("account, GPU-h", "owed: they", "delivered", "ratio", "owed: Tenure", "delivered", "ratio")
    return _table(head, rows)


def _waits(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    rows = [
        (
            group,
            *(_figure(theirs[group][key], key) for key in ("n", "p50", "p90")),
            *(_figure(ours[group][key], key) for key in ("n", "p50", "p90")),
        )
        for group in CLASSES
        if theirs[group]["n"] or ours[group]["n"]
    ]
    return _table(("wait", "they: n", "p50", "p90", "Tenure: n", "p50", "p90"), rows)


def _whole(theirs: Mapping[str, Any], ours: Mapping[str, Any], too_long_gpu_h: float) -> str:
    both = (theirs, ours)
    rows = [
        ("occupancy", *(_part(one["occupancy"]) for one in both)),
        ("preemptions", *(str(one["preemptions"]["count"]) for one in both)),
        ("GPU-h held too long", NOTHING, _hours(too_long_gpu_h)),
        ("jobs finished", *(str(one["jobs"]["finished"]) for one in both)),
        ("delivered of owed", *(_part(one["delivered"]["total"]) for one in both)),
    ]
    return _table(("in all", "they", "Tenure"), rows)


def _jobs(jobs: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        (
            one["job"],
            one["account"],
            str(one["gpus"]),
            one["theirs"] or "waits",
            one["tenure"] or "waits",
            seconds(abs(one["sooner_s"])),
        )
        for one in jobs
    ]
    return _table(("job", "account", "GPUs", "they", "Tenure", "difference"), rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as they must be; the first to the left, all others to the right."""
    widths = [max(len(row[at]) for row in [head, *rows]) for at in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if at else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in [head, *rows]
    )


def _hours(hours: float | None) -> str:
    return NOTHING if hours is None else f"{hours:,.1f}"


def _part(part: float | None) -> str:
    return NOTHING if part is None else f"{100 * part:.1f} %"


def _figure(value: int | None, key: str) -> str:
    if value is None:
        return NOTHING
    return str(value) if key == "n" else seconds(value)


__all__ = ["text_of", "write_page"]
