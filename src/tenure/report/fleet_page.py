"""One page about a fleet plan: the answer, the curves it is a point of, its table, its conventions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tenure.report.fleet_charts import FIRST, SECOND, Curve, chart, field
from tenure.report.fleet_played import backwards, goodput_parts, idle_tile, spares_parts
from tenure.report.frames import Frame, number, percent, seconds
from tenure.report.page import write_page
from tenure.report.plan_parts import Part, Tile
from tenure.report.sheets import Cell, Column, Row, Sheet, duration, figure, share, word

Answer = Mapping[str, Any]
TELLING = 0.1  #: maps of gains that reach it are told in whole percentage points


def write_spares_page(answer: Answer, file: Path) -> None:
    """The page of `plan spares`."""
    racks, gpus, mission, optimum = (answer[key] for key in ("racks", "gpus", "mission", "optimum"))
    tiles = [
        Tile("buy", f"{racks['total']:,} racks", f"{gpus['bought']:,} GPUs for {gpus['job']:,}"),
        Tile(
            "spare, at an instant", f"{racks['spare']:,}", f"enough {percent(answer['p_ok'], 3)} of the time"
        ),
    ]
    if mission:
        more = f"no shortage with {percent(mission['p_no_shortage'], 3)}"
        tiles.append(Tile("spare, for the mission", f"{mission['spare']:,}", more))
    tiles.append(
        Tile(
            "most work per rack",
            f"{optimum['spare']:,}",
            f"productive {percent(optimum['productive_share'])}",
        )
    )
    tiles.append(idle_tile(answer))
    if answer["cost"]:
        more = f"{number(answer['cost']['difference'])} of it for what the job does not use"
        tiles.append(Tile("cost", number(answer["cost"]["bought"]), more))
    rows = answer["table"]
    spare = [row["spare"] for row in rows]
    lacking = np.log10(np.maximum([1 - row["p_ok"] for row in rows], 1e-12))
    at = next(i for i, row in enumerate(rows) if row["spare"] == racks["spare"])
    best = (optimum["spare"], optimum["productive_share"])
    frames = [
        chart(
            "Chance of a shortage at an instant, over spare racks", "power of ten", spare,
            [Curve("", lacking, FIRST)],
            alt="How the chance of a shortage falls with spare racks", dot=(spare[at], float(lacking[at])),
        ),
        chart(
            "Productive share of racks bought, over spare racks", "part", spare,
            [Curve("", [row["productive_share"] for row in rows], FIRST)],
            alt="Work per rack bought over spare racks: steep below its best, flat above", dot=best,
        ),
    ]  # fmt: skip
    columns = ["held", "used", "a rack down", "active", "spare", "GPUs bought", "more than the job"]
    columns += ["cost"] if answer["cost"] else []
    alternatives = Sheet("alternatives", "The same job, held per rack", [Column(name) for name in columns])
    for row in answer["alternatives"]:
        cells = [figure(row["held"]), figure(row["per_rack"]), Cell(percent(row["rack_unavailability"], 3))]
        cells += [
            figure(row["active"], 6),
            figure(row["spare"]),
            figure(row["bought"], 6),
            share(row["of_bought"]),
        ]
        alternatives.rows.append(Row(cells + ([figure(row["cost"])] if answer["cost"] else [])))
    parts = [
        Part("curves", "What spares do", frames=frames),
        *spares_parts(answer),
        Part("others", "Other racks", sheets=[alternatives]),
    ]
    write_fleet_page(file, "Spares", answer, tiles, parts)


def write_goodput_page(answer: Answer, curves: Answer, file: Path) -> None:
    """The page of `plan goodput`. `curves`: as `planner.fleet_curves` makes them."""
    leading, every_s = answer["convention"], answer["every_s"]
    said = f"of its time, by {leading.replace('_', ' ')}"
    if answer["reinforcement"]:
        said = "steps done, of those without failures"
    saves = ("saves every", seconds(every_s), "of work") if every_s else ("saves", "free", "all the time")
    tiles = [
        Tile("works", percent(answer["goodput"]), said),
        Tile("stops", f"{answer['failures_per_day']:.3g} a day", f"every {seconds(answer['mtbf_s'])}"),
        Tile(*saves),
        Tile("a stop costs", seconds(answer["lost_with_failure_s"]), "on average"),
    ]
    if answer["played"]:
        more = "with all the file says, node by node"
        tiles.append(Tile("works, played", percent(answer["played"]["productive"]), more))
    by = Sheet("by", "By convention", [Column("", text=True), Column("works"), Column("counts", text=True)])
    for name, value in answer["ettr"].items():
        by.rows.append(
            Row([word(name), share(value), word(answer["conventions"][f"ettr.{name}"], look="wrap")])
        )
    time = Sheet("time", "Where the time goes", [Column("", text=True), Column("part")])
    time.caption = "Where the time goes, by the exact model."
    time.rows += [Row([word(name), share(value)]) for name, value in answer["time"].items()]
    parts = [
        Part(
            "curves",
            "What would change it",
            frames=_over_time(answer, curves),
            sheets=[backwards(answer["inverse"])],
        ),
        *goodput_parts(answer),
        Part("by-h", "Conventions", sheets=[by, time]),
    ]
    if answer["groups"]:
        parts.append(_groups(answer))
    write_fleet_page(file, "Goodput", answer, tiles, parts)


def _over_time(answer: Answer, curves: Answer) -> list[Frame]:
    """Works over the interval between saves, where saves cost anything, and over recovery."""

    def lines(key: str) -> list[Curve]:
        names = zip(curves[key].items(), (FIRST, SECOND))
        return [Curve(name.replace("_", " "), values, colour) for (name, values), colour in names]

    every_s, exact = answer["every_s"], answer["ettr"]["exact"]
    over_recovery = chart(
        "Works, over the minutes of a recovery", "part", curves["recovery_s"] / 60, lines("over_recovery"),
        alt="Productive part of time over the length of a recovery",
        dot=(sum(answer["recovery_s"].values()) / 60, exact),
    )  # fmt: skip
    if not every_s:
        return [over_recovery]
    over_every = chart(
        "Works, over the minutes of work between saves", "part", curves["every_s"] / 60, lines("over_every"),
        alt="Productive part of time over the interval between saves", dot=(every_s / 60, exact),
    )  # fmt: skip
    return [over_every, over_recovery]


def _groups(answer: Answer) -> Part:
    """Groups beside the whole job stopping, and where they win."""
    against = answer["groups_against_synchronous"]
    sheet = Sheet("groups", "Groups", [Column("", text=True), Column("whole job stops"), Column("groups")])
    whole = against["synchronous"]
    sheet.rows += [Row([word(k), share(whole[k]), share(v)]) for k, v in answer["groups"].items()]
    columns = [Column("groups"), Column("with stalls below"), Column("works")]
    where = Sheet("map", "Where groups win", columns, caption="Where groups win; works: by wall.")
    for row in against["map"]:
        below = row["pays_below_stall_s"]
        stall = duration(below) if below > 0 else Cell("never", "0")
        cells = [figure(row["count"]), stall, share(row["wall"])]
        where.rows.append(Row(cells))
    name = "Groups that recover apart, saves left out"
    return Part("groups-h", name, frames=_maps(against["maps"]), sheets=[sheet, where])


def _maps(maps: Answer) -> list[Frame]:
    """Where groups win: points of the part of work that goes on, against a job that stops as a whole."""
    names = {
        "mtbf_s": ("Groups across, time between failures up", "between failures"),
        "stall_s": ("… groups across, stall up", "stall"),
    }
    frames = []
    for key, (title, what) in names.items():
        told = maps[key]
        across, up = [f"{count:g}" for count in told["counts"]], [seconds(v) for v in told["values"]]
        frames.append(_map_of(title, told["gain"], across, up, f"over groups and {what}"))
    told = maps["stall_away"]
    gains = [[np.nan if value is None else value for value in row] for row in told["gain"]]
    across, up = [seconds(v) for v in told["stall_s"]], [seconds(v) for v in told["away_s"]]
    frame = _map_of("… stall across, absence up", gains, across, up, "over stall and absence")
    return [*frames, frame]


def _points(gain: float, places: int) -> str:
    text = f"{100 * gain:+.{places}f}"
    return text.replace("-", "−") if float(text) else "0"


def _map_of(title: str, gains: Sequence[Sequence[float]], across: list[str], up: list[str], of: str) -> Frame:
    places = 0 if np.nanmax(np.abs(gains)) >= TELLING else 1
    texts = [["" if np.isnan(value) else _points(value, places) for value in row] for row in gains]
    alt = f"Percentage points that groups add to the work that goes on, {of}"
    note = "points that groups add; blue: they win"
    return field(title, gains, across=across, up=up, alt=alt, texts=texts, note=note)


def write_fleet_page(
    file: Path,
    title: str,
    answer: Answer,
    tiles: Sequence[Tile],
    parts: Sequence[Part],
    *,
    subtitle: str = "A fleet's plan",
) -> None:
    """The page of any answer about a fleet: its tiles and parts, then its warnings and conventions."""
    ends = [
        Part("warned-h", "What to mind", about=answer["warnings"] or ["Nothing here."]),
        Part("said-h", "What each figure means", facts=list(answer["conventions"].items())),
    ]
    shown = [*parts, *ends]
    write_page(
        file,
        "plan.html",
        title=title,
        subtitle=subtitle,
        sections=[(part.id, part.title) for part in shown],
        tiles=tiles,
        parts_=shown,
    )
