"""S21: reasons never contradict decisions, change nothing, and every one can be told, with numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from played import HOUR, SCENARIOS, play, scenario
from tenure.core.explain import (
    SENTENCES,
    STARTED,
    STOPPED,
    UNTIL,
    explain,
    explain_stop,
    moment_text,
    span_text,
)
from tenure.core.words import NEVER_S, NONE, Reason, Rule
from tenure.simulator.moment import Asked, Moment, play_until
from tenure.simulator.scenario import build_world, load_scenario

NO_QUANTITY = {"held", "resting", "patience"}  #: a wait for a person or for time
DAY = {"workload": {"shape": "small"}, "until": "10h", "seed": 3}


def file_of(name: str) -> Path:
    (path,) = SCENARIOS.glob(f"{name}*.yaml")
    return path


def moment(
    source: Path | Mapping[str, Any], at_s: int, job: str | None = None, policy: str = "budget"
) -> Moment:
    """The instant of a scenario; `job`: the id of the row that is asked about, which arrives then."""
    read = load_scenario(source)
    world, names = build_world(read)
    rule, knobs = read.policy(policy)
    row = NONE if job is None else list(names.jobs).index(job)
    return play_until(world, names, knobs, rule=rule, at_s=at_s, row=row)


def with_job(name: str, at: str, **keys: Any) -> dict[str, Any]:
    """A scenario with one job more, submitted at `at`."""
    mapping = scenario(name)
    return {**mapping, "jobs": [*mapping["jobs"], {"id": "asked", "submit": at, "runtime": "1h", **keys}]}


def asked(gpus: int, min_runtime_s: int, **keys: Any) -> Asked:
    row = Asked(gpus, min_runtime_s, NEVER_S, 1, NONE, False, 0, 0, True)
    return row._replace(**keys)


# --- the reasons in a story ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["budget", "window", "fifo", "fifo-backfill", "priority"])
def test_telling_changes_nothing_and_is_never_beside_the_point(policy: str) -> None:
    """The same story with and without; what is missing is always less than what is needed."""
    loud, quiet = play(DAY, policy=policy), play(DAY, policy=policy, log_waits=False)
    strip = [{k: v for k, v in x.items() if k != "n"} for x in loud.lines if x["event"] != "waiting"]
    assert strip == [{k: v for k, v in x.items() if k != "n"} for x in quiet.lines]
    told = loud.events("waiting")
    assert told
    assert [x for x in told if not 0 <= x["have"]] == []
    assert [
        x
        for x in told
        if x["reason"] not in NO_QUANTITY | {"claiming", "promised", "not_reached"} and x["have"] >= x["need"]
    ] == []


@pytest.mark.parametrize("policy", ["budget", "fifo-backfill", "priority"])
def test_a_job_that_waits_is_told_why_from_the_turn_of_its_arrival_on(policy: str) -> None:
    played = play(DAY, policy=policy)
    started = {(x["job"], x["t"]) for x in played.events("started")}
    told = {(x["job"], x["t"]) for x in played.events("waiting")}
    left = {(x["job"], x["t"]) for x in played.lines if x["event"] in ("submitted", "requeued")}
    assert left - started - told == set()


def test_a_reason_is_told_once_until_it_changes() -> None:
    last: dict[str, str] = {}
    for line in play(DAY).lines:
        if line["event"] in ("started", "submitted"):
            last.pop(line["job"], None)
        elif line["event"] == "waiting":
            assert last.get(line["job"]) != line["reason"]
            last[line["job"]] = line["reason"]


def test_what_waits_for_order_stands_behind_a_job_it_can_name() -> None:
    played = play(file_of("reason_order"))
    (line,) = [x for x in played.events("waiting", "a-1") if x["reason"] == "order"]
    assert (line["need"], line["have"]) == (24, 0)  # its own 8 GPUs and those of b's two jobs


def test_first_come_first_served_names_order_behind_the_head() -> None:
    played = play(file_of("case_06"), policy="fifo")
    assert played.reason_at("head", HOUR) in ("no_free_gpus", "shape")
    assert played.reason_at("long", HOUR) == "order"


def test_a_limit_reads_x_of_y() -> None:
    (line,) = play(file_of("s09_limits")).events("waiting", "y")[:1]
    assert (line["reason"], line["need"], line["have"]) == ("own_limit", 8, 0)


# --- sentences ----------------------------------------------------------------------------------------


def test_a_closing_in_the_way_is_named_with_its_instant() -> None:
    answer = moment(file_of("s19_a_node_that"), HOUR, "late").ask(asked(2, 4 * HOUR))
    assert (answer["reason"], answer["evidence"]) == ("closing", "jupiter-0000")
    assert "first jupiter-0000 at 04:00; 0 of the 2" in answer["sentence"]


def test_every_reason_and_every_rule_has_its_sentence() -> None:
    assert set(SENTENCES) == set(Reason) - {Reason.NONE}
    assert set(STARTED) | set(STOPPED) == set(Rule) - {Rule.NONE}
    assert set(UNTIL) <= set(SENTENCES)


def test_sentences_say_their_numbers() -> None:
    facts = {"account": "language/olmo", "running": 60, "target": "64", "need": 8, "have": 4, "at": None}
    assert explain(Reason.OVER_TARGET, facts) == (
        "waits: language/olmo holds 60 of its target of 64 GPUs and this job needs 8"
    )
    told = explain(Reason.NO_PLACE, {"need": 8, "have": 2, "at": moment_text(14 * HOUR + 1200)})
    assert told.endswith("(no place can be made before 14:20)")
    stop = explain_stop(Rule.ABOVE_TARGET, {"taker": "b", "account": "a", "mine": "0.82", "theirs": "1.31"})
    assert "stopped for b" in stop
    assert "ratio 0.82 against 1.31" in stop


def test_spans_and_instants_read_as_people_say_them() -> None:
    assert [span_text(s) for s in (45, 90, 1800, 7200, 9000)] == ["45 s", "90 s", "30 min", "2 h", "2.5 h"]
    assert [moment_text(s) for s in (60, 3 * 86400 + 5)] == ["00:01", "3 d 00:00:05"]


# --- one instant --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["case_02", "case_05", "case_07", "case_19", "reason_patience", "reason_shape"]
)
@pytest.mark.parametrize("gpus", [1, 4])
def test_the_answer_is_what_the_play_then_does(name: str, gpus: int) -> None:
    """The same job in the scenario itself: the same reason at its instant, the same start."""
    account = list(scenario(name)["lab"]["accounts"])[-1]
    mapping = with_job(name, "70m", account=account, gpus=gpus, min_runtime="1h")
    answer = moment(mapping, 4200, "asked").ask(asked(gpus, HOUR))
    played = play(mapping)
    starts = played.starts("asked")
    assert answer["starts_now"] == (starts[:1] == [4200])
    if starts:
        assert answer["starts_at_s"] == starts[0]
    else:
        assert answer["starts_at_s"] is None or answer["starts_at_s"] > played.until_s
    assert answer["reason"] == (None if answer["starts_now"] else played.reason_at("asked", 4200))


def test_asking_changes_nothing() -> None:
    mapping = with_job("case_07", "70m", account="b", gpus=8, min_runtime="1h")
    here = moment(mapping, 4200, "asked")
    kept = [np.copy(table) for table in here.before.board]
    first = here.ask(asked(8, HOUR))
    here.next_preempted()
    assert here.ask(asked(1, 0))["reason"] != first["reason"]
    assert here.ask(asked(8, HOUR)) == first
    assert all(np.array_equal(one, other) for one, other in zip(kept, here.before.board, strict=True))


def test_case_10_one_answer_says_it_all() -> None:
    mapping = with_job("reason_over_target", "2h", account="a", gpus=2, min_runtime="1h")
    answer = moment(mapping, 2 * HOUR, "asked").ask(asked(2, HOUR))
    assert (answer["reason"], answer["need"], answer["have"]) == ("over_target", 2, 1)  # to the nearest job
    assert "a holds 4 of its target of" in answer["sentence"]
    numbers = answer["numbers"]
    assert (numbers["account"], numbers["running"], numbers["own_jobs_before"]) == ("a", 4, 1)
    assert numbers["ratio"] == pytest.approx(1, abs=0.01)
    assert numbers["rank"] in (1, 2)
    assert all(set(one) >= {"account", "ratio", "jobs", "gpus"} for one in numbers["accounts_ahead"])
    assert answer["earliest_start"]["earliest_s"] >= 2 * HOUR


def test_who_would_be_stopped_is_named_with_rule_ratios_and_loss() -> None:
    mapping = with_job("case_03", "30m", account="A2", gpus=50, min_runtime="1h")
    answer = moment(mapping, 1800, "asked").ask(asked(50, HOUR))
    assert answer["reason"] == "claiming"
    (stop,) = answer["stops"]
    assert (stop["job"], stop["rule"]) == ("filler", "free_work")
    assert stop["lost_gpu_s"] > 0
    assert answer["starts_at_s"] <= 1800 + 15


def test_case_04_nobody_a_second_before_and_somebody_at_eight_hours() -> None:
    before = moment(file_of("case_04"), 8 * HOUR - 1).next_preempted()
    assert (before["candidates"], before["nobody_before_s"]) == (0, 8 * HOUR)
    (old,) = before["attempts"]
    assert (old["job"], old["candidate"], old["interruptible_from_s"]) == ("old", False, 8 * HOUR)
    then = moment(file_of("case_04"), 8 * HOUR).next_preempted()
    (old,) = then["attempts"]
    assert (old["job"], old["candidate"], old["for"]) == ("old", True, "new")
    assert old["theirs"] > 1


def test_unbudgeted_work_goes_first() -> None:
    told = moment(file_of("case_07"), 4200).next_preempted()
    rows = told["attempts"]
    assert {one["job"][0] for one in rows[: told["candidates"]]} == {"f"}
    assert all(one["interruptible_from_s"] == 8 * HOUR for one in rows if one["budgeted"])


def test_first_come_first_served_stops_nobody() -> None:
    told = moment(file_of("case_07"), 4200, policy="fifo").next_preempted()
    assert told["candidates"] == 0
    assert {one["interruptible_from_s"] for one in told["attempts"]} == {None}
