"""The fake cluster ends attempts as the simulator does, fails as told, and outlives its askers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from played import SCENARIOS, Played, play
from tenure.engines.fake import (
    Behaviour,
    CallFault,
    ChosenClock,
    FakeCluster,
    Faults,
    FileClock,
    by_command,
    drawn_timetable,
)
from tenure.engines.protocol import (
    EngineUnavailable,
    Forget,
    Notice,
    OrderRefused,
    SeenAttempt,
    Start,
    Stop,
)
from tenure.settings.job import HiddenJobFile


def start(job: str = "a", attempt: int = 1, *, command: str = "sleep 60", **nodes: int) -> Start:
    return Start(
        f"start {job} {attempt}", job, attempt, "vision", "ann", nodes or {"n1": 4}, [command], {}, "", None
    )


def stop(job: str = "a", attempt: int = 1, grace_s: float = 15) -> Stop:
    return Stop(f"stop {job} {attempt}", job, attempt, grace_s, True, "somebody else's turn")


def only(cluster: FakeCluster) -> SeenAttempt:
    (seen,) = cluster.see().attempts
    return seen


# --- the same ends as the simulator's ---------------------------------------------------------------

CONSTRUCTED = [
    path for path in sorted(SCENARIOS.glob("*.yaml")) if "\njobs:" in path.read_text(encoding="utf-8")
]


def behaviour(asked: Mapping[str, Any]) -> Behaviour:
    own = {key: value for key, value in asked.items() if key not in ("id", "submit", "count", "every")}
    job = HiddenJobFile(**own)
    return Behaviour(
        job.runtime, job.checkpoint_every, job.saves, job.restart, job.fails, resumable=job.resumable
    )


def end_word(seen: SeenAttempt, cause: str) -> str:
    if seen.node_failed:
        return "node_failed"
    if seen.told and not seen.done:
        return "cancelled" if cause == "cancelled" else "preempted"
    if seen.timed_out:
        return "timed_out"
    return "finished" if seen.exit_code == 0 else "failed"


@pytest.mark.slow
@pytest.mark.parametrize("path", CONSTRUCTED, ids=lambda path: path.stem)
def test_ordered_as_in_a_story_it_ends_every_attempt_as_the_story_does(path: Path) -> None:
    story = play(path)
    causes: dict[tuple[str, int], str] = {}
    clock = ChosenClock(0.0)
    cluster = FakeCluster(
        nodes_of(story), clock, behave=lambda job, attempt, start: behaviour(story.asked[job])
    )
    for line in story.lines[1:]:
        clock.set(float(line["t"]))
        if line["event"] == "started":
            limit_s = max_runtime_s(story.asked[line["job"]])
            order = start(line["job"], line["attempt"])._replace(nodes=line["nodes"], max_runtime_s=limit_s)
            cluster.carry_out(order)
        elif line["event"] == "stopping" and line["cause"] not in ("timed_out", "node_down"):
            causes[line["job"], line["attempt"]] = line["cause"]
            cluster.carry_out(stop(line["job"], line["attempt"], line["grace_until_s"] - line["t"]))
        elif line["event"] == "node" and line["state"] == "down":
            cluster.happen("node_down", line["node"])
        elif line["event"] == "node" and line["state"] == "up":
            cluster.happen("end of node_down", line["node"])
    clock.set(float(story.until_s))
    told = {
        (line["job"], line["attempt"]): (line["t"], line["end"])
        for line in story.lines
        if line["event"] == "stopped"
    }
    ended = {
        (seen.job, seen.attempt): (seen.ended, end_word(seen, causes.get((seen.job, seen.attempt), "")))
        for seen in cluster.attempts()
        if seen.ended is not None
    }
    assert ended == told
    assert cluster.wrongs == []


def nodes_of(story: Played) -> dict[str, int]:
    found: dict[str, int] = {}
    for line in story.lines:
        if line["event"] == "node":
            found.setdefault(line["node"], 8)
        for node, gpus in (line.get("nodes") or {}).items() if line["event"] == "started" else ():
            found[node] = max(found.get(node, 0), 64, gpus)
    return found


def max_runtime_s(asked: Mapping[str, Any]) -> int | None:
    return HiddenJobFile(account="a", gpus=1, runtime=1, max_runtime=asked.get("max_runtime")).max_runtime


# --- what it does with orders and time --------------------------------------------------------------


def test_commands_mean_what_they_say_and_others_take_a_time_of_their_own() -> None:
    def of(*command: str, job: str = "a") -> tuple[float, int | None]:
        ran = by_command(job, 1, start()._replace(command=command))
        return ran.runtime_s, ran.exit_code

    assert of("sleep", "60") == of("sleep 60") == of("bash", "-c", "sleep 60") == (60, 0)
    assert of("sleep 1m 2s; exit 3") == (62, 3)
    assert of("/bin/sh", "-c", "false && sleep 9") == (0, 1)
    assert of("true && sleep 9") == (9, 0)
    assert of("false") == (0, 1)
    assert of("sleep", "soon") == (0, 1)
    train = of("python", "train.py")
    assert train == of("python", "train.py") != of("python", "train.py", job="b")
    assert 30 <= train[0] <= 300
    assert train[1] == 0
    assert of("echo 'open") == (0, 0)


def test_saved_work_is_not_done_again() -> None:
    clock = ChosenClock(1000.0)
    cluster = FakeCluster({"n1": 8}, clock, behave=lambda *_: Behaviour(1000, 100, False, 7))
    cluster.carry_out(start())
    clock.set(1350.0)
    assert only(cluster).saved == 1300.0
    cluster.carry_out(stop())
    assert cluster.next_change() == 1365.0
    clock.set(1365.0)
    assert only(cluster)[3:8] == (1000.0, 1365.0, None, 9, False)
    cluster.carry_out(start(attempt=2))
    assert cluster.next_change() == 1365 + 7 + 700


def test_what_ends_within_its_grace_says_that_it_is_done() -> None:
    clock = ChosenClock()
    cluster = FakeCluster({"n1": 8}, clock)
    cluster.carry_out(start(command="sleep 20"))
    clock.set(10.0)
    cluster.carry_out(stop(grace_s=10))
    clock.set(30.0)
    seen = only(cluster)
    assert (seen.ended, seen.exit_code, seen.told, seen.done, seen.signal) == (20.0, 0, True, True, None)


def test_gpus_given_twice_are_refused_and_remembered_as_wrong() -> None:
    cluster = FakeCluster({"n1": 8}, ChosenClock())
    cluster.carry_out(start("a", n1=6))
    with pytest.raises(OrderRefused, match="b: 4 GPUs on n1, of which 6 are in use"):
        cluster.carry_out(start("b", n1=4))
    assert cluster.wrongs == ["b: 4 GPUs on n1, of which 6 are in use"]
    cluster.carry_out(stop("a", grace_s=0))
    with pytest.raises(OrderRefused):
        cluster.carry_out(start("b", n1=4))  # refused once is refused for ever


def test_a_job_in_two_attempts_at_once_is_wrong() -> None:
    cluster = FakeCluster({"n1": 8}, ChosenClock())
    cluster.carry_out(start("a", 1, n1=1))
    with pytest.raises(OrderRefused, match="attempt 2 beside attempt 1"):
        cluster.carry_out(start("a", 2, n1=1))
    assert len(cluster.wrongs) == 1


# --- what goes wrong ----------------------------------------------------------------------------------


def test_a_lost_answer_is_not_a_lost_order() -> None:
    faults = Faults(scripted={1: CallFault(lost_before=True), 2: CallFault(lost_after=True)})
    cluster = FakeCluster({"n1": 8}, ChosenClock(), faults=faults)
    with pytest.raises(EngineUnavailable):
        cluster.carry_out(start("a", n1=1))
    assert cluster.running() == []
    with pytest.raises(EngineUnavailable):
        cluster.carry_out(start("a", n1=1))
    assert [seen.job for seen in cluster.running()] == ["a"]
    cluster.carry_out(start("a", n1=1))
    assert len(cluster.running()) == 1


def test_an_order_may_come_late_and_come_again_without_harm() -> None:
    faults = Faults(scripted={1: CallFault(delayed=3), 2: CallFault(echoed=3)})
    cluster = FakeCluster({"n1": 8}, ChosenClock(), faults=faults)
    with pytest.raises(EngineUnavailable):
        cluster.carry_out(start("a", n1=1))
    cluster.carry_out(start("b", n1=1))
    assert {seen.job for seen in cluster.running()} == {"b"}
    cluster.carry_out(stop("a", grace_s=0))  # given up before it came
    cluster.carry_out(stop("b", grace_s=0))
    cluster.carry_out(Forget("f", "b", 1))
    for _ in range(5):
        cluster.see()
    assert cluster.running() == []
    assert [(seen.job, seen.started) for seen in cluster.see().attempts] == [("a", None)]


def test_a_late_answer_shows_what_was() -> None:
    clock = ChosenClock()
    cluster = FakeCluster({"n1": 8}, clock, faults=Faults(scripted={3: CallFault(late_s=5)}))
    assert cluster.see().attempts == []
    clock.set(3.0)
    cluster.carry_out(start())
    late = cluster.see()
    assert (late.at, list(late.attempts)) == (0.0, [])
    assert len(cluster.see().attempts) == 1


def test_silence_ends_and_nothing_stands_still_meanwhile() -> None:
    clock = ChosenClock()
    cluster = FakeCluster({"n1": 8}, clock)
    cluster.carry_out(start(command="sleep 5"))
    cluster.happen("silence", value=10)
    with pytest.raises(EngineUnavailable, match="silent"):
        cluster.see()
    with pytest.raises(EngineUnavailable):
        cluster.carry_out(stop())
    clock.set(10.0)
    assert only(cluster)[3:6] == (0.0, 5.0, 0)


def test_a_dead_node_takes_its_attempts_with_it_and_comes_back() -> None:
    clock = ChosenClock()
    cluster = FakeCluster({"n1": 8, "n2": 8}, clock)
    cluster.carry_out(start("a", n1=8, n2=8))
    cluster.happen("node_down", "n2", 60, at=30.0)
    clock.set(40.0)
    seen = cluster.see()
    assert [(node.name, node.up) for node in seen.nodes] == [("n1", True), ("n2", False)]
    assert (seen.attempts[0].ended, seen.attempts[0].node_failed) == (30.0, True)
    cluster.carry_out(start("b", n2=1))
    assert cluster.see().attempts[1].node_failed
    clock.set(90.0)
    assert all(node.up for node in cluster.see().nodes)


def test_nodes_vanish_and_drain_behind_our_back() -> None:
    clock = ChosenClock()
    cluster = FakeCluster({"n1": 8, "n2": 8}, clock)
    cluster.happen("node_vanishes", "n1", 5)
    cluster.happen("node_drain", "n2", 9)
    assert [(node.name, node.draining) for node in cluster.see().nodes] == [("n2", True)]
    clock.set(9.0)
    assert [(node.name, node.draining) for node in cluster.see().nodes] == [("n1", False), ("n2", False)]


def test_a_job_cancelled_behind_our_back_says_so() -> None:
    cluster = FakeCluster({"n1": 8}, ChosenClock(7.0))
    cluster.carry_out(start())
    cluster.happen("cancel")
    assert (only(cluster).cancelled, only(cluster).ended) == (True, 7.0)


def test_the_engines_clock_may_jump_and_no_end_comes_early_for_it() -> None:
    clock = ChosenClock(100.0)
    cluster = FakeCluster({"n1": 8}, clock)
    cluster.carry_out(start(command="sleep 60"))
    cluster.happen("skew", value=-50)
    assert (cluster.see().at, only(cluster).started) == (50.0, 100.0)
    clock.set(159.0)
    assert only(cluster).ended is None
    clock.set(160.0)
    assert only(cluster).ended == 110.0


def test_the_same_seed_fails_alike() -> None:
    def told(seed: int) -> list[CallFault]:
        faults = Faults(seed, lost_before=0.1, lost_after=0.1, doubled=0.2, delayed=0.1, echoed=0.1, late=0.2)
        return [faults.of_call(number) for number in range(1, 400)]

    assert told(3) == told(3) != told(4)
    lost = sum(fault.lost_before for fault in told(3))
    assert 20 <= lost <= 65
    assert all(sum(bool(fault[i]) for fault in told(3)) > 10 for i in range(6))
    table = drawn_timetable(5, ["n1", "n2"], 0, 36000, per_hour={"node_down": 2, "silence": 1, "skew": 1})
    assert table == drawn_timetable(
        5, ["n1", "n2"], 0, 36000, per_hour={"node_down": 2, "silence": 1, "skew": 1}
    )
    assert {it.what for it in table} == {"node_down", "silence", "skew"}
    assert all(0 <= it.at < 36000 for it in table)
    calm = Faults(3, lost_before=1.0, calm_from=50.0)
    assert (calm.of_call(9, 49.0).lost_before, calm.of_call(9, 50.0).lost_before) == (True, False)
    refuses = Faults(1, refused=0.25)
    assert 30 < sum(refuses.refuses(f"order {i}") for i in range(200)) < 75
    assert refuses.refuses("x") == refuses.refuses("x")


def test_nothing_drawn_lasts_for_ever() -> None:
    """A length that rounded to 0 s was a silence without an end: the server froze, as it must, for good."""
    rates = {"node_down": 6.0, "node_drain": 6.0, "node_vanishes": 6.0, "silence": 6.0}
    for seed in range(20):
        table = drawn_timetable(seed, ["n1"], 0, 36000, per_hour=rates, longest_s=3)
        assert {it.value for it in table} == {1.0, 2.0, 3.0}


def test_under_all_faults_nothing_runs_twice_and_orders_repeated_until_done_end_every_job() -> None:
    """A crude scheduler that believes what it sees and repeats what was not answered."""
    for seed in range(10):
        clock = ChosenClock()
        rates = {"node_down": 4, "silence": 4, "cancel": 4, "node_vanishes": 4, "skew": 2}
        faults = Faults(
            seed,
            lost_before=0.1,
            lost_after=0.1,
            doubled=0.1,
            delayed=0.1,
            echoed=0.1,
            late=0.1,
            timetable=drawn_timetable(seed, ["n1", "n2"], 0, 7200, per_hour=rates, longest_s=300),
        )
        cluster = FakeCluster({"n1": 8, "n2": 8}, clock, faults=faults)
        orders = [start(f"j{i}", 1, command=f"sleep {i}", **{f"n{i % 2 + 1}": 1}) for i in range(16)]
        while clock.now() < 9000:
            clock.wait(10)
            for order in list(orders):
                try:
                    cluster.carry_out(order)
                except EngineUnavailable:
                    continue
                orders.remove(order)
        assert orders == []
        assert cluster.wrongs == []
        assert sorted(seen.job for seen in cluster.attempts()) == sorted(f"j{i}" for i in range(16))
        assert all(seen.ended is not None for seen in cluster.attempts())


# --- in a file ----------------------------------------------------------------------------------------


def test_it_lives_on_in_its_file_when_its_asker_is_killed(tmp_path: Path) -> None:
    FileClock(tmp_path / "clock", 100.0)
    program = f"""
