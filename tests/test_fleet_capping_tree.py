"""`tenure plan capping` and `calibrate`: trees of breakers, the controller, readings."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tenure.cli.main import app
from tenure.planner.capping import CannotShed, Job, least
from tenure.planner.capping_tree import Breaker, Placed, Tree, least_caps, lost_racks
from tenure.planner.play_capping import Settings, drawn_use, play_capping
from tenure.planner.power_curves import gb200_fit, through

EXAMPLES = Path(__file__).resolve().parent.parent / "examples" / "fleet"
CURVE, BASE_W = gb200_fit(), 960.0


def ask(command, *words):
    return CliRunner().invoke(app, ["plan", command, *map(str, words)])


def one_breaker(shed, *jobs):
    """Jobs as (name, racks in all, racks here) under one breaker that must shed a part; no overhead."""
    here = sum(job[2] for job in jobs)
    breakers = [Breaker("all", 1e12, -1), Breaker("panel", (1 - shed) * here * 72 * BASE_W, 0)]
    placed = [Placed(name, {1: n} | ({0: racks - n} if racks > n else {})) for name, racks, n in jobs]
    return Tree(breakers, placed, 72, 0.0)


@pytest.mark.parametrize("shed", [0.01, 0.02, 0.05, 0.08])
def test_one_breaker_gives_what_watt_by_watt_gives(shed):
    tree = one_breaker(shed, ("A", 512, 6), ("B", 8, 2))
    caps_w = least_caps(tree, CURVE, BASE_W, 0.0)
    other = least(CURVE, BASE_W, (Job("A", 512, 6), Job("B", 8, 2)), shed)
    assert lost_racks(tree, CURVE, BASE_W, caps_w) == pytest.approx(other.loss, abs=0.02)
    assert (tree.drawn_w(caps_w) <= tree.limits_w * (1 + 1e-6)).all()


def test_two_levels_give_no_more_than_any_limits_on_a_grid():
    curve = through([(300, 0.4), (500, 0.75), (700, 0.92), (1000, 1.0)])
    breakers = [Breaker("hall", 600_000.0, -1), Breaker("p1", 330_000.0, 0), Breaker("p2", 300_000.0, 0)]
    jobs = [Placed("A", {1: 4, 2: 1}), Placed("B", {1: 1}), Placed("C", {2: 4})]
    tree = Tree(breakers, jobs, 64, 100.0, 1.05)
    caps_w = least_caps(tree, curve, 1000.0, 300.0)
    assert (tree.drawn_w(caps_w) <= tree.limits_w * (1 + 1e-6)).all()
    ours = lost_racks(tree, curve, 1000.0, caps_w)
    grid = np.array(list(product(np.linspace(300, 1000, 71), repeat=3)))
    fits = ((tree.below() @ tree.rack_w(grid).T).T <= tree.limits_w).all(axis=1)
    losses = np.array([5, 1, 4]) @ (1 - curve.at(grid[fits]) / curve(1000.0)).T
    assert ours <= losses.min() + 1e-3
    assert ours >= losses.min() - 0.1  # a step of the grid


def test_what_all_floors_do_not_relieve_is_refused():
    with pytest.raises(CannotShed, match="panel"):
        least_caps(one_breaker(0.2, ("A", 512, 6), ("B", 8, 2)), CURVE, BASE_W, 0.0)


@pytest.mark.slow
def test_the_controller_holds_the_breaker_without_swinging_and_is_safe_when_blind():
    tree = one_breaker(0.04, ("A", 512, 6), ("B", 8, 2))
    settings = Settings(BASE_W, 850.0, hold_s=30.0)
    wanted = drawn_use(np.random.default_rng(1), 2, 3000, 1.0, 0.97, 0.02)
    seen = np.ones(3000, bool)
    seen[2000:2100] = False
    played = play_capping(tree, CURVE, settings, wanted, seen)
    assert played.tripped is None
    assert played.over_s <= 5
    assert (played.caps_w[2010:2100] == 850.0).all()
    assert (played.caps_w >= 850.0).all()
    moves = np.diff(played.caps_w[300:1900, 1])
    assert (moves < 0).sum() <= 1600 / settings.hold_s + 5
    even = play_capping(tree, CURVE, settings, wanted, np.ones(3000, bool), even=True)
    aware = play_capping(tree, CURVE, settings, wanted, np.ones(3000, bool))
    assert aware.lost_racks < even.lost_racks
    nobody = play_capping(tree, CURVE, Settings(BASE_W, 850.0, high=1e9), wanted, np.ones(3000, bool))
    assert nobody.lost_racks == 0
    assert nobody.over_s > played.over_s


@pytest.mark.slow
@pytest.mark.parametrize(("command", "words"), [("capping", "Whom to cap"), ("calibrate", "Gains")])
def test_an_example_answers_in_a_table_in_json_and_on_a_page(command: str, words: str, tmp_path: Path):
    file = EXAMPLES / f"{command}.yaml"
    told = ask(command, file, "--json", "-", "--report", tmp_path / "page.html")
    assert told.exit_code == 0, told.output
    answer = json.loads(told.stdout)
    assert answer["conventions"]
    assert words in (tmp_path / "page.html").read_text()
    assert ask(command, file).exit_code == 0
    if command == "capping":
        assert answer["over"] == ["panel-1"]
        assert set(answer["options"][0]["caps_w"]) == {"B"}
        assert answer["played"]["job_aware"]["lost_racks"] < answer["played"]["even"]["lost_racks"]
        assert answer["played"]["none"]["tripped"] == "panel-1"
    else:
        meter = answer["meters"][0]
        assert meter["total_error"] < meter["total_error_unset"]
        assert 240 <= meter["drift"]["sample"] <= 250  # a reading was made wrong from 240 on
        assert answer["margin"]["independent"] == pytest.approx(0.0328, abs=1e-4)


def test_racks_that_move_together_are_refused_gains_by_the_command_too(tmp_path: Path):
    rng = np.random.default_rng(7)
    load = 100 + 10 * rng.normal(size=200)
    rows = ["time,panel,a,b"] + [f"{n},{2.02 * x:.6f},{x:.6f},{x:.6f}" for n, x in enumerate(load)]
    (tmp_path / "r.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "plan.yaml").write_text("readings: r.csv\nmeters: [{column: panel, racks: [a, b]}]\n")
    answer = json.loads(ask("calibrate", tmp_path / "plan.yaml", "--json", "-").stdout)
    assert answer["meters"][0]["gains"] is None
    assert "together" in answer["meters"][0]["refused"]
    assert answer["meters"][0]["common"] == pytest.approx(1.01, abs=1e-6)
