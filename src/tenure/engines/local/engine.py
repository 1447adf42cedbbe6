"""Runs jobs on this machine: the engine that needs nothing but this machine.

Everything it knows lies in folders, one an attempt (`shepherd` says what is in them), so whoever opens them
next, after a restart or a `kill -9`, sees the same and goes on. Each attempt has a shepherd, a small process
that outlives the daemon and enforces what was ordered.
"""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tenure.engines.clock import Clock, RealClock
from tenure.engines.local.attempt import Attempt
from tenure.engines.local.cgroups import NONE, find_cgroups
from tenure.engines.local.doctor import Finding, findings
from tenure.engines.local.gpus import count_gpus, slots_of
from tenure.engines.local.launch import PLAIN_PATH, folder_name, instructions, person_of
from tenure.engines.local.processes import (
    boot_mark,
    modified,
    read_record,
    remove_cgroups,
    send,
    sync_folder,
    write_record,
)
from tenure.engines.protocol import (
    EngineUnavailable,
    Forget,
    Notice,
    Order,
    OrderRefused,
    Seen,
    SeenNode,
    SetNode,
    Start,
    Stop,
)

MOST_TRIES = 8  #: shepherds that may fail to begin an attempt before it counts as failed by the machine
LOOK_S, GLANCE_S = 1.0, 0.1  #: how often the watching thread looks; while something is to begin
SHEPHERD = str(Path(__file__).with_name("run_shepherd.py"))


class LocalSettings(NamedTuple):
    """What a site may choose."""

    log_bytes: int = 256 << 20  #: a longer log is cut, its beginning and its end kept
    users: str = "switch"  #: as whom jobs run: see `launch.person_of`
    cgroups: bool = True  #: use them where the machine has them
    memory_bytes_per_gpu: int | None = None  #: of an attempt, where cgroups can bound it
    most_processes: int | None = None  #: of an attempt, likewise
    keep_s: float = 30 * 86400  #: how long folders (and logs) of forgotten attempts are kept


