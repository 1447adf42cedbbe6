"""Compiled, bounds-checked and plain: the same scenario gives the same story, byte for byte."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

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
#: One process a way plays them all: what it loads, or compiles, it loads once.
PLAYS = """
import sys
from pathlib import Path
from tenure.service import replay
for scenario in map(Path, sys.argv[2:]):
    replay.write_log(replay.simulate(scenario, log_waits=True), Path(sys.argv[1]) / f"{scenario.stem}.jsonl")
"""


def scenario_of(name: str) -> Path:
    (scenario,) = SCENARIOS.glob(f"{name}*.yaml")
    return scenario


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folder of all stories, by way."""
    folders = {way: tmp_path_factory.mktemp(way) for way in WAYS}
    for way, folder in folders.items():
        played = subprocess.run(
            [sys.executable, "-c", PLAYS, str(folder), *(str(scenario_of(name)) for name in CHOSEN)],
            env={**os.environ, **WAYS[way]},
            capture_output=True,
            text=True,
        )
        assert played.returncode == 0, f"{way}: {played.stderr}"
    return folders


@pytest.mark.slow
@pytest.mark.parametrize("name", CHOSEN)
def test_compiled_checked_and_plain_tell_the_same_story(name: str, told: dict[str, Path]) -> None:
    scenario = scenario_of(name)
    compiled, *others = ((told[way] / f"{scenario.stem}.jsonl").read_bytes() for way in WAYS)
    assert compiled.count(b"\n") > 5
    for way, other in zip(list(WAYS)[1:], others, strict=True):
        lines = zip(compiled.splitlines(), other.splitlines(), strict=False)
        differing = next((pair for pair in lines if pair[0] != pair[1]), "their lengths")
        assert compiled == other, f"{scenario.name}: compiled and {way} part at {differing}"
