"""The ledger of preemptions: who was stopped for whom, by which rule, with both ratios and the loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tenure.audit.span import Span
from tenure.core.tables import Table
from tenure.core.words import NONE, End, Rule
from tenure.report.colours import account_colours
from tenure.report.frames import moment, number, percent
from tenure.report.picture import Picture
from tenure.report.picture_data import words
from tenure.report.sheets import Cell, Column, Row, Sheet, duration, figure, word
from tenure.story.columns import Story

MOST_STOPS = 500  #: rows of the ledger on the page

LEDGER = [
    Column("when"),
    Column("stopped", text=True),
    Column("account", text=True),
    Column("GPUs"),
    Column("had run"),
    Column("GPU-h lost", "work since the last save and the restart"),
    Column("rule", "by which it was stopped", text=True),
    Column("for", "the job that took its place", text=True),
    Column("account", text=True),
    Column("its ratio", "usage ÷ entitlement of the stopped job's account"),
    Column("taker's", "ratio of the taker's account"),
]


def stops_of(picture: Picture, span: Span) -> Table:
    """Attempts that ended preempted in the span."""
    attempts = picture.attempts
    within = (attempts["end_s"] >= span.start_s) & (attempts["end_s"] <= span.end_s)
    stopped: Table = attempts[within & (attempts["end"] == End.PREEMPTED)]
    return stopped


def ledger_of(story: Story, picture: Picture, span: Span) -> tuple[Sheet, str, list[str]]:
    """Every stop by us, largest loss first; at most `MOST_STOPS` of them, with the count said."""
    rows = stops_of(picture, span)
    colours, rule = account_colours(story), words(Rule)
    sheet = Sheet("ledger", "Stops", LEDGER)
    lost_h = float(rows["lost_gpu_s"].sum()) / 3600
    largest = rows[np.argsort(-rows["lost_gpu_s"], kind="stable")[:MOST_STOPS]]
    for one in largest:
        job, by = int(one["job"]), int(one["by"])
        sheet.rows.append(Row(_ledger_cells(story, one, job, by, rule, colours)))
    kept = float(largest["lost_gpu_s"].sum()) / 3600
    line = f"{number(len(rows))} attempts were preempted, {number(lost_h)} GPU-hours lost."
    if len(rows) > len(largest):
        part = percent(kept / lost_h) if lost_h else "none"
        line += f" Shown: the {len(largest)} with the largest loss, {part} of all loss."
    return sheet, line, sorted({rule[int(code)] for code in largest["stopped_by"]})


def _ledger_cells(
    story: Story, one: Any, job: int, by: int, rule: list[str], colours: Mapping[str, str]
) -> list[Cell]:
    def of(row: int) -> tuple[Cell, Cell]:
        if row == NONE:
            return word("–"), word("–")
        path = story.accounts[int(story.jobs["account"][row])].path
        name = str(story.job_ids[row])
        return word(name, look="text job", about=name), word(path, colour=colours.get(path, ""))

    mine, theirs = int(one["ratios"]) >> 32, int(one["ratios"]) & 0xFFFFFFFF
    when = int(one["end_s"])
    return [
        Cell(moment(when, story.start), when),
        *of(job),
        figure(int(story.jobs["gpus"][job])),
        duration(int(one["end_s"] - one["start_s"])),
        figure(float(one["lost_gpu_s"]) / 3600),
        word(rule[int(one["stopped_by"])] or "–"),
        *of(by),
        figure(mine / 1e6 if one["ratios"] else None),
        figure(theirs / 1e6 if one["ratios"] else None),
    ]
