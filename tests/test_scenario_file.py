from __future__ import annotations

import gzip
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tenure.core.words import NEVER_S, NONE, Kind, NodeState
from tenure.settings.errors import BadInput
from tenure.settings.scenario_file import FORMATS
from tenure.simulator import traces
from tenure.simulator.scenario import build_world, built_in, load_scenario
from tenure.simulator.world import Names, What, World
from tenure.story.columns import StoryAccount

LAB = {
    "lab": "small",
    "clusters": {
        "jupiter": {"nodes": 4, "gpus_per_node": 8, "gpu": "H100"},
        "saturn": {"nodes": 2, "gpus_per_node": 4},
    },
    "accounts": {
        "language": {"share": "60%", "accounts": {"olmo": {"share": "70%"}, "post": {"share": "20%"}}},
        "vision": {"share": "40%"},
    },
}
JOB = {"id": "a", "account": "vision", "gpus": 8, "min_runtime": "2h", "runtime": "10h"}


def scenario(*jobs: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"lab": LAB, "jobs": [{**JOB, **job} for job in jobs], **more}


def world_of(raw: Mapping[str, Any], **more: Any) -> tuple[World, Names]:
    return build_world(load_scenario(raw, **more))


def refused(raw: Any, folder: Path | None = None) -> str:
    with pytest.raises(BadInput) as caught:
        build_world(load_scenario(raw, folder=folder))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def csv(folder: Path, *rows: str) -> dict[str, Any]:
    (folder / "jobs.csv").write_text("job,submit,runtime,gpus,account\n" + "\n".join(rows) + "\n")
    columns = {key: key for key in ("job", "submit", "runtime", "gpus", "account")}
    return {"file": "jobs.csv", "format": "csv", "columns": columns}


# constructed jobs


def test_copies_are_numbered_and_apart() -> None:
    world, names = world_of(scenario({"count": 3, "every": "10m", "submit": "1h"}, {"id": "b"}))
    assert list(names.jobs) == ["b", "a-0", "a-1", "a-2"]
    assert world.hidden["arrive_s"].tolist() == [0, 3600, 4200, 4800]
    assert world.jobs["submit_s"].tolist() == [0, 3600, 4200, 4800]
    assert world.hidden["work_s"].tolist() == [36000] * 4
    assert (world.hidden["stream"] == NONE).all()


def test_what_is_not_said_has_the_defaults_of_the_documentation() -> None:
    raw = {"lab": LAB, "jobs": [{"account": "vision", "gpus": 1, "runtime": "1h"}, {**JOB, "id": "b"}]}
    world, names = world_of(raw)
    free, paid = world.jobs[0], world.jobs[1]
    assert names.jobs[0] == "job-0"
    assert (free["min_runtime_s"], free["max_runtime_s"], free["priority"]) == (0, NEVER_S, 0)
    assert (free["save_every_s"], free["restart_s"], free["gpu_type"]) == (1800, 60, NONE)
    assert (free["resumable"], free["same_rack"], free["kind"]) == (True, False, Kind.BATCH)
    assert not free["saves_when_asked"]
    assert paid["saves_when_asked"]
    never = {"min_runtime": 0, "checkpoint_every": 0}
    assert world_of(scenario(never))[0].jobs["saves_when_asked"][0]
    assert not world_of(scenario({"saves_when_asked": False}))[0].jobs["saves_when_asked"][0]


@pytest.mark.parametrize(
    ("job", "kind"),
    [
        ({"gpus": 8, "min_runtime": "15m"}, Kind.DEBUG),
        ({"gpus": 8, "min_runtime": 901}, Kind.BATCH),
        ({"gpus": 16, "min_runtime": "15m"}, Kind.BATCH),
        ({"min_runtime": 0, "kind": "debug"}, Kind.BATCH),
        ({"min_runtime": "5m", "kind": "session"}, Kind.DEBUG),
        ({"kind": "session"}, Kind.SESSION),
    ],
)
def test_debug_is_what_is_small_and_short_whatever_is_written(job: dict[str, Any], kind: Kind) -> None:
    assert world_of(scenario(job))[0].jobs["kind"].tolist() == [kind]


