"""Shadow mode: a real queue is read, decided on and recorded, and nothing there is touched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from live_lab import LAB, Small
from live_world import QUIET, START
from tenure.core.words import Phase
from tenure.daemon.run import Daemon
from tenure.engines.clock import ChosenClock
from tenure.engines.protocol import Order, Seen, SeenArrival, SeenAttempt, SeenNode
from tenure.engines.shadow import ShadowEngine
from tenure.ledger.ledger import open_ledger
from tenure.settings.lab import lab_of


class Queue:
    """Another scheduler's cluster, as far as it can be read."""

    name, keeps_queue, limit_step_s = "theirs", True, 1

    def __init__(self, clock: ChosenClock) -> None:
        self.clock = clock
        self.waiting: dict[str, SeenArrival] = {}
        self.ran: dict[str, SeenAttempt] = {}

    def submit(self, job: str, **spec: Any) -> None:
        told = {"account": "a", "gpus": 8, "min_runtime": 3600} | spec
        self.waiting[job] = SeenArrival(job, self.clock.now(), "ann", told)

    def start(self, job: str) -> None:
        del self.waiting[job]
        self.ran[job] = SeenAttempt(job, 1, {"mars-0000": 8}, started=self.clock.now())

    def end(self, job: str) -> None:
        self.ran[job] = self.ran[job]._replace(ended=self.clock.now(), exit_code=0)

    def see(self) -> Seen:
        nodes = [SeenNode("mars-0000", 8, True), SeenNode("mars-0001", 8, True)]
        return Seen(self.clock.now(), nodes, list(self.ran.values()), list(self.waiting.values()))

    def carry_out(self, order: Order) -> None:
        raise AssertionError(f"nothing may be ordered here: {order}")

    def log_of(self, job: str, attempt: int, *, last_bytes: int = 1 << 16) -> bytes:
        return b""

    def on_change(self, wake: Callable[[], None]) -> None:
        """It never says so."""

    def close(self) -> None:
        """Nothing to let go of."""


class Watched(Small):
    """A lab that only watches."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock, self.lab = folder, ChosenClock(START), lab_of(LAB)
        self.ledger = open_ledger(folder / "record.sqlite")
        self.queue = Queue(self.clock)
        self.wake_up()
        self.settle()

    def wake_up(self, name: str = "tested") -> Daemon:
        engine = ShadowEngine(self.queue, self.clock, self.folder / "shadow.json")
        self.daemon = Daemon(self.lab, self.ledger, engine, self.clock, name=name, log=QUIET)
        return self.daemon

    def at(self, t: int) -> None:
        self.clock.set(START + t)
        self.settle()


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def stops(watched: Watched) -> dict[str, tuple[int, str]]:
    return {line["job"]: (line["t"], line["end"]) for line in watched.lines("stopped")}


def test_a_job_that_starts_there_later_runs_here_until_it_ends_there(watched: Watched) -> None:
    watched.queue.submit("71")
    watched.at(10)
    assert watched.phase("71") == Phase.RUNNING
    watched.at(600)
    watched.queue.start("71")
    watched.at(700)
    watched.queue.end("71")
    watched.at(701)
    assert stops(watched) == {"71": (700, "finished")}
    watched.at(900)
    assert watched.end("71") == "finished"


def test_a_job_that_would_start_later_here_runs_as_long_as_it_ran_there(watched: Watched) -> None:
    for job in ("71", "72", "73"):
        watched.queue.submit(job)
    watched.at(10)
    third = next(job for job in ("71", "72", "73") if watched.phase(job) == Phase.WAITING)
    watched.queue.start(third)
    watched.at(110)
    watched.queue.end(third)
    watched.at(200)
    assert watched.phase(third) == Phase.WAITING  # it has run there, and would have waited here
    others = [job for job in ("71", "72", "73") if job != third]
    watched.queue.start(others[0])
    watched.at(300)
    watched.queue.end(others[0])
    watched.at(301)
    assert watched.phase(third) == Phase.RUNNING
    watched.at(402)
    assert stops(watched)[third] == (401, "finished")


def test_a_job_taken_back_there_leaves_here(watched: Watched) -> None:
    watched.queue.submit("71", gpus=16, min_runtime=0)
    watched.queue.submit("72", gpus=16, min_runtime=0)
    watched.at(10)
    waits = next(job for job in ("71", "72") if watched.phase(job) == Phase.WAITING)
    del watched.queue.waiting[waits]
    watched.at(20)
    watched.at(60)
    assert watched.end(waits) == "cancelled"


def test_what_is_pretended_outlives_the_server(watched: Watched) -> None:
    watched.queue.submit("71")
    watched.at(10)
    watched.wake_up()
    watched.at(500)
    assert watched.phase("71") == Phase.RUNNING
    assert stops(watched) == {}


def test_a_submission_is_refused_with_the_reason(watched: Watched) -> None:
    spec = {"account": "a", "gpus": 8, "command": ["true"]}
    answer = watched.ask("submit", spec=spec)
    assert not answer.ok
    assert "only watches" in answer.body["error"]
