"""Places on which the contract of an engine is tried: each opens its engine, and lets time pass."""

from __future__ import annotations

import json
import os
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import pytest

from slurm_site import SlurmSite
from tenure.engines.clock import RealClock
from tenure.engines.fake import Behaviour, ChosenClock, FakeCluster, by_command
from tenure.engines.local.engine import LocalEngine, LocalSettings
from tenure.engines.protocol import Engine, Enrol, Forget, SeenAttempt, Start, Stop
from tenure.engines.slurm import SlurmEngine, SlurmSettings

NODES = {"n1": 4, "n2": 4}


class Site(Protocol):
    """What the contract needs of a place. Commands are named for what they do: each engine runs its own."""

    engine: Engine
    nodes: Mapping[str, int]  #: GPUs by name of all nodes, two of them at least, four GPUs at least on each
    patience_s: float  #: within which what must happen has happened
    late_s: float  #: how much later than told what is told by the second is done, and seen to be done

    def submitted(self, command: list[str], *, gpus: int = 1) -> str:
        """A job that is to run this on so many GPUs, and waits; its id."""
        ...

    def reopen(self) -> None:
        """As if the daemon had died and come back: close the engine, open another on the same place."""
        ...

    def pass_s(self, seconds: float) -> None:
        """Let time pass."""
        ...

    def polite(self, seconds: float) -> list[str]:
        """Runs so long, leaves at once when it is told to stop."""
        ...

    def stubborn(self, seconds: float) -> list[str]:
        """Runs so long, and does not leave when it is told to stop, once it is `deaf`."""
        ...

    def deaf(self, job: str) -> None:
        """Wait until a stubborn one, which has begun, will not hear."""
        ...

    def exits(self, code: int) -> list[str]:
        """Ends at once with this code."""
        ...

    def close(self) -> None:
        """End all that runs, and prove that nothing is left."""
        ...


class _Named:
    """Jobs are what they are called by: `a`, `b`, …"""

    nodes = NODES

    def __init__(self) -> None:
        self._names = iter("abcdefgh")

    def submitted(self, command: list[str], *, gpus: int = 1) -> str:
        return next(self._names)


class FakeSite(_Named):
    """The cluster in memory, in a file."""

    patience_s, late_s = 5.0, 0.5

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.clock = ChosenClock(1_700_000_000.0)
        self._open: Callable[[], FakeCluster] = lambda: FakeCluster.at(
            folder / "fake", NODES, self.clock, behave=self._behave
        )
        self.engine: FakeCluster = self._open()

    def _behave(self, job: str, attempt: int, start: Start) -> Behaviour:
        known = by_command(job, attempt, start)
        return known._replace(leaves_after_s=0.0) if "polite" in start.command[-1] else known

    def reopen(self) -> None:
        self.engine.close()
        self.engine = self._open()

    def pass_s(self, seconds: float) -> None:
        self.clock.wait(seconds)

    def polite(self, seconds: float) -> list[str]:
        return [f"echo polite; sleep {seconds}"]

    def stubborn(self, seconds: float) -> list[str]:
        return [f"sleep {seconds}"]

    def deaf(self, job: str) -> None:
        """Who is told here how it ends need not prepare for it."""

    def exits(self, code: int) -> list[str]:
        return [f"exit {code}"]

    def close(self) -> None:
        assert self.engine.wrongs == []
        self.engine.close()


class _Lived(ABC):
    """Real processes in real time."""

    engine: Engine
    nodes: Mapping[str, int]

    @abstractmethod
    def _open(self) -> Engine: ...

    def reopen(self) -> None:
        self.engine.close()  # type: ignore[attr-defined]
        self.engine = self._open()

    def pass_s(self, seconds: float) -> None:
        time.sleep(seconds)

    def polite(self, seconds: float) -> list[str]:
        return ["sleep", str(seconds)]

    def deaf(self, job: str) -> None:
        wait_for(self, job, that=lambda seen: seen.saved is not None)


def _deaf_script(seconds: float) -> str:
    return f"trap '' TERM; touch $TENURE_SAVED; for i in $(seq {seconds * 20:.0f}); do sleep 0.05; done"


class LocalSite(_Lived, _Named):
    """This machine, with real processes."""

    patience_s, late_s = 180.0, 30.0

    def __init__(self, folder: Path, settings: LocalSettings | None = None) -> None:
        super().__init__()
        self.folder = folder / "local"
        self.settings = settings
        self.engine = self._open()

    def _open(self) -> LocalEngine:
        return LocalEngine(self.folder, NODES, clock=RealClock(), settings=self.settings)

    def stubborn(self, seconds: float) -> list[str]:
        return [_deaf_script(seconds)]

    def exits(self, code: int) -> list[str]:
        return [f"exit {code}"]

    def close(self) -> None:
        self.engine.close()
        end_all(self.folder)


