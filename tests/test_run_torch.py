"""A real training of two processes is carried across three short windows by the local engine.

The windows are agreed by hand and bought by their plan; the controller is a process of its own and is killed
in the second window. What is learned is bit for bit what one undisturbed training learns.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from engine_sites import kill_shepherds
from tenure.checkpoints.store import Store
from tenure.service import buying, runs

TRAIN = Path(__file__).resolve().parents[1] / "examples" / "train" / "train.py"
TOKENS_A_STEP, PACE_S, GAP_S = 2 * 16 * 8, 0.1, 3.0

pytest.importorskip("torch")


class Times(NamedTuple):
    """By how long this machine takes to import torch now: a busy one gets longer windows."""

    import_s: float

    @property
    def lengths(self) -> tuple[float, float, float]:
        short = round(20 + 8 * self.import_s)
        return short, short, round(60 + 40 * self.import_s)

    @property
    def steps(self) -> int:
        """More than the first two windows can hold, whatever the machine."""
        return 100 * (1 + int(2 * self.lengths[0] / PACE_S / 100))  # the last one is saved


def measured() -> Times:
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    return Times(min(12.0, time.monotonic() - began))


def iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def command(folder: Path, steps: int, pace: float, losses: str, store: str) -> list[str]:
    launch = [sys.executable, "-m", "tenure.trainer.torchrun", "--standalone", "--nproc-per-node", "2"]
    train = [str(TRAIN), "--store", str(folder / store), "--steps", str(steps)]
    return [*launch, *train, "--save-every", "100", "--pace", str(pace), "--losses", str(folder / losses)]


def write_files(folder: Path, times: Times, first: float) -> Path:
    windows, at = [], first
    for number, length in enumerate(times.lengths, start=1):
        window = {
            "id": f"w{number}",
            "start": iso(at),
            "end": iso(at + length),
            "fee": 100,
            "currency": "EUR",
        }
        windows.append({**window, "nodes": ["left", "right"], "gpus_per_node": 1})
        at += length + GAP_S
    (folder / "agreed.yaml").write_text(yaml.safe_dump({"windows": windows}), encoding="utf-8")
    plan = {
        "tokens": times.steps * TOKENS_A_STEP,
        "nodes": 2,
        "gpus_per_node": 1,
        "throughput": {"mean": 1000, "sd": 50},
        "failures": {"per_node_day": 0.01},
        "recovery": {"hours_lost": 0.01},
        "prices": {"reserved_per_day": 100},
        "overrun": {"per_day": 1000},
        "windows": {"days": 1},
    }
    run = {
        "run": "example",
        "plan": plan,
        "provider": {"name": "manual", "file": "agreed.yaml"},
        "store": "store",
        "hook": "hook",
        "launch": {
            "command": command(folder, times.steps, PACE_S, "losses", "store"),
            "env": {"OMP_NUM_THREADS": "1"},
        },
        "poll": 0.5,
        "deadlines": {"margin": 3 + times.import_s, "save": 3, "least": 5},
        "gang": {"start_within": "2m"},
        "alarms": {"stall": "40s", "silent": "80s", "late_start": "2m"},
        "approval": {"budget": 1000},
    }
    file = folder / "run.yaml"
    file.write_text(yaml.safe_dump(run), encoding="utf-8")
    return file


def start(file: Path, log: Path) -> subprocess.Popen[bytes]:
    program = [str(Path(sys.executable).with_name("tenure")), "run", "start", file.name, "--data", "data"]
    with log.open("ab") as out:
        return subprocess.Popen(program, cwd=file.parent, stdout=out, stderr=out)


def learned(path: Path) -> dict[int, str]:
    """The loss of each step, as it was told last."""
    return {int(step): loss for step, loss in map(str.split, path.read_text().splitlines())}


@pytest.mark.slow
def test_two_processes_are_carried_across_three_windows_and_learn_the_same(tmp_path: Path) -> None:
    times = measured()
    first = float(int(time.time() + 8 + 8 * times.import_s))
    file = write_files(tmp_path, times, first)
    place = runs.Place(data=tmp_path / "data", person="ann")
    for window in ("w1", "w2", "w3"):
        plan = buying.sign(file, place, window)["plan"]
        assert buying.buy(file, place, plan)["window"] == window
    log = tmp_path / "log"
    controller = start(file, log)
    try:
        _until(lambda: _attempts(file, place) >= 2, first + times.lengths[0] + 60, log)
        time.sleep(5)
        controller.send_signal(signal.SIGKILL)
        controller.wait()
        controller = start(file, log)
        controller.wait(timeout=first + sum(times.lengths) + 60 - time.time())
    finally:
        controller.kill()
        controller.wait()
        kill_shepherds(tmp_path / "data" / "run-engine")  # nothing of the engine outlives the test
    told = runs.status(file, place)
    said = log.read_text()
    assert told["phase"] == "done", said[-3000:]
    assert [one["end"] for one in told["attempts"]] == ["drained", "drained", "finished"], said[-3000:]
    assert [one["windows"] for one in told["attempts"]] == [["w1"], ["w2"], ["w3"]]
    newest = Store(str(tmp_path / "store"), "example").newest_verified(deep=True)
    assert newest is not None
    assert newest.step == times.steps
    assert not [line for line in told["timeline"] if "lost final checkpoint" in line["text"]], said[-3000:]
    plain = {**os.environ, "OMP_NUM_THREADS": "1", "TENURE_HOOK": str(tmp_path / "plain-hook")}
    subprocess.run(
        command(tmp_path, times.steps, 0.0, "plain", "plain-store"), env=plain, check=True, timeout=900
    )
    assert learned(tmp_path / "losses") == learned(tmp_path / "plain")
    assert len(learned(tmp_path / "plain")) == times.steps


def _attempts(file: Path, place: Any) -> int:
    try:
        return len(runs.status(file, place)["attempts"])
    except runs.CannotCarry:
        return 0


def _until(true: Any, latest: float, log: Path) -> None:
    while not true():
        assert time.time() < latest, log.read_text()[-3000:]
        time.sleep(0.5)
