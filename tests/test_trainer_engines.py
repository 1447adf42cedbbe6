"""The hook under what starts a trainer: Tenure's local engine and Slurm, the real ones."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine_sites import LocalSite, begun, ended, start, stop, wait_for
from gangs import needs_torch
from slurm_site import SlurmSite
from tenure.engines.protocol import Notice

PLAIN = Path(__file__).parent / "trainers" / "plain_job.py"
EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "train" / "train.py"


def beats(folder: Path) -> dict[int, dict[str, Any]]:
    found = [json.loads(path.read_text()) for path in folder.glob("heartbeat-*.json")]
    return {int(beat["rank"]): beat for beat in found}


def until(holds: Callable[[], bool], seconds: float = 300.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[LocalSite]:
    opened = LocalSite(tmp_path)
    opened.patience_s = 300.0
    yield opened
    opened.close()


def job(folder: Path, steps: int) -> dict[str, Any]:
    (folder / "hook").mkdir(exist_ok=True)
    env = {"TENURE_HOOK": str(folder / "hook"), "TENURE_BEAT_S": "0.1"}
    return {"command": [sys.executable, str(PLAIN), str(folder), str(steps)], "env": env}


@pytest.mark.slow
def test_under_the_local_engine_it_saves_at_a_notice_leaves_when_stopped_and_says_when_it_is_done(
    site: LocalSite, tmp_path: Path
) -> None:
    told = job(tmp_path, 100_000)
    site.engine.carry_out(start("a", **told))
    wait_for(site, "a", that=begun)
    until(lambda: bool(beats(tmp_path / "hook")))
    site.engine.carry_out(Notice("n", "a", 1, time.time() + 600))
    seen = wait_for(site, "a", that=lambda one: one.saved is not None)
    assert seen.ended is None, "it goes on after the save"
    site.engine.carry_out(stop("a", 300))
    seen = wait_for(site, "a", that=ended)
    assert (seen.exit_code, seen.done) == (0, False), "it left, and is not done"
    left = beats(tmp_path / "hook")[0]
    assert (left["state"], left["attempt"]) == ("drained", 1)
    assert int((tmp_path / "kept-0").read_text()) == left["step"]
    told = job(tmp_path, left["step"] + 20)
    site.engine.carry_out(start("a", attempt=2, **told))
    seen = wait_for(site, "a", 2, that=ended)
    assert (seen.exit_code, seen.done) == (0, True)
    assert (beats(tmp_path / "hook")[0]["state"], beats(tmp_path / "hook")[0]["attempt"]) == ("finished", 2)


@pytest.mark.slow
def test_a_gang_that_the_local_engine_stops_drains_through_its_launcher(
    site: LocalSite, tmp_path: Path
) -> None:
    needs_torch()
    told = job(tmp_path, 1)
    launcher = [sys.executable, "-m", "tenure.trainer.torchrun", "--standalone", "--nproc-per-node=2"]
    arguments = [str(EXAMPLE), "--store", str(tmp_path / "store"), "--steps", "100000", "--pace", "0.02"]
    env = told["env"] | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    site.engine.carry_out(start("g", command=launcher + arguments, env=env))
    until(lambda: len(beats(tmp_path / "hook")) == 2 and beats(tmp_path / "hook")[1]["step"] > 2)
    site.engine.carry_out(stop("g", 300))
    seen = wait_for(site, "g", that=ended)
    assert seen.exit_code == 0
    assert {beat["state"] for beat in beats(tmp_path / "hook").values()} == {"drained"}
    assert seen.saved is not None


@pytest.mark.slow
def test_under_slurm_each_task_knows_its_rank_and_a_signal_drains_it(
    slurm: SlurmSite, tmp_path: Path
) -> None:
    told = job(tmp_path, 100_000)
    settings = " ".join(f"{key}={value}" for key, value in told["env"].items())
    command = " ".join(told["command"])
    out = f"--output={tmp_path}/out"
    which = slurm.sbatch(
        "-pothers", "-n2", "-t10", out, script=f"export {settings}; exec srun -n 2 {command}"
    )
    try:
        until(lambda: len(beats(tmp_path / "hook")) == 2)
        assert {beat["world"] for beat in beats(tmp_path / "hook").values()} == {2}
        slurm.run("scancel", "--signal=USR2", which)
        until(lambda: {b["state"] for b in beats(tmp_path / "hook").values()} == {"drained"})
    finally:
        slurm.run("scancel", which)
    told_beats = beats(tmp_path / "hook")
    assert {rank: int((tmp_path / f"kept-{rank}").read_text()) for rank in (0, 1)} == {
        rank: beat["step"] for rank, beat in told_beats.items()
    }
