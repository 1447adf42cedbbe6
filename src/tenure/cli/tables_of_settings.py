"""Tables of `tenure policy`: the knobs; what a lab's file holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from tenure.cli.figures import NOTHING, count, percent, significant
from tenure.cli.tables import put, simple_table, tree_rows


def knobs(console: Console, shown: Mapping[str, Any]) -> None:
    """Every knob of one policy; what is not the default is bold."""
    console.print()
    console.print(Text.assemble((shown["policy"], "bold"), f": {shown['meaning']}"))
    table = simple_table("", "policy.", ["value", "default"])
    table.add_column("meaning")
    for row in shown["knobs"]:
        changed = row["value"] != row["default"]
        table.add_row(
            row["key"], Text(row["value"], style="bold" if changed else ""), row["default"], row["meaning"]
        )
    put(console, table)
    console.print()
    if shown["rule"] != "budget":
        console.print(f"Of these {shown['policy']} looks at few; they are the knobs of budget and window.")
    others = ", ".join(name for name in shown["policies"] if name != shown["policy"])
    console.print(
        f"Other policies: {others}. One key is changed by --set policy.KEY=VALUE or in the lab's file."
    )


def lab(console: Console, checked: Mapping[str, Any]) -> None:
    """Clusters, then accounts with what each is entitled to, then the knobs the file changes."""
    console.print()
    console.print(Text.assemble((checked["lab"], "bold"), f" · {checked['file']} is in order"))
    clusters = simple_table("Clusters", "cluster", ["nodes", "GPUs", "racks", "types", "a GPU-hour"])
    for row in checked["clusters"]:
        price = row["price_per_gpu_hour"]
        clusters.add_row(
            row["cluster"],
            count(row["nodes"]),
            count(row["gpus"]),
            count(row["racks"]),
            ", ".join(row["types"]) or NOTHING,
            NOTHING if price is None else f"{price:,.2f}",
        )
    put(console, clusters)
    put(console, _accounts(checked))
    console.print()
    changed = ", ".join(f"{key} {value}" for key, value in checked["policy"].items())
    console.print(f"Policy: {changed or 'every key at its default'}.")
    if checked["lookback"] == "default":
        console.print("No lookback is given: use counts for 7 d, second by second.")


def _accounts(checked: Mapping[str, Any]) -> Any:
    names = [row["cluster"] for row in checked["clusters"]]
    heads = ["share"] + [f"GPUs of {name}" for name in names] + ["limit"]
    table = simple_table("Accounts: share of the parent's, GPUs entitled to", "account", heads)
    rows = {row["account"]: row for row in checked["accounts"]}
    for path, label in tree_rows(list(rows)):
        row = rows[path]
        shares = list(dict.fromkeys(percent(share) for share in row["share"]))
        table.add_row(
            label,
            " / ".join(shares),
            *(significant(gpus) for gpus in row["entitled_gpus"]),
            NOTHING if row["max_gpus"] is None else count(row["max_gpus"]),
        )
    return table