def test_entries_count_the_clusters_that_can_hold_a_job() -> None:
    world, _ = world_of(
        scenario(
            {"id": "both", "gpus": 4},
            {"id": "big", "gpus": 16},
            {"id": "typed", "gpus": 1, "gpu": "H100"},
            {"id": "asked", "gpus": 1, "clusters": ["saturn"]},
            {"id": "gang", "gpus": 8},
        )
    )
    assert world.jobs["clusters"].tolist() == [3, 1, 1, 2, 3]
    assert world.jobs["first_entry"].tolist() == [0, 2, 3, 4, 5]
    assert world.jobs["gpu_type"].tolist() == [NONE, NONE, 0, NONE, NONE]


def test_work_given_to_an_inner_account_has_a_leaf_of_its_own() -> None:
    world, names = world_of(scenario({"account": "language"}, {"id": "b", "account": "language/olmo"}))
    assert [account.path for account in names.accounts] == [
        "", "language", "language/(own)", "language/olmo", "language/post", "vision",
    ]  # fmt: skip
    assert names.accounts[2] == StoryAccount("language/(own)", 1, (100_000, 100_000), None, 1)
    assert world.jobs["account"].tolist() == [2, 3]
    assert world.accounts["own_leaf"].tolist() == [False, False, True, False, False, False]
    assert world.shares[:, 2].tolist() == [100_000, 100_000]
    assert len(world_of(scenario({}))[1].accounts) == 5


WRONG_JOBS: list[tuple[dict[str, Any], str]] = [
    (
        {"gpus": 12},
        "jobs[0].gpus: found 12, which no cluster can hold; allowed: up to 8 GPUs on one node, or a",
    ),
    ({"gpus": 40}, "jobs[0].gpus: found 40, which no cluster can hold"),
    ({"gpus": 8, "clusters": "saturn", "gpu": "H100"}, "jobs[0].gpus: found 8, which no cluster can hold"),
    ({"gpus": 7.5}, "jobs[0].gpus: found 7.5; allowed: a whole number of GPUs from 1"),
    ({"gpus": 0}, "jobs[0].gpus: found 0; allowed: a whole number of GPUs from 1"),
    ({"gpus": -8}, "jobs[0].gpus: found -8; allowed: a whole number"),
    ({"gpu": "H10"}, "jobs[0].gpu: found the unknown GPU type 'H10'; allowed: did you mean H100?"),
    ({"clusters": ["jupyter"]}, "found the unknown cluster 'jupyter'; allowed: did you mean jupiter?"),
    (
        {"account": "language/olm"},
        "jobs[0].account: found the unknown account 'language/olm'; allowed: did you mean",
    ),
    ({"account": ""}, "jobs[0].account: found ''; allowed: the path of an account"),
    ({"min_runtime": "2 hours"}, "jobs[0].min_runtime: found '2 hours'; allowed: a duration such as 90s"),
    ({"submit": "-1h"}, "jobs[0].submit: found '-1h'; allowed: a duration from 0s"),
    ({"runtime": 0}, "jobs[0].runtime: found 0; allowed: a duration from 1s"),
    ({"runtme": 5}, "jobs[0].runtme: found the unknown key 'runtme'; allowed: did you mean runtime"),
    ({"kind": "fast"}, "jobs[0].kind: found 'fast'; allowed: batch | debug | session"),
    ({"resumable": "sometimes"}, "jobs[0].resumable: found 'sometimes'; allowed: true or false"),
    ({"count": 10**7}, "jobs[0].count: found 10000000; allowed: a whole number from 1 to 1000000"),
    ({"count": 1000, "every": "10000d"}, "jobs[0].every: found a last copy after"),
]


