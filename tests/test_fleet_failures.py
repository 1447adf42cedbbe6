"""Failure rates: the published table, logs, lives of parts and lemon nodes."""

from __future__ import annotations

import csv
import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from tenure.planner.failures import (
    LLAMA_3,
    LLAMA_3_DAYS,
    LLAMA_3_GPUS,
    LLAMA_3_NOT_HARDWARE,
    LLAMA_3_OF_GPU,
    LLAMA_3_PLANNED,
    OfSize,
    by_cause,
    gpu_days_per_event,
    lemons_of,
    mttf_at,
    mttf_h,
    rate_of,
    weibull_of,
)
from tenure.service import fleet_plans
from tenure.settings.errors import BadInput
from tenure.settings.incident_file import read_incidents

NODES = LLAMA_3_GPUS / 8
ROOT = Path(__file__).resolve().parent.parent


def test_llama_3_is_419_interruptions_one_in_three_hours():
    events = sum(LLAMA_3.values())
    assert events == 419
    measured = rate_of(events, NODES * LLAMA_3_DAYS)
    assert measured.rate == pytest.approx(3.7887, rel=1e-4)
    assert mttf_h(measured.rate, NODES) == pytest.approx(3.0931, rel=1e-4)
    assert gpu_days_per_event(measured.rate) == pytest.approx(2111.5, rel=1e-4)
    assert measured.low < measured.rate < measured.high
    assert measured.high / measured.low == pytest.approx(1.21, abs=0.01)
    assert rate_of(events + LLAMA_3_PLANNED, NODES * LLAMA_3_DAYS).rate == pytest.approx(4.214, rel=1e-3)


def test_shares_come_from_counts_not_from_the_printed_table():
    causes = by_cause(LLAMA_3, NODES * LLAMA_3_DAYS)
    assert sum(cause.share for cause in causes) == pytest.approx(1)
    assert causes[0].name == "faulty GPU"
    assert causes[0].share == pytest.approx(148 / 419)
    assert sum(LLAMA_3[name] for name in LLAMA_3_OF_GPU) == 268
    hardware = sum(count for name, count in LLAMA_3.items() if name not in LLAMA_3_NOT_HARDWARE)
    assert hardware / 419 == pytest.approx(0.773, abs=5e-4)


def test_no_failures_seen_is_not_a_rate_of_nothing():
    measured = rate_of(0, 1000)
    assert measured.rate == measured.low == 0
    assert 2 < measured.high < 3


def test_intervals_hold_the_true_rate_as_often_as_they_say():
    rng = np.random.default_rng(8)
    counts = rng.poisson(40.0, 4000)
    held = [rate_of(int(n), 1000.0) for n in counts]
    assert np.mean([m.low <= 40 <= m.high for m in held]) == pytest.approx(0.95, abs=0.02)


def test_small_jobs_are_not_carried_to_large_ones_unsaid():
    sizes = [OfSize(8, 21, 8000.0), OfSize(1024, 24, 8000.0)]
    _, hours, warning = mttf_at(sizes, 16_384)
    assert hours == pytest.approx(24 * 1000 / (24 * 2048), rel=1e-9)
    assert "1,024" in warning
    assert "16 times" in warning
    assert mttf_at(sizes, 1500)[2] is None


@pytest.mark.parametrize(
    ("shape", "verdict"), [(0.6, "infant mortality"), (1.0, "no sign of either"), (2.5, "ageing")]
)
def test_lives_tell_infant_mortality_from_ageing(shape, verdict):
    rng = np.random.default_rng(12)
    lives = 1000.0 * rng.weibull(shape, 3000)
    ends = rng.uniform(200, 2000, 3000)
    found = weibull_of(np.minimum(lives, ends), lives <= ends)
    assert found.low < shape < found.high
    assert found.scale == pytest.approx(1000, rel=0.1)
    assert found.verdict == verdict


def test_lives_of_lives_without_failures_are_refused():
    with pytest.raises(ValueError, match="two failures"):
        weibull_of(np.array([1.0, 2.0]), np.array([True, False]))


