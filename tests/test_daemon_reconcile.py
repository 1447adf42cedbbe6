"""What is recorded against what the engine shows: a table of cases, and what follows from each."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.core.words import Cause, End, NodeState, Phase
from tenure.daemon.reconcile import Found, Known, KnownNode, Records, reconcile
from tenure.engines.protocol import Seen, SeenArrival, SeenAttempt, SeenNode

NOW = 10_000.0
UP = KnownNode(NodeState.UP, "", 8)


def known(phase: Phase = Phase.RUNNING, cause: Cause = Cause.NONE, **more: Any) -> Known:
    told = {"started": NOW - 5000, "started_n": 1, "stopped_n": 0, "nodes": ("n1",)}
    return Known(phase, cause, **told | more)


def records(**more: Any) -> Records:
    told: dict[str, Any] = {
        "attempts": {("7", 1): known()},
        "nodes": {"n1": UP},
        "is_ours": lambda job, attempt: job.isdigit(),
    }
    return Records(**told | more)


def seen(
    *attempts: SeenAttempt, nodes: tuple[SeenNode, ...] = (SeenNode("n1", 8, True),), **more: Any
) -> Seen:
    return Seen(NOW, nodes, attempts, **more)


def attempt(job: str = "7", number: int = 1, **more: Any) -> SeenAttempt:
    return SeenAttempt(job, number, {"n1": 8}, started=NOW - 5000, **more)


def ended(**more: Any) -> SeenAttempt:
    return attempt(ended=NOW - 10, **more)


STOPPING = known(Phase.STOPPING, Cause.PREEMPTED, stopped_n=2)
CANCELLED = known(Phase.STOPPING, Cause.CANCELLED, stopped_n=2)


@pytest.mark.parametrize(
    ("before", "shown", "end"),
    [
        (known(), ended(exit_code=0), End.FINISHED),
        (known(), ended(exit_code=3), End.FAILED),
        (known(), ended(signal=9), End.FAILED),
        (known(), ended(timed_out=True, signal=9), End.TIMED_OUT),
        (known(), ended(node_failed=True), End.NODE_FAILED),
        (known(), ended(cancelled=True, signal=15), End.CANCELLED),
        (STOPPING, ended(told=True, exit_code=0), End.PREEMPTED),
        (STOPPING, ended(told=True, exit_code=1), End.PREEMPTED),
        (STOPPING, ended(told=True, exit_code=0, done=True), End.FINISHED),
        (STOPPING, ended(told=True, exit_code=1, done=True), End.FAILED),
        (STOPPING, ended(told=True, signal=9), End.PREEMPTED),
        (STOPPING, ended(exit_code=0), End.FINISHED),  # it was over before it heard of it
        (STOPPING, ended(exit_code=1), End.FAILED),
        (STOPPING, ended(told=True, timed_out=True), End.PREEMPTED),  # the first word counts
        (STOPPING, ended(told=True, node_failed=True), End.NODE_FAILED),
        (CANCELLED, ended(told=True, exit_code=0), End.CANCELLED),
        (CANCELLED, ended(told=True, exit_code=0, done=True), End.FINISHED),
    ],
)
def test_an_attempt_ends_in_its_own_way(before: Known, shown: SeenAttempt, end: End) -> None:
    found = reconcile(records(attempts={("7", 1): before}), seen(shown))
    assert [(one.job, one.attempt, one.end, one.at) for one in found.ended] == [("7", 1, end, NOW - 10)]


def empty(found: Found) -> bool:
    return not any(
        (found.ended, found.nodes, found.stops, found.forgets, found.arrivals, found.left, found.missing)
    )


def test_what_runs_as_recorded_is_no_news() -> None:
    found = reconcile(records(), seen(attempt()))
    assert empty(found)
    assert not found.remarks


def test_of_one_instant_own_ends_come_first_by_start_then_graces_by_stop() -> None:
    attempts = {
        ("1", 1): known(Phase.STOPPING, Cause.PREEMPTED, started_n=1, stopped_n=9),
        ("2", 1): known(started_n=4),
        ("3", 1): known(started_n=3),
        ("4", 1): known(Phase.STOPPING, Cause.PREEMPTED, started_n=2, stopped_n=8),
    }
    shown = [SeenAttempt(job, 1, {}, NOW - 99, NOW, 0, told=job in "14") for job in "1234"]
    assert [one.job for one in reconcile(records(attempts=attempts), seen(*shown)).ended] == list("3241")


def test_what_is_missing_is_over_only_after_the_grace() -> None:
    first = reconcile(records(), seen())
    assert first.ended == []
    assert first.missing == {"7.1": NOW}
    later = Seen(NOW + 89, (SeenNode("n1", 8, True),), ())
    assert reconcile(records(missing=first.missing), later).ended == []
    last = Seen(NOW + 90, (SeenNode("n1", 8, True),), ())
    (gone,) = reconcile(records(missing=first.missing), last).ended
    assert gone.end == End.NODE_FAILED  # no fault of the job's: it is queued again


def test_a_start_that_was_not_carried_out_yet_is_not_missing() -> None:
    found = reconcile(records(unstarted=frozenset({("7", 1)}), missing={"7.1": 0.0}), seen())
    assert empty(found)


def test_one_just_started_is_not_missing_for_a_while() -> None:
    fresh = records(attempts={("7", 1): known(started=NOW - 30)}, missing={"7.1": 0.0})
    assert reconcile(fresh, seen()).ended == []


@pytest.mark.parametrize(("bad", "end"), [(False, End.FAILED), (True, End.NODE_FAILED)])
def test_a_start_that_was_refused_has_failed(bad: bool, end: End) -> None:
    told = records(unstarted=frozenset({("7", 1)}), refused={("7", 1): ("no such command", bad)})
    (one,) = reconcile(told, seen()).ended
    assert (one.end, one.detail) == (end, "no such command")


def test_an_attempt_of_ours_that_should_not_run_any_more_is_told_to_stop() -> None:
    found = reconcile(records(attempts={}), seen(attempt("7", 1)))
    assert found.stops == [("7", 1)]
    assert found.haunted == {"n1"}
    assert found.ended == []


def test_an_attempt_whose_end_is_recorded_may_be_forgotten() -> None:
    assert reconcile(records(attempts={}), seen(ended(exit_code=0))).forgets == [("7", 1)]


def test_what_we_did_not_start_is_reported_and_never_touched() -> None:
    found = reconcile(records(attempts={}), seen(attempt("gdm", 1)))
    assert empty(found)
    assert found.remarks == ["gdm runs on n1, and was not started by Tenure"]


def test_an_answer_that_says_a_thing_twice_says_it_once() -> None:
    assert len(reconcile(records(), seen(ended(exit_code=0), ended(exit_code=0))).ended) == 1


# --- nodes --------------------------------------------------------------------------------------------

DOWN, DRAINING, DRAINED = NodeState.DOWN, NodeState.DRAINING, NodeState.DRAINED


@pytest.mark.parametrize(
    ("state", "by", "up", "draining", "told"),
    [
        (NodeState.UP, "", True, False, None),
        (NodeState.UP, "", False, False, DOWN),
        (NodeState.UP, "", True, True, DRAINING),
        (DOWN, "engine", True, False, NodeState.UP),
        (DOWN, "engine", False, False, None),
        (DOWN, "pia", True, False, None),
        (DRAINING, "engine", True, True, None),
        (DRAINING, "engine", True, False, NodeState.UP),
        (DRAINED, "engine", True, False, NodeState.UP),
        (DRAINED, "engine", True, True, None),
        (DRAINING, "pia", True, False, None),
        (DRAINING, "pia", True, True, None),
        (DRAINING, "pia", False, False, DOWN),  # and with it what still ran there
        (DRAINED, "pia", False, False, None),
        (NodeState.REPAIRING, "pia", False, False, None),
        (NodeState.TESTING, "pia", True, False, None),
    ],
)
def test_a_node_by_the_engines_word(
    state: NodeState, by: str, up: bool, draining: bool, told: NodeState | None
) -> None:
    nodes = {"n1": KnownNode(state, by, 8)}
    found = reconcile(records(attempts={}, nodes=nodes), seen(nodes=(SeenNode("n1", 8, up, draining),)))
    assert [one.state for one in found.nodes] == ([] if told is None else [told])


def test_a_node_missing_from_the_answer_is_down_only_after_the_grace() -> None:
    first = reconcile(records(attempts={}), seen(nodes=()))
    assert (list(first.nodes), first.missing) == ([], {"n1": NOW})
    last = reconcile(records(attempts={}, missing=first.missing), Seen(NOW + 90, (), ()))
    assert [(one.node, one.state) for one in last.nodes] == [("n1", DOWN)]


def test_a_node_that_is_back_takes_nothing_while_given_up_work_runs_there() -> None:
    nodes = {"n1": KnownNode(DOWN, "engine", 8)}
    assert reconcile(records(attempts={}, nodes=nodes), seen(attempt())).nodes == []


def test_a_node_missing_from_the_answer_is_not_dead_while_work_is_seen_on_it() -> None:
    told = records(missing={"n1": NOW - 100})
    found = reconcile(told, seen(attempt(), nodes=()))
    assert [(one.node, one.state) for one in found.nodes] == [("n1", NodeState.DRAINING)]
    assert found.ended == []
    draining = told._replace(nodes={"n1": KnownNode(NodeState.DRAINING, "engine", 8)})
    assert reconcile(draining, seen(attempt(), nodes=())).nodes == [], "it is said once"


def test_the_other_nodes_of_a_gang_take_nothing_while_the_gang_is_seen_there() -> None:
    nodes = {name: KnownNode(NodeState.UP, "", 8) for name in ("n1", "n2")}
    gang = known(nodes=frozenset(nodes))
    shown = seen(
        attempt()._replace(nodes={"n1": 8, "n2": 8}),
        nodes=(SeenNode("n1", 8, False), SeenNode("n2", 8, True)),
    )
    found = reconcile(records(attempts={("7", 1): gang}, nodes=nodes), shown)
    assert [(one.node, one.state) for one in found.nodes] == [("n1", DOWN), ("n2", NodeState.DRAINING)]
    assert "n2" in found.haunted


def test_a_node_with_other_gpus_than_the_lab_says_is_remarked_on() -> None:
    found = reconcile(records(), seen(attempt(), nodes=(SeenNode("n1", 4, True), SeenNode("n9", 8, True))))
    assert found.nodes == []
    assert found.remarks == [
        "node n1 has 4 GPUs, the lab says 8",
        "the engine has a node n9 that the lab does not name",
    ]


# --- an engine that keeps the queue --------------------------------------------------------------------


def arrival(job: str, **more: Any) -> SeenArrival:
    return SeenArrival(job, NOW, "ann", {"account": "a", "gpus": 1}, **more)


def test_jobs_that_came_left_or_were_held_behind_our_back() -> None:
    told = records(attempts={}, waiting={"1": False, "2": False, "3": True, "4": False})
    shown = seen(arrivals=(arrival("1"), arrival("2", held=True), arrival("3"), arrival("9")))
    found = reconcile(told, shown, keeps_queue=True)
    assert [one.job for one in found.arrivals] == ["9"]
    assert (found.left, [one.job for one in found.held], found.released) == ([], ["2"], ["3"])
    later = reconcile(told._replace(missing=found.missing), shown._replace(at=NOW + 15), keeps_queue=True)
    assert later.left == ["4"]


def test_a_node_that_the_engine_is_still_to_be_told_of_is_not_believed_to_drain() -> None:
    shown = seen(nodes=(SeenNode("n1", 8, True, draining=True),))
    assert reconcile(records(attempts={}, unset=frozenset({"n1"})), shown).nodes == []


def test_an_engine_that_keeps_no_queue_says_nothing_of_it() -> None:
    found = reconcile(records(attempts={}, waiting={"1": False}), seen())
    assert (found.left, found.arrivals) == ([], [])
