"""The page of `plan failures`: rates, causes, ages, lemons, and jobs by size."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tenure.report.fleet_charts import FIRST, SECOND, Curve, chart
from tenure.report.fleet_log import causes, lemons
from tenure.report.fleet_page import write_fleet_page
from tenure.report.frames import Frame
from tenure.report.plan_parts import Part, Tile
from tenure.report.sheets import Column, Row, Sheet, figure, word

Answer = Mapping[str, Any]
HOUR_S = 3600.0


def write_failures_page(answer: Answer, file: Path) -> None:
    """The page of `plan failures`."""
    tiles = [
        Tile(
            record["class"],
            f"{record['rate']:.3g}",
            f"{record['low']:.3g} to {record['high']:.3g} per 1,000 node-days · {record['source']}",
        )
        for record in answer["records"][:4]
    ]
    parts = []
    for place, record in enumerate(answer["records"]):
        frames = [_trend(record)] if record["trend"] else []
        sheets = [causes(record, place), *lemons(record, place)]
        seen = f"{record['events']:g} failures in {record['node_days']:,.0f} node-days"
        said = f"{seen}; class: {record['class']}."
        parts.append(Part(f"record-{place}", record["source"], about=[said], frames=frames, sheets=sheets))
    if answer["lives"]:
        lives = answer["lives"]
        parts.append(
            Part("lives", f"Lives of {lives['part']}s", frames=[_survival(lives)], sheets=[_ages(lives)])
        )
    if answer["sizes"] or answer["jobs"]:
        parts.append(Part("sizes", "By size of the job", sheets=_of_sizes(answer)))
    write_fleet_page(file, "Failures", answer, tiles, parts)


def _trend(record: Answer) -> Frame:
    trend = record["trend"]
    days = np.linspace(trend["days"] / 200, trend["days"], 200)
    events = trend["seen"][-1][1]
    seen = np.interp(days, *np.array([[0.0, 0.0], *trend["seen"]]).T)
    curves = [
        Curve("seen", seen, FIRST),
        Curve("power law", events * (days / trend["days"]) ** trend["shape"], SECOND),
    ]
    title = (
        f"Failures so far, over days; shape {trend['shape']:.2f} ({trend['low']:.2f} to {trend['high']:.2f})"
    )
    alt = f"Number of failures over time with the fitted power law: {trend['verdict']}"
    return chart(title, "failures", days, curves, alt=alt, dot=None)


def _survival(lives: Answer) -> Frame:
    days, alive = np.array(lives["survival"]).T
    even = np.linspace(0.0, days[-1], 200)
    curves = [Curve("seen", np.interp(even, days, alive), FIRST)]
    if lives["weibull"]:
        weibull = lives["weibull"]
        curves.append(Curve("Weibull", np.exp(-((even / weibull["scale_days"]) ** weibull["shape"])), SECOND))
    alt = "Part of parts that have not failed, over their age, with the fitted Weibull"
    return chart("Not failed, over days of age", "part", even, curves, alt=alt, dot=None)


def _ages(lives: Answer) -> Sheet:
    columns = [Column("age", text=True), *(Column(name) for name in ("failures", "rate", "from", "to"))]
    sheet = Sheet("ages", "Early and late", columns, caption="Failures per 1,000 part-days with 95 %.")
    names = {"early": f"first {lives['early_days']:g} days", "late": "after"}
    for key, name in names.items():
        row = lives[key]
        if row:
            bounds = [figure(row[k]) for k in ("per_1000_part_days", "low", "high")]
            sheet.rows.append(Row([word(name), figure(row["events"]), *bounds]))
    return sheet


def _of_sizes(answer: Answer) -> list[Sheet]:
    found = []
    if answer["sizes"]:
        sheet = Sheet(
            "of-sizes", "Measured", [Column(n) for n in ("GPUs", "failures", "rate", "from", "to", "MTTF, h")]
        )
        for row in answer["sizes"]:
            keys = ("events", "rate", "low", "high", "mttf_h")
            sheet.rows.append(Row([figure(row["gpus"], 6), *(figure(row[key]) for key in keys)]))
        found.append(sheet)
    if answer["jobs"]:
        columns = [
            Column("GPUs"),
            Column("by the rate of", text=True),
            *(Column(n) for n in ("MTTF, h", "from", "to")),
        ]
        sheet = Sheet("of-jobs", "A job of this size is stopped every", columns)
        for row in answer["jobs"]:
            hours = [figure(row[key]) for key in ("mttf_h", "low_h", "high_h")]
            name = row["by"] + (" (far away: see below)" if row["warning"] else "")
            sheet.rows.append(Row([figure(row["gpus"], 6), word(name), *hours]))
        found.append(sheet)
    return found
