"""The table of `tenure fleet`: figures as rows, fleets as columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from tenure.cli.figures import NOTHING, count, percent
from tenure.cli.tables import put, simple_table
from tenure.cli.tables_of_fleet import end_of_answer
from tenure.service.fleet_report import figures_across

Answer = Mapping[str, Any]
MOST_CAUSES = 12


def fleets(console: Console, answer: Answer) -> None:
    """Side by side, then what interrupted work, then runs."""
    found = answer["fleets"]
    names = [fleet["name"] for fleet in found]
    table = simple_table("Side by side", "", names)
    for name, texts in figures_across(answer):
        table.add_row(name, *texts)
    put(console, table)
    causes = simple_table("What interrupted work", "cause", names)
    for group in ("unplanned", "planned", "scheduler"):
        told = [(fleet["interruptions"][group] or {"causes": {}})["causes"] for fleet in found]
        listed = sorted(
            {name for one in told for name in one}, key=lambda n: -max(one.get(n, 0) for one in told)
        )
        for name in listed[:MOST_CAUSES]:
            causes.add_row(f"{group}: {name}", *(count(one.get(name, 0)) for one in told))
    put(console, causes)
    runs = simple_table(
        "Runs of more than one node", "run", ["GPUs", "interruptions", "effective", "of time held"]
    )
    for fleet in found:
        for run in fleet["runs"]:
            shares = (run["effective_time"], run["effective_time_held"])
            told_shares = (NOTHING if value is None else percent(value) for value in shares)
            runs.add_row(
                f"{fleet['name']}: {run['run']}",
                count(run["gpus"]),
                count(run["interruptions"]),
                *told_shares,
            )
    put(console, runs)
    end_of_answer(console, answer)
