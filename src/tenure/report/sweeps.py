"""Charts of a sweep: lines over one knob, a map over two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tenure.report.frames import SIDE, Frame, Label, Mark, Tick, line, scale
from tenure.report.variants import Variant
from tenure.report.yardsticks import Yardstick, spread


@dataclass(frozen=True)
class Square:
    text: str
    shade: float  #: 0 … 1 of the deepest colour
    about: str = ""


@dataclass(frozen=True)
class HeatMap:
    title: str
    note: str
    across: str  #: the knob whose values are the columns
    down: str
    columns: list[str]
    rows: list[tuple[str, list[Square]]]


def knob_frame(
    yardstick: Yardstick, variants: Sequence[Variant], knob: str, values: Sequence[str]
) -> Frame | None:
    """The median over all else at each value of the knob, with the range as a band; None without numbers."""
    spreads = [
        spread([yardstick.of(run) for v in variants if dict(v.settings).get(knob) == value for run in v.runs])
        for value in values
    ]
    known = [(i, found) for i, found in enumerate(spreads) if found is not None]
    if not known:
        return None
    low, high = _range([found for _, found in known])
    place = np.array([i for i, _ in known]) * 0.86 / max(1, len(values) - 1) + 0.07
    x = scale(place, 0, 1)
    middle, least, greatest = (scale([found[k] for _, found in known], low, high) for k in range(3))
    frame = Frame(
        title=yardstick.name,
        unit="",
        alt=f"{yardstick.name} over {knob}: "
        + ", ".join(f"{values[i]} {yardstick.written(found[0])}" for i, found in known),
        x_ticks=[
            Tick(100 * (0.07 + 0.86 * i / max(1, len(values) - 1)), value) for i, value in enumerate(values)
        ],
        y_ticks=[],
        note=direction(yardstick),
    )
    if (greatest != least).any():
        there, back = line(x, greatest)[1:], line(x[::-1], least[::-1])[1:]
        frame.marks.append(Mark(f"M{there}L{back}Z", "ghost"))
    frame.marks.append(Mark(line(x, middle), "curve", "var(--accent)"))
    ups = middle.tolist()
    for nth, ((_, found), at, up) in enumerate(zip(known, x.tolist(), ups, strict=True)):
        beside: list[int] = ups[max(0, nth - 1) : nth] + ups[nth + 1 : nth + 2]
        below = bool(beside) and up < sum(beside) / len(beside)  # away from the line
        left, top = 100 * at / SIDE, 100 * up / SIDE
        frame.labels.append(Label(left, top, "", "dot"))
        side = "left" if left > 85 else "" if left < 15 else "mid"
        frame.labels.append(Label(left, top + (-13 if below else 13), yardstick.written(found[0]), side))
    return frame


def _range(spreads: Sequence[tuple[float, float, float]]) -> tuple[float, float]:
    """A range around the values with room for labels; not from 0, or small differences would vanish."""
    low, high = min(found[1] for found in spreads), max(found[2] for found in spreads)
    room = (high - low) * 0.35 or abs(high) * 0.05 or 1.0
    return low - room, high + room


def direction(yardstick: Yardstick) -> str:
    return {1: "more is better", -1: "less is better"}.get(yardstick.better, "")


def heat_map(
    yardstick: Yardstick, variants: Sequence[Variant], knobs: Sequence[str], values: Sequence[Sequence[str]]
) -> HeatMap | None:
    """A cell for each pair of values of two knobs: deeper is better (or more, where neither is better)."""
    cells: dict[tuple[str, str], float] = {}
    for variant in variants:
        chosen, middle = dict(variant.settings), variant.median(yardstick)
        if middle is not None and all(knob in chosen for knob in knobs):
            cells[chosen[knobs[0]], chosen[knobs[1]]] = middle
    if not cells:
        return None
    low, high = min(cells.values()), max(cells.values())
    span = high - low

    def square(down: str, across: str) -> Square:
        value = cells.get((down, across))
        if value is None:
            return Square("", 0.0)
        part = (value - low) / span if span else 0.5
        return Square(yardstick.written(value), 1 - part if yardstick.better < 0 else part)

    rows = [(down, [square(down, across) for across in values[1]]) for down in values[0]]
    return HeatMap(yardstick.name, direction(yardstick), knobs[1], knobs[0], list(values[1]), rows)
