"""One page about one run: where it stands, its days, its deadlines, its money, and all that happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tenure.report.frames import Frame, Mark, Tick, percent, scale, stairs
from tenure.report.page import write_page
from tenure.report.plan_figures import axis
from tenure.report.plan_parts import Part, Tile
from tenure.report.sheets import Cell, Column, Row, Sheet, share, word

MOST_LINES = 1500  #: of the timeline
#: What a reader looks for first in a timeline.
LOUD = {"alarm_raised", "purchase_made", "run_finished", "attempt_ended", "extension_wanted"}
FACTORS = (
    ("run_speed", "run speed"),
    ("useful_time", "useful time"),
    ("kept_work", "kept work"),
    ("occupied_share", "occupied share"),
)
LOW, HIGH = 0.5, 1.1  #: what is shown of a factor


def write_run_page(answer: Mapping[str, Any], file: Path) -> None:
    """`answer`: as `run status` or `run rehearse` gives it."""
    tokens, goodput, money = answer["tokens"], answer["goodput"], answer["money"]
    done = tokens["kept"] / tokens["target"]
    tiles = [
        Tile("phase", answer["phase"], f"since {_minute(answer['since'])}" if answer["since"] else ""),
        Tile("kept", percent(done), f"{tokens['kept']:.4g} of {tokens['target']:.4g} tokens"),
        Tile("goodput", f"{goodput['goodput'] / 1e6:.3g} M", "tokens kept a paid GPU-hour"),
        Tile("paid", f"{money['total']:,.0f}", f"{goodput['gpu_hours_paid']:,.0f} GPU-hours"),
        Tile("alarms", str(len(answer["alarms"])), ", ".join(one["mode"] for one in answer["alarms"])),
    ]
    parts = [
        *([Part("days-h", "Day by day", frames=_day_frames(answer))] if answer["days"] else []),
        *([Part("goodput-h", "Goodput, taken apart", _about(), sheets=[_goodput(answer)])]),
        *([Part("deadlines-h", "Deadlines", sheets=[_deadlines(answer)])] if answer["deadlines"] else []),
        *([Part("forecasts-h", "Forecasts", sheets=[_forecasts(answer)])] if answer.get("forecasts") else []),
        Part("attempts-h", "Attempts", sheets=[_attempts(answer)]),
        Part("money-h", "Money", facts=_money(answer)),
        *([_alarms(answer)] if answer["alarms"] else []),
        Part("timeline-h", "What happened", sheets=[_timeline(answer["timeline"])]),
    ]
    title = f"{answer['run']}: {'rehearsed' if 'rehearsal' in answer else answer['phase']}"
    write_page(
        file,
        "plan.html",
        title=title,
        subtitle=f"{_minute(answer['now'])} UTC, all times UTC",
        sections=[(part.id, part.title) for part in parts],
        tiles=tiles,
        parts_=parts,
    )


def _minute(text: str | None) -> str:
    return "–" if text is None else text[:16].replace("T", " ")


def _about() -> list[str]:
    return [
        "tokens kept ÷ paid GPU-hours = token goodput × run speed × useful time × kept work × occupied share",
        "What a day trained and has not saved counts as kept; if it is lost, the day of the loss bears it.",
    ]


def _day_frames(answer: Mapping[str, Any]) -> list[Frame]:
    days = answer["days"]
    edges = np.arange(len(days) + 1, dtype=float)
    values = np.array([one["goodput"] for one in days]) / 1e6
    ideal = answer["goodput"]["token_goodput"] / 1e6
    top = 1.08 * max(ideal, float(values.max()))
    left, right = 0.0, float(len(days))
    x = scale(edges, left, right)
    goodput = Frame(
        title="Tokens kept a paid GPU-hour, each day",
        unit="millions",
        alt=f"Goodput of {len(days)} days, at most {values.max():.3g} million",
        x_ticks=axis(left, right, 8, unit=" d"),
        y_ticks=axis(0, top, 5),
        note=f"dashed: {ideal:.3g} million, at the plan's speed with nothing lost",
        marks=[
            Mark(stairs(x, scale(values, 0, top)), "curve", "var(--accent)"),
            Mark(f"M0 {1000 - int(scale([ideal], 0, top)[0])}H1000", "entitled"),
        ],
    )
    return [goodput, *(_factor(days, key, name) for key, name in FACTORS)]


def _factor(days: Sequence[Mapping[str, Any]], key: str, name: str) -> Frame:
    """One factor of each day, from half of all to a little above it."""
    told = np.array([one[key] for one in days])
    edges = scale(np.arange(len(days) + 1, dtype=float), 0.0, float(len(days)))
    return Frame(
        title=name[0].upper() + name[1:],
        unit="",
        alt=f"{name} of {len(days)} days, from {told.min():.1%} to {told.max():.1%}",
        x_ticks=axis(0.0, float(len(days)), 8, unit=" d"),
        y_ticks=[Tick(100 * (at - LOW) / (HIGH - LOW), f"{at:.0%}") for at in (0.6, 0.8, 1.0)],
        marks=[
            Mark(stairs(edges, scale(told, LOW, HIGH)), "curve", "var(--accent)"),
            Mark(f"M0 {1000 - int(scale([1.0], LOW, HIGH)[0])}H1000", "entitled"),
        ],
    )


def _goodput(answer: Mapping[str, Any]) -> Sheet:
    names = ("day", "tokens a GPU-hour", "token goodput", *(name for _, name in FACTORS))
    sheet = Sheet("goodput", "Goodput", [Column("day", text=True), *(Column(name) for name in names[1:])])
    rows = [("all", answer["goodput"]), *((str(one["day"]), one) for one in answer["days"])]
    for name, told in rows:
        cells = [
            word(name),
            Cell(f"{told['goodput']:,.0f}", told["goodput"]),
            Cell(f"{told['token_goodput']:,.0f}", told["token_goodput"]),
            *(share(told[key]) for key, _ in FACTORS),
        ]
        sheet.rows.append(Row(cells, inner=name == "all"))
    return sheet


def _deadlines(answer: Mapping[str, Any]) -> Sheet:
    names = ("window", "state", "start", "checkpoint", "drain", "term", "end")
    sheet = Sheet("deadlines", "Deadlines", [Column(name, text=True) for name in names])
    for told in answer["deadlines"]:
        times = [_minute(told[key]) for key in names[2:]]
        sheet.rows.append(Row([word(told["window"]), word(told["state"]), *map(word, times)]))
    sheet.caption = (
        f"from saves of up to {answer['save_s']:.0f} s" if answer["save_s"] else "no save measured yet"
    )
    return sheet


def _forecasts(answer: Mapping[str, Any]) -> Sheet:
    names = ("when", "speed", "rest, days", "left, days", "P(overrun)", "extend, days", "saves")
    sheet = Sheet(
        "forecasts", "Forecasts", [Column("when", text=True), *(Column(name) for name in names[1:])]
    )
    for told in answer["forecasts"]:
        if "cannot" in told:
            continue
        gain = told["cost_without"] - told["cost"]
        rest = told["rest_days"] or 0.0
        sheet.rows.append(
            Row(
                [
                    word(str(told["due"])),
                    Cell(f"{told['speed']:,.0f} ± {told['speed_sd']:,.0f}", told["speed"]),
                    Cell(f"{rest:.2f}", rest),
                    Cell(f"{told['left_days']:.2f}", told["left_days"]),
                    share(told["p_overrun"]),
                    Cell(f"{told['extend_days']:g}" if told["extend"] else "–", told["extend_days"]),
                    Cell(f"{gain:,.0f}" if told["extend"] else "–", gain),
                ],
                inner=bool(told["extend"]),
            )
        )
    return sheet


def _attempts(answer: Mapping[str, Any]) -> Sheet:
    names = ("attempt", "nodes", "in", "started", "ended", "end")
    sheet = Sheet("attempts", "Attempts", [Column(name, text=True) for name in names])
    for told in answer["attempts"]:
        where = ", ".join(told["windows"]) or "on demand"
        cells = [str(told["attempt"]), str(told["nodes"]), where]
        cells += [_minute(told["started"]), _minute(told["ended"]), told["end"] or "under way"]
        sheet.rows.append(Row([word(cell) for cell in cells]))
    return sheet


def _money(answer: Mapping[str, Any]) -> list[tuple[str, str]]:
    money = answer["money"]
    facts = [
        ("windows and extensions", f"{money['reserved']:,.2f}"),
        ("on demand", f"{money['on_demand']:,.2f} ({money['node_hours']:,.1f} node-hours)"),
        ("together", f"{money['total']:,.2f}"),
    ]
    if "bill" in answer:
        facts.append(("the cloud's own bill", f"{float(answer['bill']['total']):,.2f}"))
    return facts


def _alarms(answer: Mapping[str, Any]) -> Part:
    return Part("alarms-h", "Alarms", warnings=[(one["mode"], one["text"]) for one in answer["alarms"]])


def _timeline(told: Sequence[Mapping[str, Any]]) -> Sheet:
    sheet = Sheet("timeline", "Timeline", [Column("UTC", text=True), Column("what", text=True)])
    for one in told[-MOST_LINES:]:
        look = "text worse" if one["kind"] == "alarm_raised" else "text"
        row = Row([word(_minute(one["at"])), word(one["text"], look=look)], inner=one["kind"] in LOUD)
        sheet.rows.append(row)
    if len(told) > MOST_LINES:
        sheet.caption = f"the newest {MOST_LINES} of {len(told)}"
    return sheet
