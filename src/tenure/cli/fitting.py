"""Tables of live things: columns as wide as what is in them, and some that give way on a narrow terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

GAP = 2  #: columns between two columns

Cell = str | Text


class Column(NamedTuple):
    """A head. `least`: how narrow it may become; None: as wide as what is in it, always."""

    head: str
    right: bool = False
    least: int | None = None


def fitted(console: Console, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> Table:
    """A table that fits the console: what gives way gives in proportion, and is cut with an ellipsis."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    natural = [
        max([cell_len(column.head), *(cell_len(str(row[k])) for row in rows)])
        for k, column in enumerate(columns)
    ]
    widths = _shrunk(columns, natural, console.width - GAP * (len(columns) - 1))
    for column, width in zip(columns, widths, strict=True):
        justify = "right" if column.right else "left"
        table.add_column(column.head, justify=justify, width=width, no_wrap=True, overflow="ellipsis")  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*row)
    return table


def _shrunk(columns: Sequence[Column], natural: Sequence[int], room: int) -> list[int]:
    """Widths that sum to at most `room`, as far as the narrowest allow."""
    widths = list(natural)
    give: Mapping[int, int] = {
        k: max(0, width - column.least)
        for k, (column, width) in enumerate(zip(columns, natural, strict=True))
        if column.least is not None
    }
    over, total = sum(widths) - room, sum(give.values())
    if over <= 0 or total == 0:
        return widths
    for k, most in give.items():
        widths[k] -= min(most, -(-most * over // total))
    return widths
