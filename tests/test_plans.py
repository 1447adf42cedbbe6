"""Plans through the command: the published figures, what is for sale, what tables and pages hold."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml

from plan_files import DAY, EXAMPLES, ROOT, answer, asked, example, offer, planned, row
from tenure.settings import gang_file, observation_file, place_file, window_file
from tenure.settings.errors import Checked
from tenure.settings.yaml_file import parse_yaml

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


# --- the published run --------------------------------------------------------------------------------


def test_the_published_example_prints_its_numbers():
    told = answer("plan window", EXAMPLES / "window.yaml")
    assert told["best"]["days"] == 19
    assert [round(one["cost"]) for one in told["windows"]] == [
        1_136_625, 1_095_752, 1_096_626, 1_132_908, 1_183_207, 1_236_523,
    ]  # fmt: skip
    assert told["duration_days"]["mean"] == pytest.approx(19.42090, abs=1e-4)
    assert told["duration_days"]["sd"] == pytest.approx(1.00203, abs=1e-4)
    assert told["break_even"] == pytest.approx(0.460274, abs=1e-6)
    assert told["continuous"]["days"] == pytest.approx(19.47223, abs=1e-4)
    assert told["on_demand"]["cost"] == pytest.approx(1_491_525, abs=1)
    assert 1 - told["best"]["cost"] / told["on_demand"]["cost"] == pytest.approx(0.265, abs=5e-4)
    assert told["method"] == "exact"
    assert told["failures"]["expected"] == pytest.approx(11.9513, abs=1e-3)
    assert told["failures"]["expected"] * told["failures"]["hours_each"] == pytest.approx(17.927, abs=2e-3)
    within = 4.5 * told["draws"]["mean_error"]
    assert told["draws"]["mean"] == pytest.approx(told["duration_days"]["mean"], abs=within)
    within = 4.5 * told["draws"]["p_overrun_error"]
    assert told["draws"]["p_overrun"] == pytest.approx(told["best"]["p_overrun"], abs=within)


@pytest.mark.slow
def test_tokens_for_a_paid_gpu_hour_are_as_published(tmp_path):
    told = planned(tmp_path, windows={"days": 20})["goodput"]
    assert told["ideal"] == pytest.approx(10_800_000)
    assert told["run"] == pytest.approx(10_056_818, abs=1)
    assert told["window"] == pytest.approx(9_765_625, abs=1)


@pytest.mark.slow
@pytest.mark.parametrize(("overrun", "regret"), [(116_800, 42_378), (400_000, 7_191)])
def test_of_two_offers_the_best_costs_a_known_regret(tmp_path, overrun, regret):
    told = planned(tmp_path, overrun={"per_day": overrun}, windows={"days": [14, 21]})
    assert told["best"]["days"] == 21
    assert told["best"]["regret"] == pytest.approx(regret, abs=2)


@pytest.mark.slow
def test_a_gang_on_demand_costs_while_it_waits(tmp_path):
    """The published text holds 1.5 days a node: linear arrivals over 96/31 days do."""
    arrivals = {"arrivals": {"kind": "linear", "days": 96 / 31}}
    told = planned(tmp_path, on_demand_gang=arrivals)["on_demand"]
    assert told["gang_wait"] == pytest.approx(115_200)
    assert told["with_gang_wait"] == pytest.approx(1_606_725, abs=1)
    assert told["gang_wait"] / DAY == pytest.approx(2.143, abs=1e-3), "in reserved days of the gang"


@pytest.mark.slow
def test_the_budget_is_a_limit_only_where_a_probability_is_given(tmp_path):
    assert planned(tmp_path)["best"]["p_over_budget"] == pytest.approx(0.1351, abs=1e-3)
    careful = planned(tmp_path, budget={"amount": 1_200_000, "probability": 0.06})
    assert careful["best"]["days"] == 20
    never = planned(tmp_path, budget={"amount": 1_000_000, "probability": 0.05})
    assert any(text.startswith("over budget") for text in never["warnings"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("overrun", "days"),
    [
        ({"move": 40_000, "on_demand": True}, 19.39),
        ({"move": 155_200, "on_demand": True}, 20.28),
        ({"on_demand": True, "stall_per_day": 400_000, "p_fallback": 0}, 20.53),
        ({"stall_per_day": 400_000}, 20.53),
    ],
    ids=["moved", "moved dearly", "never moved", "stalled"],
)
def test_the_overrun_is_a_mixture_of_moving_and_waiting(tmp_path, overrun, days):
    told = planned(tmp_path, overrun=overrun)
    assert told["continuous"]["days"] == pytest.approx(days, abs=0.01)


# --- what is for sale ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_lattice_sells_no_19_days_and_an_extension_must_be_likely():
    told = answer("plan window", EXAMPLES / "aws.yaml")
    assert told["best"]["days"] == 21
    assert told["best"]["regret"] == pytest.approx(42_378, abs=2)
    first = told["composites"][0]
    assert (first["block_days"], first["extension_days"]) == (14, 5)
    assert first["p_needed"] == pytest.approx(0.872, abs=5e-4)
    assert not {15, 19, 20} & {one["days"] for one in told["windows"]}


@pytest.mark.slow
def test_with_a_dear_overrun_no_extension_is_worth_it(tmp_path):
    told = planned(tmp_path, "aws", overrun={"per_day": 400_000})
    assert told["best"]["days"] == 21
    assert told["best"]["regret"] == pytest.approx(7_191, abs=2)
    assert told["composites"] == []


@pytest.mark.slow
def test_a_lattice_brings_its_own_termination(tmp_path):
    told = planned(tmp_path, "aws", lead=None)
    assert told["lead_s"] == {"startup": 0.0, "termination": 1800.0, "drain": 0.0}
    azure = planned(tmp_path, "aws", lead=None, lattice="azure")
    assert azure["lead_s"]["termination"] == 0.0
    assert azure["composites"] == [], "an azure block cannot be extended"
    assert planned(tmp_path, "aws", lattice="gcp")["best"]["days"] == 19


@pytest.mark.slow
def test_every_provider_has_a_record_with_sources(tmp_path):
    for name in ("aws", "azure", "gcp", "manual", "sfcompute"):
        told = planned(tmp_path, "aws", lattice=name)
        facts = told["provider"]["facts"]
        assert "durations" in facts
        assert all(fact["source"] and fact["date"] for fact in facts.values()), name


@pytest.mark.slow
def test_a_run_in_short_windows_waits_before_each(tmp_path):
    told = planned(tmp_path, "aws", lattice="gcp", chained={"wait": "12h", "restart": "1h"})["chained"]
    assert told["hop_days"] == 7
    assert 3 <= told["hops"] < 3.1, "D is above 14 days always and above 21 seldom"
    more = told["hops"] - 1
    assert told["elapsed_days"] == pytest.approx(19.4209 + more * 13 / 24, abs=1e-3)
    assert told["cost"] == pytest.approx(DAY * (19.4209 + more / 24), rel=1e-5)


@pytest.mark.slow
def test_real_offers_have_their_real_length_and_fee(tmp_path):
    offers = [offer("a", 20, 20 * DAY), offer("b", 20.2, 20 * DAY), offer("c", 21, 30 * DAY)]
    told = planned(tmp_path, windows=None, offers=offers)
    assert told["best"]["id"] == "b"
    assert [one["days"] for one in told["windows"]] == pytest.approx([20, 20.2, 21])
    assert row(told, 20)["cost"] == pytest.approx(1_096_626, abs=2)
    bare = {"on_demand_per_day": 76_800}
    assert planned(tmp_path, windows=None, offers=offers, prices=bare)["continuous"] is None


@pytest.mark.slow
def test_data_elsewhere_costs_its_way_and_its_time(tmp_path):
    data = {"tb": 100, "region": "us-east", "egress_per_gb": 0.02, "gb_per_s": 1}
    offers = [offer("there", 20, 20 * DAY, region="us-east"), offer("away", 20, 20 * DAY, region="eu")]
    told = planned(tmp_path, windows=None, offers=offers, data=data, now="2027-03-01T11:30:00Z")
    there, away = told["windows"]
    assert (there["cost"], there["p_overrun"]) == pytest.approx((1_096_626, 0.269832), abs=2)
    assert away["data_cost"] == pytest.approx(2_000)
    assert away["lost_days"] == pytest.approx(100_000 / 86_400), "nothing could be moved before it starts"
    early = planned(tmp_path, windows=None, offers=offers, data=data, now="2027-02-01T00:00:00Z")["windows"][
        1
    ]
    assert early["lost_days"] == 0
    assert early["cost"] == pytest.approx(there["cost"] + 2_000)


def test_segments_in_other_zones_are_windows_with_a_move_between(tmp_path):
    whole = offer("whole", 20, 20 * DAY)
    first, second = offer("", 10, 10 * DAY, az="a"), offer("", 20, 10 * DAY, az="b")
    parts = [first | {"id": "1"}, second | {"id": "2", "start": first["end"]}]
    same = [parts[0], parts[1] | {"az": "a"}]
    offers = [
        whole | {"id": "moved", "fee": None, "segments": parts},
        whole | {"id": "one", "segments": same},
    ]
    told = planned(tmp_path, windows=None, offers=offers, lead={"startup": "3h"})["windows"]
    assert told[0]["lost_days"] == pytest.approx(3 / 24), "started once more"
    assert "lost_days" not in told[1]
    assert told[0]["cost"] > told[1]["cost"]


@pytest.mark.slow
def test_offers_outrank_the_record_and_it_is_said(tmp_path):
    offers = [offer("long", 200, 200 * DAY), offer("20", 20, 20 * DAY)]
    told = planned(tmp_path, windows=None, offers=offers, lattice="aws")
    assert told["best"]["id"] == "20"
    assert told["lead_s"]["termination"] == 1800.0
    assert any("longer than any aws is known to sell" in text for text in told["warnings"])
    large = planned(
        tmp_path, "aws", nodes=96, prices={"reserved_per_node_hour": 70, "on_demand_per_node_hour": 100}
    )
    assert any("2 windows of one date" in text for text in large["warnings"])


@pytest.mark.slow
def test_an_extension_is_judged_jointly_with_the_market(tmp_path):
    states = [
        {"p": 0.6, "p_extension": 0.95, "p_fallback": 1},
        {"p": 0.4, "p_extension": 0.05, "p_fallback": 0.2, "on_demand_factor": 1.5},
    ]
    joint = {"states": states}
    overrun = {"move": 40_000, "on_demand": True, "stall_per_day": 400_000, "p_fallback": 0.68}
    told = planned(tmp_path, overrun=overrun, extension=joint)
    assert len(told["market"]) == 2
    apart = planned(tmp_path, overrun=overrun, extension={"p": 0.59})
    assert told["best"]["cost"] > apart["best"]["cost"]
    assert any("apart from tightness" in text for text in apart["warnings"])


# --- runs -----------------------------------------------------------------------------------------------


def test_failures_that_breed_are_the_default(tmp_path):
    told = planned(tmp_path, model=None)
    assert told["duration_days"]["mean"] == pytest.approx(19.4520, abs=1e-4)
    assert told["failures"]["model"] == "compounding"


@pytest.mark.slow
def test_pilots_are_fitted_widened_and_flagged(tmp_path):
    pilots = [{"nodes": 2, "mean": 3100, "sd": 100}, {"nodes": 4, "mean": 3060, "sd": 100}]
    small = planned(tmp_path, throughput=None, pilots=pilots)
    assert small["throughput"]["widened"] > 1.2
    assert small["throughput"]["mean"] < 3060
    assert any(text.startswith("pilot that lied") for text in small["warnings"])
    pilots[1] |= {"nodes": 8}
    fair = planned(tmp_path, throughput=None, pilots=pilots)
    assert not any(text.startswith("pilot that lied") for text in fair["warnings"])


@pytest.mark.slow
def test_pilots_tell_of_failures_too(tmp_path):
    """8 nodes for 2 days are 16 node-days: none seen leaves a tail of 23.5 days."""
    pilots = [{"nodes": 8, "mean": 3000, "sd": 150, "hours": 48, "failures": 0}]
    seen = {"seen": {"events": 0, "node_days": 16}}
    by_pilots = planned(tmp_path, failures=None, throughput=None, pilots=pilots)
    assert by_pilots["failures"]["per_node_day"] == pytest.approx(0.5 / 16)
    told = planned(tmp_path, failures=seen, overrun={"per_day": 400_000})
    assert told["duration_days"]["p95"] == pytest.approx(23.52, abs=0.01)
    assert told["continuous"]["days"] == pytest.approx(21.640, abs=0.005)
    assert any(text.startswith("few failures seen") for text in told["warnings"])


def test_many_node_days_leave_little_of_a_prior(tmp_path):
    """8 failures in 400 node-days: nearly the published run, whose rate is known."""
    told = planned(tmp_path, failures={"seen": {"events": 8, "node_days": 400}})
    assert told["failures"]["per_node_day"] == pytest.approx(0.02125)
    assert told["continuous"]["days"] == pytest.approx(19.47, abs=0.1)
    assert told["duration_days"]["p95"] == pytest.approx(21.146, abs=0.15)


@pytest.mark.parametrize(
    ("duration", "mean", "p95"),
    [
        ({"distribution": "uniform", "low": "18d", "high": "22d"}, 20, 21.8),
        ({"distribution": "normal", "mean": "19.4d", "sd": "1d"}, 19.4, 21.0449),
        ({"distribution": "lognormal", "mean": "19.4d", "sd": "1d"}, 19.4, 21.0874),
        ({"distribution": "shifted-exponential", "shift": "18d", "scale": "1.4d"}, 19.4, 22.194),
        ({"distribution": "atoms", "atoms": {"18d": 0.5, "20d": 0.5}}, 19, 20),
    ],
    ids=lambda value: value["distribution"] if isinstance(value, dict) else "",
)
def test_the_length_may_be_given_itself(tmp_path, duration, mean, p95):
    away = dict.fromkeys(("tokens", "throughput", "failures", "recovery", "overhead", "model"))
    told = planned(tmp_path, duration=duration, **away)
    assert told["duration_days"]["mean"] == pytest.approx(mean)
    assert told["duration_days"]["p95"] == pytest.approx(p95, abs=1e-3)
    assert "failures" not in told


def test_lengths_may_be_samples_of_a_file(tmp_path):
    (tmp_path / "days.csv").write_text("days\n18\n19.5\n20\n22\n")
    away = dict.fromkeys(("tokens", "throughput", "failures", "recovery", "overhead", "model"))
    duration = {"distribution": "samples", "file": "days.csv"}
    told = planned(tmp_path, duration=duration, **away)
    assert told["duration_days"]["mean"] == pytest.approx(19.875)
    assert row(told, 20)["p_overrun"] == 0.25, "strictly"
    (tmp_path / "days.csv").write_text("18\n-1\n")
    file = tmp_path / "plan.yaml"
    ran = asked("plan", "window", str(file))
    assert ran.exit_code == 2
    assert "days.csv: line 2" in ran.stderr


@pytest.mark.slow
def test_what_is_free_on_demand_divides_by_nothing(tmp_path):
    file = tmp_path / "plan.yaml"
    prices = {"reserved_per_day": DAY, "on_demand_per_day": 0}
    file.write_text(yaml.safe_dump(example(prices=prices)))
    ran = asked("plan", "window", str(file), "--report", str(tmp_path / "page.html"))
    assert ran.exit_code == 0, ran.output


@pytest.mark.slow
def test_the_last_save_is_sized_by_the_store(tmp_path):
    told = planned(tmp_path, params=70e9, store={"gb_per_s": 20})
    assert told["final_save_s"] == pytest.approx(49, abs=0.5)
    assert told["lead_s"]["drain"] == told["final_save_s"]
    large = planned(tmp_path, params=405e9, store={"gb_per_s": 5})
    assert large["final_save_s"] / 60 == pytest.approx(18.9, abs=0.1)
    assert any("by the clock, not by the warning" in text for text in large["warnings"])


@pytest.mark.slow
def test_the_five_failure_modes_are_told_with_the_plans_own_numbers(tmp_path):
    pilots = [{"nodes": 4, "mean": 3060, "sd": 100}]
    overrun = {"move": 1000, "on_demand": True}
    told = planned(tmp_path, throughput=None, pilots=pilots, overrun=overrun)
    modes = {text.partition(":")[0] for text in told["warnings"]}
    wanted = {"median trap", "pilot that lied", "late start", "lost final checkpoint", "phantom gang"}
    assert wanted <= modes
    assert len(told["next_steps"]) == 6


@pytest.mark.slow
def test_each_assumption_moved_alone_gives_a_tornado_widest_first():
    told = answer("plan window", EXAMPLES / "window.yaml")
    base = told["best"]["cost"]
    widths = [max(abs(one["kept_cost"] - base) for one in pair) for pair in told["tornado"]]
    assert widths == sorted(widths, reverse=True)
    names = [pair[0]["name"] for pair in told["tornado"]]
    assert {"speed", "failures", "lost with a failure", "overrun price", "reserved price"} <= set(names)
    late = told["tornado"][names.index("lost at the start")][1]
    assert late["kept_cost"] == pytest.approx(row(told, 18)["cost"] + DAY, abs=1), "a day later is a day less"


@pytest.mark.slow
def test_the_interval_between_saves_is_one_of_them(tmp_path):
    saves = {"restart": "30m", "checkpoint_every": "2h", "stall": "3.6m"}
    told = planned(tmp_path, recovery=saves, overhead=None, model=None)
    assert told["duration_days"]["mean"] == pytest.approx(19.454, abs=1e-3)
    assert told["checkpoint"]["young_h"] == pytest.approx(2.121, abs=1e-3)
    assert told["checkpoint"]["best_every_h"] == pytest.approx(2.0, abs=0.15), "Young's, a little shorter"
    assert 0 <= told["checkpoint"]["saved_days"] < 0.01
    names = [pair[0]["name"] for pair in told["tornado"]]
    half, twice = told["tornado"][names.index("work between saves")]
    assert (half["words"], twice["words"]) == ("1 h", "4 h")
    assert half["kept_cost"] > told["best"]["cost"] < twice["kept_cost"], "2 h is near the best interval"
    assert "restart" in names


def test_offers_below_the_price_of_a_day_cost_less_than_the_best_length(tmp_path):
    file = tmp_path / "plan.yaml"
    file.write_text(yaml.safe_dump(example(windows=None, offers=[offer("cheap", 20, 18 * DAY)])))
    ran = asked("plan", "window", str(file), "--report", str(tmp_path / "page.html"))
    assert ran.exit_code == 0, ran.output
    assert "less, at its own fee" in " ".join(ran.stdout.split())
    assert "reserved price" not in ran.stdout, "the fee is what is paid"


def test_plans_on_pages_are_valid():
    pages = [page.read_text() for page in (ROOT / "docs").rglob("*.md")]
    found = [text for page in pages for text in re.findall(r"```yaml window\n(.*?)```", page, re.S)]
    assert found
    for text in found:
        window_file.window_file_of(parse_yaml(text))


@pytest.mark.slow
def test_every_figure_has_its_convention():
    for kind, name in (("plan window", "window"), ("plan gang", "gang"), ("plan place", "hoarding"),
                       ("run forecast", "forecast")):  # fmt: skip
        told = answer(kind, EXAMPLES / f"{name}.yaml")
        assert told["conventions"], name
        assert all(told["conventions"].values())


# --- gangs and places --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arrivals", "held", "bill", "mean"),
    [
        ({"kind": "linear", "days": 3}, 1.453125, 111_600, 72),
        ({"kind": "exponential", "days": 3}, 2.2608, 173_630, 72),
        ({"kind": "trickle", "have": 20, "per_day": 4}, 76.5 / 32, 183_600, 72),
    ],
)
def test_gangs_that_come_by_themselves_bill_as_known(tmp_path, arrivals, held, bill, mean):
    told = planned(tmp_path, "gang", "plan gang", zone=None, arrivals=arrivals)
    assert told["held_node_days_per_node"] == pytest.approx(held, abs=1e-4)
    assert told["held_cost"] == pytest.approx(bill, abs=5)
    assert told["assembly_h"]["mean"] == pytest.approx(mean)
    assert told["method"] == "exact"


def test_the_gang_of_the_example_waits_for_its_zone():
    told = answer("plan gang", EXAMPLES / "gang.yaml")
    assert told["p_all_at_once"] == pytest.approx(0.193711, abs=1e-6)
    assert told["rounds_keep"] == pytest.approx(1.8875, abs=1e-4)
    assert told["assembly_h"]["mean"] == pytest.approx(4.4, rel=0.05)
    assert told["assembly_h"]["p50"] == 0.25
    assert told["assembly_h"]["p90"] == pytest.approx(15, rel=0.05)


def test_hoarded_nodes_are_a_reservation_at_full_price():
    told = answer("plan place", EXAMPLES / "hoarding.yaml")
    where = {one["name"]: one for one in told["placements"]}
    assert where["ablations"]["on"] == "reserved"
    kept = next(one for one in where["ablations"]["alternatives"] if one["on"] == "on_demand")
    assert kept["cost"] == pytest.approx(128 * 12.5 * 730)
    assert where["ablations"]["cost"] == pytest.approx(128 * 8.75 * 730)
    assert where["evals"]["on"] == where["data-cleaning"]["on"] == "queue"
    assert told["base_load"] | {"layers": None} == {
        "gpus": 64, "break_even_utilisation": pytest.approx(0.7), "reserve": 192, "layers": None,
    }  # fmt: skip
    assert any(text.startswith("hoarding: ablations") for text in told["warnings"])


def test_work_that_cannot_be_interrupted_is_never_put_where_it_would_be(tmp_path):
    work = {"name": "w", "gpus": 64, "hours": 100}
    capacity = {
        "spot": {"price_per_gpu_hour": 1, "interruptions_per_node_day": 1},
        "on_demand": {"price_per_gpu_hour": 3},
    }
    told = planned(tmp_path, "hoarding", "plan place", workloads=[work], capacity=capacity)
    assert told["placements"][0]["on"] == "on_demand"
    work |= {"interruptible": True}
    told = planned(tmp_path, "hoarding", "plan place", workloads=[work], capacity=capacity)
    assert told["placements"][0]["on"] == "spot"
    assert told["placements"][0]["cost"] == pytest.approx(64 * 100 / (1 - 8 / 24 * 0.5))
    work |= {"deadline": "101h"}
    told = planned(tmp_path, "hoarding", "plan place", workloads=[work], capacity=capacity)
    assert told["placements"][0]["on"] == "on_demand", "with its interruptions it would be late"


def test_a_gang_that_is_not_surely_there_is_told(tmp_path):
    work = {"name": "w", "gpus": 64, "hours": 100, "gang": True}
    capacity = {"on_demand": {"price_per_gpu_hour": 3, "p_gang": 0.3}}
    told = planned(tmp_path, "hoarding", "plan place", workloads=[work], capacity=capacity)
    assert [text for text in told["warnings"] if text.startswith("phantom gang: w needs 64 GPUs together")]


# --- what is printed and drawn ---------------------------------------------------------------------------

SHOWN = [
    ("plan window", "window", "buy a window of 19 days, 1,095,752"),
    ("plan window", "aws", "above 87.2 %"),
    ("plan gang", "gang", "19.4 %"),
    ("plan place", "hoarding", "hoarding: ablations"),
    ("run forecast", "forecast", "do not extend: overrun with chance 68.7%"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name", "words"), SHOWN)
def test_tables_fit_80_columns_and_pages_need_no_network(tmp_path, kind, name, words):
    page = tmp_path / "page.html"
    ran = asked(*kind.split(), str(EXAMPLES / f"{name}.yaml"), "--report", str(page))
    assert ran.exit_code == 0, ran.output
    assert max(len(line.rstrip()) for line in ran.stdout.splitlines()) <= 80
    assert words in " ".join(ran.stdout.split())
    html = page.read_text()
    assert "http://" not in html.replace("http://www.w3.org", "")
    assert "https://" not in html
    assert "<svg" in html
    assert "nan" not in html.lower().split("<main")[1].split("</main")[0].replace("finance", "")


@pytest.mark.slow
def test_charts_are_written_for_slides(tmp_path):
    ran = asked("plan", "window", str(EXAMPLES / "window.yaml"), "--charts", str(tmp_path / "charts"))
    assert ran.exit_code == 0, ran.output
    names = sorted(file.name for file in (tmp_path / "charts").iterdir())
    assert names == ["cost.png", "cost.svg", "length.png", "length.svg", "tornado.png", "tornado.svg"]


def test_every_key_of_plan_files_is_documented():
    text = (ROOT / "docs" / "reference" / "plans.md").read_text()
    models = [
        *(one for one in vars(window_file).values() if is_model(one)),
        *(one for one in vars(gang_file).values() if is_model(one)),
        *(one for one in vars(place_file).values() if is_model(one)),
        *(one for one in vars(observation_file).values() if is_model(one)),
    ]
    keys = {key for model in models for key in model.model_fields}
    missing = sorted(key for key in keys if not re.search(rf"\b{key}\b", text))
    assert len(keys) > 80
    assert not missing, f"docs/reference/plans.md lacks {missing}"


def is_model(one: Any) -> bool:
    return isinstance(one, type) and issubclass(one, Checked) and one is not Checked


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: the page is not tried in a browser")
def test_a_page_shows_its_charts_in_a_browser(tmp_path):
    page, picture = tmp_path / "page.html", tmp_path / "page.png"
    assert asked("plan", "window", str(EXAMPLES / "window.yaml"), "--report", str(page)).exit_code == 0
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    flags += [f"--user-data-dir={tmp_path / 'browser'}", "--window-size=1240,1600"]
    assert CHROMIUM is not None
    told = subprocess.run(
        [CHROMIUM, *flags, f"--screenshot={picture}", page.as_uri()], capture_output=True, timeout=180
    )
    assert told.returncode == 0, told.stderr.decode()[-500:]
    from matplotlib.image import imread

    pixels = imread(picture)[..., :3]
    red = (pixels[..., 0] > 0.75) & (pixels[..., 1] < 0.25) & (pixels[..., 2] < 0.25)
    blue = (pixels[..., 2] > pixels[..., 0] + 0.25) & (pixels[..., 0] < 0.75)
    assert red.sum() > 5_000, "the overrun is shaded"
    assert blue.sum() > 5_000, "the distribution is drawn"