class LocalEngine:
    """`data`: its folder. `nodes`: GPUs by name; all of them are this machine. None: what NVML counts."""

    name = "local"
    keeps_queue = False
    limit_step_s = 1

    def __init__(
        self,
        data: Path,
        nodes: Mapping[str, int] | None = None,
        *,
        clock: Clock | None = None,
        settings: LocalSettings | None = None,
    ) -> None:
        self.clock = clock or RealClock()
        self.settings = settings or LocalSettings()
        self.slots = slots_of(nodes, count_gpus())
        self._data = data.resolve()
        self._here, self._over = self._data / "attempts", self._data / "forgotten"
        for folder in (self._data, self._here, self._over):
            folder.mkdir(parents=True, exist_ok=True)
        self._here.chmod(0o711)
        self._boot = boot_mark()
        wanted = {"memory": self.settings.memory_bytes_per_gpu, "pids": self.settings.most_processes}
        self._bounds = {name: value for name, value in wanted.items() if value is not None}
        self.cgroups = find_cgroups(self._data, frozenset(self._bounds)) if self.settings.cgroups else NONE
        self._lock = threading.RLock()
        self._attempts: dict[str, Attempt] = {}  # by name of its folder
        self._drained: dict[str, str] = read_record(f"{self._data}/drained.json") or {}
        self._watch: threading.Thread | None = None
        self._wakes: list[Callable[[], None]] = []
        self._closing = False
        self._stir = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)  # wakes the watching thread
        with self._alone():
            self._tidy()
        self._refresh()

    @property
    def remarks(self) -> list[str]:
        """What a person should know about this machine."""
        missing = sorted(set(self._bounds) - set(self.cgroups.limited))
        found = [self.slots.remark] if self.slots.remark else []
        if self.cgroups.kind == "none":
            found.append("no cgroup can be made here: processes of a job are found by descent")
        if os.geteuid() == 0 and self.settings.users != "daemon":
            shut = [p for p in (self._data, *self._data.parents) if not p.stat().st_mode & stat.S_IXOTH]
            found += [
                f"{p} is closed to others: jobs of users cannot say there that they saved" for p in shut[-1:]
            ]
        return found + [f"no cgroup here can bound {name}: jobs are not bounded" for name in missing]

    def doctor(self) -> list[Finding]:
        """What a site should know: as whom jobs run, and what is odd about this machine."""
        return findings(self.settings.users, os.geteuid(), person_of("", "daemon").name, self.remarks)

    # --- the engine's calls ---------------------------------------------------------------------------

    def see(self) -> Seen:
        """What runs, as the folders and the process table say."""
        with self._lock:
            self._check_open()
            try:
                self._refresh()
            except OSError as error:
                raise EngineUnavailable(f"{self._data}: {error}") from error
            nodes = [
                SeenNode(name, gpus, True, name in self._drained, self._drained.get(name, ""))
                for name, gpus in self.slots.gpus.items()
            ]
            return Seen(self.clock.now(), nodes, [attempt.seen() for attempt in self._attempts.values()])

    def carry_out(self, order: Order) -> None:
        """Do as told."""
        with self._lock:
            self._check_open()
            try:
                if isinstance(order, Start):
                    self._start(order)
                elif isinstance(order, Stop):
                    self._stop(order)
                elif isinstance(order, Notice):
                    self._notice(order)
                elif isinstance(order, Forget):
                    self._forget(order)
                elif isinstance(order, SetNode):
                    self._set_node(order)
                else:
                    raise OrderRefused("this machine keeps no queue of its own")
            except OSError as error:
                raise EngineUnavailable(f"{self._data}: {error}") from error

    def expect(self, attempts: Mapping[tuple[str, int], Mapping[str, int]]) -> None:
        """Nothing to do: every attempt's folder stays until it may be forgotten."""

    def log_file(self, job: str, attempt: int) -> Path:
        """Where what it writes is kept, until it is forgotten."""
        return self._here / folder_name(job, attempt) / "log"

    def log_of(self, job: str, attempt: int, *, last_bytes: int = 1 << 16) -> bytes:
        """The end of what it wrote, also after it was forgotten."""
        for folder in (self._here, self._over):
            try:
                with open(folder / folder_name(job, attempt) / "log", "rb") as file:
                    size = file.seek(0, os.SEEK_END)
                    file.seek(max(0, size - last_bytes))
                    return file.read(last_bytes)
            except (FileNotFoundError, OrderRefused):
                continue
        return b""

    def on_change(self, wake: Callable[[], None]) -> None:
        """A thread watches shepherds and calls `wake` when one has begun or ended its attempt."""
        self._wakes.append(wake)
        if self._watch is None:
            self._watch = threading.Thread(target=self._keep_watch, name="local-engine", daemon=True)
            self._watch.start()

    def close(self) -> None:
        """Stop watching. What runs goes on running."""
        if self._closing:
            return
        self._closing = True
        os.eventfd_write(self._stir, 1)
        if self._watch is not None:
            self._watch.join()
        os.close(self._stir)
        with self._lock:
            for attempt in self._attempts.values():
                attempt.let_go()
            self._attempts.clear()
        self.cgroups.close()

    def _check_open(self) -> None:
        if self._closing:
            raise EngineUnavailable("the local engine is closed")

    # --- orders -----------------------------------------------------------------------------------------

    def _start(self, order: Start) -> None:
        name = folder_name(order.job, order.attempt)
        with self._alone():
            self._list()
            known = self._attempts.get(name)
            if known is not None:
                self._tend(known)
                return
            if (self._over / name).exists():
                return
            for attempt in self._attempts.values():
                attempt.refresh()
                if attempt.job == order.job and attempt.ended is None:
                    raise OrderRefused(f"attempt {attempt.attempt} of {order.job} is still running")
            taken = (s for a in self._attempts.values() if a.ended is None for s in a.slots)
            chosen = self.slots.choose(order.nodes, taken)
            plan = instructions(order, self._here / name, chosen, self.settings.users)
            bounds = dict(self._bounds)
            if "memory" in bounds:
                bounds["memory"] *= max(1, len(chosen))
            plan |= {"cgroups": self.cgroups.make(name, bounds), "log_bytes": self.settings.log_bytes}
            attempt = self._put(name, plan)
        self._spawn(attempt)

    def _put(self, name: str, plan: dict[str, Any], **records: dict[str, Any]) -> Attempt:
        """Make an attempt's folder: there as a whole, or not at all."""
        beside = self._here / f".new-{os.getpid()}-{threading.get_ident()}"
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(mode=0o711)
        (beside / "signs").mkdir(mode=0o700)
        if plan.get("uid") is not None:
            os.chown(beside / "signs", plan["uid"], plan["gid"])
        for record, content in records.items():
            write_record(f"{beside}/{record}.json", content)
        write_record(f"{beside}/order.json", plan | {"boot": self._boot}, sync="file")
        beside.rename(self._here / name)
        sync_folder(str(self._here))
        attempt = Attempt(self._here / name, plan | {"boot": self._boot})
        self._attempts[name] = attempt
        return attempt

    def _stop(self, order: Stop) -> None:
        name = folder_name(order.job, order.attempt)
        with self._alone():
            self._list()
            attempt = self._attempts.get(name)
            if attempt is None:
                if not (self._over / name).exists():
                    self._never_start(name, order)
                return
        attempt.refresh()
        if attempt.ended is not None:
            return
        gone_by = time.time() + max(0.0, order.grace_s)
        before = read_record(f"{attempt.path}/stop.json")
        if before is None or (before["id"] != order.id and gone_by < before["gone_by"]):
            stop = {"id": order.id, "grace_s": max(0.0, order.grace_s), "gone_by": gone_by, "why": order.why}
            write_record(f"{attempt.path}/stop.json", stop)
        self._nudge(attempt)

    def _never_start(self, name: str, order: Stop) -> None:
        """Told to stop before it was told to start: whatever comes later, it will not run."""
        now = self.clock.now()
        plan = {"id": order.id, "job": order.job, "attempt": order.attempt, "nodes": {}, "slots": []}
        detail = "told to stop before it was told to start"
        self._put(name, plan, ended=ending(None, now, detail, told=True))

    def _notice(self, order: Notice) -> None:
        name = folder_name(order.job, order.attempt)
        self._list()
        attempt = self._attempts.get(name)
        if attempt is None:
            if (self._over / name).exists():
                return
            raise OrderRefused(f"no attempt {order.attempt} of job {order.job} is here")
        path = attempt.folder / "notice"
        if not path.exists():
            beside = path.with_name("notice.new")
            beside.write_text(f"{order.at:.0f}\n", encoding="ascii")
            beside.chmod(0o644)
            beside.replace(path)
        self._nudge(attempt)

    def _forget(self, order: Forget) -> None:
        name = folder_name(order.job, order.attempt)
        with self._alone():
            self._list()
            attempt = self._attempts.get(name)
            if attempt is None:
                return
            attempt.refresh()
            if attempt.ended is None:
                raise OrderRefused(f"attempt {order.attempt} of job {order.job} is still running")
            attempt.reap()
            attempt.let_go()
            remove_cgroups([f"{parent}/{name}" for parent in self.cgroups.parents])
            os.rename(attempt.folder, self._over / name)
            del self._attempts[name]

    def _set_node(self, order: SetNode) -> None:
        if order.node not in self.slots.gpus:
            raise OrderRefused(f"there is no node {order.node} here")
        drained = {name: why for name, why in self._drained.items() if name != order.node}
        if order.drain:
            drained[order.node] = order.reason
        write_record(f"{self._data}/drained.json", drained, sync="all")
        self._drained = drained

    # --- shepherds --------------------------------------------------------------------------------------

    def _spawn(self, attempt: Attempt) -> None:
        """Start a shepherd. If there is one already, this one leaves again at once."""
        path = attempt.path
        errors = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        attempt.tries += 1
        attempt.next_try_s = time.monotonic() + min(30.0, 0.1 * 2**attempt.tries)
        attempt.spawned = os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", "-X", "utf8", SHEPHERD, path],
            {"PATH": os.environ.get("PATH", PLAIN_PATH)},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_OPEN, 2, f"{path}/shepherd.err", errors, 0o600),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=(signal.SIGPIPE,),
        )
        os.eventfd_write(self._stir, 1)

    def _nudge(self, attempt: Attempt) -> None:
        """Let a living shepherd look at its folder now, not in a second or two."""
        attempt.refresh()
        if attempt.shepherd is not None and attempt.pidfd >= 0:
            send(attempt.shepherd["pid"], attempt.shepherd["ticks"], signal.SIGUSR1)

    def _tend(self, attempt: Attempt) -> bool:
        """Read what is new; where its shepherd is gone and it has not ended, see to it. True if changed."""
        changed = attempt.refresh()
        if attempt.ended is not None or attempt.pidfd >= 0:
            return changed
        attempt.reap()
        if attempt.boot != self._boot:
            return self._decide(attempt, "the machine was started anew under it", node_failed=True) or changed
        if time.monotonic() < attempt.next_try_s or attempt.spawned:
            return changed
        if attempt.tries >= MOST_TRIES and attempt.began is None:
            why = last_line(f"{attempt.path}/shepherd.err")
            return (
                self._decide(attempt, f"its shepherd cannot be started: {why}", node_failed=True) or changed
            )
        self._spawn(attempt)
        return changed

    def _decide(self, attempt: Attempt, detail: str, *, node_failed: bool) -> bool:
        """Write the end of an attempt whose shepherd cannot, having made sure that none will ever run."""
        lock = attempt.lock()
        if lock < 0:
            return False
        try:
            write_record(f"{attempt.path}/shepherd.json", {"pid": 0, "ticks": 0})
            if read_record(f"{attempt.path}/ended.json") is None:
                started = attempt.began["started"] if attempt.began else None
                signs = [started, *(modified(f"{attempt.path}/{name}") for name in ("log", "signs/saved"))]
                alive = max((sign for sign in signs if sign is not None), default=self.clock.now())
                record = ending(started, alive, detail, node_failed=node_failed)
                write_record(f"{attempt.path}/ended.json", record, sync="all")
        finally:
            os.close(lock)
        return attempt.refresh()

    def _refresh(self) -> bool:
        """Bring all attempts up to date; True if `see` would show something new."""
        changed = self._list()
        for attempt in self._dead():
            attempt.reap()
            attempt.let_go()
        for attempt in list(self._attempts.values()):
            if attempt.ended is None:
                try:
                    changed = self._tend(attempt) or changed
                except OSError:  # a full disk, no more processes: tried again, and no reason to be silent
                    continue
        return changed

    def _dead(self) -> list[Attempt]:
        """Those whose shepherd has just gone."""
        poll = select.poll()
        held = {attempt.pidfd: attempt for attempt in self._attempts.values() if attempt.pidfd >= 0}
        for pidfd in held:
            poll.register(pidfd, select.POLLIN)
        return [held[pidfd] for pidfd, _ in poll.poll(0)] if held else []

    def _keep_watch(self) -> None:
        while not self._closing:
            with self._lock:
                pidfds = [os.dup(a.pidfd) for a in self._attempts.values() if a.pidfd >= 0]
                begins = any(a.ended is None and a.began is None for a in self._attempts.values())
            poll = select.poll()
            for handle in (self._stir, *pidfds):
                poll.register(handle, select.POLLIN)
            ready = poll.poll(1000 * (GLANCE_S if begins else LOOK_S))
            for pidfd in pidfds:
                os.close(pidfd)
            if any(handle == self._stir for handle, _ in ready):
                os.eventfd_read(self._stir)
            with self._lock:
                try:
                    changed = not self._closing and self._refresh()
                except OSError:  # `see` says so to whoever asks
                    changed = False
            for wake in self._wakes if changed else ():
                wake()

    # --- folders ----------------------------------------------------------------------------------------

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """No other process gives or frees slots meanwhile."""
        handle = os.open(self._data / "slots.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _list(self) -> bool:
        """Know all folders there are, whoever made them; True if there were others than before."""
        names = {name for name in os.listdir(self._here) if not name.startswith(".")}
        changed = False
        for name in self._attempts.keys() - names:
            self._attempts.pop(name).let_go()
            changed = True
        for name in names - self._attempts.keys():
            attempt = Attempt.read(self._here / name)
            if attempt is not None:
                self._attempts[name] = attempt
                changed = True
        return changed

    def _tidy(self) -> None:
        """Take away what was never finished, and what was kept long enough."""
        for name in os.listdir(self._here):
            if name.startswith(".new-") or Attempt.read(self._here / name) is None:
                shutil.rmtree(self._here / name, ignore_errors=True)
        oldest = time.time() - self.settings.keep_s
        for entry in os.scandir(self._over):
            if entry.stat(follow_symlinks=False).st_mtime < oldest:
                shutil.rmtree(entry.path, ignore_errors=True)


def ending(started: float | None, ended: float, detail: str, **flags: bool) -> dict[str, Any]:
    """An end that no shepherd has seen."""
    record: dict[str, Any] = {"started": started, "ended": ended, "exit_code": None, "signal": None}
    record |= {"told": False, "timed_out": False, "node_failed": False, "done": False, "saved": None}
    return record | flags | {"detail": detail}


def last_line(path: str) -> str:
    """The last line of a small file."""
    try:
        with open(path, "rb") as file:
            lines = file.read(1 << 16).decode("utf-8", "replace").split("\n")
    except OSError:
        return ""
    return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "")
