"""Signals of misuse as a table: a sentence with its numbers, and a job to look at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenure.report.frames import seconds
from tenure.report.sheets import Column, Row, Sheet, figure, said_of, word

SIGNALS = {
    "splitting": "one job cut into many short ones that follow each other: {relays} relays, the longest of "
    "{longest_jobs} jobs over {longest_h:.3g} h",
    "overdeclared": "a long minimum declared and at most a quarter of it used: {jobs} of {of_jobs} "
    "such jobs, {declared_gpu_h:.3g} GPU-h declared; the worst used {used} of {declared}",
    "idle_protected": "protected GPUs that did hardly anything",
}


def signal_sheet(signals: Mapping[str, Any]) -> Sheet:
    """Each signal with its numbers in a sentence and a job to look at."""
    columns = [Column("account", text=True), Column("signal", text=True), Column("jobs"), Column("GPU-h")]
    columns += [Column("what was seen", text=True), Column("for example", text=True)]
    sheet = Sheet("signals", "Signals of misuse", columns)
    for one in signals["found"]:
        words_of = dict(one)
        words_of["used"] = seconds(one.get("example_used_s"))
        words_of["declared"] = seconds(one.get("example_declared_s"))
        said = SIGNALS.get(one["signal"], "").format(**words_of)
        cells = [
            word(one["account"]),
            word(said_of(one["signal"])),
            figure(one["jobs"]),
            figure(one["gpu_h"]),
        ]
        cells += [word(said, look="wrap"), word(str(one.get("example", "")), look="text job")]
        sheet.rows.append(Row(cells))
    thresholds = ", ".join(f"{said_of(name)} {value:g}" for name, value in signals["thresholds"].items())
    sheet.caption = f"Thresholds: {thresholds}."
    return sheet
