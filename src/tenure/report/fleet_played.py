"""What a fleet plan's page tells beside its formulas: play, waits for parts, spares at work, runs apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tenure.report.fleet_log import causes, lemons
from tenure.report.frames import number, percent, seconds
from tenure.report.plan_parts import Part, Tile
from tenure.report.sheets import Cell, Column, Row, Sheet, duration, figure, share, word

Answer = Mapping[str, Any]


def fine(value: float | None) -> Cell:
    """A chance near 1: three places of a percent."""
    return Cell(percent(value, 3), "" if value is None else value)


def _sheet(id_: str, caption: str, columns: Sequence[str], *, first: str = "") -> Sheet:
    """A sheet whose first column is text."""
    return Sheet(id_, caption, [Column(first, text=True), *map(Column, columns)], caption=caption)


def spares_parts(answer: Answer) -> list[Part]:
    """Play beside formulas, waits for parts, what is known of racks, what a purchase covers; if told."""
    found = []
    if answer["played"]:
        found.append(Part("played-h", "Played beside the formulas", sheets=[_missions(answer["played"])]))
    sheets = [
        *([_waits(answer["waits_for_parts"])] if answer["waits_for_parts"] else []),
        *([_believed(answer["over_q"])] if answer["over_q"] else []),
        *([_covers(answer["bought_covers"])] if answer["bought_covers"] else []),
    ]
    if sheets:
        found.append(Part("assumed-h", "What the count rests on", sheets=sheets))
    return found


def idle_tile(answer: Answer) -> Tile:
    """GPUs of spare racks that other work may use."""
    idle = answer["idle_spares"]["gpus"]
    of = percent(idle / answer["gpus"]["bought"])
    return Tile(
        "spare GPUs idle, mean", number(idle, 4), f"{of} of those bought, for work that can be stopped"
    )


def _missions(rows: Sequence[Answer]) -> Sheet:
    columns = ["enough at an instant", "±", "formula", "no shortage", "formula", "exact"]
    sheet = Sheet("played", "Played", [Column("spare racks"), *map(Column, columns)])
    sheet.caption = f"{rows[0]['draws']:,} missions played failure by failure; ± is one standard error."
    for row in rows:
        keys = ("p_ok", "p_ok_error", "p_ok_formula", "p_no_shortage", "p_no_shortage_formula")
        exact = row["p_no_shortage_exact"]
        last = Cell("–", "") if exact is None else fine(exact)
        sheet.rows.append(Row([figure(row["spare"], 6), *(fine(row[key]) for key in keys), last]))
    return sheet


def _waits(waits: Mapping[str, Answer]) -> Sheet:
    columns = ["wait, mean", "down", "down without waiting"]
    sheet = _sheet(
        "waits", "Waits for parts that are not on site when something fails.", columns, first="part"
    )
    for what, row in waits.items():
        downs = (fine(row["unavailability"]), fine(row["unavailability_without"]))
        sheet.rows.append(Row([word(what), duration(row["wait_s"]), *downs]))
    return sheet


def _believed(rows: Sequence[Answer]) -> Sheet:
    caption = "Spares over what is believed of rack failures, from those seen."
    sheet = _sheet("believed", caption, ["a rack down", "spare racks"], first="quantile")
    for row in rows:
        spare = Cell("no number", "") if row["spare"] is None else figure(row["spare"], 6)
        sheet.rows.append(Row([word(percent(row["quantile"], 0)), fine(row["rack_unavailability"]), spare]))
    return sheet


def _covers(covers: Answer) -> Sheet:
    caption = (
        f"{covers['racks']:,} racks bought, {covers['spare']:,} of them spare, cover racks down at most …"
    )
    sheet = _sheet("covers", caption, ["a rack down at most"], first="confidence")
    for row in covers["at"]:
        sheet.rows.append(Row([word(percent(row["confidence"], 2)), fine(row["rack_unavailability"])]))
    return sheet


def goodput_parts(answer: Answer) -> list[Part]:
    """The log's causes, reinforcement learning's two parts, play beside the formula, runs apart; if told."""
    found = []
    if answer["log"]:
        log = answer["log"]
        said = f"{log['rate']:.3g} failures per 1,000 node-days ({log['low']:.3g} to {log['high']:.3g})."
        found.append(Part("log-h", "The log", about=[said], sheets=[causes(log, 0), *lemons(log, 0)]))
    if answer["reinforcement"]:
        told = answer["reinforcement"]
        name = f"Reinforcement learning, {told['mode']}"
        found.append(Part("reinforcement-h", name, sheets=[_rollouts(told)]))
    if answer["played"]:
        found.append(Part("played-h", "Played beside the formula", sheets=[_nodes(answer["played"])]))
    if answer["runs"]:
        found.append(Part("runs-h", "Separate runs", sheets=[_runs(answer["runs"])]))
    return found


def _rollouts(told: Answer) -> Sheet:
    sheet = _sheet("rollouts", "Of a step without failures, and of what goes on.", ["of a step", "works"])
    sheet.rows += [
        Row([word("rollouts"), share(told["part"]), fine(told["rollout"])]),
        Row([word("training"), share(1 - told["part"]), fine(told["training"])]),
        Row([word("steps done"), Cell("", ""), fine(told["goodput"])], inner=True),
    ]
    return sheet


def _nodes(told: Answer) -> Sheet:
    caption = (
        f"{told['draws']:,} draws of {seconds(told['lasts_s'])}, node by node; works ± "
        f"{percent(told['error'], 3)}, the exact formula says {percent(told['formula'], 3)}."
    )
    if told["without_lemons"] is not None:
        caption += f" Without lemons: {percent(told['without_lemons'], 3)}."
    sheet = _sheet("nodes", caption, ["all the file says", "as formulas have it"])
    both = (told, told["plain"])
    for name in ("productive", "saving", "rework", "recovery", "short"):
        sheet.rows.append(Row([word(name), *(fine(one[name]) for one in both)]))
    for name, key in (("stops a day", "stops_per_day"), ("nodes down", "down"), ("… with no crew", "queued")):
        sheet.rows.append(Row([word(name), *(figure(one[key]) for one in both)]))
    return sheet


def _runs(runs: Mapping[str, Answer]) -> Sheet:
    caption = "Each as if it were alone in the file; what a run does not say is the file's."
    sheet = _sheet("runs", caption, ["stops a day", "saves every", "a stop costs", "works"], first="run")
    sheet.columns.insert(1, Column("kind", text=True))
    for name, run in runs.items():
        every = duration(run["every_s"]) if run["every_s"] else Cell("free", 0)
        cells = [figure(run["failures_per_day"]), every, duration(run["lost_with_failure_s"])]
        sheet.rows.append(Row([word(name), word(run["kind"]), *cells, fine(run["goodput"])]))
    return sheet


def backwards(inverse: Answer) -> Sheet:
    """What alone, all else as it is, would reach the target."""
    caption = f"What alone would give {percent(inverse['target'])}, all else as it is."
    sheet = _sheet("backwards", caption, ["value"])
    asked = (
        ("a save blocks at most", "blocking_s"),
        ("recovery takes at most", "recovery_s"),
        ("a stop at most every", "mtbf_s"),
    )
    for name, key in asked:
        cell = Cell("cannot", "") if inverse[key] is None else duration(inverse[key])
        sheet.rows.append(Row([word(name), cell]))
    if inverse["per_1000_node_days"] is not None:
        cells = [word("failures per 1,000 node-days at most"), figure(inverse["per_1000_node_days"])]
        sheet.rows.append(Row(cells))
    return sheet
