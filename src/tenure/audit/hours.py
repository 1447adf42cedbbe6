"""Hour by hour: what each account asked for, was entitled to and held, and what the GPUs did.

Two ways, the same numbers: where no account has a hard limit and no waiting job may choose its cluster,
sums over an hour are sums over its changes; elsewhere the record is read moment by moment. Whoever needs
no hour twice takes them in stretches: hundreds of accounts over years would not lie in memory at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tenure.audit.capacity import Steps
from tenure.audit.moments import CELLS, UGPU, Moments, Sweep, add_up
from tenure.audit.record import Record

Ints = NDArray[np.int64]

CELLS_OF_STRETCH = 1 << 20  #: clusters × accounts × hours: 8 MiB a cube


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
    """All hours at once."""
    (hours,) = stretches(record, cells=max(1, record.n_clusters * record.n_accounts * record.n_hours))
    return hours


def stretches(record: Record, *, cells: int = CELLS_OF_STRETCH) -> Iterator[Hours]:
    """The hours in order, as many together as make a cube of about `cells` cells; at least one `Hours`."""
    width = max(1, cells // (record.n_clusters * record.n_accounts))
    if record.limits or record.masks:
        return hours_by_moments(record, width)
    return hours_by_changes(record, width)


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


def hours_by_changes(record: Record, width: int) -> Iterator[Hours]:
    rows = record.n_clusters * record.n_accounts
    for first in range(0, max(1, record.n_hours), width):
        edges = record.edges[first : first + width + 1]
        shape = (record.n_clusters, record.n_accounts, len(edges) - 1)
        held = over_hours(record.held, rows, edges).reshape(shape)
        demand = over_hours(record.waiting, rows, edges).reshape(shape) + held
        add_up(record.parent, held)
        add_up(record.parent, demand)
        demand *= UGPU
        yield Hours(
            edges,
            record.capacity,
            entitled_by_hour(record, edges),
            demand,
            held,
            over_hours(record.unbudgeted, record.n_clusters, edges),
            over_hours(record.down, record.n_clusters, edges),
        )


def entitled_by_hour(record: Record, hour_edges: Ints) -> Ints:
    """(C, A, H) integrals of shares times healthy GPUs."""
    down, start_s, end_s = record.down, hour_edges[0], hour_edges[-1]
    inside = (down.t > start_s) & (down.t < end_s)
    starts = record.shares.from_s[(record.shares.from_s > start_s) & (record.shares.from_s < end_s)]
    edges = np.unique(np.concatenate([hour_edges, down.t[inside], starts]))
    total = np.zeros((record.n_clusters, record.n_accounts, len(hour_edges) - 1), np.int64)
    healthy = record.capacity[:, None] - over_hours(down, record.n_clusters, edges) // np.diff(edges)
    epochs = np.searchsorted(record.shares.from_s, edges[:-1], side="right") - 1
    hour = np.searchsorted(hour_edges, edges[:-1], side="right") - 1
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


def hours_by_moments(record: Record, width: int) -> Iterator[Hours]:
    sums = HourSums(record, 0, width)
    for moments in Sweep(record).chunks():
        done = 0
        while done < len(moments.hour):
            here = slice(done, int(np.searchsorted(moments.hour, sums.first + width)))
            sums.add(moments, here)
            done = here.stop
            if done < len(moments.hour):
                yield sums.hours()
                sums = HourSums(record, sums.first + width, width)
    yield sums.hours()


class HourSums:
    """Gathers moments into the hours from `first` on, at most `width` of them."""

    def __init__(self, record: Record, first: int, width: int) -> None:
        self.record, self.first = record, first
        self.edges = record.edges[first : first + width + 1]
        cube = (record.n_clusters, record.n_accounts, len(self.edges) - 1)
        flat = (record.n_clusters, len(self.edges) - 1)
        self.entitled, self.demand, self.held = (np.zeros(cube, np.int64) for _ in range(3))
        self.unbudgeted, self.down = (np.zeros(flat, np.int64) for _ in range(2))

    def add(self, moments: Moments, part: slice) -> None:
        length_s, hour = moments.length_s[part], moments.hour[part] - self.first
        for total, levels in (
            (self.entitled, moments.entitled_ugpu),
            (self.demand, moments.demand_ugpu),
            (self.held, moments.held),
            (self.unbudgeted, moments.unbudgeted),
            (self.down, moments.down),
        ):
            add_to_hours(total, levels[..., part] * length_s, hour)

    def hours(self) -> Hours:
        return Hours(
            self.edges,
            self.record.capacity,
            self.entitled,
            self.demand,
            self.held,
            self.unbudgeted,
            self.down,
        )
