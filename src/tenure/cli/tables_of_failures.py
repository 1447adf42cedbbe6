"""Tables of `tenure plan failures`: rates with what they leave open, causes, ages, jobs by size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from tenure.cli.figures import NOTHING, count, percent, significant
from tenure.cli.tables import put, simple_table
from tenure.cli.tables_of_fleet import end_of_answer, log_tables

Answer = Mapping[str, Any]


def failures(console: Console, answer: Answer) -> None:
    """Every record, then lives, then sizes."""
    for record in answer["records"]:
        for table in log_tables(record, f"{record['source']} ({record['class']})"):
            put(console, table)
        if record["hardware"]:
            console.print(
                f"Hardware: {percent(record['hardware']['share'])}, {_rate(record['hardware'])} per 1,000 "
                "node-days."
            )
        if record["trend"]:
            trend = record["trend"]
            console.print(
                f"Failures grow as time to the power {trend['shape']:.2f} ({trend['low']:.2f} to "
                f"{trend['high']:.2f}): {trend['verdict']}."
            )
    if answer["lives"]:
        put(console, _lives(answer["lives"]))
    if answer["sizes"]:
        put(console, _sizes(answer))
    if answer["jobs"]:
        put(console, _jobs(answer))
    end_of_answer(console, answer)


def _rate(row: Answer) -> str:
    return f"{row['rate']:.3g} ({row['low']:.3g} to {row['high']:.3g})"


def _lives(lives: Answer) -> Table:
    title = f"{count(lives['parts'])} lives of {lives['part']}, {count(lives['failed'])} ended by failing"
    table = simple_table(title, "age", ["failures", "per 1,000 part-days", "95 % from", "to"])
    names = {"early": f"first {lives['early_days']:g} days", "late": "after"}
    for key, name in names.items():
        row = lives[key]
        if row:
            bounds = (f"{row[k]:.3g}" for k in ("per_1000_part_days", "low", "high"))
            table.add_row(name, count(row["events"]), *bounds)
    weibull = lives["weibull"]
    if weibull:
        table.caption = (
            f"Weibull shape {weibull['shape']:.3f} ({weibull['low']:.3f} to {weibull['high']:.3f}), scale "
            f"{weibull['scale_days']:,.0f} days: {weibull['verdict']}."
        )
    return table


def _sizes(answer: Answer) -> Table:
    table = simple_table("Jobs by size, as measured", "GPUs", ["failures", "per 1,000 node-days", "MTTF, h"])
    for row in answer["sizes"]:
        table.add_row(count(row["gpus"]), significant(row["events"]), _rate(row), _hours(row["mttf_h"]))
    return table


def _jobs(answer: Answer) -> Table:
    table = simple_table("A job is stopped every … hours", "GPUs", ["hours", "95 % from", "to", "by"])
    table.columns[-1].justify, table.columns[-1].no_wrap = "left", False
    for row in answer["jobs"]:
        cells = (_hours(row[key]) for key in ("mttf_h", "low_h", "high_h"))
        table.add_row(count(row["gpus"]), *cells, row["by"], style="yellow" if row["warning"] else "")
    return table


def _hours(value: float | None) -> str:
    return NOTHING if value is None else count(value) if value >= 100 else f"{value:.3g}"
