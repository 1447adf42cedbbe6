"""Scenario files: jobs, events and the file itself; wrong ones are one clear message."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tenure.core.words import NEVER_S, NONE, Kind, NodeState
from tenure.settings.errors import BadInput
from tenure.simulator.scenario import build_world, load_scenario
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
