"""What a log of incidents says on a page: causes with their rates, and lemon nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenure.report.frames import percent
from tenure.report.sheets import Cell, Column, Row, Sheet, figure, share, word

Answer = Mapping[str, Any]
MOST_CAUSES = 30


def causes(record: Answer, place: int) -> Sheet:
    """A cause a row, the commonest first."""
    columns = [
        Column("cause", text=True),
        *(Column(name) for name in ("events", "share", "rate", "from", "to")),
    ]
    sheet = Sheet(f"causes-{place}", "Causes", columns, caption="Rates per 1,000 node-days with 95 %.")
    most = max(cause["share"] for cause in record["causes"])
    for cause in record["causes"][:MOST_CAUSES]:
        bar = Cell(percent(cause["share"]), cause["share"], part=cause["share"] / most)
        bounds = [figure(cause[key]) for key in ("rate", "low", "high")]
        sheet.rows.append(Row([word(cause["cause"]), figure(cause["events"]), bar, *bounds]))
    hardware = record.get("hardware")
    if hardware:
        bounds = [figure(hardware[key]) for key in ("rate", "low", "high")]
        cells = [word("all hardware"), figure(hardware["events"]), share(hardware["share"]), *bounds]
        sheet.rows.append(Row(cells, inner=True))
    return sheet


def lemons(record: Answer, place: int) -> list[Sheet]:
    """Nodes that fail more than chance lets them, where there are any."""
    if not record["lemons"] or not record["lemons"]["nodes"]:
        return []
    sheet = Sheet(
        f"lemons-{place}", "Lemon nodes", [Column("node", text=True), Column("failures"), Column("usual")]
    )
    sheet.caption = "Nodes with more failures than chance gives any node of an even fleet with 1 %."
    for lemon in record["lemons"]["nodes"][:MOST_CAUSES]:
        sheet.rows.append(Row([word(lemon["node"]), figure(lemon["events"]), figure(lemon["expected"])]))
    return [sheet]
