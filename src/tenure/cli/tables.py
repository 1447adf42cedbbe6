"""Tables for the terminal, 80 to 120 columns wide: what `simulate` and `audit` print at their end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tenure.cli.figures import NOTHING, absent, count, duration, gpu_time, percent, significant

if TYPE_CHECKING:
    from tenure.service.audits import Audited

MOST_ROWS = 60  #: accounts shown before the table is cut to its upper levels and its worst
GOOD_RATIO = 0.95

#: Ai2, "Impactful scheduling for GPU clusters", 9 October 2026: a month on their clusters.
PUBLISHED = {
    "delivered": "98 %",
    "worst": "90 %",
    "good": "13 of 15",
    "occupancy": "98 %",
    "unbudgeted": "18 %",
    "debug_p90": "30 s",
    "all_p50": "24 s",
    "all_p90": "1.8 h",
}

WAIT_CLASSES = {
    "all": "all jobs",
    "budgeted": "budgeted",
    "debug": "  debug",
    "gang": "  gangs",
    "session": "  sessions",
    "unbudgeted": "unbudgeted",
}


def played(console: Console, told: Audited) -> None:
    """Everything one story has to say, in the order a reader asks."""
    measures = told.measures
    console.print()
    console.print(headline(told.heading))
    if told.import_report is not None:
        console.print(imported(told.import_report))
    for table in (
        accounts(measures, told.shares),
        beside_published(measures),
        waits(measures),
        stops(measures),
    ):
        put(console, table)
    console.print()
    console.print(where_hours_went(measures))
    if measures["speed"]["wall_s"] is not None:
        console.print(speed(measures))


def imported(report: Mapping[str, Any]) -> Text:
    """How many jobs came of how many rows, and what was dropped, clamped and guessed."""
    parts = [f"{count(report['kept'])} jobs of {count(report['read'])} rows"]
    for what in ("dropped", "clamped", "guessed"):
        parts += [f"{what} {count(found['count'])} ({reason})" for reason, found in report[what].items()]
    return Text(f"{report['file']}: {'; '.join(parts)}", style="dim")


def simple_table(title: str, first: str, columns: list[str]) -> Table:
    """One left column of names, the others right-aligned numbers, thin lines only under the head."""
    from rich import box

    table = Table(title=title, box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    table.add_column(first, no_wrap=True, overflow="ellipsis")
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def put(console: Console, table: Table) -> None:
    """Print it below an empty line, its title and caption not wrapped to the table's width."""
    console.print()
    if table.title:
        console.print(Text(str(table.title), style="bold"))
    caption, table.title, table.caption = table.caption, None, None
    console.print(table)
    if caption:
        console.print(Text(str(caption), style="dim"))


def headline(heading: Mapping[str, Any]) -> Text:
    """Lab, policy, seed, span and the lookback in force: said in every report."""
    line = Text()
    line.append(str(heading["lab"]), style="bold")
    several = "policies" if "," in heading["policy"] else "policy"
    line.append(f" · {several} {heading['policy']} · seed {heading['seed']}")
    line.append(f" · {duration(heading['span_s'])}")
    if heading.get("warmup_s"):
        line.append(f" after {duration(heading['warmup_s'])} of warm-up")
    if heading["lookback"]:
        line.append(f" · {heading['lookback']}")
    return line


def tree_rows(paths: list[str]) -> list[tuple[str, str]]:
    """(path, indented last name), parents first, as the tree is written."""
    known = set(paths)

    def depth(path: str) -> int:
        parts = path.split("/")
        return sum("/".join(parts[:n]) in known for n in range(1, len(parts)))

    return [(path, "  " * depth(path) + (path.rsplit("/", 1)[-1] if depth(path) else path)) for path in paths]


