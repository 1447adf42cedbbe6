"""One table: what each account was entitled to, and what became of it.

Moment by moment, in each cluster: *borrowed* is what an account holds beyond its entitlement; the part of
its entitlement that it does not hold is *lent* as far as others (budgeted or not) use it, *idle* otherwise.
Whose unused part the users have, nobody can say; so at each moment all unused parts, and what the shares
leave unassigned, are lent to the same degree. Hence, exactly:

    each row       entitled = delivered - borrowed + lent + idle
    all rows       entitled + unassigned + down = capacity
                   delivered + unbudgeted + idle + down = capacity
                   borrowed + unbudgeted = lent
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tenure.audit.hours import Hours
from tenure.audit.moments import UGPU, Moments
from tenure.audit.record import Record
from tenure.audit.rounding import fill_up

Ints = NDArray[np.int64]

UGPU_H = UGPU * 3600
COLUMNS = ("entitled", "demand", "owed", "delivered", "borrowed", "lent", "idle")


class LedgerSums:
    """Gathers what was borrowed, unused and lent; (C, L) = (clusters, leaves), the last row unassigned."""

    def __init__(self, record: Record) -> None:
        self.record = record
        shape = (record.n_clusters, len(record.leaves) + 1)
        self.borrowed, self.unused = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        self.lent = np.zeros(shape)

    def add(self, moments: Moments) -> None:
        rows, length_s = self.record.leaves, moments.length_s
        for cluster, whole in enumerate(self.record.capacity.tolist()):
            held = moments.held[cluster, rows] * UGPU
            entitled = moments.entitled_ugpu[cluster, rows]
            over = np.maximum(held - entitled, 0)
            healthy = (whole - moments.down[cluster]) * UGPU
            unassigned = healthy - entitled.sum(axis=0)
            unused = np.concatenate([np.maximum(entitled - held, 0), unassigned[None]])
            used = over.sum(axis=0) + moments.unbudgeted[cluster] * UGPU
            there = unused.sum(axis=0)
            degree = np.divide(used, there, out=np.zeros(len(used)), where=there > 0)
            self.borrowed[cluster, :-1] += over @ length_s
            self.unused[cluster] += unused @ length_s
            self.lent[cluster] += (unused * degree) @ length_s


def ledger_table(record: Record, hours: Hours, sums: LedgerSums) -> dict[str, Any]:
    """{capacity_gpu_h, down_gpu_h, unbudgeted_gpu_h, unassigned {…}, accounts {path: {…_gpu_h}}, total {…}}.

    Every account is there, inner ones with the sums below them (their `owed` is their own: it may be less
    than the sum, as one may need what the other cannot use). `total` sums leaves. Prices give `cost`s.
    """
    exact = exact_ledger(record, hours, sums)
    accounts = record.story.accounts
    price = prices(record)
    held_gpu_s = hours.held_gpu_s.sum(axis=2)
    table: dict[str, Any] = {"accounts": {}}
    for row in range(1, len(accounts)):
        entry = {f"{name}_gpu_h": int(exact[name][row]) / UGPU_H for name in COLUMNS}
        entry["inner"] = row not in record.leaves
        if price is not None:
            entry["cost"] = cost(held_gpu_s[:, row], price)
        table["accounts"][accounts[row].path] = entry
    table["total"] = {f"{name}_gpu_h": int(exact[name][record.leaves].sum()) / UGPU_H for name in COLUMNS}
    table["unassigned"] = {
        f"{name}_gpu_h": int(exact["unassigned"][name]) / UGPU_H for name in ("entitled", "lent", "idle")
    }
    whole = {
        "capacity": hours.capacity_gpu_s,
        "down": hours.down_gpu_s,
        "unbudgeted": hours.unbudgeted_gpu_s,
        "idle": hours.idle_gpu_s,
        "budgeted": hours.held_gpu_s[:, 0, :],
    }
    for name, gpu_s in whole.items():
        table[f"{name}_gpu_h"] = int(gpu_s.sum()) / 3600
        if price is not None:
            table.setdefault("costs", {})[name] = cost(gpu_s.sum(axis=1), price)
    return table


def exact_ledger(record: Record, hours: Hours, sums: LedgerSums) -> dict[str, Any]:
    """The columns in whole micro-GPU-seconds, a row an account; `unassigned` {entitled, lent, idle}."""
    leaves, n = record.leaves, record.n_accounts
    lent = np.zeros(sums.unused.shape, np.int64)
    unbudgeted = hours.unbudgeted_gpu_s.sum(axis=1) * UGPU
    for cluster in range(record.n_clusters):
        used = int(sums.borrowed[cluster].sum() + unbudgeted[cluster])
        lent[cluster] = fill_up(used, sums.lent[cluster], sums.unused[cluster])
    idle = sums.unused - lent
    columns: dict[str, Any] = {
        "entitled": hours.entitled_ugpu_s.sum(axis=(0, 2)),
        "demand": hours.demand_ugpu_s.sum(axis=(0, 2)),
        "owed": hours.owed_ugpu_s.sum(axis=1),
        "delivered": hours.delivered_ugpu_s.sum(axis=1),
    }
    for name, found in (("borrowed", sums.borrowed), ("lent", lent), ("idle", idle)):
        column = np.zeros(n, np.int64)
        column[leaves] = found[:, :-1].sum(axis=0)
        columns[name] = _with_inner(record, column)
    columns["entitled"][_inner_rows(record)] = 0
    columns["entitled"] = _with_inner(record, columns["entitled"])
    columns["unassigned"] = {
        "entitled": int(sums.unused[:, -1].sum()),
        "lent": int(lent[:, -1].sum()),
        "idle": int(idle[:, -1].sum()),
    }
    return columns


def _inner_rows(record: Record) -> Ints:
    return np.setdiff1d(np.arange(record.n_accounts), record.leaves)


def _with_inner(record: Record, column: Ints) -> Ints:
    column = column.copy()
    for row in range(record.n_accounts - 1, 0, -1):
        column[record.parent[row]] += column[row]
    return column


def prices(record: Record) -> list[float | None] | None:
    """Price of a GPU-hour by cluster; None where none is given."""
    given = list(record.story.prices)
    return given if any(price is not None for price in given) else None


def cost(gpu_s: Iterable[int], price: list[float | None]) -> float:
    """What these GPU-seconds of each cluster cost; a cluster without a price costs nothing."""
    return sum(int(s) / 3600 * (p or 0.0) for s, p in zip(gpu_s, price, strict=True))
