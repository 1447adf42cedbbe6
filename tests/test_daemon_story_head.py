"""The record's story while its lab's file changes: whoever reads it knows all that it speaks of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from live_lab import LAB, Small
from tenure.service.audits import audit
from tenure.settings.lab import lab_of
from tenure.story.jsonl import read_story

HOUR = 3600
THREE = {"mars": {"nodes": 3, "gpus_per_node": 8}}


def under(small: Small, **changes: Any) -> None:
    """A server that starts anew with another file."""
    small.lab = lab_of(LAB | changes)
    small.wake_up()
    small.settle()


def told(small: Small) -> Path:
    path = small.folder / "story.jsonl"
    path.write_text("".join(small.ledger.story_lines(None, small.t)))
    return path


def test_the_story_names_its_policy_and_says_whether_a_lookback_was_given(tmp_path: Path) -> None:
    small = Small(tmp_path)
    small.to(60)
    heading = audit(told(small)).heading
    assert heading["policy"] == "budget"
    assert "none was given" in heading["lookback"]


@pytest.mark.slow
def test_what_is_taken_out_of_the_file_stays_named_and_counts_no_more(tmp_path: Path) -> None:
    small = Small(tmp_path, LAB | {"clusters": THREE})
    gone = small.view.lab.nodes[2].name
    jobs = [small.submit("b/x", 8, min_runtime="1h"), small.submit("b/y", 8), small.submit("a", 8)]
    small.to(2 * HOUR)
    assert {small.end(job) for job in jobs} == {"finished"}
    accounts = {"a": {"share": "100%"}}
    under(small, accounts=accounts)
    assert {line["account"]: line["new"] for line in small.lines("share")} == {
        "b": 0.0, "b/x": 0.0, "b/y": 0.0, "a": 1.0,
    }  # fmt: skip
    small.submit("a", 8)
    small.to(4 * HOUR)
    path = told(small)
    story = read_story(path)
    assert {node.name for node in story.nodes} >= {gone}
    assert {account.path for account in story.accounts} >= {"a", "b", "b/x", "b/y"}
    (line,) = small.lines("node")
    assert (line["node"], line["state"], line["reason"]) == (gone, "down", "taken out of the lab")
    # the record's newest second was 1 h when the file changed, and a's share was asked for at 2 h
    measures = audit(path).measures
    assert measures["gpu_hours"]["down"] == 8 * 3
    entitled = {name: row["entitled_gpu_h"] for name, row in measures["delivered"]["accounts"].items()}
    assert entitled["a"] == pytest.approx(12 + 8 + 2 * 16)
    assert entitled["b"] == pytest.approx(12)


def test_what_is_new_in_the_file_was_not_there_before_and_may_go_and_come_back(tmp_path: Path) -> None:
    small = Small(tmp_path, more_nodes={"mars-0002": 8})
    small.submit("a", 8)
    small.to(HOUR)
    accounts = LAB["accounts"] | {"a": {"share": "25%"}, "c": {"share": "25%"}}
    under(small, clusters=THREE, accounts=accounts)
    job = small.submit("c", 8, min_runtime="1h")
    small.to(2 * HOUR)
    assert small.end(job) == "finished"
    path = told(small)
    assert [line["node"] for line in small.lines("node")] == ["mars-0002"] * 2
    measures = audit(path).measures
    assert measures["gpu_hours"]["down"] == 8
    entitled = {name: row["entitled_gpu_h"] for name, row in measures["delivered"]["accounts"].items()}
    assert (entitled["a"], entitled["c"]) == (pytest.approx(8 + 6), pytest.approx(6))
    under(small)
    small.submit("a", 8)
    small.to(3 * HOUR)
    assert audit(told(small)).measures["gpu_hours"]["down"] == 8 + 8
    under(small, clusters=THREE, accounts=accounts)
    small.submit("a", 8)
    small.to(4 * HOUR)
    assert audit(told(small)).measures["gpu_hours"]["down"] == 8 + 8
    states = [(line["t"], line["state"]) for line in small.lines("node")]
    assert states == [(0, "down"), (HOUR, "up"), (2 * HOUR, "down"), (3 * HOUR, "up")]


def test_a_leaf_that_gets_accounts_below_has_its_work_of_before_as_its_own(tmp_path: Path) -> None:
    small = Small(tmp_path)
    small.submit("a", 8, min_runtime="1h")
    small.to(HOUR)
    accounts = LAB["accounts"] | {"a": {"share": "50%", "accounts": {"z": {"share": "50%"}}}}
    under(small, accounts=accounts)
    small.submit("a", 8, min_runtime="1h")
    small.to(2 * HOUR)
    entitled = audit(told(small)).measures["delivered"]["accounts"]
    assert entitled["a/(own)"]["entitled_gpu_h"] == pytest.approx(8 + 4)
    assert entitled["a/(own)"]["delivered_gpu_h"] == pytest.approx(16)
    assert entitled["a/z"]["entitled_gpu_h"] == pytest.approx(4)
