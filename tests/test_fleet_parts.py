"""Waits for parts, zones and crews played, and a plan's spares at work under the scheduler."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tenure.cli.main import app
from tenure.planner.parts import at_once, mean_wait
from tenure.planner.plan_spares import plan_spares
from tenure.service import replay
from tenure.settings.errors import BadInput
from tenure.settings.spares_file import spares_file_of

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "fleet" / "spares.yaml"
SMALL = {
    "job": {"gpus": 64 * 64, "per_rack": 64},
    "rack": {"gpus": 72, "tray_gpus": 4, "held": 8},
    "unavailability": {"tray_mtbf": "308d", "tray_mttr": "24h", "rack_mtbf": "30d", "rack_mttr": "12h"},
    "confidence": "99%",
    "mission": "20d",
}


def plan(**changes):
    return plan_spares(spares_file_of({**SMALL, **changes}))


@pytest.mark.parametrize(("on_site", "cv"), [(0, 0.0), (2, 0.0), (5, 0.0), (5, 1.0)])
def test_the_wait_for_a_part_is_that_of_a_store_played(on_site, cv):
    rng, rate, turnaround = np.random.default_rng(1), 0.4, 10.0
    times = np.cumsum(rng.exponential(1 / rate, 60_000))
    orders = times + (turnaround if cv == 0 else rng.exponential(turnaround, len(times)))
    # parts come as orders do, in order of time; the n-th failure takes the n-th part there ever is
    there = np.sort(np.concatenate([np.zeros(on_site), orders]))[: len(times)]
    waits = np.maximum(0.0, there - times)
    assert mean_wait(rate, on_site, turnaround) == pytest.approx(waits.mean(), rel=0.05)
    assert at_once(rate, on_site, turnaround) == pytest.approx(np.mean(waits == 0), abs=0.01)


def test_parts_far_away_make_repairs_longer_and_ask_for_more_spares():
    near = plan()
    few = plan(parts={"rack": {"on_site": 2, "turnaround": "14d"}})
    many = plan(parts={"rack": {"on_site": 100, "turnaround": "14d"}})
    assert near["waits_for_parts"] is None
    assert few["rack_unavailability"] > near["rack_unavailability"]
    assert few["racks"]["spare"] > near["racks"]["spare"]
    assert many["rack_unavailability"] == pytest.approx(near["rack_unavailability"], rel=1e-6)
    wait = few["waits_for_parts"]["rack"]
    assert wait["wait_s"] / 3600 == pytest.approx(mean_wait(64 / 30 / 24, 2, 14 * 24))


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{"zones": 4}, {"crews": 3}, {"zones": 2, "crews": 4}])
def test_zones_and_crews_played_agree_with_their_formula(changes):
    told = plan(**changes, play={"draws": 60})
    for row in told["played"]:
        assert row["p_ok"] == pytest.approx(row["p_ok_formula"], abs=0.005)


def test_idle_spares_work_under_the_scheduler_as_the_plan_says(tmp_path: Path):
    file = tmp_path / "plan.yaml"
    small = {**SMALL, "job": {"gpus": 64 * 16, "per_rack": 64}, "mission": "10d"}
    file.write_text(json.dumps(small))
    asked = CliRunner().invoke(
        app, ["plan", "spares", str(file), "--json", "-", "--scenario", str(tmp_path / "s.yaml")]
    )
    assert asked.exit_code == 0, asked.output
    told = json.loads(asked.stdout)
    played = replay.simulate(tmp_path / "s.yaml").measures
    hours = 10 * 24
    assert played["gpu_hours"]["capacity"] == pytest.approx(hours * 64 * told["racks"]["total"])
    assert played["gpu_hours"]["budgeted"] / hours / 1024 > told["p_ok"] - 0.03
    free = played["gpu_hours"]["unbudgeted"] / hours
    assert free == pytest.approx(told["idle_spares"]["gpus"], rel=0.15)


def test_what_cannot_be_is_refused():
    down = {"tray": "0.5%", "rack": "0.5%"}
    with pytest.raises(BadInput, match="rack_mtbf"):
        plan(unavailability=down, mission=None, parts={"rack": {"on_site": 1, "turnaround": "3d"}})
    with pytest.raises(BadInput, match="common cause"):
        plan(crews=3, play={}, common_cause={"per_year": 4, "racks": 3, "mttr": "3h"})
    with pytest.raises(BadInput, match="turnaround"):
        plan(parts={"rack": {"on_site": 1, "turnaround": "-3d"}})


def test_the_page_tells_waits_play_and_idle_spares_as_json_does(tmp_path: Path):
    file, page = tmp_path / "plan.yaml", tmp_path / "page.html"
    more = {
        "zones": 2,
        "crews": 100,
        "parts": {"rack": {"on_site": 20, "turnaround": "14d"}},
        "play": {"draws": 20},
        "seen": {"events": 40, "rack_days": 2000},
        "bought": 72 * 90,
        "prices": {"per_gpu": 40_000},
    }
    file.write_text(json.dumps({**SMALL, **more}))
    asked = CliRunner().invoke(app, ["plan", "spares", str(file), "--json", "-", "--report", str(page)])
    assert asked.exit_code == 0, asked.output
    told, shown = json.loads(asked.stdout), page.read_text()
    for row in told["played"]:
        assert f'data-v="{row["p_ok"]}"' in shown
        assert f'data-v="{row["p_no_shortage_formula"]}"' in shown
    assert f'data-v="{told["waits_for_parts"]["rack"]["wait_s"]}"' in shown
    assert f'data-v="{told["over_q"][0]["rack_unavailability"]}"' in shown
    assert f'data-v="{told["bought_covers"]["at"][0]["rack_unavailability"]}"' in shown
    assert f'data-v="{told["alternatives"][0]["cost"]}"' in shown
    idle = shown.split("spare GPUs idle, mean")[1][:80]
    assert f">{told['idle_spares']['gpus']}<" in idle
    file.write_text(json.dumps(SMALL))
    assert CliRunner().invoke(app, ["plan", "spares", str(file), "--report", str(page)]).exit_code == 0
    assert "Played" not in page.read_text()


def test_a_plan_without_spares_has_no_fewer_than_no_idle_gpus():
    assert plan(confidence="0.001%", mission=None)["idle_spares"]["gpus"] == 0
