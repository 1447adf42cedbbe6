"""Goodput of a job that fails: known values of every convention, invariants, and a play by chance."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from tenure.planner import goodput, save_interval
from tenure.planner.goodput import EXACT, FIRST_ORDER, RENEWAL, WALL, Run, Saves, buckets
from tenure.planner.groups import Groups, maps, stall_away, stall_that_pays, synchronous
from tenure.planner.plan_goodput import plan_goodput
from tenure.planner.play_groups import play_groups
from tenure.settings.errors import BadInput
from tenure.settings.goodput_file import goodput_file_of

LLAMA = 54 * 1440 / 419  # minutes between unexpected interruptions
LLAMA_ALL = 54 * 1440 / 466


def known(value, wanted, rel=1e-4):
    assert value == pytest.approx(wanted, rel=rel)


def mtbf_min(gpus, per_1000_node_days):
    return 1440 * 1000 / (gpus / 8 * per_1000_node_days)


def answer(**keys):
    return plan_goodput(goodput_file_of(keys))


SAVES = {"blocking": "1m", "every": "20m"}

# --- known values --------------------------------------------------------------------------------------


def test_a_mild_case_reads_alike_in_three_conventions():
    run = Run(180, 5, Saves(1, 20))
    known(run.ettr(EXACT), 0.87331, 1e-5)
    known(run.ettr(FIRST_ORDER), 0.87302, 1e-5)
    known(run.ettr(RENEWAL), 0.87364, 1e-5)


def test_a_hard_case_parts_them_and_the_first_order_is_flagged():
    run = Run(18, 10, Saves(0.05, 1.3))
    known(run.ettr(EXACT), 0.53204, 2e-5)
    known(run.ettr(FIRST_ORDER), 0.39321, 2e-5)
    known(run.ettr(RENEWAL), 0.59612, 2e-5)
    known(run.ettr(WALL), 4 / 9)
    assert FIRST_ORDER in goodput.out_of_range(run)
    assert FIRST_ORDER not in goodput.out_of_range(Run(180, 5, Saves(1, 20)))


def test_the_first_order_goes_negative_and_is_said_to():
    run = Run(18, 10, Saves(0.05, 60))
    assert run.ettr(FIRST_ORDER) < 0 < run.ettr(EXACT)
    assert FIRST_ORDER in goodput.out_of_range(run)


def test_intervals_have_their_known_values():
    known(save_interval.young(180, 1), 18.974)
    known(save_interval.daly(180, 1), 17.974)
    known(save_interval.daly_high(180, 1), 18.3129)
    known(save_interval.exact(180, 1), 18.3129)


@pytest.mark.parametrize(
    ("mtbf", "blocking", "recovery", "every", "ettr"),
    [
        (LLAMA, 1 / 3, 5, 10.902, 0.91624),
        (LLAMA_ALL, 1 / 3, 5, 10.33, 0.9104),
        (LLAMA, 1, 0, 18.6, 0.89975),
    ],
)
def test_llama_3_under_stated_assumptions(mtbf, blocking, recovery, every, ettr):
    run = Run(mtbf, recovery, Saves(blocking))
    known(run.every, every, 5e-4)
    known(run.ettr(), ettr)


@pytest.mark.parametrize(
    ("mtbf", "longest_s"),
    [(LLAMA, (53.8, 43.0, 33.4, 14.5)), (LLAMA_ALL, (47.8, 37.1, 27.8, 10.2))],
)
def test_the_longest_save_that_still_gives_90_percent(mtbf, longest_s):
    for recovery, seconds in zip((1, 3, 5, 10), longest_s):
        found = goodput.blocking_for(Run(mtbf, recovery), 0.9)
        assert 60 * found == pytest.approx(seconds, abs=0.06)


@pytest.mark.parametrize(
    ("gpus", "rate", "recovery", "saves", "first", "exact", "published"),
    [
        (16_000, 6.5, 5, Saves(0, 60), 0.6840, 0.720, 0.70),
        (16_000, 6.5, 5, Saves(0, 5), 0.9323, 0.934, 0.93),
        (8_000, 6.5, 6, Saves(0, 30), 0.905, 0.909, 0.90),
        (2_048, 6.5, 5, Saves(0, 60), 0.960, 0.960, None),
        (4_096, 6.5, 5, Saves(0, 60), 0.919, 0.922, None),
        (12_000, 6.5, 5, Saves(10 / 60), 0.9205, 0.922, 0.90),
        (12_000, 1.0, 5, Saves(5), 0.898, 0.897, 0.90),
        (100_000, 2.34, 2, Saves(0, 2), 0.939, 0.941, None),
    ],
)
def test_kokolis_scenarios(gpus, rate, recovery, saves, first, exact, published):
    run = Run(mtbf_min(gpus, rate), recovery, saves)
    if saves.every is None:  # its own optimum is Young's
        run = replace(run, saves=replace(saves, every=save_interval.young(run.mtbf, saves.blocking)))
    assert run.ettr(FIRST_ORDER) == pytest.approx(first, abs=6e-4)
    assert run.ettr(EXACT) == pytest.approx(exact, abs=6e-4)
    if published is not None:
        assert run.ettr(FIRST_ORDER) == pytest.approx(published, abs=0.0251)


def test_eighteen_minutes_are_the_rate_of_a_smaller_cluster_carried_over():
    told = answer(failures={"per_1000_node_days": 6.5, "nodes": 98_304 // 8}, recovery="10m")
    known(told["mtbf_s"] / 60, 18.03, 5e-3)
    for gpus, hours in ((16_384, 1.803), (131_072, 0.2254)):
        known(mtbf_min(gpus, 6.5) / 60, hours, 3e-4)


def test_44_and_80_percent_are_reproduced_by_one_line():
    sync, groups = synchronous(10), Groups(12, 3, 10)
    known(sync.wall(18), 0.4444, 2e-4)
    known(sync.renewal(18), 0.6429)
    known(sync.overlap(18), 0.5738)
    known(groups.wall(18), 0.8009)
    known(groups.renewal(18), 0.8340)
    known(groups.overlap(18), 0.8195)
    assert sync.wall(18) == pytest.approx(0.44, abs=0.005)
    assert groups.wall(18) == pytest.approx(0.80, abs=0.005)
    for away, part in ((5, 0.8241), (7, 0.8148), (15, 0.7778), (20, 0.7546)):
        known(Groups(12, 3, away).wall(18), part)


def test_an_independent_simulator_agrees_with_renewal():
    """AIReSim's recorded outputs: a clean run of 4,096 servers, and its default report."""
    clean = Run(1440 / (4096 * 0.01), 20)
    for recorded in (0.631, 0.644):
        assert clean.ettr(RENEWAL) == pytest.approx(recorded, abs=0.01)
    known(clean.ettr(RENEWAL), 0.6374)
    assert Run(33.07, 20).ettr(RENEWAL) == pytest.approx(0.6228, abs=0.001)


