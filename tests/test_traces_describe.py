"""A description's numbers, checked by hand on a few jobs, and that its picture can be drawn."""

import json

import numpy as np
import pytest

from tenure.settings.errors import BadInput
from tenure.simulator.traces import Trace, read_trace
from tenure.simulator.traces.describe import describe
from tenure.simulator.traces.describe_chart import draw
from tenure.simulator.traces.sample import write_sample

JOBS = """job,submit,start,runtime,gpus,account,state
a,2024-03-04 00:30:00,2024-03-04 00:31:00,60,1,x,COMPLETED
b,2024-03-04 00:59:59,2024-03-04 00:59:59,3600,8,x,FAILED
c,2024-03-05 13:00:00,2024-03-05 14:00:00,7200,16,y,COMPLETED
d,2024-03-10 23:30:00,2024-03-10 23:30:00,1800,3,z,CANCELLED
"""


@pytest.fixture
def trace(tmp_path) -> Trace:
    (tmp_path / "jobs.csv").write_text(JOBS)
    return read_trace(tmp_path / "jobs.csv", "csv")


def test_the_numbers(trace):
    told = describe(trace, gpus=16)
    gpu_s = 60 + 8 * 3600 + 16 * 7200 + 3 * 1800
    span = 6 * 86400 + 23 * 3600
    assert (told.jobs, told.span_s, told.start) == (4, span, "2024-03-04T00:30:00Z")
    assert told.gpu_h == pytest.approx(gpu_s / 3600)
    assert told.mean_gpus_wanted == pytest.approx(gpu_s / span)
    assert told.offered_load == pytest.approx(gpu_s / span / 16)
    assert [(row["gpus"], row["jobs"]) for row in told.sizes] == [
        ("1", 1),
        ("3-4", 1),
        ("5-8", 1),
        ("9-16", 1),
    ]
    assert told.sizes[-1]["gpu_h_share"] == pytest.approx(16 * 7200 / gpu_s)
    assert [row["tenant"] for row in told.tenants] == ["y", "x", "z"]
    assert told.tenants[1] == {"tenant": "x", "jobs": 2, "gpu_h": 28860 / 3600, "gpu_h_share": 28860 / gpu_s}
    assert told.runtime_s == {
        "n": 4, "mean": 3165.0, "min": 60, "p10": 60, "p50": 1800, "p90": 7200, "p99": 7200, "max": 7200,
    }  # fmt: skip
    assert told.wait_s is not None
    assert (told.wait_s["max"], told.wait_s["p50"], told.wait_s["mean"]) == (3600, 0, 915.0)
    assert [row["jobs_share"] for row in told.short] == [0.25, 0.25, 0.75]
    ends = {row["end"]: row["jobs"] for row in told.ends}
    assert ends == {"finished": 2, "failed": 1, "cancelled": 1}


def test_of_one_instant_no_mean_is_told(tmp_path):
    (tmp_path / "one.csv").write_text("job,submit,runtime,gpus\na,5,3600,8\nb,5,60,1\n")
    told = describe(read_trace(tmp_path / "one.csv", "csv"), gpus=16)
    assert (told.span_s, told.mean_gpus_wanted, told.offered_load) == (0, None, None)
    draw(told, tmp_path / "one.png")


def test_hours_and_weekdays_are_local(trace):
    told = describe(trace)
    assert (told.by_hour[0], told.by_hour[13], told.by_hour[23]) == (2, 1, 1)
    assert told.by_weekday == [2, 1, 0, 0, 0, 0, 1]
    paris = describe(trace, timezone="Europe/Paris")
    assert (paris.by_hour[1], paris.by_hour[14], paris.by_hour[0]) == (2, 1, 1)
    assert paris.by_weekday == [3, 1, 0, 0, 0, 0, 0]  # Sunday 23:30 is Monday there
    india = describe(trace, timezone="Asia/Kolkata")  # half an hour off
    assert (india.by_hour[6], india.by_hour[18], india.by_hour[5]) == (2, 1, 1)


def test_without_dates_hours_count_from_second_0(tmp_path):
    (tmp_path / "jobs.csv").write_text("job,submit,runtime,gpus\na,3600,10,1\nb,172800,10,1\n")
    told = describe(read_trace(tmp_path / "jobs.csv", "csv"))
    assert (told.clock, told.start, told.offered_load, told.wait_s) == ("since second 0", None, None, None)
    assert (told.by_hour[1], told.by_weekday[0], told.by_weekday[2]) == (1, 1, 1)


def test_curves_rise_to_one_and_all_becomes_json(tmp_path):
    told = describe(read_trace(write_sample(tmp_path, "sacct"), "sacct"), gpus=64)
    for name in ("jobs_share", "gpu_h_share"):
        curve = told.runtime_curve[name]
        assert (np.diff(curve) >= 0).all()
        assert curve[-1] == 1.0
    assert json.loads(json.dumps(told.to_dict(), allow_nan=False))["report"]["kept"] == told.jobs
    assert sum(row["gpu_h"] for row in told.tenants) == pytest.approx(told.gpu_h)
    assert sum(row["gpu_h"] for row in told.sizes) == pytest.approx(told.gpu_h)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["csv", "sacct"])
def test_the_picture_is_drawn_and_the_same_each_time(tmp_path, name):
    told = describe(read_trace(write_sample(tmp_path, name), name), gpus=64)
    for file in ("one.svg", "two.svg", "three.png"):
        draw(told, tmp_path / file)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert (tmp_path / "three.png").read_bytes()[:4] == b"\x89PNG"
    svg = (tmp_path / "one.svg").read_text()
    for words in ("GPUs of a job", "GPU-hours by tenant", "runtime up to", f"{told.jobs} jobs"):
        assert words in svg


def test_one_job_and_a_strange_tenant_can_be_drawn(tmp_path):
    (tmp_path / "jobs.csv").write_text("job,submit,runtime,gpus,account\na,0,1,1,$x^{_y$ <&> ünïcode\n")
    draw(describe(read_trace(tmp_path / "jobs.csv", "csv")), tmp_path / "one.png")


def test_what_cannot_be_asked(trace, tmp_path):
    for ask in ({"gpus": 0}, {"timezone": "Nowhere/Land"}):
        with pytest.raises(BadInput):
            describe(trace, **ask)
    with pytest.raises(BadInput, match=r"the ending '\.jpg'"):
        draw(describe(trace), tmp_path / "picture.jpg")
    with pytest.raises(BadInput, match="cannot be written"):
        draw(describe(trace), tmp_path / "no" / "folder.png")
