"""How a run under way looks in a terminal: where it stands, deadlines, days, money, what happened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tenure.cli.figures import NOTHING, minute, percent
from tenure.cli.tables import put, simple_table

LINES = 20  #: of the timeline, the newest
WIDTH = 110


def standing(console: Console, told: Mapping[str, Any], *, lines: int = LINES) -> None:
    """All of it, top to bottom."""
    console.width = min(console.width, WIDTH)
    tokens, money = told["tokens"], told["money"]
    console.print()
    head = f"{told['run']}: {told['phase']}"
    if told.get("carried_by"):
        head += f", carried by {told['carried_by']}"
    console.print(Text(head, style="bold"))
    console.print(
        f"{percent(tokens['kept'] / tokens['target'])} of {tokens['target']:.4g} tokens are in the newest "
        f"checkpoint; {money['total']:,.0f} paid ({money['reserved']:,.0f} for windows, "
        f"{money['on_demand']:,.0f} on demand)."
    )
    for alarm in told["alarms"]:
        console.print(Text(f"ALARM {alarm['mode']}: {alarm['text']}", style="bold red"))
    if told["deadlines"]:
        put(console, _deadlines(told))
    if told["days"]:
        put(console, _days(told))
    forecast = told["forecast"]
    if forecast is not None and "cannot" not in forecast:
        rest = forecast["rest_days"]
        left = "all is done" if rest is None else f"{rest:.2f} days to do, {forecast['left_days']:.2f} left"
        console.print(f"Forecast ({forecast['due']}): {left}; overrun {percent(forecast['p_overrun'])}.")
    put(console, _timeline(told, lines))


def _short(text: str | None) -> str:
    return NOTHING if text is None else minute(text)[5:]


def _deadlines(told: Mapping[str, Any]) -> Table:
    names = ["state", "start", "checkpoint", "drain", "term", "end"]
    table = simple_table("Windows (UTC)", "window", [])
    for name in names:
        table.add_column(name, no_wrap=True)
    for one in told["deadlines"]:
        table.add_row(one["window"], one["state"], *(_short(one[key]) for key in names[1:]))
    return table


def _days(told: Mapping[str, Any]) -> Table:
    table = simple_table("Goodput (tokens kept a paid GPU-hour)", "day", [])
    for name in ("goodput", "run speed", "useful time", "kept work", "occupied"):
        table.add_column(name, justify="right", no_wrap=True)
    keys = ("run_speed", "useful_time", "kept_work", "occupied_share")
    rows = [(str(one["day"]), one) for one in told["days"][-14:]] + [("all", told["goodput"])]
    for name, one in rows:
        style = "bold" if name == "all" else ""
        table.add_row(name, f"{one['goodput']:,.0f}", *(percent(one[key]) for key in keys), style=style)
    return table


def _timeline(told: Mapping[str, Any], lines: int) -> Table:
    table = simple_table("Timeline (UTC)", "when", [])
    table.add_column("what", overflow="fold")
    for one in told["timeline"][-lines:]:
        style = "bold red" if one["kind"] == "alarm_raised" else ""
        table.add_row(minute(one["at"]), Text(one["text"], style=style))
    return table


def asked(console: Console, told: Mapping[str, Any]) -> None:
    """What a person asked for, and who will hear it."""
    what = "to save, leave and wait" if told["asked"] == "drain_asked" else "to go on"
    by = told["carried_by"]
    when = (
        f"{by} takes it up at its next step" if by else "nobody carries it now: it holds from the next start"
    )
    console.print(f"{told['run']} is asked {what}; {when}.")
