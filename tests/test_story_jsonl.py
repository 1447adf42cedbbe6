"""The file form of a story: what is written is what is read, and a broken file says where."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stories import Teller, random_story
from tenure.core.words import NEVER_S, NONE, Cause, End, Happened, NodeState, Rule
from tenure.story.columns import Story, StoryAccount
from tenure.story.jsonl import StoryError, read_story, write_story


def written(story: Story) -> str:
    stream = io.StringIO()
    write_story(story, stream)
    return stream.getvalue()


def same(a: Story, b: Story) -> None:
    for name in ("lab", "policy", "seed", "warmup_s", "until_s", "clusters", "nodes", "accounts", "notes"):
        assert getattr(a, name) == getattr(b, name), name
    assert (a.start, a.prices) == (b.start, b.prices)
    assert list(a.job_ids) == list(b.job_ids)
    for name in ("jobs", "events", "placements"):
        left, right = getattr(a, name), getattr(b, name)
        assert len(left) == len(right)
        for column in left.dtype.names:
            assert np.array_equal(left[column], right[column]), (name, column)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3), st.booleans())
def test_what_is_written_is_what_is_read(seed: int, clusters: int, limits: bool) -> None:
    story = random_story(seed, clusters=clusters, limits=limits)
    same(story, read_story(io.StringIO(written(story))))


@settings(max_examples=40, deadline=None)
@given(st.text(min_size=1), st.text(), st.text())
def test_any_name_survives(job: str, by: str, reason: str) -> None:
    teller = Teller({"a": 1.0})
    teller.submit(0, job, "a", 1)
    teller.cancel(5, job, by=by, reason=reason)
    story = read_story(io.StringIO(written(teller.story())))
    assert list(story.job_ids) == [job]
    assert story.notes == [{"by": by, "reason": reason}]


def test_lines_have_the_fixed_keys() -> None:
    teller = Teller({"a": 0.5, "b": 0.5}, nodes=(8, 8))
    teller.submit(0, "one", "a", 16, 7200)
    teller.plan(1, "one", 60)
    teller.start(60, "one", {"jupiter-0000": 8, "jupiter-0001": 8}, protected_until_s=7260)
    teller.submit(70, "two", "b", 1, 0)
    teller.notice(7000, "one", 7260, by="two")
    teller.stopping(7260, "one", 7380, by="two", mine_ppm=1_250_000, theirs_ppm=500_000)
    teller.stop(7380, "one", End.PREEMPTED, lost_gpu_s=960)
    teller.requeue(7380, "one")
    teller.hold(7400, "one", by="ann", reason="not now")
    teller.node(7500, "jupiter-0001", NodeState.DOWN, "xid 79")
    teller.share(7600, "a", 0.5, 0.25, by="pia", reason="review")
    lines = [json.loads(line) for line in written(teller.story()).splitlines()]
    assert [line["n"] for line in lines] == list(range(1, len(lines) + 1))
    assert all(next(iter(line)) == "event" for line in lines)
    began, submitted, planned, started, _, notice, stopping, stopped, requeued, held, node, share = lines
    assert {"lab", "policy", "seed", "warmup_s", "until_s", "clusters", "nodes", "accounts"} <= set(began)
    assert began["accounts"][1] == {"path": "a", "parent": "", "shares": {"jupiter": 0.5}, "max_gpus": None}
    assert submitted == {
        "event": "submitted",
        "t": 0,
        "n": 2,
        "job": "one",
        "account": "a",
        "gpus": 16,
        "min_runtime_s": 7200,
        "resumable": True,
        "kind": "batch",
    }
    assert planned["at_s"] == 60
    assert started == {
        "event": "started",
        "t": 60,
        "n": 4,
        "job": "one",
        "account": "a",
        "attempt": 1,
        "cluster": "jupiter",
        "nodes": {"jupiter-0000": 8, "jupiter-0001": 8},
        "protected_until_s": 7260,
        "reason": "owed",
    }
    assert notice["interruptible_at_s"] == 7260
    assert stopping == {
        "event": "stopping",
        "t": 7260,
        "n": 7,
        "job": "one",
        "account": "a",
        "attempt": 1,
        "cause": "preempted",
        "by": "two",
        "rule": "above_target",
        "mine": 1.25,
        "theirs": 0.5,
        "grace_until_s": 7380,
    }
    assert {k: stopped[k] for k in ("attempt", "end", "held_gpu_s", "lost_gpu_s")} == {
        "attempt": 1,
        "end": "preempted",
        "held_gpu_s": 16 * 7320,
        "lost_gpu_s": 960,
    }
    assert requeued["attempt"] == 1
    assert (held["by"], held["reason"]) == ("ann", "not now")
    assert (node["node"], node["state"], node["reason"]) == ("jupiter-0001", "down", "xid 79")
    assert "job" not in node
    assert {k: share[k] for k in ("account", "old", "new", "by", "reason")} == {
        "account": "a",
        "old": 0.5,
        "new": 0.25,
        "by": "pia",
        "reason": "review",
    }


def test_a_person_who_stops_a_job_is_named() -> None:
    teller = Teller({"a": 1.0})
    teller.submit(0, "one", "a", 1)
    teller.start(0, "one")
    teller.stopping(60, "one", 180, cause=Cause.FORCED, rule=Rule.OPERATOR)
    story = teller.story()
    row = int(np.flatnonzero(story.events["event"] == Happened.STOPPING)[0])
    story.notes.append({"by": "pia", "reason": "flood"})
    story.events["nodes_at"][row], story.events["n_nodes"][row] = 0, 1
    line = json.loads(written(story).splitlines()[-1])
    assert (line["by"], line["cause"], line["reason"]) == ("pia", "forced", "flood")
    same(story, read_story(io.StringIO(written(story))))


def test_work_given_to_an_inner_account_goes_by_its_path() -> None:
    accounts = [
        StoryAccount("", NONE, (1_000_000,)),
        StoryAccount("p", 0, (600_000,)),
        StoryAccount("p/x", 1, (700_000,)),
        StoryAccount("p/(own)", 1, (300_000,), own_leaf_of=1),
    ]
    teller = Teller(accounts)
    teller.submit(0, "one", "p", 1)
    story = teller.story()
    assert story.jobs["account"].tolist() == [3]
    assert json.loads(written(story).splitlines()[1])["account"] == "p"
    same(story, read_story(io.StringIO(written(story))))


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".jsonl.zst"])
def test_packed_by_suffix(tmp_path: Path, suffix: str) -> None:
    story = random_story(3)
    write_story(story, tmp_path / f"story{suffix}")
    same(story, read_story(tmp_path / f"story{suffix}"))


def test_no_until_and_prices() -> None:
    story = replace(random_story(5), until_s=NEVER_S, prices=(2.49,), start="2026-01-05T00:00:00Z")
    same(story, read_story(io.StringIO(written(story))))


def short_story() -> Story:
    teller = Teller({"a": 0.5, "b": 0.5})
    teller.submit(0, "one", "a", 4)
    teller.start(10, "one")
    teller.stop(900, "one")
    return teller.story()


def test_extra_keys_and_events_are_skipped() -> None:
    first, *rest = written(short_story()).splitlines()
    more = json.loads(rest[0]) | {"mood": "good"}
    text = "\n".join([first, json.dumps(more), *rest[1:], f'{{"event":"tea","t":99999,"n":{len(rest) + 2}}}'])
    same(short_story(), read_story(io.StringIO(text)))


def test_jobs_in_an_array_are_written_the_same() -> None:
    story = random_story(4)
    assert written(replace(story, job_ids=np.array(story.job_ids))) == written(story)


def broken(text: str) -> str:
    with pytest.raises(StoryError) as caught:
        read_story(io.StringIO(text))
    return str(caught.value)


def test_a_cut_line_is_named(tmp_path: Path) -> None:
    text = written(random_story(2))
    lines = text.splitlines()
    path = tmp_path / "killed.jsonl"
    path.write_text(text[: -len(lines[-1]) // 2])
    with pytest.raises(StoryError, match=rf"killed.jsonl, line {len(lines)}: cut"):
        read_story(path)


def test_what_is_wrong_is_told_with_its_line() -> None:
    lines = written(short_story()).splitlines()
    assert "empty" in broken("")
    assert "line 1: the first line of a story is `began`" in broken("\n".join(lines[1:]))
    assert "line 3: not a JSON object" in broken("\n".join([*lines[:2], "{oops", *lines[3:]]))
    assert "line 3: not a JSON object" in broken("\n".join([*lines[:2], "1,2", *lines[3:]]))
    assert "line 3: `n` is 4" in broken("\n".join([*lines[:2], *lines[3:]]))
    began = json.loads(lines[0])
    del began["accounts"]
    assert "line 1: `began` lacks `accounts`" in broken(json.dumps(began))
    first = json.loads(lines[1])
    stray = json.dumps(first | {"account": "nobody"})
    assert "line 2: account 'nobody'" in broken(f"{lines[0]}\n{stray}")
    many = json.dumps(first | {"gpus": "many"})
    assert "line 2" in broken(f"{lines[0]}\n{many}")
    lone = {
        "event": "stopped",
        "t": 5,
        "n": 2,
        "job": "ghost",
        "account": "q",
        "attempt": 1,
        "end": "finished",
        "held_gpu_s": 1,
        "lost_gpu_s": 0,
    }
    said = broken(f"{lines[0]}\n{json.dumps(lone)}")
    assert "line 2: job 'ghost' is stopped before it was submitted" in said


def test_time_does_not_run_backwards() -> None:
    teller = Teller({"a": 1.0})
    teller.submit(10, "one", "a", 1)
    teller.submit(20, "two", "a", 1)
    assert "backwards" in broken(written(teller.story()).replace('"t":20', '"t":5'))


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_packed_file_that_is_not_one(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"story.jsonl{suffix}"
    path.write_text("plain text\n")
    with pytest.raises(StoryError, match=r"story\.jsonl"):
        read_story(path)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(StoryError, match=r"absent\.jsonl"):
        read_story(tmp_path / "absent.jsonl")


LAB = {
    "lab": "example",
    "clusters": {
        "jupiter": {"nodes": 4, "gpus_per_node": 8, "gpu": "H100", "nodes_per_rack": 2,
                    "price_per_gpu_hour": 2.49, "shares": {"vision": "20%"}},
        "saturn": {"nodes": [{"name": "s1", "gpus": 4},
                             {"name": "s2", "gpus": 8, "rack": "r", "gpu": "A100"}]},
    },
    "accounts": {
        "language": {"share": "60%", "accounts": {
            "olmo": {"share": 0.7, "researchers": ["ann", "bo", "cy"]},
            "post": {"share": "30%", "max_gpus": 64},
        }},
        "vision": {"share": "40%"},
    },
}  # fmt: skip


def test_a_first_line_with_the_lab_itself_will_do() -> None:
    began = {"event": "began", "t": 0, "n": 1, "lab": LAB, "policy": "budget", "seed": 1, "warmup_s": 0,
             "until_s": 3600}  # fmt: skip
    job = {"event": "submitted", "t": 0, "n": 2, "job": "one", "account": "language/olmo/bo", "gpus": 8,
           "min_runtime_s": 60, "resumable": True}  # fmt: skip
    story = read_story(io.StringIO(f"{json.dumps(began)}\n{json.dumps(job)}\n"))
    assert (story.lab, story.clusters, story.prices) == ("example", ["jupiter", "saturn"], (2.49, None))
    assert [node.name for node in story.nodes][:2] == ["jupiter-0000", "jupiter-0001"]
    assert [node.gpus for node in story.nodes] == [8, 8, 8, 8, 4, 8]
    assert [node.rack for node in story.nodes] == [0, 0, 1, 1, 0, "r"]
    assert [node.gpu for node in story.nodes][3:] == ["H100", None, "A100"]
    shares = {account.path: account.shares for account in story.accounts}
    assert shares["language/olmo/bo"] == (333_333, 333_333)
    assert shares["vision"] == (200_000, 400_000)
    assert story.accounts[story.jobs["account"][0]].path == "language/olmo/bo"
    assert {a.path: a.max_gpus for a in story.accounts}["language/post"] == 64


def test_a_lab_that_is_none_is_told() -> None:
    began = {"event": "began", "t": 0, "n": 1, "lab": {"clusters": {"c": {}}}, "policy": {}, "seed": 1,
             "warmup_s": 0, "until_s": 3600}  # fmt: skip
    assert "line 1: `began`: `lab` is no lab: KeyError('nodes')" in broken(json.dumps(began))
