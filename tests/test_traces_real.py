"""The public traces, where they lie at hand (TENURE_TRACES or ../shared/data/traces): known counts."""

import os
import time
from pathlib import Path

import pytest

from tenure.core.words import NEVER_S
from tenure.simulator.traces import detect_format, read_trace
from tenure.simulator.traces.describe import describe

ROOT = Path(__file__).resolve().parent.parent
TRACES = Path(os.environ.get("TENURE_TRACES", ROOT.parent / "shared" / "data" / "traces"))
pytestmark = pytest.mark.skipif(not TRACES.is_dir(), reason="the public traces are not here")

ITP = {"01": 1595, "02": 5778, "04": 15802, "05": 3629, "07": 12699, "09": 11134, "10": 260}
#: rows, kept, processors of the machine
SWF = {
    "KTH-SP2-1996-2.1-cln": (27_992, 27_992, 100),
    "NASA-iPSC-1993-3.1-cln": (18_239, 18_239, 128),
    "HPC2N-2002-2.1-cln": (202_876, 202_876, 240),
    "SDSC-BLUE-2000-4.2-cln": (243_306, 232_562, 1152),
}


def test_venus():
    columns = {"job": "job_id", "submit": "arrival_s", "runtime": "service_sec", "gpus": "gpu_count"}
    trace = read_trace(TRACES / "helios-venus-2020" / "venus.csv.gz", "csv", columns=columns)
    assert (len(trace), trace.report.dropped, trace.start) == (66_241, {}, None)
    assert trace.rows["runtime_s"].max() == 48 * 3600
    assert trace.rows["submit_s"].min() == 0
    assert trace.span_s < 121 * 86400


@pytest.mark.slow
def test_philly_with_tenants_and_dates():
    columns = {"submit": "timestamp", "runtime": "duration", "gpus": "num_gpus", "account": "cluster"}
    trace = read_trace(TRACES / "philly-2017" / "philly.csv.gz", "csv", columns=columns)
    assert (trace.report.read, len(trace)) == (64_483, 64_483)
    assert trace.start == "2017-09-04T10:30:41Z"
    assert (trace.rows["submit_s"][1:] >= trace.rows["submit_s"][:-1]).all()
    assert len(trace.tenants) == 13


@pytest.mark.parametrize("cluster", ITP)
def test_itp_by_its_usual_names(cluster):
    trace = read_trace(TRACES / "microsoft-itp-2021" / f"cluster{cluster}.csv.gz", "csv")
    assert (len(trace), trace.report.dropped) == (ITP[cluster], {})


@pytest.mark.slow
@pytest.mark.parametrize("name", SWF)
def test_workload_archive(name, record_property):
    file = TRACES / "swf" / f"{name}.swf.gz"
    rows, kept, processors = SWF[name]
    assert detect_format(file) == "swf"
    began = time.process_time()
    trace = read_trace(file, "swf")
    record_property("read_s", time.process_time() - began)
    assert (trace.report.read, len(trace)) == (rows, kept)
    assert trace.rows["gpus"].max() <= processors
    if name.startswith(("HPC2N", "KTH", "SDSC")):
        assert (trace.rows["max_runtime_s"] < NEVER_S).all()
    load = describe(trace, gpus=processors).offered_load
    assert load is not None
    assert 0.4 < load < 0.9
