"""What must hold for any small lab and work, tried on random ones. More: TENURE_EXAMPLES=2000."""

from __future__ import annotations

import json
import os
from typing import Any

from hypothesis import HealthCheck, given, settings

from checker import check_story
from checker_sums import check_measures
from checker_targets import check_swaps
from played import Played, play
from strategies import DAY, HOUR, modest_and_greedy, nodes_of, rooms, scenarios

EXAMPLES = int(os.environ.get("TENURE_EXAMPLES", "12"))
tried = settings(
    max_examples=EXAMPLES,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
GRACE_S, TURN_S, PROTECTED_S = 120, 300, 8 * HOUR


@tried
@given(scenarios())
def test_any_story_is_legal_and_its_measures_are_its_own(scenario: dict[str, Any]) -> None:
    """S4, S9–S20, by the checker; a run longer than the scenario lasts, so that there is much to share."""
    played = play(scenario)
    assert check_story(played.lines, asked=played.asked) == []
    assert check_measures(played.lines, played.measures) == []
    assert check_swaps(played.lines) == []


@tried
@given(scenarios())
def test_the_same_scenario_gives_the_same_story(scenario: dict[str, Any]) -> None:
    first, again = play(scenario), play(scenario)
    assert json.dumps(first.lines) == json.dumps(again.lines)
    assert without_speed(first) == without_speed(again)


def without_speed(played: Played) -> dict[str, Any]:
    return {key: value for key, value in played.measures.items() if key != "speed"}


@tried
@given(scenarios(until_s=60 * DAY, longest_s=9 * HOUR))
def test_no_job_that_fits_waits_for_ever(scenario: dict[str, Any]) -> None:
    """S8: with work that ends, nodes that come back and holds that are released, every job gets its end."""
    played = play(scenario, log_waits=False)
    assert check_story(played.lines, asked=played.asked) == []
    left = set(played.asked)
    for line in played.lines:
        over = line["event"] == "cancelled" or (line["event"] == "stopped" and ends(line, played))
        left -= {line["job"]} if over else set()
    assert left == set()


def ends(line: dict[str, Any], played: Played) -> bool:
    again = line["end"] in ("preempted", "node_failed")
    return not again or not played.asked[line["job"]].get("resumable", True)


@tried
@given(modest_and_greedy())
def test_who_asks_for_their_part_gets_it_and_keeps_it(scenario: dict[str, Any]) -> None:
    """S8, S12, S16: such work starts within a protection, is never stopped, and then nothing changes."""
    played = play(scenario)
    assert check_story(played.lines, asked=played.asked) == []
    assert [x for x in played.events("stopping") if x["account"] == "a"] == []
    submitted = {x["job"]: x["t"] for x in played.events("submitted") if x["account"] == "a"}
    started = {x["job"]: x["t"] for x in played.events("started") if x["account"] == "a"}
    assert submitted.keys() == started.keys()
    assert all(started[job] <= t + PROTECTED_S + GRACE_S + TURN_S for job, t in submitted.items())


@tried
@given(modest_and_greedy())
def test_turns_reach_a_fixed_point(scenario: dict[str, Any]) -> None:
    """S16: where nobody is owed and nothing arrives, the last days bring no stop and no start."""
    scenario["jobs"] = [job for job in scenario["jobs"] if job["id"] != "c"]
    played = play(scenario)
    late = [x for x in played.lines if x["t"] > 3 * DAY and x["event"] in ("started", "stopping", "stopped")]
    assert late == []
    if played.measures["jobs"]["waiting"]:  # else no turn is due
        assert played.measures["speed"]["turns"] >= 1000


@tried
@given(scenarios())
def test_first_come_first_served_passes_nobody_and_stops_nobody(scenario: dict[str, Any]) -> None:
    """On one cluster, without limits: starts are in the order of submission."""
    lab = scenario["lab"]
    lab["clusters"] = dict([max(lab["clusters"].items(), key=lambda item: largest(item[1]))])
    for account in lab["accounts"].values():
        account.pop("max_gpus", None)
    for job in scenario["jobs"]:
        job.pop("clusters", None)
        job.pop("priority", None)
    scenario["jobs"] = [job for job in scenario["jobs"] if fits(job, lab["clusters"])] or [
        {"id": "one", "account": "a", "gpus": 1, "runtime": 1}
    ]
    played = play({**scenario, "events": []}, policy="fifo", log_waits=False)
    assert check_story(played.lines, asked=played.asked) == []
    assert [x for x in played.events("stopping") if x["cause"] in ("preempted", "moved")] == []
    started = [x["job"] for x in played.events("started")]
    submitted = [x["job"] for x in played.events("submitted")]
    assert started == submitted[: len(started)]


def largest(cluster: dict[str, Any]) -> int:
    return int(cluster["gpus_per_node"]) * len(nodes_of(cluster))


def fits(job: dict[str, Any], labs: dict[str, Any]) -> bool:
    for _, kind, size, count in rooms(labs):
        whole = job["gpus"] <= size or (job["gpus"] % size == 0 and job["gpus"] <= size * count)
        if whole and kind == job.get("gpu"):
            return True
    return False
