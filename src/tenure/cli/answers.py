"""Answers in sentences: `tenure what-if` and `tenure next-preempted`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tenure.cli.figures import NOTHING, count, duration, gpu_hours, instant, percent, significant
from tenure.cli.tables import put, simple_table
from tenure.service.questions import NEAR_S, changed_words

MOST_ATTEMPTS = 20
MOST_STOPS = 10


def what_if(console: Console, answer: Mapping[str, Any]) -> None:
    """Would it start; if not, what stands in its way, when it starts, what would change it."""
    console.print()
    console.print(_heading(answer))
    job, start = answer["job"], answer["start"]
    kind = (
        f"protected for {duration(job['min_runtime'])}"
        if job["min_runtime"]
        else "unbudgeted: never protected"
    )
    console.print(f"A job of {job['account']}: {count(job['gpus'])} GPUs, {kind}.")
    console.print()
    console.print(Text(_verdict(answer), style="bold"))
    console.print(f"It {answer['sentence']}.")
    if not answer["starts_now"]:
        if answer["in_the_way"] is not None:
            console.print(f"In its way: {answer['in_the_way']} ({answer['reason']}).")
        console.print(_when(answer, start))
    if "nodes" in answer:
        console.print(f"Its place: {_nodes(answer['nodes'])}.")
    _stops(console, answer["stops"])
    if answer.get("numbers"):
        _standing(console, answer["numbers"])
    _changes(console, answer)


def _stops(console: Console, stops: Sequence[Mapping[str, Any]]) -> None:
    """Whom it stops at that instant."""
    for stop in stops[:MOST_STOPS]:
        text = (
            f"For it {stop['job']} of {stop['account']} ({stop['gpus']} GPUs) is stopped: {stop['sentence']}"
        )
        if stop["lost_gpu_s"] is not None:
            text += f"; {gpu_hours(stop['lost_gpu_s'] / 3600)} GPU-hours lost"
        console.print(f"{text}.")
    if len(stops) > MOST_STOPS:
        console.print(f"… and {len(stops) - MOST_STOPS} more.")


def _heading(answer: Mapping[str, Any]) -> Text:
    line = Text()
    line.append(str(answer["lab"]), style="bold")
    line.append(f" · policy {answer['policy']} · seed {answer['seed']} · {answer['lookback']}")
    line.append(f" · at {instant(answer['at_s'], answer['start'])}")
    return line


def _verdict(answer: Mapping[str, Any]) -> str:
    if answer["starts_now"]:
        return "It would start at once."
    if answer["wait_s"] is None:
        return f"It would not start at once, nor within {duration(answer['watched_s'])}."
    return f"It would not start at once; it would wait {duration(answer['wait_s'])}."


def _when(answer: Mapping[str, Any], start: str | None) -> str:
    """What could be known then, as a range, and what comes of it."""
    early_s, late_s = answer["earliest_start"]["earliest_s"], answer["earliest_start"]["latest_s"]
    known = f"Known at that instant: from {instant(early_s, start)}"
    known += " on, no date" if late_s is None else f" to {instant(late_s, start)}"
    if answer["starts_at_s"] is None:
        return f"{known}."
    return f"{known}. In this scenario it starts at {instant(answer['starts_at_s'], start)}."


def _nodes(nodes: Mapping[str, int]) -> str:
    shown = list(nodes.items())[:6]
    text = ", ".join(f"{gpus} on {name}" for name, gpus in shown)
    return text if len(nodes) <= len(shown) else f"{text} … {count(len(nodes))} nodes in all"


def _standing(console: Console, numbers: Mapping[str, Any]) -> None:
    """The numbers of its account, and who stands before it."""
    owed = numbers["debt_gpu_h"]
    credit = f"owed {gpu_hours(owed)} GPU-hours" if owed >= 0 else f"{gpu_hours(-owed)} GPU-hours in credit"
    console.print()
    console.print(
        f"{numbers['account']} on {numbers['cluster']}: holds {count(numbers['running'])} GPUs, its target is"
        f" {significant(numbers['target'])}, its entitlement {significant(numbers['entitlement'])};"
        f" it has used {percent(numbers['ratio'])} of it over the lookback and is {credit}."
    )
    console.print(
        f"Before it: {_jobs(numbers['own_jobs_before'])} of its own account"
        f" ({count(numbers['own_gpus_before'])} GPUs); in all {_jobs(numbers['jobs_before'])}"
        f" ({count(numbers['gpus_before'])} GPUs). Its account is number {numbers['rank']} in order."
    )
    if numbers["accounts_ahead"]:
        put(console, _ahead(numbers["accounts_ahead"]))


def _jobs(number: int) -> str:
    return "1 job" if number == 1 else f"{count(number)} jobs"


def _ahead(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = simple_table(
        "Accounts ahead of it", "account", ["used", "target", "holds", "jobs waiting", "their GPUs"]
    )
    for row in rows:
        table.add_row(
            row["account"],
            percent(row["ratio"]),
            significant(row["target"]),
            count(row["running"]),
            count(row["jobs"]),
            count(row["gpus"]),
        )
    return table


def _changes(console: Console, answer: Mapping[str, Any]) -> None:
    """What would make it start earlier, each asked anew."""
    if answer["wait_s"] is not None and answer["wait_s"] <= NEAR_S:
        return
    if not answer["would_change"]:
        console.print()
        console.print("A smaller minimum, fewer GPUs or another place would not make it start earlier.")
        return
    table = simple_table("What would change it", "with", ["starts", "wait"])
    for one in answer["would_change"]:
        when = "at once" if one["starts_now"] else instant(one["starts_at_s"], answer["start"])
        table.add_row(changed_words(one["change"]), when, duration(one["wait_s"]))
    put(console, table)


def next_preempted(console: Console, answer: Mapping[str, Any]) -> None:
    """Who is next, for whom, from when on, by which rule."""
    start, attempts = answer["start"], answer["attempts"]
    console.print()
    console.print(_heading(answer))
    console.print()
    if not attempts:
        console.print(Text("Nothing runs at that instant.", style="bold"))
        return
    first = attempts[0]
    if answer["candidates"] and first["for"] is not None:
        console.print(Text(f"Next: {first['job']} of {first['account']}.", style="bold"))
    elif answer["candidates"]:
        who = f"{first['job']} of {first['account']}"
        console.print(
            Text(f"Nobody is to be stopped for those who wait now; first in line is {who}.", style="bold")
        )
    elif answer["nobody_before_s"] is None:
        console.print(Text("Nobody can be stopped as things stand.", style="bold"))
    else:
        console.print(
            Text(f"Nobody can be stopped before {instant(answer['nobody_before_s'], start)}.", style="bold")
        )
    console.print(f"{first['job']}: {first['sentence']}.")
    put(console, _attempts(answer))


def _attempts(answer: Mapping[str, Any]) -> Table:
    attempts, start = answer["attempts"], answer["start"]
    table = simple_table(
        f"{count(len(attempts))} attempts run, in the order in which they would be stopped",
        "job",
        ["account", "GPUs", "from", "for", "rule", "loses GPU-h"],
    )
    for one in attempts[:MOST_ATTEMPTS]:
        table.add_row(
            one["job"],
            one["account"],
            count(one["gpus"]),
            _from(one, answer["at_s"], start),
            one["for"] or NOTHING,
            (one["rule"] or NOTHING).replace("_", " "),
            gpu_hours(one["lost_gpu_s"] / 3600),
        )
    if len(attempts) > MOST_ATTEMPTS:
        table.caption = f"and {count(len(attempts) - MOST_ATTEMPTS)} more, in --json"
    return table


def _from(one: Mapping[str, Any], at_s: int, start: str | None) -> str:
    if one["stopping"]:
        return "stopping"
    if one["interruptible_from_s"] is None:
        return "never"
    if one["interruptible_from_s"] <= at_s:
        return "now" if one["candidate"] else "now, not below target"
    return instant(one["interruptible_from_s"], start)
