"""How long does a save take, at worst? Measured from its begin to its commit; its p99 sets the deadlines."""

from __future__ import annotations

import math
from collections import deque

REMEMBERED = 200


class SaveTimes:
    """The newest lengths, in seconds."""

    def __init__(self) -> None:
        self._lengths: deque[float] = deque(maxlen=REMEMBERED)
        self.count = 0

    def add(self, seconds: float) -> None:
        """One more save was committed."""
        self._lengths.append(max(0.0, seconds))
        self.count += 1

    def quantile(self, part: float) -> float:
        """By nearest rank: the slowest of all while there are fewer than 100. 0 where nothing was saved."""
        ordered = sorted(self._lengths)
        return ordered[max(0, math.ceil(part * len(ordered)) - 1)] if ordered else 0.0
