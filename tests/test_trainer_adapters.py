"""The real Lightning and Hugging Face: drained by a signal or in an evaluation, resumed, same losses."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

JOBS = Path(__file__).parent / "trainers"
STEPS = 17
NEEDED = {"lightning": ["torch", "lightning"], "transformers": ["torch", "transformers", "accelerate"]}


def job(framework: str, folder: Path, *options: str) -> dict[str, Any]:
    for needed in NEEDED[framework]:
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed")
    folder.mkdir(exist_ok=True)
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, JOBS / f"{framework}_job.py", folder, str(STEPS), *options]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=900, env=env, check=False)
    lines = ran.stdout.strip().splitlines()
    assert lines, ran.stderr[-3000:]
    told = json.loads(lines[-1])
    assert ran.returncode == told["code"], ran.stderr[-3000:]
    return told


def beat(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "hook" / "heartbeat-0.json").read_text())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """The losses of a run that nobody interrupts, by framework."""
    return {}


def losses_of_whole(whole: dict[str, dict[str, str]], framework: str, tmp: Path) -> dict[str, str]:
    if framework not in whole:
        told = job(framework, tmp / "whole")
        assert (told["code"], told["step"]) == (0, STEPS)
        assert beat(tmp / "whole")["state"] == "finished"
        whole[framework] = told["losses"]
    return whole[framework]


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["lightning", "transformers"])
@pytest.mark.parametrize(
    "how", [("--signal-at", "8"), ("--drain-in-eval", "3")], ids=["signal", "evaluation"]
)
def test_drained_and_resumed_it_learns_the_same(
    tmp_path: Path, whole: dict[str, dict[str, str]], framework: str, how: tuple[str, str]
) -> None:
    expected = losses_of_whole(whole, framework, tmp_path)
    folder = tmp_path / "drained"
    first = job(framework, folder, *how)
    told = beat(folder)
    assert first["code"] == 0
    assert told["state"] == "drained"
    assert told["committed_step"] == told["step"] == first["step"]
    assert first["step"] == (8 if how[0] == "--signal-at" else 5), "at the step boundary, not later"
    (folder / "hook" / "request.json").unlink(missing_ok=True)
    second = job(framework, folder)
    assert (second["code"], second["step"]) == (0, STEPS)
    assert min(map(int, second["losses"])) == first["step"] + 1, "it goes on where it left"
    assert {**first["losses"], **second["losses"]} == expected, "bit for bit"
