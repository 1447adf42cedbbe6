"""Time that runs wrong, or runs out: a clock that jumps, a lead that ends between two orders, a slow stop."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from live_lab import LAB, Small
from live_world import QUIET, START
from tenure.core.words import Phase
from tenure.daemon.run import Daemon
from tenure.daemon.timekeeper import AHEAD_S, BELIEVED_AFTER_S, Timekeeper
from tenure.engines.clock import RealClock
from tenure.engines.fake import ChosenClock, FakeCluster
from tenure.ledger.ledger import open_ledger
from tenure.settings.lab import lab_of

DAY = 86400


class TwoClocks(ChosenClock):
    """One that anybody may set, and beside it one that only `wait` moves on."""

    def __init__(self, now: float) -> None:
        super().__init__(now)
        self._steady = 0.0

    def steady(self) -> float:
        return self._steady

    def wait(self, seconds: float) -> None:
        self._steady += seconds
        super().wait(seconds)


@pytest.fixture
def small(tmp_path: Path) -> Small:
    return Small(tmp_path)


@pytest.fixture
def jumping(tmp_path: Path) -> Small:
    small = Small(tmp_path)
    clock = TwoClocks(START)
    small.clock = clock
    small.engine.clock = clock
    small.wake_up()
    small.settle()
    return small


def test_a_clock_that_jumps_a_year_ahead_decides_nothing_and_is_forgotten_when_it_is_right(
    jumping: Small,
) -> None:
    small = jumping
    job = small.submit("a", 8, min_runtime="1h", runtime=7200)
    lease = small.daemon._lease
    small.clock.set(small.clock.now() + 365 * DAY)
    number = small.tell("submit", spec=small.spec("a", 8))
    for _ in range(5):
        assert not small.daemon.turn_now()
    told = small.daemon.health()
    assert told.clock_doubt == told.sentence
    assert "jumped ahead by 365d, so nothing is decided" in told.sentence
    assert "believed in 10m" in told.sentence
    assert small.daemon._lease == lease  # or nobody else could lead for a year
    assert small.ledger.answer(number) is None
    small.clock.set(small.clock.now() - 365 * DAY)
    small.clock.wait(60)
    small.settle()
    assert small.daemon.health().sentence == "deciding"
    assert small.view.t == 60
    assert small.phase(job) == Phase.RUNNING


def test_a_clock_that_was_set_right_is_believed_after_a_while_or_by_who_starts_anew(jumping: Small) -> None:
    small = jumping
    small.clock.set(small.clock.now() + DAY)
    assert not small.daemon.turn_now()
    small.clock.wait(BELIEVED_AFTER_S - 1)
    assert not small.daemon.turn_now()
    assert "believed in 1s" in small.daemon.health().sentence
    small.clock.wait(1)
    small.submit("a", 8)
    assert small.view.t == DAY + BELIEVED_AFTER_S
    assert small.daemon.health().clock_doubt == ""
    small.clock.set(small.clock.now() + DAY)
    assert not small.daemon.turn_now()
    small.wake_up()
    small.submit("a", 8)
    assert small.view.t == 2 * DAY + BELIEVED_AFTER_S


def test_a_clock_that_falls_behind_the_record_is_told_of_and_stops_nothing(small: Small) -> None:
    small.to(7200)
    small.submit("b/x", 8)
    small.clock.set(small.clock.now() - 3600)
    for _ in range(5):  # the engine's answers seem old at first
        small.daemon.turn_now()
    job = small.submit("a", 8)
    assert small.phase(job) == Phase.RUNNING
    assert small.view.t == 7200
    assert "clock is 1h behind the record, in which no time passes" in small.daemon.health().sentence
    small.to(7201)
    assert small.daemon.health().sentence == "deciding"


def test_small_steps_and_clocks_without_a_steady_one_are_believed() -> None:
    clock = TwoClocks(0.0)
    keeper = Timekeeper(clock)
    for ahead_s in (0.0, AHEAD_S, -DAY, AHEAD_S, AHEAD_S):
        clock.set(clock.now() + ahead_s)
        assert keeper.doubt() == ""
    clock.set(clock.now() + AHEAD_S + 1)
    assert keeper.doubt().startswith("this machine's clock jumped ahead by 5m")
    plain = ChosenClock(0.0)
    keeper = Timekeeper(plain)
    assert keeper.doubt() == ""
    plain.set(1e9)
    assert keeper.doubt() == ""
    assert RealClock().steady() <= RealClock().steady()


# --- a lead that runs out while orders are carried out ----------------------------------------------------


class Slow(FakeCluster):
    """Each order takes it four seconds."""

    def carry_out(self, order: Any) -> None:
        self.clock.wait(4.0)
        super().carry_out(order)


def test_a_lead_that_runs_out_between_two_orders_leaves_the_rest_to_who_leads_next(tmp_path: Path) -> None:
    small = Small(tmp_path, {**LAB, "clusters": {"mars": {"nodes": 8, "gpus_per_node": 8}}})
    nodes = {node.name: node.gpus for node in small.lab.nodes}
    small.engine = Slow(nodes, small.clock, behave=small._behave)
    small.wake_up()
    small.settle()
    for _ in range(8):
        small.tell("submit", spec=small.spec("a", 8))
    small.daemon.turn_now()
    lease_s = 15
    assert len(small.engine.running()) == lease_s // 4 + 1  # the one that had begun was carried out
    assert len(small.ledger.open_orders()) == 8 - len(small.engine.running())
    other = small.wake_up("another")
    other.turn_now()
    assert other.health().leader
    for _ in range(4):
        other.turn_now()
    assert len(small.engine.running()) == 8
    assert small.engine.wrongs == []


# --- a stop that cannot wait for the turn under way --------------------------------------------------------


def test_a_server_that_is_stopped_in_the_middle_of_a_turn_keeps_the_lead_until_the_turn_is_over(
    tmp_path: Path,
) -> None:
    lab, clock = lab_of(LAB), RealClock()
    ledger = open_ledger(tmp_path / "record.sqlite")
    inside, go_on = threading.Event(), threading.Event()

    class Stuck(FakeCluster):
        def see(self) -> Any:
            inside.set()
            go_on.wait(180)
            return super().see()

    engine = Stuck({node.name: node.gpus for node in lab.nodes}, clock)
    daemon = Daemon(lab, ledger, engine, clock, name="one", lease_s=600.0, log=QUIET)
    daemon.start()
    assert inside.wait(180)
    daemon.stop(0.05)
    assert ledger.lead("another", clock.now(), 5.0) is None
    go_on.set()
    daemon._thread.join(180)  # type: ignore[union-attr]
    assert daemon.health().state == "stopped"
    assert ledger.lead("another", clock.now(), 5.0) is not None
    ledger.close()
