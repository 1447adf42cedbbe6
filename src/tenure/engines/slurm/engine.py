"""Slurm as the machine room: every job lives in Slurm, held, until Tenure says where it runs.

Nothing is kept here that may not be lost: what was ordered stands in the job itself (`note`), so an order
repeated by another process does nothing more, and a grace goes on by its recorded deadline.
"""

from __future__ import annotations

import os
import pwd
import stat
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tenure.engines.clock import Clock, RealClock
from tenure.engines.protocol import (
    EngineError,
    EngineUnavailable,
    Enrol,
    Forget,
    Notice,
    Order,
    OrderRefused,
    Seen,
    SeenAttempt,
    SeenNode,
    SetNode,
    Start,
    Stop,
    Withdraw,
)
from tenure.engines.slurm.asked import Reader, asked
from tenure.engines.slurm.doctor import Finding, findings
from tenure.engines.slurm.enrolment import submitted, withdrawn
from tenure.engines.slurm.note import Note, written
from tenure.engines.slurm.programs import Failed, Programs, batches
from tenure.engines.slurm.rows import (
    LIVES,
    OVER,
    WAITS,
    Job,
    Node,
    in_partition,
    jobs_of,
    nodes_of,
    throttles_of,
)
from tenure.engines.slurm.settings import SlurmSettings
from tenure.engines.slurm.shared_folder import SharedFolder
from tenure.engines.slurm.sight import Sight, attempt_of, placed, seen_node, sight_of
from tenure.engines.slurm.skew import Skew
from tenure.engines.slurm.traces import Traces

BETWEEN_REQUEUE_AND_RELEASE_S = 2.0  #: sooner, the credential of the last start may refuse the next one
SIGNAL_WITHIN_S = 2.0
HEARS_AFTER_S = 5.0  #: Slurm calls a job running before its script is: a signal in between is lost
SILENT_FOR_S = 30.0  #: a node that does not answer for so long takes nothing new
ALREADY = (
    "invalid job id",
    "already completing or completed",
    "already finished",
    "job is pending execution",
)


