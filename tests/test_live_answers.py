"""What people are told is true when they ask: in a lab where nothing happens, and after a restart."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from live_lab import LAB, Small
from tenure.client.messages import AccountUse
from tenure.service.live.desk import Desk
from tenure.service.live.errors import NotKnown
from tenure.service.live.people import Who
from tenure.service.live.queueing import Wanted, queue
from tenure.service.live.showing import events, log, show, why
from tenure.service.live.standings import accounts
from tenure.service.live.submitting import checked, receipt_of, why_if
from tenure.web.metrics import account_table

ANN = Who("ann", admin=True)
HOUR_S = 3600


def desk_of(small: Small) -> Desk:
    return Desk(small.lab, small.ledger, small.daemon, small.engine, now=small.clock.now)


def standing(desk: Desk) -> dict[str, AccountUse]:
    return {one.account: one for one in accounts(desk, ANN).accounts}


def asked(**keys: Any) -> Mapping[str, Any]:
    return {"account": "a", "gpus": 8, "min_runtime": "1h", "command": ["true"], **keys}


def test_how_accounts_stand_is_told_as_of_now_though_no_turn_was_needed(tmp_path: Path) -> None:
    small = Small(tmp_path)
    small.submit("b/x", 8, min_runtime="1h", runtime=9 * HOUR_S)
    turn = small.view.turn
    small.clock.set(small.clock.now() + 2 * HOUR_S)
    told = standing(desk_of(small))["b/x"]
    assert small.view.turn == turn
    assert told.ratio == pytest.approx(told.used_gpu_h / told.entitled_gpu_h)
    assert told.used_gpu_h == pytest.approx(16, abs=0.1)


def test_how_accounts_stand_is_the_same_after_a_restart(tmp_path: Path) -> None:
    small = Small(tmp_path)
    small.submit("b/x", 16, min_runtime="1h", runtime=9 * HOUR_S)
    small.submit("a", 8, min_runtime="8h")
    small.to(small.t + 600)
    before, table = standing(desk_of(small)), account_table(small.view, small.t)
    reasons = {job: why(desk_of(small), ANN, job) for job in ("1", "2")}
    small.daemon.stop()
    small.wake_up()
    small.settle()
    desk = desk_of(small)
    assert before["b/x"].ratio
    assert before["b/x"].target
    assert standing(desk) == before
    assert account_table(small.view, small.t) == table
    for job, told in reasons.items():
        again = why(desk, ANN, job)
        assert (again.sentence, again.numbers) == (told.sentence, told.numbers)


def test_what_an_account_is_told_to_stand_at_is_what_its_gauges_say(tmp_path: Path) -> None:
    small = Small(tmp_path)
    small.submit("b/x", 16, min_runtime="1h", runtime=9 * HOUR_S)
    small.submit("a", 8, min_runtime="8h")
    small.to(small.t + 600)
    told = standing(desk_of(small))
    gauges = {
        name.removeprefix("tenure_account_"): dict(rows[0])
        for name, _, rows in account_table(small.view, small.t)
    }
    assert gauges["target_gpus"]["b"] == pytest.approx(told["b"].target)
    assert gauges["owed_gpu_seconds"]["b"] == pytest.approx(told["b"].debt_gpu_h * HOUR_S)
    assert gauges["ratio"]["b/x"] == pytest.approx(told["b/x"].ratio)


def test_no_gauge_has_a_ratio_of_what_is_entitled_to_nothing_or_of_the_root(tmp_path: Path) -> None:
    small = Small(tmp_path, {**LAB, "accounts": {"a": {"share": "100%"}, "free": {"share": "0%"}}})
    small.submit("a", 8, min_runtime="1h")
    small.to(small.t + 60)
    ratios = next(rows for name, _, rows in account_table(small.view, small.t) if name.endswith("ratio"))
    assert [account for account, _ in ratios[0]] == ["a"]


def test_the_queue_counts_from_now_on_not_from_the_newest_turn(tmp_path: Path) -> None:
    small = Small(tmp_path)
    small.submit("a", 8, min_runtime="1h", runtime=9 * HOUR_S)
    began = queue(desk_of(small), ANN, Wanted()).at
    small.clock.set(small.clock.now() + 1800)
    told = queue(desk_of(small), ANN, Wanted())
    assert told.jobs[0].since == began
    assert told.at == desk_of(small).date(small.t)


def test_what_was_foreseen_is_not_told_again_when_a_protection_has_ended(tmp_path: Path) -> None:
    small = Small(tmp_path)
    small.submit("b/x", 16, min_runtime="1h", runtime=99 * HOUR_S)
    desk, turn = desk_of(small), small.view.turn
    assert why_if(desk, ANN, asked()).reason == "no_place"
    small.clock.set(small.clock.now() + 2 * HOUR_S)
    later = why_if(desk, ANN, asked())
    assert small.view.turn == turn
    assert later.reason == "claiming"


def test_the_wait_for_what_makes_way_is_its_grace(tmp_path: Path) -> None:
    """Unbudgeted work has 15 s here, budgeted work 2 min; a turn follows as soon as the place is clear."""
    small = Small(tmp_path)
    small.submit("b/x", 16)
    desk = desk_of(small)
    receipt = receipt_of(desk, small.view, checked(desk, ANN, asked()))
    assert receipt.wait is not None
    assert receipt.wait.latest_s is not None
    assert 15 <= receipt.wait.latest_s <= 20


def test_gpus_of_a_node_that_is_out_of_service_are_not_free(tmp_path: Path) -> None:
    small = Small(tmp_path)
    small.submit("a", 8, min_runtime="1h")
    small.ask("node", "mars-0001", state="down", reason="dead")
    (use,) = queue(desk_of(small), ANN, Wanted()).clusters
    assert (use.healthy, use.free) == (8, 0)


def test_free_gpus_of_all_clusters_count_for_an_array_that_may_use_them(tmp_path: Path) -> None:
    clusters = {name: {"nodes": 1, "gpus_per_node": 8} for name in ("mars", "venus")}
    small = Small(tmp_path, {**LAB, "clusters": clusters})
    desk = desk_of(small)
    of_both = receipt_of(desk, small.view, checked(desk, ANN, asked(array="0-1")))
    assert of_both.notes == []
    of_one = receipt_of(desk, small.view, checked(desk, ANN, asked(array="0-1", clusters=["mars"])))
    assert "8 are free in mars now" in of_one.notes[0]


# --- arrays by their id -----------------------------------------------------------------------------------


def test_an_array_is_shown_by_the_id_that_its_submission_printed(tmp_path: Path) -> None:
    small = Small(tmp_path)
    array = small.submit("a", 8, min_runtime="1h", array="0-2%1", runtime=600)
    desk = desk_of(small)
    told = show(desk, ANN, array)
    assert (told.job, told.phase, told.end) == (array, "running", None)
    assert [(one.job, one.phase, one.held_by) for one in told.elements] == [
        (f"{array}_0", "running", None),
        (f"{array}_1", "waiting", "array"),
        (f"{array}_2", "waiting", "array"),
    ]
    assert why(desk, ANN, array).job == f"{array}_1"
    small.to(small.t + 3 * 700)
    told = show(desk, ANN, array)
    assert (told.phase, told.end, {one.end for one in told.elements}) == ("ended", "finished", {"finished"})
    assert told.ended is not None
    assert why(desk, ANN, array).phase == "ended"


def test_an_array_ends_as_the_worst_of_its_jobs_and_names_no_command_to_others(tmp_path: Path) -> None:
    small = Small(tmp_path)
    array = small.submit("a", 8, array="0-1", runtime=600, fails=True)
    small.ask("cancel", f"{array}_1")
    small.to(small.t + 700)
    told = show(desk_of(small), Who("bo"), array)
    assert (told.end, [one.end for one in told.elements]) == ("failed", ["failed", "cancelled"])
    assert (told.command, told.env) == (None, None)


@pytest.mark.parametrize("ask", [log, events])
def test_what_each_job_of_an_array_has_for_itself_is_asked_of_one(tmp_path: Path, ask: Any) -> None:
    small = Small(tmp_path)
    array = small.submit("a", 8, array="3-5")
    with pytest.raises(NotKnown, match=f"{array} is an array: say which of its jobs, {array}_3 … {array}_5"):
        ask(desk_of(small), ANN, array)
    with pytest.raises(NotKnown, match="there is no job '77'"):
        ask(desk_of(small), ANN, "77")


def test_the_queue_says_who_or_what_holds_a_job_back(tmp_path: Path) -> None:
    small = Small(tmp_path)
    small.submit("a", 8, min_runtime="1h")
    small.submit("a", 8, after=["1:ok"])
    small.submit("a", 8, array="0-1%1")
    small.submit("a", 8, hold=True)
    told = queue(desk_of(small), ANN, Wanted(state="waiting"))
    assert {one.job: (one.held_by, one.after) for one in told.jobs} == {
        "2": ("after", ["1:ok"]),
        "3_1": ("array", []),
        "4": ("ann", []),
    }
    assert (told.waiting, told.held, told.resting) == (3, 3, 0)
