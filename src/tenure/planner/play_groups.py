"""Groups that recover apart, played failure by failure: what the closed forms are held against."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tenure.planner.groups import Groups

Array = NDArray[np.float64]


def play_groups(rng: np.random.Generator, groups: Groups, mtbf: float, span: float, fewest: int = 1) -> float:
    """The part of the work done in `span` of wall time that groups without failures would have done.

    Failures come by chance, `mtbf` apart on average over the whole job, whatever goes on; each strikes one
    group. With fewer than `fewest` groups present the job stands still.
    """
    times = np.sort(rng.random(rng.poisson(span / mtbf)) * span)
    struck = rng.integers(groups.count, size=len(times))
    stalls = merged(times, times + groups.stall, span)
    away = [merged(times[struck == g], times[struck == g] + groups.away, span) for g in range(groups.count)]
    starts, ends = (np.concatenate([part[side] for part in away]) for side in (0, 1))
    instants = np.concatenate([[0.0], starts, ends, stalls[0], stalls[1], [span]])
    n = len(starts)
    gone = np.concatenate([[0], np.ones(n), -np.ones(n), np.zeros(2 * len(stalls[0]) + 1)])
    still = np.concatenate([[0], np.zeros(2 * n), np.ones(len(stalls[0])), -np.ones(len(stalls[1])), [0]])
    order = np.argsort(instants, kind="stable")
    lasts = np.diff(instants[order])
    present = groups.count - gone[order].cumsum()[:-1]
    works = (still[order].cumsum()[:-1] == 0) & (present >= fewest)
    return float((lasts * present * works).sum() / (groups.count * span))


def merged(starts: Array, ends: Array, span: float) -> tuple[Array, Array]:
    """Intervals in order of their starts, those that overlap joined, cut at `span`."""
    if not len(starts):
        return starts, ends
    reach = np.maximum.accumulate(ends)
    first = np.concatenate([[True], starts[1:] > reach[:-1]])
    last = np.concatenate([first[1:], [True]])
    return starts[first], np.minimum(reach[last], span)
