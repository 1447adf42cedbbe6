"""Rows of a table in text, block by block: header found, short rows counted, columns turned into arrays."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO

from tenure.settings.errors import BadInput
from tenure.simulator.traces.gather import Gathering

BLOCK_ROWS = 20_000
csv.field_size_limit(1 << 20)  # one stray quote must not swallow a gigabyte


@dataclass
class Rows:
    """A block: `columns[k]` is the text of column k in each row; `lines` where each row ends in the file."""

    lines: list[int]
    columns: list[Sequence[str]]


class Table:
    """A delimited file with its header read. What does not fit its width is counted."""

    def __init__(self, file: Path, text: IO[str], header: Sequence[str] | None = None) -> None:
        """`header`: names of the columns where the file itself may come without (its first row decides)."""
        self.file = file
        line, self._blank = _first_filled(text)
        self._reader = csv.reader(chain([line], text), delimiter=_delimiter(line))
        self._first: list[str] | None = None
        first = self._next_filled()
        if header is not None and first is not None and first != list(header):
            self._first, self.header = first, list(header)
        elif first is None:
            raise BadInput(str(file), "", "an empty file", "a header and rows")
        else:
            self.header = [name.strip() for name in first]

    def _line(self) -> int:
        return self._reader.line_num + self._blank

    def _next_filled(self) -> list[str] | None:
        try:
            for row in self._reader:
                if row and any(cell.strip() for cell in row):
                    return row
        except csv.Error as problem:
            raise self._spoiled(problem) from problem
        return None

    def _spoiled(self, problem: csv.Error) -> BadInput:
        line = f"line {self._line()}"
        return BadInput(str(self.file), line, f"no readable table ({problem})", "rows of delimited text")

    def at(self, *names: str) -> int | None:
        """Column of the first of the names that is there (case does not matter), or None."""
        lower = [name.lower() for name in self.header]
        for name in names:
            if name.lower() in lower:
                return lower.index(name.lower())
        return None

    def need(self, key: str, *names: str) -> int:
        """As `at`; raises BadInput with what is there and what is needed."""
        at = self.at(*names)
        if at is None:
            raise BadInput(str(self.file), key, shown(self.header), f"a column {' or '.join(names)}")
        return at

    def blocks(self, gathering: Gathering) -> Iterator[Rows]:
        """Blocks of rows with as many cells as the header."""
        width, rows, lines = len(self.header), [], []
        if self._first is not None:
            rows.append(self._first)
            lines.append(self._line())
        try:
            for row in self._reader:
                if len(row) != width or not (row[0] or any(row)):
                    self._misfit(row, gathering)
                    continue
                rows.append(row)
                lines.append(self._line())
                if len(rows) >= BLOCK_ROWS:
                    yield Rows(lines, list(zip(*rows, strict=True)))
                    rows, lines = [], []
        except csv.Error as problem:
            raise self._spoiled(problem) from problem
        if rows and len(rows[0]) == width:
            yield Rows(lines, list(zip(*rows, strict=False)))

    def _misfit(self, row: list[str], gathering: Gathering) -> None:
        if not any(cell.strip() for cell in row):
            gathering.report.note("skipped", "blank line", 1, self._line())
        else:
            gathering.drop("not as many cells as the header", self._line())


def _first_filled(text: IO[str]) -> tuple[str, int]:
    """The first line that is not blank ("" where there is none), and how many blank ones came before."""
    for blank, line in enumerate(text):
        if line.strip():
            return line, blank
    return "", 0


def _delimiter(header: str) -> str:
    """A comma, unless the header has none and does have a tab or a semicolon."""
    others = (mark for mark in "\t;" if mark in header and "," not in header)
    return next(others, ",")


def shown(header: Sequence[str]) -> str:
    """A header for a message: not longer than a line."""
    text = ", ".join(repr(name) for name in header)
    return f"the columns {text}" if len(text) <= 300 else f"the columns {text[:300]} …"
