"""A log of incidents as people keep it: CSV with a time, a node and a cause a row."""

from __future__ import annotations

import csv
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from tenure.settings.errors import BadInput, shown
from tenure.settings.units import instant, number

COLUMNS = ("time", "node", "cause")
MOST_ROWS = 5_000_000


class Incidents(NamedTuple):
    """Rows in the order of the file; times in seconds (since 1970 where they are dates)."""

    times_s: list[float]
    nodes: list[str]
    causes: list[str]

    def of_causes(self) -> dict[str, int]:
        """How many of each cause."""
        return dict(Counter(self.causes))

    def of_nodes(self) -> dict[str, int]:
        """How many of each node that had any."""
        return dict(Counter(node for node in self.nodes if node))


def read_incidents(path: Path) -> Incidents:
    """The rows of a file with a head `time,node,cause` (others are passed over). BadInput names the line."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as problem:
        raise BadInput(str(path), "", str(problem).split(": ")[0], "a CSV file that can be read") from None
    rows = csv.DictReader(text.splitlines())
    missing = [name for name in COLUMNS if name not in (rows.fieldnames or ())]
    if missing:
        found = ", ".join(rows.fieldnames or ()) or "nothing"
        raise BadInput(str(path), "line 1", f"the columns {found}", f"a head with {', '.join(COLUMNS)}")
    told = Incidents([], [], [])
    for row in rows:
        where = f"line {rows.line_num}"
        if len(told.times_s) >= MOST_ROWS:
            raise BadInput(str(path), where, "more rows", f"at most {MOST_ROWS} incidents")
        told.times_s.append(_time_s(row["time"], str(path), where))
        told.nodes.append((row["node"] or "").strip())
        told.causes.append((row["cause"] or "").strip() or "unknown")
    if not told.times_s:
        raise BadInput(str(path), "", "no incidents", "one a row below the head")
    return told


def _time_s(value: str | None, file: str, where: str) -> float:
    text = (value or "").strip()
    try:
        return float(number(text))
    except ValueError:
        pass
    try:
        when: datetime = instant(text)
    except ValueError as problem:
        raise BadInput(file, f"{where}: time", shown(text), f"{problem}, or seconds") from None
    return when.timestamp()
