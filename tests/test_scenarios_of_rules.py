"""One rule each: small worlds whose file begins with the rule's number, and their right values."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from played import HOUR, Played, changed, play, scenario

Told = Callable[..., Played]
TURN_S, GRACE_S = 300, 120


def test_s01_each_cluster_has_its_own_shares(told: Told) -> None:
    played = told("s01_each")
    assert played.mean_gpus("a", 4, 24, cluster="mars") == pytest.approx(16, abs=2)
    assert played.mean_gpus("a", 4, 24, cluster="venus") == pytest.approx(8, abs=2)
    assert played.mean_gpus("b", 4, 24, cluster="venus") == pytest.approx(24, abs=2)


def test_s01_entitlements_are_of_healthy_gpus(told: Told) -> None:
    played = told("s01_dead")
    for account in "ab":
        assert played.account(account)["owed_gpu_h"] == pytest.approx(0.5 * (32 * 10 + 16 * 10), rel=1e-9)
    assert played.measures["gpu_hours"]["down"] == 16 * 10
    assert played.measures["availability"] == pytest.approx(1 - 160 / 640)


def test_s02_use_is_charged_to_all_above(told: Told) -> None:
    played = told("s02")
    hours = {path: row["delivered_gpu_h"] for path, row in played.measures["delivered"]["accounts"].items()}
    assert (hours["P"], hours["P/x"], hours["Q"]) == (8, 4, 4)


def test_s08_what_a_program_cannot_use_is_its_children_of_share_0_first(told: Told) -> None:
    played = told("s08_accounts")
    assert played.mean_gpus("p/x", 24, 72) == played.mean_gpus("p/y", 24, 72) == 2
    assert played.mean_gpus("p/z", 24, 72) == pytest.approx(2, abs=0.1)
    assert played.mean_gpus("p", 24, 72) == pytest.approx(8, abs=0.2)


def test_s03_share_0_gives_way_and_stays_away(told: Told) -> None:
    played = told("s03")
    assert played.starts("z-0") == [0]
    assert played.events("stopping", "z-0")[0]["t"] == 2 * HOUR
    assert played.starts("a") == [2 * HOUR + GRACE_S]
    assert played.gpu_s("z", 3 * HOUR) == 0


def test_s04_measures_begin_after_the_warmup(told: Told) -> None:
    measures = told("s04").measures
    assert measures["span_s"] == 3 * HOUR
    hours = measures["gpu_hours"]
    assert (hours["capacity"], hours["budgeted"], hours["unbudgeted"], hours["idle"]) == (24, 4, 2, 18)


def test_s05_a_half_life_shares_as_well(told: Told) -> None:
    hours = [told("s05").gpu_s(account) / 8 / HOUR for account in "ab"]
    assert hours == [pytest.approx(12, abs=1), pytest.approx(12, abs=1)]


def test_s07_priority_counts_inside_one_account_only(told: Told) -> None:
    played = told("s07_priority")
    assert played.starts("late") == [HOUR]
    assert played.starts("other") == [HOUR]
    assert played.starts("early") == [4 * HOUR]


def test_s09_a_limit_holds_for_all_below(told: Told) -> None:
    played = told("s09_limits")
    assert played.starts("x") == [0]
    assert len(played.starts("filler-0") + played.starts("filler-1")) == 1
    assert played.starts("y")[:1] == [4 * HOUR]


def test_s09_own_unbudgeted_work_makes_way(told: Told) -> None:
    played = told("s09_own")
    (stop,) = played.events("stopping")
    assert (stop["job"], stop["by"], stop["t"], stop["rule"]) == ("filler", "paid", HOUR, "over_limit")
    assert played.starts("paid") == [HOUR + 15]


def test_s10_unbudgeted_work_is_stopped_at_once(told: Told) -> None:
    played = told("s10")
    (stop,) = played.events("stopping")
    assert (stop["t"], stop["grace_until_s"], stop["rule"]) == (600, 615, "free_work")
    assert played.events("notice") == []
    assert played.starts("paid") == [615]
    assert played.starts("filler") == [0, 615 + HOUR]


def test_s11_cancelled_jobs_never_return(told: Told) -> None:
    played = told("s11_a_cancelled")
    (left,) = played.events("cancelled")
    assert (left["job"], left["t"], left["by"], left["reason"]) == ("waits", 1800, "ann", "not needed")
    (stopping,) = played.events("stopping")
    assert (stopping["job"], stopping["t"], stopping["cause"]) == ("runs", HOUR, "cancelled")
    (stop,) = played.stops("runs")
    assert stop["end"] == "cancelled"
    assert played.starts("next") == [stop["t"]]
    assert played.starts("waits") == []
    assert played.measures["jobs"]["cancelled"] == 2


def test_s11_a_timed_out_job_never_returns(told: Told) -> None:
    played = told("s11_a_job_is_timed_out")
    (stop,) = played.stops("endless")
    assert stop["end"] == "timed_out"
    assert HOUR <= stop["t"] <= HOUR + GRACE_S
    assert played.events("requeued") == []
    assert played.starts("next") == [stop["t"]]


def test_s12_a_quick_job_waits_for_quick_jobs(told: Told) -> None:
    played = told("s12_a_quick_job_never")
    assert played.events("stopping") == []
    assert played.starts("b") == [HOUR]


def test_s12_a_quick_job_is_not_safe_for_ever(told: Told) -> None:
    played = told("s12_what_says")
    (stop,) = played.events("stopping")
    assert (stop["t"], stop["by"], stop["account"]) == (8 * HOUR, "b", "a")


def test_s12_a_quick_job_takes_what_may_be_taken(told: Told) -> None:
    played = told("s12_a_quick_job_takes")
    (stop,) = played.events("stopping")
    assert (stop["t"], stop["by"]) == (HOUR, "b")
    assert played.starts("b") == [HOUR + GRACE_S]


def test_s16_more_than_a_turn_looks_at_starts_at_once(told: Told) -> None:
    played = told("s16_more")
    assert [line["t"] for line in played.events("started")] == [10] * 100


def test_s12_priority_stops_nobody_of_its_own_account(told: Told) -> None:
    played = told("s12_no_stop")
    assert played.events("stopping") == []
    assert played.starts("new") == [5 * HOUR]


def test_s12_a_session_is_left_alone_for_two_hours(told: Told) -> None:
    played = told("s12_a_session")
    (stop,) = played.events("stopping", "session")
    assert 4.5 * HOUR <= stop["t"] <= 4.5 * HOUR + TURN_S
    assert played.stops("session")[0]["end"] == "preempted"
    assert len(played.starts("session")) == 1


def test_s17_what_a_gang_could_not_stop_by_its_date_does_not_start_on_its_nodes(told: Told) -> None:
    played = told("s17_a_session")
    (promise,) = played.events("planned", "gang")
    assert promise["at_s"] == HOUR
    assert played.starts("batch")[0] == 10 * 60
    (start_s,) = played.starts("gang")
    assert start_s == HOUR + GRACE_S
    assert played.starts("session") == [start_s + 2 * HOUR]


def test_s17_a_gang_is_promised_nothing_across_a_closing(told: Told) -> None:
    played = told("s17_nothing_is_promised")
    (promise,) = played.events("planned", "gang")
    assert (promise["t"], promise["at_s"]) == (6 * HOUR, 10 * 60 + 8 * HOUR)
    assert played.starts("gang") == [promise["at_s"] + GRACE_S]


def test_s19_what_would_reach_past_a_closing_starts_elsewhere_or_waits(told: Told) -> None:
    played = told("s19_a_node_that")
    where = {x["job"]: list(x["nodes"]) for x in played.events("started") if x["attempt"] == 1}
    assert where["short"] == where["filler"] == ["jupiter-0000"]
    assert where["long"] == ["jupiter-0001"]
    assert played.starts("late") == [8 * HOUR]


def test_s19_a_closing_node_is_left_like_a_sick_one(told: Told) -> None:
    played = told("s19_a_node_that")
    stops = {x["job"]: x["t"] for x in played.events("stopping") if x["cause"] == "drain"}
    assert stops == {"filler": 4 * HOUR, "before": 6 * HOUR}
    states = [(x["t"], x["state"]) for x in played.events("node")]
    assert states[1:] == [(4 * HOUR, "draining"), (6 * HOUR + GRACE_S, "drained"), (8 * HOUR, "up")]
    (notice,) = played.events("notice", "before")
    assert (notice["interruptible_at_s"], notice["t"]) == (6 * HOUR, 6 * HOUR - 2 * TURN_S)


def test_s07_unbudgeted_work_that_was_stopped_less_comes_first(told: Told) -> None:
    played = told("s07_unbudgeted")
    assert [x["job"] for x in played.events("stopping")] == ["old"] * 15
    starts, (new_s,) = played.starts("old"), played.starts("new")
    assert starts[14] > 145 * 60  # older than `new`, which waits too: still first after fourteen stops
    assert starts[14] < new_s < starts[15]
    assert starts[15] == new_s + HOUR


def test_s13_the_cheapest_legal_victim_is_stopped(told: Told) -> None:
    played = told("s13_the_cheapest")
    assert [(x["job"], x["t"]) for x in played.events("stopping")] == [("cheap", 3 * HOUR)]


def test_s13_unbudgeted_work_goes_before_budgeted(told: Told) -> None:
    played = told("s13_unbudgeted")
    assert [(x["job"], x["t"]) for x in played.events("stopping")] == [("filler", 3 * HOUR)]
    assert played.starts("new") == [3 * HOUR + 15]


def test_s15_a_limit_within_the_grace_changes_no_word(told: Told) -> None:
    played = told("s15_a_limit")
    assert [(x["t"], x["end"]) for x in played.stops("z")] == [
        (2 * HOUR + 60, "preempted"),
        (played.starts("z")[1] + HOUR, "finished"),  # 59 minutes are left, and the restart
    ]


def test_s15_work_that_cannot_resume_ends_preempted(told: Told) -> None:
    played = told("s15_work_that_cannot")
    (stop,) = played.stops("old")
    assert (stop["end"], stop["t"]) == ("preempted", HOUR + GRACE_S)
    assert played.starts("old") == [0]
    assert played.starts("new") == [HOUR + GRACE_S]


def test_s15_work_may_finish_within_its_grace(told: Told) -> None:
    played = told("s15_work_may")
    assert played.events("stopping")[0]["t"] == 2 * HOUR
    (stop,) = played.stops("old")
    assert (stop["end"], stop["t"]) == ("finished", 2 * HOUR + 60)
    assert played.starts("new") == [2 * HOUR + 60]
    assert played.measures["preemptions"]["count"] == 0


def test_s15_failed_work_is_not_queued_again(told: Told) -> None:
    played = told("s15_work_that_fails")
    (stop,) = played.stops("bad")
    assert (stop["end"], stop["t"]) == ("failed", HOUR)
    assert played.starts("next") == [HOUR]
    assert played.measures["jobs"]["failed"] == 1


def test_s17_a_gang_starts_within_a_turn_of_its_last_promise(told: Told) -> None:
    played = told("s17_a_promise")
    start_s = played.starts("gang")[0]
    promises = [x["at_s"] for x in played.events("planned", "gang") if x["t"] <= start_s]
    assert promises[0] == 4 * HOUR
    assert start_s <= promises[-1] + GRACE_S + TURN_S


def test_s18_another_type_is_not_held_up(told: Told) -> None:
    played = told("s18_a_head_waiting_for_one_type")
    assert played.starts("later") == [20 * 60]
    assert played.starts("head") == [4 * HOUR]


def test_s18_another_cluster_is_not_held_up(told: Told) -> None:
    played = told("s18_a_head_waiting_for_one_cluster")
    assert played.starts("later") == [20 * 60]
    assert played.starts("head") == [4 * HOUR]


def test_s18_one_rack_where_asked(told: Told) -> None:
    played = told("s18_a_gang_may")
    assert played.starts("apart")[:1] == [20 * 60]
    assert 2 * HOUR <= played.starts("together")[0] <= 2 * HOUR + GRACE_S + TURN_S


def test_s18_a_gang_is_in_one_cluster(told: Told) -> None:
    played = told("s18_a_gang_does")
    assert played.events("started", "gang")[0]["cluster"] == "mars"
    assert 2 * HOUR <= played.starts("gang")[0] <= 2 * HOUR + GRACE_S + TURN_S


def test_s19_a_draining_node_empties_by_itself(told: Told) -> None:
    played = told("s19_a_draining")
    causes = [(x["job"], x["t"], x["cause"]) for x in played.events("stopping") if x["t"] < 6 * HOUR]
    assert causes == [("filler", HOUR, "drain"), ("paid", 3 * HOUR, "drain")]
    assert played.starts("more")[0] == 6 * HOUR
    assert played.starts("paid")[1] == 6 * HOUR
    empty_s = 6 * HOUR - (3 * HOUR + GRACE_S)
    assert played.measures["gpu_hours"]["down"] == pytest.approx(8 * empty_s / HOUR)


def test_s19_by_level_too_a_sick_node_is_left_at_the_end_of_a_protection() -> None:
    mapping = changed(scenario("s19_a_draining"), "jobs", 0, "min_runtime", to="10001s")  # between two ticks
    played = play(mapping, policy="priority")
    (stop,) = [x for x in played.events("stopping", "paid") if x["cause"] == "drain"]
    assert stop["t"] == 10001


def test_s20_a_dead_node_takes_its_own_work_only(told: Told) -> None:
    played = told("s20_a_dead")
    failed, finished = played.stops("dies")
    assert (failed["t"], failed["end"]) == (70 * 60, "node_failed")
    again_s = 70 * 60 + 2 * HOUR
    assert played.starts("dies") == [0, again_s]
    assert finished["t"] == again_s + 60 + 2 * HOUR  # the save at 1 hour is the newest
    assert played.starts("lives") == [0]
    assert played.stops("lives") == []
    assert played.measures["gpu_hours"]["down"] == 16


def test_s20_a_gang_restarts_once_for_two_dead_nodes(told: Told) -> None:
    played = told("s20_two")
    assert [(x["t"], x["end"]) for x in played.stops("gang")][:1] == [(2 * HOUR, "node_failed")]
    assert played.starts("gang") == [0, 3 * HOUR]
    assert played.starts("other") == [0]
    assert played.stops("other") == []


def test_s20_the_last_word_of_an_instant_holds(told: Told) -> None:
    played = told("s20_the_last")
    (stop,) = played.stops("runs")
    assert (stop["end"], stop["t"]) == ("finished", 3 * HOUR)
    assert played.measures["gpu_hours"]["down"] == 0


def test_resting_work_comes_back_after_half_an_hour(told: Told) -> None:
    again_s = told("reason_resting").starts("filler")[1]
    assert 600 + 1800 <= again_s <= 615 + 1800 + TURN_S


def test_patience_ends_after_half_an_hour(told: Told) -> None:
    (stop,) = told("reason_patience").events("stopping", "old")
    assert 5.5 * HOUR <= stop["t"] <= 5.5 * HOUR + TURN_S


def test_a_held_job_starts_when_it_is_released(told: Told) -> None:
    played = told("case_09")
    assert [(x["event"], x["t"], x["by"]) for x in played.lines if x["event"] in ("held", "released")] == [
        ("held", HOUR, "ann"),
        ("released", 2 * HOUR, "ann"),
    ]


def test_a_saver_starts_and_a_quick_job_is_not_behind_it(told: Told) -> None:
    played = told("reason_behind_own")
    assert 4 * HOUR <= played.starts("quick")[0] <= 4 * HOUR + GRACE_S + TURN_S
    # a debt of 48 GPU-hours at no more than 8 GPUs cannot be saved up in less than 6 hours
    assert 6 * HOUR <= played.starts("large")[0] <= 9 * HOUR
    assert played.starts("later")[0] >= 6 * HOUR
