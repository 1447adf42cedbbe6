"""What reading the trace did: rows read and kept, and what was dropped, cut, guessed or passed over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenure.report.frames import number, percent
from tenure.report.sheets import Cell, Column, Row, Sheet, said_of, word

COLUMNS = [
    Column("what", text=True),
    Column("reason", text=True),
    Column("rows"),
    Column("of those read"),
    Column("first on line"),
]


def imported_facts(report: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """The file, its format and whatever else is said in a word."""
    told = (report or {}).items()
    return [(said_of(key), str(value)) for key, value in told if isinstance(value, str) and value]


def imported_sheet(report: Mapping[str, Any] | None) -> Sheet | None:
    """`report`: {read: rows, kept: rows, dropped: {reason: rows or {count, first_line}}, …}; may be None."""
    if not report:
        return None
    sheet = Sheet("imported", "What the trace held", COLUMNS)
    read = report.get("read")
    for what, told in report.items():
        if isinstance(told, int | float):
            sheet.rows.append(_row(said_of(what), "", told, read, None))
        elif isinstance(told, Mapping):
            for reason, found in told.items():
                count, line = (
                    (found.get("count"), found.get("first_line"))
                    if isinstance(found, Mapping)
                    else (found, None)
                )
                sheet.rows.append(_row(said_of(what), str(reason), count, read, line))
        elif isinstance(told, list | tuple):
            sheet.rows += [_row(said_of(what), str(note), None, read, None) for note in told]
    return sheet


def _row(what: str, reason: str, count: Any, read: Any, line: Any) -> Row:
    counted = isinstance(count, int | float)
    part = percent(count / read, 2) if counted and read else "–"
    return Row(
        [
            word(what),
            Cell(reason, look="wrap"),
            Cell(number(count) if counted else "–", count if counted else ""),
            Cell(part, count if counted else ""),
            Cell("–" if line is None else str(line), "" if line is None else line),
        ]
    )
