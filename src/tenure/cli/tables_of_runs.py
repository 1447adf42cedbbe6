"""Tables of many plays: policies side by side, and one row a combination of settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tenure.cli.figures import NOTHING, absent, count, duration, gpu_hours, percent, points, significant
from tenure.cli.tables import headline, put, simple_table, tree_rows
from tenure.service.compare import differences
from tenure.service.many import Runs

MOST_TEAMS = 60
Run = Mapping[str, Any]


class Measure(NamedTuple):
    """One line of a comparison: where it stands in the measures and how it is written."""

    label: str
    short: str
    path: tuple[str, ...]
    written: Callable[[Any], str]


MEASURES = (
    Measure("delivered of owed", "delivered", ("delivered", "total"), percent),
    Measure("  worst account", "worst", ("delivered", "worst"), percent),
    Measure("  hour by hour", "hourly", ("delivered", "hourly"), percent),
    Measure("occupancy", "occupancy", ("occupancy",), percent),
    Measure("  of it unbudgeted", "unbudgeted", ("unbudgeted_share",), percent),
    Measure("wait, median", "wait p50", ("first_wait_s", "all", "p50"), duration),
    Measure("wait, p90", "wait p90", ("first_wait_s", "all", "p90"), duration),
    Measure("  debug jobs, p90", "debug p90", ("first_wait_s", "debug", "p90"), duration),
    Measure("  gangs, p90", "gang p90", ("first_wait_s", "gang", "p90"), duration),
    Measure("stops a day", "stops/day", ("preemptions", "per_day"), significant),
    Measure("  most of one job", "most/job", ("preemptions", "max_per_job"), count),
    Measure("GPU-hours lost to stops", "lost GPU-h", ("preemptions", "lost_gpu_h"), gpu_hours),
    Measure("jobs finished", "finished", ("jobs", "finished"), count),
)
SWEPT = ("delivered", "worst", "hourly", "occupancy", "wait p90", "debug p90", "stops/day", "lost GPU-h")


def value_at(run: Run, path: Sequence[str]) -> Any:
    """The number at a path of the measures; None where there is none."""
    found: Any = run
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return None if absent(found) else found


def compared(console: Console, runs: Runs) -> None:
    """Policies side by side, then what each account gets under them."""
    if not runs.done:
        return
    policies = list(dict.fromkeys(run["policy"] for run in runs.runs))
    seeds = sorted({run["seed"] for run in runs.runs})
    console.print()
    console.print(headline({**runs.heading, "policy": ", ".join(policies), "seed": _listed(seeds)}))
    put(console, _side_by_side(runs.runs, policies, len(seeds)))
    if len(policies) == 2:
        put(console, _team_differences(runs.runs, policies[0], policies[1], len(seeds)))
    else:
        put(console, _team_ratios(runs.runs, policies, len(seeds)))


def _listed(seeds: Sequence[int]) -> str:
    whole = len(seeds) > 2 and seeds == list(range(seeds[0], seeds[-1] + 1))
    return f"{seeds[0]}–{seeds[-1]}" if whole else ", ".join(str(seed) for seed in seeds)


def _over_seeds(n: int) -> str:
    return (
        ""
        if n == 1
        else f", median of {n} seeds (least to greatest)"
        if n > 2
        else ", mean of 2 seeds (both)"
    )


def _spread(values: Sequence[Any], written: Callable[[Any], str]) -> str:
    """The median, and how far the seeds lie apart: `98.7 % (98.4 – 99.2)`."""
    numbers = [value for value in values if value is not None]
    if not numbers:
        return NOTHING
    middle, low, high = (written(value) for value in (median(numbers), min(numbers), max(numbers)))
    if low == high:
        return middle
    unit = " " + middle.rsplit(" ", 1)[1] if " " in middle else ""
    bare = low.removesuffix(unit) if unit and high.endswith(unit) else low
    return f"{middle} ({bare} to {high.removesuffix(unit) if unit and low.endswith(unit) else high})"


def _side_by_side(runs: Sequence[Run], policies: Sequence[str], seeds: int) -> Table:
    table = simple_table(
        f"The same worlds under {len(policies)} policies{_over_seeds(seeds)}", "", list(policies)
    )
    for measure in MEASURES:
        cells = [
            _spread([value_at(run, measure.path) for run in runs if run["policy"] == policy], measure.written)
            for policy in policies
        ]
        if any(cell != NOTHING for cell in cells):
            table.add_row(measure.label, *cells)
    return table


def _team_differences(runs: Sequence[Run], one: str, other: str, seeds: int) -> Table:
    rows = {row["account"]: row for row in differences(runs, one, other) if row["account"]}
    over = "" if seeds == 1 else f", mean of {seeds} seeds"
    table = simple_table(
        f"Each account under {one} and {other}{over}",
        "account",
        [f"{one} GPU-h", f"{other} GPU-h", f"{one} ratio", f"{other} ratio", "change, points"]
        + (["of the seeds"] if seeds > 1 else []),
    )
    shown = _cut(rows)
    for path, label in tree_rows(shown):
        row = rows[path]
        change = row["change"]
        style = "" if change is None or abs(change) < 0.01 else "green" if change > 0 else "red"
        spread = [f"{points(row['change_min'])} to {points(row['change_max'])}"] if seeds > 1 else []
        table.add_row(
            label,
            *(gpu_hours(hours) for hours in row["delivered_gpu_h"]),
            *(percent(ratio) for ratio in row["ratio"]),
            Text(points(change), style=style),
            *spread,
        )
    _say_cut(table, len(rows) - len(shown))
    return table


def _team_ratios(runs: Sequence[Run], policies: Sequence[str], seeds: int) -> Table:
    table = simple_table(f"Delivered of owed by account{_over_seeds(seeds)}", "account", list(policies))
    accounts: dict[str, dict[str, Any]] = {path: {} for path in runs[0]["delivered"]["accounts"] if path}
    shown = _cut(accounts)
    for path, label in tree_rows(shown):
        cells = []
        for policy in policies:
            ratios = [
                run["delivered"]["accounts"].get(path, {}).get("ratio")
                for run in runs
                if run["policy"] == policy
            ]
            cells.append(_spread([None if absent(ratio) else ratio for ratio in ratios], percent))
        table.add_row(label, *cells)
    _say_cut(table, len(accounts) - len(shown))
    return table


def _cut(rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """All accounts, or where they are too many those with the greatest change (else the first)."""
    if len(rows) <= MOST_TEAMS:
        return list(rows)
    by_change = sorted(rows, key=lambda path: -abs(rows[path].get("change") or 0.0))
    keep = set(by_change[:MOST_TEAMS])
    return [path for path in rows if path in keep]


def _say_cut(table: Table, left_out: int) -> None:
    if left_out > 0:
        table.caption = f"{left_out} more accounts are in --json and --report"


def swept(console: Console, runs: Runs) -> None:
    """One row a combination."""
    if not runs.done:
        return
    keys = list(dict.fromkeys(key for run in runs.runs for key in run["set"]))
    groups: dict[tuple[str, ...], list[Run]] = {}
    for run in runs.runs:
        groups.setdefault(tuple(run["set"].get(key, "") for key in keys), []).append(run)
    seeds = sorted({run["seed"] for run in runs.runs})
    console.print()
    told = runs.heading["lookback"] if not {"policy.lookback", "policy.half_life"} & set(keys) else ""
    console.print(headline({**runs.heading, "seed": _listed(seeds), "lookback": told}))
    over = "" if len(seeds) == 1 else f", median of {len(seeds)} seeds"
    table = simple_table(f"{len(groups)} combinations{over}", "", [])
    table.columns.clear()
    for key in keys:
        table.add_column(key.removeprefix("policy."), no_wrap=True)
    measures = [next(m for m in MEASURES if m.short == short) for short in SWEPT]
    for measure in measures:
        table.add_column(measure.short, justify="right")
    for chosen, members in groups.items():
        cells = []
        for measure in measures:
            numbers = [v for v in (value_at(run, measure.path) for run in members) if v is not None]
            cells.append(measure.written(median(numbers)) if numbers else NOTHING)
        table.add_row(*chosen, *cells)
    put(console, table)
