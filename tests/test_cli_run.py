"""`tenure run`: what is wrong is said in one line; one controller carries a run, also after one has died."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from tenure.cli.main import app
from tenure.engines.clock import ChosenClock
from tenure.ledger.holders import is_gone, own_name
from tenure.ledger.opening import open_database
from tenure.runs.book import RunBook
from tenure.service import runs
from tenure.service.runs import _free_of_the_dead, rehearsed
from tenure.settings.errors import BadInput

WINDOW = {
    "id": "w1",
    "start": "2027-03-01T00:00:00Z",
    "end": "2027-03-03T00:00:00Z",
    "fee": 100,
    "currency": "EUR",
    "nodes": ["left", "right"],
    "gpus_per_node": 1,
}
PLAN = {
    "tokens": 100000,
    "nodes": 2,
    "gpus_per_node": 1,
    "throughput": {"mean": 1000, "sd": 50},
    "failures": {"per_node_day": 0.01},
    "recovery": {"hours_lost": 0.01},
    "prices": {"reserved_per_day": 100},
    "overrun": {"per_day": 1000},
    "windows": {"days": 1},
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    run = {
        "run": "example",
        "plan": PLAN,
        "provider": {"name": "manual", "file": "agreed.yaml"},
        "store": "store",
        "hook": "hook",
        "launch": {"command": ["true"]},
    }
    made = tmp_path / "run.yaml"
    made.write_text(yaml.safe_dump(run), encoding="utf-8")
    agree(made)
    return made


def agree(file: Path, **changed: Any) -> None:
    told = yaml.safe_dump({"windows": [{**WINDOW, **changed}]})
    file.with_name("agreed.yaml").write_text(told, encoding="utf-8")


def ran(*words: str, data: Path) -> tuple[int, str]:
    told = CliRunner().invoke(app, ["run", *words, "--data", str(data)])
    if told.exception is not None and not isinstance(told.exception, SystemExit):
        raise told.exception
    return told.exit_code, told.output


@pytest.mark.parametrize(
    "changed", [{"fee": -1}, {"end": "2026-02-01T00:00:00Z"}, {"currency": "euros"}, {"currency": "E"}]
)
def test_a_wrong_agreement_is_bad_input_at_the_beginning(file: Path, changed: dict[str, Any]) -> None:
    agree(file, **changed)
    status, said = ran("offers", str(file), "--days", "1", data=file.parent / "data")
    assert status == 2
    assert "agreed.yaml" in said


@pytest.mark.parametrize("provider", [{"name": "manul"}, {"name": "manual"}, {"name": "aws", "regoin": "x"}])
def test_a_wrong_provider_is_told_with_its_file_before_anything_is_made(
    file: Path, provider: dict[str, str]
) -> None:
    told = yaml.safe_load(file.read_text(encoding="utf-8"))
    file.write_text(yaml.safe_dump({**told, "provider": provider}), encoding="utf-8")
    status, said = ran("start", str(file), data=file.parent / "data")
    assert status == 2
    assert "run.yaml: provider" in said
    assert not (file.parent / "data").exists()


def test_a_hook_that_is_no_folder_is_bad_input(file: Path) -> None:
    file.with_name("hook").write_text("a file", encoding="utf-8")
    status, said = ran("start", str(file), data=file.parent / "data")
    assert status == 2
    assert "hook" in said


@pytest.mark.parametrize("days", ["nan", "-4", ",", "1e300", "soon"])
def test_lengths_that_are_none_are_refused(file: Path, days: str) -> None:
    status, said = ran("offers", str(file), "--days", days, data=file.parent / "data")
    assert status == 2
    assert "list of days" in said


@pytest.mark.parametrize(
    ("budget", "said"),
    [("-5", "above 0"), ("0", "above 0"), ("much", "above 0"), ("99", "the fee of 100 EUR")],
)
def test_a_budget_that_buys_nothing_is_bad_input(file: Path, budget: str, said: str) -> None:
    data = file.parent / "data"
    status, told = ran("sign", str(file), "w1", "--days", "2", "--budget", budget, data=data)
    assert status == 2
    assert said in told
    assert '"plans": []' in ran("purchases", str(file), "--json", "-", data=data)[1]


def test_a_folder_of_the_book_that_is_a_file_is_bad_input(file: Path) -> None:
    file.with_name("data").write_text("a file", encoding="utf-8")
    for words in (("status",), ("purchases",), ("start",)):
        status, said = ran(*words, str(file), data=file.parent / "data")
        assert status == 2, said
        assert "--data" in said


def test_who_signed_cannot_approve(file: Path) -> None:
    data = file.parent / "data"
    signed = ran("sign", str(file), "w1", "--days", "2", "--json", "-", data=data)[1]
    plan = json.loads(signed)["plan"]
    status, said = ran("approve", str(file), plan, data=data)
    assert status == 1
    assert "has signed plan" in said


def test_a_run_on_a_cloud_is_not_started_with_a_store_that_goes_with_the_window(file: Path) -> None:
    told = yaml.safe_load(file.read_text(encoding="utf-8"))
    told["provider"] = {"name": "aws", "region": "us-east-1", "instance_type": "p5.48xlarge"}
    told["store"] = "/dev/shm/checkpoints"
    file.write_text(yaml.safe_dump(told), encoding="utf-8")
    status, said = ran("start", str(file), data=file.parent / "data")
    assert status == 2
    assert "keep checkpoints in a bucket" in " ".join(said.split())
    assert not (file.parent / "data" / "record.db").exists()


def test_an_offer_that_has_expired_is_not_signed(file: Path) -> None:
    agree(file, good_until="2026-01-01T00:00:00Z")
    status, said = ran("sign", str(file), "w1", "--days", "2", data=file.parent / "data")
    assert status == 1
    assert "expired" in said


@pytest.mark.parametrize("asked", [{"days": -3}, {"days": float("nan")}, {"failures": -1}, {"speed": 0.0}])
def test_a_rehearsal_of_nonsense_is_refused(file: Path, asked: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=next(iter(asked))):
        rehearsed(file, asked, lambda part: None)


NAMED = "from tenure.ledger.holders import own_name; print(own_name(), flush=True); input()"


def test_the_lease_of_one_that_died_here_is_given_back_and_that_of_a_living_one_is_not(
    tmp_path: Path,
) -> None:
    gone = subprocess.Popen(
        [sys.executable, "-c", NAMED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    db = open_database(tmp_path / "record.db")
    try:
        assert gone.stdout is not None
        name = gone.stdout.readline().strip()
        dead, living = (
            RunBook(db, "example", time.time),
            RunBook(db, "example", time.time),
        )
        assert dead.claim(name, 300.0)
        _free_of_the_dead(living)
        assert living.holder() == name  # it lives
        gone.send_signal(signal.SIGKILL)
        gone.wait()
        _free_of_the_dead(living)
        assert living.claim(own_name(), 300.0)
        third = RunBook(db, "example", time.time)
        _free_of_the_dead(third)
        assert not third.claim("another", 300.0)
    finally:
        gone.kill()
        gone.communicate()
        db.engine.dispose()


def test_no_two_processes_have_one_name_though_their_machines_and_numbers_are_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As two containers have it: one host name, and the first process of each is number 1."""
    script = (
        "import os, socket; os.getpid = lambda: 1; socket.gethostname = lambda: 'box';"
        "from tenure.ledger.holders import own_name; assert own_name() == own_name(); print(own_name())"
    )
    names = {
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    }
    assert len(names) == 2
    assert all(name.startswith("box-") for name in names)
    here = own_name()
    assert own_name() == here
    assert not is_gone(here)
    machine, _, _ = here.rpartition("-")[0].rpartition("-")
    nobody = next(number for number in range(4_000_000, 5_000_000) if not Path(f"/proc/{number}").exists())
    assert is_gone(f"{machine}-{nobody}-0123abcd")
    assert not is_gone(f"elsewhere-{machine.rpartition('-')[2]}-{nobody}-0123abcd"), "another machine's"
    assert not is_gone(f"{machine.rpartition('-')[0]}-0000ffff-{nobody}-0123abcd"), "another container's"
    for nonsense in ("", "one", "a-b", "a-b-c"):
        assert not is_gone(nonsense)


