"""The pages of `plan capping` and `plan calibrate`: whom to cap, and whether readings can be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tenure.report.fleet_charts import FIRST, SECOND, Curve, chart
from tenure.report.fleet_page import write_fleet_page
from tenure.report.frames import Frame, percent, seconds
from tenure.report.plan_parts import Part, Tile
from tenure.report.sheets import Column, Row, Sheet, duration, figure, share, word

Answer = Mapping[str, Any]
MINUTE_S = 60.0
MOST_ROWS = 60


def write_capping_page(answer: Answer, file: Path) -> None:
    """The page of `plan capping`."""
    best = answer["options"][0]
    tiles = [
        Tile(
            "passed",
            f"{len(answer['over'])} breakers",
            f"of {len(answer['breakers'])}, at {answer['base_w']:g} W",
        ),
        Tile("least loss", f"{best['loss_racks']:.2f} racks", "of work, the limits below"),
    ]
    even = next((row for row in answer["options"] if row["name"] == "uniform"), None)
    if even:
        more = f"at {min(even['caps_w'].values()):.0f} W"
        lost = "–" if even["loss_racks"] is None else f"{even['loss_racks']:.1f} racks"
        tiles.append(Tile("one limit for all", lost, more))
    sheet = Sheet(
        "options",
        "Whom to cap",
        [Column("", text=True), Column("lost, racks"), Column("limits, W", text=True)],
    )
    for row in answer["options"]:
        caps = list(row["caps_w"].items())
        told = ", ".join(f"{name} {cap:.0f}" for name, cap in caps[:8]) + (" …" if len(caps) > 8 else "")
        sheet.rows.append(
            Row([word(row["name"]), figure(row["loss_racks"]), word(told or "nobody is capped")])
        )
    parts = [Part("whom", "Whom to cap", sheets=[sheet, _breakers(answer)])]
    if answer["played"]:
        parts.append(_played(answer["played"]))
    write_fleet_page(file, "Capping", answer, tiles, parts)


def _breakers(answer: Answer) -> Sheet:
    names = ("limit, kW", "drawn, kW", "passed by", "racks")
    sheet = Sheet("breakers", "Breakers", [Column("breaker", text=True), *(Column(name) for name in names)])
    for row in sorted(answer["breakers"], key=lambda row: -row["drawn_kw"] / row["limit_kw"])[:MOST_ROWS]:
        cells = [
            word(row["name"]),
            figure(row["limit_kw"], 5),
            figure(row["drawn_kw"], 5),
            share(row["over"]),
        ]
        sheet.rows.append(Row([*cells, figure(row["racks"], 6)]))
    return sheet


def _played(played: Answer) -> Part:
    lines = played["lines"]
    minutes = np.array(lines["at_s"]) / MINUTE_S
    drawn = lines["drawn"]
    frames = [
        chart(
            "The fullest breaker, in parts of its limit, over minutes", "part", minutes,
            [
                Curve("job by job", drawn["job by job"], FIRST),
                Curve("no controller", drawn["no controller"], SECOND),
            ],
            alt="What the fullest breaker carries over time, with and without the controller", dot=None,
        ),
        _limits(minutes, lines["caps_w"]),
    ]  # fmt: skip
    names = ("lost, racks", "most drawn", "passed for", "trips")
    sheet = Sheet("played", "Played", [Column("", text=True), *(Column(name) for name in names)])
    for key, name in (("job_aware", "job by job"), ("even", "one limit for all"), ("none", "no controller")):
        row = played[key]
        cells = [figure(row["lost_racks"]), share(row["most_drawn"]), duration(row["over_s"])]
        sheet.rows.append(Row([word(name), *cells, word(row["tripped"] or "none")]))
    about = []
    if played["dark"]:
        about.append(
            f"No readings from {seconds(played['dark'][0])} to {seconds(played['dark'][1])}: "
            "all go to the floor."
        )
    return Part("played-h", "A controller at work", about=about, frames=frames, sheets=[sheet])


def _limits(minutes: np.ndarray, caps_w: Mapping[str, list[float]]) -> Frame:
    """The two jobs whose limits move most."""
    moved = sorted(caps_w, key=lambda name: -float(np.ptp(caps_w[name])))[:2]
    curves = [Curve(name, caps_w[name], colour) for name, colour in zip(moved, (FIRST, SECOND))]
    names = " and ".join(moved)
    alt = f"The limits of {names} over time"
    return chart(f"Limits of {names}, W, over minutes", "W", minutes, curves, alt=alt, dot=None)


def write_calibration_page(answer: Answer, file: Path) -> None:
    """The page of `plan calibrate`."""
    margin = answer["margin"]
    tiles = []
    for meter in answer["meters"][:3]:
        unset = f"of the sum; {percent(meter['total_error_unset'], 2)} as read"
        tiles.append(Tile(meter["meter"], percent(meter["total_error"], 2), unset))
    tiles.append(Tile("margin", percent(margin["together"], 2), f"at {percent(margin['confidence'])}"))
    parts = []
    for place, meter in enumerate(answer["meters"]):
        parts.append(
            Part(
                f"meter-{place}",
                meter["meter"],
                [_said(meter)],
                [_left(meter, answer)],
                sheets=_gains(meter, place),
            )
        )
    write_fleet_page(file, "Calibration", answer, tiles, parts)


def _said(meter: Answer) -> str:
    common = f"One factor for all: {meter['common']:.4f}, and {meter['offset']:.3g} added to the sum."
    return common if meter["refused"] is None else f"Single gains are refused: {meter['refused']}. {common}"


def _left(meter: Answer, answer: Answer) -> Frame:
    lines = meter["lines"]
    curves = [
        Curve("as read", 100 * np.array(lines["unset"]), SECOND),
        Curve("set right", 100 * np.array(lines["set"]), FIRST),
    ]
    title = f"Racks less meter, percent, over samples; fitted on the first {answer['fitted']}"
    alt = "What the racks' sum differs from the meter by, as read and set right"
    return chart(title, "percent", lines["sample"], curves, alt=alt, dot=None)


def _gains(meter: Answer, place: int) -> list[Sheet]:
    if meter["gains"] is None:
        return []
    columns = [Column("rack", text=True), Column("gain"), Column("known to ±")]
    sheet = Sheet(f"gains-{place}", "Gains", columns)
    for rack, gain, error in zip(meter["racks"], meter["gains"], meter["errors"]):
        sheet.rows.append(Row([word(rack), figure(gain, 4), share(error)]))
    return [sheet]
