"""When the engine, the record or the server itself fails: nothing lost, nothing twice, and said so."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from live_lab import LAB, Small
from tenure.core.words import NodeState, Phase
from tenure.daemon.run import Daemon
from tenure.engines.clock import RealClock
from tenure.engines.fake import CallFault, FakeCluster, Faults
from tenure.ledger.ledger import open_ledger
from tenure.ledger.records import Asked, LedgerUnavailable
from tenure.settings.errors import BadInput
from tenure.settings.lab import lab_of

HOUR = 3600


@pytest.fixture
def small(tmp_path: Path) -> Small:
    return Small(tmp_path)


# --- the engine ---------------------------------------------------------------------------------------


def test_while_the_engine_is_silent_commands_are_answered_and_nothing_is_decided(small: Small) -> None:
    running = small.submit("a", 8, runtime=HOUR)
    small.engine.happen("silence", value=1000.0)
    answer = small.ask("submit", spec=small.spec("a", 8))
    assert answer.ok
    assert answer.body["receipt"]["phase"] == "waiting"
    assert small.phase(answer.body["job"]) == Phase.WAITING
    health = small.daemon.health()
    assert health.engine_silent_s == 0.0
    assert "engine does not answer" in health.sentence
    small.to(500)
    assert small.phase(running) == Phase.RUNNING  # nothing is freed that cannot be seen
    small.clock.set(small.clock.now() + 600)
    small.settle()
    assert small.daemon.health().engine_silent_s is None
    assert small.phase(answer.body["job"]) == Phase.RUNNING


def test_what_ended_while_the_engine_was_silent_ends_at_its_own_second(small: Small) -> None:
    job = small.submit("a", 8, runtime=300)
    small.engine.happen("silence", value=1000.0)
    small.to(1100)
    assert [(line["t"], line["end"]) for line in small.lines("stopped")] == [(300, "finished")]
    assert small.end(job) == "finished"


def test_what_ended_while_the_server_was_dead_is_charged_to_the_second(small: Small) -> None:
    job, other = small.submit("a", 8, runtime=300, min_runtime="5m"), small.submit("b/x", 8, runtime=HOUR)
    small.clock.set(small.clock.now() + 2000)
    small.wake_up()
    small.settle()
    (line,) = small.lines("stopped")
    assert (line["job"], line["t"], line["held_gpu_s"]) == (job, 300, 8 * 300)
    assert small.phase(other) == Phase.RUNNING
    assert [row.stopped_t for row in small.ledger.attempts(job)] == [300]


def test_a_launch_that_is_refused_has_failed_with_the_engines_words(tmp_path: Path) -> None:
    small = Small(tmp_path, faults=Faults(seed=1, refused=1.0))
    job = small.submit("a", 8)
    small.settle()
    assert small.end(job) == "failed"
    (row,) = small.ledger.attempts(job)
    assert "refuses to launch" in row.detail
    assert small.ledger.open_orders() == []


@pytest.mark.slow
def test_an_order_whose_answer_is_lost_is_given_again_and_obeyed_once(tmp_path: Path) -> None:
    faults = Faults(scripted={number: CallFault(lost_after=True) for number in range(3, 9)})
    small = Small(tmp_path, faults=faults)
    job = small.submit("a", 8)
    for _ in range(20):
        small.to(small.t + 1)
    assert [attempt.job for attempt in small.engine.running()] == [job]
    assert small.engine.wrongs == []
    assert small.ledger.open_orders() == []


def test_an_answer_older_than_the_newest_is_passed_over(tmp_path: Path) -> None:
    small = Small(tmp_path)
    small.submit("a", 8, runtime=100)
    small.to(50)
    small.engine.faults = Faults(seed=3, late=1.0, latest_s=60.0)
    small.to(120)
    small.engine.faults = Faults()
    small.to(200)
    assert [(line["t"], line["end"]) for line in small.lines("stopped")] == [(100, "finished")]
    assert small.engine.wrongs == []


# --- the record ---------------------------------------------------------------------------------------


class Unwritable:
    """A ledger that does not take turns for a while."""

    def __init__(self, ledger: Any, times: int) -> None:
        self._ledger, self.times = ledger, times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def record(self, *given: Any) -> None:
        if self.times > 0:
            self.times -= 1
            raise LedgerUnavailable("the disk is full")
        self._ledger.record(*given)


def test_a_turn_that_could_not_be_written_has_not_happened(small: Small) -> None:
    small.daemon.ledger = Unwritable(small.ledger, 3)  # type: ignore[assignment]
    number = small.tell("submit", spec=small.spec())
    for _ in range(3):
        assert not small.daemon.turn_now()
        assert small.engine.running() == []
        assert small.daemon.health().ledger_error == "the disk is full"
        assert small.ledger.answer(number) is None
    small.settle()
    assert small.daemon.health().ledger_error is None
    answer = small.ledger.answer(number)
    assert answer is not None
    assert answer.body["job"] == "1"
    assert len(small.engine.running()) == 1


def test_of_two_servers_one_leads_and_the_other_takes_over_when_it_is_gone(small: Small) -> None:
    first = small.daemon
    second = small.wake_up("another")
    assert not second.turn_now()
    assert second.health().state == "standby"
    small.daemon = first
    job = small.submit("a", 8)
    small.clock.set(small.clock.now() + 60)  # the first is thought dead
    small.daemon = second
    small.settle()
    assert second.health().leader
    assert small.phase(job) == Phase.RUNNING
    small.tell("cancel", job)
    assert not first.turn_now()  # it comes back, and may write nothing
    assert first.health().state == "standby"
    small.settle()
    assert small.phase(job) == Phase.STOPPING


def test_a_command_on_which_turns_break_is_answered_and_the_rest_obeyed(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    def submission(raw: dict[str, Any]) -> Any:
        if raw.get("name") == "poison":
            raise ZeroDivisionError
        return known(raw)

    from tenure.daemon import commands

    known = commands.submission
    monkeypatch.setattr(commands, "submission", submission)
    numbers = [small.tell("submit", spec=small.spec("a", 1))]
    numbers.append(small.tell("submit", spec=small.spec("a", 1, name="poison")))
    numbers.append(small.tell("submit", spec=small.spec("a", 1)))
    for _ in range(8):
        small.daemon.turn_now()
    answers = [small.ledger.answer(number) for number in numbers]
    assert [answer.ok for answer in answers if answer] == [True, False, True]
    assert answers[1] is not None
    assert answers[1].body["status"] == 500


# --- many jobs, and those that are over -----------------------------------------------------------------


@pytest.mark.slow
def test_jobs_that_are_over_are_left_behind_and_nobody_notices(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenure.daemon.run.DROP_FROM", 10)
    first = small.submit("a", 1, runtime=1)
    small.ask("submit", spec=small.spec("a", 1, array=300, runtime=60))
    stays = small.submit("b/x", 4, min_runtime="1h", runtime=HOUR)
    waits = small.submit("b/y", 4, min_runtime="1h", after=[f"{first}:ok", "2:any"])
    small.to(1000)
    assert small.phase(waits) == Phase.HELD
    small.to(2000)
    assert len(small.view.ids) < 60
    assert small.phase(stays) == Phase.RUNNING
    small.wake_up()
    small.settle()
    assert small.view.row_of(stays) >= 0
    assert small.ask("cancel", first).body["error"] == f"job {first} has ended"
    assert small.phase(waits) == Phase.RUNNING
    assert small.engine.wrongs == []
    assert small.phase(small.submit("b/x", 1, after=["2:ok"])) == Phase.RUNNING


class Deaf:
    """A ledger that does not take commands for a while."""

    def __init__(self, ledger: Any, times: int) -> None:
        self._ledger, self.times = ledger, times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def ask(self, *given: Any) -> Any:
        if self.times > 0:
            self.times -= 1
            raise LedgerUnavailable("the disk is full")
        return self._ledger.ask(*given)


def test_a_beginning_that_broke_off_is_begun_again_as_a_whole(small: Small) -> None:
    small.lab = lab_of(LAB | {"accounts": {"a": {"share": "30%"}, "b": LAB["accounts"]["b"]}})  # type: ignore[index]
    daemon = small.wake_up()
    daemon.ledger = Deaf(small.ledger, 2)  # type: ignore[assignment]
    assert [daemon.turn_now() for _ in range(2)] == [False, False]
    small.settle()
    assert [(line["account"], line["new"]) for line in small.lines("share")] == [("a", 0.3)]


class Halting:
    """A ledger whose process is stopped for a minute right after a turn was written."""

    def __init__(self, small: Small) -> None:
        self._ledger, self._clock = small.ledger, small.clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def record(self, *given: Any) -> None:
        self._ledger.record(*given)
        self._clock.set(self._clock.now() + 60)


def test_who_was_stopped_for_longer_than_its_lead_carries_nothing_out_before_it_leads_again(
    small: Small,
) -> None:
    small.tell("submit", spec=small.spec())
    small.daemon.ledger = Halting(small)  # type: ignore[assignment]
    assert small.daemon.turn_now()
    assert small.engine.running() == []
    small.daemon.ledger = small.ledger
    small.settle()
    assert len(small.engine.running()) == 1


# --- another lab's file ---------------------------------------------------------------------------------


def other(small: Small, **changes: Any) -> None:
    small.lab = lab_of(LAB | changes)
    small.wake_up()
    small.settle()


def test_a_node_and_an_account_that_are_new_are_taken_in(tmp_path: Path) -> None:
    small = Small(tmp_path, more_nodes={"mars-0002": 8})
    assert small.view.strangers == ("the engine has a node mars-0002 that the lab does not name",)
    job = small.submit("b/x", 8, min_runtime="1h", runtime=HOUR)
    small.to(600)
    accounts = {
        "c": {"share": "20%"},
        "a": {"share": "30%"},
        "b": {"share": "50%", "accounts": {"x": {"share": "50%"}, "y": {"share": "30%"}}},
    }
    other(small, clusters={"mars": {"nodes": 3, "gpus_per_node": 8}}, accounts=accounts)
    assert small.phase(job) == Phase.RUNNING
    shares = {line["account"]: (line["old"], line["new"]) for line in small.lines("share")}
    assert shares == {"c": (0.0, 0.2), "a": (0.5, 0.3)}
    more = [small.submit("c", 8, min_runtime="1h"), small.submit("a", 8, min_runtime="1h")]
    assert [small.phase(one) for one in more] == [Phase.RUNNING, Phase.RUNNING]
    rows = {account.path: row for row, account in enumerate(small.view.lab.accounts)}
    assert small.view.board.standings["entitled_ugpu"][rows["c"]] == int(24 * 0.2 * 1_000_000)
    small.to(HOUR)
    (row,) = small.ledger.attempts(job)
    assert (row.end, row.held_gpu_s) == ("finished", 8 * HOUR)
    small.wake_up()
    small.settle()
    assert len(small.lines("share")) == 2  # what the file says is new only once


def test_a_leaf_that_gets_accounts_below_keeps_its_work_as_its_own(small: Small) -> None:
    job = small.submit("a", 8, min_runtime="1h", runtime=HOUR)
    small.to(600)
    accounts = dict(LAB["accounts"]) | {"a": {"share": "50%", "accounts": {"z": {"share": "50%"}}}}
    other(small, accounts=accounts)
    small.to(HOUR)
    assert small.end(job) == "finished"
    assert (small.view.board.standings["charged"] == 0).all()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"clusters": {"mars": {"nodes": [{"name": "mars-0009"}], "gpus_per_node": 8}}}, "no node mars-00"),
        ({"accounts": {"b": LAB["accounts"]["b"]}}, "no account a"),
    ],
)
def test_a_file_by_which_work_would_be_lost_is_refused(
    small: Small, changes: dict[str, Any], words: str
) -> None:
    small.submit("a", 16, min_runtime="1h")
    small.lab = lab_of(LAB | changes)
    small.clock.set(small.clock.now() + 60)
    with pytest.raises(BadInput, match=words):
        small.wake_up().turn_now()
    small.lab = lab_of(LAB)
    small.wake_up()
    small.settle()
    assert small.phase("1") == Phase.RUNNING


# --- in a thread, by the machine's clock ----------------------------------------------------------------


@pytest.mark.slow
def test_in_a_thread_a_submission_starts_in_the_turn_that_takes_it_and_survives_a_restart(
    tmp_path: Path,
) -> None:
    lab, clock = lab_of(LAB), RealClock()
    engine = FakeCluster({node.name: node.gpus for node in lab.nodes}, clock)
    ledger = open_ledger(tmp_path / "record.sqlite")
    daemon = Daemon(lab, ledger, engine, clock, name="one")
    daemon.start()
    try:
        began = time.monotonic()
        while daemon.view() is None and time.monotonic() < began + 600:
            time.sleep(0.05)
        assert daemon.health().leader
        spec = {"account": "a", "gpus": 8, "min_runtime": 60, "command": ["sleep", "60"]}
        (number,) = ledger.ask([Asked("ann", "submit", "", {"spec": spec}, clock.now())])
        daemon.wake()
        answer = ledger.wait_answer(number, 300)
        assert answer is not None
        assert answer.ok
        began = time.monotonic()
        while not engine.running() and time.monotonic() < began + 300:
            time.sleep(0.01)
        told = {line["event"]: line["t"] for line in map(json.loads, ledger.story_lines())}
        assert told["submitted"] == told["started"]
    finally:
        daemon.stop()
    assert daemon.health().state == "stopped"
    assert not any(thread.name == "tenure-daemon" for thread in threading.enumerate())
    again = Daemon(lab, ledger, engine, clock, name="two")
    assert not again.turn_now()
    view = again.view()
    assert view is not None
    assert [attempt.job for attempt in engine.running()] == [answer.body["job"]]
    assert NodeState(int(view.board.posts["state"][0])) == NodeState.UP
    ledger.close()


def test_starts_are_given_together_to_an_engine_that_takes_them_so(tmp_path: Path) -> None:
    small, goes = Small(tmp_path), []

    def many(orders: list[Any]) -> list[Any]:
        goes.append([type(order).__name__ for order in orders])
        for order in orders:
            small.engine.carry_out(order)
        return [None] * len(orders)

    small.engine.carry_out_many = many  # type: ignore[attr-defined]
    small.ask("submit", spec=small.spec("a", 1, array=16))
    assert goes == [["Start"] * 16]
    assert len(small.engine.running()) == 16
    assert small.ledger.open_orders() == []
