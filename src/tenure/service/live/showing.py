"""One job: all that may be seen of it, why it waits, its story, what it wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tenure.client.messages import Attempt, Happening, Job, Log, Range, Why
from tenure.core.explain import STARTED
from tenure.core.tell_one import Instant
from tenure.core.words import Phase, Rule
from tenure.daemon.asked import HELD_BACK
from tenure.daemon.view import View
from tenure.engines.protocol import EngineError
from tenure.ledger.records import AttemptRow, JobRow
from tenure.service.live.desk import Desk, called
from tenure.service.live.errors import Forbidden, NotKnown, NotReady
from tenure.service.live.moments import moment, moments_of
from tenure.service.live.people import Who, may_act
from tenure.service.live.queueing import lines_of, reasons_of
from tenure.service.live.submitting import why_of
from tenure.settings.units import duration_s

HOUR_S = 3600
PHASES = ("running", "stopping", "waiting", "ended")  #: an array is in the first that one of its jobs is in
WORSE = ("finished", "cancelled", "preempted", "node_failed", "timed_out", "failed")
MOST_LOG_BYTES = 4 << 20
MOST_EVENTS = 10_000
ENDS = {
    "finished": "ended: finished",
    "failed": "ended: failed",
    "preempted": "ended: stopped for others, and it cannot resume",
    "node_failed": "ended with its node, and it cannot resume",
    "cancelled": "ended: cancelled",
    "timed_out": "ended: stopped at its own max_runtime",
}


def show(desk: Desk, who: Who, name: str) -> Job:
    """All that this person may see of the job, or of the jobs of the array. Raises NotKnown."""
    row = _single(desk, name)
    if isinstance(row, list):
        return _array(desk, who, name, row)
    view = desk.view()
    on_board = view.row_of(name)
    card = view.cards.get(name)
    phase = row.phase
    reason = sentence = None
    if phase == "waiting" and on_board >= 0:
        reason = reasons_of(view, [on_board]).get(on_board)
        told = None if reason is None else _instant(view).why_waits(on_board)["sentence"]
        sentence = _held_back(view, on_board) or told
    return _asked(desk, who, row).model_copy(
        update={
            "end": row.end or None,
            "ended": desk.date(row.ended_t),
            "held": card is not None and card.held_by not in ("", *HELD_BACK),
            "reason": reason,
            "sentence": sentence,
            "detail": row.detail,
            "attempts": [_attempt(desk, one) for one in desk.ledger.attempts(name)],
        }
    )


def _asked(desk: Desk, who: Who, row: JobRow) -> Job:
    """What the job asks for, and who asked."""
    spec: Mapping[str, Any] = row.spec
    open_to = may_act(desk.lab, who, row.user, row.account)
    shown = ("command", "env", "workdir")
    return Job(
        job=row.job,
        account=row.account,
        user=row.user,
        phase=row.phase,
        gpus=row.gpus,
        min_runtime_s=row.min_runtime_s,
        priority=int(spec.get("priority", 0)),
        kind=str(spec.get("kind", "batch")),
        resumable=bool(spec.get("resumable", True)),
        max_runtime_s=None if spec.get("max_runtime") is None else duration_s(spec["max_runtime"]),
        clusters=spec.get("clusters"),
        gpu=spec.get("gpu"),
        same_rack=bool(spec.get("same_rack", False)),
        name=str(spec.get("name", "")),
        array=row.array or None,
        after=list(spec.get("after", ())),
        submitted=desk.date(row.submitted_t) or "",
        **{key: spec[key] for key in shown if open_to and key in spec},
    )


def _single(desk: Desk, name: str) -> JobRow | list[JobRow]:
    """The job of that id, or the jobs of the array of that id. Raises NotKnown."""
    try:
        return desk.job(name)
    except NotKnown:
        elements = desk.elements(name)
        if not elements:
            raise
        return elements


def _array(desk: Desk, who: Who, name: str, rows: Sequence[JobRow]) -> Job:
    phases = [one.phase for one in rows]
    phase = next(word for word in PHASES if word in phases)
    over = phase == "ended"
    ended_t = [one.ended_t for one in rows if one.ended_t is not None]
    return _asked(desk, who, rows[0]).model_copy(
        update={
            "job": name,
            "array": name,
            "phase": phase,
            "end": max((one.end for one in rows), key=WORSE.index) if over else None,
            "ended": desk.date(max(ended_t)) if over and ended_t else None,
            "elements": lines_of(desk, desk.view(), rows),
        }
    )


def _one(desk: Desk, name: str) -> JobRow:
    """The job of that id. Raises NotKnown."""
    job = _single(desk, name)
    if isinstance(job, list):
        raise NotKnown(f"{name} is an array: say which of its jobs, {job[0].job} … {job[-1].job}")
    return job


def _attempt(desk: Desk, one: AttemptRow) -> Attempt:
    return Attempt(
        attempt=one.attempt,
        started=desk.date(one.started_t) or "",
        stopped=desk.date(one.stopped_t),
        end=one.end or None,
        nodes=dict(one.nodes),
        protected_until=desk.date(one.protected_until_t) if one.protected_until_t > one.started_t else None,
        rule=one.reason,
        held_gpu_h=None if one.held_gpu_s is None else one.held_gpu_s / HOUR_S,
        lost_gpu_h=None if one.lost_gpu_s is None else one.lost_gpu_s / HOUR_S,
        exit_code=one.exit_code,
        detail=one.detail,
    )


def _instant(view: View) -> Instant:
    return Instant(view.core, view.standing_at(view.t), view.policy, called(view), view.t, moments_of(view))


def why(desk: Desk, who: Who, name: str) -> Why:
    """Why the job waits; or by which rule it runs, or how it ended. Raises NotKnown.

    Of an array: of the first of its jobs that waits, else of the first that runs, else of the first.
    """
    job = _single(desk, name)
    if isinstance(job, list):
        phases = [one.phase for one in job]
        first = next((phases.index(word) for word in ("waiting", "running") if word in phases), 0)
        return why(desk, who, job[first].job)
    view = desk.view()
    row = view.row_of(name)
    phase = Phase(int(view.board.stays["phase"][row])) if row >= 0 else Phase.ENDED
    if phase in (Phase.RUNNING, Phase.STOPPING):
        return _runs(desk, view, job, row, phase)
    if phase in (Phase.ENDED, Phase.ABSENT):
        sentence = job.detail if job.phase != "ended" else _ended(job)
        return _told(view, desk, job, sentence or f"is {job.phase}")
    told = _instant(view).why_waits(row)
    answer = why_of(desk, view, told, view.t, job=name, phase="waiting")
    held_back = _held_back(view, row)
    return answer if held_back is None else answer.model_copy(update={"sentence": held_back})


def _held_back(view: View, row: int) -> str | None:
    """Why a job is on hold, where more is known: others must end first, or somebody said why."""
    if Phase(int(view.board.stays["phase"][row])) != Phase.HELD:
        return None
    card = view.cards[view.ids[row]]
    if card.held_by in HELD_BACK:
        return card.detail or None  # "waits until …"
    why = f": {card.detail}" if card.detail else ""
    return f"waits: {card.held_by} put it on hold{why}" if card.held_by else None


def _ended(job: JobRow) -> str:
    return ENDS.get(job.end, f"ended: {job.end}") + (f" ({job.detail})" if job.detail else "")


def _runs(desk: Desk, view: View, job: JobRow, row: int, phase: Phase) -> Why:
    stay = view.board.stays[row]
    attempts = desk.ledger.attempts(job.job)
    rule = attempts[-1].reason.upper() if attempts else ""
    instant = _instant(view)
    said = instant.why_started(row, Rule[rule]) if rule in Rule.__members__ and Rule[rule] in STARTED else ""
    if phase == Phase.STOPPING:
        text = f"was told to stop and has until {moment(view.start + int(stay['stop_s']))}"
        if attempts and attempts[-1].detail:
            text += f": {attempts[-1].detail}"
    else:
        text = f"runs since {moment(view.start + int(stay['started_s']))}"
        if int(stay["protected_until_s"]) > view.t and stay["budgeted"]:
            text += f", protected until {moment(view.start + int(stay['protected_until_s']))}"
        text += f"; it {said}" if said else ""
    told = _told(view, desk, job, text)
    numbers = instant.standing(int(stay["cluster"]), int(stay["account"]))
    nodes = dict(attempts[-1].nodes) if attempts else {}
    return told.model_copy(update={"numbers": numbers, "nodes": nodes})


def _told(view: View, desk: Desk, job: JobRow, sentence: str) -> Why:
    return Why(
        job=job.job,
        phase=job.phase,
        starts_now=False,
        reason=None,
        sentence=sentence,
        numbers={},
        earliest_start=Range(),
        turn=view.turn,
        at=desk.date(view.t) or "",
    )


def events(desk: Desk, who: Who, name: str) -> list[Happening]:
    """The story of the job, oldest first. Raises NotKnown, of an array too: each of its jobs has its own."""
    _one(desk, name)
    told = []
    for line in desk.ledger.events(job=name, limit=MOST_EVENTS):
        event = json.loads(line)
        kept = {key: value for key, value in event.items() if key not in ("n", "t", "event", "job")}
        t = int(event["t"])
        told.append(Happening(t=t, at=desk.date(t) or "", event=event["event"], details=kept))
    return told


def log(desk: Desk, who: Who, name: str, *, attempt: int | None = None, last_bytes: int = 1 << 16) -> Log:
    """The end of what an attempt wrote; of the newest by default. Raises NotKnown, Forbidden or NotReady."""
    job = _one(desk, name)
    if not may_act(desk.lab, who, job.user, job.account):
        raise Forbidden(
            f"job {name} is {job.user}'s: its log is for them, managers of {job.account} and administrators"
        )
    attempts = desk.ledger.attempts(name)
    chosen = attempts[-1].attempt if attempts and attempt is None else attempt
    known = {one.attempt: one for one in attempts}
    if chosen is None or chosen not in known:
        never = "never started" if job.phase == "ended" else "has not started yet"
        which = never if not attempts else f"has no attempt {attempt}"
        raise NotKnown(f"job {name} {which}: there is no log")
    try:
        written = desk.engine.log_of(name, chosen, last_bytes=max(0, min(last_bytes, MOST_LOG_BYTES)))
    except EngineError as silent:
        raise NotReady(f"the engine does not give the log now: {silent}") from None
    running = known[chosen].stopped_t is None
    return Log(
        job=name,
        attempt=chosen,
        text=written.decode("utf-8", "replace"),
        offset=len(written),
        running=running,
    )
