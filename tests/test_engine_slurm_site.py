"""A Slurm with sick nodes, silent, with long queues, only read, and doctored: on a real slurmctld."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from slurm_lab import IGNORES, SAYS, STATE_SAVED_S, TRAPS, Lab, lab
from tenure.engines.clock import ChosenClock
from tenure.engines.protocol import (
    EngineError,
    EngineUnavailable,
    Order,
    OrderRefused,
    Seen,
    SetNode,
    Stop,
    Withdraw,
)
from tenure.engines.slurm import SlurmEngine
from tenure.engines.slurm.engine import HEARS_AFTER_S
from tenure.engines.slurm.programs import Programs
from tenure.engines.slurm.shadow import ShadowSlurm

__all__ = ["lab"]  # a fixture

pytestmark = pytest.mark.slow


# --- nodes --------------------------------------------------------------------------------------------------


def node_of(seen: Seen, name: str) -> Any:
    return {node.name: node for node in seen.nodes}[name]


def test_nodes_are_seen_and_told_both_ways(lab: Lab) -> None:
    seen = lab.see()
    assert len(seen.nodes) == 64
    assert all(node.up and not node.draining and node.gpus == 8 for node in seen.nodes)
    try:
        lab.site.run("scontrol", "update", "NodeName=n060", "State=DRAIN", "Reason=ECC errors | row 3")
        node = node_of(lab.see(), "n060")
        assert (node.up, node.draining, node.reason) == (True, True, "ECC errors | row 3")
        order = SetNode(lab.id("node"), "n061", True, "looks sick\nto us")
        lab.engine.carry_out(order)
        lab.engine.carry_out(order)
        node = node_of(lab.see(), "n061")
        assert (node.up, node.draining, node.reason) == (True, True, "tenure: looks sick to us")
        for name in ("n060", "n061"):
            back = SetNode(lab.id("node"), name, False, "")
            lab.engine.carry_out(back)
            lab.engine.carry_out(back)
            assert not node_of(lab.see(), name).draining
        lab.site.run("scontrol", "update", "NodeName=n062", "State=DOWN", "Reason=cable")
        assert node_of(lab.see(), "n062").up is False
    finally:
        for name in ("n060", "n061", "n062"):
            lab.site.run("scontrol", "update", f"NodeName={name}", "State=RESUME", check=False)
    with pytest.raises(OrderRefused, match="no node n999"):
        lab.engine.carry_out(SetNode(lab.id("node"), "n999", True, ""))
    lab.site.wait(lambda: all(node.up for node in lab.see().nodes), "all nodes are up")


def test_a_dead_node_ends_its_gang_once_and_the_gang_waits_again(lab: Lab) -> None:
    gang, other = lab.submit("--gpus=32"), lab.submit("--gpus=8")
    lab.start(gang, lab.nodes(41, 44))
    lab.start(other, {"n045": 8})
    try:
        lab.site.kill_slurmd("n042")
        ended = lab.until_ended(gang)
        assert (ended.node_failed, ended.told, ended.cancelled) == (True, False, False)
        assert node_of(lab.see(), "n042").up is False
        assert lab.arrival(gang) is not None
        untouched = lab.attempt(other)
        assert untouched is not None
        assert untouched.ended is None
        lab.site.wait(lambda: lab.site.job(gang)["Priority"] == "0", "it is held again")
        assert dict(lab.start(gang, lab.nodes(46, 49), attempt=2).nodes) == lab.nodes(46, 49)
    finally:
        lab.site.start_slurmd("n042")
    lab.site.wait(lambda: node_of(lab.see(), "n042").up, "the node is back")


# --- silence ------------------------------------------------------------------------------------------------


def test_a_dead_slurmctld_is_silence_and_nothing_is_lost(lab: Lab) -> None:
    runs, waits = lab.submit("--gpus=8"), lab.submit("--gpus=8")
    lab.start(runs, {"n001": 8})
    engine = lab.another(timeout_s=1.0)
    before_that = lab.order(waits, {"n002": 8})
    time.sleep(STATE_SAVED_S)
    lab.site.kill_slurmctld()
    try:
        for act in (engine.see, lambda: engine.carry_out(before_that)):
            before = time.monotonic()
            with pytest.raises(EngineUnavailable):
                act()
            assert time.monotonic() - before < 60
    finally:
        lab.site.start_slurmctld()
    seen = lab.see()
    assert lab.attempt(runs, 1, seen).ended is None  # type: ignore[union-attr]
    lab.engine.carry_out(before_that)
    assert dict(lab.until(waits, 1, lambda one: one.started is not None).nodes) == {"n002": 8}


def test_a_start_that_slurmctld_forgot_is_no_fault_of_the_jobs(lab: Lab) -> None:
    job = lab.submit("--gpus=8")
    time.sleep(STATE_SAVED_S)
    lab.start(job, {"n003": 8})
    lab.site.kill_slurmctld()  # before it has written down that it started the job
    lab.site.start_slurmctld()
    seen = lab.see()
    attempt = lab.attempt(job, 1, seen)
    if lab.site.job(job).get("JobState") == "RUNNING":
        assert attempt is not None
        assert attempt.ended is None
        return  # it had been written down after all
    assert attempt is not None
    assert (attempt.ended is not None, attempt.node_failed) == (True, True)
    assert lab.arrival(job, seen) is not None
    lab.site.wait(lambda: not lab.site.run("squeue", "-h", "-t", "R,CG", "-o", "%i").strip(), "nothing runs")
    assert dict(lab.start(job, {"n004": 8}, attempt=2).nodes) == {"n004": 8}


def test_a_hung_slurmctld_is_silence_within_the_bound(lab: Lab) -> None:
    engine = lab.another(timeout_s=0.5)
    engine.see()
    pid = lab.site.pid_of_slurmctld()
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(EngineUnavailable, match="did not answer within"):
            engine.see()
    finally:
        os.kill(pid, signal.SIGCONT)
    lab.site.wait(lambda: bool(lab.another().see().nodes), "it answers again")


def test_instants_are_by_slurms_clock_whatever_ours_says(lab: Lab) -> None:
    job = lab.submit("--gpus=1")
    began = time.time()
    for wrong_by_s in (-3600.0, 0.0, 7200.0):
        engine = SlurmEngine(lab.settings, ChosenClock(time.time() + wrong_by_s))
        before = time.time()
        assert before - 2 < engine.see().at < time.time() + 2
        engine.close()
    started = lab.start(job, {"n001": 1}).started
    assert started is not None
    assert started <= lab.see().at + 1
    assert began - 2 < started


# --- cost ---------------------------------------------------------------------------------------------------


def test_a_thousand_waiting_jobs_are_seen_quickly(
    lab: Lab, record_property: Callable[[str, object], None]
) -> None:
    array = lab.submit("--gpus=8", "--array=1-1000")
    lab.see()
    took = []
    for _ in range(5):
        before = time.perf_counter()
        seen = lab.see()
        took.append(time.perf_counter() - before)
    assert sum(one.job.startswith(f"{array}_") for one in seen.arrivals) == 1000
    record_property("see_1000_waiting_s", min(took))
    print(
        f"see(): 1,000 waiting, 64 nodes: {min(took) * 1000:.0f} ms at best, {max(took) * 1000:.0f} at worst"
    )


def test_twenty_starts_cost_one_call_each_and_two_for_all_of_them(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [lab.submit("--gpus=1") for _ in range(20)]
    lab.see()
    asked: list[str] = []
    ask = lab.engine.programs.ask

    def counted(*argv: str, **how: Any) -> str:
        asked.append(" ".join(argv[:2]))
        return ask(*argv, **how)

    monkeypatch.setattr(lab.engine.programs, "ask", counted)
    orders = [lab.order(job, {f"n{number:03d}": 1}) for number, job in enumerate(jobs, start=1)]
    assert lab.engine.carry_out_many(orders) == [None] * 20
    calls = Counter(call.split()[0] if call.startswith("squeue") else call for call in asked)
    assert calls == {"squeue": 1, "scontrol update": 20, "scontrol release": 1}


def test_twenty_stops_look_at_the_queue_once_and_each_is_noted_and_signalled(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [lab.submit("--gpus=1", script=IGNORES if n == 0 else TRAPS) for n in range(20)]
    orders = [lab.order(job, {f"n{number:03d}": 1}) for number, job in enumerate(jobs, start=1)]
    assert lab.engine.carry_out_many(orders) == [None] * 20
    for job in jobs:
        lab.ready(job)
    begun = max(one.started or 0.0 for one in lab.see().attempts)
    lab.site.wait(lambda: lab.see().at - begun >= HEARS_AFTER_S, "all of them hear")
    asked: list[str] = []
    ask = lab.engine.programs.ask

    def counted(*argv: str, **how: Any) -> str:
        asked.append(" ".join(argv[:2]).partition("=")[0])
        return ask(*argv, **how)

    monkeypatch.setattr(lab.engine.programs, "ask", counted)
    stops: list[Order] = [Stop(lab.id("stop"), job, 1, 9, True, "a test") for job in jobs]
    twice = Stop(lab.id("stop"), jobs[0], 1, 5, False, "once more")
    assert lab.engine.carry_out_many([*stops, twice]) == [None] * 21
    calls = Counter("squeue" if call.startswith("squeue") else call for call in asked)
    del calls["scontrol show"]  # KillWait, once for good
    # the one told twice is looked up anew, and has its signal already
    assert calls == {"squeue": 2, "scontrol update": 2 * 20 + 1, "scancel --signal": 20}
    for job in jobs:
        assert lab.until_ended(job).told
    again = [lab.arrival(job) is not None for job in jobs]
    assert again == [False] + [True] * 19  # the later word: not queued again


def test_of_many_orders_none_is_tried_after_one_that_got_no_answer(lab: Lab) -> None:
    asked: list[str] = []

    class Hanging(Programs):
        def ask(self, *argv: str, text: str | None = None, timeout_s: float | None = None) -> str:
            asked.append(argv[0])
            if argv[:2] == ("scontrol", "update"):
                raise EngineUnavailable("scontrol did not answer")
            return lab.engine.programs.ask(*argv, text=text, timeout_s=timeout_s)

    jobs = [lab.submit("--gpus=1") for _ in range(5)]
    engine = lab.another()
    engine.programs = Hanging()
    orders = [lab.order(job, {f"n{number:03d}": 1}) for number, job in enumerate(jobs, start=1)]
    answers = engine.carry_out_many(orders)
    assert [type(answer) for answer in answers] == [EngineUnavailable] * 5
    assert asked.count("scontrol") == 1
    assert lab.engine.carry_out_many(orders) == [None] * 5
    for job in jobs:
        lab.until(job, 1, lambda one: one.started is not None)
    asked.clear()
    stops: list[Order] = [Stop(lab.id("stop"), job, 1, 4, True, "a test") for job in jobs]
    assert [type(answer) for answer in engine.carry_out_many(stops)] == [EngineUnavailable] * 5
    assert asked.count("scontrol") == 1


def test_a_change_wakes_who_waits_for_one(lab: Lab) -> None:
    woken: list[float] = []
    lab.engine.on_change(lambda: woken.append(time.monotonic()))
    lab.site.wait(lambda: bool(woken), "the first look")
    woken.clear()
    time.sleep(0.6)
    assert not woken, "nothing changed"
    lab.submit("--gpus=1")
    lab.site.wait(lambda: bool(woken), "woken by the submission")


# --- shadow and doctor --------------------------------------------------------------------------------------


def test_shadow_mode_reads_whole_queues_and_touches_nothing(lab: Lab) -> None:
    theirs = lab.site.sbatch("--partition=others", "--gpus=16", "--nodes=2", "--comment", SAYS)
    lab.site.wait(lambda: lab.site.state(theirs) == "RUNNING", "their job runs")
    free = lab.site.sbatch("--partition=others", "--gpus=8", "--begin=now+1hour", "--comment", SAYS)
    waits = lab.submit("--gpus=8")
    shadow = ShadowSlurm(lab.settings.model_copy(update={"watched": []}))
    lab.made.append(shadow)
    before = {job: lab.site.job(job) for job in (theirs, free, waits)}
    seen = shadow.see()
    running = lab.attempt(theirs, 1, seen)
    assert running is not None
    assert list(running.nodes.values()) == [8, 8]
    assert {arrival.job for arrival in seen.arrivals} >= {free, waits}
    for order in (lab.order(waits, {"n001": 8}), Withdraw("w", waits), SetNode("n", "n001", True, "")):
        with pytest.raises(EngineError, match="only reads"):
            shadow.carry_out(order)
    after = {job: lab.site.job(job) for job in (theirs, free, waits)}
    moving = ("RunTime", "LastSchedEval", "Scheduler")
    for job, fields in after.items():
        assert {k: v for k, v in fields.items() if k not in moving} == {
            k: v for k, v in before[job].items() if k not in moving
        }


def test_the_doctor_finds_a_site_sound_but_for_what_is_odd_about_it(lab: Lab) -> None:
    found = {subject: (ok, text, remedy) for subject, ok, text, remedy in lab.engine.doctor()}
    for subject in (
        "version", "partition", "nodes", "held jobs", "MinJobAge", "accounting", "JobRequeue", "KillWait",
        "preemption", "SelectType", "memory", "rights", "clock",
    ):  # fmt: skip
        assert found[subject][0] is True, (subject, found[subject])
    assert found["shared nodes"][0] is False
    assert "others (64 nodes)" in found["shared nodes"][1]
    assert found["ReturnToService"][0] is None


def test_the_doctor_names_the_line_to_change(lab: Lab) -> None:
    with lab.site.configured(MinJobAge="2", KillWait="60", JobRequeue="0"):
        found = {subject: (ok, remedy) for subject, ok, _, remedy in lab.engine.doctor()}
        assert found["MinJobAge"][0] is False
        assert found["KillWait"] == (False, "KillWait=15: a shorter grace lasts as long as KillWait does")
        assert found["JobRequeue"] == (False, "JobRequeue=1")
    absent = {one[0]: one for one in lab.another(partition="nowhere").doctor()}
    assert absent["partition"][1] is False
    assert "no partition nowhere" in absent["partition"][2]
    silent = lab.another(conf="/nonexistent/slurm.conf", timeout_s=0.5).doctor()
    assert [ok for _, ok, _, _ in silent] == [False]
