"""The published run of 32 nodes, and where its simplifications mislead: values worked out elsewhere.

Exact values are from Gauss-Legendre over speed and closed-form Poisson sums; tolerances are four standard
deviations of an estimate from 100,000 draws, as the source of the values states them.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from tenure.planner.forecast import Extension, Seen, believe, choices, choose, remaining
from tenure.planner.gang import (
    Exponential,
    Linear,
    Trickle,
    Zone,
    assemble,
    attempts_all_or_nothing,
    p_all_at_once,
    rounds_keep,
    rounds_upto,
)
from tenure.planner.lengths import Atoms, Lognormal, Normal, ShiftedExponential, Uniform
from tenure.planner.run_model import FIRST_ORDER, Loss, NeverEnds, Rate, RunModel, Speed
from tenure.planner.terms import Overrun, State, Terms
from tenure.planner.window import Offer, best, break_even, continuous, judge, spread

DAY = 53_760.0
PUBLISHED = RunModel(1.2e12, 32, 8, Speed(3000, 150), Rate(0.02), Loss(1.5), overhead=0.03, model=FIRST_ORDER)
BREEDING = replace(PUBLISHED, model="compounding")
NODE_DAYS = {"known": Rate(0.02), "gamma": Rate(0.02, 2, 100)}


def quantiles(length, *p):
    return length.quantile(np.array(p))


def offers(*days):
    return [Offer(float(day)) for day in days]


def within(value, known, accepted):
    assert value == pytest.approx(known, abs=accepted)


# --- the published run --------------------------------------------------------------------------------


def test_the_published_run_has_the_known_distribution():
    length = PUBLISHED.length()
    within(length.mean, 19.42090, 1e-5)
    within(length.sd, 1.00203, 1e-5)
    np.testing.assert_allclose(
        quantiles(length, 0.5, 0.9, 0.95, 0.99), [19.37275, 20.72846, 21.14600, 21.97391], atol=2e-5
    )
    np.testing.assert_allclose(
        length.above(np.array([18.0, 19, 20, 21, 22])),
        [0.930785, 0.648944, 0.269832, 0.064332, 0.009463],
        atol=1e-5,
    )
    np.testing.assert_allclose(
        length.excess(np.array([18.0, 19, 20, 21, 22])),
        [1.446449, 0.636230, 0.183445, 0.033801, 0.004171],
        atol=2e-6,
    )


@pytest.mark.parametrize("run", [PUBLISHED, BREEDING], ids=["first-order", "compounding"])
def test_runs_drawn_by_chance_agree_with_the_exact_engine(run):
    length, drawn = run.length(), run.draw(np.random.default_rng(7), 100_000)
    within(drawn.mean(), length.mean, 4 * length.sd / np.sqrt(len(drawn)))
    for day, exact in zip((18, 19, 20, 21, 22), length.above(np.array([18.0, 19, 20, 21, 22])), strict=True):
        within((drawn > day).mean(), exact, 4.5 * np.sqrt(exact * (1 - exact) / len(drawn)))
    np.testing.assert_allclose(
        np.quantile(drawn, [0.5, 0.9, 0.95, 0.99]), quantiles(length, 0.5, 0.9, 0.95, 0.99), atol=0.06
    )


@pytest.mark.parametrize(
    ("overrun_day", "costs", "chosen", "at", "least"),
    [
        (
            116_800,
            [1_136_625, 1_095_752, 1_096_626, 1_132_908, 1_183_207, 1_236_523],
            19,
            19.47223,
            1_090_530,
        ),
        (400_000, [None, 1_275_932, 1_148_578, 1_142_481, None, None], 21, 20.53208, 1_135_290),
    ],
)
def test_the_published_windows_cost_what_is_known(overrun_day, costs, chosen, at, least):
    length, terms = PUBLISHED.length(), Terms.of(DAY, Overrun(overrun_day))
    rows = judge(length, terms, offers(18, 19, 20, 21, 22, 23))
    for row, known in zip(rows, costs, strict=True):
        if known is not None:
            within(row.cost, known, 2)
    assert best(rows).days == chosen
    every = continuous(length, terms)
    within(every.days, at, 1e-4)
    within(every.cost, least, 1)
    within(every.p_overrun, break_even(terms), 1e-5)
    within(length.mean * 76_800, 1_491_525, 1)


def test_what_cannot_be_used_of_a_window_moves_the_best_one():
    length = PUBLISHED.length()
    half_hour = judge(length, Terms.of(DAY, Overrun(116_800), 0.5 / 24), offers(19, 20))
    assert [round(row.cost) for row in half_hour] == [1_097_341, 1_097_291]
    assert best(half_hour).days == 20
    three = judge(length, Terms.of(DAY, Overrun(116_800), 3 / 24), offers(19, 20, 21))
    np.testing.assert_allclose([row.cost for row in three], [1_105_575, 1_100_860, 1_133_953], atol=2)
    np.testing.assert_allclose([row.p_overrun for row in three], [0.6963, 0.3106, 0.0792], atol=1e-4)
    late = judge(length, Terms.of(DAY, Overrun(116_800), 1.0), offers(19, 20, 21))
    np.testing.assert_allclose([row.p_overrun for row in late], [0.9308, 0.6489, 0.2698], atol=1e-4)
    assert abs(late[1].cost - late[2].cost) < 1_000


def test_a_lump_sum_is_paid_once_and_not_a_day():
    length = PUBLISHED.length()
    small = continuous(length, Terms.of(DAY, Overrun(76_800, 40_000)))
    assert (round(small.days, 2), round(small.cost)) == (19.39, 1_093_875)
    within(small.days, 19.40, 0.01)
    within(small.p_overrun, 0.49, 0.005)
    terms = Terms.of(DAY, Overrun(76_800, 155_200))
    large = continuous(length, terms)
    within(large.days, 20.28, 0.005)
    within(large.cost, 1_129_009, 2)
    within(best(judge(length, terms, offers(19, 20, 21))).cost, 1_131_166, 2)


def test_a_lump_sum_alone_is_checked_at_both_ends():
    """Without a price for the day after, no window at all is cheapest while the lump sum is small."""
    length = PUBLISHED.length()
    assert continuous(length, Terms.of(DAY, Overrun(0.0, 100_000))).days == 0.0
    assert continuous(length, Terms.of(DAY, Overrun(0.0, 5e6))).days > 20


def test_salvage_lengthens_the_window():
    length = PUBLISHED.length()
    for overrun_day, at in ((116_800, 19.766), (400_000, 20.804)):
        terms = Terms.of(DAY, Overrun(overrun_day), salvage_day=20_000)
        every = continuous(length, terms)
        within(every.days, at, 1e-3)
        within(every.p_overrun, break_even(terms), 1e-5)


# --- where the simplifications mislead ------------------------------------------------------------------


def test_failures_that_strike_lost_time_lengthen_the_run():
    length = BREEDING.length()
    within(length.mean, 19.4520, 1e-4)
    np.testing.assert_allclose(
        quantiles(length, 0.5, 0.9, 0.95, 0.99), [19.4038, 20.7655, 21.1848, 22.016], atol=1e-3
    )
    np.testing.assert_allclose(length.above(np.array([20.0, 21.0])), [0.28053, 0.06858], atol=2e-5)


@pytest.mark.parametrize(("nodes", "factor"), [(128, 1.190), (256, 1.471), (512, 2.778)])
def test_the_factor_of_lost_time_grows_with_the_gang(nodes, factor):
    run = replace(BREEDING, nodes=nodes)
    within(run.length().mean / run.without_failures().length().mean, factor, 5e-4)


@pytest.mark.parametrize("nodes", [800, 1000, 100_000])
def test_a_gang_that_fails_faster_than_it_recovers_never_ends(nodes):
    with pytest.raises(NeverEnds, match="never ends"):
        replace(BREEDING, nodes=nodes).length()


@pytest.mark.parametrize(
    ("stall", "every", "days"),
    [
        (0.06, 1, 19.754),
        (0.06, 2, 19.454),
        (0.06, 4, 19.696),
        (0.01, 0.5, 18.869),
        (0.01, 1, 18.809),
        (0.01, 2, 18.969),
    ],
)
def test_the_interval_between_saves_is_a_trade(stall, every, days):
    run = replace(BREEDING, overhead=0.0, loss=Loss(restart=0.5, every=every, stall=stall))
    length = run.length()
    within(length.mean, days, 5e-4)
    drawn = run.draw(np.random.default_rng(11), 40_000)
    within(drawn.mean(), length.mean, 4 * length.sd / 200)
    within(drawn.std(), length.sd, 0.02)
    within((drawn > 20).mean(), float(length.above(np.array(20.0))), 0.01)


def test_a_segment_costs_what_an_event_simulation_says():
    for rate, known, tolerance in ((0.026667, 2.1461, 1e-4), (0.3, 3.312, 1e-3)):
        loss = Loss(restart=0.5, every=2, stall=0.06)
        run = RunModel(2 * 3600.0, 1, 1, Speed(1, 0), Rate(rate * 24), loss, model="compounding")
        within(run.length().mean * 24, known, tolerance)


@pytest.mark.parametrize(
    ("rate", "shown", "windows"),
    [
        (Rate(0.02, 2, 100), [19.34, 20.90, 21.41, 22.44], [19.454, 20.670]),
        (Rate.posterior(0, 16, 0.5, 0), [19.44, 22.18, 23.52, 26.88], [19.585, 21.640]),
        (Rate.posterior(1, 16, 0.5, 0), [21.50, 26.26, 28.16, 32.47], [21.77, 25.43]),
    ],
    ids=["seen in 100 node-days", "none in 16", "one in 16"],
)
def test_a_short_pilot_leaves_a_long_tail(rate, shown, windows):
    length = replace(PUBLISHED, rate=rate).length()
    np.testing.assert_allclose(quantiles(length, 0.5, 0.9, 0.95, 0.99), shown, atol=0.01)
    for overrun_day, at in zip((116_800, 400_000), windows, strict=True):
        within(continuous(length, Terms.of(DAY, Overrun(overrun_day))).days, at, 0.005)


def test_plans_at_the_median_are_overrun_more_often_than_not():
    without = PUBLISHED.without_failures()
    planned = without.length().mean * 3000 / 3007.577  # at exactly 3,000 tokens a second
    length = PUBLISHED.length()
    within(float(length.above(np.array(18.627))), 0.782, 1e-3)
    within(float(length.above(np.array(18.084))), 0.917, 1e-3)
    within(planned, 18.627, 0.01)


@pytest.mark.parametrize(
    ("p", "days", "cost"), [(0.0, 20.5, 1.1375e6), (0.5, 20.25, 1.1221e6), (0.9, 19.5, 1.0944e6)]
)
def test_an_extension_shortens_the_window_as_far_as_it_can_be_had(p, days, cost):
    terms = Terms(DAY, (State(1.0, Overrun(400_000), p, 1.0, DAY),))
    row = best(judge(BREEDING.length(), terms, offers(*np.arange(18, 23, 0.25))))
    assert row.days == days
    within(row.cost, cost, 100)


def test_a_tight_market_takes_extension_and_fallback_at_once():
    """The same chances apart and jointly: apart they rescue more often, and the window looks too cheap."""
    easy, tight = Overrun(76_800), Overrun(400_000)
    jointly = Terms(DAY, (State(0.5, easy, 1.0, 1.0, DAY), State(0.5, tight)))
    apart = Terms(DAY, (State(0.5, easy, 0.5, 1.0, DAY), State(0.5, tight, 0.5, 1.0, DAY)))
    length = BREEDING.length()
    assert (
        best(judge(length, jointly, offers(19, 20, 21))).cost
        > best(judge(length, apart, offers(19, 20, 21))).cost
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "terms",
    [
        Terms.of(DAY, Overrun(116_800)),
        Terms.of(DAY, Overrun(76_800, 40_000), 0.2, 10_000),
        Terms(DAY, (State(0.7, Overrun(116_800), 0.5, 1.0, DAY), State(0.3, Overrun(400_000)))),
    ],
)
def test_the_spread_of_the_cost_is_that_of_drawn_runs(terms):
    length, offer = PUBLISHED.length(), Offer(20.0)
    whole = spread(length, terms, offer)
    costs = whole.draw(np.random.default_rng(5), 200_000)
    mean = judge(length, terms, [offer])[0].cost
    within(costs.mean(), mean, 4.5 * costs.std() / np.sqrt(len(costs)))
    for p in (0.5, 0.9, 0.95):
        sum_ = whole.quantile(p)
        assert (costs <= sum_ + 1e-3).mean() > p - 0.004, "enough runs cost no more"
        assert (costs < sum_ - 1e-3).mean() < p + 0.004, "and not too many cost less"
    for money in (1_080_000, 1_150_000, 1_200_000):
        within((costs > money).mean(), whole.above(money), 0.004)


# --- other distributions and properties -----------------------------------------------------------------


def test_a_normal_length_has_the_textbook_window():
    every = continuous(Normal(19.4, 1.0), Terms.of(DAY, Overrun(116_800)))
    within(every.days, 19.499744, 1e-5)
    within(every.cost, 1_089_309.245, 0.01)


LENGTHS = [
    Uniform(18, 22),
    Normal(19.4, 1),
    Lognormal(19.4, 3),
    ShiftedExponential(18, 1.4),
    Atoms(np.array([18.0, 20, 22]), np.array([0.5, 0.3, 0.2])),
    PUBLISHED.length(),
    replace(PUBLISHED, speed=Speed(3000, 0)).length(),
    replace(PUBLISHED, speed=Speed(3000, 3)).length(),
    replace(PUBLISHED, speed=Speed(3000, 600, lognormal=True)).length(),
]


@pytest.mark.slow
@pytest.mark.parametrize("length", LENGTHS, ids=lambda length: type(length).__name__)
def test_the_excess_is_the_area_above_and_draws_agree(length):
    days = np.linspace(10, 60, 40_001)
    above = length.above(days)
    assert (np.diff(above) <= 1e-9).all()
    for at in (15.0, 18.5, 20.0, 24.0):
        place = np.searchsorted(days, at)
        within(float(length.excess(np.array(at))), float(np.trapezoid(above[place:], days[place:])), 1e-3)
    drawn = length.draw(np.random.default_rng(3), 50_000)
    within(drawn.mean(), length.mean, 4.5 * length.sd / np.sqrt(50_000))
    for at in (18.6, 19.5, 21.1):
        within((drawn > at).mean(), float(length.above(np.array(at))), 0.012)


@pytest.mark.parametrize("length", LENGTHS, ids=lambda length: type(length).__name__)
def test_the_best_window_follows_the_prices(length):
    """Longer for a dearer overrun, shorter for a dearer day; the same where both are scaled; convex."""
    found = [continuous(length, Terms.of(DAY, Overrun(v))).days for v in (60_000, 90_000, 150_000, 400_000)]
    assert found == sorted(found)
    found = [continuous(length, Terms.of(b, Overrun(116_800))).days for b in (20_000, 53_760, 90_000)]
    assert found == sorted(found, reverse=True)
    scaled = continuous(length, Terms.of(DAY * 7, Overrun(116_800 * 7)))
    within(scaled.days, continuous(length, Terms.of(DAY, Overrun(116_800))).days, 1e-3)
    costs = [
        row.cost for row in judge(length, Terms.of(DAY, Overrun(116_800)), offers(*np.arange(15, 26, 0.5)))
    ]
    assert (np.diff(costs, 2) > -1e-3).all()


def test_a_reserved_day_dearer_than_an_overrun_buys_nothing():
    assert continuous(PUBLISHED.length(), Terms.of(120_000, Overrun(116_800))).days == 0.0


def test_ties_go_to_the_longer_window():
    sure = Atoms(np.array([10.0]))
    rows = judge(sure, Terms.of(100.0, Overrun(100.0)), offers(8, 9, 10))
    assert {row.cost for row in rows} == {1000.0}
    assert best(rows).days == 10


# --- gangs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("success", "at_once", "attempts", "rounds", "in_two"),
    [
        (0.98, 0.523883, 1.909, 1.4891, 0.9873),
        (0.95, 0.193711, 5.162, 1.8875, 0.9230),
        (0.90, 0.034337, 29.12, 2.2757, 0.7250),
    ],
)
def test_gangs_of_32_come_together_as_known(success, at_once, attempts, rounds, in_two):
    within(p_all_at_once(32, success), at_once, 1e-6)
    within(attempts_all_or_nothing(32, success), attempts, 5e-3)
    within(rounds_keep(32, success), rounds, 1e-4)
    within(rounds_upto(32, success)[2], in_two, 1e-4)


def test_nodes_that_wait_for_the_last_one_are_paid():
    within(Linear(3).held_days_per_node(32), 1.4531, 1e-4)
    within(Exponential(3).held_days_per_node(32) / 3, 0.7536, 1e-4)
    within(Exponential(3).held_days_per_node(32) * 32 * 2_400, 173_630, 1)
    trickle = Trickle(20, 4)
    within(trickle.held_days_per_node(32) * 32, 76.5, 1e-9)
    within(trickle.mean_h(32), 72, 1e-9)


def test_what_came_early_is_paid_until_the_last_comes():
    """Without a zone: a node comes after 1/a rounds, the last one after as many as keep-and-retry takes."""
    drawn = assemble(np.random.default_rng(1), 32, 0.9, 0.25, None, 100_000)
    within(drawn.hours.mean(), (rounds_keep(32, 0.9) - 1) * 0.25, 0.002)
    within(drawn.held_node_h.mean(), 32 * (rounds_keep(32, 0.9) - 1 / 0.9) * 0.25, 0.05)


@pytest.mark.parametrize(("zone", "mean", "p90"), [(Zone(24, 12), 4.4, 15), (Zone(6, 48), 46, None)])
def test_a_zone_that_closes_makes_gangs_wait(zone, mean, p90):
    hours = assemble(np.random.default_rng(7), 32, 0.95, 0.25, zone, 400_000).hours
    assert hours.mean() == pytest.approx(mean, rel=0.05)
    if p90:
        assert np.quantile(hours, 0.9) == pytest.approx(p90, rel=0.05)
        assert np.quantile(hours, 0.5) == 0.25
        assert 43 * 0.95 < np.quantile(hours, 0.99) < 45 * 1.05


# --- a run under way ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("speed", "failures", "done", "posterior", "p_over", "late", "shown", "bought"),
    [
        (3000, 6, 0.5167, 3000.0, 0.0039, 0.0004, (19.32, 19.70), (0, 0)),
        (2900, 7, 0.4963, 2900.4, 0.6867, 0.1542, (20.10, 20.51), (0, 1)),
        (2850, 9, 0.4813, 2850.6, 1.000, 0.7005, (20.67, 21.14), (1, 1)),
    ],
)
def test_half_way_through_the_window_is_forecast_again(
    speed, failures, done, posterior, p_over, late, shown, bought
):
    run = replace(PUBLISHED, rate=Rate(0.02, 2, 100))
    now = believe(run, Seen(240.0, failures, speed=speed), daily_sd=30)
    within(now.share_done, done, 5e-5)
    within(now.speed.mean, posterior, 0.05)
    within(now.speed.sd, 9.47, 0.005)
    rest = remaining(run, now)
    within(float(rest.above(np.array(10.0))), p_over, 3e-3)
    within(float(rest.excess(np.array(10.0))), late, 1e-3)
    np.testing.assert_allclose(10 + quantiles(rest, 0.5, 0.95), shown, atol=0.01)
    for overrun_day, days in zip((116_800, 400_000), bought, strict=True):
        offered = [Extension(day, day * DAY) for day in (1.0, 2.0, 3.0)]
        assert choose(choices(rest, 10.0, Overrun(overrun_day), offered)).extension.days == days


# --- speed -----------------------------------------------------------------------------------------------


def test_the_exact_engine_needs_few_terms_and_draws_are_of_one_piece():
    """Counts, not seconds: what makes it quick. Seconds are for the bench."""
    assert len(PUBLISHED.length().weights) <= 128
    began = time.process_time()
    PUBLISHED.draw(np.random.default_rng(1), 100_000)
    assert time.process_time() - began < 5.0
