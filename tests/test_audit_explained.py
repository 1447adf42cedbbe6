"""What the audit explains: missing hours by cause, the one table, signs of misuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stories import HOUR_S, Teller, random_story
from tenure.audit.examine import examine
from tenure.audit.hours import hours_of
from tenure.audit.ledger_table import LedgerSums, exact_ledger
from tenure.audit.moments import UGPU, Sweep
from tenure.audit.record import Record
from tenure.audit.rounding import apportion, fill_up
from tenure.audit.shortfall import CAUSES, Shortfalls
from tenure.core.words import End, NodeState

MANY = settings(max_examples=50, deadline=None)


def causes_of(teller: Teller, account: str) -> dict[str, float]:
    """The causes that are not zero, in GPU-hours."""
    told = examine(teller.story()).shortfall["accounts"][account]
    assert sum(told["causes"].values()) == pytest.approx(told["total_gpu_h"], abs=1e-9)
    return {cause: round(part, 6) for cause, part in told["causes"].items() if round(part, 6)}


def two_accounts(nodes: tuple[int, ...] = (8,), **more: Any) -> Teller:
    return Teller({"a": 0.5, "b": 0.5}, nodes=list(nodes), until_s=HOUR_S, **more)


# --- why hours are missing ----------------------------------------------------------------------------
@pytest.mark.slow
@MANY
@given(st.integers(0, 10**6), st.integers(1, 3), st.booleans())
def test_causes_sum_to_the_shortfall_exactly(seed: int, clusters: int, limits: bool) -> None:
    record = Record(random_story(seed, turns=150, clusters=clusters, limits=limits))
    hours = hours_of(record)
    shortfalls = Shortfalls(record)
    for moments in Sweep(record, causes=True).chunks():
        shortfalls.add(moments)
    parts = shortfalls.parts(hours)
    owed, delivered = hours.owed_ugpu_s[record.leaves], hours.delivered_ugpu_s[record.leaves]
    assert (parts >= 0).all()
    assert parts.shape[-1] == len(CAUSES)
    assert np.array_equal(parts.sum(axis=-1), owed - np.minimum(owed, delivered))


def test_what_others_hold_under_protection() -> None:
    teller = two_accounts()
    teller.submit(0, "long", "b", 8, min_runtime_s=8 * HOUR_S)
    teller.start(0, "long")
    teller.submit(0, "waits", "a", 4)
    assert causes_of(teller, "a") == {"protection_of_others": 4.0}


def test_what_others_hold_past_their_protection() -> None:
    teller = two_accounts()
    teller.submit(0, "long", "b", 8, min_runtime_s=900)
    teller.start(0, "long")
    teller.submit(0, "waits", "a", 4)
    assert causes_of(teller, "a") == {"protection_of_others": 1.0, "catch_up_of_others": 3.0}


def test_a_grace_is_protection() -> None:
    teller = two_accounts()
    teller.submit(0, "long", "b", 8, min_runtime_s=900)
    teller.start(0, "long")
    teller.submit(0, "waits", "a", 4)
    teller.stopping(2700, "long", 3600, by="waits")
    assert causes_of(teller, "a") == {"protection_of_others": 2.0, "catch_up_of_others": 2.0}


def test_free_gpus_none_fitting() -> None:
    teller = two_accounts((8, 8))
    for node in (0, 1):
        teller.submit(0, f"b{node}", "b", 4)
        teller.start(0, f"b{node}", {f"jupiter-000{node}": 4})
    teller.submit(0, "whole", "a", 8)
    assert causes_of(teller, "a") == {"shape": 8.0}


def test_gpus_kept_for_a_promise() -> None:
    teller = two_accounts((8, 8))
    teller.submit(0, "gang", "b", 16)
    teller.plan(0, "gang", 7200)
    teller.submit(0, "waits", "a", 8)
    assert causes_of(teller, "a") == {"held_for_gang": 8.0}
    teller.unplan(1800, "gang")
    assert causes_of(teller, "a") == {"held_for_gang": 4.0, "shape": 4.0}


def test_gpus_of_work_that_died_with_its_node() -> None:
    teller = two_accounts((8, 8))
    teller.submit(0, "one", "a", 8)
    teller.start(0, "one")
    teller.node(1800, "jupiter-0000", NodeState.DOWN)
    teller.stop(1800, "one", End.NODE_FAILED)
    teller.requeue(1800, "one")
    # owed: 8 of 16 for half an hour, then 4 of 8; delivered 8 for half an hour
    assert causes_of(teller, "a") == {"node_down": 2.0}


def test_its_own_limit() -> None:
    teller = two_accounts((8, 8), limits={"a": 6})
    for job in ("one", "two"):
        teller.submit(0, job, "a", 4)
    teller.start(0, "one")
    teller.submit(0, "blocks", "b", 8)
    teller.start(0, "blocks", {"jupiter-0001": 8})
    teller.stop(HOUR_S // 2, "blocks")
    teller.submit(HOUR_S // 2, "whole", "b", 8)
    assert causes_of(teller, "a") == {"own_limit": 2.0}  # 6 are owed at most, 4 run, the next 4 would be 8
    assert causes_of(teller, "b") == {"shape": 4.0}  # a limit of others is none of its own


def test_accounts_that_are_short_together_share_what_lies_idle() -> None:
    teller = Teller({"a": 0.25, "b": 0.25, "c": 0.5}, nodes=[4, 4, 4, 4], until_s=HOUR_S)
    teller.submit(0, "big", "c", 12)
    teller.start(0, "big", {f"jupiter-000{n}": 4 for n in range(3)})
    for account in "ab":
        teller.submit(0, f"{account}1", account, 8)
    for account in "ab":
        assert causes_of(teller, account) == {"shape": 2.0, "protection_of_others": 2.0}


# --- the one table ------------------------------------------------------------------------------------
@pytest.mark.slow
@MANY
@given(st.integers(0, 10**6), st.integers(1, 3), st.booleans())
def test_columns_add_up_to_capacity_exactly(seed: int, clusters: int, limits: bool) -> None:
    record = Record(random_story(seed, turns=150, clusters=clusters, limits=limits))
    hours, sums = hours_of(record), LedgerSums(record)
    for moments in Sweep(record, causes=True).chunks():
        sums.add(moments)
    table = exact_ledger(record, hours, sums)
    for row in record.leaves:
        assert table["entitled"][row] == (
            table["delivered"][row] - table["borrowed"][row] + table["lent"][row] + table["idle"][row]
        )
    assert (table["lent"] >= 0).all()
    assert (table["idle"] >= 0).all()

    def whole(name: str) -> int:
        return int(table[name][record.leaves].sum())

    down, unbudgeted, idle = (
        int(column.sum()) * UGPU for column in (hours.down_gpu_s, hours.unbudgeted_gpu_s, hours.idle_gpu_s)
    )
    nobody = table["unassigned"]
    capacity = int(hours.capacity_gpu_s.sum()) * UGPU
    assert whole("entitled") + nobody["entitled"] + down == capacity
    assert whole("delivered") + unbudgeted + idle + down == capacity
    assert whole("borrowed") + unbudgeted == whole("lent") + nobody["lent"]
    assert whole("idle") + nobody["idle"] == idle


def test_one_table_by_hand() -> None:
    """b is entitled to 4 of 8 and asks for nothing; a runs 6 on its own 4; one unbudgeted GPU; one idle."""
    teller = two_accounts()
    teller.price = (2.5,)
    teller.submit(0, "six", "a", 6)
    teller.start(0, "six")
    teller.submit(0, "free", "b", 1, min_runtime_s=0)
    teller.start(0, "free")
    table = examine(teller.story()).ledger
    a, b = table["accounts"]["a"], table["accounts"]["b"]
    assert (a["entitled_gpu_h"], a["owed_gpu_h"], a["delivered_gpu_h"], a["borrowed_gpu_h"]) == (4, 4, 6, 2)
    assert (b["entitled_gpu_h"], b["owed_gpu_h"], b["delivered_gpu_h"], b["demand_gpu_h"]) == (4, 0, 0, 0)
    assert (a["lent_gpu_h"], b["lent_gpu_h"], b["idle_gpu_h"]) == (0, 3, 1)
    assert (table["unbudgeted_gpu_h"], table["idle_gpu_h"], table["capacity_gpu_h"]) == (1, 1, 8)
    assert (a["cost"], table["costs"]["capacity"], table["costs"]["unbudgeted"]) == (15.0, 20.0, 2.5)


def test_no_prices_no_money() -> None:
    table = examine(random_story(1)).ledger
    assert "costs" not in table
    assert all("cost" not in row for row in table["accounts"].values())


def test_series_are_averages_of_hours() -> None:
    teller = two_accounts()
    teller.submit(0, "six", "a", 6)
    teller.start(1800, "six")
    series = examine(teller.story()).series
    assert series.paths == ["a", "b"]
    assert series.delivered.tolist() == [[3.0], [0.0]]
    assert series.owed.tolist() == [[4.0], [0.0]]
    assert series.demand.tolist() == [[6.0], [0.0]]
    assert series.idle + series.budgeted + series.unbudgeted + series.down == series.capacity == [8.0]


# --- signs of misuse ----------------------------------------------------------------------------------
def found(teller: Teller) -> list[dict[str, Any]]:
    return examine(teller.story()).signals["found"]


def test_one_job_cut_into_many_shows() -> None:
    teller = Teller({"a": 0.5, "b": 0.5}, nodes=[8], until_s=8 * HOUR_S)
    for n in range(10):
        teller.submit(n * 1800, f"cut-{n}", "a", 4, min_runtime_s=1800)
        teller.start(n * 1800 + 20, f"cut-{n}")
        teller.stop((n + 1) * 1800, f"cut-{n}")
    (signal,) = found(teller)
    assert (signal["signal"], signal["account"], signal["jobs"]) == ("splitting", "a", 10)
    assert (signal["relays"], signal["longest_jobs"], signal["example"]) == (1, 10, "cut-0")
    assert signal["longest_h"] == pytest.approx(5.0, abs=0.01)
    assert signal["gpu_h"] == pytest.approx(20.0, abs=0.3)


def test_an_array_of_short_jobs_side_by_side_does_not() -> None:
    teller = Teller({"a": 1.0}, nodes=[8, 8], until_s=8 * HOUR_S)
    for n in range(12):
        teller.submit(0, f"side-{n}", "a", 2, min_runtime_s=600)
        teller.start((n // 6) * 600, f"side-{n}", {f"jupiter-000{n % 2}": 2})
        teller.stop((n // 6) * 600 + 600, f"side-{n}")
    assert found(teller) == []


def test_declaring_eight_hours_and_using_fifteen_minutes_shows() -> None:
    teller = Teller({"a": 0.5, "b": 0.5}, nodes=[8], until_s=8 * HOUR_S)
    for job, used_s in (("brief", 900), ("honest", 7 * HOUR_S)):
        teller.submit(0, job, "a", 4, min_runtime_s=8 * HOUR_S)
        teller.start(0, job)
        teller.stop(used_s, job)
    teller.submit(0, "resumed", "b", 1, min_runtime_s=2 * HOUR_S)
    teller.start(7 * HOUR_S, "resumed")
    teller.stop(7 * HOUR_S + 1800, "resumed", End.PREEMPTED)
    teller.requeue(7 * HOUR_S + 1800, "resumed")
    teller.start(7 * HOUR_S + 2000, "resumed")
    teller.stop(7 * HOUR_S + 2060, "resumed")  # the rest of its work: no sign of anything
    (signal,) = found(teller)
    assert (signal["signal"], signal["account"]) == ("overdeclared", "a")
    assert (signal["jobs"], signal["of_jobs"], signal["example"]) == (1, 2, "brief")
    assert (signal["gpu_h"], signal["declared_gpu_h"]) == (1.0, 32.0)
    assert (signal["example_declared_s"], signal["example_used_s"]) == (8 * HOUR_S, 900)


def test_protected_gpus_at_idle_show_where_the_story_can_tell() -> None:
    teller = Teller({"a": 1.0}, nodes=[8], until_s=4 * HOUR_S)
    teller.submit(0, "sleeps", "a", 8, min_runtime_s=2 * HOUR_S)
    teller.start(0, "sleeps")
    teller.utilisation(HOUR_S, "sleeps", 0.9)
    teller.utilisation(3 * HOUR_S, "sleeps", 0.02)
    (signal,) = found(teller)
    assert (signal["signal"], signal["account"], signal["jobs"]) == ("idle_protected", "a", 1)
    assert signal["gpu_h"] == 8  # from 1 h, when it was last measured, to the end of its protection


# --- parts of a whole ---------------------------------------------------------------------------------
@given(st.integers(0, 10**15), st.lists(st.floats(0, 1e12), min_size=6, max_size=6))
def test_parts_sum_to_their_whole(whole: int, weights: list[float]) -> None:
    parts = apportion(np.array([whole]), np.array([weights]), otherwise=3)
    assert parts.sum() == whole
    assert (parts >= 0).all()


@given(st.lists(st.tuples(st.integers(0, 10**12), st.floats(0, 1)), min_size=1, max_size=9))
def test_parts_never_exceed_what_there_is(rows: list[tuple[int, float]]) -> None:
    most = np.array([row[0] for row in rows])
    wanted = most * np.array([row[1] for row in rows])
    total = round(wanted.sum())
    parts = fill_up(min(total, int(most.sum())), wanted, most)
    assert parts.sum() == min(total, int(most.sum()))
    assert (parts <= most).all()
    assert (parts >= 0).all()
