"""Tables of `tenure plan spares`, `goodput` and `power`: the answer first, figures with conventions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tenure.cli.figures import NOTHING, count, duration, percent, significant
from tenure.cli.tables import put, simple_table

MOST_LEMONS = 20
AROUND = 3  #: rows of the spare table on each side of what an answer names
Answer = Mapping[str, Any]


def spares(console: Console, answer: Answer) -> None:
    """What to buy, and why so many."""
    racks, gpus = answer["racks"], answer["gpus"]
    console.print()
    console.print(
        Text(
            f"Buy {count(racks['total'])} racks, {count(gpus['bought'])} GPUs, for a job of "
            f"{count(gpus['job'])}: {count(racks['active'])} run it, {count(racks['spare'])} are spare",
            style="bold",
        )
    )
    console.print(
        f"{count(gpus['difference'])} GPUs more than the job: {_fine(gpus['of_bought'])} of what is bought, "
        f"{_fine(gpus['of_job'])} of the job."
    )
    if answer["cost"]:
        cost = answer["cost"]
        console.print(
            f"It costs {count(cost['bought'])}, {count(cost['difference'])} of it for what the job does not "
            f"use, {count(cost['spare_racks'])} for spare racks."
        )
    table = simple_table("Two questions, two counts", "", ["spare racks", "chance", "asked for"])
    wanted = _fine(answer["confidence"])
    table.add_row("at an instant (availability)", count(racks["spare"]), _fine(answer["p_ok"]), wanted)
    mission = answer["mission"]
    if mission:
        what = f"no shortage in {duration(mission['mission_s'])} (mission)"
        table.add_row(what, count(mission["spare"]), _fine(mission["p_no_shortage"]), wanted)
    optimum = answer["optimum"]
    table.add_row("most work per rack", count(optimum["spare"]), _fine(optimum["productive_share"]), "")
    table.caption = f"A rack is of no use {_fine(answer['rack_unavailability'])} of the time."
    put(console, table)
    put(console, _spare_table(answer))
    put(console, _alternatives(answer))
    if answer["over_q"]:
        over = simple_table("Over what is known of rack failures", "quantile", ["q", "spare racks"])
        for row in answer["over_q"]:
            spare = "no number" if row["spare"] is None else count(row["spare"])
            over.add_row(percent(row["quantile"]), _fine(row["rack_unavailability"]), spare)
        put(console, over)
    if answer["played"]:
        played = simple_table(
            f"Played, {count(answer['played'][0]['draws'])} missions",
            "spare",
            ["enough at an instant", "formula", "no shortage", "formula", "exact"],
        )
        for row in answer["played"]:
            keys = ("p_ok", "p_ok_formula", "p_no_shortage", "p_no_shortage_formula")
            exact = row["p_no_shortage_exact"]
            cells = [_fine(row[key]) for key in keys]
            played.add_row(count(row["spare"]), *cells, "–" if exact is None else _fine(exact))
        put(console, played)
    if answer["waits_for_parts"]:
        waits = simple_table("Waiting for parts", "", ["adds to a repair", "down", "without"])
        for what, row in answer["waits_for_parts"].items():
            downs = (_fine(row["unavailability"]), _fine(row["unavailability_without"]))
            waits.add_row(what, duration(row["wait_s"]), *downs)
        put(console, waits)
    console.print(
        f"{count(answer['idle_spares']['gpus'])} GPUs of spare racks are idle on average: interruptible work "
        "may use them (--scenario FILE plays it)."
    )
    if answer["bought_covers"]:
        put(console, _covers(answer["bought_covers"]))
    end_of_answer(console, answer)


def _spare_table(answer: Answer) -> Table:
    table = simple_table("Spare racks", "spare", ["chance of enough", "productive share"])
    named = {answer["racks"]["spare"], answer["optimum"]["spare"]}
    if answer["mission"]:
        named.add(answer["mission"]["spare"])
    rows = answer["table"]
    places = [place for place, row in enumerate(rows) if row["spare"] in named]
    first, last = min(places, default=0) - AROUND, max(places, default=0) + AROUND
    for row in rows[max(0, first) : last + 1]:
        style = "bold" if row["spare"] == answer["racks"]["spare"] else ""
        cells = (count(row["spare"]), _fine(row["p_ok"]), _fine(row["productive_share"]))
        table.add_row(*cells, style=style)
    return table


def _alternatives(answer: Answer) -> Table:
    columns = ["used", "q", "active", "spare", "GPUs bought", "more than the job"]
    priced = any(row["cost"] is not None for row in answer["alternatives"])
    table = simple_table("The same job, held per rack", "held", columns + (["cost"] if priced else []))
    for row in answer["alternatives"]:
        cells = [
            count(row["held"]),
            count(row["per_rack"]),
            _fine(row["rack_unavailability"]),
            count(row["active"]),
            count(row["spare"]),
            count(row["bought"]),
            percent(row["of_bought"]),
        ]
        table.add_row(*cells, *([count(row["cost"])] if priced else []))
    return table


def _covers(covers: Answer) -> Table:
    title = f"{count(covers['racks'])} racks bought, {count(covers['spare'])} of them spare, cover"
    table = simple_table(title, "confidence", ["a rack down at most"])
    for row in covers["at"]:
        table.add_row(_fine(row["confidence"]), _fine(row["rack_unavailability"]))
    return table


def goodput(console: Console, answer: Answer) -> None:
    """What part of its time the job works."""
    leading = answer["convention"]
    console.print()
    console.print(
        Text(f"The job works {_fine(answer['goodput'])} of its time ({leading})", style="bold"),
    )
    console.print(
        f"It is stopped every {duration(answer['mtbf_s'])}, {significant(answer['failures_per_day'])} times "
        f"a day; saving every {duration(answer['every_s'])} of work, a stop costs "
        f"{duration(answer['lost_with_failure_s'])} on average."
    )
    table = simple_table("By convention", "", ["works", "what it counts"])
    table.columns[-1].justify, table.columns[-1].no_wrap = "left", False
    for name, value in answer["ettr"].items():
        said = answer["conventions"][f"ettr.{name}"]
        table.add_row(name, _fine(value), said, style="bold" if name == leading else "")
    put(console, table)
    intervals = simple_table("Work between two saves", "formula", ["interval"])
    for name, value in answer["interval_s"].items():
        intervals.add_row(name, duration(value))
    put(console, intervals)
    time = simple_table("Where the time goes (exact)", "", ["part"])
    for name, value in answer["time"].items():
        time.add_row(name, _fine(value))
    put(console, time)
    put(console, _backwards(answer["inverse"]))
    if answer["log"]:
        for shown in log_tables(answer["log"], "The log"):
            put(console, shown)
    if answer["reinforcement"]:
        put(console, _reinforcement(answer["reinforcement"]))
    if answer["played"]:
        put(console, _played_nodes(answer["played"]))
    if answer["runs"]:
        put(console, _runs(answer["runs"]))
    if answer["groups"]:
        put(console, _groups(answer))
        put(console, _map(answer["groups_against_synchronous"]["map"]))
        put(console, _field(answer["groups_against_synchronous"]["maps"]["mtbf_s"]))
    end_of_answer(console, answer)


def _reinforcement(told: Answer) -> Table:
    table = simple_table(f"Reinforcement learning, {told['mode']}", "", ["of a step", "works"])
    table.add_row("rollouts", _fine(told["part"]), _fine(told["rollout"]))
    table.add_row("training", _fine(1 - told["part"]), _fine(told["training"]))
    table.add_row("steps done", "", _fine(told["goodput"]), style="bold")
    return table


def _played_nodes(told: Answer) -> Table:
    title = f"Played node by node, {count(told['draws'])} draws of {duration(told['lasts_s'])}"
    table = simple_table(title, "", ["all the file says", "as formulas have it"])
    for name in ("productive", "saving", "rework", "recovery", "short"):
        table.add_row(name, _fine(told[name]), _fine(told["plain"][name]))
    table.add_row("stops a day", *(significant(one["stops_per_day"]) for one in (told, told["plain"])))
    table.add_row("nodes down", significant(told["down"]), "")
    table.add_row("… with no crew", significant(told["queued"]), "")
    table.caption = f"Works ± {_fine(told['error'])}; the exact formula says {_fine(told['formula'])}."
    return table


def _runs(runs: Mapping[str, Answer]) -> Table:
    table = simple_table("Separate runs", "run", ["kind", "stops a day", "saves every", "works"])
    for name, run in runs.items():
        cells = (run["kind"], significant(run["failures_per_day"]), duration(run["every_s"]))
        table.add_row(name, *cells, _fine(run["goodput"]))
    return table


def _backwards(inverse: Answer) -> Table:
    table = simple_table(f"What alone would give {_fine(inverse['target'])}", "", ["value"])
    table.add_row("a save blocks at most", _or_none(inverse["blocking_s"]))
    table.add_row("recovery takes at most", _or_none(inverse["recovery_s"]))
    table.add_row("a stop at most every", _or_none(inverse["mtbf_s"]))
    if inverse["per_1000_node_days"] is not None:
        table.add_row("failures per 1,000 node-days", significant(inverse["per_1000_node_days"]))
    return table


def _or_none(seconds: float | None) -> str:
    return "cannot" if seconds is None else duration(seconds)


def _groups(answer: Answer) -> Table:
    against = answer["groups_against_synchronous"]
    title = "Groups that recover apart, saves left out"
    table = simple_table(title, "convention", ["whole job stops", "groups"])
    for name, value in answer["groups"].items():
        table.add_row(name, _fine(against["synchronous"][name]), _fine(value))
    losses = against["loss_s"]
    table.add_row("lost with a failure", duration(losses["synchronous"]), duration(losses["groups"]))
    pays = against["pays_below_stall_s"]
    table.caption = (
        "Groups never pay here." if pays is None else f"Groups pay with stalls below {duration(pays)}."
    )
    return table


def _map(rows: Sequence[Answer]) -> Table:
    table = simple_table("Where groups win", "groups", ["with stalls below", "works (wall)"])
    for row in rows:
        below = row["pays_below_stall_s"]
        table.add_row(count(row["count"]), duration(below) if below > 0 else "never", _fine(row["wall"]))
    return table


def _field(told: Answer) -> Table:
    """Percentage points that groups add: groups across, time between failures down."""
    title = "What groups add, percentage points, by time between failures and groups"
    table = simple_table(title, "failure every", [f"{count:g}" for count in told["counts"]])
    for value, gains in zip(told["values"], told["gain"], strict=True):
        cells = (Text(f"{100 * gain:+.1f}", style="green" if gain > 0 else "red") for gain in gains)
        table.add_row(duration(value), *cells)
    return table


def _limits(answer: Answer, best: Answer) -> Table:
    reference = significant(answer["reference_w"])
    table = simple_table(
        f"Limits, relative to {reference} W",
        "limit, W",
        ["accelerators", "each does", "all do", "site W each", "MWh a year"]
        + (["cost a year"] if "energy_cost_a_year" in best else []),
    )
    for row in sorted(
        (*(row for row in answer["at"] if row["cap_w"] != best["cap_w"]), best),
        key=lambda row: float(row["cap_w"]),
    ):
        table.add_row(
            significant(row["cap_w"]),
            count(row["gpus"]),
            _times(row["per_gpu"]),
            _times(row["cluster"]),
            count(row["all_in_w"]),
            count(row["mwh_a_year"]),
            *([count(row["energy_cost_a_year"])] if "energy_cost_a_year" in row else []),
            style="bold" if row is best else "",
        )
    return table


def power(console: Console, answer: Answer) -> None:
    """The limit, and what others would give."""
    best = answer["optimum"]
    console.print()
    console.print(
        Text(
            f"{count(best['gpus'])} accelerators at {significant(best['cap_w'])} W do the most", style="bold"
        )
    )
    put(console, _limits(answer, best))
    console.print()
    for row, capital in zip(answer["at"], answer["capital_for_at_w"], strict=True):
        if capital is not None and capital >= 1.0:
            console.print(
                f"{significant(row['cap_w'])} W would be best with a capital_w of {count(capital)}."
            )
    if answer["drawn_axis"]:
        drawn = answer["drawn_axis"]["optimum"]
        console.print(
            f"Over watts really drawn: {significant(drawn['cap_w'])} W, all do {_times(drawn['cluster'])}."
        )
    if answer["idle"]:
        console.print(
            f"Held accelerators that idle let the limit rise × {answer['idle']['limit_factor']:.3f}."
        )
    if answer["split_w"]:
        split = simple_table("Site watts of one accelerator at the best limit", "", ["W"])
        for name, watts in answer["split_w"].items():
            split.add_row(name, f"{watts:,.1f}")
        put(console, split)
    if answer["seasons"]:
        seasons = simple_table("Seasons", "", ["accelerators", "limit of the fleet, W", "each does"])
        for row in answer["seasons"]:
            does = NOTHING if row["per_gpu"] is None else _times(row["per_gpu"])
            seasons.add_row(row["name"], count(row["gpus"]), significant(row["cap_w"]), does)
        put(console, seasons)
    if answer["breakers"]:
        breakers = simple_table(
            "Breakers, the tightest first", "", ["GPUs", "allows, W", "with all above it", "passed by"]
        )
        for row in answer["breakers"]:
            limits = (significant(row["cap_w"]), significant(row["path_cap_w"]))
            breakers.add_row(row["name"], count(row["gpus"]), *limits, _fine(row["over"]))
        put(console, breakers)
    if answer["regret"]:
        regret = answer["regret"]
        console.print(
            f"Under every curve: {significant(regret['cap_w'])} W leaves at most "
            f"{_fine(regret['worst'])} undone."
        )
    if answer["stragglers"]:
        speed = percent(answer["stragglers"]["speed"])
        console.print(f"The slowest of {count(answer['stragglers']['gpus'])} holds a job to {speed}.")
    if answer["stranded"] is not None:
        console.print(f"Planning by the rated limit strands {percent(answer['stranded'])} of the supply.")
    end_of_answer(console, answer)


def published(console: Console, rows: Sequence[Answer]) -> None:
    """One row a published number."""
    table = simple_table("Published numbers, worked out anew", "", ["published", "ours", "error", "", "how"])
    table.columns[0].no_wrap = False
    for column in table.columns[-2:]:
        column.justify = "left"
    table.columns[-1].no_wrap = False
    for row in rows:
        numbers = [
            f"{row[key]:,.4g}" if row[key] < 10_000 else count(row[key]) for key in ("published", "ours")
        ]
        unit = f" {row['unit']}" if row["unit"] else ""
        cells = (numbers[0] + unit, numbers[1] + unit, f"{row['error']:+.1%}", row["verdict"])
        table.add_row(f"{row['what']} ({row['source']})", *cells, row["how"])
    put(console, table)


def log_tables(log: Answer, name: str) -> list[Table]:
    """Causes with their rates, and nodes that fail more than chance lets them."""
    whole = f"{log['rate']:.3g} ({log['low']:.3g} to {log['high']:.3g}) failures per 1,000 node-days"
    causes = simple_table(f"{name}: {whole}", "cause", ["events", "share", "rate", "95 % from", "to"])
    for row in log["causes"]:
        bounds = (f"{row[key]:.3g}" for key in ("rate", "low", "high"))
        causes.add_row(row["cause"], count(row["events"]), percent(row["share"]), *bounds)
    lemons = log["lemons"]
    if not lemons or not lemons["nodes"]:
        return [causes]
    title = (
        f"Lemon nodes: {percent(lemons['of_nodes'])} of nodes, {percent(lemons['of_events'])} of failures; "
        f"without them the rate is × {lemons['rate_without']:.2f}"
    )
    table = simple_table(title, "node", ["failures", "usual"])
    for row in lemons["nodes"][:MOST_LEMONS]:
        table.add_row(row["node"], count(row["events"]), significant(row["expected"]))
    return [causes, table]


def _times(value: float) -> str:
    return f"{value:.4f}"


def _fine(part: float | None) -> str:
    """A part, with the digits that tell it from nothing and from all: `99.945 %`, `0.778 %`."""
    if part is None:
        return NOTHING
    value = 100 * part
    if value < 1e-7 or value >= 100:
        return f"{value:.0f} %"
    missing, digits = 100 - value, 2
    while digits < 6 and min(missing, value) < 10 ** (1 - digits) * 2:
        digits += 1
    if value > 99:  # never rounded up to all
        value = math.floor(value * 10**digits) / 10**digits
    return f"{value:.{digits}f} %"


def end_of_answer(console: Console, answer: Answer) -> None:
    """What to mind, and what each figure means."""
    if answer["warnings"]:
        console.print()
        for warning in answer["warnings"]:
            console.print(Text(f"! {warning}", style="yellow"))
    console.print()
    for name, meaning in answer["conventions"].items():
        console.print(Text(f"{name}: {meaning}", style="dim"))