# --- by chance -----------------------------------------------------------------------------------------


def played(run, cycles, seed):
    """ETTR of a job played interval by interval, in which failures strike work, saves and recovery."""
    rng = np.random.default_rng([seed])
    clock, period, down = 0.0, run.every + run.saves.blocking, run.recovery
    left = cycles
    while left:
        strikes = rng.exponential(run.mtbf, left)
        failed = strikes < period
        clock += float(np.where(failed, strikes, period).sum())
        left = waiting = int(failed.sum())
        while waiting:
            strikes = rng.exponential(run.mtbf, waiting)
            again = strikes < down
            clock += float(np.where(again, strikes, down).sum())
            waiting = int(again.sum())
    return cycles * run.every / clock


@pytest.mark.parametrize("run", [Run(180, 5, Saves(1, 20)), Run(18, 10, Saves(0.05, 1.3))])
def test_the_exact_model_is_what_happens(run):
    assert played(run, 400_000, 1) == pytest.approx(run.ettr(), abs=0.002)


# --- invariants ----------------------------------------------------------------------------------------

CASES = [
    Run(mtbf, recovery, Saves(blocking, every, persist))
    for mtbf, recovery, blocking, every, persist in itertools.product(
        (1.0, 60.0, 5000.0), (0.0, 3.0, 70.0), (0.0, 0.3, 5.0), (None, 1.0, 45.0), (0.0, 4.0)
    )
]


