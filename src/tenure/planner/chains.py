"""Whether a zone of racks stays whole through a mission, exactly: a chain over what is down.

A state is (common causes under way, racks down by themselves); the chain ends where more is down than there
are spares. Times between failures and of repairs are exponential.
"""

from __future__ import annotations

import itertools

import numpy as np

from tenure.planner.racks import Zone

MOST_STATES = 600


def states(zone: Zone, spare: int) -> int:
    """How many states the chain of a zone has: it is worked out up to `MOST_STATES`."""
    if zone.common is None:
        return spare + 1
    return sum(spare - taken + 1 for taken in range(0, spare + 1, zone.common.racks))


def unbroken(zone: Zone, spare: int, mission: float, mttr: float, *, ready: bool) -> float:
    """P(`active` racks are up throughout a mission); `mission` and `mttr`, a rack's repair, in one unit.

    Begun with every rack up (`ready`), or in the steady state of a zone that nobody waits for.
    """
    racks = zone.active + spare
    takes = 0 if zone.common is None else zone.common.racks
    comes = 0.0 if zone.common is None else zone.common.load / zone.common.lasts
    crews = racks if zone.crews is None else zone.crews
    fails = zone.q / (mttr * (1.0 - zone.q))
    levels = range(1 if zone.common is None else spare // takes + 1)
    known = [
        (j, down) for j, down in itertools.product(levels, range(spare + 1)) if j * takes + down <= spare
    ]
    place = {state: at for at, state in enumerate(known)}
    chain, begin = np.zeros((len(known), len(known))), np.zeros(len(known))
    events = [(0, 1.0)] if zone.common is None else list(zone.common.under_way(spare))
    for taken, weight in [(0, 1.0)] if ready else events:
        alone = zone.down(racks - taken)
        j = taken // takes if takes else 0
        for down in [0] if ready else range(spare - taken + 1):
            begin[place[j, down]] = 1.0 if ready else weight * float(alone[down])
    for (j, down), at in place.items():
        lasts = 1.0 if zone.common is None else zone.common.lasts
        for to, rate in (
            ((j, down + 1), (racks - j * takes - down) * fails),
            ((j, down - 1), min(down, crews) / mttr),
            ((j + 1, down), comes),
            ((j - 1, down), j / lasts),
        ):
            chain[at, at] -= rate
            if to in place:
                chain[at, place[to]] += rate
    from scipy.linalg import expm

    return min(1.0, max(0.0, float(begin @ expm(chain * mission).sum(axis=1))))
