"""How did a job end that is on the board no more? The newest ends are kept in mind, others looked up."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from tenure.ledger.ledger import Ledger
from tenure.ledger.records import JobRow
from tenure.settings.live_job import MOST_ELEMENTS

MOST_KEPT = 20_000


class Ends:
    """Call it with a job or an array: its end, "" while it has not ended, None where there is none."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._kept: OrderedDict[str, str] = OrderedDict()

    def __call__(self, job: str) -> str | None:
        """An array has ended when all of it has: `finished` where all did, else the first other end."""
        if job in self._kept:
            return self._kept[job]
        row = self._ledger.job(job)
        rows = [row] if row is not None else self._ledger.jobs(array=job, limit=MOST_ELEMENTS)
        ends = [one.end for one in rows]
        if not ends or "" in ends:
            return "" if ends else None
        self._keep(job, next((end for end in ends if end != "finished"), "finished"))
        return self._kept[job]

    def add(self, rows: Iterable[JobRow]) -> None:
        """Rows that have been recorded now."""
        for row in rows:
            if row.end:
                self._keep(row.job, row.end)

    def clear(self) -> None:
        """Nothing is known: another server may have written."""
        self._kept.clear()

    def _keep(self, job: str, end: str) -> None:
        self._kept[job] = end
        if len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)


__all__ = ["Ends"]
