"""`tenure plan failures`: rates from counts and logs, ages, lemons and sizes, each against another way."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from tenure.cli.main import app
from tenure.planner.failures import weibull_of
from tenure.planner.plan_failures import trend_of
from tenure.service import fleet_plans

ROOT = Path(__file__).resolve().parent.parent
TRACES = Path(os.environ.get("TENURE_TRACES", ROOT.parent / "shared" / "data" / "traces"))
TITAN = TRACES / "titan-gpu-failures" / "gc_full.csv.gz"
EXAMPLE = ROOT / "examples" / "fleet" / "failures.yaml"
PARTS = 32_560  #: lives of its 33,718 rows that have both times


def ask(*words):
    return CliRunner().invoke(app, ["plan", "failures", *map(str, words)])


def test_the_example_gives_llama_3s_rate_with_its_source_and_class_and_a_page(tmp_path: Path):
    told = ask(EXAMPLE, "--json", "-", "--report", tmp_path / "page.html")
    assert told.exit_code == 0, told.output
    answer = json.loads(told.stdout)
    llama, log = answer["records"]
    assert llama["rate"] == pytest.approx(3.7887, abs=1e-4)
    assert llama["gpu_days_per_event"] == pytest.approx(2111.5, abs=0.1)
    assert (llama["class"], log["class"]) == ("all-cause", "hardware")
    assert llama["hardware"]["share"] == pytest.approx(324 / 419)
    assert sum(cause["share"] for cause in llama["causes"]) == pytest.approx(1)
    assert {lemon["node"] for lemon in log["lemons"]["nodes"]} == {
        "node-017", "node-203", "node-311", "node-444",
    }  # fmt: skip
    assert log["trend"]["verdict"] == "fewer as it ages"
    measured = {size["gpus"]: size["mttf_h"] for size in answer["sizes"]}
    assert measured[1024] == pytest.approx(7.9, abs=0.01)
    assert measured[8] / 24 == pytest.approx(47.7, abs=0.1)
    far = [job for job in answer["jobs"] if job["gpus"] == 32768 and job["warning"]]
    assert "3.7 times" in far[0]["warning"]
    page = (tmp_path / "page.html").read_text()
    assert "Llama 3 405B" in page
    assert ask(EXAMPLE).exit_code == 0


def test_a_trend_is_found_where_it_is_and_only_there():
    rng = np.random.default_rng(3)
    seen = {
        shape: [trend_of(100 * rng.random(80) ** (1 / shape), 100.0) for _ in range(200)]
        for shape in (0.6, 1.0)
    }
    for shape, found in seen.items():
        held = np.mean([row["low"] <= shape <= row["high"] for row in found])
        assert 0.90 <= held <= 0.99  # 95 % intervals hold it about 95 times in 100
    assert np.mean([row["verdict"] == "fewer as it ages" for row in seen[0.6]]) > 0.95


def test_the_trend_is_the_most_likely_power_law():
    times = np.array([2.0, 5.0, 11.0, 23.0, 40.0, 77.0])
    found = trend_of(times, 100.0)
    shapes = np.linspace(0.2, 2.0, 4001)
    n = len(times)  # log likelihood of a power-law process with the expected number set to n
    likely = [n * np.log(s) - n * s * np.log(100.0) + (s - 1) * np.log(times).sum() for s in shapes]
    assert found["shape"] == pytest.approx(shapes[int(np.argmax(likely))], abs=1e-3)


def test_a_weibull_of_censored_lives_is_that_of_scipy():
    rng = np.random.default_rng(2)
    lives = 300 * rng.weibull(0.7, 400)
    seen = rng.random(400) * 500
    failed = lives <= seen
    ours = weibull_of(np.minimum(lives, seen), failed)
    data = stats.CensoredData(uncensored=lives[failed], right=seen[~failed])
    shape, _, scale = stats.weibull_min.fit(data, floc=0)
    assert ours.shape == pytest.approx(shape, rel=1e-3)
    assert ours.scale == pytest.approx(scale, rel=1e-3)
    assert ours.low < 0.7 < ours.high


@pytest.mark.slow
@pytest.mark.skipif(not TITAN.exists(), reason="the Titan GPU lives are not here")
def test_the_lives_of_titans_gpus_show_no_infant_mortality(tmp_path: Path):
    file = tmp_path / "plan.yaml"
    file.write_text(
        f"lives: {{file: {TITAN}, part: GPU, begin: insert, end: remove, event: event, failed: [DBE, OTB]}}\n"
    )
    lives = fleet_plans.failures(file)["lives"]
    assert (lives["parts"], lives["passed_over"], lives["failed"]) == (PARTS, 33718 - PARTS, 4892)
    assert lives["weibull"]["low"] > 1.0  # they aged
    assert lives["late"]["per_1000_part_days"] > lives["early"]["per_1000_part_days"]
    alive = np.array(lives["survival"])[:, 1]
    assert (np.diff(alive) <= 0).all()


def test_a_life_that_ends_before_it_began_is_refused_with_its_line(tmp_path: Path):
    (tmp_path / "lives.csv").write_text("begin,end,event\n2020-01-02,2020-03-01,\n2020-03-02,2020-03-01,x\n")
    (tmp_path / "plan.yaml").write_text("lives: {file: lives.csv}\n")
    told = ask(tmp_path / "plan.yaml")
    assert told.exit_code == 2
    assert "line 3" in told.output
