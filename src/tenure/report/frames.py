"""The frame of a chart on a page: ticks, paths, labels. Geometry alone; what is drawn comes from `figures`.

A plot is drawn in a square of 1000 × 1000 that the page stretches to its place; text is not in it, but
placed over it in percent, so that it keeps its size from phone to print.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

SIDE = 1000  #: of the square that plots are drawn in
HOUR_S = 3600
DAY_S = 86400
STEPS_S = tuple(h * HOUR_S for h in (1, 2, 3, 4, 6, 8, 12, 24, 48, 96, 168, 336, 672))


@dataclass(frozen=True)
class Tick:
    at: float  #: percent of the axis, from the left or from below
    text: str


@dataclass(frozen=True)
class Mark:
    """A path of the plot."""

    d: str
    look: str  #: CSS class: area, line, dash, thin …
    colour: str = ""  #: fill of an area, stroke of a line; empty = as the class says


@dataclass(frozen=True)
class Label:
    x: float  #: percent from the left
    y: float  #: percent from below
    text: str
    look: str = ""


@dataclass
class Frame:
    title: str
    unit: str
    alt: str  #: what it shows, in a sentence, for who cannot see it
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    marks: list[Mark] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    note: str = ""
    colour: str = ""
    hover: dict[str, Any] | None = None  #: see static/report.js


def scale(values: ArrayLike, low: float, high: float) -> NDArray[np.int64]:
    """Values as whole coordinates of the square, clipped to it."""
    span = high - low or 1.0
    return np.rint(np.clip((np.asarray(values, float) - low) / span, 0, 1) * SIDE).astype(np.int64)


def _points(x: NDArray[np.int64], y: NDArray[np.int64]) -> str:
    return "L".join(f"{a} {SIDE - b}" for a, b in zip(x.tolist(), y.tolist(), strict=True))


def line(x: NDArray[np.int64], y: NDArray[np.int64]) -> str:
    return "M" + _points(x, y) if len(x) else ""


def stairs(edges: NDArray[np.int64], y: NDArray[np.int64]) -> str:
    """A line that is level between edges; len(edges) = len(y) + 1."""
    return line(np.repeat(edges, 2)[1:-1], np.repeat(y, 2))


def band(edges: NDArray[np.int64], low: NDArray[np.int64], high: NDArray[np.int64]) -> str:
    """The area between two stairs."""
    if not len(high):
        return ""
    x = np.repeat(edges, 2)[1:-1]
    there, back = _points(x, np.repeat(high, 2)), _points(x[::-1], np.repeat(low, 2)[::-1])
    return f"M{there}L{back}Z"


def nice_step(span: float, at_most: int) -> float:
    """The smallest 1, 2, 2.5 or 5 × 10^k that cuts `span` into at most `at_most` parts."""
    if span <= 0:
        return 1.0
    power = 10.0 ** np.floor(np.log10(span / at_most))
    return float(next(power * m for m in (1, 2, 2.5, 5, 10, 20) if span / (power * m) <= at_most + 1e-9))


def value_ticks(high: float, at_most: int = 4, unit: str = "") -> tuple[float, list[Tick]]:
    """A top at or above `high` and ticks from 0 on."""
    high = high if high > 0 else 1.0
    step = nice_step(high, at_most)
    top = step * np.ceil(high / step - 1e-9)
    count = round(float(top / step))
    return float(top), [Tick(100 * i / count, number(i * step) + unit) for i in range(count + 1)]


def time_ticks(low_s: float, high_s: float, start: str | None, at_most: int = 7) -> list[Tick]:
    """Ticks at whole days or hours; dates where second 0 has one."""
    span = max(high_s - low_s, 1.0)
    steps = (60, 300, 900, 1800, *STEPS_S[:7], DAY_S, 2 * DAY_S, 5 * DAY_S, 7 * DAY_S, 14 * DAY_S, 30 * DAY_S)
    step = next((s for s in steps if span / s <= at_most), DAY_S * nice_step(span / DAY_S, at_most))
    zero = parse_start(start)
    first = np.ceil(low_s / step) * step
    ticks = []
    for t in np.arange(first, high_s + 1, step):
        ticks.append(Tick(100 * (t - low_s) / span, time_text(float(t), zero, step)))
    return ticks


def parse_start(start: str | None) -> datetime | None:
    if start is None:
        return None
    try:
        return datetime.fromisoformat(start.replace("Z", "+00:00"))
    except ValueError:
        return None


def time_text(t: float, zero: datetime | None, step: float) -> str:
    if zero is None:
        if t < HOUR_S and step < HOUR_S:
            return f"{t / 60:g} min" if t else "0"
        return f"day {t / DAY_S:g}" if step >= DAY_S else f"{t / HOUR_S:g} h"
    at = zero + timedelta(seconds=t)
    if step >= DAY_S:
        return f"{at.day} {at:%b}"
    return f"{at:%H:%M}" if at.hour or at.minute else f"{at.day} {at:%b}"


def moment(t: int, start: str | None) -> str:
    """An instant for people: a date and clock where second 0 has one, else the day and clock since it."""
    clock = f"{t % DAY_S // HOUR_S:02d}:{t % HOUR_S // 60:02d}"
    zero = parse_start(start)
    if zero is None:
        return f"day {t // DAY_S}, {clock}"
    at = zero + timedelta(seconds=t)
    return f"{at.day} {at:%b}, {at:%H:%M}"


LOG_TICKS = ((1, "1 s"), (10, "10 s"), (60, "1 min"), (600, "10 min"), (3600, "1 h"), (36000, "10 h"),
             (86400 * 4, "4 d"), (86400 * 30, "30 d"))  # fmt: skip


def log_seconds(high_s: float) -> tuple[float, list[Tick]]:
    """A logarithmic axis of seconds from 1 s to at least `high_s`; returns its top."""
    top = next((float(s) for s, _ in LOG_TICKS[3:] if s >= high_s), max(high_s, 1.0))
    whole = np.log(top)
    return top, [Tick(100 * float(np.log(s) / whole), text) for s, text in LOG_TICKS if s <= top]


def on_log(values: ArrayLike, top: float) -> NDArray[np.int64]:
    """Seconds on the axis of `log_seconds`; under a second is the left edge."""
    return scale(np.log(np.maximum(np.asarray(values, float), 1.0)), 0.0, float(np.log(top)))


def number(value: float | None, digits: int = 3) -> str:
    """A figure for people: thousands apart, no more digits than tell something."""
    if value is None or value != value:
        return "–"
    if value and abs(value) < 100:
        text = f"{value:.{digits}g}"
        return f"{float(text):g}".replace("-", "−")
    return f"{value:,.0f}".replace(",", "\u202f").replace("-", "−")


def percent(part: float | None, digits: int = 1) -> str:
    return "–" if part is None or part != part else f"{100 * part:.{digits}f} %"


def seconds(value: float | None) -> str:
    """A duration in its largest readable unit."""
    if value is None or value != value:
        return "–"
    for size, unit, below in ((1, "s", 100), (60, "min", HOUR_S), (HOUR_S, "h", 48 * HOUR_S)):
        if value < below:
            return f"{number(value / size, 2 if size > 1 else 3)} {unit}"
    return f"{number(value / DAY_S, 2)} d"


def step_for(span_s: float, at_most: int = 180) -> int:
    """Whole hours to smooth over, so that a line has at most `at_most` steps."""
    return next((s for s in STEPS_S if span_s / s <= at_most), STEPS_S[-1])


def summed(values: NDArray[Any], width: int) -> NDArray[Any]:
    """Sums over `width` neighbouring columns of the last axis; the last bin may be narrower."""
    starts = np.arange(0, values.shape[-1], width)
    return np.add.reduceat(values, starts, axis=-1) if values.shape[-1] else values
