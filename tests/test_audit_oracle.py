"""The fast audit and the naive one agree on every number, on stories nobody thought of."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naive_audit import NaiveAudit, nearest_rank
from stories import random_story
from tenure.audit.hours import hours_by_changes, hours_by_moments, hours_of, stretches
from tenure.audit.measures import measure_record
from tenure.audit.record import Record
from tenure.core.words import NEVER_S, Happened

TICK_S = 60


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3), st.booleans())
def test_agrees_with_the_naive_audit(seed: int, clusters: int, limits: bool) -> None:
    story = random_story(seed, turns=90, clusters=clusters, limits=limits, grid_s=TICK_S)
    record = Record(story)
    hours = hours_of(record)
    naive = NaiveAudit(story, TICK_S).walk()
    first = story.warmup_s // 3600
    for h in range(len(hours.edges) - 1):
        for c in range(clusters):
            assert hours.down_gpu_s[c, h] == naive.sums["down", first + h, c]
            assert hours.unbudgeted_gpu_s[c, h] == naive.sums["unbudgeted", first + h, c]
            assert hours.capacity_gpu_s[c, h] == naive.sums["capacity", first + h, c]
            for a in range(len(story.accounts)):
                where = (first + h, c, a)
                assert hours.held_gpu_s[c, a, h] == naive.sums["held", *where]
                assert hours.entitled_ugpu_s[c, a, h] == naive.sums["entitled", *where]
                assert hours.demand_ugpu_s[c, a, h] == naive.sums["demand", *where]
    measures = measure_record(record, [hours])
    agree_on_waits(measures.wait_s, naive.waits, naive)
    agree_on_waits(measures.first_wait_s, naive.first_waits(), naive)
    counts = [n for row, n in naive.preempted.items()]
    assert measures.preemptions["count"] == sum(counts)
    assert measures.preemptions["max_per_job"] == max(counts, default=0)
    assert measures.gpu_s["lost"] == naive.lost_gpu_s
    assert measures.jobs["running"] == sum(job.phase == "running" for job in naive.jobs)
    assert measures.jobs["waiting"] == sum(job.phase == "waiting" for job in naive.jobs)


def agree_on_waits(told: dict, waits: list[tuple[int, int]], naive: NaiveAudit) -> None:
    for group, numbers in told.items():
        values = [wait_s for row, wait_s in waits if group in naive.groups(naive.jobs[row])]
        assert numbers["n"] == len(values), group
        if values:
            assert numbers["max"] == max(values)
            assert numbers["mean"] == sum(values) / len(values)
            for percent in (50, 90, 99):
                assert numbers[f"p{percent}"] == nearest_rank(values, percent), (group, percent)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_sums_over_changes_are_sums_over_moments(seed: int) -> None:
    story = random_story(seed, turns=150)
    record = Record(story)
    (by_changes,), (by_moments,) = hours_by_changes(record, 10**6), hours_by_moments(record, 10**6)
    for one, other in zip(by_changes, by_moments, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3), st.booleans(), st.integers(1, 500))
def test_stretches_of_hours_are_all_hours(seed: int, clusters: int, limits: bool, cells: int) -> None:
    record = Record(random_story(seed, turns=150, clusters=clusters, limits=limits))
    whole, parts = hours_of(record), list(stretches(record, cells=cells))
    assert np.concatenate([part.edges[:-1] for part in parts]).tolist() == whole.edges[:-1].tolist()
    for name in ("entitled_ugpu_s", "demand_ugpu_s", "held_gpu_s", "unbudgeted_gpu_s", "down_gpu_s"):
        joined = np.concatenate([getattr(part, name) for part in parts], axis=-1)
        assert np.array_equal(joined, getattr(whole, name)), name
    assert measure_record(record, parts) == measure_record(record, [whole])


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3), st.booleans())
def test_every_gpu_second_is_accounted_for(seed: int, clusters: int, limits: bool) -> None:
    story = random_story(seed, turns=150, clusters=clusters, limits=limits)
    record = Record(story)
    hours = hours_of(record)
    assert (hours.idle_gpu_s >= 0).all()
    gpu_s = measure_record(record, [hours]).gpu_s
    assert gpu_s["capacity"] == gpu_s["down"] + gpu_s["idle"] + gpu_s["budgeted"] + gpu_s["unbudgeted"]
    assert gpu_s["capacity"] == sum(n.gpus for n in story.nodes) * (story.until_s - story.warmup_s)
    ended = record.attempts.stop_s < NEVER_S
    charged = (record.attempts.stop_s - record.attempts.start_s)[ended] * record.gpus[
        record.attempts.job[ended]
    ]
    told = story.events["x"][story.events["event"] == Happened.STOPPED]
    assert sorted(charged.tolist()) == sorted(told.tolist())
