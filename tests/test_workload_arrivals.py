"""Arrivals of a trace as closed-loop lists: read, scaled to entitlements, a stretch chosen by the seed."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tenure.core.words import Kind
from tenure.settings.errors import BadInput
from tenure.simulator.workload import SHAPES, Drawn, Leaf, draw_workload, shape_from
from tenure.simulator.workload_arrivals import Arrivals, offset_bounds, read_arrivals, scaled_jobs
from tenure.simulator.workload_lists import Draw

DAY_S, HOUR_S = 86400, 3600
ROOT = Path(__file__).resolve().parents[1]
TRACES = Path(os.environ.get("TENURE_TRACES", ROOT / ".." / "shared" / "data" / "traces"))
PHILLY = TRACES / "philly-2017" / "philly.csv.gz"
needs_philly = pytest.mark.skipif(not PHILLY.exists(), reason="the Philly trace is not here")


def drawn(days: float = 37, seed: int = 1) -> Drawn:
    shape = SHAPES["philly"]
    return draw_workload(
        shape,
        leaves=[Leaf(f"a{row:02d}", row + 1, share / 100) for row, share in enumerate(shape.shares_percent)],
        cluster_gpus=shape.cluster_gpus,
        seed=seed,
        until_s=round(days * DAY_S),
        philly_file=PHILLY,
    )


def named(work: Drawn) -> dict[str, tuple]:
    columns = [work.jobs["gpus"], work.jobs["min_runtime_s"], work.hidden["work_s"], work.hidden["arrive_s"]]
    return dict(zip(work.ids, zip(*[column.tolist() for column in columns], strict=True), strict=True))


@pytest.mark.slow
@needs_philly
def test_playing_past_the_stretch_repeats_it_and_changes_nothing_before():
    before, after = named(drawn(days=3)), named(drawn(days=45))
    assert len(before) < len(after)
    assert before.items() <= after.items()
    assert max(arrive for *_, arrive in after.values()) > 44 * DAY_S


@needs_philly
def test_philly_arrivals_are_scaled_to_each_accounts_entitlement():
    shape = SHAPES["philly"]
    work = drawn()
    assert len(work.streams) == 12
    assert len(work.happenings) == 0
    assert len(work.remarks) == 2
    assert "4 smallest accounts" in work.remarks[1]
    for row in range(11):
        stream = work.streams[row]
        rows = slice(int(stream["first_job"]), int(stream["first_job"] + stream["n_jobs"]))
        jobs, hidden = work.jobs[rows], work.hidden[rows]
        entitled = shape.shares_percent[row] / 100 * 1024
        load = (jobs["gpus"].astype(np.int64) * hidden["work_s"]).sum() / (37 * DAY_S)
        assert load == pytest.approx(2.0 * entitled, rel=0.001)
        assert stream["target"] == int(np.ceil(2.6 * entitled - 1e-9))
        assert np.all(np.diff(hidden["arrive_s"]) >= 0)
        assert hidden["arrive_s"].max() < 37 * DAY_S
        assert jobs["resumable"].all()
        assert (jobs["kind"] == Kind.BATCH).all()
        assert np.all((jobs["gpus"] % 8 == 0) | np.isin(jobs["gpus"], (1, 2, 4)))
        assert jobs["gpus"].max() <= max(8, entitled)
        protection, run_s = jobs["min_runtime_s"], hidden["work_s"]
        between = (protection > 300) & (protection < 8 * HOUR_S)
        assert protection.min() >= 300
        assert protection.max() <= 8 * HOUR_S
        part = protection[between] / run_s[between]
        assert part.min() >= 0.29
        assert part.max() <= 1.01


@pytest.mark.slow
@needs_philly
def test_philly_seeds_choose_stretches_in_which_all_tenants_have_come():
    offsets = set()
    for seed in (1, 2, 3):
        work = drawn(seed=seed)
        first = [int(work.hidden["arrive_s"][stream["first_job"]]) for stream in work.streams[:11]]
        assert max(first) < 14 * DAY_S
        offsets.add(tuple(first))
    assert len(offsets) == 3


def test_a_trace_of_arrivals_is_read_in_order_of_time(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text(
        "timestamp,duration,num_gpus,gpu_time,cluster\n"
        "2017-10-09 07:01:55,66.0,1,66.0,blue\n"
        ",,,,\n"
        "2017-10-09 06:13:03,2951.0,16,0,red\n"
    )
    read = read_arrivals(path)
    assert read.arrive_s.tolist() == [0, 2932]
    assert read.run_s.tolist() == [2951, 66]
    assert [read.tenants[row] for row in read.tenant] == ["red", "blue"]
    assert read.gpus.tolist() == [16, 1]
    path.write_text("timestamp,num_gpus\n1,2\n")
    with pytest.raises(BadInput, match="runtime"):
        read_arrivals(path)


def constructed(gpus: list[int], run_s: int, tenants: list[int] | None = None) -> Arrivals:
    """A job a day."""
    jobs = len(gpus)
    return Arrivals(
        arrive_s=np.arange(jobs) * DAY_S,
        run_s=np.full(jobs, float(run_s)),
        gpus=np.array(gpus),
        tenant=np.array(tenants or [0] * jobs),
        tenants=["blue", "red"],
    )


@pytest.mark.parametrize(
    ("run_s", "sizes", "why"),
    [
        (DAY_S, [1, 2, 4, 16], "load 3.6 of 6 wanted: nothing wider, run lengths take the rest"),
        (DAY_S // 2, [2, 4, 8, 24], "1.8 of 6 wanted: twice as wide, the largest kept to the entitlement"),
        (DAY_S // 8, [8, 16, 24, 24], "0.45 of 6 wanted: eight times as wide"),
        (60, [8, 16, 24, 24], "never more than eight times as wide"),
        (10 * DAY_S, [1, 2, 4, 16], "36 of 6 wanted: run lengths shrink"),
    ],
)
def test_a_tenants_load_is_met_by_wider_jobs_first_and_longer_ones_after(run_s, sizes, why):
    shape = shape_from({"shape": "philly", "stretch_days": 5, "trace_load": 0.25})
    arrivals = constructed([1, 2, 3, 12], run_s)
    scaled = scaled_jobs(Draw(shape, 1, DAY_S, 1024), arrivals, 0, offset_s=0, entitled_gpus=24.0)
    assert scaled.gpus.tolist() == sizes, why
    assert int(scaled.gpus @ scaled.run_s) == pytest.approx(0.25 * 24 * 5 * DAY_S, rel=0.001)
    assert len(set(scaled.run_s.tolist())) == 1


def test_a_stretch_begins_after_every_tenant_has_come_and_ends_within_the_trace():
    arrivals = constructed([1] * 10, 60, [0, 0, 0, 1, 0, 0, 0, 0, 0, 1])
    assert offset_bounds(arrivals, [0, 1], stretch_s=4 * DAY_S) == (3 * DAY_S, 5 * DAY_S)
    assert offset_bounds(arrivals, [0, 1], stretch_s=8 * DAY_S) == (1 * DAY_S, 1 * DAY_S)
    assert offset_bounds(arrivals, [0, 1], stretch_s=30 * DAY_S) == (0, 0)
