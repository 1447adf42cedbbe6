"""The live commands as people type them, against a real server process with the fake engine."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from live_server import LAB, TENURE, Served, serving, start_server, wait_for
from tenure.core.words import Reason
from tenure.daemon.run import LAB_META
from tenure.ledger.ledger import open_ledger

WAITS = "language/olmo/ann"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("cli")) as served:
        yield served


def told(server: Served, *words: str, **env: str) -> Any:
    ran = server.run(*words, "--json", "-", **env)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def submitted(server: Served, *words: str, command: tuple[str, ...] = ("sleep", "36000")) -> str:
    ran = server.run("submit", "--account", "vision", "--gpus", "1", *words, "--json", "-", "--", *command)
    assert ran.returncode == 0, ran.stderr
    return str(json.loads(ran.stdout)["job"])


def phase(server: Served, job: str) -> str:
    return str(told(server, "show", job)["phase"])


# --- JSON as it is fixed -----------------------------------------------------------------------------


@pytest.mark.slow
def test_submit_prints_the_job_and_its_receipt_as_json_alone(server: Served) -> None:
    ran = server.run_apart(
        "submit", "-A", "vision", "-g", "1", "--min-runtime", "1h", "--json", "-", "--", "sleep", "36000"
    )
    answer = json.loads(ran.stdout)
    assert isinstance(answer["job"], str)
    assert answer["receipt"]["cost_gpu_h"] == 1.0
    assert answer["receipt"]["wait"]["latest_s"] == 0


@pytest.mark.slow
def test_show_has_phase_end_and_attempts(server: Served) -> None:
    job = submitted(server, "--min-runtime", "1m", command=("true",))
    wait_for("it is over", lambda: phase(server, job) == "ended")
    answer = told(server, "show", job)
    assert (answer["phase"], answer["end"]) == ("ended", "finished")
    (attempt,) = answer["attempts"]
    assert {"attempt", "started", "stopped", "end", "nodes"} <= set(attempt)
    assert attempt["end"] == "finished"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", attempt["started"])


@pytest.mark.slow
def test_why_has_a_documented_reason_a_sentence_numbers_and_the_earliest_start(server: Served) -> None:
    submitted(server, "--min-runtime", "1h")
    ran = server.run("submit", "-A", WAITS, "-g", "32", "--min-runtime", "1h", "--json", "-", "--", "true")
    job = json.loads(ran.stdout)["job"]
    answer = told(server, "why", job)
    assert answer["reason"].upper() in Reason.__members__
    assert answer["sentence"].startswith("waits")
    assert answer["numbers"]["account"] == WAITS
    assert set(answer["earliest_start"]) >= {"earliest", "latest"}
    asked = told(server, "why", "-A", WAITS, "-g", "32", "--min-runtime", "1h")
    assert asked["job"] is None
    assert asked["reason"] in ("behind_own", answer["reason"])
    server.run("cancel", job)


# --- what people read --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("columns", [80, 100, 120])
def test_tables_fit_the_terminal(server: Served, columns: int) -> None:
    long = "n" * 60
    job = submitted(server, "--name", long, "--hold", "--array", "0-3")
    for words in (
        ("queue",),
        ("show", f"{job}_0"),
        ("why", f"{job}_0"),
        ("node", "list"),
        ("account",),
        ("token", "list"),
        ("doctor",),
    ):
        ran = server.run(*words, COLUMNS=str(columns), FORCE_COLOR="1")  # as on a terminal
        assert ran.returncode == 0, (words, ran.stderr)
        widest = max(re.sub(r"\x1b\[[0-9;]*m", "", ran.stdout).splitlines(), key=len)
        assert len(widest) <= columns, (words, widest)
        assert ran.stdout.strip(), words
    server.run("cancel", job)


def test_the_receipt_is_printed_in_words(server: Served) -> None:
    ran = server.run(
        "submit", "-A", "vision", "-g", "2", "--min-runtime", "30m", "--hold", "--", "sleep", "9999"
    )
    assert re.match(r"job \d+\n", ran.stdout)
    for word in ("costs", "1.0 GPU-hours", "buys", "30m", "on hold"):
        assert word in ran.stdout
    job = ran.stdout.split()[1]
    assert "released" in server.run("release", job).stdout
    assert "cancelled" in server.run("cancel", job, "--reason", "a test").stdout


def test_the_receipt_of_a_large_array_says_that_not_all_of_it_starts_at_once(server: Served) -> None:
    ran = server.run(
        "submit", "-A", "vision", "-g", "2", "--min-runtime", "30m", "--array", "0-99", "--dry-run"
    )
    assert ran.returncode == 0, ran.stderr
    said = " ".join(ran.stdout.split())
    assert "100 GPU-hours for the minimum of its 100 jobs" in said
    assert "of its first job" in said
    assert "100 jobs of it may run at once and ask for 200 GPUs" in said
    ran = server.run(
        "submit", "-A", "vision", "-g", "1", "--min-runtime", "30m", "--array", "0-99%1", "--dry-run"
    )
    assert "may run at once" not in ran.stdout


def test_a_dry_run_says_what_would_be_and_submits_nothing(server: Served) -> None:
    before = told(server, "queue", "--state", "all")["total"]
    ran = server.run("submit", "-A", "vision", "-g", "1", "--min-runtime", "1h", "--dry-run")
    assert ran.returncode == 0, ran.stderr
    assert "Not submitted." in ran.stdout
    assert "costs" in ran.stdout
    assert told(server, "queue", "--state", "all")["total"] == before


@pytest.mark.slow
def test_logs_are_shown_and_followed(server: Served) -> None:
    job = submitted(server, "--min-runtime", "1m", command=("sleep", "6"))
    wait_for("it runs", lambda: phase(server, job) != "waiting")
    assert "pretends" in server.run("logs", job).stdout
    followed = server.run("logs", "-f", job)
    assert followed.returncode == 0, followed.stderr
    assert "pretends" in followed.stdout
    assert phase(server, job) == "ended"


@pytest.mark.slow
def test_a_stop_needs_force_and_a_reason(server: Served) -> None:
    job = submitted(server, "--min-runtime", "1h")
    wait_for("it runs", lambda: phase(server, job) == "running")
    assert server.run("stop", job).returncode == 2
    assert server.run("stop", job, "--force").returncode == 2
    assert server.run("stop", job, "--force", "--reason", "fire").returncode == 0
    story = server.run("show", job, COLUMNS="120").stdout
    assert "forced" in story
    server.run("cancel", job)


def test_a_token_is_printed_alone_so_that_it_can_be_kept(server: Served) -> None:
    ran = server.run("token", "create", "carl", "--expires", "1h")
    assert re.fullmatch(r"tenure_\S{40,}\n", ran.stdout)
    seen = server.run("queue", token=ran.stdout.strip())
    assert seen.returncode == 0


@pytest.mark.slow
def test_nodes_are_drained_repaired_and_brought_back(server: Served) -> None:
    for words in (("drain", "--reason", "fan"), ("repair", "--reason", "fan"), ("up", "--reason", "new fan")):
        ran = server.run("node", words[0], "jupiter-0003", *words[1:])
        assert ran.returncode == 0, ran.stderr
    assert "jupiter-0003  up" in server.run("node", "list").stdout
    assert server.run("node", "drain", "jupiter-0003").returncode == 2
    assert server.run("node", "drain", "nowhere", "--reason", "x").returncode == 2


@pytest.mark.slow
def test_the_servers_record_is_audited_and_a_turn_decided_again(server: Served) -> None:
    ran = server.run("audit")
    assert ran.returncode == 0, ran.stderr
    assert "Owed and delivered" in ran.stdout
    assert told(server, "audit", "--since", "30d")["gpu_hours"]["capacity"] > 0
    again = server.run_apart("replay", "2", "--data", str(server.data))
    assert again.returncode == 0, again.stderr + again.stdout
    assert "the same again" in again.stdout
    wrong = server.run_apart("replay", "999999", "--data", str(server.data))
    assert wrong.returncode == 2
    assert "a turn of the record" in wrong.stderr


# --- how it ends -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("show", "no-such"), 2, "there is no job 'no-such'"),
        (("cancel", "no-such"), 2, "no job"),
        (("queue", "--state", "gone"), 2, "waiting | running"),
        (("submit", "-A", "visoin", "-g", "1", "--", "true"), 2, "did you mean vision?"),
        (("submit", "-A", "vision", "-g", "9", "--", "true"), 2, "no cluster can hold"),
        (("submit", "-A", "vision", "-g", "1"), 2, "COMMAND"),
        (("submit", "--", "true"), 2, "--account and --gpus"),
        (("submit", "-A", "vision", "-g", "1", "--env", "NO_SUCH_VARIABLE", "--", "true"), 2, "NAME=VALUE"),
        (("why",), 2, "a JOB, or the flags"),
        (("token", "revoke", "12345678"), 2, "no token"),
        (("queue", "--url", "http://127.0.0.1:9"), 1, "no answer"),
    ],
)
def test_a_command_that_fails_says_why_and_leaves_with_its_status(
    server: Served, words: tuple[str, ...], status: int, said: str
) -> None:
    ran = server.run(*words)
    assert ran.returncode == status, ran.stderr
    assert said in " ".join(ran.stderr.replace("│", " ").split())
    assert "Traceback" not in ran.stderr
    assert ran.stdout == ""


def test_without_the_right_token_a_command_fails_with_one_sentence(server: Served) -> None:
    ran = server.run("queue", token="tenure_wrong")
    assert ran.returncode == 1
    assert ran.stderr.startswith("error: this token is unknown")


@pytest.mark.slow
def test_help_is_quick_and_live_commands_have_completion(server: Served) -> None:
    took_s = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert subprocess.run([TENURE, "--help"], capture_output=True).returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took_s.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(took_s) < 0.6, took_s  # of a processor: 0.2 s on a quiet machine
    heavy = "{'numpy', 'numba', 'pydantic', 'httpx', 'fastapi', 'sqlalchemy'}"
    heavy = f"import sys, tenure.cli.main; print(sorted({heavy} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True)
    assert loaded.stdout.strip() == "[]"
    environment = {
        **os.environ,
        "_TENURE_COMPLETE": "complete_bash",
        "COMP_WORDS": "tenure sub",
        "COMP_CWORD": "1",
    }
    shown = subprocess.run([TENURE], env=environment, capture_output=True, text=True)
    assert "submit" in shown.stdout


# --- the server itself -------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_second_server_on_the_same_data_is_refused(server: Served) -> None:
    lab = server.data.parent / "lab.yaml"
    ran = subprocess.run(
        [TENURE, "serve", str(lab), "--engine", "fake", "--data", str(server.data), "--port", "0"],
        env={**os.environ, "TENURE_PLAIN": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 1
    assert "served already, by process" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.slow
def test_the_record_of_another_lab_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    record = open_ledger(tmp_path / "record.db")
    record.begin("theirs", 1_700_000_000.0)
    record.close()
    lab = tmp_path / "lab.yaml"
    lab.write_text(yaml.safe_dump(LAB))
    ran = subprocess.run(
        [TENURE, "serve", str(lab), "--engine", "fake", "--data", str(tmp_path), "--port", "0"],
        env={**os.environ, "TENURE_PLAIN": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 1
    assert "this is the record of the lab 'theirs'" in ran.stderr
    assert "Traceback" not in ran.stderr
    record = open_ledger(tmp_path / "record.db", create=False)
    assert (record.meta(LAB_META), record.last_turn()) == (None, 0)
    record.close()


@pytest.mark.slow
def test_a_taken_port_a_wrong_lab_and_an_unknown_engine_are_one_message_each(tmp_path: Path) -> None:
    lab = tmp_path / "lab.yaml"
    lab.write_text(yaml.safe_dump(LAB))
    data = ["--data", str(tmp_path / "data")]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        cases = [
            (["serve", str(lab), "--engine", "fake", "--port", port, *data], 1, "cannot listen"),
            (["serve", str(tmp_path / "no.yaml"), *data], 2, "no.yaml"),
            (["serve", str(lab), "--engine", "pbs", *data], 2, "none of local, slurm or fake"),
            (
                ["serve", str(lab), "--engine", "fake", "--db", "mysql://x/y", "--port", "0", *data],
                2,
                "mysql",
            ),
        ]
        for words, status, said in cases:
            env = {**os.environ, "TENURE_PLAIN": "1"}
            ran = subprocess.run([TENURE, *words], env=env, capture_output=True, text=True, timeout=300)
            assert ran.returncode == status, ran.stderr
            assert said in " ".join(ran.stderr.replace("│", " ").split())
            assert "Traceback" not in ran.stderr


@pytest.mark.slow
def test_a_killed_server_comes_back_with_everything_as_it_was(tmp_path: Path) -> None:
    first = start_server(tmp_path)
    try:
        jobs = [submitted(first, "--min-runtime", "1h") for _ in range(3)]
        held = submitted(first, "--hold")
        wait_for("they run", lambda: all(phase(first, job) == "running" for job in jobs))
        before = {job: told(first, "show", job) for job in (*jobs, held)}
        token = first.run("token", "create", "ann").stdout.strip()
    finally:
        first.end(signal.SIGKILL)
    again = start_server(tmp_path)
    try:
        assert {job: told(again, "show", job) for job in (*jobs, held)} == before
        assert again.run("queue", token=token).returncode == 0
        assert again.run("submit", "-A", "vision", "-g", "1", "--", "true").returncode == 0
        assert told(again, "queue")["running"] >= 3
    finally:
        status = again.end()
    assert status == 0


@pytest.mark.slow
def test_a_server_that_stands_by_answers_and_its_commands_are_obeyed_by_the_leader(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    db = f"sqlite:///{tmp_path / 'shared.db'}"
    leader = start_server(tmp_path / "one", LAB, "--db", db)
    try:
        job = submitted(leader, "--hold")
        data = tmp_path / "two" / "data"
        data.mkdir(mode=0o700)
        standby = start_server(tmp_path / "two", LAB, "--db", db)
        try:
            assert _health(standby)["text"].startswith("another server leads")
            assert _health(standby)["ok"]
            assert told(standby, "show", job)["phase"] == "waiting"
            second = submitted(standby, "--hold")
            assert told(leader, "show", second)["phase"] == "waiting"
            leader.end(signal.SIGKILL)
            wait_for("it leads", lambda: _health(standby).get("leader"))
            assert {one["job"] for one in told(standby, "queue")["jobs"]} >= {job, second}
        finally:
            standby.end()
    finally:
        leader.end(signal.SIGKILL)


def _health(server: Served) -> dict[str, Any]:
    try:
        return dict(httpx.get(f"{server.url}/healthz").json())
    except httpx.HTTPError:
        return {}
