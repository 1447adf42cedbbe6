"""Tables of `tenure trace`: what a trace holds, and what became of each of its rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tenure.cli.figures import count, duration, gpu_hours, percent, significant
from tenure.cli.tables import put, simple_table

MOST_TENANTS = 20
BLOCKS = " ▁▂▃▄▅▆▇█"


def described(console: Console, trace: Mapping[str, Any]) -> None:
    """All that `trace describe` has to say."""
    console.print()
    console.print(_headline(trace))
    put(console, _sizes(trace))
    put(console, _lengths(trace))
    put(console, _tenants(trace))
    put(console, _ends(trace))
    console.print()
    console.print(_week(trace))
    put(console, _report(trace["report"]))


def converted(console: Console, told: Mapping[str, Any]) -> None:
    """What `trace convert` wrote."""
    console.print()
    console.print(
        f"{told['file']}: {count(told['jobs'])} jobs. In a scenario: trace: {{file: …, format: tenure}}."
    )
    put(console, _report(told["report"]))


def _headline(trace: Mapping[str, Any]) -> Text:
    text = Text()
    text.append(str(trace["file"]), style="bold")
    text.append(f"\n{trace['format']} · {count(trace['jobs'])} jobs · {gpu_hours(trace['gpu_h'])} GPU-hours")
    text.append(f" · submitted over {duration(trace['span_s'])}")
    if trace["start"]:
        text.append(f" from {trace['start']} on")
    if trace["mean_gpus_wanted"] is None:
        text.append("\nAll is submitted at one instant: a mean use cannot be told.")
    else:
        text.append(
            f"\nIn use at the mean, were nobody to wait: {significant(trace['mean_gpus_wanted'])} GPUs"
        )
        if trace["offered_load"] is not None:
            text.append(f", {percent(trace['offered_load'])} of {count(trace['gpus'])}")
        text.append(".")
    if trace["with_min_runtime"] or trace["with_max_runtime"]:
        text.append(
            f" {count(trace['with_min_runtime'])} jobs name a min_runtime,"
            f" {count(trace['with_max_runtime'])} a max_runtime."
        )
    return text


def _sizes(trace: Mapping[str, Any]) -> Table:
    table = simple_table("Sizes", "GPUs", ["jobs", "of jobs", "GPU-hours", "of GPU-hours"])
    for row in trace["sizes"]:
        table.add_row(
            row["gpus"].replace("-", "–"),
            count(row["jobs"]),
            percent(row["jobs_share"]),
            gpu_hours(row["gpu_h"]),
            percent(row["gpu_h_share"]),
        )
    return table


def _lengths(trace: Mapping[str, Any]) -> Table:
    """Run times, and waits where the trace tells them; how much is short."""
    keys = ("mean", "p10", "p50", "p90", "p99", "max")
    heads = ["mean", "p10", "median", "p90", "p99", "longest"]
    table = simple_table("Run times and waits, as they were", "", ["jobs", *heads])
    for label, spread in (("ran", trace["runtime_s"]), ("waited", trace["wait_s"])):
        if spread and spread["n"]:
            table.add_row(label, count(spread["n"]), *(duration(spread.get(key)) for key in keys))
    short = [
        f"{duration(row['up_to_s'])} {percent(row['jobs_share'])}, {percent(row['gpu_h_share'])}"
        for row in trace["short"]
    ]
    table.caption = f"Ran at most so long, of jobs and of GPU-hours: {'; '.join(short)}"
    return table


def _tenants(trace: Mapping[str, Any]) -> Table:
    rows = trace["tenants"]
    table = simple_table(
        f"{count(len(rows))} tenants, most GPU-hours first", "tenant", ["jobs", "GPU-hours", "of all"]
    )
    for row in rows[:MOST_TENANTS]:
        table.add_row(row["tenant"], count(row["jobs"]), gpu_hours(row["gpu_h"]), percent(row["gpu_h_share"]))
    if len(rows) > MOST_TENANTS:
        rest = rows[MOST_TENANTS:]
        share = percent(sum(row["gpu_h_share"] for row in rest))
        table.caption = f"and {count(len(rest))} more with {share} of all"
    return table


def _ends(trace: Mapping[str, Any]) -> Table:
    table = simple_table("How they ended", "", ["jobs", "of jobs", "GPU-hours"])
    for row in trace["ends"]:
        label = row["end"].replace("_", " ")
        table.add_row(label, count(row["jobs"]), percent(row["jobs_share"]), gpu_hours(row["gpu_h"]))
    return table


def _week(trace: Mapping[str, Any]) -> Text:
    """Submissions by the hour of the day and by the day of the week, as small bars."""
    hours, days = trace["by_hour"], trace["by_weekday"]
    of = f" ({trace['timezone']})" if trace["clock"] == "local" else " (since second 0)"
    first = "Mon to Sun" if trace["clock"] == "local" else "day 1 to 7"
    text = Text(f"Submitted{of}  0h {_bars(hours)} 23h   {first} {_bars(days)}")
    text.append(f"   busiest hour {significant(_peak(hours))} × the mean", style="dim")
    return text


def _bars(values: list[int]) -> str:
    top = max(values, default=0) or 1
    return "".join(BLOCKS[-(-value * (len(BLOCKS) - 1) // top)] for value in values)


def _peak(values: list[int]) -> float:
    return max(values) * len(values) / sum(values) if sum(values) else 0.0


def _report(report: Mapping[str, Any]) -> Table:
    """Rows read and kept, and each thing that was dropped, clamped, guessed or skipped."""
    table = simple_table("What became of its rows", "", ["rows"])
    table.add_column("why")
    table.add_column("first line", justify="right")
    table.add_row("read", count(report["read"]), "", "")
    table.add_row("kept", count(report["kept"]), "", "")
    for what in ("dropped", "clamped", "guessed", "skipped"):
        for reason, found in report[what].items():
            line = "" if found["first_line"] is None else count(found["first_line"])
            table.add_row(what, count(found["count"]), reason, line)
    return table
