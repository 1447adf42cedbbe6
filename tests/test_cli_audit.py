"""`tenure audit`: of a story's file alone, the same numbers for everybody."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from stories import random_story
from tenure.audit.measures import measure
from tenure.cli.main import app
from tenure.service.outputs import plain
from tenure.story.jsonl import write_story


def run(*words: str | Path) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def story(tmp_path: Path) -> Path:
    file = tmp_path / "story.jsonl"
    write_story(random_story(5, limits=True), file)
    return file


def test_the_file_gives_the_numbers_of_the_story(story: Path) -> None:
    told = run("audit", story, "--json", "-")
    assert told.exit_code == 0, told.stderr
    found = json.loads(told.stdout)
    expected = json.loads(json.dumps(plain(measure(random_story(5, limits=True)).to_dict())))
    assert {key: found[key] for key in expected} == expected


def test_packed_stories_give_the_same(story: Path, tmp_path: Path) -> None:
    told = run("audit", story, "--json", "-").stdout
    for suffix in (".gz", ".zst"):
        packed = tmp_path / f"packed.jsonl{suffix}"
        write_story(random_story(5, limits=True), packed)
        assert run("audit", packed, "--json", "-").stdout == told


def test_a_short_story_is_told_in_gpu_minutes(story: Path) -> None:
    """In GPU-hours all parts of a minute on a few GPUs would read 0.0."""
    said = run("audit", story, "--since", "15m").stdout
    found = json.loads(run("audit", story, "--since", "15m", "--json", "-").stdout)["gpu_hours"]
    assert found["capacity"] == 8.0
    assert "480 GPU-minutes: budgeted " in said
    assert "GPU-hours" not in said
    assert f"idle {found['idle'] * 60:,.1f} (" in said or f"idle {found['idle'] * 60:,.0f} (" in said
    assert "GPU-minutes" not in run("audit", story).stdout


def test_since_measures_only_the_end(story: Path) -> None:
    found = json.loads(run("audit", story, "--since", "1h", "--json", "-").stdout)
    assert found["span_s"] == 3600
    assert found["gpu_s"]["capacity"] == 3600 * 32


def test_parts_add_up_and_missing_hours_have_causes(story: Path) -> None:
    found = json.loads(run("audit", story, "--json", "-").stdout)
    ledger, shortfall = found["ledger"], found["shortfall"]
    parts = ("unbudgeted", "idle", "down")
    whole = ledger["total"]["delivered_gpu_h"] + sum(ledger[f"{part}_gpu_h"] for part in parts)
    assert whole == pytest.approx(ledger["capacity_gpu_h"], abs=1e-9)
    assert shortfall["total_gpu_h"] > 0
    assert sum(shortfall["causes"].values()) == pytest.approx(shortfall["total_gpu_h"], abs=1e-9)


def test_the_tables_tell_it_within_120_columns(story: Path) -> None:
    told = run("audit", story)
    assert told.exit_code == 0, told.stderr
    for words in (
        "Owed and delivered",
        "published*",
        "lookback 7d",
        "Whose GPU-hours",
        "Why GPU-hours are missing",
    ):
        assert words in told.stdout
    assert max(len(line) for line in told.stdout.splitlines()) <= 120


def test_a_report_is_written_whole(story: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    told = run("audit", story, "--report", page)
    assert told.exit_code == 0, told.stderr
    assert page.read_text().rstrip().endswith("</html>")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html", "story.jsonl"]


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda text: "", "empty"),
        (lambda text: "lab: example\n", "line 1"),
        (lambda text: text[: len(text) // 2].rstrip("\n")[:-5], "cut in the middle"),
        (lambda text: text.split("\n", 1)[1], "began"),
    ],
)
def test_what_is_no_whole_story_is_refused_with_its_line(story: Path, spoil: Any, complaint: str) -> None:
    story.write_text(spoil(story.read_text()))
    told = run("audit", story)
    assert told.exit_code == 2
    assert complaint in told.stderr
    assert told.stderr.count(str(story)) == 1
    assert "Traceback" not in told.stderr


def test_a_since_that_is_no_duration_is_refused(story: Path) -> None:
    assert run("audit", story, "--since", "yesterday").exit_code == 2
    assert run("audit", story, "--since", "0d").exit_code == 2
