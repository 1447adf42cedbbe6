"""What part of a job's work goes on while groups that recover apart come and go.

Failures come at mean intervals M over the whole job. Each stalls all groups for `stall` (S) and keeps the
failed one away for `away` (T, the stall in it); `count` (G) equal groups work in proportion to those present,
so a failure costs L = S + (T - S)/G. One group, S = T: the ordinary synchronous job. Saves are left out, and
no loss of convergence is assumed while a group is away: its quality was published for 256 GPUs only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

ASSUMES = (
    "groups: no loss of convergence is assumed while a group is away (the batch shrinks for a while; "
    "published quality was measured on 256 GPUs only); give groups.penalty to take it into account"
)


@dataclass(frozen=True)
class Groups:
    """One unit of time throughout.

    `penalty`: part of the work done while a group is away that is worth nothing.
    """

    count: int
    stall: float
    away: float
    penalty: float = 0.0

    @property
    def loss(self) -> float:
        """L: whole-job time lost with one failure, the penalty included."""
        missing = self.away - self.stall
        return self.stall + missing / self.count + self.penalty * missing * (self.count - 1) / self.count

    def wall(self, mtbf: float) -> float:
        """1 - L/M: M is wall time; right for failures injected at fixed intervals."""
        return 1.0 - self.loss / mtbf

    def renewal(self, mtbf: float) -> float:
        """M/(M + L): M is uptime, and no failure strikes while one is made good."""
        return mtbf / (mtbf + self.loss)

    def overlap(self, mtbf: float) -> float:
        """exp(-L/M): Poisson failures whose stalls and absences overlap.

        Within 0.001 of play by events with 4 to 48 groups.
        """
        return math.exp(-self.loss / mtbf)


def synchronous(recovery: float) -> Groups:
    """The whole job as one group."""
    return Groups(1, recovery, recovery)


def stall_that_pays(recovery: float, groups: Groups) -> float:
    """The longest stall with which groups lose no more than the whole job's recovery would; below 0: none."""
    share = 1.0 / groups.count
    return (recovery - groups.away * share) / (1.0 - share)
