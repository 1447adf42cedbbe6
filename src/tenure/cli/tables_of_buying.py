"""How offers and purchases of a run look in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from tenure.cli.figures import minute


def offers(console: Console, told: dict[str, Any]) -> None:
    """A row an offer, the least expected cost first."""
    if not told["offers"]:
        console.print(f"Nothing is for sale for {told['run']} now.")
        return
    nodes = sorted({one["nodes"] for one in told["offers"]})
    title = f"For sale for {told['run']}: {', '.join(map(str, nodes))} nodes"
    table = Table(title=title, caption="expected: all-in cost of the run with this window, by its own plan")
    for name in ("offer", "start (UTC)", "end (UTC)", "zone"):
        table.add_column(name, no_wrap=True)
    currency = "/".join(sorted({one["currency"] for one in told["offers"]}))
    for name in ("days", f"fee {currency}", "expected", "overrun"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in told["offers"]:
        table.add_row(
            one["id"],
            minute(one["start"]),
            minute(one["end"]),
            one["zone"],
            f"{one['days']:.2f}",
            f"{float(one['fee']):,.0f}",
            f"{one['cost']:,.0f}",
            f"{one['p_overrun']:.1%}",
        )
    console.print(table)


def plans(console: Console, told: Sequence[dict[str, Any]]) -> None:
    """A row a plan."""
    if not told:
        console.print("Nothing was signed for this run.")
        return
    table = Table(title="Purchases")
    for name in ("plan", "offer", "start (UTC)", "days", "fee", "signed by", "state"):
        table.add_column(name, overflow="fold", no_wrap=name in ("plan", "start (UTC)"))
    for one in told:
        offer = one["offer"]
        what = f"{offer['id']} (extends {offer['extends']})" if offer["extends"] else offer["id"]
        more = ", ".join(str(one[key]) for key in ("window", "code", "message") if key in one)
        if one["state"] == "not known":
            more = one["intent"]
        table.add_row(
            one["plan"],
            what,
            minute(offer["start"]),
            f"{offer['days']:.2f}",
            f"{float(offer['fee']):,.2f} {offer['currency']}",
            f"{', '.join(one['signed_by'])} ({len(one['signed_by'])} of {one['needs']})",
            f"{one['state']}: {more}" if more else one["state"],
        )
    console.print(table)