def test_times_sum_to_the_wall():
    for run in CASES:
        parts = buckets(run)
        assert min(parts) >= 0
        assert sum(parts) == pytest.approx(1.0, abs=1e-12)
        assert parts.productive == pytest.approx(run.ettr(), abs=1e-15)


def test_more_recovery_longer_saves_and_more_failures_never_help():
    for run, convention in itertools.product(CASES, (EXACT, RENEWAL, FIRST_ORDER, WALL)):
        if convention == FIRST_ORDER and run.ettr(FIRST_ORDER) <= 0:
            continue  # out of its range
        now = run.ettr(convention) + 1e-12
        assert replace(run, recovery=run.recovery + 1).ettr(convention) <= now
        assert replace(run, mtbf=run.mtbf * 0.9).ettr(convention) <= now
        if convention != FIRST_ORDER or run.saves.every:
            saves = replace(run.saves, blocking=run.saves.blocking + 0.1)
            assert replace(run, saves=saves).ettr(convention) <= now


def test_the_exact_interval_is_the_best_one():
    for mtbf, blocking in itertools.product((1e-2, 1.0, 185.6, 1e7), (1e-6, 0.05, 1.0, 30.0)):
        best = Run(mtbf, 0, Saves(blocking))
        for factor in (0.5, 0.9, 0.999, 1.001, 1.1, 2.0):
            other = replace(best, saves=Saves(blocking, best.every * factor))
            assert other.ettr() <= best.ettr() * (1 + 1e-12)


def test_the_exact_interval_satisfies_its_equation_with_lamberts_function():
    special = pytest.importorskip("scipy.special")
    for mtbf, blocking in itertools.product((1.0, 185.6, 1e4), (0.05, 1.0, 30.0)):
        lambert = mtbf * (1 + special.lambertw(-math.exp(-1 - blocking / mtbf)).real)
        known(save_interval.exact(mtbf, blocking), lambert, 1e-7)


def test_what_saves_nothing_blocks_nothing_has_the_limit():
    for run in (Run(18, 10), Run(18, 10, Saves(0, 1e-9)), Run(18, 10, Saves(1e-15))):
        known(run.ettr(), math.exp(-10 / 18), 1e-6)
    assert save_interval.exact(18, 0) == 0


def test_inverse_answers_lead_back():
    for run, convention in itertools.product(CASES, (EXACT, RENEWAL, FIRST_ORDER, WALL)):
        for found, changed in (
            (goodput.recovery_for(run, 0.8, convention), lambda x, run=run: replace(run, recovery=x)),
            (goodput.mtbf_for(run, 0.8, convention), lambda x, run=run: replace(run, mtbf=x)),
            (
                goodput.blocking_for(run, 0.8, convention),
                lambda x, run=run: replace(run, saves=replace(run.saves, blocking=x)),
            ),
        ):
            if found:
                assert changed(found).ettr(convention) == pytest.approx(0.8, abs=1e-9)


# --- the plan ------------------------------------------------------------------------------------------


def test_the_plan_has_its_keys_and_says_its_conventions():
    told = answer(mtbf="18m", recovery="10m", groups={"count": 12, "stall": "3m", "away": "10m"})
    assert set(told["ettr"]) == {"exact", "renewal", "first_order", "wall"}
    assert set(told["interval_s"]) == {"young", "daly", "daly_high", "exact"}
    known(told["groups"]["wall"], 0.8009)
    known(told["groups_against_synchronous"]["synchronous"]["wall"], 0.4444, 2e-4)
    assert all(f"ettr.{name}" in told["conventions"] for name in told["ettr"])
    assert any("convergence" in warning for warning in told["warnings"])
    assert sum(told["time"].values()) == pytest.approx(1)


def test_background_saves_redo_what_was_not_yet_usable():
    told = answer(mtbf="3h", recovery="5m", checkpoint={**SAVES, "persist": "4m"})
    known(told["ettr"]["exact"], Run(180, 9, Saves(1, 20)).ettr())
    known(told["ettr"]["first_order"], (1 - (5 + 10 + 4) / 180) / 1.05)


