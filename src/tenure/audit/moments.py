"""The record moment by moment: between two changes nothing changes, so a moment is as long as that.

Moments come in chunks, as matrices (clusters, accounts, moments). Inner accounts hold the sums of those
below. GPUs held are whole; what is asked for and entitled is in micro-GPUs.

Demand: the GPUs of budgeted jobs that run, and of those that wait, are not on hold and could run on the
cluster if it were empty and whole. Beyond an account's own hard limit, or one above it, nothing is asked.
A waiting job that may run on several clusters asks once: where its account is furthest below what it is
entitled to at that moment, GPU by GPU, so that two clusters may share one such demand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tenure.audit.capacity import Steps
from tenure.audit.record import Record
from tenure.audit.sorting import distinct

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

UGPU = 1_000_000
CELLS = 1 << 18  #: of one matrix: small enough for many of them to lie in the processor's cache


class Levels:
    """Step functions read forward, a stretch of moments at a time."""

    def __init__(self, steps: Steps, n_rows: int, edges: Ints) -> None:
        at = np.maximum(np.searchsorted(edges, steps.t, side="right") - 1, 0)
        inside = at < len(edges) - 1
        order = np.argsort(at[inside], kind="stable")
        # half the width: several million changes of several kinds lie in memory together
        self.at, self.row, self.delta = (
            column[inside][order].astype(np.int32) for column in (at, steps.row, steps.delta)
        )
        self.level = np.zeros(n_rows, np.int64)

    def over(self, first: int, last: int) -> Ints:
        """(rows, last - first) levels in these moments; to be asked for in order."""
        width = last - first
        lo, hi = np.searchsorted(self.at, [first, last])
        cell = self.row[lo:hi].astype(np.int64) * width + (self.at[lo:hi] - first)
        # whole numbers far below 2^53: exact as floats
        grid = np.bincount(cell, weights=self.delta[lo:hi], minlength=len(self.level) * width)
        levels = grid.astype(np.int64).reshape(len(self.level), width)
        levels[:, 0] += self.level
        np.cumsum(levels, axis=1, out=levels)
        self.level = levels[:, -1].copy()
        return levels


@dataclass
class Moments:
    """A chunk of moments. (C, A, M) = (clusters, accounts, moments)."""

    t: Ints  #: (M + 1,) edges
    hour: Ints  #: (M,) hour of the span
    held: Ints  #: (C, A, M) GPUs of budgeted attempts
    demand_ugpu: Ints  #: (C, A, M)
    entitled_ugpu: Ints  #: (C, A, M)
    unbudgeted: Ints  #: (C, M)
    down: Ints  #: (C, M)
    more: dict[str, Ints | Bools] = field(default_factory=dict)

    @property
    def length_s(self) -> Ints:
        return np.diff(self.t)


class Sweep:
    """Reads a record forward. With `causes`, what explains a shortfall comes along in `Moments.more`:

    `protected` (C, A, M) GPUs, `failed` (C, A, M) GPUs asked for by jobs whose node died, `pledged` (C, M)
    GPUs promised or claimed, `blocked` (A, M) whether no waiting job fits under the account's limits.
    """

    def __init__(self, record: Record, *, causes: bool = False) -> None:
        self.record, self.causes = record, causes
        clusters, accounts = record.n_clusters, record.n_accounts
        rows = clusters * accounts
        kinds = {
            "held": (record.held, rows),
            "waiting": (record.waiting, rows),
            "anywhere": (record.waiting_anywhere, len(record.masks) * accounts),
            "unbudgeted": (record.unbudgeted, clusters),
            "down": (record.down, clusters),
        }
        if causes:
            kinds |= {
                "protected": (record.protected, rows),
                "failed": (record.waiting_after_failure, rows),
                "pledged": (record.pledged, clusters),
            }
            self.sizes = distinct(record.gpus[record.phases.job[record.asking]])
            if record.limits:
                kinds["sizes"] = (record.waiting_by_size(self.sizes), len(self.sizes) * accounts)
        span = record.span
        times = [record.edges, record.shares.from_s, record.story.events["t"]]
        if causes:
            times.append(record.attempts.protected_until_s)
        changes = distinct(np.concatenate(times))
        self.edges = changes[(changes >= span.start_s) & (changes <= span.end_s)]
        self.levels = {name: Levels(steps, n, self.edges) for name, (steps, n) in kinds.items() if n}

    def chunks(self) -> Iterator[Moments]:
        record = self.record
        width = max(64, CELLS // max(1, record.n_clusters * record.n_accounts))
        for first in range(0, len(self.edges) - 1, width):
            last = min(first + width, len(self.edges) - 1)
            yield self._moments(first, last)

    def _cube(self, name: str, first: int, last: int) -> Ints:
        record = self.record
        shape = (-1, record.n_accounts, last - first)
        return self.levels[name].over(first, last).reshape(shape)

    def _moments(self, first: int, last: int) -> Moments:
        record = self.record
        t = self.edges[first : last + 1]
        down = self.levels["down"].over(first, last)
        epochs = np.searchsorted(record.shares.from_s, t[:-1], side="right") - 1
        entitled = record.shares.entitled_ugpu(epochs, record.capacity[:, None] - down)
        held = self._cube("held", first, last)
        own = held.copy()
        add_up(record.parent, held)
        waiting = self._cube("waiting", first, last) * UGPU
        flexible = self._cube("anywhere", first, last) * UGPU if record.masks else None
        room = self._room(held) if record.limits else None
        if room is not None:
            waiting, flexible = cut_to_room(waiting, flexible, room * UGPU)
        demand = own * UGPU + waiting
        if flexible is not None:
            place_flexible(demand, flexible, entitled, record.masks)
        self._sum_demand(demand, held, room)
        moments = Moments(
            t,
            np.searchsorted(record.edges, t[:-1], side="right") - 1,
            held,
            demand,
            entitled,
            self.levels["unbudgeted"].over(first, last),
            down,
        )
        if self.causes:
            moments.more = self._causes(first, last, room)
        return moments

    def _room(self, held: Ints) -> Ints:
        """(A, M) GPUs an account may still start under the limits of its line; a large number if none.

        Unbudgeted work makes way for its own account, so it takes no room here.
        """
        whole = held.sum(axis=0)
        room = np.full(whole.shape, np.iinfo(np.int64).max // UGPU)
        for row in range(self.record.n_accounts):
            parent = self.record.parent[row]
            if parent >= 0:
                room[row] = room[parent]
            if row in self.record.limits:
                room[row] = np.minimum(room[row], np.maximum(self.record.limits[row] - whole[row], 0))
        return room

    def _sum_demand(self, demand: Ints, held: Ints, room: Ints | None) -> None:
        """Add each account's demand to its parent's, an account under a limit up to that limit."""
        for row in range(self.record.n_accounts - 1, 0, -1):
            if row in self.record.limits and room is not None:
                left = room[row] * UGPU
                for cluster in range(len(demand)):
                    beyond = np.minimum(demand[cluster, row] - held[cluster, row] * UGPU, left)
                    demand[cluster, row] = held[cluster, row] * UGPU + beyond
                    left = left - beyond
            demand[:, self.record.parent[row]] += demand[:, row]

    def _causes(self, first: int, last: int, room: Ints | None) -> dict[str, Ints | Bools]:
        blocked = np.zeros((self.record.n_accounts, last - first), bool)
        if room is not None and "sizes" in self.levels:
            smallest = np.zeros(blocked.shape, np.int64)  # 0: none waits, or there is no limit above it
            counts = self._cube("sizes", first, last)
            for size, count in zip(self.sizes[::-1].tolist(), counts[::-1], strict=True):
                smallest = np.where(count > 0, size, smallest)
            blocked = room < smallest
        return {
            "protected": self._cube("protected", first, last),
            "failed": self._cube("failed", first, last),
            "pledged": self.levels["pledged"].over(first, last),
            "blocked": blocked,
        }


def add_up(parent: Ints, cube: Ints) -> None:
    """Add each account's row to its parent's, from the leaves up; children stand after their parents."""
    for row in range(len(parent) - 1, 0, -1):
        cube[:, parent[row]] += cube[:, row]


def cut_to_room(waiting: Ints, flexible: Ints | None, room_ugpu: Ints) -> tuple[Ints, Ints | None]:
    """What waits, cluster by cluster, then what may run on several, up to the room left."""
    left = room_ugpu
    parts = [waiting] if flexible is None else [waiting, flexible]
    cut = []
    for part in parts:
        part = part.copy()
        for row in range(len(part)):
            part[row] = np.minimum(part[row], left)
            left = left - part[row]
        cut.append(part)
    return cut[0], (cut[1] if len(cut) > 1 else None)


def place_flexible(demand: Ints, flexible: Ints, entitled: Ints, masks: list[int]) -> None:
    """Add each mask's demand where the account's gap is largest, then the next; the rest to the first."""
    for nth, bits in enumerate(masks):
        clusters = [c for c in range(len(demand)) if bits >> c & 1]
        left = flexible[nth].copy()
        if not left.any():
            continue
        gaps = np.maximum(entitled[clusters] - demand[clusters], 0)
        order = np.argsort(-gaps, axis=0, kind="stable")
        for rank in range(len(clusters)):
            for place, cluster in enumerate(clusters):
                take = np.where(order[rank] == place, np.minimum(gaps[place], left), 0)
                demand[cluster] += take
                left -= take
        demand[clusters[0]] += left
