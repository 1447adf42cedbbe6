"""Hour by hour: what each account asked for, was entitled to and held, and what the GPUs did.

Two ways, the same numbers: where no account has a hard limit and no waiting job may choose its cluster,
sums over an hour are sums over its changes; elsewhere the record is read moment by moment.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tenure.audit.capacity import Steps
from tenure.audit.moments import CELLS, UGPU, Moments, Sweep, add_up
from tenure.audit.record import Record

Ints = NDArray[np.int64]


class Hours(NamedTuple):
    """Exact integrals. (C, A, H) = (clusters, accounts, hours); inner accounts hold the sums below them."""

    edges: Ints  #: (H + 1,) seconds; the first and last hour may be partial
    capacity: Ints  #: (C,) GPUs
    entitled_ugpu_s: Ints  #: (C, A, H)
    demand_ugpu_s: Ints  #: (C, A, H)
    held_gpu_s: Ints  #: (C, A, H) of budgeted attempts
    unbudgeted_gpu_s: Ints  #: (C, H)
    down_gpu_s: Ints  #: (C, H)

    @property
    def owed_ugpu_s(self) -> Ints:
        """(A, H): in each hour and cluster no more than was asked for, no more than it was entitled to."""
        owed: Ints = np.minimum(self.demand_ugpu_s, self.entitled_ugpu_s).sum(axis=0)
        return owed

    @property
    def delivered_ugpu_s(self) -> Ints:
        """(A, H)."""
        delivered: Ints = self.held_gpu_s.sum(axis=0) * UGPU
        return delivered

    @property
    def capacity_gpu_s(self) -> Ints:
        """(C, H)."""
        whole: Ints = self.capacity[:, None] * np.diff(self.edges)
        return whole

    @property
    def idle_gpu_s(self) -> Ints:
        """(C, H). Row 0 of the accounts is the root: it holds the sum of all."""
        idle: Ints = self.capacity_gpu_s - self.down_gpu_s - self.unbudgeted_gpu_s - self.held_gpu_s[:, 0, :]
        return idle


def hours_of(record: Record) -> Hours:
    if record.limits or record.masks:
        return hours_by_moments(record)
    return hours_by_changes(record)


def over_hours(steps: Steps, n_rows: int, edges: Ints) -> Ints:
    """(rows, hours) integrals of step functions: in each hour the level at its start times its length, and
    each change times the rest of its hour."""
    n_hours = len(edges) - 1
    if n_hours == 0:
        return np.zeros((n_rows, 0), np.int64)
    inside = steps.t < edges[-1]
    t, row, delta = np.maximum(steps.t[inside], edges[0]), steps.row[inside], steps.delta[inside]
    hour = np.searchsorted(edges, t, side="right") - 1
    cell, shape = row * n_hours + hour, n_rows * n_hours
    # whole numbers far below 2^53: exact as floats
    change = np.bincount(cell, weights=delta, minlength=shape).astype(np.int64).reshape(n_rows, n_hours)
    rest = np.bincount(cell, weights=delta * (edges[hour + 1] - t), minlength=shape).astype(np.int64)
    before = np.cumsum(change, axis=1) - change
    whole: Ints = before * np.diff(edges) + rest.reshape(n_rows, n_hours)
    return whole


def hours_by_changes(record: Record) -> Hours:
    shape = (record.n_clusters, record.n_accounts, record.n_hours)
    rows = record.n_clusters * record.n_accounts
    held = over_hours(record.held, rows, record.edges).reshape(shape)
    demand = over_hours(record.waiting, rows, record.edges).reshape(shape) + held
    add_up(record.parent, held)
    add_up(record.parent, demand)
    return Hours(
        record.edges,
        record.capacity,
        entitled_by_hour(record),
        demand * UGPU,
        held,
        over_hours(record.unbudgeted, record.n_clusters, record.edges),
        over_hours(record.down, record.n_clusters, record.edges),
    )


def entitled_by_hour(record: Record) -> Ints:
    """(C, A, H) integrals of shares times healthy GPUs."""
    span, down = record.span, record.down
    inside = (down.t > span.start_s) & (down.t < span.end_s)
    starts = record.shares.from_s[(record.shares.from_s > span.start_s) & (record.shares.from_s < span.end_s)]
    edges = np.unique(np.concatenate([record.edges, down.t[inside], starts]))
    total = np.zeros((record.n_clusters, record.n_accounts, record.n_hours), np.int64)
    healthy = record.capacity[:, None] - over_hours(down, record.n_clusters, edges) // np.diff(edges)
    epochs = np.searchsorted(record.shares.from_s, edges[:-1], side="right") - 1
    hour = np.searchsorted(record.edges, edges[:-1], side="right") - 1
    width = max(64, CELLS // (record.n_clusters * record.n_accounts))
    for first in range(0, len(edges) - 1, width):
        part = slice(first, first + width)
        entitled = record.shares.entitled_ugpu(epochs[part], healthy[:, part])
        add_to_hours(total, entitled * np.diff(edges)[part], hour[part])
    return total


def add_to_hours(total: NDArray[Any], part: NDArray[Any], hour: Ints) -> None:
    """Add moments (…, M) to the hours (…, H) they lie in; `hour` does not fall."""
    first = np.flatnonzero(np.diff(hour, prepend=-1))
    if len(first):
        total[..., hour[first]] += np.add.reduceat(part, first, axis=-1)


def hours_by_moments(record: Record) -> Hours:
    sums = HourSums(record)
    for moments in Sweep(record).chunks():
        sums.add(moments)
    return sums.hours()


class HourSums:
    """Gathers moments into hours."""

    def __init__(self, record: Record) -> None:
        cube = (record.n_clusters, record.n_accounts, record.n_hours)
        flat = (record.n_clusters, record.n_hours)
        self.record = record
        self.entitled, self.demand, self.held = (np.zeros(cube, np.int64) for _ in range(3))
        self.unbudgeted, self.down = (np.zeros(flat, np.int64) for _ in range(2))

    def add(self, moments: Moments) -> None:
        length_s, hour = moments.length_s, moments.hour
        add_to_hours(self.entitled, moments.entitled_ugpu * length_s, hour)
        add_to_hours(self.demand, moments.demand_ugpu * length_s, hour)
        add_to_hours(self.held, moments.held * length_s, hour)
        add_to_hours(self.unbudgeted, moments.unbudgeted * length_s, hour)
        add_to_hours(self.down, moments.down * length_s, hour)

    def hours(self) -> Hours:
        return Hours(
            self.record.edges,
            self.record.capacity,
            self.entitled,
            self.demand,
            self.held,
            self.unbudgeted,
            self.down,
        )
