"""What has happened since the last turn, as rows for the core: each with its instant, in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tenure.core.live import NEWS, News
from tenure.core.tables import Table, empty
from tenure.core.words import NONE

ROW = tuple(NEWS.names or ())
ARRIVALS = (News.SUBMIT, News.HOLD_NEW)


class Gathered:
    """News of one turn, and the notes they point at."""

    def __init__(self) -> None:
        self.notes: list[dict[str, Any]] = []
        self._rows: list[tuple[tuple[int, ...], dict[str, int]]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def note(self, **told: Any) -> int:
        """A note's row; NONE where there is nothing to tell."""
        kept = {key: value for key, value in told.items() if value not in (None, "")}
        if not kept:
            return NONE
        self.notes.append(kept)
        return len(self.notes) - 1

    def add(self, t: int, what: int, row: int, *, place: Iterable[int] = (), **columns: int) -> None:
        """One piece of news. `place` sorts those of one instant and kind; else they stay in order."""
        told = {"t": t, "what": what, "row": row, "cluster": NONE, "note": NONE, "saved_s": NONE} | columns
        turn_of = (0, *place) if what == News.ENDED else (2 if what in ARRIVALS else 1,)
        self._rows.append(((t, *turn_of), told))

    def table(self) -> Table:
        """NEWS in the order in which the core takes them."""
        order = sorted(range(len(self._rows)), key=lambda k: (self._rows[k][0], k))
        table = empty(len(order) + 1, NEWS)  # one row more: a kernel never sees an empty table
        for k, at in enumerate(order):
            for name, value in self._rows[at][1].items():
                table[name][k] = value
        return table


def plain(table: Table, n: int, notes: Sequence[Mapping[str, Any]], *, deciding: bool) -> list[Any]:
    """News as JSON holds them: names of the columns, rows, notes, and whether a decision follows."""
    rows = [list(row) for row in table[:n].tolist()]
    return [list(ROW), rows, [dict(note) for note in notes], deciding]


def from_plain(told: Sequence[Any]) -> tuple[Table, int, list[dict[str, Any]], bool]:
    """(NEWS, how many, notes, deciding) of what `plain` gave."""
    names, rows, notes, deciding = told
    table = empty(len(rows) + 1, NEWS, cluster=NONE, note=NONE, saved_s=NONE)
    for column, name in enumerate(names):
        if name in ROW:
            table[name][: len(rows)] = np.array([row[column] for row in rows], np.int64)
    return table, len(rows), [dict(note) for note in notes], bool(deciding)


__all__ = ["Gathered", "from_plain", "plain"]
