"""Tables of the page: rows of cells with a text for people and a value to sort by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tenure.report.frames import number, percent, seconds


@dataclass(frozen=True)
class Column:
    name: str
    about: str = ""
    text: bool = False  #: sorts as text, stands left


@dataclass(frozen=True)
class Cell:
    text: str
    value: Any = None  #: to sort by; None = the text
    look: str = ""
    colour: str = ""
    part: float | None = None  #: 0 … 1: drawn as a bar
    about: str = ""


@dataclass(frozen=True)
class Row:
    cells: list[Cell]
    inner: bool = False


@dataclass
class Sheet:
    id: str
    title: str
    columns: list[Column]
    rows: list[Row] = field(default_factory=list)
    caption: str = ""


def said_of(key: str) -> str:
    """A key as people read it."""
    return key.replace("_", " ")


def figure(value: float | None, digits: int = 3) -> Cell:
    return Cell(number(value, digits), "" if value is None else value)


def share(value: float | None) -> Cell:
    return Cell(percent(value), "" if value is None else value)


def duration(value: float | None) -> Cell:
    return Cell(seconds(value), "" if value is None else value)


def word(text: str, **more: Any) -> Cell:
    return Cell(text, look=more.pop("look", "text"), **more)


ACCOUNT_COLUMNS = [
    Column("account", text=True),
    Column("owed", "GPU-hours: entitlement, capped hour by hour at demand"),
    Column("delivered", "budgeted GPU-hours held"),
    Column("demand", "GPU-hours asked for by budgeted jobs that ran or could have run"),
    Column("delivered ÷ owed", "at most 1"),
    Column("hour by hour", "sum over hours of the smaller of delivered and owed, over the sum owed"),
    Column("entitled", "GPU-hours: share × healthy GPUs, moment by moment"),
    Column("borrowed", "GPU-hours held beyond the entitlement, moment by moment"),
    Column("lent", "GPU-hours of the entitlement that others used, budgeted or not"),
    Column("left idle", "GPU-hours of the entitlement that nobody used"),
]


MOVED = ("entitled", "borrowed", "lent", "idle")


def account_sheet(
    accounts: Mapping[str, Mapping[str, float | None]],
    colours: Mapping[str, str],
    ledger: Mapping[str, Mapping[str, Any]],
) -> Sheet:
    """`ledger`: path -> entitled, borrowed, lent, idle. Inner accounts stand above theirs, in bold."""
    sheet = Sheet(
        "accounts", "Owed and delivered by account", ACCOUNT_COLUMNS, caption="GPU-hours in the span."
    )
    priced = any("cost" in row for row in ledger.values())
    if priced:
        sheet.columns = [*ACCOUNT_COLUMNS, Column("cost", "of what was delivered, at the lab's prices")]
    inner = {path.rsplit("/", 1)[0] for path in accounts if "/" in path} | {""}
    for path, row in accounts.items():
        if path == "" and len(accounts) > 1:
            continue
        ratio = row.get("ratio")
        cells = [
            word(path or "(all)", colour=colours.get(path, "")),
            figure(row.get("owed_gpu_h")),
            figure(row.get("delivered_gpu_h")),
            figure(row.get("demand_gpu_h")),
            Cell(
                percent(ratio),
                "" if ratio is None else ratio,
                part=None if ratio is None else min(1.0, ratio),
            ),
            share(row.get("hourly_ratio")),
            *[figure(ledger.get(path, {}).get(f"{name}_gpu_h")) for name in MOVED],
        ]
        if priced:
            cells.append(figure(ledger.get(path, {}).get("cost")))
        sheet.rows.append(Row(cells, inner=path in inner and len(accounts) > 1))
    return sheet


def wait_sheet(title: str, id_: str, waits: Mapping[str, Mapping[str, float | None]]) -> Sheet:
    names = ("n", "mean", "p50", "p90", "p99", "max")
    sheet = Sheet(id_, title, [Column("class", text=True), *[Column(name) for name in names]])
    for name, row in waits.items():
        cells = [word(name), figure(row.get("n"))]
        sheet.rows.append(Row(cells + [duration(row.get(key)) for key in names[1:]]))
    sheet.caption = title
    return sheet


def plain_sheet(
    id_: str, title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, caption: str = ""
) -> Sheet:
    """Numbers stand right, everything else left."""
    held = [list(row) for row in rows]
    texts = [any(not isinstance(row[i], int | float) for row in held) for i in range(len(columns))]
    sheet = Sheet(id_, title, [Column(name, text=text) for name, text in zip(columns, texts, strict=True)])
    for row in held:
        cells = [
            Cell(str(value), look="wrap") if text else figure(value, 4)
            for value, text in zip(row, texts, strict=True)
        ]
        sheet.rows.append(Row(cells))
    sheet.caption = caption
    return sheet
