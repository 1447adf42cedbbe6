"""The measures by which runs are set side by side: where they stand, how written, which way is better."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from tenure.report.frames import number, percent, seconds

Run = Mapping[str, Any]


@dataclass(frozen=True)
class Yardstick:
    name: str
    path: tuple[str, ...]  #: keys into the measures
    written: Callable[[float | None], str]
    better: int = 0  #: 1: more is better, -1: less, 0: neither
    published: str = ""
    about: str = ""

    def of(self, run: Run) -> float | None:
        """The number in a run; None where there is none."""
        found: Any = run
        for key in self.path:
            found = found.get(key) if isinstance(found, Mapping) else None
        return None if found is None or found != found else float(found)


YARDSTICKS = (
    Yardstick(
        "delivered of owed", ("delivered", "total"), percent, 1, "98 %", "Σ min(delivered, owed) ÷ Σ owed"
    ),
    Yardstick("worst account", ("delivered", "worst"), percent, 1, "90 %", "least delivered ÷ owed"),
    Yardstick(
        "hour by hour", ("delivered", "hourly"), percent, 1, "", "late delivery does not repair an hour"
    ),
    Yardstick("occupancy", ("occupancy",), percent, 1, "98 %", "GPU-hours held ÷ capacity not down"),
    Yardstick("unbudgeted share", ("unbudgeted_share",), percent, 0, "18 %", "of GPU-hours held"),
    Yardstick(
        "first wait, median", ("first_wait_s", "all", "p50"), seconds, -1, "24 s", "submission to first start"
    ),
    Yardstick(
        "first wait, p90", ("first_wait_s", "all", "p90"), seconds, -1, "1.8 h", "on the largest cluster"
    ),
    Yardstick(
        "debug wait, p90", ("first_wait_s", "debug", "p90"), seconds, -1, "30 s", "≤ 8 GPUs and ≤ 15 min"
    ),
    Yardstick(
        "gang wait, p90", ("first_wait_s", "gang", "p90"), seconds, -1, "", "jobs of more than one node"
    ),
    Yardstick("preempted a day", ("preemptions", "per_day"), number, -1, "", "attempts stopped for another"),
    Yardstick("budgeted preempted a day", ("preemptions", "budgeted", "per_day"), number, -1),
    Yardstick(
        "lost to stops, GPU-h", ("gpu_hours", "lost"), number, -1, "", "work since the last save, restarts"
    ),
    Yardstick("jobs finished", ("jobs", "finished"), number, 1),
)
CHARTED = YARDSTICKS[:4] + YARDSTICKS[6:10] + YARDSTICKS[11:12]  #: those that get a small chart


def spread(values: Sequence[float | None]) -> tuple[float, float, float] | None:
    """(median, least, greatest) of those that are numbers."""
    known = [value for value in values if value is not None]
    return (float(median(known)), min(known), max(known)) if known else None


def best_of(yardstick: Yardstick, medians: Sequence[float | None]) -> set[int]:
    """Places of the best values, where one is better than another as written."""
    known = {i: value for i, value in enumerate(medians) if value is not None}
    if not yardstick.better or len(known) < 2:
        return set()
    best = max(value * yardstick.better for value in known.values()) * yardstick.better
    found = {i for i, value in known.items() if yardstick.written(value) == yardstick.written(best)}
    return found if len(found) < len(known) else set()