def test_time_in_a_queue_stands_apart_and_counts_as_recovery():
    told = answer(mtbf="3h", recovery="4m", queue="1m", checkpoint=SAVES)
    known(told["ettr"]["exact"], 0.87331, 1e-5)
    known(told["time"]["queue"] / told["time"]["recovery"], 0.25)


def test_a_plan_asked_backwards_answers_in_its_own_units():
    failures = {"per_1000_node_days": 6.5, "nodes": 2048}
    told = answer(
        failures=failures, recovery="5m", checkpoint={"blocking": "20s", "every": "optimal"}, target="95%"
    )
    back = told["inverse"]
    again = answer(
        failures={"per_1000_node_days": back["per_1000_node_days"], "nodes": 2048},
        recovery="5m",
        checkpoint={"blocking": "20s", "every": "optimal"},
    )
    known(again["ettr"]["exact"], 0.95, 1e-9)


def test_a_store_says_how_long_saves_and_reloads_take_and_a_size_how_long_a_restart():
    store = {"gb": 2300, "gb_per_s": 57.5}
    told = answer(mtbf="3h", recovery="4m", checkpoint={"every": "20m"}, store=store)
    assert (told["blocking_s"], told["persist_s"], told["recovery_s"]["reload"]) == (40, 0, 40)
    told = answer(
        mtbf="3h",
        recovery="4m",
        checkpoint={"blocking": "1s", "every": "20m"},
        store={**store, "background": True},
        restart={"takes": "17s", "at_gpus": 16_384, "gpus": 98_304},
    )
    assert (told["blocking_s"], told["persist_s"]) == (1, 40)
    known(told["recovery_s"]["restart"], 200, 0.01)  # 17 s at 16 thousand, 200 s at 98: published
    known(
        told["ettr"]["exact"],
        Run(10_800, 240 + 40 + told["recovery_s"]["restart"], Saves(1, 1200, 40)).ettr(),
    )


def test_groups_pay_up_to_a_stall():
    groups = Groups(12, 3, 10)
    edge = stall_that_pays(10, groups, 18)
    known(Groups(12, edge, 10).loss, 10)
    assert groups.loss < 10


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"failures": {"per_1000_node_days": 6.5}, "mtbf": None}, "failures"),
        ({"failures": 6.5, "mtbf": None}, "failures"),
        ({"failures": {"events": 419}, "mtbf": None}, "failures"),
        ({"failures": {"events": 419, "days": 54, "nodes": 8}, "mtbf": None}, "failures"),
        ({"failures": {"events": 419, "days": 54}}, "mtbf"),
        ({"mtbf": None}, "mtbf"),
        ({"mtbf": 0}, "mtbf"),
        ({"mtbf": "18 parsecs"}, "mtbf"),
        ({"recovery": "-1m"}, "recovery"),
        ({"checkpoint": {"blocking": "1m", "every": 0}}, "checkpoint.every"),
        ({"checkpoint": {"blocking": "1m"}}, "checkpoint.every"),
        ({"groups": {"count": 12, "stall": "10m", "away": "3m"}}, "groups"),
        ({"groups": {"count": 1, "stall": "1m", "away": "3m"}}, "groups.count"),
        ({"convention": "best"}, "convention"),
        ({"checkpoint": {**SAVES}, "store": {"gb": 10, "gb_per_s": 1}}, "checkpoint.blocking"),
        ({"checkpoint": {"every": "9m"}}, "checkpoint.blocking"),
        ({"store": {"gb": 10, "gb_per_s": 0}}, "store.gb_per_s"),
        ({"target": 1}, "target"),
        ({"target": "nan"}, "target"),
        ({"mbtf": "18m"}, "mbtf"),
    ],
)
def test_what_is_wrong_in_a_file_is_one_message(change, key):
    keys = {"mtbf": "18m", "recovery": "10m"} | change
    with pytest.raises(BadInput) as refused:
        answer(**{k: v for k, v in keys.items() if v is not None})
    assert refused.value.key_path == key
    assert "\n" not in str(refused.value)


