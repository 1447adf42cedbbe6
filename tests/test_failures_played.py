"""Nodes that fail by themselves in a scenario: drawn by the models that plans use, and agreeing with them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from tenure.planner.racks import Zone
from tenure.service import replay
from tenure.settings.errors import BadInput
from tenure.settings.lab import lab_of
from tenure.settings.scenario_file import scenario_file
from tenure.simulator.failures import COMMON, NODE, RACK, drawn_happenings, outages, with_spares
from tenure.simulator.scenario import build_world, load_scenario
from tenure.simulator.world import What

DAY_S = 86400
LAB = {
    "lab": "fleet",
    "clusters": {"gb": {"nodes": 60, "gpus_per_node": 8, "nodes_per_rack": 3}},
    "accounts": {"a": {"share": "60%"}, "b": {"share": "40%"}},
}
JOB = {"account": "a", "gpus": 8, "runtime": "1h"}


def scenario(**failures):
    return {"lab": LAB, "until": "400d", "jobs": [JOB], "failures": failures}


def failures_of(**failures):
    return scenario_file(scenario(**failures), file="s").failures


def down_over_time(found, nodes: int, until_s: float) -> np.ndarray:
    """Part of time with 0, 1, … things down."""
    marks = sorted([(o.from_s, 1) for o in found] + [(min(o.until_s, until_s), -1) for o in found])
    part, at, n = np.zeros(nodes + 1), 0.0, 0
    for t, step in marks:
        part[n] += min(t, until_s) - at
        at, n = min(t, until_s), n + step
    part[n] += until_s - at
    return part / until_s


@pytest.mark.slow
@pytest.mark.parametrize("crews", [None, 2])
def test_as_many_nodes_are_down_as_the_formula_says(crews):
    lab, until_s = lab_of(LAB), 20_000 * DAY_S
    told = {"node": {"mtbf": "20d", "repair": "12h"}} | ({} if crews is None else {"crews": crews})
    found = list(outages(lab, failures_of(**told), seed=3, until_s=until_s))
    formula = Zone(60, 0.5 / 20.5, crews).down(60)
    assert down_over_time(found, 60, until_s)[:8] == pytest.approx(formula[:8], abs=0.01)


@pytest.mark.slow
def test_lemons_fail_as_often_as_they_are_said_to():
    told = failures_of(node={"mtbf": "50d", "repair": 1, "cv": 0}, lemons={"part": "20%", "times": 10})
    found = list(outages(lab_of(LAB), told, seed=1, until_s=10_000 * DAY_S))
    counts = np.bincount([outage.nodes[0] for outage in found], minlength=60)
    lemons = counts > 600
    assert 4 <= lemons.sum() <= 20
    assert counts[lemons].mean() == pytest.approx(2000, rel=0.03)
    assert counts[~lemons].mean() == pytest.approx(200, rel=0.03)


def test_infant_mortality_keeps_the_mean_and_moves_failures_to_the_start():
    told = failures_of(node={"mtbf": "50d", "repair": 1, "cv": 0, "shape": 0.5})
    found = list(outages(lab_of(LAB), told, seed=1, until_s=50_000 * DAY_S))
    assert len(found) == pytest.approx(60 * 50_000 / 50, rel=0.02)
    by_node = sorted((outage.nodes[0], outage.from_s) for outage in found)
    gaps = [b[1] - a[1] for a, b in pairwise(by_node) if a[0] == b[0]]
    assert np.mean(np.array(gaps) < 5 * DAY_S) == pytest.approx(1 - np.exp(-((5 / 25) ** 0.5)), abs=0.01)


def test_a_rack_takes_its_nodes_and_a_common_cause_takes_racks():
    told = failures_of(
        rack={"mtbf": "30d", "repair": "6h"}, common={"per_year": 12, "racks": 4, "repair": "2h"}
    )
    found = list(outages(lab_of(LAB), told, seed=1, until_s=365 * DAY_S))
    assert {len(outage.nodes) for outage in found if outage.cause == RACK} == {3}
    assert {len(outage.nodes) for outage in found if outage.cause == COMMON} == {12}
    assert not [outage for outage in found if outage.cause == NODE]


def test_spares_stand_behind_the_lab_and_change_nothing_that_happens_to_it():
    lab = lab_of(LAB)
    few, gpus = with_spares(lab, failures_of(node={"mtbf": "20d", "repair": "12h"}, spares="5%"))
    assert gpus == (24,)
    assert [node.name for node in few.nodes[60:]] == [f"gb-spare-000{n}" for n in (1, 2, 3)]
    assert len({node.rack for node in few.nodes}) == 21
    told = failures_of(node={"mtbf": "20d", "repair": "12h"}, lemons={"part": "10%", "times": 5})
    base, more = (sorted(outages(one, told, seed=1, until_s=100 * DAY_S)) for one in (lab, few))
    assert base == [outage for outage in more if outage.nodes[0] < 60]


def test_outages_of_one_node_that_overlap_are_one():
    told = failures_of(node={"mtbf": "2d", "repair": "1d"}, rack={"mtbf": "3d", "repair": "1d"})
    table, notes = drawn_happenings(lab_of(LAB), told, seed=1, until_s=100 * DAY_S, first_note=4)
    assert set(table["what"]) == {What.NODE}
    assert {notes[row - 4]["reason"] for row in table["note"]} == {"node failed", "rack failed"}
    for node in range(60):
        states = table["value"][table["row"] == node]
        assert (states[::2] == 2).all()
        assert (states[1::2] == 0).all()


def test_the_world_is_the_same_for_every_policy_and_other_for_another_seed():
    source = scenario(node={"mtbf": "20d", "repair": "12h"})
    worlds = [build_world(load_scenario(source), seed=seed)[0].happenings for seed in (1, 1, 2)]
    assert (worlds[0] == worlds[1]).all()
    assert len(worlds[0]) != len(worlds[2]) or (worlds[0] != worlds[2]).any()


@pytest.mark.parametrize(
    ("failures", "words"),
    [
        ({"node": {"repair": "1h"}}, "mtbf"),
        ({"node": {"mtbf": "1d", "per_1000_node_days": 3, "repair": "1h"}}, "mtbf"),
        ({"lemons": {"part": "1%", "times": 5}}, "node"),
        ({"spares": "200%"}, "2%"),
        ({"node": {"mtbf": "1d", "repair": "1h"}, "crews": 0}, "crews"),
    ],
)
def test_what_cannot_be_is_refused(failures, words):
    with pytest.raises(BadInput, match=words):
        load_scenario(scenario(**failures))


def test_failures_need_an_end():
    with pytest.raises(BadInput, match="until"):
        load_scenario({**scenario(node={"mtbf": "1d", "repair": "1h"}), "until": None})


@pytest.mark.slow
def test_a_job_that_needs_all_has_its_shape_as_often_as_the_spare_formula_says():
    lab = {**LAB, "clusters": {"gb": {"nodes": 60, "gpus_per_node": 8}}, "accounts": {"a": {"share": "100%"}}}
    works = []
    for spares in (0, 2, 4):
        source = {
            "lab": lab,
            "until": "150d",
            "jobs": [{"account": "a", "gpus": 480, "runtime": "9000d", "min_runtime": "1h", "restart": 0}],
            "failures": {"node": {"mtbf": "4d", "repair": "2h"}, "spares": spares},
        }
        played = replay.simulate(source)
        works.append(played.measures["gpu_hours"]["budgeted"] / (150 * 24 * 480))
        assert works[-1] == pytest.approx(Zone(60, 2 / 98).p_ok(spares), abs=0.03)
    assert works == sorted(works)
