"""Spares: known values, the same numbers a second way, invariants, and a fleet played beside the formulas."""

from __future__ import annotations

import heapq
import itertools
from dataclasses import replace

import numpy as np
import pytest

from tenure.planner.plan_spares import plan_spares
from tenure.planner.racks import CommonCause, Rack, Zone, at_least, unavailability
from tenure.planner.spares import (
    Fleet,
    NeverEnough,
    covered,
    covered_in_mission,
    share_of_work,
    spares_at_instant,
    spares_for_mission,
    spares_for_most_work,
)
from tenure.settings.errors import BadInput
from tenure.settings.spares_file import spares_file_of

DAY_H = 24.0
NVL72 = {"gpus": 72, "tray_gpus": 4, "held": 8}
PLAN = {
    "job": {"gpus": 32_768, "per_rack": 64},
    "rack": NVL72,
    "unavailability": {"tray": "0%", "rack": "0.75%"},
    "confidence": 0.999,
}


def of(q, n=512, zones=1, **more):
    return Fleet(Zone(n // zones, q, **more), zones)


def answer(**keys):
    return plan_spares(spares_file_of({**PLAN, **keys}))


# --- known values --------------------------------------------------------------------------------------


def test_single_gpus_and_trays_give_other_racks():
    for a, p in ((0.98, 0.9999860), (0.99, 0.99999995)):
        assert at_least(64, 72, a) == pytest.approx(p, abs=1e-7)
    for tray, p in (
        (0.98**4, 0.840306),
        (0.99**4, 0.967953),
        (0.995**4, 0.994895),
        (0.98, 0.994788),
        (0.99, 0.999271),
        (0.995, 0.999904),
    ):
        assert Rack(18, 16, 1 - tray, 0.0).p_up == pytest.approx(p, abs=1e-5)


@pytest.mark.parametrize(
    ("q", "spares"),
    [
        (0.003, (5, 7, 8)),
        (0.005, (7, 9, 10)),
        (0.0075, (9, 11, 13)),
        (0.01, (11, 14, 16)),
        (0.02, (19, 22, 25)),
    ],
)
def test_the_table_of_spares_by_confidence(q, spares):
    assert tuple(spares_at_instant(of(q), c) for c in (0.99, 0.999, 0.9999)) == spares


def test_zones_that_share_nothing_need_more():
    assert spares_at_instant(of(0.005, zones=4), 0.99) == 16
    assert spares_at_instant(of(0.005), 0.99) == 7


def test_eleven_spares_are_enough_with_known_chances():
    for q, p in ((0.005, 0.999982), (0.0075, 0.999268), (0.01, 0.992680)):
        assert of(q).p_ok(11) == pytest.approx(p, abs=1e-5)


def test_eleven_spares_cover_known_unavailabilities():
    assert covered(of(0.5), 11, 0.999) == pytest.approx(0.0077813, rel=1e-4)
    for confidence, q in ((0.95, 0.0133), (0.99, 0.0104), (0.9999, 0.0060)):
        assert covered(of(0.5), 11, confidence) == pytest.approx(q, abs=6e-5)


@pytest.mark.parametrize(("q", "mttr_h", "spares"), [(0.00778, 8, (12, 14, 16)), (0.005, 24, (8, 10, 11))])
def test_a_mission_without_one_shortage_needs_more_than_an_instant(q, mttr_h, spares):
    found = tuple(spares_for_mission(of(q), 0.99, hours, mttr_h) for hours in (24, 168, 54 * 24))
    assert found == spares
    assert spares_at_instant(of(q), 0.99) <= min(found)


def test_the_most_work_has_known_spare_counts():
    for q, spare, share in ((0.005, 8, 0.9832), (0.01, 12, 0.9743)):
        assert spares_for_most_work(of(q)) == spare
        assert of(q).productive(spare) == pytest.approx(share, abs=1e-4)
    assert spares_for_most_work(of(0.01), elastic=True) == 0


def test_the_optimum_is_flat_above_and_steep_below():
    fleet = of(0.005)
    best = fleet.productive(8)
    assert 0.001 < best - fleet.productive(10) < 0.004
    assert best - fleet.productive(4) > 0.03


def test_a_job_of_32768_needs_37656():
    told = answer(confidence="99.9%")
    assert told["racks"] == {"active": 512, "spare": 11, "total": 523}
    assert told["gpus"]["bought"] == 37_656
    assert told["gpus"]["difference"] == 4_888
    assert told["gpus"]["of_bought"] == pytest.approx(0.12981, abs=5e-6)
    assert told["gpus"]["of_job"] == pytest.approx(0.1492, abs=5e-5)


def test_the_worked_input_lands_on_ten_and_twelve():
    gpu_days = 8000 / 6.5
    times = {
        "tray_mtbf": f"{gpu_days / 4}d",
        "tray_mttr": "24h",
        "rack_mtbf": "60d",
        "rack_mttr": "12h",
    }
    told = answer(unavailability=times, confidence=0.99)
    assert told["rack_unavailability"] == pytest.approx(0.0083, abs=5e-5)
    assert told["racks"]["spare"] == 10
    assert answer(unavailability=times)["racks"]["spare"] == 12


def test_holding_two_trays_pays_from_a_known_unavailability_on():
    def ratio(u, held, other):
        shares = [share_of_work(4, 256, Rack(18, 18 - i, u, 0.002))[0] for i in (held, other)]
        return shares[0] / shares[1]

    def where(held, other, level, low, high):
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if ratio(middle, held, other) < level else (low, middle)
        return low

    assert where(2, 0, 1.0, 0.001, 0.01) == pytest.approx(0.0040, abs=2e-4)
    assert where(2, 0, 1.024, 0.001, 0.01) == pytest.approx(0.0049, abs=2e-4)
    assert 0.0014 < where(1, 0, 1.0, 0.0005, 0.01) < 0.0019


# --- a second way --------------------------------------------------------------------------------------


def test_binomials_agree_with_plain_sums():
    from math import comb

    for n, q in itertools.product((3, 18, 60), (0.0, 0.003, 0.2)):
        fleet = of(q, n)
        for spare in (0, 1, 5):
            plain = sum(comb(n + spare, k) * q**k * (1 - q) ** (n + spare - k) for k in range(spare + 1))
            assert fleet.p_ok(spare) == pytest.approx(plain, rel=1e-10)


def test_enough_crews_are_no_limit_and_few_are():
    for q, spare in itertools.product((0.005, 0.05), (0, 3, 11)):
        many = of(q, 64, crews=64 + spare)
        assert many.p_ok(spare) == pytest.approx(of(q, 64).p_ok(spare), rel=1e-10)
        few = [of(q, 64, crews=c).p_ok(spare) for c in (1, 2, 4, 8, 64)]
        assert few == sorted(few)
    assert spares_at_instant(of(0.0075, crews=5), 0.99) > spares_at_instant(of(0.0075), 0.99)
    with pytest.raises(NeverEnough, match="crews"):
        spares_at_instant(of(0.0075, crews=3), 0.99)  # 3.9 racks fail in one mean repair


def test_one_machine_and_one_crew_is_the_textbook_queue():
    from math import factorial

    n, q = 6, 0.2
    fails = q / (1 - q)
    weights = [factorial(n) / factorial(n - k) * fails**k for k in range(n + 1)]
    np.testing.assert_allclose(Zone(n, q, crews=1).down(n), np.array(weights) / sum(weights), rtol=1e-12)


def test_a_mission_from_ready_is_a_little_better_than_from_the_steady_state():
    for q, mttr, hours in ((0.00778, 8, 24 * 54), (0.005, 24, 168)):
        fleet = of(q)
        spare = spares_for_mission(fleet, 0.99, hours, mttr)
        steady, ready = fleet.p_no_shortage(spare, hours, mttr), fleet.p_from_ready(spare, hours, mttr)
        assert steady <= ready < steady + 0.004


def shortage(rng, n, spare, mtbf, mttr, hours, repair):
    """The part of time that fewer than n of n + spare racks are up: played event by event."""
    racks = n + spare
    queue = [(t, True, rack) for rack, t in enumerate(rng.exponential(mtbf, racks).tolist())]
    heapq.heapify(queue)
    down, clock, short = 0, 0.0, 0.0
    while True:
        t, failed, rack = heapq.heappop(queue)
        if down > spare:
            short += min(t, hours) - clock
        if t >= hours:
            return short / hours
        clock, down = t, down + (1 if failed else -1)
        wait = repair(rng) * mttr if failed else rng.exponential(mtbf)
        heapq.heappush(queue, (t + wait, not failed, rack))


@pytest.mark.parametrize(
    "repair", [lambda rng: 1.0, lambda rng: rng.exponential(), lambda rng: rng.lognormal(-0.5, 1.0)]
)
def test_how_repair_times_are_spread_does_not_matter(repair):
    q = unavailability(100.0, 1.0)
    played = shortage(np.random.default_rng(3), 128, 3, 100.0, 1.0, 40_000.0, repair)
    assert played == pytest.approx(1 - of(q, 128).p_ok(3), abs=0.005)


def test_common_causes_need_more():
    alone = of(0.005)
    struck = of(0.005, common=CommonCause(0.01, 4, 6.0))
    assert struck.p_ok(8) < alone.p_ok(8)
    assert spares_at_instant(struck, 0.9999) > spares_at_instant(alone, 0.9999)
    rng = np.random.default_rng(5)
    events = rng.poisson(0.01, 400_000)
    up = rng.binomial(np.maximum(520 - 4 * events, 0), 0.995)
    assert struck.p_ok(8) == pytest.approx((up >= 512).mean(), abs=0.002)


STRUCK = {
    "job": {"gpus": 6_400, "per_rack": 64},
    "unavailability": {"tray_mtbf": "308d", "tray_mttr": "24h", "rack_mtbf": "120d", "rack_mttr": "12h"},
    "common_cause": {"per_year": 12, "racks": 6, "mttr": "4h"},
    "confidence": 0.95,
    "mission": "54d",
}


def test_common_causes_stop_a_mission_too():
    """Twice in 54 days six racks go at once: fewer than six spares all but never get through."""
    struck = of(0.0042, 100, common=CommonCause(12 * 4 / 8760, 6, 4.0))
    alone = of(0.0042, 100)
    mission, mttr = 54 * 24.0, 12.0
    assert (
        spares_for_mission(alone, 0.95, mission, mttr) < 6 <= spares_for_mission(struck, 0.95, mission, mttr)
    )
    for spare in range(6):  # each event is a shortage: exp(-events) at most
        assert struck.p_no_shortage(spare, mission, mttr) < 1.01 * np.exp(-12 * 54 / 365)
    told = answer(**STRUCK)["mission"]
    assert told["spare"] >= 6
    assert told["p_with_racks_spare"] < 0.2


def test_where_shortages_are_rare_the_formula_of_a_mission_is_its_chain():
    for common in (None, CommonCause(12 * 4 / 8760, 6, 4.0)):
        for zones in (1, 2):
            fleet = of(0.0042, 100, zones, common=common)
            spare = spares_for_mission(fleet, 0.99, 1296.0, 12.0)
            exact = fleet.p_unbroken(spare, 1296.0, 12.0)
            assert fleet.p_no_shortage(spare, 1296.0, 12.0) == pytest.approx(exact, abs=0.003)
            assert exact <= fleet.p_from_ready(spare, 1296.0, 12.0)
            assert fleet.p_unbroken(spare, 0.0, 12.0) == pytest.approx(fleet.p_ok(spare), rel=1e-9)


def test_shortages_that_follow_one_another_are_not_counted_as_if_they_came_alone():
    """What 12 spares give for 54 days at q 0.83 %: exp(-nu H) reads 0.58, a chain worked out apart 0.713."""
    fleet = of(0.008290911107509832)
    assert fleet.p_no_shortage(12, 1296.0, 12.0) == pytest.approx(0.5820, abs=1e-4)
    assert fleet.p_unbroken(12, 1296.0, 12.0) == pytest.approx(0.71316, abs=1e-4)


@pytest.mark.slow
def test_a_mission_with_common_causes_can_be_played_beside_the_formulas():
    for row in answer(**STRUCK, play={"draws": 1500, "seed": 2})["played"]:
        assert row["p_ok"] == pytest.approx(row["p_ok_formula"], abs=0.003)
        assert row["p_no_shortage"] == pytest.approx(row["p_no_shortage_exact"], abs=0.02)


# --- invariants ----------------------------------------------------------------------------------------


def test_spares_never_reduce_p_ok_and_more_trouble_never_raises_it():
    for q, zones, crews in itertools.product((0.0, 0.002, 0.03, 0.3), (1, 4), (None, 4)):
        fleet = of(q, 64, zones, crews=crews)
        chances = [fleet.p_ok(s * zones) for s in range(40)]
        assert all(b >= a - 1e-12 for a, b in itertools.pairwise(chances))
        worse = replace(fleet, zone=replace(fleet.zone, q=q + 0.01))
        assert all(worse.p_ok(s * zones) <= fleet.p_ok(s * zones) + 1e-12 for s in range(40))


def test_the_counts_are_the_fewest():
    for q, confidence in itertools.product((0.001, 0.02, 0.2), (0.5, 0.99, 0.99999)):
        fleet = of(q)
        spare = spares_at_instant(fleet, confidence)
        assert fleet.p_ok(spare) >= confidence
        assert spare == 0 or fleet.p_ok(spare - 1) < confidence


def test_what_is_covered_is_just_covered():
    q = covered_in_mission(of(0.5), 16, 0.99, 54 * DAY_H, 8.0)
    assert spares_for_mission(of(q), 0.99, 54 * DAY_H, 8.0) == 16
    assert spares_for_mission(of(q * 1.001), 0.99, 54 * DAY_H, 8.0) == 17


def test_racks_that_never_fail_need_no_spares():
    told = answer(unavailability={"tray": 0, "rack": 0}, mission="54d", mttr="8h")
    assert told["racks"]["spare"] == told["mission"]["spare"] == told["optimum"]["spare"] == 0
    assert told["p_ok"] == told["p_rack"] == 1


# --- the plan ------------------------------------------------------------------------------------------


def test_the_plan_gives_both_answers_and_says_which_is_which():
    told = answer(unavailability={"tray": 0, "rack": 0.00778}, confidence=0.99, mission="54d", mttr="8h")
    assert (told["racks"]["spare"], told["mission"]["spare"]) == (9, 16)
    assert told["mission"]["p_no_shortage"] >= 0.99 > told["mission"]["p_with_racks_spare"]
    assert [row["spare"] for row in told["table"]][:3] == [0, 1, 2]
    assert any("without one shortage" in warning for warning in told["warnings"])


def test_a_purchase_is_read_backwards():
    covers = answer(bought=37_656)["bought_covers"]
    assert (covers["racks"], covers["spare"]) == (523, 11)
    assert covers["rack_unavailability"] == pytest.approx(0.0077813, rel=1e-4)


def test_alternatives_do_the_same_work_and_mind_the_width():
    told = answer(unavailability={"tray": "1%", "rack": "0.5%"}, prices={"per_gpu": 30_000})
    rows = {row["held"]: row for row in told["alternatives"]}
    assert rows[8]["bought"] == told["gpus"]["bought"]
    assert all(row["active"] * row["per_rack"] >= 32_768 for row in rows.values())
    assert rows[4]["bought"] < rows[8]["bought"] < rows[0]["bought"]
    assert rows[8]["cost"] == rows[8]["bought"] * 30_000
    wide = answer(job={"gpus": 32_768, "per_rack": 64, "width": 64})["alternatives"]
    assert all(row["per_rack"] == 64 for row in wide)


@pytest.mark.slow
def test_a_mission_can_be_played_beside_the_formulas():
    times = {"tray_mtbf": "308d", "tray_mttr": "24h", "rack_mtbf": "60d", "rack_mttr": "12h"}
    told = answer(unavailability=times, confidence=0.9, mission="54d", play={"draws": 500, "seed": 1})
    for row in told["played"]:
        assert row["p_ok"] == pytest.approx(row["p_ok_formula"], abs=0.005)
        assert row["p_no_shortage"] == pytest.approx(row["p_no_shortage_formula"], abs=0.1)
        assert row["p_no_shortage"] == pytest.approx(row["p_no_shortage_exact"], abs=0.05)
    assert [row["spare"] for row in told["played"]] == [told["racks"]["spare"], told["mission"]["spare"]]


@pytest.mark.slow
@pytest.mark.parametrize("zones", [1, 4])
@pytest.mark.parametrize("crews", [8, 12, 16, 64])
@pytest.mark.parametrize("common", [None, {"per_year": 12, "racks": 4, "mttr": "6h"}])
def test_zones_crews_and_common_causes_go_together(zones, crews, common):
    keys = {"zones": zones, "crews": crews, "unavailability": {"tray": "2%", "rack": "0.5%"}}
    keys |= {"confidence": 0.99, "mission": "54d", "mttr": "8h"}
    told = answer(**keys, **({"common_cause": common} if common else {}))
    assert told["p_ok"] >= 0.99
    assert told["mission"]["spare"] >= told["racks"]["spare"]
    assert told["racks"]["spare"] % zones == 0


def test_few_failures_seen_leave_the_count_open():
    rows = answer(mttr="12h", seen={"events": 9, "rack_days": 600})["over_q"]
    assert [row["spare"] for row in rows] == sorted(row["spare"] for row in rows)
    assert rows[0]["spare"] < rows[2]["spare"]


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"confidence": 1}, "confidence"),
        ({"confidence": "100%"}, "confidence"),
        ({"confidence": 0}, "confidence"),
        ({"rack": {**NVL72, "held": 80}}, "rack.held"),
        ({"rack": {**NVL72, "held": 4}}, "rack.held"),
        ({"rack": {**NVL72, "held": -8}}, "rack.held"),
        ({"rack": {**NVL72, "tray_gpus": 5}}, "rack.tray_gpus"),
        ({"unavailability": {"tray": 0.001, "rack": 1}}, "unavailability.rack"),
        ({"unavailability": {"tray": 0.001}}, "unavailability"),
        ({"unavailability": {"tray": 0.001, "rack_mtbf": "60d"}}, "unavailability"),
        ({"unavailability": {"tray": "1d", "rack": 0}}, "unavailability.tray"),
        ({"unavailability": {"tray": 0.9, "rack": 0}}, "unavailability"),
        ({"mission": "54d"}, "mttr"),
        ({"zones": 3}, "zones"),
        ({"zones": 4, "crews": 3}, "crews"),
        ({"play": {}}, "mission"),
        ({"play": {}, "mission": "54d", "mttr": "8h"}, "unavailability"),
        ({"play": {"draws": 1}}, "play.draws"),
        ({"crews": 3}, "crews"),
        ({"bought": 32_768}, "bought"),
        ({"job": {"gpus": 0, "per_rack": 64}}, "job.gpus"),
        ({"job": {"gpus": 32_768, "per_rack": 64, "width": 72}}, "job.width"),
        ({"spares": 3}, "spares"),
    ],
)
def test_what_is_wrong_in_a_file_is_one_message(change, key):
    with pytest.raises(BadInput) as refused:
        answer(**change)
    assert refused.value.key_path == key
    assert "\n" not in str(refused.value)