# --- groups, played -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "groups", [Groups(12, 3, 10), Groups(1, 10, 10), Groups(4, 3, 30), Groups(48, 2, 20), Groups(24, 0, 15)]
)
def test_groups_played_by_events_agree_with_overlap(groups):
    played_part = play_groups(np.random.default_rng(11), groups, 18, 3_000_000)
    assert played_part == pytest.approx(groups.overlap(18), abs=0.002)


def test_a_least_number_of_groups_stops_the_job_below_it():
    groups = Groups(4, 1, 10)
    parts = [play_groups(np.random.default_rng(3), groups, 18, 300_000, fewest) for fewest in (1, 3, 4)]
    assert parts == sorted(parts, reverse=True)
    assert parts[2] == pytest.approx(math.exp(-10 / 18), abs=0.005)  # all must be there: as one group


@pytest.mark.parametrize(("count", "fewest"), [(4, 3), (12, 11), (12, 9)])
def test_with_a_fewest_number_of_groups_play_agrees(count, fewest):
    groups = Groups(count, 1.0, 12.0, fewest=fewest)
    played = play_groups(np.random.default_rng(4), groups, 18.0, 8_000_000.0, fewest)
    assert groups.overlap(18.0) == pytest.approx(played, abs=0.002)
    assert groups.overlap(18.0) < replace(groups, fewest=1).overlap(18.0)


@pytest.mark.parametrize("fewest", [1, 7])
def test_a_penalty_is_of_what_is_worked_while_a_group_is_away(fewest):
    groups = Groups(8, 1.0, 8.0, penalty=0.5, fewest=fewest)
    rng = np.random.default_rng(6)
    away = np.array([len(set(rng.integers(8, size=k))) for k in rng.poisson(7.0 / 40.0, 200_000)])
    told = answer(
        mtbf="40m", recovery="8m", groups={"count": 8, "stall": "1m", "away": "8m", "penalty": 0.5}
    )["warnings"]
    assert any("50%" in warning for warning in told)
    assert not any("no loss of convergence" in warning for warning in told)
    works = np.where(away == 0, 1.0, 0.5) * (8 - away) / 8 * (8 - away >= fewest)
    assert groups.overlap(40.0) == pytest.approx(math.exp(-1 / 40) * works.mean(), abs=0.002)


@pytest.mark.parametrize(("penalty", "fewest"), [(0.0, 1), (0.5, 1), (0.0, 7), (0.5, 7), (0.2, 6)])
def test_the_table_of_where_groups_win_says_what_the_map_says(penalty, fewest):
    told = answer(
        mtbf="40m",
        recovery="8m",
        groups={"count": 8, "stall": "3m", "away": "9m", "penalty": penalty, "fewest": fewest},
    )["groups_against_synchronous"]
    field = told["maps"]["mtbf_s"]
    gains = field["gain"][field["values"].index(2400.0)]
    for row, gain in zip(told["map"], gains, strict=True):
        assert (row["pays_below_stall_s"] > 180.0) == (gain > 1e-9), row
    assert (told["pays_below_stall_s"] or 0.0) == pytest.approx(told["map"][2]["pays_below_stall_s"])


def test_more_groups_keep_the_part_of_the_job_that_must_be_there():
    assert [Groups(8, 1.0, 8.0, fewest=7).of(n).fewest for n in (2, 4, 8, 16, 64)] == [2, 4, 7, 14, 56]
    assert Groups(8, 1.0, 8.0).of(64).fewest == 1


def test_the_maps_hold_what_the_formulas_say_and_change_sign_where_groups_lose():
    groups = Groups(12, 180.0, 600.0)
    told = maps(groups, 600.0, 1080.0)
    column, row = told["mtbf_s"]["counts"].index(12), told["mtbf_s"]["values"].index(1080.0)
    expected = groups.overlap(1080.0) - synchronous(600.0).overlap(1080.0)
    assert told["mtbf_s"]["gain"][row][column] == pytest.approx(expected)
    field = stall_away(groups, 600.0, 1080.0)["gain"]
    assert field[2][0] > 0
    assert field[5][6] < 0  # away three times as long as the whole job needs to recover
    assert field[0][6] is None