class SlurmPlace(_Lived):
    """A real Slurm, which numbers its jobs itself and knows instants to the second."""

    patience_s, late_s = 180.0, 40.0

    def __init__(self, slurm: SlurmSite) -> None:
        self.slurm = slurm
        self.nodes = dict.fromkeys(slurm.nodes, slurm.gpus)
        self.others: list[SeenAttempt] = []
        self.engine = self._open()
        self.others = list(self.engine.see().attempts)
        self.reopen()

    def _open(self) -> SlurmEngine:
        engine = SlurmEngine(SlurmSettings(conf=str(self.slurm.conf), folder=str(self.slurm.folder / "said")))
        for one in self.others:  # of tests before, as far as Slurm remembers
            engine.carry_out(Forget("f", one.job, one.attempt))
        return engine

    def submitted(self, command: list[str], *, gpus: int = 1) -> str:
        order = Enrol(
            f"enrol {time.monotonic_ns()}", "root", {"account": "vision", "gpus": gpus}, command, {}, "/"
        )
        self.engine.carry_out(order)
        (job,) = [one.job for one in self.engine.see().arrivals if one.enrolled == order.id]
        return job

    def stubborn(self, seconds: float) -> list[str]:
        return ["bash", "-c", _deaf_script(seconds)]

    def exits(self, code: int) -> list[str]:
        return ["bash", "-c", f"exit {code}"]

    def close(self) -> None:
        self.engine.close()
        self.slurm.clear()


def end_all(folder: Path) -> None:
    """Stop every attempt of a local engine's folder; then no process of it may be left."""
    engine = LocalEngine(folder, NODES)
    deadline = time.monotonic() + 180
    try:
        while running := [seen for seen in engine.see().attempts if seen.ended is None]:
            assert time.monotonic() < deadline, f"still there: {running}"
            for seen in running:
                engine.carry_out(
                    Stop(f"end {seen.job}", seen.job, seen.attempt, 0, False, "the test is over")
                )
            time.sleep(0.02)
        for seen in engine.see().attempts:
            engine.carry_out(Forget("", seen.job, seen.attempt))
        while left := processes_of(folder):
            assert time.monotonic() < deadline, f"left behind: {left}"
            time.sleep(0.02)
    finally:
        engine.close()


def processes_of(folder: Path) -> dict[int, str]:
    """Living processes (command by pid) of a local engine's folder: its jobs' and its shepherds'."""
    found = {}
    mark = os.fsencode(folder.resolve()) + b"/"
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            command = Path(f"/proc/{name}/cmdline").read_bytes()
            if not command:
                continue  # a zombie, or the kernel's
            environ = Path(f"/proc/{name}/environ").read_bytes()
        except OSError:
            continue
        if b"TENURE_DONE=" + mark in environ or (mark in command and b"run_shepherd" in command):
            found[int(name)] = command.replace(b"\0", b" ").decode("utf-8", "replace")[:200]
    return found


SITES: dict[str, Callable[[pytest.FixtureRequest, Path], Site]] = {
    "fake": lambda _, folder: FakeSite(folder),
    "local": lambda _, folder: LocalSite(folder),
    "slurm": lambda test, _: SlurmPlace(test.getfixturevalue("slurm")),
}
ENGINES: dict[str, type[Engine]] = {"fake": FakeCluster, "local": LocalEngine, "slurm": SlurmEngine}


def find(engine: Engine, job: str, attempt: int = 1) -> SeenAttempt | None:
    """An attempt as the engine sees it now."""
    for seen in engine.see().attempts:
        if (seen.job, seen.attempt) == (job, attempt):
            return seen
    return None


def wait_for(
    site: Site, job: str, attempt: int = 1, *, that: Callable[[SeenAttempt], bool], step_s: float = 0.05
) -> SeenAttempt:
    """The attempt as soon as it is so; fails when the site's patience is over."""
    waited_s = 0.0
    while True:
        seen = find(site.engine, job, attempt)
        if seen is not None and that(seen):
            return seen
        assert waited_s <= site.patience_s, f"{job}.{attempt} is still {seen}"
        site.pass_s(step_s)
        waited_s += step_s


def begun(seen: SeenAttempt) -> bool:
    return seen.started is not None


def ended(seen: SeenAttempt) -> bool:
    return seen.ended is not None


def start(job: str, command: list[str], attempt: int = 1, **more: object) -> Start:
    """An order to start, on one GPU of n1 unless said otherwise."""
    plain = Start(f"start {job} {attempt}", job, attempt, "vision", "ann", {"n1": 1}, command, {}, "/", None)
    return plain._replace(**more)  # type: ignore[arg-type]


def stop(job: str, grace_s: float, attempt: int = 1, *, again: str = "") -> Stop:
    """An order to stop."""
    return Stop(f"stop {job} {attempt}{again}", job, attempt, grace_s, True, "somebody else's turn")


def kill_shepherds(folder: Path) -> None:
    """Whoever still looks after an attempt of an engine below this folder is killed."""
    for kept in folder.rglob("shepherd.json"):
        pid = json.loads(kept.read_text()).get("pid")
        if isinstance(pid, int):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
