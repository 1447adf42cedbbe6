"""Tables of `tenure plan` and `tenure run forecast`, 80 columns wide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tenure.cli.figures import NOTHING, absent, duration, percent, significant
from tenure.cli.tables import put, simple_table

MOST_ROWS = 12  #: windows shown on each side of the chosen one
MOST_NAMED = 24  #: letters of an offer's name
WIDTH = 80


def money(value: float | None) -> str:
    """Whole units, thousands apart."""
    return NOTHING if absent(value) else f"{value:,.0f}"


def days(value: float | None, digits: int = 2) -> str:
    return NOTHING if value is None or absent(value) else f"{value:,.{digits}f}"


def window(console: Console, answer: Mapping[str, Any]) -> None:
    """What a planner with money to spend reads from top to bottom."""
    console.width = min(console.width, WIDTH)
    length, best = answer["duration_days"], answer["best"]
    console.print()
    console.print(Text(f"{answer['run']}: {_bought(best)}, {money(best['cost'])} expected", style="bold"))
    console.print(
        f"The run takes {days(length['mean'])} ± {days(length['sd'])} days: half of all by "
        f"{days(length['p50'])}, 90 % by {days(length['p90'])}, 95 % by {days(length['p95'])}, 99 % by "
        f"{days(length['p99'])}."
    )
    if "failures" in answer:
        failures = answer["failures"]
        console.print(
            f"{significant(failures['expected'])} failures are expected, each "
            f"{significant(failures['hours_each'])} h "
            f"({failures['model']}, λL = {failures['bred']:.3f})."
        )
    put(console, _windows(answer))
    console.print()
    console.print(_tail(answer))
    for line in (
        *_anywhere(answer),
        *_composites(answer),
        *_chained(answer),
        *_saves(answer),
        *_goodput(answer),
    ):
        console.print(line)
    put(console, _tornado(answer))
    _warnings(console, answer["warnings"])
    console.print(Text("Next", style="bold"))
    for step in answer["next_steps"]:
        console.print(f"[ ] {step}", soft_wrap=False)


def _bought(row: Mapping[str, Any]) -> str:
    name = f"{row['id']}, " if "id" in row else "a window of "
    return f"buy {name}{significant(row['days'])} days"


def _windows(answer: Mapping[str, Any]) -> Table:
    rows, best = answer["windows"], answer["best"]
    named = any("id" in row for row in rows)
    shown, left_out = _near(rows, best)
    table = simple_table("Windows", "offer" if named else "days", [])
    columns = (["days"] if named else []) + ["cost", "P(overrun)", "days over", "over the best"]
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for row in shown:
        chosen = row["days"] == best["days"] and row["cost"] == best["cost"]
        cells = [str(row["id"])[:MOST_NAMED], days(row["days"])] if named else [f"{row['days']:g}"]
        cells += [
            money(row["cost"]),
            percent(row["p_overrun"]),
            days(row["expected_overrun_days"], 3),
            "best" if chosen else f"+{money(row['cost'] - best['cost'])}",
        ]
        table.add_row(*cells, style="bold" if chosen else "")
    if left_out:
        table.caption = f"{left_out} more windows, all dearer, are in --json"
    return table


def _near(rows: Sequence[Any], best: Mapping[str, Any]) -> tuple[list[Any], int]:
    """The rows around the best, in their order."""
    if len(rows) <= 2 * MOST_ROWS:
        return list(rows), 0
    kept = sorted(range(len(rows)), key=lambda row: rows[row]["cost"])[: 2 * MOST_ROWS]
    return [rows[row] for row in sorted(kept)], len(rows) - len(kept)


def _tail(answer: Mapping[str, Any]) -> str:
    best = answer["best"]
    text = f"Of ten such runs one costs more than {money(best['cost_p90'])}, of twenty one more than "
    text += f"{money(best['cost_p95'])}."
    if "p_over_budget" in best:
        text += (
            f" The budget of {money(best['budget'])} is passed with chance {percent(best['p_over_budget'])}."
        )
    return text


def _anywhere(answer: Mapping[str, Any]) -> list[str]:
    found = []
    best, anywhere, day = answer["best"], answer["continuous"], answer["prices"]
    if anywhere is not None:
        found.append(
            f"The best length of all, on sale or not: {days(anywhere['days'])} days for "
            f"{money(anywhere['cost'])}; "
            + (
                f"what is on sale costs {money(best['regret'])} more."
                if best["regret"] >= 0
                else f"what is on sale costs {money(-best['regret'])} less, at its own fee."
            )
        )
    if answer["break_even"] is not None:
        found.append(
            f"A reserved day costs {money(day['reserved_per_day'])}, one past the window "
            f"{money(day['overrun_per_day'])}: worth it down to a chance of an overrun of "
            f"{percent(answer['break_even'])}."
        )
    if answer["on_demand"] is not None and answer["on_demand"]["cost"] > 0:
        whole = answer["on_demand"]["cost"]
        text = f"All on demand: {money(whole)}"
        if "gang_wait" in answer["on_demand"]:
            with_wait = money(answer["on_demand"]["with_gang_wait"])
            text += f", {with_wait} with what the gang costs while it assembles"
        found.append(f"{text}; the window saves {percent(1 - best['cost'] / whole)}.")
    return found


def _composites(answer: Mapping[str, Any]) -> list[str]:
    if answer["composites"]:
        one = answer["composites"][0]
        return [
            f"A block of {one['block_days']:g} days and an extension of {one['extension_days']:g} "
            f"bought at once "
            f"would cost {money(one['cost'])}: better only where the extension is offered with a "
            f"chance above "
            f"{percent(one['p_needed'])} (without it: {money(one['cost_without'])})."
        ]
    provider = answer.get("provider")
    if provider and provider["facts"].get("extend", {}).get("value", {}).get("possible"):
        return ["No block with an extension bought at once is cheaper, however surely it is offered."]
    return []


def _chained(answer: Mapping[str, Any]) -> list[str]:
    chain = answer["chained"]
    if chain is None:
        return []
    return [
        f"In short windows ({chain['product']}, {chain['hop_days']:g} days each): "
        f"{chain['hops']:.1f} of them, "
        f"{days(chain['elapsed_days'], 1)} days from start to end, {money(chain['cost'])}."
    ]


def _saves(answer: Mapping[str, Any]) -> list[str]:
    if "checkpoint" not in answer:
        return []
    told = answer["checkpoint"]
    return [
        f"Saves every {significant(told['every_h'])} h of work; every "
        f"{significant(told['best_every_h'])} h would "
        f"shorten the mean run by {significant(24 * told['saved_days'])} h."
    ]


def _goodput(answer: Mapping[str, Any]) -> list[str]:
    if "goodput" not in answer:
        return []
    told = answer["goodput"]
    return [
        f"Tokens per paid GPU-hour: {money(told['ideal'])} at full speed, {money(told['run'])} over the mean "
        f"run, {money(told['window'])} where it ends within the window."
    ]


def _tornado(answer: Mapping[str, Any]) -> Table:
    table = simple_table("What would change it: cost of this window, and the best one then", "assumption", [])
    for name in ("moved to", "cost", "best then"):
        table.add_column(name, justify="right", no_wrap=True)
    for pair in answer["tornado"]:
        for row, moved in enumerate(pair):
            best = "never ends" if not moved["ends"] else f"{significant(moved['days'])} d"
            change = None if not moved["ends"] else moved["kept_cost"] - answer["best"]["cost"]
            cost = NOTHING if change is None else f"{change:+,.0f}"
            table.add_row(moved["name"] if row == 0 else "", moved["words"], cost, best)
    return table


def _warnings(console: Console, warnings: Sequence[str]) -> None:
    console.print()
    for text in warnings:
        mode, _, rest = text.partition(": ")
        line = Text()
        line.append(f"{mode}: ", style="yellow")
        line.append(rest)
        console.print(line)
    if warnings:
        console.print()


def gang(console: Console, answer: Mapping[str, Any]) -> None:
    """Chances, rounds, waiting and its bill."""
    console.width = min(console.width, WIDTH)
    console.print()
    console.print(Text(f"A gang of {answer['nodes']:,} nodes", style="bold"))
    table = simple_table("", "", [""])
    attempts = answer["attempts_all_or_nothing"]
    never = "never" if absent(attempts) or attempts > 1e9 else significant(attempts)
    assembly = answer["assembly_h"]
    rows = [
        ("all at once, in one attempt", percent(answer["p_all_at_once"])),
        ("attempts, all or nothing, mean", never),
        ("rounds, keep and retry, mean", significant(answer["rounds_keep"])),
        ("until the last node: mean", duration(assembly["mean"] * 3600)),
        *((f"  {p}", duration(assembly[p] * 3600)) for p in ("p50", "p90", "p99")),
        ("held while waiting, node-days a node", days(answer["held_node_days_per_node"], 3)),
        ("its bill", money(answer["held_cost"])),
    ]
    for row in rows:
        table.add_row(*row)
    put(console, table)
    _warnings(console, answer["warnings"])


def place(console: Console, answer: Mapping[str, Any]) -> None:
    """Every kind of work with its place, and the base load."""
    console.width = min(console.width, WIDTH)
    table = simple_table("Where it runs", "work", [])
    table.add_column("on", no_wrap=True)
    table.add_column("a month", justify="right", no_wrap=True)
    table.add_column("why", overflow="fold")
    for row in answer["placements"]:
        table.add_row(row["name"], row["on"] or "nowhere", money(row["cost"]), row["why"])
    put(console, table)
    console.print()
    base = answer["base_load"]
    text = f"All of it: {money(answer['cost'])} a month."
    if base["break_even_utilisation"] is not None:
        text += (
            f" Reserving pays from {percent(base['break_even_utilisation'])} of use on: "
            f"{base['reserve']:,} GPUs"
            f" are busy that much ({base['gpus']:,} are called base load)."
        )
    console.print(text)
    _warnings(console, answer["warnings"])


def forecast(console: Console, answer: Mapping[str, Any]) -> None:
    """What is believed now, what is left, and each extension judged."""
    console.width = min(console.width, WIDTH)
    console.print()
    console.print(Text(f"{answer['run']}: {answer['sentence']}", style="bold"))
    now, left = answer["posterior"], answer["duration_days"]
    console.print(
        f"Done: {percent(answer['done'])} of the tokens after {duration(answer['seen']['hours'] * 3600)} and "
        f"{answer['seen']['failures']:g} failures. Believed now: {now['speed']['mean']:,.1f} ± "
        f"{now['speed']['sd']:,.1f} tokens/s per GPU, {now['failures_per_node_day']:.3g} failures "
        f"per node-day."
    )
    if left is None:
        console.print("Nothing is left to do.")
    else:
        console.print(
            f"The whole run takes {days(left['mean'])} ± {days(left['sd'])} days: half by "
            f"{days(left['p50'])}, "
            f"90 % by {days(left['p90'])}, 95 % by {days(left['p95'])}."
        )
    table = simple_table(
        "What is still to be paid", "extension, days", ["fee", "cost", "P(overrun)", "days over"]
    )
    for row in answer["extensions"]:
        chosen = row["days"] == answer["choice"]["days"] and row["fee"] == answer["choice"]["fee"]
        table.add_row(
            "none" if row["days"] == 0 else f"{row['days']:g}",
            money(row["fee"]),
            money(row["cost"]),
            percent(row["p_overrun"]),
            days(row["expected_overrun_days"], 4),
            style="bold" if chosen else "",
        )
    put(console, table)
    _warnings(console, answer["warnings"])
