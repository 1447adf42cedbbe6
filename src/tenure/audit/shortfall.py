"""Why an account did not get what it was owed: every missing hour has its causes, and they sum to it.

The shortfall of a leaf in an hour is `owed - min(delivered, owed)`. At each moment of the hour its *gap* is
what it holds less than both its demand and its entitlement, in GPUs. The gap is filled from, in this order:

1. `node_down`: what its jobs ask for whose last attempt ended with its node, and that wait to start again;
2. `own_limit`: all of it, where no waiting job fits under the account's hard limit, or one above it;
3. `held_for_gang`: idle GPUs, up to what jobs with a promise or a claim will take;
4. `shape`: the other idle GPUs and those of unbudgeted work: there for the taking, yet no place;
5. `protection_of_others`: GPUs that others hold beyond their entitlement, within protection or grace;
6. `catch_up_of_others`: GPUs that others hold beyond their entitlement past protection: by the order of
   targets they are repaid, or a large job of theirs runs on.

What 3 to 6 offer is shared by the accounts with a gap in proportion to it, so no GPU explains two gaps. All
of them together are never less than the gaps; what rounding leaves is `shape`. The causes of the moments,
by their length, then divide the hour's shortfall (largest remainder, whole micro-GPU-seconds). An hour may
fall short without such a moment (owed is a minimum of averages); its waiting work then stands for the gap.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tenure.audit.hours import Hours, add_to_hours
from tenure.audit.moments import UGPU, Moments
from tenure.audit.record import Record
from tenure.audit.rounding import apportion

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

CAUSES = (
    "node_down",
    "own_limit",
    "held_for_gang",
    "shape",
    "protection_of_others",
    "catch_up_of_others",
)
NODE_DOWN, OWN_LIMIT, HELD_FOR_GANG, SHAPE, PROTECTION, CATCH_UP = range(6)
UGPU_H = UGPU * 3600
FAINT = 1e-9  #: waiting work beyond the gap: it weighs only where there is no gap in the whole hour


class Shortfalls:
    """Gathers causes moment by moment; `parts` divides each hour's shortfall by them."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.rows = record.leaves
        self.weights = np.zeros((len(CAUSES), len(self.rows), record.n_hours))

    def add(self, moments: Moments) -> None:
        for cluster in range(self.record.n_clusters):
            causes = self._causes(moments, cluster)
            add_to_hours(self.weights, causes * moments.length_s, moments.hour)

    def _causes(self, moments: Moments, cluster: int) -> Floats:
        """(causes, leaves, moments) micro-GPUs."""
        rows = self.rows
        held = moments.held[cluster, rows] * UGPU
        entitled, demand = moments.entitled_ugpu[cluster, rows], moments.demand_ugpu[cluster, rows]
        gap = np.maximum(np.minimum(demand, entitled) - held, 0) + FAINT * np.maximum(demand - held, 0)
        causes = np.zeros((len(CAUSES), *gap.shape))
        if not gap.any():
            return causes
        over = np.maximum(held - entitled, 0)
        protected = np.minimum(over, moments.more["protected"][cluster, rows] * UGPU)
        unbudgeted, whole = moments.unbudgeted[cluster], self.record.capacity[cluster]
        idle = whole - moments.down[cluster] - unbudgeted - moments.held[cluster, 0]
        pledged = np.minimum(idle, moments.more["pledged"][cluster])
        causes[NODE_DOWN] = np.minimum(gap, moments.more["failed"][cluster, rows] * UGPU)
        left = gap - causes[NODE_DOWN]
        causes[OWN_LIMIT] = np.where(moments.more["blocked"][rows], left, 0)
        left -= causes[OWN_LIMIT]
        for cause, offered in (
            (HELD_FOR_GANG, pledged * UGPU),
            (SHAPE, (idle - pledged + unbudgeted) * UGPU),
            (PROTECTION, protected.sum(axis=0)),
            (CATCH_UP, (over - protected).sum(axis=0)),
        ):
            causes[cause] = shared(left, offered)
            left -= causes[cause]
        causes[SHAPE] += np.maximum(left, 0)
        return causes

    def parts(self, hours: Hours) -> Ints:
        """(leaves, hours, causes) micro-GPU-seconds; over the causes they sum to the shortfall."""
        owed, delivered = hours.owed_ugpu_s[self.rows], hours.delivered_ugpu_s[self.rows]
        missing = owed - np.minimum(owed, delivered)
        return apportion(missing, np.moveaxis(self.weights, 0, -1), otherwise=SHAPE)


def shared(wanted: Floats, offered: Ints) -> Floats:
    """(rows, moments) what each gets of what is offered (moments,), in proportion to what it wants."""
    total = wanted.sum(axis=0)
    got: Floats = wanted * np.divide(
        np.minimum(offered, total), total, out=np.zeros(len(total)), where=total > 0
    )
    return got


def shortfall_table(record: Record, parts: Ints) -> dict[str, Any]:
    """{total_gpu_h, causes {cause: GPU-hours}, accounts {path: {total_gpu_h, causes}}}, leaves only."""
    by_leaf = parts.sum(axis=1)
    return _told(by_leaf.sum(axis=0)) | {
        "accounts": {
            record.story.accounts[row].path: _told(by_leaf[place]) for place, row in enumerate(record.leaves)
        }
    }


def _told(ugpu_s: Ints) -> dict[str, Any]:
    causes = {cause: int(part) / UGPU_H for cause, part in zip(CAUSES, ugpu_s, strict=True)}
    return {"total_gpu_h": int(ugpu_s.sum()) / UGPU_H, "causes": causes}
