"""The charts of a plan as frames: cost, the run's length, chance of an overrun, regret, tornado."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tenure.report.frames import SIDE, Frame, Label, Mark, Tick, band, line, nice_step, number, percent, scale

MOST_DOTS = 30


def money(value: float) -> str:
    """Money as an axis tells it: 1.14 M, 38 k."""
    size = abs(value)
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if size >= unit:
            return f"{value / unit:.{4 if letter != 'k' else 3}g} {letter}"
    return f"{value:.3g}"


def axis(low: float, high: float, at_most: int, *, as_money: bool = False, unit: str = "") -> list[Tick]:
    """Ticks at round values between `low` and `high`, neither of which need be round."""
    step = nice_step(high - low, at_most)
    first = np.ceil(low / step - 1e-9) * step + 0.0  # -0 is 0
    values = np.arange(first, high + step * 1e-6, step)
    return [
        Tick(
            100 * float(value - low) / (high - low or 1.0),
            (money(float(value)) if as_money else f"{float(value):.10g}") + unit,
        )
        for value in values
    ]


def cost_frame(answer: Mapping[str, Any], curves: Mapping[str, Any]) -> Frame:
    """Expected cost over the window's length: a curve at the price of a day, offers as dots."""
    days, cost, best = curves["days"], curves["cost"], answer["best"]
    rows = [row for row in answer["windows"] if days[0] - 1e-9 <= row["days"] <= days[-1] + 1e-9]
    rows = sorted(rows, key=lambda row: row["cost"])[:MOST_DOTS]
    told = [row["cost"] for row in rows]
    least = min(told + ([float(cost.min())] if cost is not None else []))
    most = min(max(told + ([float(cost.max())] if cost is not None else [])), 1.35 * least)
    room = 0.12 * (most - least or least or 1.0)
    low, high = least - room, most + room
    left, right = float(days[0]), float(days[-1])
    frame = Frame(
        title="Expected cost over the window's length",
        unit="",
        alt=f"Expected cost over window length; the best offer is {best['days']:.4g} days at "
        f"{best['cost']:,.0f}",
        x_ticks=axis(left, right, 8, unit=" d"),
        y_ticks=axis(low, high, 6, as_money=True),
        note="line: every length at the price of a day; dots: what can be bought",
    )
    if cost is not None:
        keep = cost <= high
        frame.marks.append(
            Mark(line(scale(days[keep], left, right), scale(cost[keep], low, high)), "curve", "var(--accent)")
        )
    for row in rows:
        if row["cost"] > high:
            continue
        at, up = 100 * (row["days"] - left) / (right - left or 1), 100 * (row["cost"] - low) / (high - low)
        frame.labels.append(Label(at, up, "", "dot"))
        if row["days"] == best["days"] and row["cost"] == best["cost"]:
            side = "halo left" if at > 70 else "halo mid" if at > 15 else "halo"
            frame.labels.append(Label(at, max(6, up - 8), f"{row['days']:.4g} d, {money(row['cost'])}", side))
    return frame


def length_frame(
    length: Mapping[str, Any], net_days: float, shown: Mapping[str, float], *, what: str = "window"
) -> Frame:
    """How long the run takes, as an area; what lies past the window's usable end is shaded red."""
    edges, chance = length["edges"], length["chance"]
    top = float(chance.max()) * 1.12 or 1.0
    left, right = float(edges[0]), float(edges[-1])
    if left < net_days < right:
        within = (right - left) * 0.02
    else:
        within = 0.0
        left, right = (
            min(left, net_days - 0.05 * (right - left)),
            max(right, net_days + 0.05 * (right - left)),
        )
    x = scale(edges, left, right)
    y, zero = scale(chance, 0, top), np.zeros(len(chance), np.int64)
    over = float(chance[edges[:-1] >= net_days - within / 100].sum())
    frame = Frame(
        title="How long the run takes",
        unit="",
        alt=f"Distribution of the run's length; {percent(over)} lies past {net_days:.2f} days",
        x_ticks=axis(left, right, 8, unit=" d"),
        y_ticks=[],
        note=f"red: past the end of what is usable of the {what}",
    )
    frame.marks.append(Mark(band(x, zero, y), "area", "var(--unbudgeted)"))
    late = int(np.searchsorted(edges, net_days))
    if late < len(chance):
        frame.marks.append(Mark(band(x[late:], zero[late:], y[late:]), "area", "var(--red)"))
    frame.marks.append(Mark(_upright(net_days, left, right), "owed"))
    at = 100 * (net_days - left) / (right - left)
    frame.labels.append(Label(at, 94, f"{what} {net_days:.2f} d", "halo left" if at > 60 else "halo"))
    for name, up in (("p50", 6), ("p90", 6), ("p95", 15)):
        if left <= shown[name] <= right:
            place = 100 * (shown[name] - left) / (right - left)
            frame.labels.append(Label(place, up, f"{name} {shown[name]:.1f}", "halo mid"))
    return frame


