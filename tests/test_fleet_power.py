"""Power under a limit: known values, invariants, refusals."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tenure.cli.main import app
from tenure.planner import power
from tenure.planner.plan_power import plan_power
from tenure.planner.power import Site, optimum_w
from tenure.planner.power_curves import OutsideCurve, gb200_fit, h100_mayr, through
from tenure.report.frames import percent
from tenure.settings.errors import BadInput
from tenure.settings.power_file import power_file_of

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "fleet" / "power.yaml"
META = {
    "site_mw": 150,
    "multiplier": 1.37208,
    "overhead_w": 357.143,
    "rated_w": 1200,
    "curve": "gb200_fit",
    "at": [960, 1000, 1100, 1200],
}
H100 = {"site_mw": 150, "multiplier": 1.372, "overhead_w": 343, "rated_w": 700, "curve": "h100_mayr"}


def answer(base=META, **keys):
    told = {**base, **keys}
    return plan_power(power_file_of({key: value for key, value in told.items() if value is not None}))


# --- known values --------------------------------------------------------------------------------------


def test_150_megawatts_feed_83000_at_960_watts():
    rows = {row["cap_w"]: row for row in answer()["at"]}
    for cap_w, gpus in ((960, 83_000), (1000, 80_553), (1100, 75_025), (1200, 70_207)):
        assert rows[cap_w]["gpus"] == pytest.approx(gpus, abs=1)
    assert rows[960]["all_in_w"] == pytest.approx(1807, abs=1)


def test_the_made_curve_has_its_optimum_at_1000_watts():
    told = answer(at=[960, 1050, 1100])
    assert told["optimum"]["cap_w"] == pytest.approx(1000, abs=1)
    assert told["optimum"]["cluster"] == pytest.approx(1.09, abs=1e-3)
    assert [row["cluster"] for row in told["at"]] == pytest.approx([1.0837, 1.0819, 1.0610], abs=1e-3)
    curve = gb200_fit()
    assert [curve(w) for w in (960, 1000, 1100)] == pytest.approx([0.9167, 0.95, 0.9928], abs=1e-4)
    assert curve(1090) / curve(1000) == pytest.approx(1.0428, abs=1e-4)
    assert curve(1.09 * 1020) / curve(1020) == pytest.approx(1.0334, abs=1e-4)


def test_the_measured_curve_has_its_optimum_at_424_watts():
    told = answer(H100, at=[300, 400, 500, 600])
    assert told["optimum"]["cap_w"] == pytest.approx(424, abs=5)
    assert told["optimum"]["cluster"] == pytest.approx(1.156, abs=2e-3)
    assert told["optimum"]["per_gpu"] == pytest.approx(0.851, abs=2e-3)
    assert [row["cluster"] for row in told["at"]] == pytest.approx([0.964, 1.1525, 1.132, 1.0687], abs=2e-3)
    assert told["drawn_axis"]["optimum"]["cap_w"] == pytest.approx(421, abs=5)
    assert told["drawn_axis"]["optimum"]["cluster"] == pytest.approx(1.106, abs=2e-3)


@pytest.mark.parametrize(("overhead_w", "best_w", "gain"), [(200, 399, 1.232), (500, 449, 1.107)])
def test_the_measured_curve_under_other_overheads(overhead_w, best_w, gain):
    told = answer(H100, overhead_w=overhead_w)
    assert told["optimum"]["cap_w"] == pytest.approx(best_w, abs=5)
    assert told["optimum"]["cluster"] == pytest.approx(gain, abs=2e-3)


def test_the_measured_shape_carried_over_needs_capital_to_reach_a_kilowatt():
    told = answer(curve="h100_mayr", at=[960, 1000])
    assert told["optimum"]["cap_w"] == pytest.approx(685, abs=5)
    assert told["optimum"]["cluster"] == pytest.approx(1.226, abs=2e-3)
    assert [row["cluster"] for row in told["at"]] == pytest.approx([1.122, 1.101], abs=2e-3)
    assert told["at"][0]["cluster"] == pytest.approx(1.9 / 1.7, abs=0.01)
    for capital_w, best_w in ((1000, 836), (2113, 960), (2477, 1000), (4000, 1148)):
        found = answer(curve="h100_mayr", capital_w=capital_w)["optimum"]["cap_w"]
        assert found == pytest.approx(best_w, abs=3)
    assert told["capital_for_at_w"] == pytest.approx([2113, 2477], abs=25)


def test_idle_spares_feed_the_limit():
    for idle, factor in ((0.28, 1.09), (0.10, 1.1125), (0.40, 1.075)):
        assert power.limit_factor(72, 8, idle) == pytest.approx(factor, abs=1e-3)
    told = answer(idle={"gpus": 72, "held": 8, "draw": "28%"}, at=[1000, 1200])
    assert told["idle"]["at"][0]["per_gpu_factor"] == pytest.approx(1.0428, abs=1e-3)
    assert told["idle"]["at"][1]["per_gpu_factor"] is None


@pytest.mark.parametrize(
    ("sigma", "gpus", "speed"),
    [
        (0.01, 72, 0.976),
        (0.01, 1_024, 0.968),
        (0.01, 16_384, 0.960),
        (0.01, 32_768, 0.9587),
        (0.01, 98_304, 0.956),
        (0.02, 32_768, 0.917),
    ],
)
def test_a_synchronous_job_is_as_slow_as_its_slowest(sigma, gpus, speed):
    assert power.straggler_speed(gpus, sigma) == pytest.approx(speed, abs=1e-3)


def test_stragglers_agree_with_what_is_drawn():
    rng = np.random.default_rng(4)
    drawn = 1 + 0.01 * rng.standard_normal((2000, 1024)).min(axis=1).mean()
    assert power.straggler_speed(1024, 0.01) == pytest.approx(drawn, abs=3e-4)
    assert power.straggler_speed(1, 0.01) == pytest.approx(1, abs=1e-9)


# --- invariants ----------------------------------------------------------------------------------------


def test_what_is_fed_never_exceeds_the_site():
    for cap_w, overhead_w, site_w in itertools.product((200, 700, 1200), (0, 357.143), (1e5, 1.5e8)):
        site = Site(site_w, 1.372, overhead_w)
        n = site.gpus(cap_w)
        assert n * site.all_in_w(cap_w) <= site_w * (1 + 1e-8)
        assert (n + 1) * site.all_in_w(cap_w) > site_w


def test_the_optimum_is_no_worse_than_any_other_limit():
    points = through([(200, 0.3), (350, 0.35), (500, 0.8), (900, 1.0)])
    for curve, capital in itertools.product((gb200_fit(), h100_mayr(), points), (0, 500, 3000)):
        site = Site(1e8, 1.3, 300, capital)
        best = optimum_w(site, curve)
        caps = np.linspace(curve.low_w, curve.high_w, 777)
        assert curve(best) / (best + 300 + capital) >= (curve.at(caps) / (caps + 300 + capital)).max() - 1e-12


def test_curves_are_never_carried_past_their_ends():
    for curve in (gb200_fit(), h100_mayr(), through([(200, 0.3), (700, 1)])):
        for beyond in (curve.low_w - 1e-6, curve.high_w + 1e-6, 0.0):
            with pytest.raises(OutsideCurve):
                curve(beyond)


def test_points_are_met_and_joined_without_overshoot():
    curve = through([(300, 0.6), (200, 0.3), (700, 1.0), (600, 1.0)])
    assert [curve(w) for w in (200, 300, 600, 700)] == pytest.approx([0.3, 0.6, 1, 1])
    assert (np.diff(curve.at(np.linspace(200, 700, 999))) >= -1e-12).all()


# --- the plan ------------------------------------------------------------------------------------------


def test_an_optimum_on_the_edge_and_a_curve_that_ends_early_are_said():
    told = answer(curve=[[800, 0.8], [1000, 0.95]], at=[900])
    assert told["reference_w"] == 1000
    assert any("highest point" in warning for warning in told["warnings"])
    assert any("edge" in warning for warning in answer(curve=[[800, 0.5], [1200, 1]], at=[])["warnings"])


def test_nameplate_planning_strands_a_quarter():
    told = answer(overhead_w=0, multiplier=1, measured_w=0.76 * 1200)
    assert told["stranded"] == pytest.approx(0.24, abs=1e-9)


def test_a_summer_lowers_the_limit_of_the_fleet_that_was_bought():
    told = answer(seasons=[{"name": "winter", "multiplier": 1.37208}, {"name": "summer", "multiplier": 1.45}])
    winter, summer = told["seasons"]
    assert winter["cap_w"] == pytest.approx(told["optimum"]["cap_w"], abs=0.1)
    assert winter["gpus"] == told["optimum"]["gpus"]
    assert summer["cap_w"] < winter["cap_w"]
    assert told["optimum"]["gpus"] * 1.45 * (summer["cap_w"] + 357.143) == pytest.approx(150e6)
    assert summer["per_gpu"] < winter["per_gpu"]


def test_the_tightest_breaker_is_told_first_and_said_when_it_is_passed():
    told = answer(
        breakers=[
            {"name": "hall", "limit_kw": 10_000, "gpus": 7000},
            {"name": "rack", "limit_kw": 90, "gpus": 72},
        ]
    )
    assert [row["name"] for row in told["breakers"]] == ["rack", "hall"]
    assert told["breakers"][0]["cap_w"] == pytest.approx(90_000 / 72 - 357.143)
    assert told["breakers"][1]["over"] == 0
    assert any("breaker rack" in warning for warning in told["warnings"])


def test_a_limit_is_chosen_under_curves_that_disagree():
    told = answer(beside={"measured": "h100_mayr"})
    choice = told["regret"]
    assert 850 <= choice["cap_w"] <= 1000
    assert choice["worst"] == pytest.approx(max(choice["of"].values()))
    assert choice["of"]["curve"] == pytest.approx(choice["of"]["measured"], abs=0.01)
    assert answer(beside={"same": "gb200_fit"})["regret"]["worst"] < 1e-6
    apart = answer(beside={"small": [[100, 0.5], [200, 1]]})
    assert apart["regret"] is None
    assert any("share no limit" in warning for warning in apart["warnings"])


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"at": [960, 1300]}, "at[1]"),
        ({"at": [849]}, "at[0]"),
        ({"at": [-960]}, "at[0]"),
        ({"site_mw": -150}, "site_mw"),
        ({"site_mw": 0.001}, "site_mw"),
        ({"overhead_w": -1}, "overhead_w"),
        ({"capital_w": -1}, "capital_w"),
        ({"multiplier": 0.9}, "multiplier"),
        ({"rated_w": 1000}, "rated_w"),
        ({"curve": [[700, 0.5], [700, 0.6]]}, "curve"),
        ({"curve": [[700, 0.5]]}, "curve"),
        ({"curve": [[-700, 0.5], [900, 1]]}, "curve"),
        ({"curve": "gb300"}, "curve"),
        ({"idle": {"gpus": 8, "held": 8, "draw": 0.2}}, "idle"),
        ({"measured_w": 1300}, "measured_w"),
        ({"cap": 960}, "cap"),
        ({"seasons": [{"name": "summer"}]}, "seasons[0]"),
        ({"breakers": [{"name": "a", "limit_kw": -1, "gpus": 72}]}, "breakers[0].limit_kw"),
        ({"beside": {"x": [[700, 0.5], [700, 0.6]]}}, "beside.x"),
    ],
)
def test_what_is_wrong_in_a_file_is_one_message(change, key):
    with pytest.raises(BadInput) as refused:
        answer(**change)
    assert refused.value.key_path == key
    assert "\n" not in str(refused.value)


def test_a_multiplier_in_parts_multiplies_and_its_watts_sum_to_all():
    cooling = {
        "liquid": {"part": "80%", "watts_per_watt": 0.03},
        "air": {"part": "20%", "watts_per_watt": 0.12},
    }
    raw = {
        "site_mw": 150, "overhead_w": 357, "rated_w": 1200, "curve": "gb200_fit",
        "parts": {"network": "11%", "services": "10%"}, "cooling": cooling,
        "seasons": [{"name": "summer", "cooling": {"liquid": {"part": 1, "watts_per_watt": 0.1},
                                                   "air": {"part": 0, "watts_per_watt": 0}}}],
    }  # fmt: skip
    told = plan_power(power_file_of(raw))
    times = 1.11 * 1.10 * (1 + 0.8 * 0.03 + 0.2 * 0.12)
    best = told["optimum"]
    assert best["all_in_w"] == pytest.approx(times * (best["cap_w"] + 357))
    assert sum(told["split_w"].values()) == pytest.approx(best["all_in_w"])
    assert told["seasons"][0]["multiplier"] == pytest.approx(1.11 * 1.10 * 1.1)
    plain = plan_power(
        power_file_of({**raw, "parts": {}, "cooling": None, "multiplier": times, "seasons": []})
    )
    assert plain["optimum"]["gpus"] == best["gpus"]
    with pytest.raises(BadInput, match="multiplier"):
        power_file_of({**raw, "multiplier": 1.3})
    with pytest.raises(BadInput, match="100%"):
        power_file_of({**raw, "cooling": {**cooling, "air": {"part": "30%", "watts_per_watt": 0.1}}})


def test_a_breaker_carries_what_hangs_under_it_and_is_bound_by_those_above():
    raw = {"site_mw": 1, "multiplier": 1.3, "overhead_w": 300, "rated_w": 700, "curve": "h100_mayr"}
    tree = [
        {"name": "hall", "limit_kw": 160}, {"name": "a", "limit_kw": 100, "gpus": 80, "under": "hall"},
        {"name": "b", "limit_kw": 100, "gpus": 100, "under": "hall"},
    ]  # fmt: skip
    rows = {row["name"]: row for row in plan_power(power_file_of({**raw, "breakers": tree}))["breakers"]}
    assert rows["hall"]["gpus"] == 180
    assert rows["hall"]["cap_w"] == pytest.approx(160_000 / 180 - 300)
    assert rows["a"]["cap_w"] == pytest.approx(950)
    assert rows["a"]["path_cap_w"] == rows["hall"]["cap_w"]
    assert rows["b"]["path_cap_w"] == pytest.approx(160_000 / 180 - 300)
    with pytest.raises(BadInput, match="named before"):
        power_file_of({**raw, "breakers": tree[1:]})


def test_the_page_tells_seasons_curves_and_the_slowest_as_json_does(tmp_path: Path):
    page = tmp_path / "page.html"
    asked = CliRunner().invoke(app, ["plan", "power", str(EXAMPLE), "--json", "-", "--report", str(page)])
    assert asked.exit_code == 0, asked.output
    told, shown = json.loads(asked.stdout), page.read_text()
    for season in told["seasons"]:
        assert f">{season['name']}<" in shown
        assert f'data-v="{season["gpus"]}"' in shown
    assert f"{told['regret']['cap_w']:.0f} W leaves the least undone" in shown
    assert f"× {told['idle']['limit_factor']:.3f}" in shown
    assert percent(told["stragglers"]["speed"]) in shown


def test_money_the_capital_term_and_stranded_power_are_told_to_people_too(tmp_path: Path):
    """Not to programs alone: in the table and on the page what JSON has."""
    file, page, out = tmp_path / "plan.yaml", tmp_path / "page.html", tmp_path / "told.json"
    plan = {"site_mw": 40, "multiplier": 1.3, "overhead_w": 250, "rated_w": 700, "curve": "h100_mayr"}
    file.write_text(json.dumps(plan | {"at": [400, 550], "measured_w": 560, "price_per_mwh": 60}))
    asked = CliRunner().invoke(
        app, ["plan", "power", str(file), "--json", str(out), "--report", str(page)], env={"COLUMNS": "140"}
    )
    assert asked.exit_code == 0, asked.output
    told, shown = json.loads(out.read_text()), page.read_text()
    for row in (told["optimum"], *told["at"]):
        assert row["energy_cost_a_year"] == pytest.approx(60 * row["mwh_a_year"])
        assert f"{row['energy_cost_a_year']:,.0f}" in asked.output
        assert f'data-v="{row["energy_cost_a_year"]}"' in shown
    needs = told["capital_for_at_w"][1]
    assert f"550 W would be best with a capital_w of {needs:,.0f}." in asked.output
    assert f'data-v="{round(needs)}"' in shown
    assert percent(told["stranded"]) in shown
    assert f"{told['drawn_axis']['optimum']['cap_w']:g} W" in shown