def shown_paths(accounts: Mapping[str, Mapping[str, Any]]) -> tuple[list[str], int]:
    """Paths to show and how many are left out: the upper levels and the worst, where there are too many."""
    paths = [path for path in accounts if path]
    if len(paths) <= MOST_ROWS:
        return paths, 0
    by_ratio = sorted(paths, key=lambda path: _number(accounts[path].get("ratio"), 2.0))
    upper = [path for path in paths if "/" not in path][: MOST_ROWS // 2]
    keep = set(upper) | set(by_ratio[: MOST_ROWS - len(upper)])
    return [path for path in paths if path in keep], len(paths) - len(keep)


def _number(value: Any, otherwise: float) -> float:
    return otherwise if absent(value) else float(value)


def accounts(measures: Mapping[str, Any], shares: Mapping[str, float]) -> Table:
    """Owed and delivered, an account a row, inner accounts above what is theirs."""
    rows, told = measures["delivered"]["accounts"], gpu_time(measures["gpu_hours"]["capacity"])
    table = simple_table(
        f"Owed and delivered, {told.name}",
        "account",
        ["share", "demand", "owed", "delivered", "ratio", "by the hour"],
    )
    paths, left_out = shown_paths(rows)
    for path, label in tree_rows(paths):
        row = rows[path]
        ratio = _number(row["ratio"], 1.0)
        table.add_row(
            label,
            percent(shares.get(path)),
            told(row["demand_gpu_h"]),
            told(row["owed_gpu_h"]),
            told(row["delivered_gpu_h"]),
            Text(percent(row["ratio"]), style="" if ratio >= GOOD_RATIO else "red"),
            percent(row["hourly_ratio"]),
        )
    if left_out:
        table.caption = f"{left_out} more accounts, all better off than these, are in --json and --report"
    return table


def beside_published(measures: Mapping[str, Any]) -> Table:
    """The headline figures beside those published for another cluster and load."""
    delivered, first = measures["delivered"], measures["first_wait_s"]
    leaves = leaf_ratios(delivered["accounts"])
    good = sum(ratio >= GOOD_RATIO for ratio in leaves)
    table = simple_table("In short", "", ["here", "published*"])
    rows = [
        ("delivered of owed", percent(delivered["total"]), PUBLISHED["delivered"]),
        ("  worst account", percent(delivered["worst"]), PUBLISHED["worst"]),
        (f"  accounts at {percent(GOOD_RATIO)} or more", f"{good} of {len(leaves)}", PUBLISHED["good"]),
        ("  hour by hour (strict)", percent(delivered["hourly"]), NOTHING),
        ("occupancy", percent(measures["occupancy"]), PUBLISHED["occupancy"]),
        ("  of it unbudgeted", percent(measures["unbudgeted_share"]), PUBLISHED["unbudgeted"]),
        ("debug jobs' wait, p90", duration(first["debug"]["p90"]), PUBLISHED["debug_p90"]),
        ("wait, median", duration(first["all"]["p50"]), PUBLISHED["all_p50"]),
        ("wait, p90", duration(first["all"]["p90"]), PUBLISHED["all_p90"]),
    ]
    for row in rows:
        table.add_row(*row)
    table.caption = (
        "* Ai2, 9 October 2026: a month of their clusters, another load: a scale, no contest. Waits here\n"
        "  count every job once, debug jobs too; the published ones are of the largest cluster."
    )
    return table


def leaf_ratios(rows: Mapping[str, Mapping[str, Any]]) -> list[float]:
    """Ratios of the accounts that have none below them and were owed anything."""
    inner = {path.rsplit("/", 1)[0] for path in rows if "/" in path} | {""}
    return [
        float(row["ratio"]) for path, row in rows.items() if path not in inner and not absent(row["ratio"])
    ]


def waits(measures: Mapping[str, Any]) -> Table:
    """Submission to first start by class, and beside it every start (a stopped job waits again)."""
    table = simple_table(
        "Waits: to the first start, and to every start (a stopped job waits again)",
        "",
        ["jobs", "median", "p90", "p99", "longest", "starts", "median", "p90"],
    )
    for group, label in WAIT_CLASSES.items():
        first, every = measures["first_wait_s"].get(group), measures["wait_s"].get(group)
        if not first or not every or not (first["n"] or every["n"]):
            continue
        table.add_row(
            label,
            count(first["n"]),
            *(duration(first[key]) for key in ("p50", "p90", "p99", "max")),
            count(every["n"]),
            *(duration(every[key]) for key in ("p50", "p90")),
        )
    return table


def stops(measures: Mapping[str, Any]) -> Table:
    """Preemptions, what they cost, and the job that was stopped most often."""
    told = gpu_time(measures["gpu_hours"]["capacity"])
    columns = ["stops", "a day", f"{told.name} lost", "most of one job"]
    table = simple_table("Stopped for others", "", columns)
    whole = measures["preemptions"]
    for label, row in (("budgeted", whole["budgeted"]), ("unbudgeted", whole["unbudgeted"]), ("all", whole)):
        table.add_row(
            label,
            count(row["count"]),
            "0" if not row["count"] else significant(_number(row["per_day"], 0.0)),
            told(row["lost_gpu_h"]),
            count(row["max_per_job"]),
        )
    return table


def where_hours_went(measures: Mapping[str, Any]) -> Text:
    """One sentence whose parts sum to the capacity."""
    hours = measures["gpu_hours"]
    capacity, told = hours["capacity"] or 1, gpu_time(hours["capacity"])
    parts = ", ".join(
        f"{name} {told(hours[name])} ({percent(hours[name] / capacity)})"
        for name in ("budgeted", "unbudgeted", "idle", "down")
    )
    return Text(f"{told(hours['capacity'])} {told.name}: {parts}.")


def speed(measures: Mapping[str, Any]) -> Text:
    """How fast it was played."""
    pace = measures["speed"]
    jobs, turns, wall_s = count(pace["jobs_per_s"]), count(pace["turns"]), pace["wall_s"]
    took = duration(wall_s) if wall_s >= 1 else f"{significant(1000 * wall_s)} ms"
    return Text(f"Played in {took}: {jobs} jobs a second, {turns} turns.", style="dim")
