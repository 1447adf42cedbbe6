"""What `tenure audit` adds: who used whose part, why hours are missing, what looks like misuse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tenure.cli.figures import NOTHING, count, duration, gpu_hours, gpu_time
from tenure.cli.tables import put, shown_paths, simple_table, tree_rows

CAUSES = {
    "node_down": "node down",
    "own_limit": "own limit",
    "held_for_gang": "for a gang",
    "shape": "shape",
    "protection_of_others": "others' protection",
    "catch_up_of_others": "others' catch-up",
}


def explained(console: Console, measures: Mapping[str, Any]) -> None:
    """The tables that explain the measures."""
    put(console, ledger(measures))
    if measures["shortfall"]["total_gpu_h"] > 0:
        put(console, shortfall(measures))
    signals(console, measures["signals"])


def ledger(measures: Mapping[str, Any]) -> Table:
    """Entitled = delivered - borrowed + lent + idle in each row; two columns add up to the capacity."""
    told, time = measures["ledger"], gpu_time(measures["gpu_hours"]["capacity"])
    table = simple_table(
        f"Whose {time.name}, and who used them",
        "account",
        ["entitled", "delivered", "borrowed", "lent", "left idle"],
    )
    names = ("entitled", "delivered", "borrowed", "lent", "idle")
    paths, left_out = shown_paths(measures["delivered"]["accounts"])
    for path, label in tree_rows(paths):
        table.add_row(label, *(time(told["accounts"][path][f"{name}_gpu_h"]) for name in names))
    spare = told["unassigned"]
    table.add_section()
    table.add_row(
        "given to nobody",
        time(spare["entitled_gpu_h"]),
        NOTHING,
        NOTHING,
        time(spare["lent_gpu_h"]),
        time(spare["idle_gpu_h"]),
    )
    unbudgeted = time(told["unbudgeted_gpu_h"])
    table.add_row("unbudgeted work", NOTHING, unbudgeted, unbudgeted, NOTHING, NOTHING)
    table.add_row("idle", NOTHING, time(told["idle_gpu_h"]), NOTHING, NOTHING, NOTHING)
    down = time(told["down_gpu_h"])
    table.add_row("down", down, down, NOTHING, NOTHING, NOTHING)
    capacity = time(told["capacity_gpu_h"])
    table.add_row("capacity", capacity, capacity, NOTHING, NOTHING, NOTHING)
    if left_out:
        table.caption = f"{left_out} more accounts are in --json and --report"
    return table


def shortfall(measures: Mapping[str, Any]) -> Table:
    """Missing hours of each account that missed any, by cause; each row's causes sum to its first number."""
    told, time = measures["shortfall"], gpu_time(measures["gpu_hours"]["capacity"])
    title = f"Why {time.name} are missing, hour by hour"
    table = simple_table(title, "account", ["missing", *CAUSES.values()])
    missing = {path: row for path, row in told["accounts"].items() if row["total_gpu_h"] > 0}
    paths, left_out = shown_paths(missing)
    for path in paths:
        row = missing[path]
        cells = (row["causes"][cause] for cause in CAUSES)
        table.add_row(path, time(row["total_gpu_h"]), *(time(cell) for cell in cells))
    table.add_section()
    cells = (told["causes"][cause] for cause in CAUSES)
    table.add_row("in all", time(told["total_gpu_h"]), *(time(cell) for cell in cells))
    if left_out:
        table.caption = f"{left_out} more accounts are in --json and --report"
    return table


def signals(console: Console, told: Mapping[str, Any]) -> None:
    """A sentence for each sign of misuse."""
    if not told["found"]:
        return
    console.print()
    console.print(Text("Signs to talk about", style="bold"))
    for row in told["found"]:
        console.print(Text(f"- {sentence_of(row)}"))


def sentence_of(row: Mapping[str, Any]) -> str:
    """What one sign says, with its numbers and an example."""
    jobs, hours = count(row["jobs"]), gpu_hours(row["gpu_h"])
    if row["signal"] == "splitting":
        return (
            f"{row['account']}: {jobs} short jobs ({hours} GPU-hours) followed each other like the pieces of"
            f" {count(row['relays'])} longer ones; the longest relay had {count(row['longest_jobs'])} jobs of"
            f" {duration(row['mean_job_s'])} over"
            f" {duration(row['longest_h'] * 3600)}, from {row['example']} on."
        )
    if row["signal"] == "overdeclared":
        return (
            f"{row['account']}: {jobs} of {count(row['of_jobs'])} jobs used little of the minimum they"
            f" declared, {hours} of {gpu_hours(row['declared_gpu_h'])} GPU-hours; {row['example']} declared"
            f" {duration(row['example_declared_s'])} and used {duration(row['example_used_s'])}."
        )
    return (
        f"{row['account']}: {jobs} jobs kept protected GPUs at next to no use for {hours} GPU-hours,"
        f" e.g. {row['example']}."
    )
