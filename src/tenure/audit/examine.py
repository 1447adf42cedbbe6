"""All that can be said of one story, in one reading of it: what a report shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tenure.audit.hours import Hours, hours_of
from tenure.audit.ledger_table import LedgerSums, ledger_table
from tenure.audit.measures import Measures, measure_record
from tenure.audit.moments import Sweep
from tenure.audit.record import Record
from tenure.audit.series import Series, series_of
from tenure.audit.shortfall import Shortfalls, shortfall_table
from tenure.audit.signals import signals_of
from tenure.story.columns import Story


@dataclass(frozen=True)
class Examination:
    record: Record
    hours: Hours
    measures: Measures
    series: Series
    shortfall: dict[str, Any]  #: see shortfall.shortfall_table
    ledger: dict[str, Any]  #: see ledger_table.ledger_table
    signals: dict[str, Any]  #: see signals.signals_of


def examine(story: Story, *, since_s: int | None = None, speed: dict[str, Any] | None = None) -> Examination:
    """Measure a story and explain it; `since_s` and `speed` as in `measure`."""
    record = Record(story, since_s=since_s)
    hours = hours_of(record)
    shortfalls, ledger = Shortfalls(record), LedgerSums(record)
    for moments in Sweep(record, causes=True).chunks():
        shortfalls.add(moments)
        ledger.add(moments)
    return Examination(
        record=record,
        hours=hours,
        measures=measure_record(record, [hours], speed=speed),
        series=series_of(record, hours),
        shortfall=shortfall_table(record, shortfalls.parts(hours)),
        ledger=ledger_table(record, hours, ledger),
        signals=signals_of(record),
    )
