"""Tables of `tenure plan capping` and `tenure plan calibrate`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from tenure.cli.figures import NOTHING, count, duration, percent, significant
from tenure.cli.tables import put, simple_table
from tenure.cli.tables_of_fleet import end_of_answer

Answer = Mapping[str, Any]
MOST_CAPS = 6
MOST_ROWS = 20


def capping(console: Console, answer: Answer) -> None:
    """Which breakers are passed, whom to cap, and the controller's hour."""
    over, best = answer["over"], answer["options"][0]
    console.print()
    if over:
        said = f"{', '.join(over[:4])} passed at {significant(answer['base_w'])} W: cap {_caps(best)}"
    else:
        said = f"No breaker is passed at {significant(answer['base_w'])} W"
    console.print(Text(said, style="bold"))
    breakers = simple_table(
        "Breakers, the fullest first", "", ["limit, kW", "drawn, kW", "passed by", "racks"]
    )
    for row in sorted(answer["breakers"], key=lambda row: -row["drawn_kw"] / row["limit_kw"])[:MOST_ROWS]:
        cells = (count(row["limit_kw"]), count(row["drawn_kw"]), percent(row["over"]), count(row["racks"]))
        breakers.add_row(row["name"], *cells)
    put(console, breakers)
    table = simple_table("Ways to relieve them all", "", ["lost, racks", "limits, W"])
    table.columns[-1].justify, table.columns[-1].no_wrap = "left", False
    for row in answer["options"]:
        lost = "refused" if row["loss_racks"] is None else f"{row['loss_racks']:.2f}"
        table.add_row(row["name"], lost, _caps(row), style="bold" if row is best else "")
    move = answer["move"]
    if move["racks"]:
        racks = ", ".join(f"{name} {many}" for name, many in move["racks"].items())
        table.caption = f"Or move racks to spares: {racks}; {move['spares_with_room']} have room."
    put(console, table)
    if answer["played"]:
        columns = ["lost, racks", "most drawn", "passed for", "trips"]
        played = simple_table("Played, reading by reading", "", columns)
        names = (("job_aware", "job by job"), ("even", "one limit for all"), ("none", "no controller"))
        for key, name in names:
            row = answer["played"][key]
            told = (f"{row['lost_racks']:.2f}", percent(row["most_drawn"]), duration(row["over_s"]))
            played.add_row(name, *told, row["tripped"] or NOTHING)
        put(console, played)
    end_of_answer(console, answer)


def _caps(row: Answer) -> str:
    caps = list(row["caps_w"].items())
    told = ", ".join(f"{name} to {cap:.0f} W" for name, cap in caps[:MOST_CAPS])
    return (told or "nobody") + (f" and {len(caps) - MOST_CAPS} more" if len(caps) > MOST_CAPS else "")


def calibrate(console: Console, answer: Answer) -> None:
    """Factors for each meter's racks, or why there are none; drift; margin."""
    for meter in answer["meters"]:
        console.print()
        error = f"{percent(meter['total_error'])} left over ({percent(meter['total_error_unset'])} as read)"
        console.print(Text(f"{meter['meter']}: {error}", style="bold"))
        console.print(
            f"One factor for all: {meter['common']:.4f}, {significant(meter['offset'])} added to the sum."
        )
        if meter["gains"] is None:
            continue
        table = simple_table("Gains", "rack", ["gain", "known to ±"])
        for rack, gain, error in list(zip(meter["racks"], meter["gains"], meter["errors"]))[:MOST_ROWS]:
            table.add_row(rack, f"{gain:.4f}", percent(error))
        put(console, table)
    margin = answer["margin"]
    console.print()
    console.print(
        f"A sum of readings may be short by {percent(margin['together'])} at "
        f"{percent(margin['confidence'])}: {percent(margin['independent'])} of errors by themselves, "
        f"{percent(margin['common'])} of a common one."
    )
    end_of_answer(console, answer)
