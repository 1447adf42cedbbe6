"""What the page asks of the audit, in the shape the charts want it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tenure.audit.examine import Examination, examine
from tenure.audit.record import Record
from tenure.audit.series import Series
from tenure.audit.span import span_of
from tenure.audit.waits import groups_of, starts_of
from tenure.report.frames import HOUR_S, step_for, summed
from tenure.story.columns import Story

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Hours:
    """GPU-hours hour by hour. Account rows: a path each, inner ones too, in the order of the lab."""

    edges_s: NDArray[np.int64]  #: (hours + 1,); the first and last hour may be partial
    paths: list[str]
    entitled: Floats  #: (accounts, hours)
    demand: Floats
    owed: Floats
    delivered: Floats
    budgeted: Floats  #: (hours,)
    unbudgeted: Floats
    idle: Floats
    down: Floats

    def smoothed(self, at_most: int = 180) -> Hours:
        """Summed over whole steps, so that a line has at most `at_most` of them."""
        width = step_for(float(self.edges_s[-1] - self.edges_s[0]), at_most) // HOUR_S
        edges = np.append(self.edges_s[:-1][::width], self.edges_s[-1])
        parts = (self.entitled, self.demand, self.owed, self.delivered,
                 self.budgeted, self.unbudgeted, self.idle, self.down)  # fmt: skip
        return Hours(edges, self.paths, *[summed(part, width) for part in parts])

    @property
    def length_h(self) -> Floats:
        return np.maximum(np.diff(self.edges_s) / HOUR_S, 1e-9)


def examination_of(story: Story, measures: Mapping[str, Any]) -> Examination:
    """All that the audit says, over the span that the measures speak of."""
    return examine(story, since_s=end_s(story) - int(measures["span_s"]))


def record_of(story: Story, measures: Mapping[str, Any]) -> Record:
    """The record alone, over that span."""
    return Record(story, since_s=end_s(story) - int(measures["span_s"]))


def hours_of(told: Series) -> Hours:
    """The audit's averages as GPU-hours, all clusters together, so that they can be summed over steps."""
    length_h = np.diff(told.edges_s) / HOUR_S
    if not len(length_h):  # a record of no length: one empty second, so that there is something to draw
        nothing, second = np.zeros((len(told.paths), 1)), np.zeros(1)
        edges_s = told.edges_s[0] + np.arange(2)
        return Hours(edges_s, told.paths, *[nothing] * 4, *[second] * 4)
    accounts = (told.entitled, told.demand, told.owed, told.delivered)
    whole = (told.budgeted, told.unbudgeted, told.idle, told.down)
    return Hours(told.edges_s, told.paths, *[part * length_h for part in (*accounts, *whole)])


def waits_of(record: Record) -> dict[str, NDArray[np.int64]]:
    """Seconds waited, a value for each start in the span, by group."""
    job, wait_s, _ = starts_of(record)
    return {group: wait_s[member[job]] for group, member in groups_of(record).items()}


def end_s(story: Story) -> int:
    """The last second drawn: that of the record, or of its last event where it has no end."""
    return span_of(story).end_s
