"""How health moves nodes: the flow of repair, bounds on what checks may take out, and the watch."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from tenure.daemon.health import (
    ASKED,
    CHECKS,
    NodeNow,
    Step,
    Tally,
    Verdict,
    asked_state,
    counted,
    findings,
)
from tenure.daemon.health_watch import HealthWatch
from tenure.settings.live_file import HealthCheckFile

STATES = ("up", "draining", "drained", "repairing", "testing", "down")
FAILING = Tally(failed=2, reason="ECC errors", state="up")


def test_two_failures_in_a_row_drain_a_node_and_one_does_not() -> None:
    nodes = [NodeNow("n0", "up"), NodeNow("n1", "up")]
    one = {"n0": Tally(failed=1, reason="ECC errors", state="up")}
    assert findings(nodes, one, checked=True).steps == []
    step = Step("n0", "draining", CHECKS, "health check: ECC errors (2 in a row)", "up")
    assert findings(nodes, {"n0": FAILING}, checked=True).steps == [step]


def test_checks_never_take_out_more_than_their_part_of_the_fleet_and_say_what_they_leave() -> None:
    nodes = [NodeNow(f"n{i:02}", "up") for i in range(40)]
    nodes[0] = NodeNow("n00", "repairing", by=CHECKS)
    nodes[1] = NodeNow("n01", "drained", by="pia")  # a person's word does not count against the checks
    tallies = {node.name: FAILING for node in nodes[2:]}
    found = findings(nodes, tallies, checked=True, most_drained=100_000)
    assert [step.node for step in found.steps] == ["n02", "n03", "n04"]
    assert len(found.held_back) == 35


def test_one_node_may_always_be_taken_out() -> None:
    nodes = [NodeNow("n0", "up"), NodeNow("n1", "up")]
    found = findings(nodes, {"n0": FAILING, "n1": FAILING}, checked=True, most_drained=100_000)
    assert ([step.node for step in found.steps], found.held_back) == (["n0"], ["n1"])


def test_the_longest_failing_goes_first() -> None:
    nodes = [NodeNow("n0", "up"), NodeNow("n1", "up")]
    tallies = {"n0": FAILING, "n1": FAILING._replace(failed=5)}
    assert findings(nodes, tallies, checked=True).steps[0].node == "n1"


def test_a_draining_node_is_drained_once_it_is_empty_and_keeps_who_and_why() -> None:
    busy, empty = NodeNow("n0", "draining", 1, "pia", "fan"), NodeNow("n1", "draining", 0, "pia", "fan")
    assert findings([busy, empty], {}, checked=False).steps == [
        Step("n1", "drained", "pia", "fan", "draining")
    ]


def test_what_checks_took_out_is_tested_without_a_person_and_what_a_person_took_out_is_not() -> None:
    nodes = [NodeNow("n0", "drained", by=CHECKS, reason="ECC errors"), NodeNow("n1", "drained", by="pia")]
    assert [(s.node, s.state) for s in findings(nodes, {}, checked=True).steps] == [("n0", "testing")]


@pytest.mark.parametrize(
    ("tally", "state"),
    [(Tally(passed=1, state="testing"), "up"), (Tally(failed=1, state="testing"), "repairing")],
)
def test_a_tested_node_comes_back_only_when_its_check_passes(tally: Tally, state: str) -> None:
    node = NodeNow("n0", "testing", by="pia")
    assert [s.state for s in findings([node], {"n0": tally}, checked=True).steps] == [state]


def test_what_was_said_of_a_node_in_service_does_not_count_while_it_is_tested() -> None:
    assert findings([NodeNow("n0", "testing")], {"n0": FAILING}, checked=True).steps == []
    fresh = counted(FAILING, Verdict("n0", True, "", 9.0), NodeNow("n0", "testing"))
    assert (fresh.failed, fresh.passed) == (0, 1)


def test_the_same_state_again_is_another_spell() -> None:
    first = counted(Tally(), Verdict("n0", False, "x", 9.0), NodeNow("n0", "testing", since=5.0))
    again = NodeNow("n0", "testing", since=10.0)
    assert findings([again], {"n0": first}, checked=True).steps == []
    assert counted(first, Verdict("n0", True, "", 11.0), again).failed == 0


def test_an_answer_that_cannot_be_understood_neither_fails_nor_clears_a_node() -> None:
    tally = counted(Tally(failed=1, state="up"), Verdict("n0", None, "garbage", 9.0), NodeNow("n0", "up"))
    assert (tally.failed, tally.unknown, tally.reason) == (1, 1, "garbage")
    assert counted(tally, Verdict("n0", False, "x", 10.0), NodeNow("n0", "up")).failed == 2


def test_up_after_a_repair_is_tested_where_the_lab_has_a_check() -> None:
    assert asked_state("repairing", "up", checked=True) == "testing"
    assert asked_state("repairing", "up", checked=False) == "up"
    assert asked_state("draining", "up", checked=True) == "up"  # a drain withdrawn
    assert asked_state("repairing", "test", checked=False) == "testing"  # by hand, until somebody says `up`


def test_a_word_that_means_nothing_there_is_refused_with_what_is_possible() -> None:
    with pytest.raises(
        ValueError, match=r"a node that is up cannot be told 'repair' \(possible: down, drain\)"
    ):
        asked_state("up", "repair", checked=True)


def test_every_state_has_its_words_and_leads_to_known_states() -> None:
    assert set(ASKED) == set(STATES)
    assert {new for words in ASKED.values() for new in words.values()} <= set(STATES)


@given(
    st.lists(
        st.tuples(st.sampled_from(STATES), st.sampled_from(["", CHECKS, "pia"]), st.integers(0, 5)),
        min_size=1,
        max_size=40,
    ),
    st.integers(0, 1_000_000),
    st.integers(1, 4),
)
def test_the_bound_holds_whatever_fails(rows: list[tuple[str, str, int]], part: int, failures: int) -> None:
    nodes = [NodeNow(f"n{i}", state, 0, by) for i, (state, by, _) in enumerate(rows)]
    tallies = {f"n{i}": Tally(failed=failed, state=state) for i, (state, _, failed) in enumerate(rows)}
    found = findings(nodes, tallies, checked=True, failures=failures, most_drained=part)
    most = max(1, len(nodes) * part // 1_000_000)
    out = {node.name for node in nodes if node.state != "up" and node.by == CHECKS}
    new = {step.node for step in found.steps if step.state == "draining"}
    assert len(out | new) <= max(most, len(out))
    assert not new & set(found.held_back)
    assert new | set(found.held_back) == {
        n.name for n in nodes if n.state == "up" and tallies[n.name].failed >= failures
    }


# --- the watch, with a real script ----------------------------------------------------------------


class Fleet:
    """Nodes that do at once what is asked of them."""

    def __init__(self, *nodes: NodeNow) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.history: list[tuple[str, str, str]] = []

    def ask(self, step: Step) -> None:
        node = self.nodes[step.node]
        assert step.old in ("", node.state)
        self.nodes[step.node] = node._replace(state=step.state, by=step.by, reason=step.reason)
        self.history.append((step.node, step.state, step.by))

    def seen(self) -> list[NodeNow]:
        return list(self.nodes.values())


def look_until(watch: HealthWatch, true: Callable[[], bool], seconds: float = 300.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "waited too long"
        watch.look()
        time.sleep(0.02)


@pytest.fixture
def sick(tmp_path: Path) -> Path:
    """A folder; a node with a file of its name in it is sick."""
    folder = tmp_path / "sick"
    folder.mkdir()
    program = tmp_path / "check"
    program.write_text(
        f"#!/bin/sh\nif test -e '{folder}'/$1\n"
        """then echo '{"ok": false, "reason": "sick"}'; exit 1\nelse echo '{"ok": true}'\nfi\n"""
    )
    program.chmod(0o755)
    return folder


@pytest.mark.slow
def test_a_sick_node_leaves_is_tested_and_waits_for_a_person_until_it_is_well(sick: Path) -> None:
    fleet = Fleet(NodeNow("n0", "up"), NodeNow("n1", "up"))
    check = HealthCheckFile.model_validate({"command": [str(sick.parent / "check")], "every": "1s"})
    watch = HealthWatch(check, fleet.seen, fleet.ask, time.time)
    try:
        (sick / "n1").touch()
        look_until(watch, lambda: fleet.nodes["n1"].state == "repairing")
        assert fleet.history == [(("n1"), s, CHECKS) for s in ("draining", "drained", "testing", "repairing")]
        (sick / "n1").unlink()
        fleet.ask(Step("n1", "testing", "pia", "changed the fan"))
        look_until(watch, lambda: fleet.nodes["n1"].state == "up")
        assert fleet.history[-1] == ("n1", "up", "pia")
        assert fleet.nodes["n0"].state == "up"
    finally:
        watch.close()


def test_a_node_that_failed_its_test_once_is_tested_anew_the_next_time(sick: Path) -> None:
    fleet = Fleet(NodeNow("n0", "testing", by="pia"))
    check = HealthCheckFile.model_validate({"command": [str(sick.parent / "check")], "every": "1s"})
    watch = HealthWatch(check, fleet.seen, fleet.ask, time.time)
    try:
        (sick / "n0").touch()
        look_until(watch, lambda: fleet.nodes["n0"].state == "repairing")
        (sick / "n0").unlink()
        watch.look()
        fleet.ask(Step("n0", "testing", "pia", "changed the fan"))
        look_until(watch, lambda: fleet.nodes["n0"].state != "testing")
        assert fleet.nodes["n0"].state == "up"
    finally:
        watch.close()


@pytest.mark.slow
def test_a_sick_node_that_recovers_comes_back_without_a_person(sick: Path) -> None:
    fleet = Fleet(NodeNow("n0", "up"))
    check = HealthCheckFile.model_validate({"command": [str(sick.parent / "check")], "every": "1s"})
    watch = HealthWatch(check, fleet.seen, fleet.ask, time.time)
    try:
        (sick / "n0").touch()
        look_until(watch, lambda: fleet.nodes["n0"].state == "draining")
        (sick / "n0").unlink()
        look_until(watch, lambda: fleet.nodes["n0"].state == "up")
        assert {by for _, _, by in fleet.history} == {CHECKS}
    finally:
        watch.close()


@pytest.mark.slow
@pytest.mark.parametrize(("when", "state"), [("idle", "up"), ("always", "draining")])
def test_busy_nodes_are_left_alone_unless_the_lab_says_always(sick: Path, when: str, state: str) -> None:
    fleet = Fleet(NodeNow("n0", "up", attempts=1), NodeNow("n1", "up"))
    for node in fleet.nodes:
        (sick / node).touch()
    command = [str(sick.parent / "check")]
    settings = {"command": command, "every": "1s", "when": when, "failures": 1, "most_drained": "100%"}
    watch = HealthWatch(HealthCheckFile.model_validate(settings), fleet.seen, fleet.ask, time.time)
    try:
        look_until(
            watch, lambda: (fleet.nodes["n0"].state == state) and fleet.nodes["n1"].state == "repairing"
        )
        assert fleet.nodes["n0"].state == state
    finally:
        watch.close()


def test_a_step_that_could_not_be_written_down_is_asked_for_again() -> None:
    class Still:
        at = 100.0

        def now(self) -> float:
            return self.at

    clock, tries = Still(), []

    def ask(step: Step) -> None:
        tries.append(step)
        raise OSError("disk full")

    watch = HealthWatch(None, lambda: [NodeNow("n0", "draining", 0, "pia", "fan")], ask, clock.now)
    watch.look()
    watch.look()
    assert len(tries) == 1
    assert "disk full" in watch.told().unasked
    clock.at += 20
    watch.look()
    assert len(tries) == 2
    watch.close()


def test_a_node_that_is_tested_by_hand_waits_for_a_word() -> None:
    assert findings([NodeNow("n0", "testing", by="pia")], {}, checked=False).steps == []


@pytest.mark.slow
def test_nodes_that_fail_and_must_stay_are_said_loudly_each_time_they_change(
    sick: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    structlog.configure(logger_factory=structlog.PrintLoggerFactory())
    fleet = Fleet(*(NodeNow(f"n{i}", "up") for i in range(3)))
    settings = {"command": [str(sick.parent / "check")], "every": "1s", "failures": 1, "most_drained": "34%"}
    watch = HealthWatch(HealthCheckFile.model_validate(settings), fleet.seen, fleet.ask, time.time)
    try:
        for i in range(3):
            (sick / f"n{i}").touch()
        look_until(watch, lambda: len(watch.told().held_back) == 2)
        watch.look()
        assert [node.state for node in fleet.seen()].count("up") == 2
        assert 1 <= capsys.readouterr().out.count("sick_nodes_kept") <= 3
    finally:
        watch.close()
        structlog.reset_defaults()
