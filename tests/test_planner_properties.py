"""What holds for every plan, drawn by hypothesis; and another program's windows."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stockpyl_windows import ATOMS
from tenure.planner.lengths import Atoms, Lognormal, Normal, ShiftedExponential, Uniform
from tenure.planner.run_model import (
    COMPOUNDING,
    FIRST_ORDER,
    Loss,
    Rate,
    RunModel,
    Speed,
    draw_segments,
    segment_moments,
)
from tenure.planner.terms import Overrun, Terms
from tenure.planner.window import Offer, best, continuous, judge

PEER = json.loads((Path(__file__).parent / "stockpyl_windows.json").read_text())
days = st.floats(0.5, 60)
losses = st.one_of(
    st.floats(0.1, 5).map(lambda hours: Loss(fixed=hours)),
    st.builds(Loss, st.none(), restart=st.floats(0, 2), every=st.floats(0.25, 6), stall=st.floats(0, 0.2)),
)
rates = st.one_of(
    st.floats(0, 0.05).map(Rate),
    st.builds(lambda shape, seen: Rate(shape / seen, shape, seen), st.floats(0.5, 20), st.floats(200, 2000)),
)


@st.composite
def runs(draw: st.DrawFn) -> RunModel:
    mean = draw(st.floats(500, 5000))
    lognormal = draw(st.booleans())
    speed = Speed(mean, mean * draw(st.floats(0.005, 0.3 if lognormal else 0.12)), lognormal)
    model = draw(st.sampled_from([FIRST_ORDER, COMPOUNDING]))
    nodes = draw(st.integers(1, 64))
    long = draw(st.floats(2, 60))  # days of computing
    tokens = mean * nodes * 8 * 86_400 * long
    run = RunModel(tokens, nodes, 8, speed, draw(rates), draw(losses), draw(st.floats(0, 0.2)), model)
    return run if run.bred() < 0.5 else replace(run, rate=Rate(0.001))


lengths = st.one_of(
    st.builds(lambda low, more: Uniform(low, low + more), days, st.floats(0.1, 20)),
    st.builds(lambda mean, part: Normal(mean, mean * part), days, st.floats(0.01, 0.15)),
    st.builds(lambda mean, part: Lognormal(mean, mean * part), days, st.floats(0.01, 1)),
    st.builds(ShiftedExponential, days, st.floats(0.1, 10)),
    st.lists(days, min_size=1, max_size=12).map(lambda found: Atoms(np.array(found))),
    runs().map(lambda run: run.length()),
)
prices = st.tuples(st.floats(1, 1e5), st.floats(1.05, 10)).map(lambda pair: (pair[0], pair[0] * pair[1]))


def least(length, b, o):
    return continuous(length, Terms.of(b, Overrun(o)))


@settings(max_examples=60, deadline=None)
@given(lengths, prices, st.floats(1.1, 4))
def test_dearer_overruns_lengthen_and_dearer_days_shorten_the_best_window(length, pair, factor):
    b, o = pair
    here, slack = least(length, b, o), 1e-4 * max(1.0, length.mean)
    assert least(length, b, o * factor).days >= here.days - slack
    assert least(length, b * factor, o).days <= here.days + slack


@settings(max_examples=60, deadline=None)
@given(lengths, prices, st.floats(1e-3, 1e3))
def test_only_the_ratio_of_prices_places_the_window(length, pair, factor):
    b, o = pair
    here, scaled = least(length, b, o), least(length, b * factor, o * factor)
    assert scaled.cost == pytest.approx(here.cost * factor, rel=1e-6)
    # where the cost is flat between two atoms, either end is as good a window
    (there,) = judge(length, Terms.of(b, Overrun(o)), [Offer(scaled.days)])
    assert there.cost == pytest.approx(here.cost, rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(lengths, prices)
def test_cost_is_convex_and_no_window_beats_the_best(length, pair):
    b, o = pair
    far = float(length.quantile(np.array(0.999)))
    rows = judge(
        length, Terms.of(b, Overrun(o)), [Offer(float(day)) for day in np.linspace(0, 1.3 * far, 60)]
    )
    costs = np.array([row.cost for row in rows])
    assert (np.diff(costs, 2) >= -1e-5 * costs.max()).all()  # the series is held to 1e-5 of a cost
    assert least(length, b, o).cost <= best(rows).cost + 1e-6 * costs.max()


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(lengths)
def test_the_mean_overrun_is_the_area_under_its_chance(length):
    far = float(length.quantile(np.array(1 - 1e-9)))
    grid = np.linspace(0, far * 1.01, 20_001)
    above = length.above(grid)
    assert (np.diff(above) <= 1e-6).all()  # the series is held to that much of a chance
    assert (above >= 0).all()
    assert (above <= 1).all()
    for part in (0.3, 0.9, 1.0):
        at = int(part * length.mean / grid[1])
        if at < len(grid):
            area = float(np.trapezoid(above[at:], grid[at:]))
            assert float(length.excess(grid[at])) == pytest.approx(area, abs=2e-3 * length.mean + grid[1])


def test_wide_speeds_and_long_stalls_leave_no_waves():
    """Terms past what the points of integration can tell apart are noise: they moved a chance by 2e-5."""
    loss = Loss(None, restart=0.0, every=0.25, stall=0.1875)
    run = RunModel(691_200_000.0, 1, 8, Speed(500.0, 125.0, True), Rate(0.0), loss, 0.0, FIRST_ORDER)
    length = run.length()
    far = float(length.quantile(np.array(1 - 1e-9)))
    assert (np.diff(length.above(np.linspace(0, far, 20_001))) <= 1e-9).all()
    drawn = run.draw(np.random.default_rng(1), 200_000)
    for p in (0.5, 0.9, 0.99):
        assert float(length.quantile(np.array(p))) == pytest.approx(np.quantile(drawn, p), rel=5e-3)


@settings(max_examples=25, deadline=None)
@given(runs(), st.integers(0, 2**32))
def test_every_run_drawn_by_chance_agrees_with_the_exact_engine(run, seed):
    if run.rate.shape is not None and run.rate.shape < 2:
        return  # rates near λL = 1 are left out of the exact engine, and said
    length, drawn = run.length(), run.draw(np.random.default_rng(seed), 20_000)
    assert drawn.mean() == pytest.approx(length.mean, abs=6 * length.sd / np.sqrt(len(drawn)) + 1e-6)
    for part in (0.1, 0.5, 0.9):
        at = float(length.quantile(np.array(part)))
        assert (drawn <= at).mean() == pytest.approx(part, abs=0.025)


# --- another program -----------------------------------------------------------------------------------


def test_stockpyls_normal_windows_are_ours():
    assert len(PEER["normal"]) == 15
    for case in PEER["normal"]:
        ours = least(Normal(case["mean"], case["sd"]), case["b"], case["o"])
        assert ours.days == pytest.approx(case["days"], abs=1e-4 * case["sd"])
        assert ours.cost == pytest.approx(case["cost"], rel=1e-9)


def test_stockpyls_discrete_windows_are_ours():
    assert len(PEER["atoms"]) == 15
    for case in PEER["atoms"]:
        atoms = ATOMS[case["atoms"]]
        length = Atoms(np.array(list(atoms)), np.array(list(atoms.values())))
        offers = [Offer(float(day)) for day in range(8, 40)]
        row = best(judge(length, Terms.of(case["b"], Overrun(case["o"])), offers))
        assert row.cost == pytest.approx(case["cost"], rel=1e-9)
        assert row.days == case["days"]


def test_a_run_that_fails_ten_thousand_times_is_drawn_in_little_memory_and_as_its_moments_say():
    """Drawn one by one, 100,000 such runs would be a thousand million numbers."""
    rng, runs, hours = np.random.default_rng(3), 100_000, 500.0
    rate, loss = np.full(runs, 27.0), Loss(restart=0.001, every=0.01, stall=0.0001)
    drawn = draw_segments(rng, np.full(runs, hours), rate, loss)
    mean, variance = (float(value[0]) for value in segment_moments(rate[:1], loss))
    segments = hours / loss.every
    assert drawn.mean() == pytest.approx(segments * mean, rel=1e-4)
    assert drawn.std() == pytest.approx(math.sqrt(segments * variance), rel=0.02)


def test_sums_of_many_failures_and_of_few_agree_where_one_becomes_the_other(monkeypatch):
    hours, rate, loss = np.full(20_000, 60.0), np.full(20_000, 2.0), Loss(restart=0.05, every=0.2, stall=0.01)
    one_by_one = draw_segments(np.random.default_rng(1), hours, rate, loss)
    monkeypatch.setattr("tenure.planner.run_model.MANY", 50)
    as_normal = draw_segments(np.random.default_rng(2), hours, rate, loss)
    for part in (0.05, 0.5, 0.95):
        assert np.quantile(as_normal, part) == pytest.approx(np.quantile(one_by_one, part), rel=0.003)
