"""What do Slurm's lines mean? A pure function from rows to attempts, arrivals, and what is still to do.

Slurm knows one start of a job at a time, the newest; the note in its AdminComment (`note`) says which attempt
of Tenure's that is. A restart count above the note's means: that attempt is over.

| Slurm's state | note | means |
| --- | --- | --- |
| waits | none | an arrival |
| waits | of this restart count | released, not begun |
| waits | of an earlier count | that attempt is over; an arrival again |
| lives | of this count | runs |
| lives | none, or earlier | started behind our back, as the attempt after the noted one |
| over | any | ended; to be queued again where we told it to leave for that |
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tenure.engines.protocol import SeenArrival, SeenAttempt, SeenNode
from tenure.engines.slurm.asked import Asked
from tenure.engines.slurm.note import Note
from tenure.engines.slurm.rows import LIVES, OVER, WAITS, Job, Node, gpus_of

DEAD = frozenset(
    ("down", "fail", "powered_down", "powering_down", "power_down", "future", "unknown", "inval")
)
DRAINS = frozenset(("drain", "drained", "draining", "failing", "maint", "reboot_requested", "reboot_issued"))
UNKNOWN_EXIT = 255  #: of what did not end well, where Slurm names neither code nor signal
SILENT = frozenset(("not_responding", "no_respond"))


class Said(NamedTuple):
    """What jobs said of themselves in the shared folder: raw id, restart count and user → instant."""

    done: Mapping[tuple[str, int, str], float] = {}
    saved: Mapping[tuple[str, int, str], float] = {}


class Sight(NamedTuple):
    """What the rows mean."""

    attempts: list[SeenAttempt]
    arrivals: list[SeenArrival]
    hold: list[Job]  #: waits unheld and is not ours to have released
    requeue: list[Job]  #: was told to leave, is over, and is to be queued again
    press: list[Job]  #: was told to leave and still lives
    drop: list[Job]  #: was told to leave for good, and Slurm queued it again
    bring_back: list[Job]  #: was started again by Slurm itself after its node had failed


def seen_node(node: Node, silent_for_s: float, patience_s: float) -> SeenNode:
    """A node. One that does not answer takes nothing new once that has lasted; Slurm says when it is down."""
    dead = bool(node.states & DEAD)
    silent = bool(node.states & SILENT) and silent_for_s >= patience_s
    drains = bool(node.states & DRAINS)
    reason = node.reason or ("it does not respond to slurmctld" if silent or dead else "")
    return SeenNode(node.name, node.gpus, not dead, drains or silent, reason)


def sight_of(
    jobs: Sequence[Job],
    nodes: Sequence[Node],
    ask: Callable[[Job], Asked],
    said: Said,
    at: float,
    *,
    throttles: Mapping[str, int] | None = None,
) -> Sight:
    """
    Attempts and arrivals of all jobs of the partition, and what is still to be done about them.

    `ask`: what a job asks for. `at`: epoch seconds by slurmctld's clock.
    """
    dead = {node.name for node in nodes if node.states & DEAD}
    silent = {node.name for node in nodes if node.states & SILENT}
    sight = Sight([], [], [], [], [], [], [])
    for job in jobs:
        if job.state in WAITS:
            waits = _waits(job, sight, dead | silent, said)
        elif job.state in OVER:
            waits = _over(job, sight, said, at)
        else:
            waits = _lives(job, sight, dead | silent, said)
        if waits:
            sight.arrivals.append(arrival_of(job, ask(job)))
    _name_tasks(jobs, sight)
    _throttle(jobs, sight, throttles or {})
    return sight


def _name_tasks(jobs: Sequence[Job], sight: Sight) -> None:
    """Whoever waits for a whole array waits for each of its tasks."""
    for place, arrival in enumerate(sight.arrivals):
        after = arrival.spec.get("after")
        if isinstance(after, list) and any("_*" in one for one in after):
            named = [
                one.replace("*", job.id.partition("_")[2])
                for one in after
                for job in jobs
                if "_*" not in one or job.id.startswith(one.partition("*")[0])
            ]
            spec = {**arrival.spec, "after": list(dict.fromkeys(named))}
            sight.arrivals[place] = arrival._replace(spec=spec)


def _throttle(jobs: Sequence[Job], sight: Sight, throttles: Mapping[str, int]) -> None:
    """`--array=0-9%2`: Slurm would not begin a third task, so it is on hold until one of two has left."""
    left = dict(throttles)
    waiting = {arrival.job for arrival in sight.arrivals}
    for job in jobs:
        array = job.id.partition("_")[0]
        if array in left and job.state not in OVER and job.id not in waiting:
            left[array] -= 1
    tasks = []
    for place, arrival in enumerate(sight.arrivals):
        array, _, task = arrival.job.partition("_")
        if task.isdigit() and array in left and not arrival.held:
            tasks.append((array, int(task), place))
    for array, _, place in sorted(tasks):
        left[array] -= 1
        if left[array] < 0:
            sight.arrivals[place] = sight.arrivals[place]._replace(held=True, throttled=True)


def arrival_of(job: Job, found: Asked) -> SeenArrival:
    """The job with what it asks for."""
    return SeenArrival(
        job=job.id,
        submitted=job.submitted,
        user=found.user or job.user,
        spec=found.spec,
        enrolled=found.order,
        refused=found.refused,
        held=job.reason == "JobHeldAdmin",
    )


def _waits(job: Job, sight: Sight, dead: set[str], said: Said) -> bool:
    """Whether it waits for a decision of ours."""
    note = job.note
    if note is not None and (note.restarts < job.restarts or note.ended is not None):
        sight.attempts.append(_requeued(job, note, dead, said))
    elif note is not None:
        held = " and held there" if job.priority == 0 else ""
        detail = f"released at Slurm, not begun ({job.reason or 'no reason given'}){held}"
        sight.attempts.append(
            SeenAttempt(job.id, note.attempt, note.nodes, told=bool(note.stop), detail=detail)
        )
        if note.stop:
            sight.press.append(job)
        return False
    if note is not None and note.stop and not note.requeue:
        sight.drop.append(job)
        return False
    if job.priority > 0:
        sight.hold.append(job)
    return True


def _requeued(job: Job, note: Note, dead: set[str], said: Said) -> SeenAttempt:
    """An attempt that Slurm has queued again since: of its end it keeps only the instant."""
    ended = note.ended if note.ended is not None else job.submitted
    exit_code, signal_ = _end(note.status)
    began = note.started
    if began is None and note.restarts < job.restarts:  # else it was taken back before it had begun
        began = note.since
    failed = sorted(dead & set(note.nodes))
    if note.stop:
        detail = "told to leave, and queued again"
    elif failed:
        detail = f"{failed[0]} failed under it"
    else:
        detail = "queued again by Slurm itself, or by somebody there"
    return SeenAttempt(
        job.id,
        note.attempt,
        note.nodes,
        started=None if began is None else min(began, ended),
        ended=ended,
        exit_code=exit_code,
        signal=signal_,
        node_failed=not note.stop,  # or somebody at Slurm: no fault of the job's
        told=bool(note.stop),
        saved=said.saved.get((job.raw, note.restarts, job.user)),
        detail=detail,
    )


def attempt_of(job: Job) -> int:
    """The number of the attempt that Slurm runs, or ran last."""
    note = job.note
    if note is None:
        return job.restarts + 1
    # while a requeued job completes, Slurm counts the coming restart already
    behind = 1 if job.state == "COMPLETING" and job.restarts == note.restarts + 1 else 0
    again = job.restarts - behind - note.restarts
    if again == 0 and note.ended is not None and job.state in LIVES:
        again = 1  # it was taken back before it had begun, and somebody else let it go
    return note.attempt + max(0, again)


def placed(job: Job) -> dict[str, int]:
    """GPUs by node of what runs, or ran. Empty where Slurm does not say."""
    note = job.note
    if not job.nodes:
        return {}
    if note is not None and set(note.nodes) == set(job.nodes):
        return dict(note.nodes)
    for text, times in ((job.per_node, len(job.nodes)), (job.per_job, 1), (job.per_task, job.tasks)):
        count = gpus_of(text)[0] * times
        if count and count % len(job.nodes) == 0:
            return dict.fromkeys(job.nodes, count // len(job.nodes))
    return {}


def _lives(job: Job, sight: Sight, dead: set[str], said: Said) -> bool:
    note, attempt = job.note, attempt_of(job)
    told = note is not None and bool(note.stop) and attempt == note.attempt
    if note is not None and attempt > note.attempt:
        sight.attempts.append(_requeued(job, note, dead, said))
        sight.bring_back.append(job)
    restarts = note.restarts if note is not None and attempt == note.attempt else job.restarts
    key = (job.raw, restarts, job.user)
    sight.attempts.append(
        SeenAttempt(
            job.id,
            attempt,
            placed(job),
            started=None if job.state == "CONFIGURING" else job.started,
            told=told,
            done=key in said.done,
            saved=said.saved.get(key),
            detail="" if job.state == "RUNNING" else job.state.lower(),
        )
    )
    if told:
        sight.press.append(job)
    return job in sight.bring_back


def _over(job: Job, sight: Sight, said: Said, at: float) -> bool:
    note, attempt = job.note, attempt_of(job)
    if note is not None and (note.restarts < job.restarts or note.ended is not None):
        sight.attempts.append(_requeued(job, note, set(), said))
        if job.state == "CANCELLED" or job.started is None:
            return False  # while it waited again
    if note is None and (job.started is None or not job.nodes):
        return False  # left while it waited
    told = note is not None and bool(note.stop) and attempt == note.attempt
    key = (job.raw, job.restarts, job.user)
    done = key in said.done
    exit_code, signal_ = _end(job.status)
    if job.state != "COMPLETED" and not exit_code and signal_ is None:
        exit_code = UNKNOWN_EXIT
    began = job.started if job.nodes else None
    sight.attempts.append(
        SeenAttempt(
            job.id,
            attempt,
            placed(job) or (dict(note.nodes) if note is not None else {}),
            started=began,
            ended=job.ended if job.ended is not None else at,
            exit_code=exit_code,
            signal=signal_,
            node_failed=job.state in ("NODE_FAIL", "BOOT_FAIL"),
            timed_out=job.state in ("TIMEOUT", "DEADLINE"),
            cancelled=job.state in ("CANCELLED", "PREEMPTED", "REVOKED") and not told,
            told=told,
            done=done,
            saved=said.saved.get(key),
            detail="told to leave" if told else _ending(job),
        )
    )
    if note is not None and told and note.requeue and job.requeue and not done:
        sight.requeue.append(job)
        return True
    return False


def _ending(job: Job) -> str:
    reason = f" ({job.reason})" if job.reason else ""
    return f"Slurm says {job.state.lower()}{reason}"


def _end(status: int | None) -> tuple[int | None, int | None]:
    """Exit code and signal of a wait status."""
    if status is None:
        return None, None
    if os.WIFSIGNALED(status):
        return None, os.WTERMSIG(status)
    return os.WEXITSTATUS(status), None


__all__ = ["LIVES", "Said", "Sight", "arrival_of", "attempt_of", "placed", "seen_node", "sight_of"]
