"""`tenure trace`: what a trace holds, and one form for all of them; on made-up files in every format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tenure.cli.main import app
from tenure.simulator.traces.sample import write_sample

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
GUESSED = ("helios", "philly", "pai", "acme", "swf", "sacct", "tenure")


def run(*words: str | Path) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.parametrize("format_", GUESSED)
def test_a_file_says_itself_what_format_it_has(format_: str, tmp_path: Path) -> None:
    file = write_sample(tmp_path, format_, jobs=60)
    told = run("trace", "describe", file, "--json", "-")
    assert told.exit_code == 0, told.stderr
    described = json.loads(told.stdout)
    assert described["format"] == format_
    assert 0 < described["jobs"] == described["report"]["kept"]
    assert sum(size["jobs"] for size in described["sizes"]) == described["jobs"]


def test_a_csv_is_read_by_its_columns(tmp_path: Path) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text("id,at,sec,n,team\na,0,3600,8,x\nb,60,1800,4,y\nc,120,bad,4,y\n")
    columns = "job=id,submit=at,runtime=sec,gpus=n,account=team"
    told = run("trace", "describe", file, "--columns", columns, "--gpus", "16", "--json", "-")
    assert told.exit_code == 0, told.stderr
    described = json.loads(told.stdout)
    assert described["jobs"] == 2
    assert described["gpu_h"] == 8 * 1 + 4 * 0.5
    assert [tenant["tenant"] for tenant in described["tenants"]] == ["x", "y"]
    assert described["report"]["read"] == 3
    assert len(described["report"]["dropped"]) == 1


def test_the_table_tells_sizes_tenants_ends_and_what_was_dropped() -> None:
    told = run("trace", "describe", EXAMPLES / "own-slurm" / "sacct.txt", "--gpus", "64")
    assert told.exit_code == 0, told.stderr
    for words in (
        "299 jobs",
        "48.2 % of 64",
        "team3",
        "timed out",
        "a step of a job",
        "no GPUs",
        "busiest hour",
    ):
        assert words in told.stdout
    assert max(len(line) for line in told.stdout.splitlines()) <= 120


def test_a_converted_trace_says_the_same_as_the_original(tmp_path: Path) -> None:
    original = write_sample(tmp_path, "sacct", jobs=80)
    out = tmp_path / "jobs.parquet"
    told = run("trace", "convert", original, out)
    assert told.exit_code == 0, told.stderr
    assert "format: tenure" in told.stdout
    before = json.loads(run("trace", "describe", original, "--json", "-").stdout)
    after = json.loads(run("trace", "describe", out, "--json", "-").stdout)
    for key in ("jobs", "gpu_h", "sizes", "runtime_s", "wait_s", "tenants", "start", "by_week_hour"):
        assert after[key] == before[key], key
    assert sorted(path.name for path in tmp_path.iterdir()) == ["jobs.parquet", "sacct.txt"]


def test_a_trace_is_converted_to_parquet_only_and_never_over_itself(tmp_path: Path) -> None:
    original = write_sample(tmp_path, "sacct", jobs=20)
    assert run("trace", "convert", original, tmp_path / "jobs.csv").exit_code == 2
    text = original.read_text()
    assert run("trace", "convert", original, original).exit_code == 2
    assert original.read_text() == text


@pytest.mark.slow
def test_a_chart_is_drawn_where_it_is_asked_for(tmp_path: Path) -> None:
    chart = tmp_path / "trace.svg"
    told = run("trace", "describe", EXAMPLES / "own-slurm" / "sacct.txt", "--chart", chart)
    assert told.exit_code == 0, told.stderr
    assert chart.read_text().startswith("<?xml")
    assert run("trace", "describe", EXAMPLES / "own-slurm" / "sacct.txt", "--chart", "x.txt").exit_code == 2