def test_a_run_that_is_carried_is_forecast_from_its_book_with_what_is_on_offer(file: Path) -> None:
    data = file.parent / "data"
    raw = yaml.safe_load(file.read_text(encoding="utf-8"))
    raw["plan"]["tokens"] = 2 * 1000.0 * 86400 * 2.2  # 2.2 days of both nodes; the window has two
    file.write_text(yaml.safe_dump(raw), encoding="utf-8")
    more = {
        "id": "w1-more",
        "extends": "w1",
        "start": WINDOW["end"],
        "end": "2027-03-04T00:00:00Z",
        "fee": 40,
    }
    agreed = {"windows": [WINDOW, {**WINDOW, **more}]}
    file.with_name("agreed.yaml").write_text(yaml.safe_dump(agreed), encoding="utf-8")
    assert ran("forecast", str(file), data=data)[0] == 1  # never started
    plan = json.loads(ran("sign", str(file), "w1", "--days", "2", "--json", "-", data=data)[1])["plan"]
    assert ran("buy", str(file), plan, data=data)[0] == 0
    start = datetime(2027, 3, 1, tzinfo=UTC).timestamp()
    clock = ChosenClock(start)
    place = runs.Place(data=data, clock=clock)
    told_so_far(file, data, clock, tokens=2 * 1000.0 * 86400)
    clock.set(start + 86400.0)
    before = len(events(data))
    found = runs.forecast(file, place).answer
    assert found["run"] == "example"
    assert found["done"] == pytest.approx(1 / 2.2)
    assert found["posterior"]["speed"]["mean"] == pytest.approx(1000.0, rel=0.02)
    assert found["p_overrun"] > 0.99
    assert [one["fee"] for one in found["extensions"]] == [0, 40]
    assert found["choice"]["id"] == "w1-more"
    assert len(events(data)) == before, "nothing is written, and nothing bought"


def told_so_far(file: Path, data: Path, clock: ChosenClock, tokens: float) -> None:
    """One attempt in w1 since now, and a heartbeat with these tokens."""
    db = open_database(data / "record.db")
    try:
        book = RunBook(db, "example", clock.now)
        assert book.claim("one", 300.0)
        begun = {"attempt": 1, "nodes": ["left", "right"], "windows": ["w1"], "from_tokens": 0.0}
        book.record("attempt_started", begun)
        book.record("attempt_stepped", {"attempt": 1})
        book.let_go()
    finally:
        db.engine.dispose()
    hook = file.with_name("hook")
    hook.mkdir(exist_ok=True)
    beat = {"rank": 0, "world": 1, "attempt": 1, "at": clock.now(), "alive_at": clock.now(), "state": "train"}
    (hook / "heartbeat-0.json").write_text(json.dumps({**beat, "step": 100, "tokens": tokens}))


def events(data: Path) -> list[str]:
    db = open_database(data / "record.db")
    try:
        return [event.kind for event in RunBook(db, "example", lambda: 0.0).events()]
    finally:
        db.engine.dispose()
