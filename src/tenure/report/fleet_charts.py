"""Charts of pages about fleets: lines with a dot at the answer, and maps of what wins where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tenure.report.frames import SIDE, Frame, Label, Mark, Tick, line, nice_step, scale

FIRST, SECOND = "var(--c1, #2a78d6)", "var(--c2, #c2571a)"
HALF_NAME, CLEAR = 9, 6  #: percent of the plot: half a name's width; a name's middle to its line
DEEPEST = 85  #: percent of colour where a map's value is greatest


@dataclass(frozen=True)
class Curve:
    """One line of a chart."""

    name: str
    y: ArrayLike
    colour: str


def chart(
    title: str, unit: str, x: ArrayLike, curves: Sequence[Curve], *, alt: str, dot: tuple[float, float] | None
) -> Frame:
    """Lines over one axis, with a dot at the answer."""
    across = np.asarray(x, float)
    values = [np.asarray(curve.y, float) for curve in curves]
    low, high = min(float(v.min()) for v in values), max(float(v.max()) for v in values)
    room = 0.06 * (high - low or abs(high) or 1.0)
    low, high = low - room, high + 2.5 * room  # the unit stands in the upper corner
    left, right = float(across[0]), float(across[-1])
    frame = Frame(title, unit, alt, _ticks(left, right, 7), _ticks(low, high, 6))
    for curve, value in zip(curves, values):
        path = line(scale(across, left, right), scale(value, low, high))
        frame.marks.append(Mark(path, "line", curve.colour))
    if len(curves) == 2:  # named where they lie farthest apart
        few = len(across) // 6
        place = few + int(np.argmax(np.abs(values[0] - values[1])[few : 4 * few]))
        upper = values[0][place] >= values[1][place]
        for curve, value, above in zip(curves, values, (upper, not upper)):
            x_at = 100 * float(across[place] - left) / (right - left)
            heights = 100 * (value - low) / (high - low)
            near = heights[np.abs(100 * (across - across[place]) / (right - left)) <= HALF_NAME]
            y_at = float(near.max()) + CLEAR if above else float(near.min()) - CLEAR
            if y_at < CLEAR:  # no room between the line and the axis
                y_at = float(near.max()) + CLEAR
            frame.labels.append(Label(min(max(x_at, 12), 85), min(y_at, 94), curve.name, "mid halo"))
    if dot is not None:
        x_at, y_at = 100 * (dot[0] - left) / (right - left), 100 * (dot[1] - low) / (high - low)
        frame.labels.append(Label(x_at, y_at, "", "dot"))
    return frame


def _ticks(low: float, high: float, at_most: int) -> list[Tick]:
    step = nice_step(high - low, at_most)
    values = np.arange(np.ceil(low / step - 1e-9) * step + 0.0, high + step * 1e-6, step)
    return [Tick(100 * float(v - low) / (high - low), f"{float(v):.10g}".replace("-", "−")) for v in values]


def field(
    title: str, values: ArrayLike, *, across: Sequence[str], up: Sequence[str], alt: str,
    texts: Sequence[Sequence[str]], note: str = "",
) -> Frame:  # fmt: skip
    """A map: a cell for each value (rows from below), one colour above 0, another below, and its text.

    The colours are alike deep for alike distances from 0. The unit belongs in the note: in the plot it
    would lie over a cell.
    """
    cells = np.nan_to_num(np.asarray(values, float))
    rows, columns = cells.shape
    most = float(np.abs(cells).max()) or 1.0
    x_ticks = [Tick(100 * (i + 0.5) / columns, text) for i, text in enumerate(across)]
    y_ticks = [Tick(100 * (j + 0.5) / rows, text) for j, text in enumerate(up)]
    frame = Frame(title, "", alt, x_ticks, y_ticks, note=note)
    for j in range(rows):
        top, below = round(SIDE * (1 - (j + 1) / rows)), round(SIDE * (1 - j / rows))
        for i in range(columns):
            left, right = round(SIDE * i / columns), round(SIDE * (i + 1) / columns)
            deep = DEEPEST * abs(float(cells[j, i])) / most
            hue = FIRST if cells[j, i] > 0 else SECOND
            path = f"M{left} {below}L{right} {below}L{right} {top}L{left} {top}Z"
            colour = f"color-mix(in srgb, {hue} {deep:.0f}%, var(--plot))"
            frame.marks.append(Mark(path, "area", colour))
            frame.labels.append(Label(100 * (i + 0.5) / columns, 100 * (j + 0.5) / rows, texts[j][i], "mid"))
    return frame
