"""Jobs on a terminal: the receipt, the queue, one job, and why it waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tenure.cli.figures import NOTHING, count, duration, gpu_hours, percent, significant
from tenure.cli.fitting import Cell, Column, fitted
from tenure.cli.tables import put, simple_table

if TYPE_CHECKING:
    from tenure.client.messages import Happening, Job, Queue, QueueRow, Range, Receipt, Submitted, Why

WIDE = 100  #: columns from which on a table shows more of them
MOST_NODES = 6
MOST_EVENTS = 30
MOST_ELEMENTS = 100
LATE = {"running": "green", "stopping": "yellow"}


def submitted(console: Console, told: Submitted) -> None:
    """Its id, and the receipt."""
    many = f" ({len(told.jobs)} jobs: {told.jobs[0]} … {told.jobs[-1]})" if told.jobs else ""
    console.print(Text.assemble(("job ", ""), (told.job, "bold"), many))
    if told.receipt is not None:
        _receipt(console, told.receipt)


def foreseen(console: Console, told: Why) -> None:
    """What a submission would meet."""
    console.print(Text("Not submitted.", style="bold"))
    if told.receipt is not None:
        _receipt(console, told.receipt)
    console.print()
    why(console, told)


def _receipt(console: Console, receipt: Receipt) -> None:
    """S22: what it costs, what it buys, the wait with it and with a smaller minimum."""
    lines = Table.grid(padding=(0, 2))
    lines.add_column(no_wrap=True)
    lines.add_column(overflow="fold")
    if receipt.min_runtime_s:
        whose = "its minimum" if receipt.elements == 1 else f"the minimum of its {receipt.elements} jobs"
        cost = f"{_gpu_time(receipt.cost_gpu_h)} for {whose}, charged to {receipt.account}"
    else:
        cost = f"nothing: unbudgeted work is not charged to {receipt.account}"
    if receipt.left_gpu_h is not None:
        cost += f", which has {gpu_hours(receipt.left_gpu_h)} left in the lookback"
    lines.add_row("costs", cost)
    lines.add_row("buys", receipt.buys)
    first = "" if receipt.elements == 1 or receipt.wait is None else ", of its first job"
    lines.add_row("wait", wait_words(receipt.wait) + first)
    if receipt.smaller_min_runtime_s is not None:
        smaller = (
            f"{wait_words(receipt.smaller_wait)} with a minimum of {duration(receipt.smaller_min_runtime_s)}"
        )
        lines.add_row("", smaller)
    for note in receipt.notes:
        lines.add_row("note", note)
    console.print(lines)


def _gpu_time(hours: float) -> str:
    """`64.0 GPU-hours`; what rounds to little is told in minutes."""
    return f"{gpu_hours(hours)} GPU-hours" if hours >= 0.2 else f"{significant(hours * 60)} GPU-minutes"


def wait_words(wait: Range | None) -> str:
    """`none: it starts at once`, `at most 2 h`, `not known`."""
    if wait is None:
        return "not foreseen"
    if wait.latest_s is not None and wait.latest_s == 0:
        return "none: it starts at once"
    if wait.latest_s is None:
        later = f"from {duration(wait.earliest_s)} on, " if wait.earliest_s else ""
        return f"{later}no date is known"
    if wait.earliest_s == wait.latest_s:
        return duration(wait.latest_s)
    return (
        f"{duration(wait.earliest_s)} to {duration(wait.latest_s)}"
        if wait.earliest_s
        else f"at most {duration(wait.latest_s)}"
    )


# --- the queue ------------------------------------------------------------------------------------------


def queue(console: Console, told: Queue) -> None:
    """Each cluster in a line, then jobs in a table that fits."""
    for use in told.clusters:
        console.print(
            f"{use.cluster}: {count(use.healthy)} of {count(use.gpus)} GPUs in service,"
            f" {count(use.free)} free; {_jobs(use.running)} run, {count(use.waiting)} wait"
        )
    if told.held or told.resting:
        parts = [(told.held, "on hold"), (told.resting, "resting after a stop")]
        besides = ", ".join(f"{count(number)} {word}" for number, word in parts if number)
        console.print(f"beside them {besides}")
    if not told.jobs:
        console.print("No job matches." if told.total == 0 else f"{count(told.total)} jobs match.")
        return
    console.print(_rows(console, told.jobs, told.at))
    if len(told.jobs) < told.total:
        console.print(Text(f"{count(told.total - len(told.jobs))} more: --all shows them", style="dim"))


def _rows(console: Console, jobs: Sequence[QueueRow], now: str) -> Table:
    """A job a row."""
    wide = console.width >= WIDE
    columns = [Column("job"), Column("account", least=8), Column("user", least=4)]
    columns += [Column("name", least=6)] if wide else []
    columns += [Column("GPUs", right=True), Column("min", right=True), Column("state")]
    columns += [Column("for", right=True), Column("why, where", least=12)]
    rows: list[list[Cell]] = []
    for job in jobs:
        cells: list[Cell] = [job.job, job.account, job.user]
        cells += [job.name] if wide else []
        cells += [count(job.gpus), duration(job.min_runtime_s) if job.min_runtime_s else NOTHING]
        state = Text(job.end or job.phase, style=LATE.get(job.phase, ""))
        rows.append([*cells, state, _age(job, now), _where(job, now)])
    return fitted(console, columns, rows)


def _age(job: QueueRow, now: str) -> str:
    if job.waited_s is not None:
        return about(job.waited_s)
    return about(max(0.0, _seconds(job.since, now))) if job.since else NOTHING


def about(seconds: float) -> str:
    """A duration to the minute or the tenth of an hour: nobody reads more of it in a list."""
    unit_s = 360 if seconds >= 7200 else 60 if seconds >= 120 else 1
    return duration(round(seconds / unit_s) * unit_s)


def _where(job: QueueRow, now: str) -> str:
    """Why it waits; where it runs and until when it is protected."""
    if job.phase == "waiting":
        again = f", attempt {job.attempt + 1}" if job.attempt else ""
        return (_held_back(job) or (job.reason or NOTHING).replace("_", " ")) + again
    if job.phase == "ended":
        return NOTHING
    left_s = 0.0 if job.protected_until is None else _seconds(now, job.protected_until)
    where = job.cluster or ""
    if job.nodes > 1:
        where += f", {job.nodes} nodes"
    if job.leaves_by is not None:
        return f"{where}, gone within {about(max(0.0, _seconds(now, job.leaves_by)))}"
    if left_s > 0:
        return f"{where}, protected {about(left_s)}"
    return f"{where}, may be stopped"


def _held_back(job: QueueRow) -> str | None:
    """Who or what holds it back."""
    if job.held_by == "array":
        return "enough of its array"
    if job.held_by == "after":
        return f"after {', '.join(job.after)}"
    return None if job.held_by is None else f"held by {job.held_by}"


def _seconds(since: str | None, until: str | None) -> float:
    if since is None or until is None:
        return 0.0
    return (datetime.fromisoformat(until) - datetime.fromisoformat(since)).total_seconds()


# --- one job ------------------------------------------------------------------------------------------------


def show(console: Console, job: Job, story: Sequence[Happening]) -> None:
    """What it asks for, how it stands, its attempts, its story."""
    title = f"job {job.job}" + (f" · {job.name}" if job.name else "") + f" · {job.account} · {job.user}"
    console.print(Text(title, style="bold"))
    asks = f"{_where_it_may(job)}, "
    asks += f"protected for {duration(job.min_runtime_s)}" if job.min_runtime_s else "unbudgeted"
    asks += ", queued again when stopped" if job.resumable else ", not queued again when stopped"
    if job.max_runtime_s:
        asks += f", at most {duration(job.max_runtime_s)}"
    asks += f", priority {job.priority}" if job.priority else ""
    asks += f", a {job.kind}" if job.kind == "session" else ""
    lines = Table.grid(padding=(0, 2))
    lines.add_column(no_wrap=True)
    lines.add_column(overflow="fold")
    lines.add_row("asks for", asks)
    state = job.phase + (f": {job.end}" if job.end else "") + (" (on hold)" if job.held else "")
    if job.end == "failed" and job.attempts and job.attempts[-1].exit_code:
        state += f" with exit status {job.attempts[-1].exit_code}"
    lines.add_row("state", state + (f", since {day(job.ended)}" if job.ended else ""))
    if job.sentence:
        lines.add_row("why", f"{job.sentence} [{job.reason}]")
    if job.detail:
        lines.add_row("note", job.detail)
    if job.after:
        lines.add_row("after", ", ".join(job.after))
    lines.add_row("submitted", day(job.submitted))
    if job.command is not None:
        lines.add_row("command", _shell(job.command))
    if job.workdir:
        lines.add_row("in", job.workdir)
    console.print(lines)
    if job.elements:
        console.print()
        _elements(console, job.elements)
    if job.attempts:
        put(console, _attempts(job))
    if story:
        put(console, _story(story))


def _where_it_may(job: Job) -> str:
    """`8 GPUs H100 in a, b, in one rack`."""
    told = f"{count(job.gpus)} GPU" + ("" if job.gpus == 1 else "s") + (f" {job.gpu}" if job.gpu else "")
    told += f" in {' or '.join(job.clusters)}" if job.clusters else ""
    return told + (" in one rack" if job.same_rack else "")


def _elements(console: Console, elements: Sequence[QueueRow]) -> None:
    """The jobs of an array: how many of each, and those that are not over first."""
    ends = Counter(one.end or one.phase for one in elements)
    told = ", ".join(f"{count(number)} {word}" for word, number in ends.most_common())
    console.print(Text(f"Its {_jobs(len(elements))}: {told}", style="bold"))
    first = sorted(elements, key=lambda one: one.phase == "ended")[:MOST_ELEMENTS]
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    console.print(_rows(console, first, now))
    if len(first) < len(elements):
        console.print(Text(f"{count(len(elements) - len(first))} more", style="dim"))


def _attempts(job: Job) -> Table:
    table = simple_table("Attempts", "attempt", [])
    table.columns[0].justify = "right"
    for name in ("started", "stopped", "end"):
        table.add_column(name, no_wrap=True)
    table.add_column("GPU-h", justify="right", no_wrap=True)
    table.add_column("lost", justify="right", no_wrap=True)
    table.add_column("nodes", overflow="fold")
    for one in job.attempts:
        table.add_row(
            str(one.attempt),
            day(one.started),
            day(one.stopped),
            (one.end or NOTHING) + (f" ({one.exit_code})" if one.exit_code else ""),
            gpu_hours(one.held_gpu_h),
            gpu_hours(one.lost_gpu_h),
            nodes_text(one.nodes),
        )
    return table


def _story(story: Sequence[Happening]) -> Table:
    table = Table(
        title="What happened", box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True
    )
    table.add_column("when", no_wrap=True)
    table.add_column("what", no_wrap=True)
    table.add_column("", overflow="fold", ratio=1)
    for one in story[-MOST_EVENTS:]:
        table.add_row(day(one.at), one.event, _details(one.details))
    if len(story) > MOST_EVENTS:
        table.caption = f"the last {MOST_EVENTS} of {count(len(story))}"
    return table


def _details(details: Mapping[str, Any]) -> str:
    told = []
    for key, value in details.items():
        if key in ("account", "gpus", "min_runtime_s", "resumable", "protected_until_s", "grace_until_s"):
            continue
        if key == "nodes" and isinstance(value, dict):
            told.append(nodes_text(value))
        elif isinstance(value, float):
            told.append(f"{key} {significant(value)}")
        elif value not in (None, ""):
            told.append(f"{key} {value}")
    return ", ".join(told)


def nodes_text(nodes: Mapping[str, int]) -> str:
    """`8 on jupiter-0001, …`."""
    text = ", ".join(f"{gpus} on {name}" for name, gpus in list(nodes.items())[:MOST_NODES])
    return text if len(nodes) <= MOST_NODES else f"{text} … {count(len(nodes))} nodes"


def day(date: str | None) -> str:
    """`05 Jan 14:20:05`, in UTC."""
    return NOTHING if not date else f"{datetime.fromisoformat(date):%d %b %H:%M:%S}"


def _shell(command: Sequence[str]) -> str:
    import shlex

    return command[2] if list(command[:2]) == ["/bin/sh", "-c"] and len(command) == 3 else shlex.join(command)


# --- why --------------------------------------------------------------------------------------------------


def why(console: Console, told: Why) -> None:
    """The sentence, the earliest start, the numbers, who stands before it, what would change it."""
    who = "It" if told.job is None else f"Job {told.job}"
    console.print(Text(f"{who} {told.sentence}.", style="bold"))
    if told.reason is not None:
        console.print(f"Reason: {told.reason} (docs/reasons.md).")
    if told.phase in ("waiting", "absent") and not told.starts_now:
        held = told.reason == "held"
        start = "no date is known while it is held back" if held else _when(told.earliest_start)
        console.print(f"Earliest start: {start}.")
    if told.nodes:
        console.print(f"Its place: {nodes_text(told.nodes)}.")
    for stop in told.stops:
        console.print(
            f"For it {stop['job']} of {stop['account']} ({stop['gpus']} GPUs) is stopped: {stop['sentence']}."
        )
    if told.numbers:
        _standing(console, told.numbers)
    if told.would_change:
        _changes(console, told.would_change)
    console.print(Text(f"As of turn {told.turn}, {day(told.at)} UTC.", style="dim"))


def _when(start: Range) -> str:
    if start.latest_s is None:
        return (
            f"from {day(start.earliest)} on, no date is known"
            if start.earliest_s
            else "any time, no date is known"
        )
    if start.earliest == start.latest:
        return f"{day(start.latest)} UTC"
    return f"{day(start.earliest)} to {day(start.latest)} UTC"


def _standing(console: Console, numbers: Mapping[str, Any]) -> None:
    owed = float(numbers.get("debt_gpu_h", 0.0))
    credit = (
        f"is owed {gpu_hours(owed)} GPU-hours" if owed >= 0 else f"is {gpu_hours(-owed)} GPU-hours in credit"
    )
    console.print(
        f"{numbers['account']} on {numbers['cluster']} holds {count(numbers['running'])} GPUs; its target is"
        f" {significant(numbers['target'])}, its entitlement {significant(numbers['entitlement'])};"
        f" it has used {percent(numbers['ratio'])} of it over the lookback and {credit}."
    )
    if "jobs_before" not in numbers:
        return
    console.print(
        f"Before it: {_jobs(numbers['own_jobs_before'])} of its own account"
        f" ({count(numbers['own_gpus_before'])} GPUs), in all {_jobs(numbers['jobs_before'])}"
        f" ({count(numbers['gpus_before'])} GPUs). Its account is number {numbers['rank']} in order."
    )
    if numbers.get("accounts_ahead"):
        table = simple_table(
            "Accounts ahead of it", "account", ["used", "target", "holds", "waiting", "GPUs"]
        )
        for row in numbers["accounts_ahead"]:
            table.add_row(
                row["account"],
                percent(row["ratio"]),
                significant(row["target"]),
                count(row["running"]),
                count(row["jobs"]),
                count(row["gpus"]),
            )
        put(console, table)


def _jobs(number: int) -> str:
    return "1 job" if number == 1 else f"{count(number)} jobs"


def _changes(console: Console, changes: Sequence[Mapping[str, Any]]) -> None:
    table = simple_table("What would change it", "with", ["wait"])
    for one in changes:
        what = ", ".join(f"{key} {value}" for key, value in one["change"].items())
        latest_s = one.get("latest_s")
        table.add_row(
            what, "none" if one["starts_now"] else f"at most {duration(latest_s)}" if latest_s else "?"
        )
    put(console, table)
