"""How often a rack of trays is whole enough, and enough of many racks are up: binomial or repair queue.

Racks fail apart from each other and are each down the part `q` of the time. Where the repair of racks is
limited to so many crews, the number down follows the machine-repair queue (M/M/c with a finite source): it
is then counted over active and spare racks together, all of which fail. Sources: Barlow and Proschan (1975).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

Array = NDArray[np.float64]
LEAST = 1e-18  #: events of a common cause less likely than this are left out


def unavailability(mtbf: float, mttr: float) -> float:
    """The part of time down: mttr/(mtbf + mttr)."""
    return mttr / (mtbf + mttr)


def at_least(k: int, n: int, p: float) -> float:
    """P(Binomial(n, p) >= k), exact near 0 and near 1."""
    if k <= 0:
        return 1.0
    return float(special.betainc(k, n - k + 1, p)) if k <= n else 0.0


def binomial(n: int, p: float) -> Array:
    """P(Binomial(n, p) = k) for k of 0 … n."""
    k = np.arange(n + 1)
    log = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
    return np.asarray(np.exp(log + special.xlogy(k, p) + special.xlog1py(n - k, -p)))


@dataclass(frozen=True)
class Rack:
    """A rack of `trays` that is of use while `needed` of them are up; a tray fails as one."""

    trays: int
    needed: int
    tray_down: float  #: part of time a tray is down
    rack_down: float  #: part of time the rack as a whole is: switches, backplane, power, cooling

    @property
    def p_up(self) -> float:
        """The part of time it is of use."""
        return (1.0 - self.rack_down) * at_least(self.needed, self.trays, 1.0 - self.tray_down)

    @property
    def q(self) -> float:
        """The part of time it is not, to full precision where it is tiny."""
        short = float(special.betainc(self.trays - self.needed + 1, self.needed, self.tray_down))
        return self.rack_down + (1.0 - self.rack_down) * short


@dataclass(frozen=True)
class CommonCause:
    """Events that take `racks` of a zone down at once: `load` of them are under way on average.

    `lasts`: mean time until those racks are back, in the unit of the racks' own repair.
    """

    load: float
    racks: int
    lasts: float

    def under_way(self, spare: int) -> Iterator[tuple[int, float]]:
        """(racks taken, chance) of 0, 1, … events under way at once, as far as so many spares reach."""
        j, weight = 0, math.exp(-self.load)
        while j * self.racks <= spare and weight > LEAST:
            yield j * self.racks, weight
            j += 1
            weight *= self.load / j


@dataclass(frozen=True)
class Zone:
    """`active` racks that must be up together, out of those and any spares of the same zone.

    `crews`: racks under repair at once, None for no limit; then q is that of an unlimited repair.
    """

    active: int
    q: float
    crews: int | None = None
    common: CommonCause | None = None

    def p_ok(self, spare: int) -> float:
        """P(at least `active` of active + spare are up), at an instant."""
        if self.common is None:
            return self._apart(spare)
        return sum(weight * self._apart(spare - taken) for taken, weight in self.common.under_way(spare))

    def shortages(self, spare: int, mttr: float) -> float:
        """How often fewer than `active` begin to be up, per unit of time of `mttr`, a rack's repair.

        A failure with no spare left, (n/F) P(exactly s down), F = mttr (1-q)/q; and common causes that take
        more than is left, each with what others have taken already.
        """
        each = self.active * self.q / (mttr * (1.0 - self.q))
        if self.common is None:
            return each * float(self.down(self.active + spare)[spare]) if self.q > 0.0 else 0.0
        comes, total = self.common.load / self.common.lasts, 0.0
        for taken, weight in self.common.under_way(spare):
            left = spare - taken
            down = self.down(self.active + left)
            struck = float(down[max(0, left - self.common.racks + 1) : left + 1].sum())
            total += weight * (each * float(down[left]) + comes * struck)
        return total

    def down(self, racks: int) -> Array:
        """The distribution of racks down, of 0 … `racks`; common causes left out."""
        return binomial(racks, self.q) if self.crews is None or self.q == 0 else self._queue(racks)

    def up_mean(self, spare: int) -> float:
        """E[min(active, racks that are up)]: what a job that can shrink has to work with."""
        racks = self.active + spare
        return float(self.down(racks) @ np.minimum(self.active, racks - np.arange(racks + 1)))

    def _queue(self, racks: int) -> Array:
        """The same with `crews` at work on what is down."""
        down = np.arange(1, racks + 1)
        at_work = np.minimum(down, racks if self.crews is None else self.crews)
        fails = self.q / (1.0 - self.q)  # a rack's failures in one mean repair
        logs = np.concatenate([[0.0], np.cumsum(np.log(fails * (racks - down + 1) / at_work))])
        weights = np.exp(logs - logs.max())
        return np.asarray(weights / weights.sum())

    def _apart(self, spare: int) -> float:
        """Without common causes."""
        if self.crews is None:
            return at_least(self.active, self.active + spare, 1.0 - self.q)
        return float(self.down(self.active + spare)[: spare + 1].sum())
