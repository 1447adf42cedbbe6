"""The page of a fleet's report: figures as rows, fleets as columns, so that two can be read across."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tenure.report.fleet_page import write_fleet_page
from tenure.report.frames import number, percent
from tenure.report.plan_parts import Part, Tile
from tenure.report.sheets import Cell, Column, Row, Sheet, figure, share, word

Answer = Mapping[str, Any]
Figures = list[tuple[str, Callable[[Answer], Any], Callable[[Any], str]]]
MOST_CAUSES = 40


def _count(value: Any) -> str:
    return number(value, 4)


def figures_of_fleets() -> Figures:
    """(name, what it reads, how it is written) of each line, in order."""
    return [
        ("span, days", lambda f: f["span_days"], _count),
        ("nodes", lambda f: f["nodes"], _count),
        ("GPUs", lambda f: f["gpus"]["all"], _count),
        ("active GPUs, mean", lambda f: f["gpus"]["active"], _count),
        ("spare GPUs, mean", lambda f: f["gpus"]["spare"], _count),
        ("GPUs down, mean", lambda f: f["gpus"]["down"], _count),
        ("availability", lambda f: f["availability"], lambda v: percent(v, 2)),
        ("interruptions, unplanned", lambda f: _total(f, "unplanned"), _count),
        ("interruptions, planned", lambda f: _total(f, "planned"), _count),
        ("made way for other work", lambda f: _total(f, "scheduler"), _count),
        (
            "manual interventions",
            lambda f: None if f["manual"] is None else sum(f["manual"].values()),
            _count,
        ),
        ("node failures per 1,000 node-days", lambda f: (f["node_failures"] or {}).get("rate"), _count),
        ("… 95 % from", lambda f: (f["node_failures"] or {}).get("low"), _count),
        ("… to", lambda f: (f["node_failures"] or {}).get("high"), _count),
        ("held, of all GPU-time", lambda f: f["held"]["of_all"], lambda v: percent(v, 2)),
        ("held, of healthy GPU-time", lambda f: f["held"]["of_healthy"], lambda v: percent(v, 2)),
        ("goodput, of all GPU-time", lambda f: f["goodput"]["of_all"], lambda v: percent(v, 2)),
        ("goodput, of healthy GPU-time", lambda f: f["goodput"]["of_healthy"], lambda v: percent(v, 2)),
        ("effective time of its largest run", lambda f: _run(f, "effective_time"), lambda v: percent(v, 2)),
        ("… of the time it held GPUs", lambda f: _run(f, "effective_time_held"), lambda v: percent(v, 2)),
    ]


def _total(fleet: Answer, group: str) -> int | None:
    told = fleet["interruptions"][group]
    return None if told is None else int(told["total"])


def _run(fleet: Answer, key: str) -> float | None:
    value = fleet["runs"][0][key] if fleet["runs"] else None
    return None if value is None else float(value)


def write_fleet_report(answer: Answer, file: Path) -> None:
    """The page of `tenure fleet`."""
    fleets = answer["fleets"]
    tiles = []
    for fleet in fleets[:2]:
        tiles += [
            Tile(f"{fleet['name']}: availability", percent(fleet["availability"], 2), "of all GPU-time"),
            Tile(
                f"{fleet['name']}: goodput",
                percent(fleet["goodput"]["of_all"], 2),
                f"of all GPU-time; {percent(fleet['goodput']['of_healthy'], 2)} of healthy",
            ),
        ]
    columns = [Column("", text=True), *(Column(fleet["name"]) for fleet in fleets)]
    across = Sheet("across", "Side by side", columns)
    for name, read, written in figures_of_fleets():
        values = [read(fleet) for fleet in fleets]
        across.rows.append(Row([word(name), *(Cell(written(v), "" if v is None else v) for v in values)]))
    parts = [Part("across-h", "Side by side", sheets=[across])]
    parts.append(Part("causes-h", "What interrupted work", sheets=[_causes(fleets)]))
    parts.append(Part("runs-h", "Runs", sheets=[_runs(fleets)]))
    write_fleet_page(file, "Fleet report", answer, tiles, parts, subtitle="What became of it")


def _causes(fleets: list[Answer]) -> Sheet:
    columns = [Column("", text=True), Column("cause", text=True)]
    columns += [Column(f"{fleet['name']}{what}") for fleet in fleets for what in ("", ", of unplanned")]
    sheet = Sheet(
        "causes", "Causes", columns, caption="Shares are of the fleet's own unplanned interruptions."
    )
    for group in ("unplanned", "planned", "scheduler"):
        told = [(fleet["interruptions"][group] or {"causes": {}, "total": 0}) for fleet in fleets]
        names = sorted({name for one in told for name in one["causes"]},
                       key=lambda name: -max(one["causes"].get(name, 0) for one in told))  # fmt: skip
        for name in names[:MOST_CAUSES]:
            cells = [word(group), word(name)]
            for one in told:
                count = one["causes"].get(name, 0)
                of = count / one["total"] if group == "unplanned" and one["total"] else None
                cells += [figure(count), share(of)]
            sheet.rows.append(Row(cells))
    return sheet


def _runs(fleets: list[Answer]) -> Sheet:
    names = ("GPUs", "wall, h", "interruptions", "effective time", "of time held")
    sheet = Sheet(
        "runs", "Runs", [Column("fleet", text=True), Column("run", text=True), *(Column(n) for n in names)]
    )
    for fleet in fleets:
        for run in fleet["runs"]:
            cells = [word(fleet["name"]), word(run["run"]), figure(run["gpus"], 6), figure(run["wall_h"], 4)]
            cells += [
                figure(run["interruptions"]),
                share(run["effective_time"]),
                share(run["effective_time_held"]),
            ]
            sheet.rows.append(Row(cells))
    return sheet
