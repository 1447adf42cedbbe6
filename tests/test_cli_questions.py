"""`tenure what-if` and `tenure next-preempted`: answers that the play itself bears out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from tenure.cli.main import app

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
QUICK = EXAMPLES / "quick.yaml"
GANG = "{account: vision, gpus: 64, min_runtime: 4h}"
TOO_MUCH = "{account: language/post, gpus: 64, min_runtime: 8h}"


def run(*words: str | Path) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def answer(*words: str | Path) -> dict[str, Any]:
    told = run(*words, "--json", "-")
    assert told.exit_code == 0, told.stderr
    return json.loads(told.stdout)


def story(tmp_path: Path, scenario: dict[str, Any]) -> list[dict[str, Any]]:
    """Lines of the story of a scenario that stands beside the examples' lab."""
    file, log = tmp_path / "scenario.yaml", tmp_path / "story.jsonl"
    file.write_text(yaml.safe_dump({**scenario, "lab": str(EXAMPLES / "lab.yaml")}))
    told = run("simulate", file, "--log", log, "--log-waits")
    assert told.exit_code == 0, told.stderr
    return [json.loads(line) for line in log.read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("at", "job"),
    [("20h", GANG), ("30m", GANG), ("20h", "{account: language/olmo/bo, gpus: 8, min_runtime: 1h}")],
)
def test_the_answer_is_what_happens_when_the_job_is_there(at: str, job: str, tmp_path: Path) -> None:
    told = answer("what-if", QUICK, "--at", at, "--job", job)
    scenario = yaml.safe_load(QUICK.read_text())
    scenario["jobs"].append({**yaml.safe_load(job), "id": "mine", "submit": at, "runtime": "1h"})
    lines = [line for line in story(tmp_path, scenario) if line.get("job") == "mine"]
    started = next(line for line in lines if line["event"] == "started")
    assert told["starts_at_s"] == started["t"]
    assert told["wait_s"] == started["t"] - told["at_s"]
    if not told["starts_now"]:
        at_once = [line for line in lines if line["event"] == "waiting" and line["t"] == told["at_s"]]
        for key in ("reason", "need", "have"):
            assert told[key] == at_once[-1][key], at_once
        assert told["earliest_start"]["earliest_s"] <= told["starts_at_s"]


def test_one_call_gives_rank_ratios_the_unmet_condition_and_what_would_help() -> None:
    """Case 10, of a job not submitted; the limit of 32 GPUs is told apart from budget, order and shape."""
    told = answer("what-if", QUICK, "--at", "20h", "--job", TOO_MUCH)
    assert told["starts_now"] is False
    assert (told["reason"], told["in_the_way"], told["need"]) == ("own_limit", "limit", 64)
    assert told["numbers"]["rank"] >= 1
    assert all("ratio" in one for one in told["numbers"]["accounts_ahead"])
    assert {"gpus": 32} in [one["change"] for one in told["would_change"]]
    page = run("what-if", QUICK, "--at", "20h", "--job", TOO_MUCH)
    for words in ("would not start at once", "limit of 32 GPUs", "In its way: limit", "What would change it"):
        assert words in page.stdout


def test_a_minimum_above_the_limit_is_told_the_better_value_and_both_waits() -> None:
    """Case 18."""
    job = "{account: vision, gpus: 64, min_runtime: 8h, max_runtime: 15m}"
    told = run("what-if", QUICK, "--at", "20h", "--job", job)
    assert told.exit_code == 0, told.stderr
    for words in ("min_runtime 8h is more than max_runtime 15m", "min_runtime: 15m", "predicted waits:"):
        assert words in told.stderr


@pytest.mark.parametrize(
    ("at", "job", "complaint"),
    [
        ("20h", "{account: visoin, gpus: 8}", "did you mean vision"),
        ("20h", "{account: vision, gpus: 12}", "--job: gpus"),
        ("20h", "{account: vision}", "--job: gpus"),
        ("20h", "{account: vision, gpus: 8, min_runtim: 1h}", "did you mean min_runtime"),
        ("20h", "gpus: 8: 9", "--job"),
        ("20h", "8", "--job"),
        ("3d", GANG, "--at"),
        ("soon", GANG, "--at"),
        ("2026-01-05", GANG, "no start"),
    ],
)
def test_a_wrong_question_says_what_is_wrong_with_it(at: str, job: str, complaint: str) -> None:
    told = run("what-if", QUICK, "--at", at, "--job", job)
    assert told.exit_code == 2
    assert complaint in told.stderr
    assert "Traceback" not in told.stderr


def test_an_instant_may_be_a_date_where_the_start_is_known(tmp_path: Path) -> None:
    scenario = yaml.safe_load(QUICK.read_text())
    file = tmp_path / "dated.yaml"
    dated = {**scenario, "lab": str(EXAMPLES / "lab.yaml"), "start": "2026-01-05T00:00:00Z"}
    file.write_text(yaml.safe_dump(dated))
    told = answer("next-preempted", file, "--at", "2026-01-05T20:00:00Z")
    assert told["at_s"] == 20 * 3600
    assert told["attempts"] == answer("next-preempted", QUICK, "--at", "20h")["attempts"]
    assert "2026-01-05 20:00 UTC" in run("next-preempted", file, "--at", "20h").stdout


def test_who_is_stopped_was_next(tmp_path: Path) -> None:
    """Each of the first stops of the play, asked for at its instant: the job is stopping, for whom it was."""
    lines = story(tmp_path, yaml.safe_load(QUICK.read_text()))
    stops = [x for x in lines if x["event"] == "stopping" and x["cause"] == "preempted"]
    assert len(stops) > 10
    for stop in (stops[0], stops[len(stops) // 2]):
        told = answer("next-preempted", QUICK, "--at", str(stop["t"]))
        mine = next(one for one in told["attempts"] if one["job"] == stop["job"])
        assert mine["candidate"], mine
        assert (mine["stopping"], mine["for"], mine["rule"]) == (True, stop["by"], stop["rule"].lower())


def test_nobody_within_protection_is_ever_a_candidate() -> None:
    for at in ("1h", "5h", "20h"):
        told = answer("next-preempted", QUICK, "--at", at)
        for one in told["attempts"]:
            if one["candidate"] and one["budgeted"]:
                assert one["interruptible_from_s"] <= told["at_s"]
        ranks = [not one["candidate"] for one in told["attempts"]]
        assert ranks == sorted(ranks), "candidates stand first"
        assert told["candidates"] == ranks.count(False)


def test_before_anything_runs_there_is_nobody_to_stop(tmp_path: Path) -> None:
    scenario = {"jobs": [{"id": "late", "account": "vision", "gpus": 8, "runtime": "1h", "submit": "5h"}]}
    file = tmp_path / "late.yaml"
    file.write_text(yaml.safe_dump({**scenario, "lab": str(EXAMPLES / "lab.yaml"), "until": "1d"}))
    assert "Nothing runs at that instant." in run("next-preempted", file, "--at", "1h").stdout
    told = run("what-if", file, "--at", "1h", "--job", GANG)
    assert "It would start at once." in told.stdout
    assert "What would change it" not in told.stdout
