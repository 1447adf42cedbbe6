"""One page about one plan: what to buy, what it may cost, what would change it, what goes wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tenure.report.frames import percent
from tenure.report.page import write_page
from tenure.report.plan_figures import (
    assembly_frame,
    base_frame,
    cost_frame,
    length_frame,
    overrun_frame,
    regret_frame,
    tornado,
)
from tenure.report.plan_parts import Part, Tile
from tenure.report.sheets import Cell, Column, Row, Sheet, share, word


def money(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def _write(file: Path, title: str, subtitle: str, tiles: Sequence[Tile], parts: Sequence[Part]) -> None:
    write_page(
        file,
        "plan.html",
        title=title,
        subtitle=subtitle,
        sections=[(part.id, part.title) for part in parts],
        tiles=tiles,
        parts_=parts,
    )


def write_window_page(answer: Mapping[str, Any], curves: Mapping[str, Any], file: Path) -> None:
    """The page of `plan window`. `curves`: as `planner.curves` makes them."""
    length, best = answer["duration_days"], answer["best"]
    saved = answer["on_demand"]
    more = f"p90 {money(best['cost_p90'])}, p95 {money(best['cost_p95'])}"
    tiles = [
        Tile("buy", f"{best['days']:.4g} days", str(best.get("id", ""))),
        Tile("expected cost", money(best["cost"]), more),
        Tile(
            "chance of an overrun",
            percent(best["p_overrun"]),
            f"{best['expected_overrun_days']:.3f} days over",
        ),
        Tile(
            "the run takes", f"{length['mean']:.1f} ± {length['sd']:.1f} d", f"95 % by {length['p95']:.1f} d"
        ),
    ]
    if "p_over_budget" in best:
        tiles.append(Tile("budget passed", percent(best["p_over_budget"]), f"of {money(best['budget'])}"))
    if saved is not None and saved["cost"] > 0:
        part = percent(1 - best["cost"] / saved["cost"])
        tiles.append(Tile("all on demand", money(saved["cost"]), f"the window saves {part}"))
    regret = regret_frame(answer)
    frames = [
        cost_frame(answer, curves),
        length_frame(curves["length"], curves["net_days"], length),
        overrun_frame(answer, curves),
        *([regret] if regret is not None else []),
    ]
    parts = [
        Part("choice-h", "The choice", frames=frames),
        Part("windows-h", "Windows", sheets=[_windows(answer)], about=_besides(answer)),
        Part(
            "tornado-h",
            "What would change it",
            about=["Cost of this window with each assumption moved on its own, and the best window then."],
            blades=tornado(answer),
        ),
        Part("assumed-h", "What is assumed", facts=_assumed(answer)),
        _warned(answer),
        Part("next-h", "Next", steps=answer["next_steps"]),
        _conventions(answer),
    ]
    _write(
        file,
        f"{answer['run']}: which window to buy",
        f"method {answer['method']}, checked by {answer['draws']['n']:,} draws",
        tiles,
        parts,
    )


def _warned(answer: Mapping[str, Any]) -> Part:
    pairs = [text.partition(": ")[::2] for text in answer["warnings"]]
    return Part("warned-h", "What goes wrong with such plans", warnings=pairs)


def _conventions(answer: Mapping[str, Any]) -> Part:
    return Part("read-h", "How to read it", facts=list(answer["conventions"].items()))


def _windows(answer: Mapping[str, Any]) -> Sheet:
    named = any("id" in row for row in answer["windows"])
    columns = [Column("offer", text=True)] if named else []
    columns += [
        Column("days", "length bought and paid"),
        Column("cost", "expected, all in"),
        Column("P(overrun)"),
        Column("days over", "expected"),
        Column("regret", "over the best length of all"),
    ]
    sheet = Sheet("windows", "Windows", columns)
    for row in answer["windows"]:
        chosen = row["days"] == answer["best"]["days"] and row["cost"] == answer["best"]["cost"]
        cells = [word(str(row.get("id", "")))] if named else []
        cells += [
            Cell(f"{row['days']:.4g}", row["days"]),
            Cell(money(row["cost"]), row["cost"]),
            share(row["p_overrun"]),
            Cell(f"{row['expected_overrun_days']:.3f}", row["expected_overrun_days"]),
            Cell(money(row.get("regret")), row.get("regret", "")),
        ]
        sheet.rows.append(Row(cells, inner=chosen))
    return sheet


def _besides(answer: Mapping[str, Any]) -> list[str]:
    told = []
    if answer["composites"]:
        one = answer["composites"][0]
        told.append(
            f"A block of {one['block_days']:g} days and an extension of {one['extension_days']:g} "
            f"bought at once: "
            f"{money(one['cost'])}, better where the extension is offered with a chance above "
            f"{percent(one['p_needed'])}."
        )
    chain = answer["chained"]
    if chain is not None:
        told.append(
            f"In short windows ({chain['product']}): {chain['hops']:.1f} of {chain['hop_days']:g} days, "
            f"{chain['elapsed_days']:.1f} days from start to end, {money(chain['cost'])}."
        )
    return told


def _assumed(answer: Mapping[str, Any]) -> list[tuple[str, str]]:
    told: list[tuple[str, str]] = []
    if "throughput" in answer:
        speed, failures = answer["throughput"], answer["failures"]
        told.append(("speed", f"{speed['mean']:,.0f} ± {speed['sd']:,.0f} tokens/s per GPU"))
        told.append(
            (
                "failures",
                f"{failures['per_node_day']:.3g} per node-day, {failures['expected']:.1f} expected, "
                f"{failures['hours_each']:.2g} h each; {failures['model']}, λL = {failures['bred']:.3f}",
            )
        )
    prices = answer["prices"]
    told.append(("a reserved day", money(prices["reserved_per_day"])))
    for state in answer["market"]:
        text = f"{money(state['overrun_per_day'])} a day past the window, {money(state['move'])} once"
        if state["p_extension"]:
            text += f"; extension of {state['extension_days']:g} d for {money(state['extension_fee'])} with "
            text += percent(state["p_extension"])
        alone = len(answer["market"]) == 1
        told.append(("after it" if alone else f"market, with {percent(state['p'])}", text))
    lead = answer["lead_s"]
    told.append(("not usable", ", ".join(f"{name} {value / 3600:.2g} h" for name, value in lead.items())))
    if "goodput" in answer:
        goodput = answer["goodput"]
        told.append(
            (
                "tokens per paid GPU-hour",
                f"{money(goodput['ideal'])} at full speed, {money(goodput['run'])} over the mean run, "
                f"{money(goodput['window'])} where it ends within the window",
            )
        )
    drawn = answer["draws"]
    told.append(
        (
            f"checked by {drawn['n']:,} draws",
            f"mean {drawn['mean']:.3f} ± {drawn['mean_error']:.3f} d, chance of an overrun "
            f"{percent(drawn['p_overrun'])} ± {100 * drawn['p_overrun_error']:.1f}",
        )
    )
    if "provider" in answer:
        fact = answer["provider"]["facts"]["durations"]
        told.append(
            (f"sold by {answer['provider']['name']}", f"{fact['note']} ({fact['source']}, {fact['date']})")
        )
    return told


def write_gang_page(answer: Mapping[str, Any], curve: Mapping[str, Any], file: Path) -> None:
    """The page of `plan gang`."""
    assembly = answer["assembly_h"]
    attempts = answer["attempts_all_or_nothing"]
    tiles = [
        Tile("there after", f"{assembly['mean']:.3g} h", f"mean; p90 {assembly['p90']:.3g} h"),
        Tile("bill while waiting", money(answer["held_cost"]), "all nodes until the last one is there"),
        Tile("all at once", percent(answer["p_all_at_once"]), "in one attempt"),
        Tile("attempts, all or nothing", "never" if attempts > 1e9 else f"{attempts:,.3g}", "mean"),
        Tile("rounds, keep and retry", f"{answer['rounds_keep']:.3g}", "mean, the first counts 1"),
        Tile("held", f"{answer['held_node_days_per_node']:.3g}", "node-days a node"),
    ]
    parts = [
        Part("there-h", "When it is there", frames=[assembly_frame(curve, assembly)]),
        _warned(answer),
        _conventions(answer),
    ]
    _write(file, f"A gang of {answer['nodes']:,} nodes", f"method {answer['method']}", tiles, parts)


def write_place_page(answer: Mapping[str, Any], file: Path) -> None:
    """The page of `plan place`."""
    base = answer["base_load"]
    even = base["break_even_utilisation"]
    tiles = [Tile("a month", money(answer["cost"]), "all placements")]
    if even is not None:
        tiles.append(Tile("reserving pays from", percent(even), "of the month busy"))
        tiles.append(Tile("worth reserving", f"{base['reserve']:,} GPUs", f"{base['gpus']:,} are base load"))
    columns = [Column(name, text=name != "a month") for name in ("work", "on", "a month", "why", "else")]
    sheet = Sheet("placements", "Placements", columns)
    for row in answer["placements"]:
        others = "; ".join(
            f"{one['on']}: {money(one['cost']) if one['cost'] is not None else one['why']}"
            for one in row["alternatives"]
        )
        sheet.rows.append(
            Row(
                [
                    word(row["name"]),
                    word(row["on"] or "nowhere"),
                    Cell(money(row["cost"]), "" if row["cost"] is None else row["cost"]),
                    Cell(row["why"], look="wrap"),
                    Cell(others, look="wrap"),
                ]
            )
        )
    frames = [base_frame(base["layers"], even)] if base.get("layers") else []
    parts = [
        Part("place-h", "Where it runs", sheets=[sheet]),
        *([Part("base-h", "Base load", frames=frames)] if frames else []),
        _warned(answer),
        _conventions(answer),
    ]
    _write(file, "Where work should run", "by tolerance of interruptions and shape of demand", tiles, parts)


def write_forecast_page(answer: Mapping[str, Any], curves: Mapping[str, Any], file: Path) -> None:
    """The page of `run forecast`."""
    length, now, choice = answer["duration_days"], answer["posterior"], answer["choice"]
    tiles = [
        Tile(
            "extend by", "nothing" if choice["days"] == 0 else f"{choice['days']:g} d", money(choice["fee"])
        ),
        Tile("still to be paid", money(choice["cost"]), "expected, with it"),
        Tile("chance of an overrun", percent(answer["p_overrun"]), "without an extension"),
        Tile("done", percent(answer["done"]), f"after {answer['seen']['hours']:g} h"),
        Tile(
            "speed now believed",
            f"{now['speed']['mean']:,.0f}",
            f"± {now['speed']['sd']:,.1f} tokens/s per GPU",
        ),
    ]
    columns = [Column(name) for name in ("extension, days", "fee", "cost", "P(overrun)", "days over")]
    sheet = Sheet("extensions", "Extensions", columns)
    for row in answer["extensions"]:
        cells = [
            Cell(f"{row['days']:.4g}", row["days"]),
            Cell(money(row["fee"]), row["fee"]),
            Cell(money(row["cost"]), row["cost"]),
            share(row["p_overrun"]),
            Cell(f"{row['expected_overrun_days']:.4f}", row["expected_overrun_days"]),
        ]
        sheet.rows.append(Row(cells, inner=row["days"] == choice["days"] and row["fee"] == choice["fee"]))
    frames = []
    if length is not None:
        frames.append(length_frame(curves["length"], curves["net_days"], length))
    parts = [
        *([Part("length-h", "What is left", frames=frames)] if frames else []),
        Part("extend-h", "Extend, or not", sheets=[sheet]),
        *([_warned(answer)] if answer["warnings"] else []),
        _conventions(answer),
    ]
    _write(file, f"{answer['run']}: forecast again", answer["sentence"], tiles, parts)
