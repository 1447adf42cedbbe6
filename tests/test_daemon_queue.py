"""A live loop over an engine that keeps the queue, as Slurm does: arrays from there, and its holds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from live_lab import Small
from tenure.core.words import Phase
from tenure.engines.fake import FakeCluster
from tenure.engines.protocol import Enrol, Order, Seen, SeenArrival, Withdraw
from tenure.service.live.desk import Desk
from tenure.service.live.people import Who
from tenure.service.live.queueing import Wanted, queue
from tenure.service.live.showing import show, why

ANN = Who("ann")


class Queueing(FakeCluster):
    """A cluster in memory that has jobs of its own waiting; of an array `at_once` may be under way."""

    keeps_queue = True

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.waiting: dict[str, SeenArrival] = {}
        self.begun: set[str] = set()
        self.withdrawn: list[Withdraw] = []
        self.at_once = 2
        self.numbers = 0

    def submit(self, spec: Mapping[str, object], count: int, *, user: str = "bo", enrolled: str = "") -> str:
        """`sbatch`: an array of so many tasks, as the engine shows them."""
        self.numbers += 100
        for task in range(count):
            name = f"{self.numbers}_{task}"
            self.waiting[name] = SeenArrival(name, self.clock.now(), user, spec, enrolled)
        return str(self.numbers)

    def carry_out(self, order: Order) -> None:
        if isinstance(order, Withdraw):
            self.withdrawn.append(order)
            self.waiting.pop(order.job)
            return
        if not isinstance(order, Enrol):
            super().carry_out(order)
            return
        spec = {key: order.spec[key] for key in ("account", "gpus")}  # what a comment says
        self.submit(spec, 4, user="root", enrolled=order.id)

    def see(self) -> Seen:
        seen = super().see()
        self.begun |= {one.job for one in seen.attempts}
        alive = {one.job for one in seen.attempts if one.ended is None}
        left, shown = self.at_once - len(alive & set(self.waiting)), []
        for name, arrival in self.waiting.items():
            if name not in self.begun:
                full = left <= 0 and not arrival.held
                shown.append(arrival._replace(held=arrival.held or full, throttled=full))
                left -= 1
        return seen._replace(arrivals=shown)


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Small:
    monkeypatch.setattr("live_lab.FakeCluster", Queueing)
    return Small(tmp_path)


def desk_of(small: Small) -> Desk:
    return Desk(small.lab, small.ledger, small.daemon, small.engine, now=small.clock.now)


def room_of(small: Small) -> Queueing:
    assert isinstance(small.engine, Queueing)
    return small.engine


def under_way(small: Small, array: str) -> list[str]:
    return [one.job for one in show(desk_of(small), ANN, array).elements if one.phase == "running"]


def test_an_array_with_a_limit_of_its_own_runs_to_its_end(small: Small) -> None:
    array = room_of(small).submit({"account": "a", "gpus": 1}, 4)
    small.settle()
    assert under_way(small, array) == [f"{array}_0", f"{array}_1"]  # not one more, not even for an instant
    told = queue(desk_of(small), ANN, Wanted(state="waiting")).jobs
    assert [(one.job, one.held_by) for one in told] == [(f"{array}_2", "array"), (f"{array}_3", "array")]
    assert why(desk_of(small), ANN, f"{array}_3").sentence == (
        "waits until fewer elements of its array are under way"
    )
    small.to(small.t + 3700)
    assert under_way(small, array) == [f"{array}_2", f"{array}_3"]
    small.to(small.t + 3700)
    assert show(desk_of(small), ANN, array).end == "finished"


def test_people_may_hold_and_release_tasks_of_an_array_there(small: Small) -> None:
    room_of(small).at_once = 9
    array = room_of(small).submit({"account": "a", "gpus": 16}, 3)
    small.settle()
    for verb, phase in (("hold", Phase.HELD), ("release", Phase.WAITING)):
        assert small.ask(verb, f"{array}_2").ok
        assert small.phase(f"{array}_2") == phase


def test_what_the_engine_holds_back_is_released_there(small: Small) -> None:
    room = room_of(small)
    array = room.submit({"account": "a", "gpus": 1}, 3)
    small.settle()
    answer = small.ask("release", f"{array}_2")
    assert not answer.ok
    assert answer.body["error"] == f"job {array}_2 waits until fewer elements of its array are under way"
    single = room.submit({"account": "a", "gpus": 1}, 1)
    room.waiting[f"{single}_0"] = room.waiting[f"{single}_0"]._replace(held=True)
    small.settle()
    answer = small.ask("release", f"{single}_0")
    assert answer.body["error"] == f"job {single}_0 is held at the engine: release it there"


def test_an_array_that_was_submitted_here_is_answered_whole_and_is_its_submitters(small: Small) -> None:
    spec = small.spec("a", 1, array="0-3%2", name="sweep")
    answer = small.ask("submit", by="ann", spec=spec)
    assert answer.ok
    assert answer.body["job"] == "100"
    assert answer.body["jobs"] == [f"100_{task}" for task in range(4)]
    last = show(desk_of(small), ANN, "100_3")
    assert (last.user, last.name, last.command) == ("ann", "sweep", ["true"])
    assert under_way(small, "100") == ["100_0", "100_1"]


def test_a_job_that_can_never_run_is_taken_out_there_with_the_reason(small: Small) -> None:
    room_of(small).submit({"account": "nowhere", "gpus": 1}, 1)
    small.settle()
    (order,) = room_of(small).withdrawn
    assert order.job == "100_0"
    assert "unknown account 'nowhere'" in order.why


def test_turns_that_fail_for_no_command_say_so_and_go_on_once_they_can(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tenure.daemon import turn
    from tenure.service.live.record import health

    def broken(*_: object) -> None:
        raise ZeroDivisionError("a fault of ours")

    number = small.tell("submit", spec=small.spec("a", 1))
    with monkeypatch.context() as patched:
        patched.setattr(turn, "_hear_queue", broken)
        patched.setattr("tenure.daemon.run.RETRY_S", 0.01)
        small.daemon.start()
        wait_until(lambda: "a fault of ours" in small.daemon.health().sentence)
        told = health(desk_of(small))
        assert not told.ok
        assert told.text.startswith("turns fail, so nothing is decided (ZeroDivisionError(")
    wait_until(lambda: small.ledger.answer(number) is not None)
    wait_until(lambda: not small.daemon.health().broken)
    small.daemon.stop()
    assert health(desk_of(small)).text == "stopped"


def wait_until(true: Any) -> None:
    import time

    for _ in range(3000):
        if true():
            return
        time.sleep(0.01)
    raise AssertionError("it never came")
