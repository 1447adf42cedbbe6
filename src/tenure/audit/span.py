"""Which part of a record is measured."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tenure.core.words import NEVER_S
from tenure.story.columns import Story

HOUR_S = 3600


class AuditError(ValueError):
    """The story cannot be audited; the message says what is missing or contradicts itself."""


class Span(NamedTuple):
    """From `start_s` (the end of the warm-up) to `end_s`, seconds since the start of the record."""

    start_s: int
    end_s: int

    @property
    def length_s(self) -> int:
        return self.end_s - self.start_s

    def hour_edges(self) -> NDArray[np.int64]:
        """Edges of the whole hours of the record within the span; the first and last may be partial."""
        first = self.start_s // HOUR_S + 1
        inner = np.arange(first * HOUR_S, self.end_s, HOUR_S, dtype=np.int64)
        if self.length_s <= 0:
            return np.array([self.start_s], np.int64)
        return np.concatenate([[self.start_s], inner, [self.end_s]])


def span_of(story: Story, *, since_s: int | None = None) -> Span:
    """The span: from the warm-up's end (or `since_s`) to the instant the record was to run until.

    A record that was to run until nothing is left (`until_s` is NEVER_S) ends with its last event.
    """
    last_s = int(story.events["t"][-1]) if len(story.events) else 0
    end_s = last_s if story.until_s >= NEVER_S else story.until_s
    start_s = story.warmup_s if since_s is None else max(0, since_s)
    return Span(min(start_s, end_s), end_s)
