"""Numbers as a reader wants them: few digits, the unit with them, `–` where there is none."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

NOTHING = "–"
FEW_GPU_H = 10.0  #: GPU-hours of a whole story, below which its parts would all be 0.0
#: Unit, its seconds, and from how many seconds on it is used.
UNITS = (("d", 86400, 48 * 3600), ("h", 3600, 3600), ("min", 60, 120), ("s", 1, 0))


def absent(value: Any) -> bool:
    """Whether there is no number to show."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def duration(seconds: float | None) -> str:
    """`90` → `90 s`, `411` → `6 min 51 s`, `5400` → `1.5 h`, `86400` → `1 d`."""
    if seconds is None or absent(seconds):
        return NOTHING
    sign, size = ("-" if seconds < 0 else ""), abs(float(seconds))
    name, unit_s, _ = next(unit for unit in UNITS if size >= unit[2] or size == unit[1])
    minutes, rest_s = divmod(round(size), 60)
    if name == "min" and rest_s:
        return f"{sign}{minutes} min {rest_s} s"
    return f"{sign}{significant(size / unit_s)} {name}"


def significant(number: float) -> str:
    """Three significant digits, no more than two decimals, thousands apart: `12,345`, `98.7`, `0.25`."""
    if number == 0 or abs(number) >= 100:
        return f"{number:,.0f}"
    text = f"{number:.{1 if abs(number) >= 10 else 2}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(part: float | None) -> str:
    """`0.9873` → `98.7 %`, `0.35` → `35 %`; never rounded up to 100."""
    if part is None or absent(part):
        return NOTHING
    value = 100 * part
    if 99.95 <= value < 100:
        value = math.floor(value * 10) / 10
    return f"{value:.0f} %" if abs(value - round(value)) < 1e-9 else f"{value:.1f} %"


def count(number: float | None) -> str:
    """`12345` → `12,345`."""
    return NOTHING if number is None or absent(number) else f"{number:,.0f}"


def gpu_hours(hours: float | None) -> str:
    """GPU-hours without their unit, which the column's head names."""
    if hours is None or absent(hours):
        return NOTHING
    return f"{hours:,.0f}" if abs(hours) >= 100 or hours == 0 else f"{hours:,.1f}"


class GpuTime(NamedTuple):
    """The unit in which a story's GPU time is told: hours, or minutes where there are few of them."""

    name: str
    an_hour: float

    def __call__(self, hours: float | None) -> str:
        """So many GPU-hours in this unit, without its name."""
        return gpu_hours(None if hours is None else hours * self.an_hour)


def gpu_time(capacity_gpu_h: float) -> GpuTime:
    """The unit for a story of so many GPU-hours in all."""
    return GpuTime("GPU-minutes", 60.0) if capacity_gpu_h < FEW_GPU_H else GpuTime("GPU-hours", 1.0)


def points(difference: float | None) -> str:
    """A difference of two parts, in percentage points with its sign."""
    if difference is None or absent(difference):
        return NOTHING
    return "0" if abs(difference) < 0.0005 else f"{100 * difference:+.1f}"


def minute(text: str | None) -> str:
    """`2026-01-05T04:05:06Z` → `2026-01-05 04:05`."""
    return NOTHING if text is None else text[:16].replace("T", " ")


def instant(second: float, start: str | None = None) -> str:
    """A second of the story as people say it: `3 d 04:05:06`, with the date where the start is known."""
    whole = int(second)
    days, rest = divmod(whole, 86400)
    clock = f"{rest // 3600:02d}:{rest % 3600 // 60:02d}" + (f":{rest % 60:02d}" if rest % 60 else "")
    text = f"{days} d {clock}" if days else clock
    if start is None:
        return text
    from datetime import datetime, timedelta

    date = datetime.fromisoformat(start.replace("Z", "+00:00")) + timedelta(seconds=whole)
    return f"{text} ({date:%Y-%m-%d %H:%M} UTC)"
