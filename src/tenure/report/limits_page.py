"""The page of `plan power`: the limit that does the most work, where the watts go, what moves the choice."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tenure.report.fleet_charts import FIRST, SECOND, Curve, chart
from tenure.report.fleet_page import write_fleet_page
from tenure.report.frames import percent
from tenure.report.plan_parts import Part, Tile
from tenure.report.sheets import Cell, Column, Row, Sheet, figure, share, word

Answer = Mapping[str, Any]


def write_power_page(answer: Answer, curves: Answer, file: Path) -> None:
    """The page of `plan power`. `curves`: as `planner.fleet_curves` makes them."""
    best = answer["optimum"]
    reference = f"relative to {answer['reference_w']:g} W"
    tiles = [
        Tile("limit", f"{best['cap_w']:g} W", "the most work"),
        Tile("accelerators", f"{best['gpus']:,}", f"{best['all_in_w']:,.0f} W of the site each"),
        Tile("all do", f"{best['cluster']:.3f}", reference),
        Tile("each does", f"{best['per_gpu']:.3f}", reference),
    ]
    if answer["stragglers"]:
        told = answer["stragglers"]
        more = f"of {told['gpus']:,}: an even limit holds all to it"
        tiles.append(Tile("the slowest does", percent(told["speed"]), more))
    both = [Curve("all", curves["cluster"], FIRST), Curve("each", curves["per_gpu"], SECOND)]
    frame = chart(
        "Work over the limit, W", reference, curves["cap_w"], both,
        alt="Work of one accelerator and of the whole site over the power limit",
        dot=(best["cap_w"], best["cluster"]),
    )  # fmt: skip
    if answer["stranded"] is not None:
        tiles.append(
            Tile("stranded", percent(answer["stranded"]), "of the supply, by planning at the rated limit")
        )
    if answer["drawn_axis"]:
        drawn = answer["drawn_axis"]["optimum"]
        more = f"over watts really drawn; all do {drawn['cluster']:.3f}"
        tiles.append(Tile("limit, drawn", f"{drawn['cap_w']:g} W", more))
    names = ["limit, W", "accelerators", "each does", "all do", "site W each", "MWh a year"]
    keys = ["cap_w", "gpus", "per_gpu", "cluster", "all_in_w", "mwh_a_year"]
    if "energy_cost_a_year" in best:
        names, keys = [*names, "cost a year"], [*keys, "energy_cost_a_year"]
    sheet = Sheet("limits", "Limits", [*map(Column, names), Column("best with capital_w of")])
    capital = {
        row["cap_w"]: watts for row, watts in zip(answer["at"], answer["capital_for_at_w"], strict=True)
    }
    others = [row for row in answer["at"] if row["cap_w"] != best["cap_w"]]
    for row in sorted([*others, best], key=lambda row: float(row["cap_w"])):
        needs = capital.get(row["cap_w"])
        last = Cell("–", "") if needs is None else figure(round(needs), 4)
        sheet.rows.append(Row([*(figure(row[key], 6 if key == "gpus" else 4) for key in keys), last]))
    parts = [Part("curves", "Limits", frames=[frame], sheets=[sheet])]
    sheets = _site_sheets(answer)
    if sheets:
        parts.append(Part("site", "Where the site's power goes", sheets=sheets))
    sheets = _choice_sheets(answer)
    if sheets:
        parts.append(Part("choice", "What moves the choice", sheets=sheets))
    write_fleet_page(file, "Power", answer, tiles, parts)


def _site_sheets(answer: Answer) -> list[Sheet]:
    """What takes an accelerator's watts, and what each breaker allows."""
    found = []
    if answer["split_w"]:
        split = Sheet("split", "", [Column("", text=True), Column("site W")])
        split.caption = "Site watts of one accelerator at the best limit."
        split.rows += [Row([word(name), figure(watts, 4)]) for name, watts in answer["split_w"].items()]
        found.append(split)
    if answer["breakers"]:
        names = ("GPUs", "allows, W", "with all above it, W", "passed by")
        tree = Sheet("breakers", "", [Column("breaker", text=True), *(Column(name) for name in names)])
        for row in answer["breakers"]:
            cells = [figure(row["gpus"], 6), figure(row["cap_w"], 4), figure(row["path_cap_w"], 4)]
            tree.rows.append(Row([word(row["name"]), *cells, share(row["over"])]))
        found.append(tree)
    return found


def _choice_sheets(answer: Answer) -> list[Sheet]:
    """What seasons allow, what is undone under each curve the work may follow, what idle spares feed."""
    found = []
    if answer["seasons"]:
        columns = (
            Column("fed at the limit"),
            Column("limit of the whole fleet, W"),
            Column("each does then"),
        )
        seasons = Sheet("seasons", "Seasons", [Column("season", text=True), *columns])
        seasons.caption = (
            "Accelerators that the site feeds in each season, and the limit that feeds them all."
        )
        for row in answer["seasons"]:
            does = Cell("beyond the curve", "") if row["per_gpu"] is None else figure(row["per_gpu"], 4)
            seasons.rows.append(
                Row([word(row["name"]), figure(row["gpus"], 6), figure(row["cap_w"], 4), does])
            )
        found.append(seasons)
    if answer["regret"]:
        regret = answer["regret"]
        under = Sheet("regret", "Curves", [Column("if the work follows", text=True), Column("left undone")])
        under.caption = (
            f"One limit under every curve: {regret['cap_w']:.0f} W leaves the least undone at worst."
        )
        under.rows += [Row([word(name), share(part)]) for name, part in regret["of"].items()]
        found.append(under)
    if answer["idle"]:
        idle = answer["idle"]
        raised = Sheet(
            "idle", "Idle", [Column("limit, W"), Column("raised to, W"), Column("each does more by")]
        )
        factor = idle["limit_factor"]
        raised.caption = f"What idle spares do not draw raises the limit of the rest × {factor:.3f}."
        for row in idle["at"]:
            more = row["per_gpu_factor"]
            cell = Cell("beyond the curve", "") if more is None else share(more - 1)
            raised.rows.append(Row([figure(row["cap_w"], 4), figure(row["raised_w"], 4), cell]))
        found.append(raised)
    return found