class SlurmEngine:
    """One partition of one Slurm. Needs the rights of root or SlurmUser (`tenure doctor` says what lacks)."""

    name = "slurm"
    keeps_queue = True
    limit_step_s = 60  #: Slurm counts in minutes

    def __init__(
        self,
        settings: SlurmSettings | None = None,
        clock: Clock | None = None,
        programs: Programs | None = None,
    ) -> None:
        self.settings = settings or SlurmSettings()
        self.clock: Clock = clock or RealClock()
        conf = {"SLURM_CONF": self.settings.conf} if self.settings.conf else {}
        self.programs = programs or Programs(timeout_s=self.settings.timeout_s, env=conf)
        self.troubles = 0  #: how often something ordered could not be pressed on, so far
        self.last_trouble = ""
        self.odd = 0  #: lines of squeue and sinfo that could not be read, so far
        self._skew = Skew(self.programs, self.clock)
        self._traces = Traces(self.programs)
        self._reader = Reader(self.settings)
        self._folder = SharedFolder(self.settings.folder)
        self._lock = threading.RLock()
        self._silent_since: dict[str, float] = {}
        self._open: dict[tuple[str, int], SeenAttempt] = {}  #: seen alive
        self._vanished: dict[tuple[str, int], SeenAttempt] = {}
        self._forgotten: set[tuple[str, int]] = set()  #: ended, recorded, and still in Slurm's memory
        self._outputs: dict[str, tuple[str, str]] = {}  #: job → its output's path and its user
        self._at_hand: dict[str, Job] | None = None  #: what ran when orders were begun to be carried out
        self._killwait_s: float | None = self.settings.killwait_s
        self._closing = threading.Event()
        self._watcher: threading.Thread | None = None

    # --- what is ------------------------------------------------------------------------------------

    def see(self) -> Seen:
        """All nodes, attempts and arrivals. Orders under way are pressed on: deadlines, requeues, holds."""
        with self._lock:
            sight, nodes, at = self._look()
            self._press_on(sight, at)
            self._remember(sight, at)
            told = [one for one in sight.attempts if (one.job, one.attempt) not in self._forgotten]
            return Seen(at, nodes, [*told, *self._vanished.values()], sight.arrivals)

    def _look(self) -> tuple[Sight, list[SeenNode], float]:
        at = self._skew.now()
        jobs, odd_jobs = jobs_of(self.programs, self.settings.partition)
        nodes, odd_nodes = nodes_of(self.programs, self.settings.partition)
        self.odd += odd_jobs + odd_nodes
        for job in jobs:
            self._outputs[job.id] = (job.output, job.user)
        arrays = any("_" in job.id and job.state in WAITS for job in jobs)
        throttles = throttles_of(self.programs, self.settings.partition) if arrays else {}
        self._reader.begin(max((node.gpus for node in nodes), default=0))
        self._know(jobs)
        sight = sight_of(jobs, nodes, self._reader, self._folder.said(), at, throttles=throttles)
        return sight, [seen_node(node, self._silent_for(node, at), SILENT_FOR_S) for node in nodes], at

    def _know(self, jobs: Sequence[Job]) -> None:
        """Told of all jobs, each time: shadow mode wants to know what those ask for that run already."""

    def _silent_for(self, node: Node, at: float) -> float:
        if node.states.isdisjoint(("not_responding", "no_respond")):
            self._silent_since.pop(node.name, None)
            return 0.0
        return at - self._silent_since.setdefault(node.name, at)

    def expect(self, attempts: Mapping[tuple[str, int], Mapping[str, int]]) -> None:
        """These attempts were alive when somebody last looked: (job, attempt) → GPUs by node. One that Slurm
        has forgotten since is then told of, from what trace it left."""
        with self._lock:
            for (job, attempt), nodes in attempts.items():
                self._open.setdefault((job, attempt), SeenAttempt(job, attempt, nodes))

    def _remember(self, sight: Sight, at: float) -> None:
        """What lived and is no longer spoken of has left; its trace, where there is one, says how."""
        now = {(one.job, one.attempt): one for one in sight.attempts}
        waiting = {arrival.job for arrival in sight.arrivals}
        for key, last in list(self._open.items()):
            if key in now:
                continue
            if last.job in waiting:
                # slurmctld writes its state down every five seconds, and came back with an older one
                lost = "slurmctld came back without having started it"
                self._vanished[key] = last._replace(ended=at, node_failed=True, detail=lost)
            else:
                self._vanished[key] = self._traces.end_of(last, at)
            del self._open[key]
        self._forgotten &= now.keys()
        for key, one in now.items():
            self._vanished.pop(key, None)
            if one.ended is None:
                self._open[key] = one
            else:
                self._open.pop(key, None)

    # --- orders -------------------------------------------------------------------------------------

    def carry_out(self, order: Order) -> None:
        """Do as told; twice is as once. OrderRefused, EngineUnavailable."""
        for refusal in self.carry_out_many([order]):
            if refusal is not None:
                raise refusal

    def carry_out_many(self, orders: Sequence[Order]) -> list[EngineError | None]:
        """The same for several, starts released together: for each, None or why it was not carried out.

        After one that got no answer no other is tried: each would wait as long.
        """
        with self._lock:
            self._at_hand = None
            results: dict[int, EngineError | None] = {}
            for place, order in enumerate(orders):
                if not isinstance(order, Start):
                    results[place] = self._tried(self._one, order)
                    if isinstance(silence := results[place], EngineUnavailable):
                        return [results.get(place, silence) for place in range(len(orders))]
            starts = [(place, order) for place, order in enumerate(orders) if isinstance(order, Start)]
            results |= self._start(starts)
            return [results[place] for place in range(len(orders))]

    def _tried(self, act: Callable[..., object], *arguments: Any) -> EngineError | None:
        try:
            act(*arguments)
        except Failed as error:
            return OrderRefused(str(error))
        except EngineError as error:
            return error
        return None

    def _one(self, order: Order) -> None:
        if isinstance(order, Stop):
            self._stop(order)
        elif isinstance(order, Notice):
            self._notice(order)
        elif isinstance(order, Withdraw):
            self._withdraw(order)
        elif isinstance(order, SetNode):
            self._set_node(order)
        elif isinstance(order, Enrol):
            submitted(order, self.programs, self.settings, self._folder)
        elif isinstance(order, Forget):
            self._forget((order.job, order.attempt))

    def _forget(self, key: tuple[str, int]) -> None:
        if key in self._open:
            raise OrderRefused(f"attempt {key[1]} of job {key[0]} is still running")
        self._vanished.pop(key, None)
        self._forgotten.add(key)

    def _jobs(self) -> dict[str, Job]:
        jobs, odd = jobs_of(self.programs, self.settings.partition)
        if odd:
            self.odd += odd
        return {job.id: job for job in jobs}

    def _job(self, id_: str) -> Job | None:
        """One that runs is looked up once for all orders of a call: the list of a long queue takes its time.
        What waits may begin at any moment, and what an order has just changed is another: both are asked of
        anew."""
        if self._at_hand is None:
            self._at_hand = {id_: job for id_, job in self._jobs().items() if job.state in LIVES}
        found = self._at_hand.pop(id_, None)
        return found if found is not None else self._jobs().get(id_)

    def _start(self, orders: Sequence[tuple[int, Start]]) -> dict[int, EngineError | None]:
        """Place each, then release all that are placed, a hundred a call."""
        if not orders:
            return {}
        try:
            jobs, at = self._jobs(), self._skew.now()
        except EngineUnavailable as silence:
            return {place: silence for place, _ in orders}
        results: dict[int, EngineError | None] = {}
        release: dict[str, int] = {}
        youngest = 0.0
        for place, order in orders:
            job = jobs.get(order.job)
            try:
                if order.job in release:
                    raise OrderRefused(f"job {order.job} is started twice at once")
                if self._must_start(order, job):
                    assert job is not None
                    self._place(order, job, at)
                    release[job.id] = place
                    youngest = max(youngest, job.submitted if job.restarts else 0.0)
                results[place] = None
            except Failed as error:
                results[place] = OrderRefused(str(error))
            except EngineUnavailable as silence:  # what is placed is released when it is told again
                placed_ones = set(release.values())
                return {
                    place: silence if place in placed_ones else results.get(place, silence)
                    for place, _ in orders
                }
            except EngineError as error:
                results[place] = error
        # the instant of a requeue is known to the second only
        self.clock.wait(max(0.0, youngest + 1 + BETWEEN_REQUEUE_AND_RELEASE_S - at))
        for batch in batches(list(release)):
            failed = self._tried(self.programs.ask, "scontrol", "release", batch)
            if failed is not None:
                results |= {release[job]: failed for job in batch.split(",")}
        return results

    def _must_start(self, order: Start, job: Job | None) -> bool:
        """Whether there is anything left to do. OrderRefused where it can never be done."""
        if job is None:
            raise OrderRefused(f"Slurm does not know job {order.job} in partition {self.settings.partition}")
        note = job.note
        if note is not None and note.attempt == order.attempt:
            begun = job.state not in WAITS or note.restarts < job.restarts or note.ended is not None
            return not begun and job.priority == 0
        if job.state in OVER:
            raise OrderRefused(f"job {order.job} is over: Slurm says {job.state.lower()}")
        if job.state not in WAITS:
            raise OrderRefused(f"job {order.job} runs already, as attempt {attempt_of(job)}")
        return True

    def _place(self, order: Start, job: Job, at: float) -> None:
        """Say where it runs, and note that it was said, in one call: what is noted is as it was decided."""
        asked_for = asked(job, self.settings, max(order.nodes.values(), default=0))
        wanted = asked_for.spec.get("gpus")
        total = sum(order.nodes.values())
        if wanted not in (None, total) or len(set(order.nodes.values())) != 1:
            raise OrderRefused(f"job {order.job} asks Slurm for {wanted} GPUs, not for {dict(order.nodes)}")
        note = Note(order.attempt, job.restarts, order.nodes, since=at, order=order.id)
        changes = [
            f"NumNodes={len(order.nodes)}-{len(order.nodes)}",
            f"ReqNodeList={','.join(order.nodes)}",
            f"AdminComment={written(note)}",
        ]
        if not asked_for.spec.get("resumable", True):
            changes.append("Requeue=0")  # else Slurm would queue it again by itself when a node fails
        if job.dependency:
            changes.append("Dependency=")  # kept by us: Slurm may have forgotten what it waited for
        if job.restarts:
            changes.append("StartTime=now")  # lifts the two minutes that Slurm adds to a requeue
        if order.max_runtime_s is not None and order.max_runtime_s != job.limit_s:
            changes.append(f"TimeLimit={order.max_runtime_s // 60}:{order.max_runtime_s % 60:02d}")
        self.programs.ask("scontrol", "update", f"JobId={job.id}", *changes)

    def _stop(self, order: Stop) -> None:
        job = self._job(order.job)
        if job is None or job.state in OVER or attempt_of(job) != order.attempt:
            return  # it is over: nothing is left to stop
        at, note = self._skew.now(), job.note
        if note is None or note.attempt != order.attempt:
            note = Note(order.attempt, job.restarts, placed(job))
        if note.stop == order.id or note.ended is not None:
            return  # told already; `see` presses on
        by = at + order.grace_s
        if note.stop:  # told before: the shorter grace, and nothing is queued again against either
            note = note._replace(stop=order.id, by=min(by, note.by), requeue=order.requeue and note.requeue)
        else:
            note = note._replace(stop=order.id, told=at, by=by, requeue=order.requeue)
        if job.state in LIVES and note.started is None:
            note = note._replace(started=job.started)
        self._write(job, note)
        self._later(self._press, job._replace(note=note), at)

    def _write(self, job: Job, note: Note) -> None:
        self._unless_over("scontrol", "update", f"JobId={job.id}", f"AdminComment={written(note)}")

    def _unless_over(self, *argv: str, timeout_s: float | None = None) -> None:
        """What ended by itself in this instant needs nothing more."""
        try:
            self.programs.ask(*argv, timeout_s=timeout_s)
        except Failed as error:
            if not any(words in str(error).lower() for words in ALREADY):
                raise

    def _press_on(self, sight: Sight, at: float) -> None:
        """Level, not edge: what is still to do for orders already given. What is refused is tried again."""
        for job in sight.requeue:
            self._later(self._queue_again, job)
        for job in sight.press:
            self._later(self._press, job, at)
        for job in sight.bring_back:
            self._later(self._unless_over, "scontrol", "requeuehold", job.raw)
        for batch in batches([job.id for job in sight.drop]):
            self._later(self.programs.ask, "scancel", "--quiet", *batch.split(","))
        if self.settings.keep_foreign_out:
            for batch in batches([job.id for job in sight.hold]):
                self._later(self.programs.ask, "scontrol", "uhold", batch)

    def _later(self, act: Callable[..., object], *arguments: Any) -> None:
        """Act; where that fails the next look tries again."""
        failed = self._tried(act, *arguments)
        if failed is not None:
            self.troubles += 1
            self.last_trouble = str(failed)

    def _press(self, job: Job, at: float) -> None:
        """Whoever was told to leave has left by the deadline. Slurm itself says TERM, waits KillWait and
        kills: so it is asked that much sooner, and goes on even if nobody looks any more."""
        note = job.note
        assert note is not None
        if job.state in WAITS:
            self._take_back(job, note, at)
            return
        if job.state == "COMPLETING":
            return
        if not note.signalled and at - (job.started or at) >= HEARS_AFTER_S:
            # to the batch script, all its children and all steps
            self._signal(job, "TERM", "--full")
            self._write(job, note._replace(signalled=True))
        if at >= note.by - self._killwait():
            if note.requeue and job.requeue:
                self._unless_over("scontrol", "requeuehold", job.raw)
            else:
                self._unless_over("scancel", job.raw)

    def _signal(self, job: Job, name: str, whom: str) -> None:
        """scancel itself tries again while a job is being launched: for a while only, and we later."""
        self._unless_over("scancel", f"--signal={name}", whom, job.raw, timeout_s=SIGNAL_WITHIN_S)

    def _take_back(self, job: Job, note: Note, at: float) -> None:
        """Released, and told to leave before it had begun."""
        if not note.requeue:
            self._unless_over("scancel", "--state=PENDING", job.id)
            return
        self.programs.ask("scontrol", "uhold", job.id)
        self._write(job, note._replace(ended=at))

    def _queue_again(self, job: Job) -> None:
        """It left within its grace, and is over for Slurm. A requeue wipes how it ended, which is therefore
        noted, and Slurm takes no note of a job that is over: so right after."""
        note = job.note
        assert note is not None
        self.programs.ask("scontrol", "requeuehold", job.id)
        self._write(job, note._replace(ended=job.ended, status=job.status))

    def _killwait(self) -> float:
        if self._killwait_s is None:
            lines = self.programs.told("scontrol", "show", "config").splitlines()
            said = [line.split("=", 1)[1].split()[0] for line in lines if line.startswith("KillWait ")]
            self._killwait_s = float(said[0]) if said and said[0].isdigit() else 30.0
        return self._killwait_s

    def _notice(self, order: Notice) -> None:
        job = self._job(order.job)
        if job is None or job.state != "RUNNING" or attempt_of(job) != order.attempt:
            return
        name = asked(job, self.settings, 0).notice or self.settings.notice_signal
        if name:
            self._signal(job, name, "--batch")

    def _withdraw(self, order: Withdraw) -> None:
        job = self._jobs().get(order.job)
        if job is None or job.state in OVER:
            return
        if job.state in LIVES:
            raise OrderRefused(f"job {order.job} no longer waits: it runs")
        withdrawn(job.id, order.why, self._unless_over)

    def _set_node(self, order: SetNode) -> None:
        nodes = {node.name: node for node in nodes_of(self.programs, self.settings.partition)[0]}
        node = nodes.get(order.node)
        if node is None:
            raise OrderRefused(f"Slurm has no node {order.node} in partition {self.settings.partition}")
        drains = not node.states.isdisjoint(("drain", "drained", "draining"))
        if order.drain and not drains:
            reason = " ".join(order.reason.split()) or "by Tenure"
            self.programs.ask(
                "scontrol",
                "update",
                f"NodeName={order.node}",
                "State=DRAIN",
                f"Reason=tenure: {reason[:200]}",
            )
        if not order.drain and (drains or not node.states.isdisjoint(("down", "fail"))):
            self.programs.ask("scontrol", "update", f"NodeName={order.node}", "State=RESUME")

    # --- the rest -----------------------------------------------------------------------------------

    def log_of(self, job: str, attempt: int, *, last_bytes: int = 1 << 16) -> bytes:
        """The end of what the job wrote. All attempts share Slurm's one output file."""
        path, user = self._outputs.get(job, ("", ""))
        if not path:
            return b""
        return _end_of_own_file(path, user, last_bytes)

    def on_change(self, wake: Callable[[], None]) -> None:
        """A thread that looks at states alone, every `watch_s`."""
        if self.settings.watch_s <= 0 or self._watcher is not None:
            return
        self._watcher = threading.Thread(target=self._watch, args=(wake,), name="slurm-watch", daemon=True)
        self._watcher.start()

    def _watch(self, wake: Callable[[], None]) -> None:
        last: tuple[str, ...] = ()
        partition = self.settings.partition
        while not self._closing.wait(self.settings.watch_s):
            try:
                now = (
                    self.programs.ask(
                        "squeue", "-h", "-r", "-t", "all", *in_partition(partition), "-o", "%i %t %Q"
                    ),
                    self.programs.ask("sinfo", "-h", *in_partition(partition), "-o", "%T %N"),
                )
            except (EngineUnavailable, Failed):
                now = ("silent",)  # type: ignore[assignment]
            if now != last:
                last = now
                wake()

    def doctor(self) -> list[Finding]:
        """What a site must still configure: (subject, ok or None, text, remedy)."""
        return findings(self.settings, self.programs, self._skew)

    def close(self) -> None:
        """Let go; jobs go on."""
        self._closing.set()
        if self._watcher is not None:
            self._watcher.join(2 * self.settings.timeout_s + self.settings.watch_s)


def _end_of_own_file(path: str, user: str, last_bytes: int) -> bytes:
    """The end of a plain file that is the user's own: the path is theirs to choose, and we may be root."""
    try:
        owner = pwd.getpwnam(user).pw_uid
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (KeyError, OSError, ValueError):
        return b""
    with os.fdopen(handle, "rb") as file:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode) or about.st_uid != owner:
            return b""
        file.seek(max(0, about.st_size - last_bytes))
        return file.read(last_bytes)
