"""What part of a job's work goes on while groups that recover apart come and go.

Failures come at mean intervals M over the whole job. Each stalls all groups for `stall` (S) and keeps the
failed one away for `away` (T, the stall in it); `count` (G) equal groups work in proportion to those present,
so a failure costs L = S + (T - S)/G. One group, S = T: the ordinary synchronous job. Saves are left out, and
no loss of convergence is assumed while a group is away: its quality was published for 256 GPUs only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from tenure.planner.racks import binomial

ASSUMES = (
    "groups: no loss of convergence is assumed while a group is away (the batch shrinks for a while; "
    "published quality was measured on 256 GPUs only); give groups.penalty to take it into account"
)


@dataclass(frozen=True)
class Groups:
    """One unit of time throughout.

    `penalty`: part of the work done while a group is away that is worth nothing. `fewest`: with fewer groups
    present the job stands still; `overlap` alone knows of it.
    """

    count: int
    stall: float
    away: float
    penalty: float = 0.0
    fewest: int = 1

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

        Within 0.001 of play by events with 4 to 48 groups. With a penalty or `fewest` above 1: exp(-S/M)
        times the mean part present where enough are, each group there with chance exp(-(T - S)/(G M)); what
        is worked while any is away is worth less by the penalty.
        """
        if self.fewest <= 1 and self.penalty == 0.0:
            return math.exp(-self.loss / mtbf)
        missing = self.away - self.stall
        present = math.exp(-missing / (self.count * mtbf))
        chances = binomial(self.count, present)[self.fewest :]
        part = np.arange(self.fewest, self.count + 1) / self.count
        part[:-1] *= 1.0 - self.penalty
        return math.exp(-self.stall / mtbf) * float(chances @ part)

    def of(self, count: int) -> Groups:
        """The same in another number of groups; `fewest` stays the same part of the job, rounded up."""
        fewest = 1 if self.fewest == 1 else -(-self.fewest * count // self.count)
        return replace(self, count=count, fewest=fewest)


def synchronous(recovery: float) -> Groups:
    """The whole job as one group."""
    return Groups(1, recovery, recovery)


def stall_that_pays(recovery: float, groups: Groups, mtbf: float) -> float:
    """The longest stall with which groups lose no more than the whole job's recovery would; 0 or less: none.

    By every convention alike, unless a penalty or `fewest` is given: then by chance (`overlap`), at most the
    absence.
    """
    if groups.fewest <= 1 and groups.penalty == 0.0:
        share = 1.0 / groups.count
        return (recovery - groups.away * share) / (1.0 - share)

    def wins(stall: float) -> bool:
        return gain(replace(groups, stall=stall), recovery, mtbf) > LEAST_GAIN

    low, high = 0.0, groups.away
    if not wins(low):
        return 0.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if wins(middle) else (low, middle)
    return low


LEAST_GAIN = 1e-9  #: less than this is rounding
COUNTS = (2, 4, 8, 12, 16, 32, 64)  #: of groups, on the maps of where they win
FACTORS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)  #: of what the file says, on their other axis


def gain(groups: Groups, recovery: float, mtbf: float) -> float:
    """What groups add to the part of work that goes on, both by chance (`overlap`); below 0: they lose."""
    return groups.overlap(mtbf) - synchronous(recovery).overlap(mtbf)


def maps(groups: Groups, recovery: float, mtbf: float) -> dict[str, dict[str, object]]:
    """Gains over the number of groups and one of: time between failures, the stall, the absence.

    Rows of `gain` are the other axis, in the order of its values; absences shorter than the stall are it.
    """
    asked = {
        "mtbf_s": [mtbf * factor for factor in FACTORS],
        "stall_s": [min(groups.away, groups.stall * factor) for factor in FACTORS],
        "away_s": [max(groups.stall, groups.away * factor) for factor in FACTORS],
    }
    if groups.stall == 0:
        asked["stall_s"] = [groups.away * place / len(FACTORS) for place in range(len(FACTORS))]

    def at(axis: str, value: float, count: int) -> float:
        other = groups.of(count)
        if axis == "mtbf_s":
            return gain(other, recovery, value)
        other = replace(other, stall=value) if axis == "stall_s" else replace(other, away=value)
        return gain(other, recovery, mtbf)

    return {
        axis: {
            "counts": list(COUNTS),
            "values": sorted(set(values)),
            "gain": [[at(axis, value, count) for count in COUNTS] for value in sorted(set(values))],
        }
        for axis, values in asked.items()
    }


def stall_away(groups: Groups, recovery: float, mtbf: float) -> dict[str, object]:
    """Gains over stall (across) and absence (up), at the number of groups given; None below the diagonal."""
    stalls = [groups.away * part for part in (0.0, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)]
    aways = [groups.away * part for part in (0.5, 0.75, 1.0, 1.5, 2.0, 3.0)]
    rows = [
        [
            gain(replace(groups, stall=stall, away=away), recovery, mtbf) if away >= stall else None
            for stall in stalls
        ]
        for away in aways
    ]
    return {"stall_s": stalls, "away_s": aways, "gain": rows}