def _upright(value: float, low: float, high: float) -> str:
    at = int(scale([value], low, high)[0])
    return f"M{at} 0V{SIDE}"


def overrun_frame(answer: Mapping[str, Any], curves: Mapping[str, Any]) -> Frame:
    """The chance that a window of a length is overrun; the break-even chance as a dashed line."""
    days, best, even = curves["days"], answer["best"], answer["break_even"]
    left, right = float(days[0]), float(days[-1])
    frame = Frame(
        title="Chance of an overrun over the window's length",
        unit="",
        alt=f"Chance of an overrun; {percent(best['p_overrun'])} at {best['days']:.4g} days",
        x_ticks=axis(left, right, 8, unit=" d"),
        y_ticks=[Tick(part, f"{part} %") for part in (0, 25, 50, 75, 100)],
    )
    frame.marks.append(
        Mark(line(scale(days, left, right), scale(curves["p_overrun"], 0, 1)), "curve", "var(--accent)")
    )
    if even is not None and 0 <= even <= 1:
        frame.marks.append(Mark(f"M0 {SIDE - round(SIDE * even)}H{SIDE}", "entitled"))
        frame.note = f"dashed: {percent(even)}, where a reserved day is worth its price"
    at, up = 100 * (best["days"] - left) / (right - left or 1), 100 * best["p_overrun"]
    frame.labels.append(Label(at, up, "", "dot"))
    frame.labels.append(Label(at + 2, up, percent(best["p_overrun"]), "halo" if at < 80 else "halo left"))
    return frame


def regret_frame(answer: Mapping[str, Any]) -> Frame | None:
    """What each window costs over the best length of all; None where not known, or fees are below."""
    rows = [row for row in answer["windows"] if row.get("regret") is not None]
    rows = sorted(sorted(rows, key=lambda row: row["regret"])[:12], key=lambda row: row["days"])
    if not rows or answer["continuous"] is None or answer["best"]["regret"] < 0:
        return None
    top = max(row["regret"] for row in rows) * 1.2 or 1.0
    width = 100 / len(rows)
    frame = Frame(
        title="What each window costs over the best length of all",
        unit="",
        alt="Regret by window: " + ", ".join(f"{row['days']:.4g} d {row['regret']:,.0f}" for row in rows),
        x_ticks=[Tick(width * (i + 0.5), f"{row['days']:.4g} d") for i, row in enumerate(rows)],
        y_ticks=axis(0, top, 3, as_money=True),
        note=f"the best is {answer['continuous']['days']:.2f} d, on sale or not",
    )
    for i, row in enumerate(rows):
        edges = scale([width * (i + 0.2), width * (i + 0.8)], 0, 100)
        high = scale([max(0.0, row["regret"])], 0, top)
        chosen = row["days"] == answer["best"]["days"] and row["cost"] == answer["best"]["cost"]
        colour = "var(--accent)" if chosen else "var(--unbudgeted)"
        frame.marks.append(Mark(band(edges, np.zeros(1, np.int64), high), "area", colour))
        up = 100 * row["regret"] / top
        frame.labels.append(Label(width * (i + 0.5), up + 7, money(row["regret"]), "mid"))
    return frame


@dataclass(frozen=True)
class Blade:
    """A row of a tornado: an assumption, its two ends as percent of the axis, and what is best then."""

    name: str
    low: float
    width: float
    at: float  #: where the plan as it stands lies
    texts: tuple[str, str]
    changes: tuple[str, str]
    best: tuple[str, str]


