"""What is wrong in a fleet's plan is one message and status 2, whichever plan it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tenure.cli.main import app

HOURS = "mtbf: 3h\nrecovery: 5m\n"
CAPPING = (
    "base_w: 960\nrated_w: 1200\ncurve: gb200_fit\nrack: {gpus: 72, overhead_w: 357}\n"
    "breakers: [{name: p, limit_kw: 700}]\njobs: [{name: A, racks: {p: 8}}]\n"
)


@pytest.mark.parametrize(
    ("command", "text", "words"),
    [
        ("failures", "{}\n", "counted"),
        ("failures", "records: [{source: a, class: hardware, nodes: 4, causes: {x: 1}}]\n", "counted over"),
        ("failures", "records: [{source: a, class: gpu, nodes: 4, days: 3, causes: {x: 1}}]\n", "class"),
        ("failures", "records: [{source: a, nodes: 4, days: -3, causes: {x: 1}}]\n", "days"),
        ("failures", "records: [{source: a, nodes: 4, days: 3, log: none.csv}]\n", "none.csv"),
        ("failures", "lives: {file: none.csv}\n", "none.csv"),
        ("failures", "sizes: [{gpus: 8, events: 3}]\n", "gpu_days"),
        ("goodput", HOURS + "play: {spare: 4, repair: 1h}\n", "node by node"),
        ("goodput", HOURS + "rollout: {part: 60%, replicas: 1, away: 3m}\n", "replicas"),
        (
            "goodput",
            HOURS + "rollout: {part: 60%, replicas: 4, away: 3m, mode: overlapped}\n",
            "nodes",
        ),
        ("goodput", HOURS + "runs: {a: {recovery: -5m}}\n", "runs.a"),
        ("goodput", HOURS + "runs: {a: {speed: 5}}\n", "speed"),
        ("capping", CAPPING.replace("700", "-700"), "limit_kw"),
        ("capping", CAPPING.replace("700", "100"), "floor"),
        ("capping", CAPPING.replace("base_w: 960", "base_w: 700"), "never extrapolated"),
        ("capping", CAPPING.replace("racks: {p: 8}", "racks: {q: 8}"), "'q'"),
        ("capping", CAPPING.replace("limit_kw: 700}", "limit_kw: 700, under: x}"), "'x'"),
        ("capping", CAPPING + "controller: {low: 99%, high: 98%}\n", "below the high one"),
        ("capping", CAPPING + "controller: {settle: 2m}\n", "slower than its breaker"),
        ("calibrate", "readings: none.csv\nmeters: [{column: m, racks: [a]}]\n", "none.csv"),
        ("calibrate", "readings: none.csv\nmeters: [{column: m, racks: [m]}]\n", "once"),
        ("calibrate", "readings: none.csv\nmeters: []\n", "meters"),
    ],
)
def test_a_wrong_file_is_one_message_and_status_2(command: str, text: str, words: str, tmp_path: Path):
    file = tmp_path / "plan.yaml"
    file.write_text(text)
    told = CliRunner().invoke(app, ["plan", command, str(file)])
    assert told.exit_code == 2
    assert words in told.output
    assert "Traceback" not in told.output
