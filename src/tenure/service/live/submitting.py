"""May this job come in, what does its minimum cost and buy, and how long will it wait?"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from tenure.client.messages import Range, Receipt, Submitted, Why
from tenure.core.columns import UGPU
from tenure.core.words import NEVER_S, Phase
from tenure.daemon.view import View
from tenure.service.live.desk import Desk, called
from tenure.service.live.errors import Forbidden, NotReady
from tenure.service.live.foresight import door_of
from tenure.service.live.people import Who, check_submit
from tenure.service.live.queueing import free_in_service
from tenure.service.live.standings import left_gpu_s, used_gpu_s
from tenure.service.questions import QUICK_S, Candidate, candidates
from tenure.settings.errors import BadInput, nearest, shown
from tenure.settings.job import DEBUG_GPUS
from tenure.settings.job_in_lab import account_row, clusters_for
from tenure.settings.live_job import Submission, elements, submission
from tenure.settings.units import duration_text

LONGEST_KEY = 200
HOUR_S = 3600

_LIMITS = threading.Lock()


def submit(
    desk: Desk, who: Who, asked: Mapping[str, Any], *, key: str = "", with_receipt: bool = True
) -> Submitted:
    """Take a job in. `key`: the client's own name of this submission; asked twice it is submitted once.

    Raises BadInput, Forbidden, NotKnown, NotNow or NotReady.
    """
    if len(key) > LONGEST_KEY or "\0" in key:
        raise BadInput("Idempotency-Key", "", shown(key), f"at most {LONGEST_KEY} characters")
    job = checked(desk, who, asked)
    view = desk.view()
    with nullcontext() if desk.lab.live.limits is None else _LIMITS:
        _check_limits(desk, view, who, job)
        receipt = receipt_of(desk, view, job) if with_receipt else None
        answer = desk.obey(who, "submit", "", {"spec": job.spec()}, key=key)
    jobs = [str(one) for one in answer.get("jobs", ())]
    return Submitted(
        job=str(answer["job"]),
        receipt=receipt,
        jobs=jobs if job.array is not None else [],
        warnings=[str(remark) for remark in answer.get("remarks", ())],
    )


def why_if(desk: Desk, who: Who, asked: Mapping[str, Any]) -> Why:
    """Why a job would wait if it came now, and what would change it; nothing is submitted."""
    given = {"command": ["true"], **asked}
    job = checked(desk, who, given)
    view = desk.view()
    names, now_s = called(view), max(view.t, desk.t())
    told = desk.foresight.ask(view, job, names, now_s=now_s)
    if told is None:
        raise NotReady("too many ask at once: ask again")
    changes = []
    if not told["starts_now"]:
        for other in candidates(job, desk.holder):
            again = desk.foresight.ask(view, job.model_copy(update=_keys(other)), names, now_s=now_s)
            if again is not None and _sooner(again, told):
                start = waits(again, now_s, desk)
                changes.append(
                    {"change": other.change, "starts_now": again["starts_now"]} | start.model_dump()
                )
    return why_of(desk, view, told, now_s, job=None, phase="absent").model_copy(
        update={
            "would_change": changes,
            "receipt": receipt_of(desk, view, job),
            "warnings": door_of(view).remarks(job),
        }
    )


def _keys(other: Candidate) -> dict[str, Any]:
    """What differs, as values rather than as a file writes them."""
    return {key: getattr(other.job, key) for key in other.change}


def why_of(
    desk: Desk, view: View, told: Mapping[str, Any], now_s: int, *, job: str | None, phase: str
) -> Why:
    """An answer of the core as a message."""
    return Why(
        job=job,
        phase=phase,
        starts_now=bool(told.get("starts_now", False)),
        reason=told.get("reason"),
        sentence=str(told["sentence"]),
        numbers=dict(told.get("numbers") or {}),
        earliest_start=waits(told, now_s, desk),
        need=told.get("need"),
        have=told.get("have"),
        evidence=told.get("evidence"),
        nodes=dict(told.get("nodes") or {}),
        stops=list(told.get("stops") or ()),
        turn=view.turn,
        at=desk.date(view.t) or "",
    )


def waits(told: Mapping[str, Any], now_s: int, desk: Desk) -> Range:
    """The earliest start as a range."""
    early_s, late_s = told["earliest_start"]["earliest_s"], told["earliest_start"]["latest_s"]
    return Range(
        earliest=desk.date(early_s),
        latest=desk.date(late_s),
        earliest_s=None if early_s is None or early_s >= NEVER_S else max(0, early_s - now_s),
        latest_s=None if late_s is None or late_s >= NEVER_S else max(0, late_s - now_s),
    )


def _sooner(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether it surely starts earlier: by the bound above, where there is one, else by the one below."""
    if one["starts_now"]:
        return True
    mine, theirs = one["earliest_start"], other["earliest_start"]
    mine_late = NEVER_S if mine["latest_s"] is None else mine["latest_s"]
    theirs_late = NEVER_S if theirs["latest_s"] is None else theirs["latest_s"]
    return (mine_late, mine["earliest_s"]) < (theirs_late, theirs["earliest_s"])


def checked(desk: Desk, who: Who, asked: Mapping[str, Any]) -> Submission:
    """The submission, its values and its place in this lab checked. Raises BadInput or Forbidden."""
    job = submission(asked)
    account_row(desk.lab.rows(), job.account, "job", "account")
    if job.account == "":
        raise BadInput("job", "account", "''", nearest("", [path for path in desk.lab.rows() if path]))
    clusters_for(job, desk.holder, "job")
    check_submit(desk.lab, who, job.account)
    return job


