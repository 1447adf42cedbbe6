"""Traces in scenarios: accounts, sizes, minimums, dates, and what stands beside them; built-in scenarios."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tenure.core.words import NEVER_S, NONE
from tenure.settings.errors import BadInput
from tenure.settings.scenario_file import FORMATS
from tenure.simulator import traces
from tenure.simulator.scenario import build_world, built_in, load_scenario
from tenure.simulator.world import What
from test_scenario_file import JOB, LAB, refused, scenario, world_of


def csv(folder: Path, *rows: str) -> dict[str, Any]:
    (folder / "jobs.csv").write_text("job,submit,runtime,gpus,account\n" + "\n".join(rows) + "\n")
    columns = {key: key for key in ("job", "submit", "runtime", "gpus", "account")}
    return {"file": "jobs.csv", "format": "csv", "columns": columns}


def test_formats_are_those_of_the_readers() -> None:
    assert set(FORMATS) == set(traces.FORMATS)


# traces


def test_tenants_become_accounts_with_equal_shares(tmp_path: Path) -> None:
    clusters = {"c": {"nodes": 2, "gpus_per_node": 8}}
    trace = csv(tmp_path, "1,0,10,1,a/b", "2,1,30,1,c d", "3,2,10,2,a/b", "4,3,1,1,")
    raw = {"lab": {"clusters": clusters}, "trace": trace}
    world, names = world_of(raw, folder=tmp_path)
    assert [account.path for account in names.accounts] == ["", "a-b", "c_d", "unnamed"]
    assert world.shares.tolist() == [[1_000_000, 333_333, 333_333, 333_333]]
    assert world.jobs["account"].tolist() == [1, 2, 1, 3]
    raw["trace"] = {**trace, "shares": "as-used"}
    world, _ = world_of(raw, folder=tmp_path)
    assert world.shares.tolist() == [[1_000_000, 491_803, 491_803, 16_393]]
    top = {"probe": {"share": "40%"}}
    raw = {"lab": {"clusters": clusters, "accounts": top}, "trace": {**trace, "shares": "equal"}}
    world, names = world_of(raw, folder=tmp_path)
    assert world.shares.tolist() == [[1_000_000, 400_000, 200_000, 200_000, 200_000]]


def test_tenants_are_found_in_the_lab(tmp_path: Path) -> None:
    trace = csv(tmp_path, "1,0,10,1,olmo", "2,1,30,1,vision", "3,2,10,2,language/post")
    world, names = world_of({"lab": LAB, "trace": trace}, folder=tmp_path)
    assert [names.accounts[row].path for row in world.jobs["account"]] == [
        "language/olmo", "vision", "language/post",
    ]  # fmt: skip
    trace = csv(tmp_path, "1,0,10,1,olmoe", "2,1,30,1,vision")
    assert "the tenant 'olmoe', which is no account of the lab" in refused(
        {"lab": LAB, "trace": trace}, tmp_path
    )
    mapped = {**trace, "accounts": {"olmoe": "language", "*": "vision"}}
    world, names = world_of({"lab": LAB, "trace": mapped}, folder=tmp_path)
    assert [names.accounts[row].path for row in world.jobs["account"]] == ["language/(own)", "vision"]
    mapped = {**trace, "accounts": {"vision": "vision"}}
    assert "no account for 1 of 2 tenants, first 'olmoe'" in refused({"lab": LAB, "trace": mapped}, tmp_path)


def test_sizes_no_node_holds_are_rounded_dropped_or_refused_and_counted(tmp_path: Path) -> None:
    trace = {**csv(tmp_path, "1,0,10,3,a", "2,1,30,12,a", "3,2,10,33,a", "4,3,10,8,a"), "accounts": "vision"}
    world, names = world_of({"lab": LAB, "trace": trace}, folder=tmp_path)
    assert world.jobs["gpus"].tolist() == [3, 16, 8]
    assert world.jobs["clusters"].tolist() == [3, 1, 3]
    report = names.import_report
    assert (report.read, report.kept) == (4, 3)
    assert report.dropped["more GPUs than any cluster has"].count == 1
    assert report.clamped["size rounded up to whole nodes"].count == 1
    world, names = world_of({"lab": LAB, "trace": {**trace, "sizes": "drop"}}, folder=tmp_path)
    assert list(names.jobs) == ["1", "4"]
    report = names.import_report
    assert report.read == report.kept + sum(found.count for found in report.dropped.values()) == 4
    message = refused({"lab": LAB, "trace": {**trace, "sizes": "refuse"}}, tmp_path)
    assert "trace.sizes: found 1 jobs of 12 GPUs, which no cluster can hold" in message


@pytest.mark.parametrize(
    ("asked", "minimums"),
    [("1h", [3600, 3600]), ("runtime", [100_000, 1]), ("30%", [30_000, 1]), (None, [0, 0])],
)
def test_a_trace_that_names_no_minimum_gets_one(tmp_path: Path, asked: Any, minimums: list[int]) -> None:
    trace = {**csv(tmp_path, "1,0,100000,1,a", "2,1,1,1,a"), "accounts": "vision"}
    if asked is not None:
        trace["min_runtime"] = asked
    world, names = world_of({"lab": LAB, "trace": trace}, folder=tmp_path)
    assert world.jobs["min_runtime_s"].tolist() == minimums
    assert any("unbudgeted" in remark for remark in names.remarks) == (asked is None)


def test_dates_set_the_start_and_a_given_start_shifts_them(tmp_path: Path) -> None:
    trace = {
        **csv(tmp_path, "1,2026-01-05 01:00:00,9,1,a", "2,2026-01-05 02:00:00,9,1,a"),
        "accounts": "vision",
    }
    world, names = world_of({"lab": LAB, "trace": trace}, folder=tmp_path)
    assert (names.start, world.hidden["arrive_s"].tolist()) == ("2026-01-05T01:00:00Z", [0, 3600])
    raw = {"lab": LAB, "trace": trace, "start": "2026-01-05T00:30:00Z"}
    world, names = world_of(raw, folder=tmp_path)
    assert (names.start, world.hidden["arrive_s"].tolist()) == ("2026-01-05T00:30:00Z", [1800, 5400])


@pytest.mark.slow
def test_many_jobs_pass_the_door_by_columns(tmp_path: Path) -> None:
    rows = 100_000
    lines = "\n".join(f"{row},{row},{row % 977 + 1},{1 << row % 4},t{row % 9}" for row in range(rows))
    with gzip.open(tmp_path / "jobs.csv.gz", "wt", compresslevel=1) as file:
        file.write("job,submit,runtime,gpus,account\n" + lines + "\n")
    trace = {**csv(tmp_path, ""), "file": "jobs.csv.gz", "min_runtime": "1h"}
    raw = {"lab": {"clusters": {"c": {"nodes": 2, "gpus_per_node": 8}}}, "trace": trace}
    calls = 0

    def counted(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(counted)
    try:
        world, names = world_of(raw, folder=tmp_path)
    finally:
        sys.setprofile(None)
    assert calls < 3 * rows, "a job costs calls of its own: the door went through them one by one"
    assert len(world.jobs) == len(names.jobs) == rows
    assert (np.diff(world.hidden["arrive_s"]) >= 0).all()


# drawn work


def test_built_in_scenarios_load_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert {"ai2", "sat95", "sat", "small"} <= set(built_in())
    for name in built_in():
        loaded = load_scenario(name)
        assert (loaded.name, loaded.until_s, loaded.warmup_s) == (name, 37 * 86400, 7 * 86400)
    with pytest.raises(BadInput, match=r"^ai3: found no such file and no built-in scenario; allowed: "):
        load_scenario("ai3")
    Path("ai2").write_text("jobs: 3")
    with pytest.raises(BadInput, match="jobs: found 3"):
        load_scenario("ai2")


def test_work_of_all_three_kinds_stands_in_order_of_arrival_and_streams_last(tmp_path: Path) -> None:
    raw = {
        "workload": {"shape": "small", "debug_per_hour": "5"},
        "until": "2d",
        "jobs": [{**JOB, "account": "a00", "submit": "1d"}],
        "trace": {**csv(tmp_path, "t1,90000,10,1,a01", "t2,86400,10,1,a02"), "shares": "given"},
        "events": [{"at": "1h", "job": "t1", "do": "cancel"}, {"at": 0, "job": "a", "do": "hold"}],
    }
    world, names = build_world(load_scenario(raw, folder=tmp_path), seed=3)
    listed = world.hidden["stream"] != NONE
    first = int(np.argmax(listed))
    assert listed[first:].all()
    assert not listed[:first].any()
    assert (np.diff(world.hidden["arrive_s"][:first]) >= 0).all()
    ids = list(names.jobs)
    assert ids.index("a") < ids.index("t2") < ids.index("t1") < first
    for row, stream in enumerate(world.streams):
        rows = slice(stream["first_job"], stream["first_job"] + stream["n_jobs"])
        assert (world.hidden["stream"][rows] == row).all()
    assert int(world.streams["n_jobs"].sum()) == len(world.jobs) - first
    assert (world.jobs["submit_s"][listed] == NEVER_S).all()
    assert (np.diff(world.happenings["t"]) >= 0).all()
    by_what = {what: world.happenings["row"][world.happenings["what"] == what].tolist() for what in range(6)}
    assert by_what[What.CANCEL] == [ids.index("t1")]
    assert by_what[What.HOLD] == [ids.index("a")]
    assert set(by_what[What.PHASE]) <= set(range(len(world.streams)))
    assert np.array_equal(world.jobs["first_entry"], np.arange(len(world.jobs)))


def test_the_same_seed_gives_the_same_world_and_another_another() -> None:
    loaded = load_scenario({"workload": {"shape": "small"}, "until": "2d"})
    first, again, other = (build_world(loaded, seed=seed)[0] for seed in (1, 1, 2))
    for one, two in zip(first, again, strict=True):
        assert np.array_equal(one, two)
    assert not np.array_equal(first.jobs, other.jobs)


def test_an_id_that_the_trace_has_too_is_refused(tmp_path: Path) -> None:
    trace = {**csv(tmp_path, "a,0,10,1,x"), "accounts": "vision"}
    assert "the id 'a', which the trace or the workload has too" in refused(
        scenario({}, trace=trace), tmp_path
    )