def test_lemon_nodes_are_found_and_others_are_not():
    rng = np.random.default_rng(6)
    counts = {f"n{i}": int(c) for i, c in enumerate(rng.poisson(0.5, 1000))}
    assert not lemons_of(counts, 1000).found
    for i in range(12):
        counts[f"n{i}"] = 9
    found = lemons_of(counts, 1000)
    assert {lemon.node for lemon in found.found} == {f"n{i}" for i in range(12)}
    assert found.of_nodes == pytest.approx(0.012)
    assert found.of_events > 0.13
    assert found.rate_without < 0.9


def test_a_log_is_read_by_its_head(tmp_path: Path):
    file = tmp_path / "incidents.csv"
    file.write_text(
        "node,time,cause,by\nn1,2026-01-05T00:00:00Z,gpu,x\nn2,2026-01-06,,\nn1,1767657600,nic,\n"
    )
    told = read_incidents(file)
    assert told.of_nodes() == {"n1": 2, "n2": 1}
    assert told.of_causes() == {"gpu": 1, "unknown": 1, "nic": 1}
    assert told.times_s[1] == told.times_s[0] + 86_400 == told.times_s[2]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "line 1"),
        ("time,node\n1,a\n", "line 1"),
        ("time,node,cause\n", ""),
        ("time,node,cause\nyesterday,a,gpu\n", "line 2: time"),
        ("time,node,cause\n5,a,gpu\n,a,gpu\n", "line 3: time"),
    ],
)
def test_a_log_that_is_wrong_is_one_message_with_its_line(tmp_path: Path, text: str, where: str):
    file = tmp_path / "incidents.csv"
    file.write_text(text)
    with pytest.raises(BadInput) as refused:
        read_incidents(file)
    assert refused.value.key_path == where


def test_titans_gpus_age():
    """Lives of Titan's GPUs (Ostrouchov et al., SC '20): most failures are of boards that grew old."""
    folder = Path(os.environ.get("TENURE_TRACES", ROOT.parent / "shared" / "data" / "traces"))
    file = folder / "titan-gpu-failures" / "gc_full.csv.gz"
    if not file.exists():
        pytest.skip("the public traces are not here")
    with gzip.open(file, "rt", encoding="utf-8") as text:
        rows = [row for row in csv.DictReader(text) if row["duration"] and float(row["duration"]) > 0]
    days = np.array([float(row["duration"]) / 86_400 for row in rows])
    failed = np.array([row["event"] in ("DBE", "OTB") for row in rows])
    found = weibull_of(days, failed)
    assert len(rows) > 20_000
    assert found.events == failed.sum() > 1000
    assert found.verdict == "ageing"


def test_a_goodput_plan_counts_its_log(tmp_path: Path):
    rows = [f"{hour * 3600},n{hour % 50},{'gpu' if hour % 3 else 'nic'}" for hour in range(100)]
    rows += [f"{hour * 4000},n7,gpu" for hour in range(30)]
    (tmp_path / "incidents.csv").write_text("time,node,cause\n" + "\n".join(rows) + "\n")
    plan = tmp_path / "goodput.yaml"
    plan.write_text(
        "failures: {log: incidents.csv, of_nodes: 100, days: 200, nodes: 1000}\nrecovery: 10m\n"
        "checkpoint: {blocking: 20s, every: optimal}\n"
    )
    page = tmp_path / "page.html"
    told = fleet_plans.goodput(plan, page)
    shown = page.read_text()
    for text in (">gpu<", ">nic<", ">n7<"):
        assert text in shown
    assert told["log"]["rate"] == pytest.approx(6.5)
    assert told["mtbf_s"] == pytest.approx(86_400 / 6.5)
    assert told["mtbf_interval_s"]["low"] < told["mtbf_s"] < told["mtbf_interval_s"]["high"]
    assert [lemon["node"] for lemon in told["log"]["lemons"]["nodes"]] == ["n7"]
    plan.write_text(plan.read_text().replace("of_nodes: 100", "of_nodes: 40"))
    with pytest.raises(BadInput, match="of_nodes"):
        fleet_plans.goodput(plan)
