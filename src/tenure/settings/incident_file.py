"""Logs as people keep them, CSV: incidents (a time, a node and a cause a row), and lives of parts."""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from collections.abc import Sequence
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
    rows = _rows(path, COLUMNS)
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


class Lives(NamedTuple):
    """How long each part was in use, in seconds, and whether it ended by failing."""

    lives_s: list[float]
    failed: list[bool]
    passed_over: list[int]  #: lines without a time


def read_lives(path: Path, columns: tuple[str, str, str], failed: Sequence[str] | None = None) -> Lives:
    """Parts from a CSV file (also .gz): `columns` are from when, until when, and what ended it.

    `failed`: what counts as a failure; None: anything that is written there. Rows without a time are passed
    over; BadInput names the line where a time cannot be read or a life is not above 0.
    """
    begins, ends, event = columns
    told = Lives([], [], [])
    rows = _rows(path, columns)
    for row in rows:
        where = f"line {rows.line_num}"
        if not (row[begins] or "").strip() or not (row[ends] or "").strip():
            told.passed_over.append(rows.line_num)
            continue
        if len(told.lives_s) >= MOST_ROWS:
            raise BadInput(str(path), where, "more rows", f"at most {MOST_ROWS} lives")
        life_s = _time_s(row[ends], str(path), where) - _time_s(row[begins], str(path), where)
        if life_s <= 0:
            raise BadInput(str(path), where, f"a life of {life_s:g} s", f"{ends} later than {begins}")
        word = (row[event] or "").strip()
        told.lives_s.append(life_s)
        told.failed.append(bool(word) if failed is None else word in failed)
    if not told.lives_s:
        raise BadInput(str(path), "", "no lives", "one a row below the head")
    return told


def _rows(path: Path, columns: Sequence[str]) -> csv.DictReader[str]:
    try:
        content = path.read_bytes()
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError) as problem:
        raise BadInput(str(path), "", str(problem).split(": ")[0], "a CSV file that can be read") from None
    rows = csv.DictReader(text.splitlines())
    if [name for name in columns if name not in (rows.fieldnames or ())]:
        found = ", ".join(rows.fieldnames or ()) or "nothing"
        raise BadInput(str(path), "line 1", f"the columns {found}", f"a head with {', '.join(columns)}")
    return rows


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
