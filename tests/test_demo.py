"""`make demo` is the first thing a newcomer runs: it plays through, keeps its word and leaves nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tenure.settings.lab import read_lab

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / "examples" / "demo"


def test_its_lab_is_valid_and_small() -> None:
    lab = read_lab(DEMO / "lab.yaml")
    assert sum(node.gpus for node in lab.nodes) == 8


@pytest.mark.slow
def test_it_plays_through_and_leaves_nothing_running(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, DEMO / "demo.py", tmp_path / "demo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    told = ran.stdout
    assert re.search(r"It runs \d+\.\d s after `submit` began", told)
    assert re.search(r"Reason: over_target", told)
    (alive, of) = re.findall(r"Without a server (\d+) of (\d+) running jobs go on", told)[0]
    assert alive == of != "0"
    assert "delivered of owed" in told
    assert re.search(r"attempt 2: begins at step [1-9]", told), "no sweep went on from its save"
    assert "0 processes left running" in told
    left = [
        entry.name
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and str(tmp_path).encode() in _environment(entry)
    ]
    assert left == []


def _environment(process: Path) -> bytes:
    try:
        return (process / "environ").read_bytes()
    except OSError:
        return b""
