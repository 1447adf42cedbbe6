"""The table of `tenure preflight`: what was asked, the answer, by when, at what cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tenure.cli.figures import NOTHING, minute

COLOURS = {"pass": "green", "fail": "bold red", "unknown": "yellow"}
SENTENCES = {
    "pass": "Ready.",
    "fail": "Not ready: what fails must be mended first.",
    "unknown": "Not shown to be ready: ask what is unknown, or accept it by name (--accept).",
}


def checks(console: Console, told: Mapping[str, Any]) -> None:
    """Each check in a row, the verdict below."""
    console.print()
    begins = f", window begins {_minute(told['start'])}" if told["start"] else ""
    console.print(Text(f"{told['run']}: pre-flight{begins}", style="bold"))
    table = Table(expand=True, box=None, pad_edge=False, show_edge=False, header_style="bold")
    for name in ("check", "answer", "found", "mend by", "costs"):
        table.add_column(name, overflow="fold", no_wrap=name != "found", ratio=1 if name == "found" else None)
    for one in told["checks"]:
        by = _minute(one["deadline"]) if one["deadline"] else NOTHING
        late = Text(f"{by} (late)", style="bold red") if one["late"] else Text(by)
        answer = Text(one["state"], style=COLOURS[one["state"]])
        table.add_row(one["check"], answer, str(one["text"]), late, _cost(one))
    console.print(table)
    console.print()
    console.print(Text(SENTENCES[told["verdict"]], style=COLOURS[told["verdict"]]))
    if told["plan"] is not None:
        pilot = told["plan"]["pilots"][0]
        console.print(
            f"The probe as a pilot of the plan: nodes {pilot['nodes']}, mean {pilot['mean']:g}, "
            f"sd {pilot['sd']:g} (--write-plan FILE writes it)."
        )


def _minute(instant: str) -> str:
    return f"{minute(instant)[5:]}Z"


def _cost(one: Mapping[str, Any]) -> str:
    if one["cost_at_most"]:
        return f"{one['cost']}, ≤ {one['cost_at_most']:,.2f}"
    return NOTHING if one["cost"] == "nothing" else str(one["cost"])