@pytest.mark.parametrize(("job", "message"), WRONG_JOBS)
def test_a_wrong_job_is_one_clear_message(job: dict[str, Any], message: str) -> None:
    assert message in refused(scenario(job))


def test_a_missing_key_is_named() -> None:
    raw = {"lab": LAB, "jobs": [{"account": "vision", "gpus": 1}]}
    assert "jobs[0].runtime: found nothing; allowed: a value: this key is required" in refused(raw)


def test_an_id_is_used_once() -> None:
    assert "jobs[1].id: found 'a' again" in refused(scenario({}, {}))
    assert "jobs[1].id: found 'a-1' again" in refused(scenario({"count": 2}, {"id": "a-1"}))


def test_a_minimum_beyond_the_limit_is_a_warning_that_names_the_better_value() -> None:
    _, names = world_of(scenario({"min_runtime": "8h", "max_runtime": "15m"}))
    assert len(names.remarks) == 1
    assert "a: min_runtime 8h is more than max_runtime 15m" in names.remarks[0]
    assert "min_runtime: 15m" in names.remarks[0]
    assert world_of(scenario({}))[1].remarks == []


def test_a_job_above_its_accounts_limit_is_a_warning() -> None:
    raw = scenario({"gpus": 16})
    raw["lab"] = {**LAB, "accounts": {"vision": {"share": 1, "max_gpus": 8}}}
    assert "a: its 16 GPUs are more than max_gpus 8 of vision" in world_of(raw)[1].remarks[0]


# events


