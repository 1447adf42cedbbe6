"""AIReSim's recorded outputs, an independent simulator, beside ours where both model the same thing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tenure.planner.goodput import RENEWAL, Run
from tenure.planner.play_fleet import Part, PlayedJob
from tenure.planner.play_nodes import Lemons, PlayedNodes, draws

RECORDED = json.loads((Path(__file__).parent / "airesim_runs.json").read_text())["runs"]
#: Its defaults, minutes: 4,096 of 4,360 servers, one failure in 100 days each, 20 min to recover.
MTBF, RECOVERY, DAYS = 100 * 1440.0, 20.0, 30 * 1440.0
REPAIR = 120 + 0.8 * 2 * 1440  # an automatic repair, and by hand after four in five
#: A bad server (15 in 100) fails by chance and five times as often besides; 76 in 100 repairs cure it.
BAD = Lemons(0.15, 6.0, cured=0.2 * 0.6 + 0.8 * 0.8)


def ours(lemons):
    fleet = PlayedNodes(
        4360, 4096, Part(MTBF, REPAIR), lemons=lemons, spares_fail=False, safe=True, ready=True
    )
    return np.mean([draw.productive for draw in draws(1, fleet, PlayedJob(RECOVERY, 0.0), DAYS, 40)])


def theirs(name):
    works = [row["work_min"] / row["wall_min"] for row in RECORDED if row["run"] == name]
    assert len(works) == 12
    return np.mean(works)


def test_without_bad_servers_all_three_agree_the_formula_too():
    formula = Run(MTBF / 4096, RECOVERY).ettr(RENEWAL)
    assert formula == pytest.approx(0.6374, abs=1e-4)
    assert theirs("clean") == pytest.approx(formula, abs=0.01)
    assert ours(None) == pytest.approx(formula, abs=0.005)


@pytest.mark.slow
def test_with_bad_servers_both_simulators_agree():
    assert ours(BAD) == pytest.approx(theirs("default"), abs=0.01)
    assert ours(BAD) < ours(None) - 0.05