import os, signal
from pathlib import Path
from tenure.engines.fake import *
from tenure.engines.protocol import *
folder = Path({str(tmp_path)!r})
death = Happening(500.0, "node_down", "n2", 50.0)
faults = Faults(scripted={{2: CallFault(lost_after=True)}}, timetable=[death])
cluster = FakeCluster.at(folder / "cluster", {{"n1": 8, "n2": 8}}, FileClock(folder / "clock"), faults=faults)
for job in "abc":
    order = Start(job, job, 1, "vision", "ann", {{"n1": 2}}, ["sleep 60"], {{}}, "", None)
    for _ in range(2):
        try:
            cluster.carry_out(order)
        except EngineUnavailable:
            pass
os.kill(os.getpid(), signal.SIGKILL)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (-9, "")
    clock = FileClock(tmp_path / "clock")
    cluster = FakeCluster.at(tmp_path / "cluster", {"other": 1}, clock)
    assert sorted(seen.job for seen in cluster.running()) == ["a", "b", "c"]
    assert [node.name for node in cluster.see().nodes] == ["n1", "n2"]
    cluster.carry_out(stop("a", grace_s=5))
    cluster.carry_out(Notice("n", "b", 1, 130.0))
    clock.set(105.0)
    cluster.carry_out(Forget("f", "a", 1))
    cluster.close()
    other = FakeCluster.at(tmp_path / "cluster", {}, clock)
    beside = FakeCluster.at(tmp_path / "cluster", {}, clock)
    clock.set(500.0)
    assert [(seen.job, seen.ended) for seen in other.attempts()] == [("a", 105.0), ("b", 160.0), ("c", 160.0)]
    assert [node.up for node in beside.see().nodes] == [True, False]
    beside.carry_out(Start("d", "d", 1, "vision", "ann", {"n1": 8}, ["true"], {}, "", None))
    assert ("d", 500.0) in [(seen.job, seen.ended) for seen in other.see().attempts]
    assert other.next_change() == 550.0
    for one in (other, beside):
        one.close()