def events(*rows: Mapping[str, Any], job: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return scenario(job or {}, events=list(rows))


def test_events_become_happenings_in_order_of_time() -> None:
    world, names = world_of(
        events(
            {"at": "2h", "job": "a", "do": "cancel", "by": "ann"},
            {"at": "1h", "node": "jupiter-0003", "state": "down", "for": "2h", "reason": "ECC"},
            {"at": "1h", "node": "saturn-0001", "state": "draining"},
            {"at": 0, "account": "vision", "share": "10%", "by": "pia", "reason": "review"},
        )
    )
    rows = world.happenings
    assert rows["t"].tolist() == [0, 3600, 3600, 7200, 10800]
    assert rows["what"].tolist() == [What.SHARE, What.NODE, What.NODE, What.CANCEL, What.NODE]
    assert rows["row"].tolist() == [4, 3, 5, 0, 3]
    assert rows["value"].tolist() == [100_000, NodeState.DOWN, NodeState.DRAINING, 0, NodeState.UP]
    assert rows["cluster"].tolist()[0] == NONE
    told = [None if note == NONE else names.notes[note] for note in rows["note"].tolist()]
    assert told == [
        {"account": "vision", "old": 0.4, "new": 0.1, "by": "pia", "reason": "review"},
        {"reason": "ECC"},
        None,
        {"by": "ann"},
        {"reason": "ECC"},
    ]


def test_of_one_instant_the_last_word_on_a_node_holds() -> None:
    world, _ = world_of(
        events(
            {"at": 60, "node": "jupiter-0000", "state": "down"},
            {"at": 60, "node": "jupiter-0000", "state": "up"},
            {"at": 60, "node": "jupiter-0001", "state": "up"},
            {"at": 60, "node": "jupiter-0001", "state": "draining"},
        )
    )
    assert world.happenings["row"].tolist() == [0, 1]
    assert world.happenings["value"].tolist() == [NodeState.UP, NodeState.DRAINING]


def test_shares_of_one_instant_are_checked_together() -> None:
    raise_vision = {"at": "1d", "account": "vision", "share": "70%"}
    lower_language = {"at": "1d", "account": "language", "share": "30%"}
    world, _ = world_of(events(raise_vision, lower_language))
    assert world.happenings["value"].tolist() == [700_000, 300_000]
    message = refused(events(raise_vision, {**lower_language, "at": "2d"}))
    assert (
        "events[0].share: found shares that then sum to 130%; allowed: shares of siblings that sum" in message
    )


def test_an_own_leaf_gets_what_changed_shares_leave() -> None:
    world, names = world_of(
        events({"at": 60, "account": "language/olmo", "share": "30%"}, job={"account": "language"})
    )
    own = [account.path for account in names.accounts].index("language/(own)")
    rows = world.happenings
    assert rows["row"].tolist() == [own + 1, own]
    assert rows["value"].tolist() == [300_000, 500_000]
    note = names.notes[int(rows["note"][1])]
    assert (note["account"], note["old"], note["new"]) == ("language/(own)", 0.1, 0.5)


def test_a_clusters_own_shares_are_kept_unless_it_is_named() -> None:
    raw = events(
        {"at": 1, "account": "vision", "share": "10%"},
        {"at": 2, "account": "vision", "share": "15%", "cluster": "saturn"},
    )
    saturn = {**LAB["clusters"]["saturn"], "shares": {"vision": "20%"}}  # type: ignore[index]
    raw["lab"] = {**LAB, "clusters": {**LAB["clusters"], "saturn": saturn}}  # type: ignore[dict-item]
    world, names = world_of(raw)
    assert world.happenings["cluster"].tolist() == [0, 1]
    assert [(note["old"], note["new"], note["cluster"]) for note in names.notes] == [
        (0.4, 0.1, "jupiter"),
        (0.2, 0.15, "saturn"),
    ]


WRONG_EVENTS: list[tuple[dict[str, Any], str]] = [
    ({"at": -1, "node": "saturn-0000", "state": "up"}, "events[0].at: found -1; allowed: a duration from 0s"),
    ({"node": "jupiter-003", "state": "up"}, "found the unknown node 'jupiter-003'; allowed: did you mean"),
    ({"node": "saturn-0000", "state": "broken"}, "events[0].state: found 'broken'; allowed: up | drain"),
    ({"node": "saturn-0000"}, "events[0]: found {'at': 1, 'node': 'saturn-0000'}; allowed: one of {at,"),
    ({"node": "saturn-0000", "state": "up", "for": "1h"}, "`for` with state down or draining, or"),
    ({"node": "saturn-0000", "closed_from": 1}, "allowed: closed_from later than at"),
    ({"node": "saturn-0000", "closed_from": 9, "state": "up"}, "allowed: one of {at, node, state}"),
    ({"account": "vision", "closed_from": 9}, "allowed: one of {at, node, state}"),
    ({"node": "saturn-0000", "state": "down", "for": "x"}, "events[0].for: found 'x'; allowed: a duration"),
    ({"account": "visoin", "share": 0}, "found the unknown account 'visoin'; allowed: did you mean vision?"),
    ({"account": "vision", "share": "101%"}, "events[0].share: found '101%'; allowed: a part such as"),
    ({"account": "vision", "job": "a", "share": "1%"}, "allowed: one of {at, node, state}"),
    ({"job": "b", "do": "cancel"}, "events[0].job: found the unknown job 'b'; allowed: a"),
    ({"job": "a", "do": "kill"}, "events[0].do: found 'kill'; allowed: cancel | hold | release"),
    ({"account": "vision", "share": "1%", "cluster": "mars"}, "found the unknown cluster 'mars'"),
]


@pytest.mark.parametrize(("event", "message"), WRONG_EVENTS)
def test_a_wrong_event_is_one_clear_message(event: dict[str, Any], message: str) -> None:
    assert message in refused(events({"at": 1, **event}))


# the file


def test_a_file_names_its_lab_and_trace_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / "lab.yaml").write_text(
        "clusters: {c: {nodes: 2, gpus_per_node: 8}}\naccounts: {a: {share: 1}}\n"
    )
    (folder / "jobs.csv").write_text("id,at,long,size\nj1,5,100,2\nj2,0,50,8\n")
    (folder / "s.yaml").write_text(
        "lab: lab.yaml\nstart: 2026-01-05T00:00:00Z\nuntil: 30d\nwarmup: 7d\nseed: 4\n"
        "trace:\n  file: jobs.csv\n  columns: {job: id, submit: at, runtime: long, gpus: size}\n"
        "  accounts: a\n  min_runtime: 30%\n"
    )
    monkeypatch.chdir(tmp_path)
    loaded = load_scenario(Path("study/s.yaml"))
    assert (loaded.name, loaded.until_s, loaded.warmup_s, loaded.seed) == ("s", 30 * 86400, 7 * 86400, 4)
    world, names = build_world(loaded)
    assert names.start == "2026-01-05T00:00:00Z"
    assert list(names.jobs) == ["j2", "j1"]
    assert world.jobs["min_runtime_s"].tolist() == [15, 30]
    assert load_scenario(scenario({})).until_s == NEVER_S


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"lab": LAB}, "found no work; allowed: any mix of jobs, trace and workload"),
        ({"jobs": [JOB]}, "lab: found nothing; allowed: the path of a lab's file, or the mapping itself"),
        ({"lab": "none.yaml", "jobs": [JOB]}, "none.yaml: found no such file or directory"),
        ({"lab": {**LAB, "clustrs": {}}, "jobs": [JOB]}, "lab.clustrs: found the unknown key 'clustrs'"),
        ({"lab": {**LAB, "policy": {"lookback": 0}}, "jobs": [JOB]}, "lab.policy.lookback: found 0"),
        (scenario({}, until="1h", warmup="1h"), "warmup: found 3600 s; allowed: less than until (3600 s)"),
        (scenario({}, until=0), "until: found 0; allowed: a duration from 1s"),
        (scenario({}, seed=-1), "seed: found -1"),
        (scenario({}, start="soon"), "start: found 'soon'; allowed: a date and time"),
        (scenario({}, polcy={}), "polcy: found the unknown key 'polcy'"),
        ({"workload": {"shape": "ai2"}}, "until: found nothing; allowed: a duration such as 30d"),
        ({"workload": {"shape": "ai3"}, "until": "1d"}, "workload.shape: found 'ai3'"),
        (scenario({}, jobs={"a": 1}), "jobs: found {'a': 1}; allowed: a list"),
        (
            scenario({}, trace={"file": "x.csv", "format": "xml", "accounts": "vision"}),
            "trace.format: found 'xml'",
        ),
        (scenario({}, trace={"file": "x.csv", "accounts": "visio"}), "did you mean vision?"),
    ],
)
def test_a_wrong_file_is_one_clear_message(raw: Any, message: str) -> None:
    assert message in refused(raw)