def _check_limits(desk: Desk, view: View, who: Who, job: Submission) -> None:
    """The lab's limits for each researcher, over all that waits and runs. Raises Forbidden."""
    limits = desk.lab.live.limits
    if limits is None:
        return
    count = 1 if job.array is None else elements(job.array).how_many
    phases = view.board.stays["phase"]
    mine = [view.row_of(name) for name, card in view.cards.items() if card.user == who.user]
    rows = [row for row in mine if row >= 0 and phases[row] not in (Phase.ENDED, Phase.ABSENT)]
    gpus = int(view.board.stays["gpus"][rows].sum()) if rows else 0
    if limits.max_jobs is not None and len(rows) + count > limits.max_jobs:
        raise Forbidden(
            f"{who.user} has {_jobs(len(rows))} and may have {limits.max_jobs}:"
            f" {count} more would pass the limit (live.limits.max_jobs)"
        )
    if limits.max_gpus is not None and gpus + count * job.gpus > limits.max_gpus:
        raise Forbidden(
            f"{who.user}'s jobs ask for {gpus} GPUs and may ask for {limits.max_gpus}:"
            f" {count * job.gpus} more would pass the limit (live.limits.max_gpus)"
        )


def _jobs(count: int) -> str:
    return "1 job that waits or runs" if count == 1 else f"{count} jobs that wait or run"


# --- the receipt (S22) ------------------------------------------------------------------------------------


def receipt_of(desk: Desk, view: View, job: Submission) -> Receipt:
    """What this minimum costs, what it buys, and the wait foreseen with it and with a smaller one."""
    protected_s = min(job.min_runtime, view.policy.max_protected_s)
    names, now_s = called(view), max(view.t, desk.t())
    alone = not job.after and not job.hold
    silent = view.engine.silent_since is not None
    told = smaller = None
    smaller_s = _smaller(job)
    decide = desk.foresight.has_time()
    if alone and not silent:
        told = desk.foresight.ask(view, job, names, now_s=now_s, decide=decide)
    if told is not None and not told["starts_now"] and smaller_s is not None:
        other = job.model_copy(update={"min_runtime": smaller_s})
        smaller = desk.foresight.ask(view, other, names, now_s=now_s, decide=decide)
    row = door_of(view).leaf_of[job.account]
    cluster = _cluster_of(desk, view, job)
    standing = view.board.standings[cluster * len(view.core.accounts) + row]
    many = 1 if job.array is None else elements(job.array).how_many
    return Receipt(
        account=job.account,
        gpus=job.gpus,
        elements=many,
        min_runtime_s=job.min_runtime,
        protected_s=protected_s,
        cost_gpu_h=many * job.gpus * protected_s / HOUR_S,
        entitlement=float(standing["entitled_ugpu"]) / UGPU,
        left_gpu_h=left_gpu_s(view, standing, used_gpu_s(view, cluster, row, now_s)) / HOUR_S,
        buys=_buys(job, protected_s, view.policy.max_protected_s),
        wait=None if told is None else waits(told, now_s, desk),
        smaller_min_runtime_s=None if smaller is None else smaller_s,
        smaller_wait=None if smaller is None else waits(smaller, now_s, desk),
        notes=_notes(job, silent) + _notes_of_array(view, job, clusters_for(job, desk.holder, "job")),
    )


def _buys(job: Submission, protected_s: int, most_s: int) -> str:
    if job.min_runtime == 0:
        again = "is queued again by itself" if job.resumable else "ends there"
        return f"nothing is charged; it runs while GPUs are free, may be stopped at any moment and {again}"
    cut = (
        f" (the most there is; {duration_text(job.min_runtime)} was asked for)"
        if job.min_runtime > most_s
        else ""
    )
    return f"at every start, {duration_text(protected_s)}{cut} in which it is not stopped for others"


def _notes(job: Submission, silent: bool) -> list[str]:
    notes = []
    if silent:
        notes.append("the engine does not answer: nothing is started or stopped until it does")
    if job.after:
        notes.append(f"it waits for {', '.join(job.after)} first; no wait is foreseen")
    if job.hold:
        notes.append("it is on hold until it is released")
    return notes


def _notes_of_array(view: View, job: Submission, clusters: int) -> list[str]:
    """What is foreseen of one element says little of many."""
    if job.array is None:
        return []
    found = elements(job.array)
    together = min(found.how_many, found.at_once or found.how_many)
    able = [row for row in range(len(view.lab.clusters)) if clusters >> row & 1]
    free = sum(free_in_service(view, row) for row in able)
    if together == 1 or together * job.gpus <= free:
        return []
    where = ", ".join(view.lab.clusters[row] for row in able)
    return [
        f"{together} jobs of it may run at once and ask for {together * job.gpus} GPUs, of which {free} are"
        f" free in {where} now: the others wait longer than the first"
    ]


def _smaller(job: Submission) -> int | None:
    """A smaller minimum worth comparing with: the quick lane's where the job is small, else a half."""
    if job.gpus <= DEBUG_GPUS and job.min_runtime > QUICK_S:
        return QUICK_S
    half_s = job.min_runtime // 120 * 60
    return half_s if half_s > 0 else None


def _cluster_of(desk: Desk, view: View, job: Submission) -> int:
    """The first cluster that it may run on."""
    bits = clusters_for(job, desk.holder, "job")
    return (bits & -bits).bit_length() - 1
