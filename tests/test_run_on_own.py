"""Whole runs on one's own cluster, as a user lives them: `tenure serve`, `tenure run start`, a real trainer.

The files are those of `examples/own`, with shorter times. Each controller is killed once and started again.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from engine_sites import kill_shepherds
from live_server import TENURE, Served, serving
from slurm_site import SlurmSite
from tenure.checkpoints.store import Store
from tenure.ledger.records import LedgerUnavailable
from tenure.service import runs

OWN = Path(__file__).resolve().parents[1] / "examples" / "own"
PACE_S, TOKENS_A_STEP = 0.05, 1000
PATIENCE_S = 120.0  #: of a busy machine


class Times(NamedTuple):
    """By how long this machine takes to start the trainer now: a busy one gets longer windows."""

    start_s: float

    @property
    def window_s(self) -> int:
        """Long enough to start in, train for some seconds, and leave."""
        return round(11 + 4 * self.start_s)

    @property
    def steps(self) -> int:
        """More than a window can hold, whatever the machine."""
        return int((self.window_s - 1) / PACE_S)


def measured() -> Times:
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "import tenure.checkpoints.store, tenure.trainer"], check=True)
    return Times(min(10.0, time.monotonic() - began))


def learned(steps: int) -> float:
    """What an undisturbed training of so many steps ends with."""
    total = 0.0
    for step in range(1, steps + 1):
        total += random.Random(step).random()
    return total


def write_run(folder: Path, file: str, steps: int, **changed: Any) -> Path:
    """A run's file of the examples, for a training of so many steps."""
    told = yaml.safe_load((OWN / file).read_text(encoding="utf-8"))
    told["plan"]["tokens"] = steps * TOKENS_A_STEP
    train = [sys.executable, str(OWN / "count.py"), "--steps", steps, "--pace", str(PACE_S)]
    told["launch"]["command"] = train
    told["launch"]["env"] = {"TENURE_BEAT_S": "0.3"}
    told["poll"] = 0.3
    told["deadlines"]["least"] = "1s"
    for key, value in changed.items():
        told[key] = told[key] | value if isinstance(value, dict) and key in told else value
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump(told), encoding="utf-8")
    return path


