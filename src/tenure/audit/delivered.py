"""Owed and delivered: what each account should have had, and had."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tenure.audit.hours import Hours
from tenure.audit.moments import UGPU
from tenure.audit.record import Record

Ints = NDArray[np.int64]

UGPU_H = UGPU * 3600


def part(of: int, whole: int) -> float | None:
    """`of / whole`; None where nothing was owed."""
    return of / whole if whole else None


class Delivery:
    """Sums over the span and strict sums by the hour, in micro-GPU-seconds; row: account."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.owed, self.delivered, self.in_time, self.demand, self.entitled = (
            np.zeros(record.n_accounts, np.int64) for _ in range(5)
        )

    def add(self, hours: Hours) -> None:
        """Add a stretch of hours."""
        owed, delivered = hours.owed_ugpu_s, hours.delivered_ugpu_s
        self.owed += owed.sum(axis=1)
        self.delivered += delivered.sum(axis=1)
        self.in_time += np.minimum(owed, delivered).sum(axis=1)
        self.demand += hours.demand_ugpu_s.sum(axis=(0, 2))
        self.entitled += hours.entitled_ugpu_s.sum(axis=(0, 2))

    def among(self, rows: Ints) -> dict[str, float | None]:
        """Total and worst over these accounts; those owed nothing are left out."""
        rows = rows[self.owed[rows] > 0]
        owed, delivered, in_time = self.owed[rows], self.delivered[rows], self.in_time[rows]
        worst = [int(d) / int(o) for d, o in zip(delivered, owed, strict=True)]
        return {
            "total": part(int(np.minimum(delivered, owed).sum()), int(owed.sum())),
            "worst": min(1.0, min(worst)) if worst else None,
            "worst_uncapped": min(worst, default=None),
            "hourly": part(int(in_time.sum()), int(owed.sum())),
            "hourly_worst": min((int(i) / int(o) for i, o in zip(in_time, owed, strict=True)), default=None),
        }

    def account(self, row: int) -> dict[str, float | None]:
        owed, delivered = int(self.owed[row]), int(self.delivered[row])
        return {
            "owed_gpu_h": owed / UGPU_H,
            "delivered_gpu_h": delivered / UGPU_H,
            "demand_gpu_h": int(self.demand[row]) / UGPU_H,
            "entitled_gpu_h": int(self.entitled[row]) / UGPU_H,
            "ratio": part(min(delivered, owed), owed),
            "hourly_ratio": part(int(self.in_time[row]), owed),
        }

    def programs(self) -> Ints:
        """Inner accounts directly below the root."""
        parent = self.record.parent
        inner = set(parent.tolist())
        return np.array([r for r in range(1, len(parent)) if parent[r] == 0 and r in inner], np.int64)

    def measures(self) -> dict[str, Any]:
        accounts = self.record.story.accounts
        return {
            **self.among(self.record.leaves),
            "accounts": {accounts[row].path: self.account(row) for row in range(1, len(accounts))},
            "programs": self.among(self.programs()),
        }
