"""Counts of what turns did, held against a story that was played."""

from __future__ import annotations

from collections import Counter

import pytest

from tenure.daemon.tallies import Distribution, Tallies, group_of


def submitted(job: str, t: int, **keys: object) -> dict[str, object]:
    return {"event": "submitted", "t": t, "job": job, "gpus": 8, "min_runtime_s": 600, "kind": "batch"} | keys


def started(job: str, t: int, *nodes: str) -> dict[str, object]:
    return {"event": "started", "t": t, "job": job, "nodes": dict.fromkeys(nodes or ("n0",), 8)}


def stopped(job: str, t: int, end: str, lost: int = 0) -> dict[str, object]:
    return {"event": "stopped", "t": t, "job": job, "end": end, "held_gpu_s": 80, "lost_gpu_s": lost}


def test_values_fall_into_the_bucket_of_the_first_bound_not_below_them() -> None:
    found = Distribution((1, 5))
    for value in (0, 1, 1.5, 5, 9):
        found.add(value)
    assert found.cumulative() == [("1.0", 2), ("5.0", 4), ("+Inf", 5)]
    assert (found.n, found.total) == (5, 16.5)


def test_waits_are_measured_from_submission_and_anew_from_each_requeue() -> None:
    tallies = Tallies()
    tallies.add([submitted("1", 0), submitted("2", 0, min_runtime_s=0)])
    tallies.add([started("1", 3), started("2", 100)])
    tallies.add([stopped("2", 200, "preempted", lost=7), {"event": "requeued", "t": 200, "job": "2"}])
    tallies.add([started("2", 250)])
    assert (tallies.wait_s["debug"].n, tallies.wait_s["debug"].total) == (1, 3)
    assert (tallies.wait_s["unbudgeted"].n, tallies.wait_s["unbudgeted"].total) == (2, 150)
    assert (tallies.ends, tallies.lost_gpu_s, tallies.held_gpu_s) == (Counter(preempted=1), 7, 80)


def test_a_job_that_ended_is_forgotten() -> None:
    tallies = Tallies()
    tallies.add([submitted("1", 0), started("1", 0), stopped("1", 9, "finished")])
    tallies.add([submitted("2", 0), {"event": "cancelled", "t": 3, "job": "2"}])
    assert (tallies._asked, tallies._since) == ({}, {})


def test_a_job_on_several_nodes_counts_as_a_gang() -> None:
    tallies = Tallies()
    tallies.add([submitted("1", 0, gpus=16, min_runtime_s=7200), started("1", 60, "n0", "n1")])
    assert tallies.wait_s["gang"].total == 60


@pytest.mark.parametrize(
    ("keys", "group"),
    [
        ({"gpus": 8, "min_runtime_s": 900}, "debug"),
        ({"gpus": 9, "min_runtime_s": 900}, "budgeted"),
        ({"gpus": 8, "min_runtime_s": 901}, "budgeted"),
        ({"gpus": 1, "min_runtime_s": 0, "kind": "debug"}, "unbudgeted"),
        ({"gpus": 1, "min_runtime_s": 60, "kind": "session"}, "session"),
    ],
)
def test_each_job_is_of_one_group(keys: dict[str, object], group: str) -> None:
    assert group_of(keys) == group
