"""Hour by hour, for charts: averages of each hour, in GPUs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tenure.audit.hours import Hours
from tenure.audit.moments import UGPU
from tenure.audit.record import Record

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Series:
    """(H,) hours; (A, H) accounts in the order of `paths`, inner ones too. All in GPUs."""

    edges_s: NDArray[np.int64]  #: (H + 1,); the first and last hour may be partial
    paths: list[str]
    owed: Floats  #: (A, H)
    delivered: Floats  #: (A, H)
    entitled: Floats  #: (A, H)
    demand: Floats  #: (A, H)
    capacity: Floats  #: (H,)
    down: Floats  #: (H,)
    idle: Floats  #: (H,)
    budgeted: Floats  #: (H,)
    unbudgeted: Floats  #: (H,)


def series_of(record: Record, hours: Hours) -> Series:
    length_s = np.diff(hours.edges)
    micro = UGPU * length_s

    def whole(gpu_s: NDArray[np.int64]) -> Floats:
        averages: Floats = gpu_s.sum(axis=0) / length_s
        return averages

    return Series(
        edges_s=hours.edges,
        paths=[account.path for account in record.story.accounts[1:]],
        owed=hours.owed_ugpu_s[1:] / micro,
        delivered=hours.delivered_ugpu_s[1:] / micro,
        entitled=hours.entitled_ugpu_s.sum(axis=0)[1:] / micro,
        demand=hours.demand_ugpu_s.sum(axis=0)[1:] / micro,
        capacity=whole(hours.capacity_gpu_s),
        down=whole(hours.down_gpu_s),
        idle=whole(hours.idle_gpu_s),
        budgeted=whole(hours.held_gpu_s[:, 0, :]),
        unbudgeted=whole(hours.unbudgeted_gpu_s),
    )
