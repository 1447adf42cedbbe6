"""The charts of the page as frames: accounts over time, occupancy, waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tenure.report.frames import (
    SIDE,
    Frame,
    Label,
    Mark,
    Tick,
    band,
    line,
    log_seconds,
    moment,
    number,
    on_log,
    percent,
    scale,
    seconds,
    stairs,
    time_ticks,
    value_ticks,
)
from tenure.report.told import Floats, Hours

MOST_FRAMES = 40  #: small multiples of accounts on one page


def step_text(hours: Hours) -> str:
    width = np.diff(hours.edges_s)
    return seconds(float(np.median(width))) if len(width) else "–"


def _hover(hours: Hours, start: str | None, named: Mapping[str, Floats]) -> dict[str, Any]:
    edges = hours.edges_s
    return {
        "low": int(edges[0]),
        "high": int(edges[-1]),
        "edges": edges.tolist(),
        "when": [moment(int(t), start) for t in edges[:-1]],
        "names": list(named),
        "values": [np.round(values, 1).tolist() for values in named.values()],
        "unit": "GPUs",
    }


def account_frames(
    hours: Hours, colours: Mapping[str, str], ratios: Mapping[str, float | None], start: str | None
) -> list[Frame]:
    """A small chart an account: delivered as an area, owed as a line, the entitlement dashed; mean GPUs."""
    hours = hours.smoothed()
    edges, length = hours.edges_s, hours.length_h
    low, high = float(edges[0]), float(edges[-1])
    x, ticks = scale(edges, low, high), time_ticks(low, high, start, at_most=5)
    frames = []
    for row, path in enumerate(hours.paths):
        got, owed = hours.delivered[row] / length, hours.owed[row] / length
        entitled = hours.entitled[row] / length
        top, y_ticks = value_ticks(float(max(got.max(), owed.max(), entitled.max(), 1e-9)) * 1.02, 3)
        zero = np.zeros(len(got), np.int64)
        frame = Frame(
            title=path,
            unit="GPUs",
            alt=f"{path}: delivered {number(float(hours.delivered[row].sum()))} of "
            f"{number(float(hours.owed[row].sum()))} GPU-hours owed",
            x_ticks=ticks,
            y_ticks=y_ticks,
            note="owed nothing" if ratios.get(path) is None else percent(ratios[path]) + " of owed",
            colour=colours.get(path, ""),
            hover=_hover(hours, start, {"delivered": got, "owed": owed, "entitled": entitled}),
        )
        frame.marks = [
            Mark(band(x, zero, scale(got, 0, top)), "area", colours.get(path, "")),
            Mark(stairs(x, scale(entitled, 0, top)), "entitled"),
            Mark(stairs(x, scale(owed, 0, top)), "owed"),
        ]
        frames.append(frame)
    return frames


LAYERS = ("budgeted", "unbudgeted", "idle", "down")


def occupancy_frame(hours: Hours, start: str | None) -> Frame:
    """Every GPU of the cluster, stacked: budgeted, unbudgeted, idle, down. The top is capacity."""
    hours = hours.smoothed(360)
    edges, length = hours.edges_s, hours.length_h
    low, high = float(edges[0]), float(edges[-1])
    layers: list[Floats] = [getattr(hours, name) / length for name in LAYERS]
    top = float(max(np.sum(layers, axis=0).max(), 1e-9))
    round_top, round_ticks = value_ticks(top, 5)
    y_ticks = [Tick(t.at * round_top / top, t.text) for t in round_ticks if t.at * round_top < 88 * top]
    y_ticks.append(Tick(100.0, number(top)))
    frame = Frame(
        title="GPUs held, mean of " + step_text(hours),
        unit="GPUs",
        alt="Occupancy over time: "
        + ", ".join(f"{name} {number(float(getattr(hours, name).sum()))} GPU-hours" for name in LAYERS),
        x_ticks=time_ticks(low, high, start),
        y_ticks=y_ticks,
        hover=_hover(hours, start, dict(zip(LAYERS, layers, strict=True))),
    )
    x, below = scale(edges, low, high), np.zeros(len(length))
    whole = float(sum(getattr(hours, name).sum() for name in LAYERS)) or 1.0
    for name, layer in zip(LAYERS, layers, strict=True):
        above = below + layer
        frame.marks.append(Mark(band(x, scale(below, 0, top), scale(above, 0, top)), name))
        centre = int(np.searchsorted(edges, (edges[0] + edges[-1]) / 2, side="right")) - 1
        if layer[centre] > 0.06 * top:
            middle = float(below[centre] + layer[centre] / 2)
            share = float(getattr(hours, name).sum()) / whole
            frame.labels.append(Label(50, 100 * middle / top, f"{name}, {percent(share)}", f"mid on-{name}"))
        below = above
    return frame


CLASSES = {
    "debug": "≤ 8 GPUs, minimum ≤ 15 min",
    "budgeted": "with a minimum",
    "gang": "more than one node",
    "session": "interactive",
    "unbudgeted": "minimum 0",
    "all": "every start",
}


NINES = 3.0  #: the axis of parts ends at 1 − 10^−3


def wait_frames(waits: Mapping[str, NDArray[np.int64]]) -> list[Frame]:
    """Which part of starts waited at most so long, a small chart a class; p50, p90 and p99 as named dots.

    Time is logarithmic; the axis of parts is stretched towards the tail, equal steps for 90, 99 and 99.9 %.
    """
    sorts = {name: np.sort(np.asarray(waits.get(name, ()), float)) for name in CLASSES}
    longest = max((float(values[-1]) for values in sorts.values() if len(values)), default=1.0)
    top, ticks = log_seconds(longest)
    heights = {part: 100 * _nines(part / 100) / NINES for part in (0, 50, 90, 99, 99.9)}
    frames = []
    for name, meaning in CLASSES.items():
        values = sorts[name]
        frame = Frame(
            title=name,
            unit="",
            alt=f"Waits of {name}: {len(values)} starts",
            x_ticks=ticks,
            y_ticks=[Tick(at, f"{part:g} %") for part, at in heights.items()],
            note=f"{meaning}; n = {number(len(values))}",
        )
        frame.marks = [Mark(f"M0 {1000 - 10 * heights[part]:.0f}H1000", "guide") for part in (50, 90, 99)]
        if name != "all" and len(sorts["all"]):
            frame.marks.append(Mark(_ecdf(sorts["all"], top), "reference"))
        if len(values):
            frame.marks.append(Mark(_ecdf(values, top), "curve", "var(--accent)"))
            for part in (50, 90, 99):
                value = float(values[max(0, int(np.ceil(part / 100 * len(values))) - 1)])
                at, left = float(on_log([value], top)[0]) / 10, 0
                left = at > 60
                frame.labels.append(Label(at, heights[part], "", "dot"))
                frame.labels.append(
                    Label(
                        at + (-2.5 if left else 2.5),
                        heights[part] + (7 if left else -7),
                        f"p{part} {seconds(value)}",
                        "halo left" if left else "halo",
                    )
                )
        else:
            frame.labels.append(Label(50, 50, "none in the span", "mid"))
        frames.append(frame)
    return frames


def _nines(part: float) -> float:
    return -float(np.log10(max(1 - part, 10**-NINES)))


def _ecdf(values: Floats, top: float, points: int = 200) -> str:
    """The stairs through at most `points` of its steps, close together in the tail."""
    n = len(values)
    tail = n * (1 - 10 ** -np.linspace(0, NINES + 0.5, points))
    at = np.unique(np.clip(np.append(np.ceil(tail) - 1, n - 1).astype(np.int64), 0, n - 1))
    part = (at + 1) / n
    height = scale(-np.log10(np.maximum(1 - part, 10**-NINES)) / NINES, 0, 1)
    x = np.append(np.repeat(on_log(values[at], top), 2), SIDE)
    return line(x, np.concatenate([[0], np.repeat(height, 2)]))
