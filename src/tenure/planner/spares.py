"""How many spare racks keep a job's shape: at an instant, through a whole mission, and for the most work.

Availability asks whether enough racks are up at an instant; mission reliability whether they are at every
instant of a mission. The two need different numbers of spares. A plan of several zones needs all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from tenure.planner import chains
from tenure.planner.racks import Rack, Zone, at_least

MOST_SPARE = 1_000_000


class NeverEnough(ValueError):
    """No number of spares gives the confidence: repair cannot keep up. The message says what would."""


@dataclass(frozen=True)
class Fleet:
    """`zones` alike that share no spares. Spares are counted over all of them."""

    zone: Zone
    zones: int = 1

    @property
    def active(self) -> int:
        """Racks that must be up, over all zones."""
        return self.zones * self.zone.active

    def p_ok(self, spare: int) -> float:
        """P(every zone has its active racks up), at an instant, spare/zones spares in each."""
        return self.zone.p_ok(spare // self.zones) ** self.zones

    def shortages(self, spare: int, mttr: float) -> float:
        """How often any zone falls short, per unit of time of `mttr`, a rack's repair."""
        return self.zones * self.zone.shortages(spare // self.zones, mttr)

    def p_no_shortage(self, spare: int, mission: float, mttr: float) -> float:
        """P(no shortage begins in a mission), from the steady state: exp(-nu H).

        Right where shortages are rare. Where they are not, one is often followed by the next, which this
        counts as if it came alone: too low a chance; `p_unbroken` is exact there.
        """
        return math.exp(-self.shortages(spare, mttr) * mission)

    def p_from_ready(self, spare: int, mission: float, mttr: float) -> float:
        """P(no shortage in a mission that begins with every rack up), exact for repairs by chance."""
        return chains.unbroken(self.zone, spare // self.zones, mission, mttr, ready=True) ** self.zones

    def p_unbroken(self, spare: int, mission: float, mttr: float) -> float:
        """The same begun in the steady state: P(enough at its first instant and at all after it)."""
        return chains.unbroken(self.zone, spare // self.zones, mission, mttr, ready=False) ** self.zones

    def productive(self, spare: int, elastic: bool = False) -> float:
        """Work done by racks bought: n/(n+s) of the time the job has its shape; elastic: of what is up."""
        bought = self.active + spare
        if elastic:
            return self.zones * self.zone.up_mean(spare // self.zones) / bought
        return self.active / bought * self.p_ok(spare)


def spares_at_instant(fleet: Fleet, confidence: float) -> int:
    """The fewest spares with p_ok >= confidence. NeverEnough where common causes alone take more."""
    return fleet.zones * _fewest(lambda s: fleet.p_ok(s * fleet.zones) >= confidence)


def spares_for_mission(fleet: Fleet, confidence: float, mission: float, mttr: float) -> int:
    """The fewest spares with which no shortage begins, and which suffice at its first instant too."""

    def holds(s: int) -> bool:
        spare = s * fleet.zones
        return fleet.p_ok(spare) >= confidence and fleet.p_no_shortage(spare, mission, mttr) >= confidence

    return fleet.zones * _fewest(holds)


def spares_for_most_work(fleet: Fleet, elastic: bool = False) -> int:
    """The spares with the most productive share of the racks bought; the fewer of equal ones.

    None for an elastic job: what it works is at most what is up, and that part no spare raises.
    """
    if elastic:
        return 0
    best, most, s = 0, fleet.productive(0), 0
    # past this no spare can pay: even a job always in shape would do less on so many racks
    while fleet.active / (fleet.active + fleet.zones * (s + 1)) > most and s < MOST_SPARE:
        s += 1
        share = fleet.productive(s * fleet.zones)
        if share > most:
            best, most = s, share
    return best * fleet.zones


def covered(fleet: Fleet, spare: int, confidence: float) -> float:
    """The greatest unavailability of a rack that `spare` racks cover at an instant."""

    def holds(q: float) -> bool:
        return replace(fleet, zone=replace(fleet.zone, q=q)).p_ok(spare) >= confidence

    return _greatest(holds)


def covered_in_mission(fleet: Fleet, spare: int, confidence: float, mission: float, mttr: float) -> float:
    """The greatest unavailability of a rack with which no shortage begins in a mission."""

    def holds(q: float) -> bool:
        other = replace(fleet, zone=replace(fleet.zone, q=q))
        return other.p_ok(spare) >= confidence and other.p_no_shortage(spare, mission, mttr) >= confidence

    return _greatest(holds)


def share_of_work(zones: int, racks: int, rack: Rack) -> tuple[float, int]:
    """The work of `zones` × `racks`, held trays and spare racks taken out of them: (share, spares a zone).

    max over R of (L-R)/L · (K-I)/K · P(Bin(L, p) >= L-R)^B: at equal racks bought, so that holding trays back
    and holding racks back can be compared.
    """
    up, best, spares = rack.p_up, 0.0, 0
    for spare in range(racks):
        share = (racks - spare) / racks * at_least(racks - spare, racks, up) ** zones
        if share > best:
            best, spares = share, spare
    return best * rack.needed / rack.trays, spares


def _fewest(holds: Callable[[int], bool]) -> int:
    """The first whole number that holds, where all after it do."""
    if holds(0):
        return 0
    low, high = 0, 1
    while not holds(high):
        low, high = high, 2 * high
        if high > MOST_SPARE:
            raise NeverEnough("more crews, or fewer failures: no number of spares gives this confidence")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _greatest(holds: Callable[[float], bool]) -> float:
    low, high = 0.0, 1.0 - 1e-12
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
