"""One page about many runs: policies side by side, or the knobs of a sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tenure.report.colours import ACCOUNT_COLOURS, path_colours
from tenure.report.frames import percent, seconds
from tenure.report.headline import PUBLISHED
from tenure.report.page import write_page
from tenure.report.sheets import Cell, Column, Row, Sheet, duration, figure, share, word
from tenure.report.sweeps import direction, heat_map, knob_frame
from tenure.report.variants import Variant, seeds_of, swept_values, variants_of
from tenure.report.yardsticks import CHARTED, YARDSTICKS, Run, Yardstick, best_of, spread

MOST_SIDE_BY_SIDE = 8  #: variants that still fit beside each other
MOST_ACCOUNTS = 60
CLASSES = ("all", "debug", "gang", "session", "unbudgeted", "budgeted")


@dataclass(frozen=True)
class Dot:
    at: float  #: percent of the strip
    about: str
    down: float = 0.0  #: pixels below the line, so that equal values do not hide each other


@dataclass(frozen=True)
class Strip:
    """Values of one variant on a line: a dot a seed, the median as text."""

    who: str
    colour: str
    text: str
    dots: list[Dot]
    left: float = 0.0  #: a bar from here …
    width: float = 0.0  #: … so wide, percent


@dataclass(frozen=True)
class Strips:
    title: str
    note: str
    low: str
    high: str
    rows: list[Strip]


def write_comparison(runs: Sequence[Run], file: Path, *, title: str | None = None) -> None:
    """Write the page about `runs`, each {policy, seed, set, …measures} as `--json` writes them.

    Raises ValueError where there is no run.
    """
    if not runs:
        raise ValueError("no runs: there is nothing to compare")
    variants, swept = variants_of(runs), swept_values(runs)
    beside = variants if len(variants) <= MOST_SIDE_BY_SIDE else []
    seeds = seeds_of(runs)
    shown: dict[str, Any] = {
        "headline": headline_sheet(beside) if beside else None,
        "strips": [strips(y, beside) for y in CHARTED] if beside and not swept else [],
        "knobs": knob_frames(variants, swept),
        "maps": heat_maps(variants, swept),
        "all_runs": runs_sheet(runs, swept),
        "accounts": account_sheets(beside),
        "account_strips": account_strips(beside) if len(beside) > 1 else None,
        "waits": wait_sheet(beside) if beside else None,
        "published": PUBLISHED,
        "n_seeds": len(seeds),
        "variant_key": [{"name": v.name, "colour": colour_of(i)} for i, v in enumerate(beside)],
    }
    sections = [
        ("headline", "Side by side", shown["headline"]),
        ("sweep-h", "Over the knobs", shown["knobs"] or shown["maps"]),
        ("accounts-h", "Accounts", shown["accounts"]),
        ("waits-h", "Waits", shown["waits"]),
        ("runs-h", "All runs", True),
    ]
    policies = list(dict.fromkeys(variant.policy for variant in variants))
    listed = [
        f"policy {', '.join(policies)}",
        f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}",
        f"{len(runs)} runs",
    ]
    if swept:
        listed.insert(
            1,
            "swept: " + ", ".join(f"{k.removeprefix('policy.')} = {', '.join(v)}" for k, v in swept.items()),
        )
    write_page(
        file,
        "comparison.html",
        title=title or ("Sweep" if swept else "Policies side by side"),
        subtitle=" · ".join(listed),
        sections=[(id_, name) for id_, name, there in sections if there],
        **shown,
    )


def colour_of(place: int) -> str:
    return ACCOUNT_COLOURS[place % len(ACCOUNT_COLOURS)]


def headline_sheet(variants: Sequence[Variant]) -> Sheet:
    """A row a yardstick, a column a variant: median, least to greatest; the best in green."""
    columns = [Column("", text=True)]
    columns += [Column(variant.name) for variant in variants]
    columns.append(Column("published", "another load"))
    sheet = Sheet("side-by-side", "Side by side", columns)
    for yardstick in YARDSTICKS:
        spreads = [variant.spread(yardstick) for variant in variants]
        if not any(spreads):
            continue
        best = best_of(yardstick, [found and found[0] for found in spreads])
        cells = [word(yardstick.name, about=yardstick.about)]
        for place, found in enumerate(spreads):
            value = "" if found is None else found[0]
            cells.append(Cell(spread_text(yardstick, found), value, look="better" if place in best else ""))
        sheet.rows.append(Row([*cells, Cell(yardstick.published, "")]))
    return sheet


def spread_text(yardstick: Yardstick, found: tuple[float, float, float] | None) -> str:
    if found is None:
        return "–"
    middle, low, high = map(yardstick.written, found)
    if low == high:
        return middle
    unit = " " + middle.rsplit(" ", 1)[1] if " " in middle else ""
    if unit and low.endswith(unit) and high.endswith(unit):
        low, high = low.removesuffix(unit), high.removesuffix(unit)
    return f"{middle} ({low} … {high})"


def strips(yardstick: Yardstick, variants: Sequence[Variant]) -> Strips:
    """A line a variant, a dot a seed; the axis begins at the least value, not at 0."""
    values = [[yardstick.of(run) for run in variant.runs] for variant in variants]
    known = [value for row in values for value in row if value is not None]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    span = high - low
    rows = []
    for place, (variant, row) in enumerate(zip(variants, values, strict=True)):
        dots = [
            Dot(
                4 + 92 * ((value - low) / span if span else 0.5),
                f"seed {run.get('seed')}: {yardstick.written(value)}",
            )
            for run, value in zip(variant.runs, row, strict=True)
            if value is not None
        ]
        at = sorted(dot.at for dot in dots)
        found = spread(row)
        rows.append(
            Strip(
                variant.name,
                colour_of(place),
                yardstick.written(found[0]) if found else "–",
                dots,
                at[0] if at else 0,
                at[-1] - at[0] if at else 0,
            )
        )
    return Strips(yardstick.name, direction(yardstick), yardstick.written(low), yardstick.written(high), rows)


def knob_frames(
    variants: Sequence[Variant], swept: Mapping[str, Sequence[str]]
) -> list[tuple[str, list[Any]]]:
    """(knob, charts) for one knob, or more than two; the others are then summed up by their median."""
    if len(swept) == 2:
        return []
    found = []
    for knob, values in swept.items():
        frames = [knob_frame(yardstick, variants, knob, values) for yardstick in CHARTED]
        found.append((knob, [frame for frame in frames if frame is not None]))
    return found


def heat_maps(variants: Sequence[Variant], swept: Mapping[str, Sequence[str]]) -> list[Any]:
    if len(swept) != 2:
        return []
    maps = [heat_map(yardstick, variants, list(swept), list(swept.values())) for yardstick in CHARTED]
    return [found for found in maps if found is not None]


def runs_sheet(runs: Sequence[Run], swept: Mapping[str, Sequence[str]]) -> Sheet:
    """Every run, a row each."""
    columns = [Column("policy", text=True), Column("seed")]
    columns += [Column(key.removeprefix("policy."), text=True) for key in swept]
    columns += [Column(y.name, y.about) for y in YARDSTICKS]
    sheet = Sheet("all-runs", "All runs", columns)
    for run in runs:
        cells = [word(variants_of([run])[0].policy), figure(run.get("seed"), 6)]
        cells += [word(str((run.get("set") or {}).get(key, "–"))) for key in swept]
        for yardstick in YARDSTICKS:
            value = yardstick.of(run)
            cells.append(Cell(yardstick.written(value), "" if value is None else value))
        sheet.rows.append(Row(cells))
    return sheet


def account_paths(variants: Sequence[Variant]) -> list[str]:
    """Paths of all runs, in the order of the lab."""
    found: dict[str, None] = {}
    for variant in variants:
        for run in variant.runs:
            found.update(dict.fromkeys(path for path in run["delivered"]["accounts"] if path))
    return list(found)


def of_account(variant: Variant, path: str, key: str) -> float | None:
    rows = [run["delivered"]["accounts"].get(path, {}).get(key) for run in variant.runs]
    found = spread(rows)
    return None if found is None else found[0]


def account_sheets(variants: Sequence[Variant]) -> list[Sheet]:
    """Owed, delivered and their ratio of each account under each variant; with two, what changes."""
    if not variants:
        return []
    paths = account_paths(variants)
    colours, inner = path_colours(paths), {path.rsplit("/", 1)[0] for path in paths if "/" in path}
    columns = [Column("account", text=True)]
    for key in ("owed", "delivered", "ratio", "hour by hour"):
        columns += [Column(f"{key}, {variant.name}") for variant in variants]
    pair = len(variants) == 2
    if pair:
        columns.append(Column("change of ratio, points", f"{variants[1].name} less {variants[0].name}"))
    sheet = Sheet("by-account", "Accounts", columns, caption="GPU-hours in the span; medians over seeds.")
    for path in paths[:MOST_ACCOUNTS]:
        cells = [word(path, colour=colours[path])]
        cells += [figure(of_account(variant, path, "owed_gpu_h")) for variant in variants]
        cells += [figure(of_account(variant, path, "delivered_gpu_h")) for variant in variants]
        ratios = [of_account(variant, path, "ratio") for variant in variants]
        cells += [share(ratio) for ratio in ratios]
        cells += [share(of_account(variant, path, "hourly_ratio")) for variant in variants]
        if pair:
            cells.append(_change(ratios[0], ratios[1]))
        sheet.rows.append(Row(cells, inner=path in inner))
    if len(paths) > MOST_ACCOUNTS:
        sheet.caption += f" {len(paths) - MOST_ACCOUNTS} more accounts are in --json."
    return [sheet]


def _change(before: float | None, after: float | None) -> Cell:
    if before is None or after is None:
        return Cell("–", "")
    points = 100 * (after - before)
    look = "" if abs(points) < 1 else "better" if points > 0 else "worse"
    return Cell(f"{points:+.1f}".replace("-", "−"), points, look=look)


def account_strips(variants: Sequence[Variant]) -> Strips:
    """A line an account, a dot a variant: delivered ÷ owed, lowest first."""
    paths = account_paths(variants)
    inner = {path.rsplit("/", 1)[0] for path in paths if "/" in path}
    ratios = {
        path: [of_account(variant, path, "ratio") for variant in variants]
        for path in paths
        if path not in inner
    }
    known = {path: row for path, row in ratios.items() if any(value is not None for value in row)}
    low = min((value for row in known.values() for value in row if value is not None), default=0.0)
    low = float(np.floor(low * 10) / 10) if low < 1 else 0.9
    shift, middle = min(5.0, 12 / len(variants)), (len(variants) - 1) / 2
    rows = []
    for path in sorted(known, key=lambda p: min(v for v in known[p] if v is not None))[:MOST_ACCOUNTS]:
        dots, at = [], []
        for place, value in enumerate(known[path]):
            if value is not None:
                at.append(2 + 96 * (value - low) / (1 - low))
                dots.append(
                    Dot(at[-1], f"{variants[place].name}: {percent(value)}", shift * (place - middle))
                )
        text = " → ".join(percent(value) for value in known[path]) if len(variants) == 2 else ""
        rows.append(Strip(path, "", text, dots, min(at), max(at) - min(at)))
    return Strips("Delivered ÷ owed by account", "", percent(low, 0), "100 %", rows)


def wait_sheet(variants: Sequence[Variant]) -> Sheet:
    """First waits: a row a class and percentile, a column a variant."""
    columns = [Column("class", text=True), Column("percentile", text=True)]
    sheet = Sheet("waits", "Waits", columns + [Column(variant.name) for variant in variants])
    sheet.caption = "Submission to first start; medians over seeds, the best in green."
    for group in CLASSES:
        for key in ("p50", "p90", "p99"):
            yardstick = Yardstick(group, ("first_wait_s", group, key), seconds, -1)
            medians = [variant.median(yardstick) for variant in variants]
            if not any(value is not None for value in medians):
                continue
            best = best_of(yardstick, medians)
            cells = [word(group), word(key)]
            for place, value in enumerate(medians):
                cell = duration(value)
                cells.append(Cell(cell.text, cell.value, look="better" if place in best else ""))
            sheet.rows.append(Row(cells))
    return sheet
