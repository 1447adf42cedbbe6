"""Runs one attempt and writes down how it ended, whether or not the daemon is alive.

A process of its own, standard library only, started detached: `python -I -S run_shepherd.py FOLDER`. All it
needs is in the attempt's folder, and all it has to say goes there:

    order.json    what to run (written by the engine before this starts)
    lock          held by the one shepherd of this attempt
    shepherd.json who holds it; its being there means: never start this again
    job.json      the main process, from the instant it began
    stop.json     told to stop (by the engine), with the instant at which it must be gone
    notice        it will become interruptible (touched by the engine); the job may read it
    signs/        where the job touches `done` and `saved`
    log           what it writes, bounded
    ended.json    how it ended: written once, at the end

Started again for an attempt whose shepherd was killed, it watches what is left of it, and ends it in time.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import time
from typing import Any

from tenure.engines.local.processes import (
    boot_s,
    has_mark,
    is_there,
    modified,
    procs_of,
    put,
    ran_out_of_memory,
    read_record,
    remove_cgroups,
    send,
    stat_of,
    sync_folder,
    touched_between,
    write_record,
)

PULSE_S = 2.0  #: longest time between two looks at the folder; a signal comes sooner
QUICK_S = 0.1
SHUTDOWN_S = 120.0  #: within this time of a SIGTERM the machine goes down
SHUT_DOWN = "the machine was shut down"
ADOPTED_S = 0.4  #: between two looks at processes that are not its own
SWEEP_S = 0.02  #: between the first two rounds of killing; then ever longer, up to a second
HEAD_BYTES, TAIL_BYTES = 1 << 16, 1 << 20  #: what is left of a log that grew too long
ROOM_BYTES = 4096  #: kept free for the last word, so that it can be said on a full disk
PR_SET_CHILD_SUBREAPER = 36


class Shepherd:
    """One attempt, in the present folder."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.order = order
        self.cgroups: list[str] = order["cgroups"]
        self.main = 0  #: pid of the main process
        self.ticks = 0
        self.status: int | None = None  #: of the main process, once it is gone
        self.began_s = 0.0  #: seconds after boot
        self.started: float | None = None
        self.ours = True  #: its processes are our descendants
        self.childless = False
        self.stop_id = ""
        self.gone_by_s: float | None = None  #: told to stop: it must be gone by then (seconds after boot)
        self.timed_out = False
        self.noticed = False
        self.shutdown_s = float("-inf")  #: when somebody asked us to leave (seconds after boot)
        self.killed = False
        self.sweep_s = SWEEP_S
        self.known: dict[int, int] = {}  #: its processes when last looked at: ticks by pid
        self.strangers: dict[int, int] = {}  #: those that are surely not its own, likewise
        self.trouble = -1  #: read end of a pipe on which the child says why it could not begin
        self.log_bytes = 0
        self.pulse_s = QUICK_S

    # --- begin ----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start the main process. It runs only once its number is written down."""
        go, let_go = os.pipe()
        self.trouble, trouble = os.pipe()
        os.set_blocking(self.trouble, False)
        log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        if self.order["uid"] is not None:
            os.fchown(log, self.order["uid"], self.order["gid"])
        blocked = set(range(1, signal.NSIG)) - {32, 33}
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)  # told to stop from now on, it will hear of it
        pid = os.fork()
        if pid == 0:
            try:
                os.close(let_go)
                self._become(go, log)
            except BaseException as error:
                os.write(trouble, sentence(error).encode("utf-8", "replace"))
            os._exit(127)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        for handle in (go, trouble, log):
            os.close(handle)
        found = stat_of(pid)
        self.main, self.ticks = pid, found[3] if found else 0
        began_s, started = boot_s(), time.time()
        write_record("job.json", {"pid": pid, "ticks": self.ticks, "started": started, "began_s": began_s})
        self.began_s, self.started = began_s, started
        os.write(let_go, b"!")
        os.close(let_go)

    def _become(self, go: int, log: int) -> None:
        """In the child: become the job, if and when the parent says so."""
        order = self.order
        if os.read(go, 1) != b"!":
            os._exit(127)  # the parent died before it could say that we exist: we never ran
        os.setsid()
        for folder in self.cgroups:
            with open(f"{folder}/cgroup.procs", "w") as file:
                file.write("0")
        if order["oom"]:
            with open("/proc/self/oom_score_adj", "w") as file:
                file.write("0")
        nothing = os.open("/dev/null", os.O_RDONLY)
        for source, target in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        signal.set_wakeup_fd(-1)
        for signum in range(1, signal.NSIG):
            if signum not in (signal.SIGKILL, signal.SIGSTOP, 32, 33):
                signal.signal(signum, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        if order["uid"] is not None:
            os.setgroups(order["groups"])
            os.setgid(order["gid"])
            os.setuid(order["uid"])
        os.umask(0o022)
        os.chdir(order["workdir"])
        command = [os.fsencode(word) for word in order["command"]]
        env = {os.fsencode(key): os.fsencode(value) for key, value in order["env"].items()}
        os.execvpe(command[0], command, env)

    def adopt(self, job: dict[str, Any]) -> None:
        """Watch what another shepherd, now dead, has begun."""
        self.ours = False
        self.main, self.ticks = job["pid"], job["ticks"]
        self.began_s, self.started = job["began_s"], job["started"]

    # --- watch ----------------------------------------------------------------------------------------

    def watch(self, wake: int) -> None:
        """Until its last process is gone."""
        while True:
            self.reap()
            self.look()
            now_s, due_s = boot_s(), self.due_s()
            if now_s >= due_s and self.status is None and self.gone_by_s is None:
                self.timed_out = True
            if self.status is not None and not self.members():
                return
            if now_s >= due_s:
                self.kill()
                pause_s = self.sweep_s
                self.sweep_s = min(1.0, 2 * self.sweep_s)
            else:
                pulse_s = QUICK_S if self.status is not None else self.pulse_s
                if not self.ours and self.status is None:
                    self.members()  # while its processes can still be told by descent
                    pulse_s = ADOPTED_S
                pause_s = min(pulse_s, due_s - now_s)
            if select.select([wake], [], [], pause_s)[0]:
                self.hear(os.read(wake, 4096))

    def due_s(self) -> float:
        """When it must be gone, whatever it does (seconds after boot)."""
        limit_s = self.order["max_runtime_s"]
        limit_at_s = float("inf") if limit_s is None else self.began_s + limit_s
        if self.gone_by_s is not None:
            return min(self.gone_by_s, limit_at_s)
        return (
            limit_at_s if self.status is None else 0.0
        )  # what its main process leaves behind is not the job

    def hear(self, signals: bytes) -> None:
        """SIGTERM is for the whole machine, which goes down: ends right after it are no job's fault."""
        if signal.SIGTERM in signals:
            self.shutdown_s = boot_s()

    def reap(self) -> None:
        """Take note of processes that have ended."""
        if not self.ours:
            if self.status is None and not is_there(self.main, self.ticks):
                self.status = -1
            return
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self.childless = True
                return
            if pid == 0:
                self.childless = False
                return
            if pid == self.main:
                self.status = status

    def look(self) -> None:
        """What does the folder say? Stop, notice, and how long the log is."""
        stop = read_record("stop.json")
        if stop is not None and stop["id"] != self.stop_id:
            self.stop_id = stop["id"]
            self.hear_stop(max(0.0, min(stop["grace_s"], stop["gone_by"] - time.time())))
        if not self.noticed and os.path.exists("notice"):
            self.noticed = True
            if self.order["notice_signal"] and self.status is None:
                send(self.main, self.ticks, self.order["notice_signal"])
        try:
            size = os.stat("log").st_size
        except OSError:
            return
        limit = self.order["log_bytes"]
        if size > limit:
            cut_log("log", limit)
        grows_fast = abs(size - self.log_bytes) > limit // 16
        self.log_bytes = size
        self.pulse_s = QUICK_S if grows_fast or size > limit else min(PULSE_S, self.pulse_s * 2)

    def hear_stop(self, grace_s: float) -> None:
        """The first word asks it to leave; a later one may only shorten its time. An end is no stop."""
        gone_by_s = boot_s() + grace_s
        if self.gone_by_s is not None:
            self.gone_by_s = min(gone_by_s, self.gone_by_s)
        elif self.status is None and not self.timed_out:
            self.gone_by_s = gone_by_s
            self.terminate()

    def terminate(self) -> None:
        """Ask: SIGTERM to the process group of the main process (which is its session's first)."""
        for signum in (signal.SIGTERM, signal.SIGCONT):
            if is_there(self.main, self.ticks):
                try:
                    os.killpg(self.main, signum)
                except PermissionError:
                    send(self.main, self.ticks, signum)
                except ProcessLookupError:  # it has not made its group yet
                    send(self.main, self.ticks, signum)

    # --- every process of it --------------------------------------------------------------------------

    def members(self) -> list[tuple[int, int]]:
        """(pid, ticks) of every process of the attempt, however it forked away."""
        if self.ours and self.childless:
            return []  # every orphan of ours becomes our child: none means that there are none
        numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        stats = {pid: found for pid in numbers if (found := stat_of(pid)) is not None}
        inside = {pid for folder in self.cgroups[:1] for pid in procs_of(folder) if pid in stats}
        inside |= {os.getpid()} if self.ours else self._recognized(stats)
        while more := {pid for pid, found in stats.items() if found[1] in inside} - inside:
            inside |= more
        self.known = {pid: stats[pid][3] for pid in inside - {os.getpid()}}
        return [(pid, ticks) for pid, ticks in self.known.items() if stats[pid][0] not in "ZX"]

    def _recognized(self, stats: dict[int, tuple[str, int, int, int]]) -> set[int]:
        """Processes that another shepherd's attempt surely has: known before, or of its session as long as
        that has its first process (a number may be given anew), or with its mark in their environment.
        """
        mark = os.fsencode(f"TENURE_MARK={self.order['env']['TENURE_MARK']}")
        first_is_there = self.main in stats and stats[self.main][3] == self.ticks
        found = {pid for pid, ticks in self.known.items() if pid in stats and stats[pid][3] == ticks}
        for pid, (_, _, session, ticks) in stats.items():
            if ticks < self.ticks or self.strangers.get(pid) == ticks:
                continue
            if (first_is_there and session == self.main) or has_mark(pid, mark):
                found.add(pid)
            else:
                self.strangers[pid] = ticks
        return found

    def kill(self) -> None:
        """SIGKILL everything of it, as one where the machine's cgroups can."""
        self.killed = True
        frozen = False
        for folder in self.cgroups[:1]:
            if put(f"{folder}/cgroup.kill", "1"):
                break
            frozen = put(f"{folder}/freezer.state", "FROZEN")
        for pid, ticks in self.members():
            send(pid, ticks, signal.SIGKILL)
        if frozen:
            put(f"{self.cgroups[0]}/freezer.state", "THAWED")

    # --- end ------------------------------------------------------------------------------------------

    def record(self) -> dict[str, Any]:
        """How it ended."""
        status, started = self.status, self.started
        known = status is not None and self.ours
        code = os.waitstatus_to_exitcode(status) if known and status is not None else None
        ended = time.time() if started is None else started + boot_s() - self.began_s
        told = self.gone_by_s is not None
        went_down = code != 0 and not told and not self.killed and boot_s() < self.shutdown_s + SHUTDOWN_S
        return {
            "started": started,
            "ended": ended,
            "exit_code": code if code is not None and code >= 0 else None,
            "signal": -code if code is not None and code < 0 else None,
            "told": told,
            "timed_out": self.timed_out and not told,
            "node_failed": went_down,
            "done": modified("signs/done") is not None,
            "saved": touched_between("signs/saved", started, ended),
            "detail": SHUT_DOWN if went_down else self._why(code, told),
        }

    def _why(self, code: int | None, told: bool) -> str:
        """One line for people, where the code alone does not say it."""
        if self.timed_out:
            return "killed at its max_runtime"
        if told and self.killed:
            return "killed at the end of its grace"
        if code is None:
            return "its shepherd was killed: how it ended is not known"
        if code == 127:
            return os.read(self.trouble, 1000).decode("utf-8", "replace")
        if code == -signal.SIGKILL and not self.killed and ran_out_of_memory(self.cgroups):
            return "killed: it used more memory than it may"
        if code < 0 and not told and not self.killed:
            return f"ended by signal {-code}, which Tenure did not send"
        return ""


def sentence(error: BaseException) -> str:
    """Why a job could not begin."""
    if isinstance(error, OSError):
        return f"cannot begin: {error.strerror}: {str(error.filename)[:200]}"
    return f"cannot begin: {error!r}"[:300]


def cut_log(path: str, limit: int) -> None:
    """Keep the beginning and the end of a log; the job goes on writing behind them."""
    head_bytes, tail_bytes = min(HEAD_BYTES, limit // 8), min(TAIL_BYTES, limit // 4)
    with open(path, "r+b") as file:
        file.seek(-tail_bytes, os.SEEK_END)
        tail = file.read(tail_bytes)
        # never to 0: what the job writes meanwhile would stand before the beginning
        file.truncate(head_bytes)
    note = f"\n[tenure: the log was longer than {limit} bytes: cut here]\n"
    with open(path, "ab") as file:
        file.write(note.encode() + tail)


def say_the_end(record: dict[str, Any], room: str) -> None:
    """Written once, into room kept for it, and sure."""
    file = os.open(room, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        os.write(file, json.dumps(record).encode().ljust(ROOM_BYTES))
        os.fsync(file)
    finally:
        os.close(file)
    os.replace(room, "ended.json")
    sync_folder(".")


def set_up() -> int:
    """Hear of children and of the engine, take in orphans, be spared; the end of a pipe that wakes us."""
    wake, waker = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    for signum in (signal.SIGCHLD, signal.SIGUSR1, signal.SIGTERM):
        signal.signal(signum, lambda *_: None)
    for signum in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE):
        signal.signal(signum, signal.SIG_IGN)
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    return wake


def main(folder: str) -> int:
    """Be the shepherd of this folder, unless there is or was one; then see that it ends."""
    os.chdir(folder)
    lock = os.open("lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 0
    order = read_record("order.json")
    if order is None or os.path.exists("ended.json"):
        return 0
    shepherd = Shepherd(order)
    wake = set_up()
    order["oom"] = put("/proc/self/oom_score_adj", "-500")
    room = f"ended.{os.getpid()}"
    with open(room, "wb") as file:
        file.write(b" " * ROOM_BYTES)
    never_ran = "its shepherd was killed before it began"
    before, job = os.path.exists("shepherd.json"), read_record("job.json")
    me = stat_of(os.getpid())
    write_record("shepherd.json", {"pid": os.getpid(), "ticks": me[3] if me else 0})
    if before and job is not None:
        shepherd.adopt(job)
        shepherd.watch(wake)
    elif before:
        shepherd.ours = False
    elif read_record("stop.json") is not None:
        shepherd.gone_by_s = 0.0
        shepherd.ours = False
    else:
        try:
            shepherd.begin()
        except OSError as error:  # a full disk, no more processes: the machine's fault, and it never ran
            never_ran = sentence(error)
        else:
            shepherd.watch(wake)
    record = shepherd.record()
    if shepherd.started is None:
        told = shepherd.gone_by_s is not None
        record |= {"detail": "told to stop before it began" if told else never_ran, "node_failed": not told}
    remove_cgroups(order["cgroups"])
    say_the_end(record, room)
    return 0