class Carrying:
    """A controller in a process of its own, and what its run's book says."""

    def __init__(self, file: Path, env: dict[str, str]) -> None:
        self.file, self.env = file, env
        self.place = runs.Place(data=file.parent / "book")
        self.log = file.parent / "carried.log"
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        words = [TENURE, "run", "start", self.file.name, "--data", "book"]
        with self.log.open("ab") as out:
            return subprocess.Popen(
                words, cwd=self.file.parent, env={**os.environ, **self.env}, stdout=out, stderr=out
            )

    def kill_and_start_again(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process = self._start()

    def status(self) -> dict[str, Any]:
        try:
            return runs.status(self.file, self.place)
        except (runs.CannotCarry, LedgerUnavailable):
            return {"phase": "", "attempts": [], "timeline": [], "alarms": []}

    def until(self, what: str, true: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """What the book says once it is so."""
        give_up = time.monotonic() + PATIENCE_S
        while not true(told := self.status()):
            assert time.monotonic() < give_up, f"{what}\n{self.said()}"
            assert self.process.poll() is None, f"{what}\n{self.said()}"
            time.sleep(0.25)
        return told

    def done(self) -> dict[str, Any]:
        """To the run's end."""
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(self.said()) from None
        told = self.status()
        assert told["phase"] == "done", self.said()
        return told

    def said(self) -> str:
        return self.log.read_text()[-4000:]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        kill_shepherds(self.file.parent / "book" / "run-engine")


@contextmanager
def carrying(file: Path, **env: str) -> Iterator[Carrying]:
    one = Carrying(file, env)
    try:
        yield one
    finally:
        one.close()


def of(served: Served) -> dict[str, str]:
    return {"TENURE_URL": served.url, "TENURE_TOKEN": served.admin_token}


def kept(folder: Path, run: str) -> tuple[int, float]:
    """Step and sum of the newest checkpoint, every byte read."""
    store = Store(str(folder / "store"), run)
    newest = store.newest_verified(deep=True)
    assert newest is not None
    return newest.step, json.loads(store.read(newest, "state.json"))["sum"]


def instant(text: str | None) -> float:
    return datetime.fromisoformat(str(text)).timestamp()


def lines(told: dict[str, Any], words: str) -> list[str]:
    return [line["text"] for line in told["timeline"] if words in line["text"]]


@pytest.mark.slow
def test_a_run_in_a_lab_saves_before_its_protection_ends_is_interrupted_and_goes_on(tmp_path: Path) -> None:
    times = measured()
    steps = times.steps + int(6 / PACE_S)  # nobody has to leave before the end
    lab = yaml.safe_load((OWN / "lab.yaml").read_text(encoding="utf-8"))
    job = {"account": "language", "min_runtime": f"{times.window_s}s"}
    file = write_run(tmp_path, "run.yaml", steps, launch={"job": job})
    with serving(tmp_path, lab, "--engine", "local") as served, served.client() as client:
        with carrying(file, **of(served)) as run:
            run.until("it runs", lambda told: bool(lines(told, "attempt 1 runs")))
            client.set_node("north", "drain", "it leaves when its protection ends, whatever anybody is owed")
            run.until("a checkpoint is due", lambda told: bool(lines(told, "end of the protection")))
            run.kill_and_start_again()
            run.until("it is queued again", lambda told: bool(lines(told, "attempt 1 is queued")))
            client.set_node("north", "up")
            told = run.done()
        (row,) = [row for row in client.queue(state="all").jobs if row.name == "big-1"]
        shown = client.show(row.job)
    assert [one.end for one in shown.attempts] == ["preempted", "finished"]
    assert [one["end"] for one in told["attempts"]] == ["finished"]
    assert kept(tmp_path, "big") == (steps, learned(steps))
    commits = tmp_path / "store" / "run" / "big" / "COMMITTED"
    first = min(commits.iterdir(), key=lambda one: int(one.name))
    assert first.stat().st_mtime < instant(shown.attempts[0].protected_until)
    assert 0 < int(first.name) < steps
    assert not lines(told, "ALARM")
    assert told["goodput"]["occupied_share"] == pytest.approx(1.0)


@pytest.mark.slow
def test_a_run_on_reserved_nodes_drains_before_the_end_waits_and_goes_on_in_the_next_window(
    tmp_path: Path,
) -> None:
    times = measured()
    lab = yaml.safe_load((OWN / "lab.yaml").read_text(encoding="utf-8"))
    (tmp_path / "lab").mkdir()
    with serving(tmp_path / "lab", lab) as served, served.client() as client:
        file = write_run(tmp_path, "reserved.yaml", times.steps, windows=["1", "2"])
        with carrying(file, **of(served)) as run:
            run.until("it waits for them", lambda told: bool(lines(told, "window unknown")))
            length = times.window_s
            first = client.reserve(["north", "east"], "now", f"{length}s", "run kept")
            then = client.reserve(["south", "west"], f"{length + 2}s", "1h", "run kept")
            assert [first.id, then.id] == ["1", "2"]
            run.until("it has drained", lambda told: bool(told["attempts"] and told["attempts"][0]["end"]))
            run.kill_and_start_again()
            told = run.done()
    assert [(one["windows"], one["end"]) for one in told["attempts"]] == [
        ([first.id], "drained"),
        ([then.id], "finished"),
    ]
    assert lines(told, f"window {first.id} is left")
    assert kept(tmp_path, "kept") == (times.steps, learned(times.steps))
    before = ("window unknown", "no window")  # until they were reserved
    assert [line for line in lines(told, "ALARM") if not any(word in line for word in before)] == []
    assert instant(told["attempts"][0]["ended"]) <= instant(first.ends)


@pytest.mark.slow
def test_a_run_in_a_reservation_of_slurm_trains_on_its_nodes_and_drains_when_asked(
    slurm: SlurmSite, tmp_path: Path
) -> None:
    nodes, steps = slurm.nodes[:2], int(6 / PACE_S)
    words = ["ReservationName=kept", "StartTime=now", "Duration=10", "Users=root", f"Nodes={','.join(nodes)}"]
    slurm.run("scontrol", "create", "reservation", *words)
    train = f"{sys.executable} {OWN / 'count.py'} --steps {steps} --pace {PACE_S}"
    where = 'exec srun --reservation="$TENURE_WINDOW" --nodelist="${TENURE_HOSTS%%,*}" -p others -N1 -n1 '
    env = {"SLURM_CONF": str(slurm.conf), "TENURE_BEAT_S": "0.3"}
    file = write_run(
        tmp_path,
        "reserved.yaml",
        steps,
        provider={"name": "own", "by": "slurm", "nodes": list(nodes), "gpus_per_node": 8},
        windows=["kept"],
        launch={"command": ["bash", "-c", where + train], "env": env},
    )
    try:
        with carrying(file, SLURM_CONF=str(slurm.conf)) as run:
            run.until("it trains", lambda told: bool(told["attempts"]) and told["tokens"]["reached"] > 0)
            assert slurm.run("squeue", "-h", "-R", "kept", "-o", "%N").split() == [nodes[0]]
            runs.drain(file, run.place, "to see it")
            run.until("it has drained", lambda told: told["phase"] == "paused")
            run.kill_and_start_again()
            runs.resume(file, run.place)
            told = run.done()
    finally:
        slurm.clear()
        slurm.run("scontrol", "delete", "ReservationName=kept")
    assert [one["end"] for one in told["attempts"]] == ["drained", "finished"]
    assert kept(tmp_path, "kept") == (steps, learned(steps))
