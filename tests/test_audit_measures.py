"""The measures on stories short enough to check by hand."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from stories import HOUR_S, Teller, random_story
from tenure.audit.measures import Measures, measure
from tenure.audit.span import AuditError, Span
from tenure.core.words import NEVER_S, NONE, End, Kind, NodeState
from tenure.story.columns import StoryAccount
from tenure.story.jsonl import read_story, write_story

KEYS = {
    "span_s", "seed", "policy", "jobs", "gpu_hours", "occupancy", "availability", "unbudgeted_share",
    "delivered", "wait_s", "first_wait_s", "preemptions", "speed",
}  # fmt: skip


def test_owed_is_the_lesser_of_demand_and_entitlement_hour_by_hour() -> None:
    """Entitled 35, demand 10 then 50: owed 45."""
    teller = Teller({"a": 0.35, "b": 0.65}, nodes=[10] * 10, until_s=2 * HOUR_S)
    teller.submit(0, "small", "a", 10)
    teller.submit(HOUR_S, "large", "a", 40)
    told = measure(teller.story()).delivered["accounts"]["a"]
    assert told["owed_gpu_h"] == 45
    assert told["demand_gpu_h"] == 60
    assert told["entitled_gpu_h"] == 70
    assert (told["delivered_gpu_h"], told["ratio"], told["hourly_ratio"]) == (0, 0, 0)


def test_within_an_hour_demand_is_averaged() -> None:
    teller = Teller({"a": 0.5}, nodes=[8], until_s=HOUR_S)
    teller.submit(0, "one", "a", 8)
    teller.start(0, "one")
    teller.stop(HOUR_S // 2, "one")
    told = measure(teller.story()).delivered["accounts"]["a"]
    assert told["owed_gpu_h"] == 4  # 8 GPUs for half an hour against 4 for a whole one
    assert told["delivered_gpu_h"] == 4


def test_a_running_job_is_charged_the_same_whether_its_account_is_on_hold() -> None:
    """An account put on hold for 1 h while it runs 10 GPUs: +10 GPU-h, same as not held."""

    def story(held: bool) -> Measures:
        teller = Teller({"a": 0.5, "b": 0.5}, nodes=[10, 10], until_s=HOUR_S)
        for job, gpus in (("runs", 10), ("waits", 4)):
            teller.submit(0, job, "a", gpus)
            if held:
                teller.hold(0, job)
        teller.start(0, "runs")
        return measure(teller.story())

    free, held = story(False).delivered["accounts"]["a"], story(True).delivered["accounts"]["a"]
    assert free["delivered_gpu_h"] == held["delivered_gpu_h"] == 10
    assert free["demand_gpu_h"] == 14
    assert held["demand_gpu_h"] == 10  # what waits on hold is no demand, what runs is


def test_gpu_hours_are_no_product_of_sums() -> None:
    """2 jobs, 1 GPU for 2 h and 3 GPUs for 1 h: 5 GPU-h."""
    teller = Teller({"a": 1.0}, nodes=[8], until_s=4 * HOUR_S)
    for job, gpus, hours in (("thin", 1, 2), ("thick", 3, 1)):
        teller.submit(0, job, "a", gpus)
        teller.start(0, job)
        teller.stop(hours * HOUR_S, job)
    told = measure(teller.story())
    assert told.gpu_hours["budgeted"] == 5
    assert told.gpu_hours["idle"] == 32 - 5
    assert told.delivered["accounts"]["a"]["delivered_gpu_h"] == 5


def test_owed_follows_a_share_from_the_moment_it_changes() -> None:
    """Share 35 % → 10 % at t: owed uses 35 % before and 10 % after."""
    teller = Teller({"a": 0.35, "b": 0.65}, nodes=[10] * 10, until_s=2 * HOUR_S)
    teller.submit(0, "endless", "a", 100)
    teller.share(HOUR_S + HOUR_S // 2, "a", 0.35, 0.10)
    assert measure(teller.story()).delivered["accounts"]["a"]["owed_gpu_h"] == 35 + 17.5 + 5


def test_an_inner_account_is_owed_what_all_below_it_can_use_of_its_own() -> None:
    teller = Teller({"p": 0.6, "p/x": 0.5, "p/y": 0.5, "q": 0.4}, nodes=[10] * 10, until_s=HOUR_S)
    teller.submit(0, "y", "p/y", 50)
    teller.start(0, "y", {f"jupiter-000{n}": 10 for n in range(5)})
    told = measure(teller.story()).delivered
    assert told["accounts"]["p/y"]["owed_gpu_h"] == 30
    assert told["accounts"]["p"]["owed_gpu_h"] == 50
    assert told["accounts"]["p"]["delivered_gpu_h"] == 50
    assert told["total"] == 1.0
    assert (told["worst"], told["worst_uncapped"]) == (1.0, 50 / 30)
    assert told["programs"]["total"] == 1.0
    assert set(told["accounts"]) == {"p", "p/x", "p/y", "q"}
    assert told["accounts"]["q"]["ratio"] is None


@pytest.mark.parametrize("own_leaf", [True, False])
def test_work_given_to_an_inner_account_runs_under_what_its_children_leave(own_leaf: bool) -> None:
    accounts = [
        StoryAccount("", NONE, (1_000_000,)),
        StoryAccount("p", 0, (500_000,)),
        StoryAccount("p/x", 1, (600_000,)),
    ]
    if own_leaf:
        accounts.append(StoryAccount("p/(own)", 1, (400_000,), own_leaf_of=1))
    teller = Teller(accounts, nodes=[10] * 10, until_s=2 * HOUR_S)
    teller.submit(0, "own", "p", 100)
    teller.share(HOUR_S, "p/x", 0.6, 0.2)
    if own_leaf:  # whether the story says what follows from it, or not
        teller.share(HOUR_S, "p/(own)", 0.4, 0.8)
        story = io.StringIO()
        write_story(teller.story(), story)
        assert measure(read_story(io.StringIO(story.getvalue()))) == measure(teller.story())
    told = measure(teller.story()).delivered["accounts"]
    assert told["p/(own)"]["owed_gpu_h"] == 20 + 40
    assert told["p"]["owed_gpu_h"] == 100
    assert told["p/x"]["owed_gpu_h"] == 0


def test_down_and_drained_empty_nodes_are_no_capacity() -> None:
    teller = Teller({"a": 0.5, "b": 0.5}, nodes=[8, 8], until_s=4 * HOUR_S)
    teller.submit(0, "stays", "a", 2)
    teller.start(0, "stays", {"jupiter-0001": 2})
    teller.node(0, "jupiter-0001", NodeState.DRAINING)
    teller.stop(HOUR_S, "stays")  # from here on the node is empty
    teller.node(2 * HOUR_S, "jupiter-0001", NodeState.UP)
    teller.node(3 * HOUR_S, "jupiter-0000", NodeState.DOWN)
    told = measure(teller.story())
    assert told.gpu_hours["down"] == 8 + 8
    assert told.gpu_hours["capacity"] == 64
    assert told.availability == 48 / 64
    assert told.occupancy == 2 / 48
    assert told.delivered["accounts"]["a"]["entitled_gpu_h"] == 24


def test_a_job_that_could_never_run_is_no_demand() -> None:
    teller = Teller({"a": 1.0}, nodes=[8, 8], until_s=HOUR_S)
    for job, gpus in (("gang", 16), ("huge", 24), ("odd", 12)):
        teller.submit(0, job, "a", gpus)
    assert measure(teller.story()).delivered["accounts"]["a"]["demand_gpu_h"] == 16


def test_work_waiting_on_its_accounts_own_limit_is_no_demand() -> None:
    teller = Teller({"a": 1.0}, nodes=[8, 8], limits={"a": 6}, until_s=HOUR_S)
    for job in ("one", "two", "three"):
        teller.submit(0, job, "a", 4)
    teller.start(0, "one")
    told = measure(teller.story()).delivered["accounts"]["a"]
    assert (told["demand_gpu_h"], told["owed_gpu_h"], told["delivered_gpu_h"]) == (6, 6, 4)


def test_a_job_that_may_run_on_two_clusters_asks_once_where_its_account_has_least() -> None:
    teller = Teller({"a": 0.5, "b": 0.5}, nodes={"one": [8], "two": [8]}, until_s=HOUR_S)
    teller.submit(0, "runs", "a", 4, clusters=1)
    teller.start(0, "runs", {"one-0000": 4})
    teller.submit(0, "waits", "a", 8)
    told = measure(teller.story()).delivered["accounts"]["a"]
    assert told["demand_gpu_h"] == 12
    assert told["owed_gpu_h"] == 4 + 4  # entitled to 4 on each: on `one` they are there already
    assert told["delivered_gpu_h"] == 4


def test_unbudgeted_work_is_charged_to_nobody() -> None:
    teller = Teller({"a": 1.0}, nodes=[8], until_s=HOUR_S)
    teller.submit(0, "free", "a", 6, min_runtime_s=0)
    teller.start(0, "free")
    told = measure(teller.story())
    assert told.gpu_hours["unbudgeted"] == 6
    assert told.unbudgeted_share == 1
    assert told.delivered["accounts"]["a"]["demand_gpu_h"] == 0
    assert told.delivered["total"] is None


def test_a_share_of_nothing_is_owed_nothing() -> None:
    teller = Teller({"a": 1.0, "z": 0.0}, nodes=[8], until_s=HOUR_S)
    teller.submit(0, "guest", "z", 8)
    teller.start(0, "guest")
    told = measure(teller.story()).delivered
    assert told["accounts"]["z"] == {
        "owed_gpu_h": 0, "delivered_gpu_h": 8, "demand_gpu_h": 8, "entitled_gpu_h": 0, "ratio": None,
        "hourly_ratio": None,
    }  # fmt: skip
    assert told["worst"] is None


def test_late_delivery_does_not_repair_an_hour() -> None:
    teller = Teller({"a": 0.5, "b": 0.5}, nodes=[8], until_s=2 * HOUR_S)
    teller.submit(0, "late", "a", 8)
    teller.start(HOUR_S, "late")
    told = measure(teller.story()).delivered["accounts"]["a"]
    assert (told["ratio"], told["hourly_ratio"]) == (1.0, 0.5)


def test_waits_count_from_submission_and_again_from_each_requeue() -> None:
    teller = Teller({"a": 1.0}, nodes=[8, 8, 8], until_s=20 * HOUR_S)
    teller.submit(0, "twice", "a", 16)
    both = {"jupiter-0000": 8, "jupiter-0001": 8}
    teller.start(100, "twice", both)
    teller.stop(200, "twice", End.PREEMPTED, lost_gpu_s=3600)
    teller.requeue(200, "twice")
    teller.start(230, "twice", both)
    teller.submit(5000, "debug", "a", 1, min_runtime_s=900, kind=Kind.SESSION)
    teller.start(5007, "debug", {"jupiter-0002": 1})
    teller.submit(8 * HOUR_S, "waits", "a", 1)  # 12 h at the end: counts
    teller.submit(12 * HOUR_S, "young", "a", 1)  # 8 h: does not
    teller.submit(8 * HOUR_S, "asleep", "a", 1)
    teller.hold(9 * HOUR_S, "asleep")
    told = measure(teller.story())
    assert told.wait_s["all"] == {
        "n": 3, "mean": 137 / 3, "p50": 30, "p90": 100, "p99": 100, "max": 100
    }  # fmt: skip
    assert told.first_wait_s["all"]["n"] == 3
    assert told.first_wait_s["all"]["max"] == 12 * HOUR_S
    assert told.first_wait_s["gang"]["max"] == 100
    assert told.wait_s["gang"]["n"] == 2
    for group in ("debug", "session"):
        assert told.wait_s[group]["max"] == 7
    assert told.wait_s["unbudgeted"] == {
        "n": 0, "mean": None, "p50": None, "p90": None, "p99": None, "max": None
    }  # fmt: skip
    assert told.jobs["waiting"] == 3
    assert told.jobs["running"] == 2
    assert told.preemptions["budgeted"]["count"] == 1
    assert told.preemptions["lost_gpu_h"] == told.gpu_hours["lost"] == 1
    assert told.preemptions["per_day"] == 24 / 20


def test_gangs_wait_from_the_head_of_their_account() -> None:
    teller = Teller({"a": 1.0}, nodes=[8] * 16, until_s=4 * HOUR_S)
    for job, gpus in (("small", 16), ("large", 32), ("stuck", 128), ("leaves", 16)):
        teller.submit(0, job, "a", gpus)
        teller.head(600, job)
    teller.start(700, "small", {f"jupiter-000{n}": 8 for n in range(2)})
    teller.stop(800, "small", End.PREEMPTED)
    teller.requeue(800, "small")
    teller.start(9000, "small", {f"jupiter-000{n}": 8 for n in range(2)})
    teller.start(900, "large", {f"jupiter-000{n}": 8 for n in range(4, 8)})
    teller.cancel(5000, "leaves")
    told = measure(teller.story()).head_wait_s
    assert (told["all"]["n"], told["large"]["n"]) == (3, 2)
    assert (told["all"]["p50"], told["large"]["p50"]) == (300, 300)
    assert told["large"]["max"] == 4 * HOUR_S - 600


def test_what_happened_in_the_warmup_is_not_measured() -> None:
    teller = Teller({"a": 1.0}, nodes=[8], warmup_s=HOUR_S + 1800, until_s=3 * HOUR_S)
    teller.submit(0, "early", "a", 8)
    teller.start(60, "early")
    teller.stop(2 * HOUR_S, "early")
    told = measure(teller.story())
    assert told.span_s == 5400
    assert told.gpu_hours["budgeted"] == 4
    assert told.wait_s["all"]["n"] == told.first_wait_s["all"]["n"] == 0
    assert told.jobs["submitted"] == 0
    assert told.jobs["finished"] == 1
    assert measure(teller.story(), since_s=2 * HOUR_S).gpu_hours["budgeted"] == 0


def test_hours_are_those_of_the_record() -> None:
    assert Span(5400, 12_000).hour_edges().tolist() == [5400, 7200, 10_800, 12_000]
    assert Span(3600, 7200).hour_edges().tolist() == [3600, 7200]
    assert Span(50, 50).hour_edges().tolist() == [50]


def test_a_record_without_an_end_ends_with_its_last_event() -> None:
    teller = Teller({"a": 1.0}, nodes=[8], until_s=NEVER_S)
    teller.submit(0, "one", "a", 8)
    teller.start(0, "one")
    teller.stop(HOUR_S, "one")
    told = measure(teller.story())
    assert told.span_s == HOUR_S
    assert told.occupancy == 1


def test_an_empty_span_divides_nothing() -> None:
    told = measure(replace(random_story(1), warmup_s=10_800))
    assert told.span_s == 0
    assert (told.occupancy, told.availability, told.delivered["total"]) == (None, None, None)
    assert told.preemptions["per_day"] is None


def test_a_story_that_holds_more_than_there_is_is_refused() -> None:
    teller = Teller({"a": 1.0}, nodes=[8], until_s=HOUR_S)
    for job in ("one", "two"):
        teller.submit(0, job, "a", 8)
        teller.start(0, job)
    with pytest.raises(AuditError, match="more GPUs were held"):
        measure(teller.story())


def test_the_keys_are_fixed() -> None:
    told = measure(random_story(3)).to_dict()
    assert set(told) >= KEYS
    assert set(told["jobs"]) >= {"submitted", "finished", "failed", "cancelled", "waiting", "running"}
    assert set(told["gpu_hours"]) == {"capacity", "down", "idle", "budgeted", "unbudgeted", "lost"}
    assert set(told["delivered"]) >= {"total", "worst", "hourly", "hourly_worst", "accounts"}
    assert set(told["speed"]) == {"wall_s", "jobs_per_s", "turns"}
    for kind in ("budgeted", "unbudgeted"):
        assert set(told["preemptions"][kind]) == {"count", "per_day", "lost_gpu_h", "max_per_job"}
