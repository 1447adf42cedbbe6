"""Runs apart in one file, reinforcement learning's two parts, and nodes played where formulas end."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tenure.cli.main import app
from tenure.planner.goodput import RENEWAL, Run, Saves
from tenure.planner.groups import Groups
from tenure.planner.phases import OVERLAPPED, Rollout
from tenure.planner.play_fleet import Part, PlayedJob
from tenure.planner.play_nodes import Lemons, PlayedNodes, draws, lacking
from tenure.planner.racks import Zone
from tenure.report.fleet_charts import FIRST, SECOND, Curve, chart

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "fleet" / "runs.yaml"
RUN, JOB = Run(180.0, 5.0, Saves(1.0, 20.0)), PlayedJob(5.0, 20.0, 1.0)


def ask(*words):
    return CliRunner().invoke(app, ["plan", "goodput", *map(str, words)])


def means(fleet, job, span, n, seed=1):
    return np.mean([tuple(draw) for draw in draws(seed, fleet, job, span, n)], axis=0)


def test_nodes_played_agree_with_exact_and_renewal():
    free = PlayedNodes(110, 100, Part(18_000.0, 10.0))
    assert means(free, JOB, 100_000.0, 12)[3] == pytest.approx(RUN.ettr(), abs=0.005)
    safe = PlayedNodes(110, 100, Part(18_000.0, 10.0), safe=True, spares_fail=False)
    assert means(safe, JOB, 100_000.0, 12)[3] == pytest.approx(RUN.ettr(RENEWAL), abs=0.005)


@pytest.mark.slow
@pytest.mark.parametrize("crews", [None, 6, 9])
def test_nodes_down_with_few_crews_are_as_the_repair_queue_has_them(crews):
    fleet = PlayedNodes(523, 512, Part(60.0, 0.5), crews=crews)
    found = [lacking(np.random.default_rng([1, i]), fleet, 400.0) for i in range(20)]
    zone = Zone(512, 0.5 / 60.5, crews)
    short = np.mean([(one.ends - one.starts).sum() / 400 for one in found])
    assert short == pytest.approx(1 - zone.p_ok(11), abs=0.005)
    assert np.mean([one.down for one in found]) == pytest.approx(zone.down(523) @ np.arange(524), rel=0.03)


def test_lemons_at_the_same_mean_rate_take_more_spares_only_where_repair_cures_nothing():
    ordinary = PlayedNodes(120, 100, Part(100.0, 1.0))
    lemons = PlayedNodes(120, 100, Part(100.0 * 1.9, 1.0), lemons=Lemons(0.1, 10.0))
    stops = [means(fleet, PlayedJob(0.01, 0.1), 2000.0, 4)[2] / 2000.0 for fleet in (ordinary, lemons)]
    assert stops[0] == pytest.approx(100 / 100.0 * (1 / 1.01), rel=0.03)
    assert stops[1] < stops[0]  # lemons spend more of their time down: each is struck less often
    cured = PlayedNodes(120, 100, Part(190.0, 1.0), lemons=Lemons(0.1, 10.0, cured=1.0), ready=True)
    assert means(cured, PlayedJob(0.01, 0.1), 2000.0, 4)[2] / 2000.0 == pytest.approx(100 / 190.0, rel=0.05)


def test_times_sum_to_the_wall_whatever_happens():
    fleet = PlayedNodes(104, 100, Part(50.0, 2.0), 3, Lemons(0.05, 8.0), Part(20.0, 1.0), 6)
    for draw in draws(3, fleet, PlayedJob(0.02, 0.1, 0.01, other_mtbf=3.0), 300.0, 10):
        parts = (draw.short, draw.productive, draw.saving, draw.rework, draw.recovery)
        assert min(parts) >= -1e-12
        assert sum(parts) == pytest.approx(1, abs=1e-9)


# --- reinforcement learning -----------------------------------------------------------------------------


def steps_played(rng, part, groups, mtbf, recovery, steps):
    """Steps of rollouts and training one after the other, failure by failure; gives steps ÷ time."""
    now, next_failure = 0.0, rng.exponential(mtbf)
    away_until = np.zeros(groups.count)
    for _ in range(steps):
        left = part  # rollout work of the whole step
        while left > 0.0:
            speed = np.mean(away_until <= now)
            ends = now + left / speed if speed else np.inf
            turn = min([ends, next_failure, *away_until[away_until > now]])
            left = 0.0 if turn == ends else left - (turn - now) * speed
            now = turn
            if turn == next_failure:
                away_until[rng.integers(groups.count)] = now + groups.away
                next_failure = now + rng.exponential(mtbf)
        left = 1.0 - part
        while left > 0.0:  # saved after each step: what a failure stops is trained anew
            if next_failure >= now + left:
                now, left = now + left, 0.0
            else:
                now = next_failure
                next_failure = now + rng.exponential(mtbf)
                while next_failure < now + recovery:
                    now = next_failure
                    next_failure = now + rng.exponential(mtbf)
                now, left = now + recovery, 1.0 - part
    return steps / now


def test_a_step_of_rollouts_and_training_takes_as_long_as_the_formula_says():
    part, mtbf, recovery = 0.6, 30.0, 1.5
    groups = Groups(8, 0.0, 3.0)
    played = steps_played(np.random.default_rng(2), part, groups, mtbf, recovery, 20_000)
    training = Run(mtbf, recovery, Saves(0.0, 1.0 - part)).ettr()
    assert Rollout(part, groups, mtbf).with_training(training) == pytest.approx(played, abs=0.005)


def test_overlapped_the_slower_part_decides_and_rollouts_of_their_own_fail_as_often_a_node():
    rollout = Rollout(0.5, Groups(16, 0.0, 10.0), 60.0, OVERLAPPED)
    assert rollout.with_training(0.8) == 0.8
    assert rollout.with_training(0.999) == rollout.works


@pytest.mark.slow
def test_the_example_gives_two_runs_and_plays_what_formulas_leave_out():
    told = ask(EXAMPLE, "--json", "-")
    assert told.exit_code == 0, told.output
    answer = json.loads(told.stdout)
    assert answer["rate"] == {
        "per_1000_node_days": 6.5, "source": "RSC-1 (arXiv:2410.21680)", "class": "all-cause",
    }  # fmt: skip
    runs = answer["runs"]
    assert runs["rl"]["kind"] == "reinforcement learning"
    assert runs["rl"]["goodput"] > 0.9 > runs["pretraining"]["goodput"]
    played = answer["played"]
    assert played["plain"]["productive"] == pytest.approx(played["formula"], abs=0.005)
    assert played["productive"] < played["plain"]["productive"]
    assert played["queued"] > 1
    assert ask(EXAMPLE).exit_code == 0


@pytest.mark.slow
def test_the_page_tells_play_rollouts_and_each_run(tmp_path: Path):
    page = tmp_path / "page.html"
    answer = json.loads(ask(EXAMPLE, "--json", "-", "--report", page).stdout)
    shown = page.read_text()
    for row in (answer["played"], answer["played"]["plain"]):
        assert f'data-v="{row["productive"]}"' in shown
    for name, run in answer["runs"].items():
        assert f">{name}</td>" in shown
        assert f'data-v="{run["goodput"]}"' in shown
    assert f'data-v="{answer["inverse"]["mtbf_s"]}"' in shown
    assert "Reinforcement learning" not in shown
    file = tmp_path / "rl.yaml"
    file.write_text("mtbf: 3h\nrecovery: 5m\nrollout: {part: 60%, replicas: 16, away: 3m}\n")
    answer = json.loads(ask(file, "--json", "-", "--report", page).stdout)
    shown = page.read_text()
    assert "Reinforcement learning, lockstep" in shown
    assert f'data-v="{answer["reinforcement"]["rollout"]}"' in shown
    assert "Played" not in shown
    assert "minutes of work between saves" not in shown  # saves are free: no interval to choose


@pytest.mark.parametrize("falls", [0.2, 3.0])
def test_names_of_lines_lie_off_both_lines_and_within_the_plot(falls):
    x = np.linspace(0.0, 10.0, 100)
    curves = [Curve("upper", 1 - falls * x / 20, FIRST), Curve("lower", 0.9 - falls * x / 10, SECOND)]
    frame = chart("t", "part", x, curves, alt="", dot=None)
    heights = []
    for mark in frame.marks:
        points = [point.split(" ") for point in mark.d.removeprefix("M").split("L")]
        heights.append([(int(a) / 10, 100 - int(b) / 10) for a, b in points])
    for label in frame.labels:
        assert 3 <= label.y <= 97
        own = heights[0 if label.text == "upper" else 1]
        under = [up for along, up in own if abs(along - label.x) <= 6]
        assert min(abs(up - label.y) for up in under) >= 4


def test_a_map_tells_small_gains_finely_and_no_sign_of_nothing(tmp_path: Path):
    page, file = tmp_path / "page.html", tmp_path / "groups.yaml"
    file.write_text("mtbf: 9h\nrecovery: 5m\ngroups: {count: 12, stall: 3m, away: 5m}\n")
    assert ask(file, "--report", page).exit_code == 0
    shown = page.read_text()
    assert re.search(r">\+\d\.\d</span>", shown)
    assert not re.search(r">[+\u2212]0(\.0)?</span>", shown)
