"""What people ask of a running lab, and what becomes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from live_lab import Small
from tenure.core.words import NodeState, Phase

HOUR = 3600


@pytest.fixture
def small(tmp_path: Path) -> Small:
    return Small(tmp_path)


def test_a_submission_is_answered_with_its_id_and_what_became_of_it(small: Small) -> None:
    answer = small.ask("submit", spec=small.spec("a", 8, min_runtime="1h"))
    assert answer.ok
    assert answer.body["job"] == "1"
    receipt = answer.body["receipt"]
    assert receipt["phase"] == "running"
    assert receipt["protected_s"] == HOUR
    assert sum(receipt["nodes"].values()) == 8
    assert [attempt.job for attempt in small.engine.running()] == ["1"]


def test_it_runs_with_what_was_asked_for(small: Small) -> None:
    job = small.submit("b/x", 4, min_runtime=0, max_runtime="30m", runtime=HOUR, name="try")
    (attempt,) = small.engine.running()
    assert (attempt.job, attempt.attempt, sum(attempt.nodes.values())) == (job, 1, 4)
    small.to(HOUR)
    assert small.end(job) == "timed_out"
    (row,) = small.ledger.attempts(job)
    assert (row.stopped_t, row.held_gpu_s, row.end) == (1800, 4 * 1800, "timed_out")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"account": "c"}, "unknown account 'c'"),
        ({"gpus": 7}, ""),
        ({"gpus": 12}, "no cluster can hold"),
        ({"gpus": 0}, "gpus"),
        ({"clusters": ["venus"]}, "unknown cluster 'venus'"),
        ({"gpu": "H100"}, "unknown GPU type"),
        ({"wish": 1}, "wish"),
        ({"after": ["99:ok"]}, "no job 99"),
        ({"command": []}, "command"),
    ],
)
def test_a_submission_that_cannot_be_is_refused_in_one_sentence(
    small: Small, spec: dict[str, Any], words: str
) -> None:
    answer = small.ask("submit", spec=small.spec() | spec)
    if not words:
        assert answer.ok
        return
    assert not answer.ok
    assert answer.body["status"] == 422
    assert words in answer.body["error"]
    assert "\n" not in answer.body["error"]
    assert small.submit() == "1"  # and nothing of it was kept


def test_a_waiting_job_is_cancelled_at_once_and_a_running_one_within_its_grace(small: Small) -> None:
    running, waiting = small.submit("a", 16, min_runtime="1h"), small.submit("a", 16, min_runtime="1h")
    assert small.ask("cancel", waiting, reason="a typo").body["phase"] == "ended"
    (left,) = small.lines("cancelled")
    assert (left["job"], left["by"], left["reason"]) == (waiting, "ann", "a typo")
    assert small.ask("cancel", running).body["phase"] == "stopping"
    small.to(120)
    assert (small.end(running), small.end(waiting)) == ("cancelled", "cancelled")
    assert small.ask("cancel", running).body == {"error": f"job {running} has ended", "status": 409}
    assert small.ask("cancel", "77").body["status"] == 404


def test_of_holds_and_releases_in_one_turn_the_last_word_counts(small: Small) -> None:
    small.submit("a", 16, min_runtime="1h")
    job = small.submit("a", 8)
    asked = [
        small.tell(verb, job) for verb in ("hold", "release", "release", "hold", "hold", "release", "hold")
    ]
    small.settle()
    told = [small.ledger.answer(number) for number in asked]
    assert [one.ok for one in told if one] == [True, True, False, True, False, True, True]
    assert [one.body["error"] for one in told if one and not one.ok] == [
        f"job {job} is not on hold", f"job {job} does not wait: nothing to hold"
    ]  # fmt: skip
    assert small.phase(job) == Phase.HELD
    words = [line["event"] for line in small.lines("held", "released")]
    assert words == ["held", "released", "held", "released", "held"]
    asked = [small.tell(verb, job) for verb in ("release", "hold", "release")]
    small.settle()
    assert [one.ok for number in asked if (one := small.ledger.answer(number))] == [True] * 3
    assert small.phase(job) == Phase.WAITING
    assert small.view.cards[job].held_by == ""


def test_a_job_on_hold_waits_until_it_is_released(small: Small) -> None:
    job = small.submit(hold=True)
    assert small.phase(job) == Phase.HELD
    assert not small.ask("hold", job).ok
    assert small.ask("release", job).body["phase"] == "running"
    assert [line["event"] for line in small.lines("held", "released")] == ["held", "released"]
    assert not small.ask("release", job).ok
    assert not small.ask("hold", job).ok  # it runs


def test_a_forced_stop_names_who_and_why(small: Small) -> None:
    job = small.submit(min_runtime="8h", runtime=8 * HOUR)
    assert small.ask("stop", job, by="pia").body["status"] == 422
    assert small.ask("stop", job, by="pia", reason="the rack is too hot").body["phase"] == "stopping"
    (stop,) = small.lines("stopping")
    assert (stop["cause"], stop["rule"], stop["by"], stop["reason"]) == (
        "forced",
        "operator",
        "pia",
        "the rack is too hot",
    )
    small.to(121)
    assert [line["end"] for line in small.lines("stopped")] == ["preempted"]
    assert small.phase(job) == Phase.RUNNING  # it was queued again, and there is room
    assert [attempt.attempt for attempt in small.engine.running()] == [2]


def test_an_array_is_so_many_jobs_under_one_number(small: Small) -> None:
    answer = small.ask("submit", spec=small.spec("a", 2, array="3-6"))
    assert answer.body["job"] == "1"
    assert answer.body["jobs"] == ["1_3", "1_4", "1_5", "1_6"]
    assert len(small.engine.running()) == 4
    assert small.ask("cancel", "1").ok
    small.to(200)
    assert {small.end(job) for job in answer.body["jobs"]} == {"cancelled"}
    assert small.submit() == "2"


def test_at_most_so_many_elements_of_an_array_run_at_once(small: Small) -> None:
    answer = small.ask("submit", spec=small.spec("a", 1, array="0-5%2", runtime=600))
    assert answer.ok
    most = 0
    for t in range(0, 4000, 100):
        small.to(t)
        most = max(most, len(small.engine.running()))
    assert most == 2
    assert {small.end(job) for job in answer.body["jobs"]} == {"finished"}


def test_releasing_an_array_lets_go_what_people_held_and_leaves_what_waits_for_others(small: Small) -> None:
    small.submit(gpus=16, min_runtime="1h")  # nothing else finds room
    small.ask("submit", spec=small.spec("a", 1, array="0-3%2"))
    assert small.ask("hold", "2_0", reason="not yet").ok
    assert small.view.cards["2_0"].held_by == "ann"
    assert small.ask("release", "2").ok
    assert small.view.cards["2_0"].held_by != "ann"
    before = len(small.lines("released"))
    refused = small.ask("release", "2")
    assert (refused.ok, refused.body["status"]) == (False, 409)  # what waits for its array is held by nobody
    assert len(small.lines("released")) == before


# --- dependencies -------------------------------------------------------------------------------------


def test_a_job_waits_until_another_has_ended_well(small: Small) -> None:
    first = small.submit(runtime=600)
    second = small.submit(after=[f"{first}:ok"])
    assert small.phase(second) == Phase.HELD
    assert small.view.cards[second].held_by == "after"
    assert not small.ask("release", second).ok
    small.to(599)
    assert small.phase(second) == Phase.HELD
    small.to(600)
    assert small.phase(second) == Phase.RUNNING


def test_a_job_whose_dependency_failed_is_cancelled_with_that_reason(small: Small) -> None:
    first = small.submit(runtime=600, fails=True)
    strict, easy = small.submit(after=[first]), small.submit(after=[f"{first}:any"])
    last = small.submit(after=[strict])
    small.to(600)
    assert small.end(first) == "failed"
    assert small.end(strict) == "cancelled"
    assert small.end(last) == "cancelled"
    told = {line["job"]: line["reason"] for line in small.lines("cancelled")}
    assert told[strict] == f"job {first} ended failed"
    assert small.phase(easy) == Phase.RUNNING


def test_a_job_held_back_for_another_may_be_held_by_a_person_too(small: Small) -> None:
    first = small.submit(runtime=600)
    second = small.submit(after=[first])
    assert small.ask("hold", second, reason="not yet").ok
    small.to(700)
    assert small.phase(second) == Phase.HELD
    assert small.ask("release", second).body["phase"] == "running"


def test_a_dependency_on_what_has_ended_long_ago_holds_at_once(small: Small) -> None:
    first = small.submit(runtime=60)
    small.to(60)
    assert small.phase(small.submit(after=[first])) == Phase.RUNNING


def test_a_dependency_on_an_array_is_one_on_all_of_it(small: Small) -> None:
    small.ask("submit", spec=small.spec("a", 1, array=3, runtime=600))
    later = small.submit(after=["1:ok"])
    small.to(599)
    assert small.phase(later) == Phase.HELD
    small.to(600)
    assert small.phase(later) == Phase.RUNNING


# --- nodes --------------------------------------------------------------------------------------------


def state(small: Small, node: str) -> NodeState:
    row = [one.name for one in small.view.lab.nodes].index(node)
    return NodeState(int(small.view.board.posts["state"][row]))


def test_a_drained_node_takes_nothing_new_and_comes_back_when_told(small: Small) -> None:
    assert small.ask("node", "mars-0000", by="ops", state="draining", reason="new fan").ok
    assert state(small, "mars-0000") == NodeState.DRAINED
    assert [node.draining for node in small.engine.see().nodes] == [True, False]
    jobs = [small.submit(), small.submit()]
    assert [small.phase(job) for job in jobs] == [Phase.RUNNING, Phase.WAITING]
    assert small.ask("node", "mars-0000", by="ops", state="up").ok
    assert small.phase(jobs[1]) == Phase.RUNNING
    assert [node.draining for node in small.engine.see().nodes] == [False, False]
    told = [(entry.state, entry.by) for entry in small.ledger.node_log("mars-0000")]
    assert sorted(told) == sorted([("draining", "ops"), ("drained", "ops"), ("up", "ops")])


def test_a_node_called_down_gives_up_its_work_and_is_not_used_until_that_is_gone(small: Small) -> None:
    job = small.submit("a", 8, min_runtime="1h")
    (node,) = next(iter(small.engine.running())).nodes
    assert small.ask("node", node, by="ops", state="down", reason="sparks").ok
    assert [line["end"] for line in small.lines("stopped")] == ["node_failed"]
    small.settle()
    assert [attempt.attempt for attempt in small.engine.running()] == [2]  # the first was told to leave
    assert small.ask("node", node, by="ops", state="up").ok
    assert small.engine.wrongs == []
    assert small.end(job) == ""


def test_a_node_that_dies_takes_its_work_along_and_comes_back_by_itself(small: Small) -> None:
    job = small.submit("a", 16, min_runtime="1h")
    small.to(100)
    small.engine.happen("node_down", "mars-0001", 500.0)
    small.settle()
    assert state(small, "mars-0001") == NodeState.DOWN
    assert [(line["t"], line["end"]) for line in small.lines("stopped")] == [(100, "node_failed")]
    small.to(600)
    assert state(small, "mars-0001") == NodeState.UP
    assert small.phase(job) == Phase.RUNNING


def test_what_somebody_drains_at_the_engine_drains_here(small: Small) -> None:
    small.engine.happen("node_drain", "mars-0000", 500.0)
    small.settle()
    assert state(small, "mars-0000") == NodeState.DRAINED
    small.to(500)
    assert state(small, "mars-0000") == NodeState.UP


@pytest.mark.parametrize(("node", "word"), [("venus-1", "up"), ("mars-0000", "sleepy")])
def test_a_node_or_a_state_that_is_not_there_is_refused(small: Small, node: str, word: str) -> None:
    assert not small.ask("node", node, state=word).ok


# --- shares -------------------------------------------------------------------------------------------


def test_a_share_is_another_from_now_on_and_the_own_leaf_has_the_rest(small: Small) -> None:
    answer = small.ask("share", "b/x", by="pia", share="60%", reason="a paper is due")
    assert answer.body == {"account": "b/x", "old": 0.5, "new": 0.6}
    told = [(line["account"], line["old"], line["new"], line["by"]) for line in small.lines("share")]
    assert told == [("b/x", 0.5, 0.6, "pia"), ("b/(own)", 0.2, 0.1, None)]
    assert [row["account"] for row in small.ledger.share_history("b/x")] == ["b/x"]
    small.wake_up()
    small.settle()
    rows = {account.path: row for row, account in enumerate(small.view.lab.accounts)}
    assert small.view.board.shares[0, rows["b/x"]] == 600_000


@pytest.mark.parametrize(
    ("account", "share", "status"),
    [("b/x", "80%", 422), ("b/x", "120%", 422), ("b/x", "much", 422), ("c", "10%", 404), ("", "10%", 404)],
)
def test_a_share_that_cannot_be_is_refused(small: Small, account: str, share: str, status: int) -> None:
    answer = small.ask("share", account, by="pia", share=share)
    assert not answer.ok
    assert answer.body["status"] == status
    assert small.lines("share") == []


def test_what_nobody_knows_is_answered_too(small: Small) -> None:
    assert small.ask("dance").body["status"] == 422
