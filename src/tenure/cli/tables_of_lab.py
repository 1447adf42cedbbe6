"""The lab on a terminal: nodes, accounts, tokens, what a site must still configure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from tenure.cli.figures import NOTHING, count, duration, gpu_hours, minute, percent, significant
from tenure.cli.fitting import Cell, Column, fitted
from tenure.cli.tables import put, simple_table, tree_rows
from tenure.cli.tables_of_jobs import WIDE, day

if TYPE_CHECKING:
    from tenure.client.messages import Accounts, Finding, Node, Reservation, Token

STATE_STYLE = {"up": "green", "down": "red"}


def nodes(console: Console, nodes: Sequence[Node]) -> None:
    """A node a row."""
    columns = [Column("node"), Column("state"), Column("free", right=True), Column("GPUs", right=True)]
    columns += [Column("type", least=4), Column("jobs", least=8), Column("why", least=12)]
    rows: list[list[Cell]] = []
    for node in nodes:
        state = Text(node.state, style=STATE_STYLE.get(node.state, "yellow"))
        why = node.reason if node.seen else "not seen by the engine"
        if node.empty_by is not None and node.jobs:
            why = f"empty by {day(node.empty_by)}: {why}"
        cells = [count(node.free), count(node.gpus), node.gpu or NOTHING, " ".join(node.jobs) or NOTHING]
        rows.append([node.node, state, *cells, why or NOTHING])
    console.print(fitted(console, columns, rows))


def reservations(console: Console, told: Sequence[Reservation]) -> None:
    """A window a row."""
    if not told:
        console.print("no node is reserved")
        return
    columns = [Column("id"), Column("from"), Column("until"), Column("state")]
    columns += [Column("nodes", least=12), Column("why", least=12)]
    rows: list[list[Cell]] = []
    for one in told:
        nodes = f"{len(one.nodes)}: {' '.join(one.nodes)}" if len(one.nodes) > 1 else one.nodes[0]
        rows.append([one.id, day(one.begins), day(one.ends), one.state, nodes, f"{one.by}: {one.reason}"])
    console.print(fitted(console, columns, rows))


def accounts(console: Console, told: Accounts) -> None:
    """An account a row, for each cluster a table."""
    wide = console.width >= WIDE
    for cluster in dict.fromkeys(one.cluster for one in told.accounts):
        rows = {one.account: one for one in told.accounts if one.cluster == cluster}
        columns = ["share", "holds", "waiting", "target", "used", "left GPU-h", "owed GPU-h"]
        columns += ["entitled", "unbudgeted", "next GPU-h"] if wide else ["next"]
        table = simple_table(f"{cluster}, over the last {duration(told.lookback_s)}", "account", columns)
        for path, label in tree_rows(list(rows)):
            one = rows[path]
            cells = [
                label,
                percent(one.share),
                count(one.running),
                count(one.waiting_gpus),
                significant(one.target),
                percent(one.ratio),
                gpu_hours(one.left_gpu_h),
                gpu_hours(one.debt_gpu_h if abs(one.debt_gpu_h) >= 0.05 else 0.0),
            ]
            more = [significant(one.entitlement), count(one.unbudgeted)] if wide else []
            table.add_row(*cells, *more, gpu_hours(one.forecast_gpu_h))
        table.caption = (
            "used: of what it was entitled to; owed below 0: in credit; next: what it gets in"
            "\nas long a time to come, if demand, shares and nodes stay as they are"
        )
        put(console, table)


def tokens(console: Console, tokens: Sequence[Token]) -> None:
    """A token a row."""
    columns = [Column("id"), Column("user", least=6), Column("may"), Column("created")]
    columns += [Column("expires"), Column("note", least=8)]
    rows, now = [], datetime.now(UTC)
    for one in tokens:
        ends = "never" if one.expires is None else minute(one.expires)
        if one.revoked:
            ends = f"revoked {minute(one.revoked)}"
        elif one.expires is not None and datetime.fromisoformat(one.expires) <= now:
            ends = f"expired {ends}"
        may = "everything" if one.admin else "own jobs"
        rows.append([one.id, one.user, may, minute(one.created)[:10], ends, one.note])
    console.print(fitted(console, columns, rows))


def doctor(console: Console, findings: Sequence[Finding]) -> None:
    """A finding a line, its remedy below it."""
    for one in findings:
        mark, style = {True: ("ok", "green"), False: ("wrong", "red"), None: ("note", "yellow")}[one.ok]
        console.print(Text.assemble((f"{mark:<6}", style), f"{one.subject}: {one.text}"))
        if one.remedy and one.ok is not True:
            console.print(Text(f"       {one.remedy}", style="dim"))


def replayed(console: Console, told: Mapping[str, Any]) -> None:
    """Whether a turn decided again is the same, and what differs."""
    verdict = "the same again" if told["same"] else "not the same"
    console.print(Text(f"Turn {told['turn']}, decided again: {verdict}.", style="bold"))
    console.print(
        f"The state it was decided on is {'the recorded one' if told['same_state'] else 'another'};"
        f" the code that decides is {'the same' if told['same_code'] else 'another by now'}."
    )
    for event in told["decided"]:
        mark, style = (" ", "") if event in told["recorded"] else ("+", "green")
        console.print(_line(mark, event, style))
    for event in told["recorded"]:
        if event not in told["decided"]:
            console.print(_line("-", event, "red"))


def _line(mark: str, event: Mapping[str, Any], style: str) -> Text:
    """A line of a story, cut to the terminal."""
    text = json.dumps(event, ensure_ascii=False)
    return Text(f"{mark} {text}", style=style, no_wrap=True, overflow="ellipsis")
