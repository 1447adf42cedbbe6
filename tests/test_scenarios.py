"""Small worlds, one a file under `scenarios/`, and the right value of each (rules S1–S22)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from checker import check_story
from checker_facts import seconds
from checker_sums import check_measures
from checker_targets import check_swaps
from played import HOUR, SCENARIOS, Played, changed, command, expectations, play, scenario

Told = Callable[..., Played]
FILES = sorted(SCENARIOS.glob("*.yaml"))
TURN_S, GRACE_S = 300, 120


# --- all of them ------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_its_story_is_legal(told: Told, path: Path) -> None:
    played = told(path.stem)
    assert check_story(played.lines, asked=played.asked) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_its_measures_are_those_of_its_story(told: Told, path: Path) -> None:
    played = told(path.stem)
    assert check_measures(played.lines, played.measures) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_its_stops_leave_every_account_at_its_target(told: Told, path: Path) -> None:
    assert check_swaps(told(path.stem).lines) == []


EXPECTED = [(path, expected) for path in FILES for expected in expectations(path)]


@pytest.mark.parametrize(
    ("path", "expected"), EXPECTED, ids=[f"{p.stem}-{e['job']}-{e['reason']}" for p, e in EXPECTED]
)
def test_a_job_waits_for_this_reason(told: Told, path: Path, expected: dict[str, Any]) -> None:
    assert told(path.stem).reason_at(expected["job"], seconds(expected["at"])) == expected["reason"]


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["window", "fifo", "fifo-backfill", "priority"])
@pytest.mark.parametrize(
    "name", ["case_07", "case_14", "case_22", "s09_limits", "s19_a_draining", "s19_a_node_that", "s20_two"]
)
def test_other_policies_tell_legal_stories_too(told: Told, policy: str, name: str) -> None:
    played = told(name, policy=policy)
    assert check_story(played.lines, asked=played.asked) == []
    assert check_measures(played.lines, played.measures) == []


@pytest.mark.slow
def test_a_day_of_drawn_work_is_legal() -> None:
    played = play({"workload": {"shape": "small"}, "until": "1d", "warmup": "2h", "seed": 3})
    assert len(played.events("started")) > 50
    assert check_story(played.lines) == []
    assert check_swaps(played.lines) == []
    assert check_measures(played.lines, played.measures) == []


# --- cases from the field -----------------------------------------------------------------------------


def test_case_01_by_window_each_has_started_twice_after_three_hours(told: Told) -> None:
    played = told("case_01", policy="window")
    assert check_story(played.lines, asked=played.asked) == []
    for account in "abc":
        assert len([t for t in played.starts(account) if t <= 3 * HOUR]) == 2


def test_case_01_by_targets_no_two_differ_by_more_than_an_hour(told: Told) -> None:
    played = told("case_01")
    hours = [played.gpu_s(account) / 8 / HOUR for account in "abc"]
    assert max(hours) - min(hours) <= 1
    assert sum(hours) == pytest.approx(12, abs=0.01)


@pytest.mark.parametrize("policy", ["budget", "window"])
def test_case_01_no_attempt_is_shorter_than_its_minimum(told: Told, policy: str) -> None:
    played = told("case_01", policy=policy)
    ended = [(start, stop) for start, stop in played.attempts() if stop < played.until_s]
    assert len(ended) >= 10
    assert all(stop - start["t"] >= 1800 for start, stop in ended)


@pytest.mark.parametrize("policy", ["budget", "window"])
def test_case_02_one_stop_in_a_thousand_turns(told: Told, policy: str) -> None:
    played = told("case_02", policy=policy)
    assert check_story(played.lines, asked=played.asked) == []
    stops = played.events("stopping")
    assert [x["account"] for x in stops] == ["A"]
    assert stops[0]["by"] == "b1"
    assert [played.mean_gpus(account, 10, 83) for account in "AB"] == [4, 4]


def test_case_02_a_thousand_turns_are_really_played(told: Told) -> None:
    assert told("case_02").measures["speed"]["turns"] >= 1000


def test_case_03_unbudgeted_work_is_stopped_once(told: Told) -> None:
    played = told("case_03")
    (stop,) = played.events("stopping")
    assert (stop["job"], stop["by"], stop["t"]) == ("filler", "a2", HOUR)
    (start_s,) = played.starts("a2")
    assert start_s <= HOUR + 15 + TURN_S
    assert [t for t in played.starts("filler") if HOUR < t < start_s] == []


def test_case_04_at_eight_hours_and_not_a_second_before(told: Told) -> None:
    played = told("case_04")
    (start,) = [x for x in played.events("started", "old") if x["attempt"] == 1]
    assert start["protected_until_s"] == 8 * HOUR
    assert [x["t"] for x in played.events("stopping", "old")][:1] == [8 * HOUR]


def test_case_05_a_gang_starts_when_protections_end(told: Told) -> None:
    played = told("case_05")
    submitted_s = 90 * 60
    start_s = played.starts("gang")[0]
    assert start_s <= submitted_s + 2 * HOUR + GRACE_S + TURN_S
    idle_gpu_s = 64 * (start_s - submitted_s) - played.gpu_s(None, submitted_s, start_s)
    assert 0 <= idle_gpu_s <= 64 * GRACE_S


def test_case_06_what_may_start_before_a_gang(told: Told) -> None:
    played = told("case_06")
    assert played.events("planned", "head")[0]["at_s"] == 4 * HOUR
    assert played.starts("short")[:1] == [20 * 60]
    assert played.starts("filler")[:1] == [30 * 60]
    start_s = played.starts("head")[0]
    assert 4 * HOUR <= start_s <= 4 * HOUR + GRACE_S + TURN_S
    assert all(t > start_s for t in played.starts("long"))


def test_case_07_no_stop_without_a_place(told: Told) -> None:
    played = told("case_07")
    stops = played.events("stopping")
    assert [x for x in stops if x["by"] == "big"] == []
    assert [x["by"] for x in stops] == ["one"]
    assert stops[0]["job"].startswith("f")
    assert played.starts("big") == []
    assert len(played.starts("one")) == 1


def test_case_08_the_lookback_is_seven_days_and_never_none(told: Told) -> None:
    assert seconds(lookback(told("case_21").measures["policy"])) == 7 * 24 * HOUR
    status, _, message = command("simulate", str(file_of("case_21")), "--set", "policy.lookback=0")
    assert status == 2
    assert "lookback" in message
    assert "7d" in message


def lookback(policy: dict[str, Any]) -> Any:
    return policy.get("lookback", policy.get("lookback_s"))


def file_of(name: str) -> Path:
    (path,) = SCENARIOS.glob(f"{name}*.yaml")
    return path


def test_case_09_a_hold_changes_no_charge(told: Told) -> None:
    held, free = told("case_09"), play(changed(scenario("case_09"), "events", to=[]))
    for played in (held, free):
        assert played.gpu_s("a", HOUR, 2 * HOUR) == 10 * HOUR
        assert played.account("a")["delivered_gpu_h"] == 30
    asked = [played.account("a")["demand_gpu_h"] for played in (held, free)]
    assert asked == [pytest.approx(30 + 5 * 1.5), pytest.approx(30 + 5 * 2.5)]


def gang_nodes(told: Told) -> list[str]:
    return list(told("case_11").events("started", "gang")[0]["nodes"])


@pytest.mark.parametrize("state", ["draining", "down"])
def test_case_11_nobody_else_is_touched_and_the_gang_restarts_once(told: Told, state: str) -> None:
    first, last = gang_nodes(told)[5], gang_nodes(told)[-1]
    events = [{"at": "2h", "node": node, "state": state} for node in (first, last)]
    played = play({**scenario("case_11"), "events": events})
    assert check_story(played.lines, asked=played.asked) == []
    assert {x["job"] for x in played.events("stopped")} == {"gang"}
    assert {x["job"] for x in played.events("stopping")} <= {"gang"}
    (stop,) = played.stops("gang")
    assert len(played.starts("gang")) == 2
    nodes = set(played.events("started", "gang")[1]["nodes"])
    assert nodes.isdisjoint({first, last})
    if state == "down":
        assert (stop["t"], stop["end"]) == (2 * HOUR, "node_failed")
    else:  # the longest protection left ends at 4 hours
        assert 4 * HOUR <= stop["t"] <= 4 * HOUR + GRACE_S
        assert stop["end"] == "preempted"
        assert played.events("stopping", "gang")[0]["cause"] == "drain"
    assert played.starts("gang")[1] <= stop["t"] + TURN_S


def test_case_12_jobs_start_in_the_order_of_their_submission(told: Told) -> None:
    played = told("case_12")
    submitted = [x["job"] for x in played.events("submitted")]
    started = [x["job"] for x in played.events("started")]
    assert len(started) == 120
    assert started == submitted


def test_case_13_stopped_once_when_somebody_outranks_it(told: Told) -> None:
    played = told("case_13")
    stops = [x["t"] for x in played.events("stopping", "old")]
    assert stops[0] == 20 * HOUR
    assert played.events("stopping", "old")[0]["by"] == "new"
    starts = played.events("started", "old")
    assert starts[0]["t"] == 0
    assert len(starts) > 1
    assert all(x["protected_until_s"] == x["t"] + 2 * HOUR for x in starts)
    for begin_s in range(0, 24 * HOUR, HOUR):
        assert len([x for x in starts[1:] if begin_s <= x["t"] < begin_s + 24 * HOUR]) <= 12


def test_case_14_owed_uses_the_share_in_force(told: Told) -> None:
    played = told("case_14")
    assert played.account("a")["owed_gpu_h"] == pytest.approx(80 * (0.35 * 10 + 0.10 * 10), rel=1e-9)
    assert played.account("b")["owed_gpu_h"] == pytest.approx(80 * 0.65 * 20, rel=1e-9)
    (line,) = played.events("share")
    assert (line["account"], line["by"], line["reason"]) == ("a", "pia", "quarter review")
    assert (line["old"], line["new"], line["t"]) == (pytest.approx(0.35), pytest.approx(0.1), 10 * HOUR)


def test_case_15_columns_add_up_to_capacity_exactly(told: Told) -> None:
    for name in ("case_05", "case_14", "case_22"):
        hours = told(name).measures["gpu_hours"]
        parts_s = [round(3600 * hours[key]) for key in ("down", "idle", "budgeted", "unbudgeted")]
        assert sum(parts_s) == round(3600 * hours["capacity"])


def test_case_16_at_most_one_stop_and_by_a_rule(told: Told) -> None:
    played = told("case_16")
    stops = played.events("stopping")
    assert len(stops) <= 1
    assert all(x["rule"] for x in stops)


def test_case_18_a_warning_names_the_better_value() -> None:
    status, _, message = command("simulate", str(file_of("case_18")))
    assert status == 0
    assert "min_runtime" in message
    assert "15m" in message


def test_case_19_a_limit_is_met_and_never_passed(told: Told) -> None:
    played = told("case_19")
    held = sum(sum(x["nodes"].values()) for x in played.events("started"))
    assert held == 32
    assert played.starts("pair-0") == [1800]
    assert played.starts("pair-1") == []


def test_case_20_a_stop_tells_what_it_loses(told: Told) -> None:
    played = told("case_20")
    (stopping,) = played.events("stopping", "old")
    assert stopping["t"] == 8 * HOUR
    notice = played.events("notice", "old")[0]
    assert notice["t"] <= 8 * HOUR - 300
    preempted, finished = played.stops("old")
    assert preempted["lost_gpu_s"] == pytest.approx(48 * HOUR, abs=1 * HOUR)
    assert finished["end"] == "finished"
    again_s = played.starts("old")[1]
    assert finished["t"] == again_s + 60 + 15 * HOUR  # 5 of 20 hours were saved


def test_case_21_hours_are_sums_of_products(told: Told) -> None:
    played = told("case_21")
    assert played.measures["gpu_hours"]["budgeted"] == 5
    assert played.account("a")["delivered_gpu_h"] == 5


def test_case_22_a_program_keeps_what_its_projects_leave(told: Told) -> None:
    played = told("case_22")
    assert played.mean_gpus("P/Y", 2, 24) == pytest.approx(48, abs=2)
    assert played.mean_gpus("Q", 2, 24) == pytest.approx(32, abs=2)


def test_case_22_they_settle_when_the_idle_project_comes_back(told: Told) -> None:
    played = told("case_22")
    means = [played.mean_gpus(account, 36, 72) for account in ("P/X", "P/Y", "Q")]
    assert means == [pytest.approx(24, abs=2), pytest.approx(24, abs=2), pytest.approx(32, abs=2)]


def test_case_22_what_a_sibling_owes_is_not_taken_from_outside(told: Told) -> None:
    played = told("case_22")
    assert min(played.mean_gpus("Q", hour, hour + 1) for hour in range(24, 72)) >= 32 - 2
    assert played.mean_gpus("P/X", 25.5, 27) > 24 - 2


@pytest.mark.parametrize("nodes", [4, 16, 128])
@pytest.mark.parametrize("hours", [1, 8])
def test_case_23_each_gets_its_third_over_two_days(nodes: int, hours: int) -> None:
    mapping = scenario("case_23")
    mapping["lab"]["clusters"]["jupiter"]["nodes"] = nodes
    for job in mapping["jobs"]:
        job.update(gpus=8 * nodes, min_runtime=f"{hours}h")
    played = play(mapping, log_waits=False)
    assert check_story(played.lines, asked=played.asked) == []
    for day in (1, 2, 3):
        for account in "abc":
            held_h = played.mean_gpus(account, 24 * day, 24 * (day + 2)) * 48 / (8 * nodes)
            assert abs(held_h - 16) <= hours + 2 * GRACE_S / HOUR


# --- all of the story ---------------------------------------------------------------------------------


def test_time_never_stands_still_in_a_story(told: Told) -> None:
    """No instant has two starts of one job: the rounds of an instant end."""
    for path in FILES:
        starts = [(x["job"], x["t"]) for x in told(path.stem).events("started")]
        assert all(first != then for first, then in pairwise(sorted(starts))), path.stem


def test_a_story_without_waits_is_the_same_story() -> None:
    loud, quiet = play(scenario("case_16")), play(scenario("case_16"), log_waits=False)
    assert [x["event"] for x in quiet.lines if x["event"] == "waiting"] == []
    strip = [{k: v for k, v in x.items() if k != "n"} for x in loud.lines if x["event"] != "waiting"]
    assert strip == [{k: v for k, v in x.items() if k != "n"} for x in quiet.lines]
