"""Whom to cap, the controller that caps, and readings set right by a meter above them."""

from __future__ import annotations

import numpy as np
import pytest

from tenure.planner.calibration import calibrate, drifts_at
from tenure.planner.capping import CannotShed, Controller, Job, control, least, only, racks_to_move, uniform
from tenure.planner.power_curves import gb200_fit, through

CURVE, BASE_W = gb200_fit(), 960.0
JOBS = (Job("A", 512, 6), Job("B", 8, 2))


@pytest.mark.parametrize(
    ("shed", "even", "small", "large"),
    [(0.02, 11.4, 0.85, 15.3), (0.05, 31.5, 3.0, 43.7), (0.10, 74.0, 9.8, 107.5)],
)
def test_capping_the_small_job_loses_least_and_an_even_cap_stops_the_large_one(shed, even, small, large):
    assert uniform(CURVE, BASE_W, JOBS, shed).loss == pytest.approx(even, abs=0.5)
    assert only(CURVE, BASE_W, JOBS, shed, "B").loss == pytest.approx(small, abs=0.1)
    assert only(CURVE, BASE_W, JOBS, shed, "A").loss == pytest.approx(large, abs=0.5)


def test_a_cap_outside_the_curve_is_flagged_and_never_chosen():
    for shed, within in ((0.02, True), (0.05, False), (0.10, False)):
        assert only(CURVE, BASE_W, JOBS, shed, "B").within is within  # 883, 768 and 576 W; it begins at 850
        chosen = least(CURVE, BASE_W, JOBS, shed)
        assert chosen.within
        assert chosen.caps_w["B"] >= CURVE.low_w
        shed_w = sum(job.here * (BASE_W - chosen.caps_w[job.name]) for job in JOBS)
        assert shed_w == pytest.approx(shed * BASE_W * 8)


def test_the_least_loss_is_no_more_than_that_of_any_split():
    jobs = (Job("A", 40, 4), Job("B", 8, 3), Job("C", 3, 2))
    curve = through([(300, 0.4), (500, 0.75), (700, 0.92), (1000, 1.0)])
    chosen = least(curve, 1000, jobs, 0.15)
    rng = np.random.default_rng(2)
    need = 0.15 * 9
    for parts in rng.dirichlet((1, 1, 1), 3000):
        caps = [1000 * (1 - need * part / job.here) for part, job in zip(parts, jobs)]
        if min(caps) >= 300:
            loss = sum(job.racks * (1 - curve(cap)) for cap, job in zip(caps, jobs))
            assert chosen.loss <= loss + 0.05


def test_more_than_all_floors_give_cannot_be_shed():
    with pytest.raises(CannotShed):
        least(CURVE, BASE_W, JOBS, 0.2)
    with pytest.raises(CannotShed):
        least(CURVE, BASE_W, JOBS, 0.05, floor_w=930)
    assert racks_to_move(BASE_W, JOBS, 0.05) == 1


def test_the_controller_keeps_the_limit_without_swinging_and_is_safe_when_blind():
    rng = np.random.default_rng(1)
    wanted = 8 * 72 * 960.0 * np.where(np.arange(600) < 200, 0.85, 1.0) + rng.normal(0, 500, 600)
    fixed = np.full(600, 40_000.0)
    limit = 560_000.0
    controller = Controller(limit, 960, 850)
    caps, draws = control(controller, wanted, fixed)
    assert (draws[202:] <= limit).all()  # one reading above it, when the load rises
    assert caps[:200].min() == 960
    assert (caps >= 850).all()
    assert (np.diff(caps) < 0).sum() <= 15
    blind = wanted.copy()
    blind[300:] = np.nan
    caps, _ = control(controller, blind, fixed)
    assert caps[305] == caps[-1] == 850


def fleet_of_racks(weight, samples=1440, racks=8):
    """Racks near 100 kW that follow a common load by `weight`, and a meter above them (2 % lost)."""
    rng = np.random.default_rng(7)
    gains, offsets = 1 + 0.03 * rng.standard_normal(racks), rng.normal(0, 0.5, racks)
    alone, common = rng.standard_normal((samples, racks)), rng.standard_normal((samples, 1))
    readings = 100 + 10 * (weight * common + (1 - weight) * alone)
    true = (readings * gains + offsets).sum(axis=1)
    return readings, true / 0.98 * (1 + 0.002 * rng.standard_normal(samples)), true, gains


def test_racks_that_vary_apart_are_calibrated_one_by_one():
    readings, upstream, true, gains = fleet_of_racks(0.0)
    found = calibrate(upstream, readings, loss=0.02)
    assert found.refused is None
    assert np.sqrt(np.mean((found.gains - gains) ** 2)) < 0.01
    assert abs(found.total(readings) / true - 1).max() < 0.003
    assert np.sqrt(np.mean((found.gains - gains) ** 2)) < 4 * np.sqrt(np.mean(found.errors**2))


@pytest.mark.parametrize("weight", [0.95, 1.0])
def test_racks_that_vary_together_get_one_common_factor(weight):
    readings, upstream, true, _ = fleet_of_racks(weight)
    found = calibrate(upstream, readings, loss=0.02)
    assert found.gains is None
    assert "common factor" in found.refused or "together" in found.refused
    assert abs(found.total(readings).mean() / true.mean() - 1) < 0.0025


def test_a_gain_that_drifts_is_noticed_and_nothing_else_is():
    readings, upstream, _, _ = fleet_of_racks(0.0)
    found = calibrate(upstream[:720], readings[:720], loss=0.02)
    assert drifts_at(found, upstream, readings, loss=0.02) is None
    drifting = readings.copy()
    drifting[1000:, 3] *= 0.96
    assert 1000 <= drifts_at(found, upstream, drifting, loss=0.02) < 1100
