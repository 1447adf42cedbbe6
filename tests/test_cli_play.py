"""`tenure simulate`, `compare` and `sweep` on the examples: what they say, write, and keep when stopped."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from tenure.cli.main import app

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
QUICK = EXAMPLES / "quick.yaml"
TENURE = Path(sys.executable).with_name("tenure")


def run(*words: str | Path) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def numbers(*words: str | Path) -> dict[str, Any]:
    told = run(*words, "--json", "-")
    assert told.exit_code == 0, told.stderr
    return json.loads(told.stdout)


def test_the_numbers_have_every_key_of_the_interface() -> None:
    found = numbers("simulate", QUICK)
    assert {
        "span_s", "seed", "policy", "jobs", "gpu_hours", "occupancy", "availability", "unbudgeted_share",
        "delivered", "wait_s", "first_wait_s", "preemptions", "speed",
    } <= set(found)  # fmt: skip
    assert found["policy"]["name"] == "budget"
    assert set(found["delivered"]["accounts"]) == {
        "language", "language/olmo", "language/olmo/ann", "language/olmo/bo", "language/post", "vision",
    }  # fmt: skip
    hours = found["gpu_hours"]
    assert hours["capacity"] == 16 * 8 * 48
    assert sum(hours[part] for part in ("down", "idle", "budgeted", "unbudgeted")) == pytest.approx(6144)
    assert hours["down"] == 3 * 8
    assert found["speed"]["turns"] > 0


def test_the_same_command_gives_the_same_answer() -> None:
    first, second = numbers("simulate", QUICK), numbers("simulate", QUICK)
    assert first.pop("speed")["turns"] == second.pop("speed")["turns"]
    assert first == second


def test_the_table_says_everything_within_120_columns() -> None:
    told = run("simulate", QUICK)
    assert told.exit_code == 0, told.stderr
    for words in ("example · policy budget · seed 1 · 2 d", "lookback 7d", "Owed and delivered",
                  "published*", "debug", "Stopped for others", "GPU-hours:", "Played in"):  # fmt: skip
        assert words in told.stdout
    assert max(len(line) for line in told.stdout.splitlines()) <= 120
    assert "lookback" not in told.stderr  # the lab names one


def test_without_a_lookback_7_days_hold_and_it_is_said(tmp_path: Path) -> None:
    """Case 8."""
    scenario = yaml.safe_load(QUICK.read_text())
    lab = yaml.safe_load((EXAMPLES / "lab.yaml").read_text())
    del lab["policy"]
    file = tmp_path / "quick.yaml"
    file.write_text(yaml.safe_dump({**scenario, "lab": lab, "until": "6h", "events": []}))
    page = tmp_path / "page.html"
    told = run("simulate", file, "--report", page)
    assert told.exit_code == 0, told.stderr
    assert "no lookback is given" in told.stderr
    assert "7d" in told.stderr
    assert "lookback 7d (the default: none was given)" in told.stdout
    assert "lookback" in page.read_text()
    assert run("simulate", file, "--set", "policy.lookback=0").exit_code == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [("simulate",), ("compare", "--seeds", "1"), ("sweep", "--set", "seed=1,2")]
)
def test_an_error_stands_alone(tmp_path: Path, words: tuple[str, ...]) -> None:
    """What holds for want of a lookback is not said where nothing is going to be played."""
    lab = {"clusters": {"mars": {"nodes": 1, "gpus_per_node": 8}}, "accounts": {"a": {"share": "100%"}}}
    file = tmp_path / "no.yaml"
    file.write_text(yaml.safe_dump({"lab": lab, "trace": {"file": "nowhere.csv"}}))
    told = run(words[0], file, *words[1:])
    assert told.exit_code == 2
    assert told.stderr.startswith("error: ")
    assert told.stderr.count("\n") == 1


def test_story_numbers_and_page_are_written_and_the_story_gives_the_same_numbers(tmp_path: Path) -> None:
    story, measures, page = (tmp_path / name for name in ("story.jsonl", "numbers.json", "page.html"))
    told = run("simulate", QUICK, "--log", story, "--json", measures, "--report", page)
    assert told.exit_code == 0, told.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["numbers.json", "page.html", "story.jsonl"]
    played = json.loads(measures.read_text())
    audited = numbers("audit", story)
    played.pop("speed")
    assert {key: audited[key] for key in played} == played
    first = json.loads(story.read_text().splitlines()[0])
    assert (first["event"], first["n"], first["t"], first["lab"]) == ("began", 1, 0, "example")
    assert page.read_text().rstrip().endswith("</html>")


def test_waits_are_logged_only_where_they_are_asked_for(tmp_path: Path) -> None:
    with_waits, without = tmp_path / "with.jsonl", tmp_path / "without.jsonl"
    run("simulate", QUICK, "--log", without)
    told = run("simulate", QUICK, "--log", with_waits, "--log-waits")
    assert told.exit_code == 0, told.stderr
    assert '"waiting"' not in without.read_text()
    assert '"waiting"' in with_waits.read_text()


def test_settings_reach_the_policy_and_the_scenario() -> None:
    found = numbers("simulate", QUICK, "--set", "policy.max_protected=2h", "--set", "until=1d")
    assert found["policy"]["max_protected_s"] == 7200
    assert found["span_s"] == 86400


def test_other_policies_play_too() -> None:
    for policy in ("window", "fifo", "fifo-backfill", "priority"):
        assert numbers("simulate", QUICK, "--policy", policy)["policy"]["name"] == policy


def test_a_trace_of_your_own_is_played(tmp_path: Path) -> None:
    told = run("simulate", EXAMPLES / "own-slurm" / "scenario.yaml", "--report", tmp_path / "own.html")
    assert told.exit_code == 0, told.stderr
    assert "team3" in told.stdout
    assert "a step of a job" in (tmp_path / "own.html").read_text()


def test_policies_are_set_side_by_side_over_the_same_worlds(tmp_path: Path) -> None:
    file, page = tmp_path / "compared.json", tmp_path / "compared.html"
    words = ("compare", QUICK, "--policies", "budget,window", "--seeds", "1-2", "--workers", "1")
    told = run(*words, "--json", file, "--report", page)
    assert told.exit_code == 0, told.stderr
    runs = json.loads(file.read_text())["runs"]
    assert [(one["policy"], one["seed"]) for one in runs] == [
        ("budget", 1), ("window", 1), ("budget", 2), ("window", 2),
    ]  # fmt: skip
    assert (
        runs[0]["delivered"] == numbers("simulate", QUICK, "--policy", "budget", "--seed", "1")["delivered"]
    )
    for words_ in (
        "policies budget, window",
        "delivered of owed",
        "Each account under budget and window",
        "vision",
    ):
        assert words_ in told.stdout
    assert page.read_text().rstrip().endswith("</html>")


def test_settings_are_set_side_by_side_as_policies_are(tmp_path: Path) -> None:
    page = tmp_path / "compared.html"
    words = ("compare", QUICK, "--policies", "budget", "--set", "policy.max_protected=2h,8h", "--seeds", "1")
    told = run(*words, "--set", "policy.lookback=3d", "--workers", "1", "--json", "-", "--report", page)
    assert told.exit_code == 0, told.stderr
    runs = json.loads(told.stdout)["runs"]
    assert [one["policy"] for one in runs] == ["budget max_protected=2h", "budget max_protected=8h"]
    assert [one["knobs"]["max_protected_s"] for one in runs] == [7200, 28800]
    assert {one["knobs"]["lookback_s"] for one in runs} == {3 * 86400}
    assert "max_protected 2h" in page.read_text()
    many = ",".join(f"{hours}h" for hours in range(1, 26))
    refused = run("compare", QUICK, "--policies", "budget", "--set", f"policy.max_protected={many}")
    assert refused.exit_code == 2
    assert "at most 24" in refused.stderr


@pytest.mark.slow
def test_many_processes_give_what_one_gives(tmp_path: Path) -> None:
    words = ["compare", QUICK, "--policies", "budget,fifo,window", "--seeds", "1", "--json", "-"]
    ran = subprocess.run([TENURE, *words, "--workers", "2"], capture_output=True, text=True, check=True)
    parallel, alone = json.loads(ran.stdout), numbers(*words[:-2], "--workers", "1")
    for one in (*parallel["runs"], *alone["runs"]):
        one.pop("speed")
    assert parallel == alone


def test_a_sweep_plays_every_combination(tmp_path: Path) -> None:
    file = tmp_path / "sweep.json"
    words = ("--set", "policy.max_protected=2h,8h", "--set", "policy.lookback=1d,7d", "--workers", "1")
    told = run("sweep", QUICK, *words, "--json", file, "--report", tmp_path / "sweep.html")
    assert told.exit_code == 0, told.stderr
    runs = json.loads(file.read_text())["runs"]
    assert [tuple(one["set"].values()) for one in runs] == [
        ("2h", "1d"), ("2h", "7d"), ("8h", "1d"), ("8h", "7d"),
    ]  # fmt: skip
    assert [one["knobs"]["max_protected_s"] for one in runs] == [7200, 7200, 28800, 28800]
    assert "4 combinations" in told.stdout


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_finished(tmp_path: Path) -> None:
    """A sweep too long to wait for is interrupted once the first plays are in its file."""
    file = tmp_path / "sweep.json"
    values = ",".join(str(depth) for depth in range(1, 121))
    words = ["sweep", QUICK, "--set", f"policy.depth={values}", "--seeds", "1-100"]
    words += ["--workers", "2", "--json", file]
    with subprocess.Popen(
        [TENURE, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as playing:
        deadline = time.monotonic() + 600  # a first play may have to compile
        while not file.exists() and time.monotonic() < deadline and playing.poll() is None:
            time.sleep(0.05)
        playing.send_signal(signal.SIGINT)
        stdout, stderr = playing.communicate(timeout=300)
    assert playing.returncode == 130, stderr
    kept = json.loads(file.read_text())
    assert 0 < len(kept["runs"]) < kept["asked"] == 12_000
    assert "stopped by Ctrl-C after" in stderr
    assert str(file) in stderr
    assert "combinations" in stdout


def test_a_wrong_value_is_refused_before_the_first_play(tmp_path: Path) -> None:
    kept = tmp_path / "sweep.json"
    told = run("sweep", QUICK, "--set", "until=1d,2d,never", "--workers", "1", "--json", kept)
    assert told.exit_code == 2
    assert not kept.exists()


@pytest.mark.slow
def test_every_example_is_a_scenario_or_a_lab_that_plays(tmp_path: Path) -> None:
    played = []
    for file in sorted(EXAMPLES.rglob("*.yaml")):
        if file.parent.name in ("plans", "fleet", "runs"):
            continue  # plans have tests of their own
        keys = yaml.safe_load(file.read_text()).keys()
        if "run" in keys:
            continue  # and so have runs
        if "clusters" in keys:
            assert run("policy", "check", file).exit_code == 0, file
            continue
        words = () if file.name != "month.yaml" else ("--set", "until=36h", "--set", "warmup=12h")
        told = run("simulate", file, *words)
        assert told.exit_code == 0, f"{file}: {told.stderr}"
        assert file.read_text().startswith("#"), f"{file} begins with a comment: what it is, how to play it"
        played.append(file.name)
    assert played == ["month.yaml", "scenario.yaml", "quick.yaml"]
