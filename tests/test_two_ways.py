"""Compiled, bounds-checked and plain: the same scenario gives the same story, byte for byte."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TENURE = Path(sys.executable).with_name("tenure")
SCENARIOS = Path(__file__).parent / "scenarios"
#: Small worlds that between them claim, plan, preempt, drain, fail, time out and change budgets.
CHOSEN = (
    "case_03",
    "case_06",
    "case_14",
    "case_22",
    "s05",
    "s15_work_may",
    "s17_a_prom",
    "s19_a_node",
    "s20_a_dead",
)
WAYS = {"compiled": {}, "bounds-checked": {"NUMBA_BOUNDSCHECK": "1"}, "plain": {"TENURE_PLAIN": "1"}}


def story_of(scenario: Path, way: str, folder: Path) -> bytes:
    log = folder / f"{way}.jsonl"
    told = subprocess.run(
        [TENURE, "simulate", str(scenario), "--log", str(log), "--log-waits"],
        env={**os.environ, **WAYS[way]},
        capture_output=True,
        text=True,
    )
    assert told.returncode == 0, f"{scenario.name}, {way}: {told.stderr}"
    return log.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("name", CHOSEN)
def test_compiled_checked_and_plain_tell_the_same_story(name: str, tmp_path: Path) -> None:
    (scenario,) = SCENARIOS.glob(f"{name}*.yaml")
    compiled, *others = (story_of(scenario, way, tmp_path) for way in WAYS)
    assert compiled.count(b"\n") > 5
    for way, other in zip(list(WAYS)[1:], others, strict=True):
        lines = zip(compiled.splitlines(), other.splitlines(), strict=False)
        differing = next((pair for pair in lines if pair[0] != pair[1]), "their lengths")
        assert compiled == other, f"{scenario.name}: compiled and {way} part at {differing}"
