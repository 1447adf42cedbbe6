"""What owners are told of what happened to their jobs: pure, from the story lines of a turn.

One note an event that an owner did not cause: a warning that it may be stopped (S15), a stop with its rule
and both ratios (S22), an end that is not of its own making. `daemon/messages.py` delivers them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from tenure.core.explain import explain_stop, span_text
from tenure.core.words import NEVER_S, Rule
from tenure.daemon.book import Book


class Owner(NamedTuple):
    """Whose job it is, as the record knows it."""

    user: str
    account: str
    name: str = ""
    resumable: bool = True
    max_runtime_s: int | None = None
    detail: str = ""  #: one line on its newest end


def notes_of_turn(book: Book, lines: Sequence[str]) -> list[dict[str, Any]]:
    """Notes for the story lines of the turn just taken on this book; none where the lab sends no messages."""
    messages = book.lab.live.messages
    if messages is None:
        return []
    told = [json.loads(line) for line in lines if line.startswith(TOLD) or '"event":"requeued"' in line]
    if not told:
        return []

    def owner_of(job: str) -> Owner | None:
        row = book.row_of(job)
        if row < 0:
            return None
        card, limit_s = book.cards[row], int(book.core.jobs["max_runtime_s"][row])
        return Owner(
            user=card.user,
            account=card.account,
            name=str(card.spec.get("name") or ""),
            resumable=bool(book.core.jobs["resumable"][row]),
            max_runtime_s=None if limit_s >= NEVER_S else limit_s,
            detail=card.detail,
        )

    return notes_of(told, owner_of, start=book.start, about=messages.about)


def notes_of(
    lines: Iterable[Mapping[str, Any]],
    owner_of: Callable[[str], Owner | None],
    *,
    start: float,
    about: Iterable[str],
) -> list[dict[str, Any]]:
    """Notes for the lines of one turn, in their order: {user, job, kind, text, t}.

    `start`: epoch second of t = 0. `about`: the kinds wanted. Jobs without an owner give none.
    """
    wanted = frozenset(about)
    lines = list(lines)
    requeued = {line["job"] for line in lines if line["event"] == "requeued"}
    found = []
    for line in lines:
        told = TELL.get(line["event"])
        owner = owner_of(line["job"]) if told and line.get("job") else None
        if told is None or owner is None or not owner.user:
            continue
        kind, text = told(line, owner, _Turn(start, owner_of, requeued))
        if kind in wanted:
            note = {"user": owner.user, "job": line["job"], "kind": kind, "text": text, "t": line["t"]}
            found.append(note)
    return found


class _Turn(NamedTuple):
    start: float
    owner_of: Callable[[str], Owner | None]
    requeued: set[str]

    def clock(self, t: int) -> str:
        return datetime.fromtimestamp(self.start + t, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


Told = tuple[str, str]  #: (kind, text); kind "" is never wanted


def _notice(line: Mapping[str, Any], owner: Owner, turn: _Turn) -> Told:
    who = _job(line["job"], owner)
    taker = _taker(line.get("by"), turn)
    return "notice", (
        f"{who} may be stopped from {turn.clock(line['interruptible_at_s'])} on, because {taker} waits for"
        " its GPUs. Save your work before then."
    )


def _stopping(line: Mapping[str, Any], owner: Owner, turn: _Turn) -> Told:
    if line["cause"] == "cancelled" and line.get("by") in (owner.user, None):
        return "", ""
    who = _job(line["job"], owner)
    facts = {"taker": _taker(line.get("by"), turn), "account": owner.account}
    if line.get("mine") or line.get("theirs"):
        facts |= {"mine": f"{line['mine']:.2f}", "theirs": f"{line['theirs']:.2f}"}
    why = explain_stop(Rule[str(line["rule"]).upper()], facts)
    if line["cause"] in ("cancelled", "forced"):
        reason = f": {line['reason']}" if line.get("reason") else ""
        verb = "cancelled" if line["cause"] == "cancelled" else "stopped"
        why = f"{verb} by {line.get('by') or 'a manager'}{reason}"
    again = line["cause"] not in ("cancelled", "timed_out") and owner.resumable
    left = line["grace_until_s"] - line["t"] if isinstance(line["grace_until_s"], int) else 0
    grace = (
        f" It has {span_text(left)} to save, until {turn.clock(line['grace_until_s'])}." if left > 0 else ""
    )
    then = " It is queued again by itself." if again else " It is not queued again."
    return "stopping", f"{who} is being stopped, attempt {line['attempt']}: {why}.{grace}{then}"


def _stopped(line: Mapping[str, Any], owner: Owner, turn: _Turn) -> Told:
    who, end = _job(line["job"], owner), line["end"]
    held = f"held {line['held_gpu_s'] / 3600:.1f} GPU-hours"
    lost = line.get("lost_gpu_s") or 0
    lost_text = f", of which {lost / 3600:.1f} since its last save are lost" if lost else ""
    detail = f" ({owner.detail})" if owner.detail else ""
    then = " It is queued again by itself." if line["job"] in turn.requeued else ""
    if end == "failed":
        return end, f"{who} failed{detail}, attempt {line['attempt']}; it {held}."
    if end == "timed_out":
        limit = f" of {span_text(owner.max_runtime_s)}" if owner.max_runtime_s else ""
        return end, f"{who} was ended at its own max_runtime{limit}; it {held}."
    if end == "node_failed":
        return end, f"{who} lost its node{detail}, attempt {line['attempt']}; it {held}{lost_text}.{then}"
    if end == "preempted" and line["job"] not in turn.requeued:
        return end, f"{who} has ended: it was stopped and is not queued again; it {held}{lost_text}."
    if end == "finished":
        return end, f"{who} finished; it {held}."
    return "", ""


#: How lines begin that somebody may have to be told of: the others need not be read.
TOLD = tuple(f'{{"event":"{event}"' for event in ("notice", "stopping", "stopped"))
TELL: Mapping[str, Callable[[Mapping[str, Any], Owner, _Turn], Told]] = {
    "notice": _notice,
    "stopping": _stopping,
    "stopped": _stopped,
}


def _job(job: str, owner: Owner) -> str:
    return f"Job {job} ({owner.name})" if owner.name else f"Job {job}"


def _taker(by: Any, turn: _Turn) -> str:
    if not by:
        return "somebody"
    owner = turn.owner_of(str(by))
    return f"job {by} of {owner.account}" if owner else f"{by}"
