"""A whole fleet played failure by failure agrees with each closed form where both hold, and is quick."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from tenure.planner.goodput import Run, Saves
from tenure.planner.play_fleet import Part, PlayedFleet, PlayedJob, draws
from tenure.planner.racks import Rack, Zone, unavailability
from tenure.planner.spares import Fleet

TRAY, RACK = Part(308.0, 1.0), Part(60.0, 0.5)  # days
FLEET = PlayedFleet(523, 512, 18, 16, TRAY, RACK)
NEVER = Part(1e12, 1.0)
NDRAWS = 40


def means(fleet, job, span, n=NDRAWS, seed=1):
    return np.mean([tuple(draw) for draw in draws(seed, fleet, job, span, n)], axis=0)


def q_of(fleet):
    tray = unavailability(fleet.tray.mtbf, fleet.tray.mttr)
    rack = unavailability(fleet.rack.mtbf, fleet.rack.mttr)
    return Rack(fleet.trays, fleet.needed, tray, rack).q


@pytest.mark.parametrize("cv", [0.0, 1.0, 2.0])
def test_racks_down_and_shortages_agree_with_the_binomial(cv):
    fleet = replace(FLEET, racks=519, tray=replace(TRAY, cv=cv), rack=replace(RACK, cv=cv))
    played = means(fleet, None, 365.0)
    q = q_of(fleet)
    assert played[7] / fleet.racks == pytest.approx(q, rel=0.02)
    assert played[0] == pytest.approx(1 - Fleet(Zone(512, q)).p_ok(7), abs=0.005)


def test_trays_that_must_all_be_up_agree_too():
    fleet = replace(FLEET, needed=18, racks=560)
    assert means(fleet, None, 100.0)[7] / 560 == pytest.approx(q_of(fleet), rel=0.03)


def test_shortages_come_as_often_as_the_mission_formula_says():
    fleet = replace(FLEET, racks=521)
    formula = Fleet(Zone(512, q_of(fleet))).shortages(9, 0.5)
    # a rack's mean time down: the rack's own faults with a few of trays among them
    assert means(fleet, None, 365.0)[1] / 365 == pytest.approx(formula, rel=0.15)


def test_a_job_that_stops_works_as_renewal_says():
    """Stops strike recovery too (exact); here they are the job's own, so that nothing else counts."""
    fleet = replace(FLEET, tray=NEVER, rack=NEVER)
    for mtbf, recovery, every, blocking in ((180.0, 5.0, 20.0, 1.0), (18.0, 10.0, 1.3, 0.05)):
        job = PlayedJob(recovery, every, blocking, other_mtbf=mtbf)
        played = means(fleet, job, 200_000.0, n=5)
        assert played[3] == pytest.approx(Run(mtbf, recovery, Saves(blocking, every)).ettr(), abs=0.005)


def test_times_sum_to_the_wall():
    job = PlayedJob(10 / 1440, 6 / 1440, 20 / 86_400, other_mtbf=0.1)
    fleet = replace(FLEET, racks=516, common=Part(20.0, 0.3), common_racks=6)
    for draw in draws(5, fleet, job, 54.0, 20):
        parts = (draw.productive, draw.saving, draw.rework, draw.recovery, draw.short)
        assert min(parts) >= -1e-12
        assert sum(parts) == pytest.approx(1, abs=1e-9)


def test_more_spares_and_fewer_common_causes_help():
    short = [means(replace(FLEET, racks=512 + s), None, 100.0, n=10)[0] for s in (0, 4, 8)]
    assert short == sorted(short, reverse=True)
    struck = replace(FLEET, common=Part(20.0, 1.0), common_racks=10)
    assert means(struck, None, 100.0, n=10)[0] > means(FLEET, None, 100.0, n=10)[0] + 0.01


def test_the_same_seed_plays_the_same():
    assert list(draws(3, FLEET, None, 30.0, 3)) == list(draws(3, FLEET, None, 30.0, 3))


@pytest.mark.slow
def test_a_tenth_of_100000_gpus_for_a_year_is_played_in_time():
    """100,000 GPUs at 6.5 failures per 1,000 node-days: 1,000 draws belong in 60 s on two cores."""
    per_tray = 8000 / 6.5 / 4
    fleet = PlayedFleet(1389, 1360, 18, 16, Part(per_tray, 1.0), Part(60.0, 0.5))
    job = PlayedJob(10 / 1440, 4 / 1440, 20 / 86_400)
    begun = time.process_time()
    played = means(fleet, job, 365.0, n=100)
    assert time.process_time() - begun < 60  # a tenth of the draws: drawn failure by failure it takes hours
    assert played[2] > 25_000
