"""How commands end: one message, the right status, JSON alone on stdout, and never slow to say `--help`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from tenure import __version__
from tenure.cli.endings import Answers
from tenure.cli.main import app

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
TENURE = Path(sys.executable).with_name("tenure")
TWO_ACCOUNTS = """
clusters: {{c: {{nodes: 2, gpus_per_node: 8}}}}
accounts: {{a: {{share: {}%}}, b: {{share: {}%}}}}
"""


def run(*words: str | Path) -> Any:
    """A command's `exit_code`, `stdout` and `stderr`."""
    return CliRunner().invoke(app, [str(word) for word in words])


def test_the_version_is_the_package_s_own() -> None:
    told = run("--version")
    assert (told.exit_code, told.stdout) == (0, f"tenure {__version__}\n")


def test_help_is_said_by_few_modules() -> None:
    """What takes its time is to load them: 345 take 0.2 s. Counted, since a busy machine takes longer."""
    code = "import sys; from tenure.cli.main import main; main()"
    told = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code, "--help"], capture_output=True, text=True, check=True
    )
    loaded = told.stderr.count("import time:")
    assert "simulate" in told.stdout
    assert loaded <= 420, f"`tenure --help` loads {loaded} modules: import heavy things inside commands"


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from tenure.cli.main import app; heavy = {'numpy', 'numba', 'pydantic', 'pyarrow', "
        "'matplotlib', 'jinja2', 'yaml'}; print(sorted(heavy & {*sys.modules}))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("nonsense",),
        ("simulate",),
        ("simulate", "ai2", "--polcy", "budget"),
        ("simulate", "no-such-file.yaml"),
        ("simulate", "ai3"),
        ("simulate", "ai2", "--policy", "budgte"),
        ("simulate", "ai2", "--set", "policy.lookbak=3d"),
        ("simulate", "ai2", "--set", "policy.lookback=0"),
        ("simulate", "ai2", "--set", "lookback"),
        ("simulate", "ai2", "--seed", "-1"),
        ("simulate", "ai2", "--json", "nowhere/out.json"),
        ("simulate", "ai2", "--log-waits"),
        ("simulate", "ai2", "--log", "-"),
        ("compare", "ai2", "--policies", "budget,fito"),
        ("compare", "ai2", "--policies", ","),
        ("compare", "ai2", "--seeds", "5-1"),
        ("compare", "ai2", "--workers", "0"),
        ("sweep", "ai2"),
        ("sweep", "ai2", "--set", "policy.lookback=,"),
        ("sweep", "ai2", "--set", "policy.lookback=1d,0"),
        ("what-if", "ai2", "--at", "1d"),
        ("trace", "describe", "no-such-file.csv"),
        ("trace", "describe", "no-such-file.csv", "--columns", "job"),
        ("trace", "describe", "no-such-file.csv", "--format", "svf"),
        ("policy", "show", "--policy", "fi-fo"),
        ("policy", "check", "no-such-lab.yaml"),
        ("audit", "no-such-story.jsonl"),
        ("audit", "no-such-story.jsonl", "--json", "."),
    ],
)
def test_a_wrong_question_is_one_message_on_stderr_and_status_2(words: tuple[str, ...]) -> None:
    told = run(*words)
    assert told.exit_code == 2, told.stderr
    assert told.stdout == ""
    assert told.stderr.strip()
    assert "Traceback" not in told.stderr


def test_an_unknown_policy_is_told_the_nearest_one() -> None:
    assert "did you mean budget?" in run("simulate", "ai2", "--policy", "budgte").stderr


def test_without_a_story_the_audit_asks_the_server() -> None:
    told = run("audit", "--url", "http://127.0.0.1:9")
    assert told.exit_code == 1
    assert "no answer from http://127.0.0.1:9" in told.stderr
    assert "tenure serve" in told.stderr


def raising(problem: BaseException) -> Any:
    """The end of a command that raises."""
    failing = typer.Typer(cls=Answers, pretty_exceptions_enable=False)

    @failing.callback()
    def root() -> None: ...

    @failing.command()
    def fail() -> None:
        raise problem

    return CliRunner().invoke(failing, ["fail"])


def test_what_should_not_happen_is_short_and_says_where_to_report() -> None:
    told = raising(ZeroDivisionError("a share of nothing"))
    assert told.exit_code == 1
    assert "ZeroDivisionError: a share of nothing" in told.stderr
    assert "report" in told.stderr
    assert "Traceback" not in told.stderr


def test_the_traceback_is_there_for_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENURE_TRACEBACK", "1")
    told = raising(ZeroDivisionError("a share of nothing"))
    assert told.exit_code == 1
    assert "Traceback" in told.stderr


def test_a_full_disk_is_no_fault_of_ours() -> None:
    told = raising(OSError(28, "No space left on device", "story.jsonl"))
    assert told.exit_code == 1
    assert "No space left on device" in told.stderr
    assert "report" not in told.stderr


def test_ctrl_c_is_status_130() -> None:
    assert raising(KeyboardInterrupt()).exit_code == 130


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error() -> None:
    ran = subprocess.run(
        f"{TENURE} policy show --json - | head -n 1",
        shell=True,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert ran.stdout == "{\n"
    assert ran.stderr == ""


def test_json_stands_alone_on_stdout() -> None:
    told = run("policy", "show", "--json", "-", "--set", "policy.lookback=3d")
    assert told.exit_code == 0
    knobs = {row["key"]: row["value"] for row in json.loads(told.stdout)["knobs"]}
    assert knobs["lookback"] == "3d"


def test_policy_show_tells_every_knob_and_its_meaning() -> None:
    told = run("policy", "show")
    assert told.exit_code == 0
    for word in ("lookback", "7d", "max_protected", "grace.budgeted", "Other policies: window, fifo"):
        assert word in told.stdout


def test_policy_check_says_who_is_entitled_to_what() -> None:
    told = run("policy", "check", EXAMPLES / "lab.yaml")
    assert told.exit_code == 0
    rows = {line.split()[0]: line.split() for line in told.stdout.splitlines() if line.strip()}
    assert rows["olmo"][-2:] == ["53.8", "–"]  # 70 % of 60 % of 128 GPUs, no limit
    assert rows["post"][-2:] == ["23", "32"]


def test_policy_check_warns_of_shares_given_to_nobody(tmp_path: Path) -> None:
    lab = tmp_path / "lab.yaml"
    lab.write_text(
        "clusters: {c: {nodes: 2, gpus_per_node: 8}}\naccounts: {a: {share: 60%}, b: {share: 30%}}"
    )
    told = run("policy", "check", lab)
    assert told.exit_code == 0
    assert "leaves 10 % of c to nobody" in told.stderr


def test_a_lab_that_cannot_be_is_refused_with_file_and_key(tmp_path: Path) -> None:
    lab = tmp_path / "lab.yaml"
    lab.write_text(
        "clusters: {c: {nodes: 2, gpus_per_node: 8}}\naccounts: {a: {share: 60%}, b: {share: 60%}}"
    )
    told = run("policy", "check", lab)
    assert told.exit_code == 2
    assert str(lab) in told.stderr
    assert "accounts" in told.stderr
    assert "120%" in told.stderr


def test_names_that_look_like_markup_stay_names(tmp_path: Path) -> None:
    lab = tmp_path / "lab.yaml"
    lab.write_text("clusters: {c: {nodes: 2, gpus_per_node: 8}}\naccounts: {'[b]a[1-5]:smile:': {share: 1}}")
    told = run("policy", "check", lab)
    assert told.exit_code == 0, told.stderr
    assert "a[1-5]:smile:" in told.stdout