@pytest.mark.parametrize("text", ["- a\n", "", "7", "lab: [\n"])
def test_a_file_that_is_no_mapping_is_one_clear_message(tmp_path: Path, text: str) -> None:
    (tmp_path / "s.yaml").write_text(text)
    assert f"{tmp_path / 's.yaml'}: " in refused(tmp_path / "s.yaml")


def test_keys_are_changed_from_the_command_line() -> None:
    loaded = load_scenario(
        scenario({}),
        set_={"until": "2d", "jobs.0.gpus": "16", "policy.lookback": "3d", "policy.order": "targets"},
    )
    assert loaded.until_s == 2 * 86400
    assert loaded.written.jobs[0].gpus == 16
    assert loaded.policy("window").knobs.order == 0
    assert load_scenario(scenario({})).policy("window").knobs.order == 1
    assert (loaded.policy("fifo").rule, loaded.policy().knobs.lookback_s) == ("fifo", 3 * 86400)
    for key, message in (
        ("jobs.7.gpus", "jobs.7.gpus: found '7', which scenario does not have"),
        ("wrokload.shape", "found 'wrokload'"),
        ("policy.lookbak", "did you mean lookback?"),
        ("untl", "the unknown key 'untl'"),
    ):
        with pytest.raises(BadInput) as caught:
            load_scenario(scenario({}), set_={key: "1"})
        assert message in str(caught.value)


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