def tornado(answer: Mapping[str, Any]) -> list[Blade]:
    """Cost of the window chosen here with each assumption moved, on one axis."""
    base = answer["best"]["cost"]
    moved = [[one["kept_cost"] if one["ends"] else None for one in pair] for pair in answer["tornado"]]
    known = [cost for pair in moved for cost in pair if cost is not None] + [base]
    low, high = min(known), max(known)
    span = (high - low) or 1.0
    blades = []
    for pair, costs in zip(answer["tornado"], moved, strict=True):
        ends = [high if cost is None else cost for cost in costs]
        left, right = min(*ends, base), max(*ends, base)
        blades.append(
            Blade(
                name=pair[0]["name"],
                low=100 * (left - low) / span,
                width=100 * (right - left) / span,
                at=100 * (base - low) / span,
                texts=(pair[0]["words"], pair[1]["words"]),
                changes=tuple("never ends" if c is None else _signed(c - base) for c in costs),  # type: ignore[arg-type]
                best=tuple("–" if one["days"] is None else f"{one['days']:g} d" for one in pair),  # type: ignore[arg-type]
            )
        )
    return blades


def _signed(change: float) -> str:
    return "0" if abs(change) < 0.5 else ("+" if change > 0 else "−") + money(abs(change))


def assembly_frame(curve: Mapping[str, Any], assembly: Mapping[str, float]) -> Frame:
    """P(the whole gang is there) over time."""
    hours, chance = np.asarray(curve["hours"], float), np.asarray(curve["chance"], float)
    top = max(float(hours.max()), 1e-6) * 1.02
    frame = Frame(
        title="When the whole gang is there",
        unit="",
        alt=f"Chance that all nodes are there over time; half by {assembly['p50']:.3g} h",
        x_ticks=axis(0, top, 8, unit=" h"),
        y_ticks=[Tick(part, f"{part} %") for part in (0, 25, 50, 75, 100)],
        note="hours from the first request",
    )
    x, y = scale(hours, 0, top), scale(chance, 0, 1)
    steps_x = np.concatenate([[0, x[0]], x, [SIDE]])
    steps_y = np.concatenate([[0, 0], y, [y[-1]]])
    frame.marks.append(Mark(line(steps_x, steps_y), "curve", "var(--accent)"))
    for name, part in (("p50", 50), ("p90", 90), ("p99", 99)):
        at = 100 * assembly[name] / top
        frame.labels.append(Label(min(at, 100), part, "", "dot"))
        side = "halo left" if at > 70 else "halo"
        frame.labels.append(
            Label(at + (-2 if at > 70 else 2), part - 6, f"{name} {number(assembly[name])} h", side)
        )
    return frame


def base_frame(layers: Sequence[Mapping[str, Any]], even: float | None) -> Frame:
    """Every kind of work as a block: as wide as its GPUs, as high as the part of the month it is busy."""
    total = sum(layer["gpus"] for layer in layers) or 1
    frame = Frame(
        title="How much of the month GPUs are busy",
        unit="",
        alt="Utilisation by kind of work: "
        + ", ".join(f"{layer['name']} {percent(layer['utilisation'])}" for layer in layers),
        x_ticks=axis(0, total, 6, unit=" GPUs"),
        y_ticks=[Tick(part, f"{part} %") for part in (0, 25, 50, 75, 100)],
        note=""
        if even is None
        else f"dashed: {percent(even)}, from where on reserving pays; grey: kept, not used",
    )
    at = 0.0
    for layer in layers:
        edges = scale([at + 0.002 * total, at + layer["gpus"] - 0.002 * total], 0, total)
        worth = even is not None and layer["paid"] >= even
        colour = "var(--budgeted)" if worth else "var(--unbudgeted)"
        if layer["paid"] > layer["utilisation"]:
            frame.marks.append(
                Mark(band(edges, np.zeros(1, np.int64), scale([layer["paid"]], 0, 1)), "ghost")
            )
        high = scale([layer["utilisation"]], 0, 1)
        frame.marks.append(Mark(band(edges, np.zeros(1, np.int64), high), "area", colour))
        if layer["gpus"] > 0.09 * total:
            middle = 100 * (at + layer["gpus"] / 2) / total
            up = min(93.0, 100 * layer["utilisation"] + 6)
            frame.labels.append(Label(middle, up, f"{layer['name']}, {layer['gpus']}", "halo mid"))
        at += layer["gpus"]
    if even is not None and 0 <= even <= 1:
        frame.marks.append(Mark(f"M0 {SIDE - round(SIDE * even)}H{SIDE}", "entitled"))
    return frame
