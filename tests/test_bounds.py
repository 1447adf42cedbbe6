"""What a turn does not look at: the bounds that spare it are exact, and what they rest on is kept up."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from stepping import said, staged, turns
from strategies import scenarios
from tenure.core.board import BUDGETED, KINDS, LANES, QUICK, UNBUDGETED, as_kernels_want
from tenure.core.decide import open_entry
from tenure.core.places import LAX, RIPE, WAYS, WORD
from tenure.core.policy import Order, Policy
from tenure.core.waiting import STOPS_A_ROUND
from tenure.core.words import NONE
from tenure.simulator.simulate import Stage

pytestmark = pytest.mark.core
SCENARIOS = Path(__file__).parent / "scenarios"
HOUR = 3600
EXAMPLES = int(os.environ.get("TENURE_EXAMPLES", "12"))
tried = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
#: Claims, plans, savers, limits, drains, failures, two clusters.
CHOSEN = ("case_03", "case_05", "case_11", "case_14", "case_19", "case_22", "s08", "s17", "s19")


def world(name: str) -> Any:
    return sorted(SCENARIOS.glob(f"{name}*.yaml"))[0]


def set_policy(stage: Stage, **knobs: int) -> None:
    """Before the first turn: play by other knobs."""
    stage.policy = stage.policy._replace(**knobs)
    open_entry(as_kernels_want(stage.lab), as_kernels_want(stage.board), stage.policy, 0)


def played(source: Any, *, thorough: bool, until_s: int | None = None, **knobs: int) -> Any:
    stage = staged(source, until_s=until_s)
    set_policy(stage, **knobs)
    stage.board.counts["thorough"] = thorough
    for _ in turns(stage):
        pass
    return said(stage), int(stage.board.counts["searched"][0])


@pytest.mark.parametrize("name", CHOSEN)
def test_what_is_not_looked_at_changes_nothing(name: str) -> None:
    story, searched = played(world(name), thorough=False, until_s=30 * HOUR)
    all_story, all_searched = played(world(name), thorough=True, until_s=30 * HOUR)
    assert story == all_story
    assert searched <= all_searched


@tried
@given(scenarios())
def test_what_is_not_looked_at_changes_nothing_whatever_happens(scenario: dict[str, Any]) -> None:
    assert played(scenario, thorough=False)[0] == played(scenario, thorough=True)[0]


@tried
@given(scenarios())
def test_nor_does_it_by_window_order(scenario: dict[str, Any]) -> None:
    story, all_story = (
        played(scenario, thorough=thorough, order=Order.WINDOW)[0] for thorough in (False, True)
    )
    assert story == all_story


@tried
@given(scenarios())
def test_nor_does_it_with_a_pool_and_a_shallow_look(scenario: dict[str, Any]) -> None:
    story, all_story = (
        played(scenario, thorough=thorough, pool_nodes=1, depth=3)[0] for thorough in (False, True)
    )
    assert story == all_story


def check_sums(stage: Stage) -> None:
    """Sums of nodes and chains of owners, worked out from the attempts on the nodes."""
    lab, board = stage.lab, stage.board
    stays, posts, rows = board.stays, board.posts, board.standings
    lax, ripe = np.zeros(len(posts), np.int64), np.zeros(len(posts), np.int64)
    chained: dict[int, set[int]] = {}
    for node in range(len(posts)):
        for job in board.on_node[node, : posts["n_jobs"][node]].tolist():
            if not stays["soft"][job]:
                continue
            gpus = int(stays["gpus"][job] if stays["n_nodes"][job] == 1 else lab.nodes["gpus"][node])
            row = int(stays["cluster"][job]) * len(lab.accounts) + int(stays["account"][job])
            if not stays["budgeted"][job]:
                lax[node] += gpus
                continue
            chained.setdefault(row, set()).add(job)
            if stays["gpus"][job] <= rows["gives"][row]:
                ripe[node] += gpus
    assert posts["lax"].tolist() == lax.tolist()
    assert posts["ripe"].tolist() == ripe.tolist()
    coming = np.maximum(0, posts["free"] + posts["freeing"] - posts["pledged"])
    clears, width = np.zeros_like(board.clears), board.rooms.shape[1]
    clearable, levels = np.zeros_like(board.clearable), np.zeros_like(board.levels)
    for node in np.flatnonzero(posts["counted"]).tolist():
        row = (int(lab.nodes["cluster"][node]) * KINDS + int(posts["kind"][node])) * WAYS
        most = int(lab.nodes["gpus"][node])
        word, bit = node // WORD, 1 << node % WORD
        for way, gpus in ((LAX, lax[node]), (RIPE, lax[node] + ripe[node])):
            room = min(most, int(coming[node] + gpus))
            clears[row + way, room] += 1
            clearable[word, way * width + room] |= bit
        levels[posts["avail"][node], word] |= bit
    assert (board.clears == clears).all()
    assert (board.clearable == clearable).all()
    assert (board.levels == levels).all()
    for row in range(len(rows)):
        jobs, job = set(), int(rows["first_soft"][row])
        while job != NONE:
            assert job not in jobs
            jobs.add(job)
            job = int(stays["next_soft"][job])
        assert jobs == chained.get(row, set())


@tried
@given(scenarios())
def test_sums_of_what_could_be_freed_are_kept_up(scenario: dict[str, Any]) -> None:
    stage = staged(scenario)
    for number, _ in enumerate(turns(stage)):
        if number % 2 == 0:
            check_sums(stage)


def first_jobs(stage: Stage, queue: int) -> list[int]:
    """So many jobs of a list as a turn looks at."""
    jobs: list[int] = []
    entry = int(stage.board.queues["head"][queue])
    while entry != NONE and len(jobs) < stage.policy.depth:
        jobs.append(int(stage.board.entries["job"][entry]))
        entry = int(stage.board.entries["next"][entry])
    return jobs


def room(stage: Stage, cluster: int, gpus: int) -> tuple[int, int]:
    """(GPUs of each node, how many nodes) that a job of so many GPUs needs; (0, 0): none can hold it."""
    most = int(stage.lab.clusters["node_gpus"][cluster])
    sizes = [gpus] if gpus <= most else [n for n in range(most, 0, -1) if gpus % n == 0]
    for size in sizes:
        if gpus <= most or stage.lab.sizes[cluster, size] >= gpus // size:
            return size, gpus // size
    return 0, 0


def check_lists(stage: Stage) -> None:
    """What is known of a list that no turn has to find out again, looked up anew."""
    lab, board, most_s = stage.lab, stage.board, stage.policy.max_protected_s
    for queue in range(len(board.queues)):
        cluster, lane = queue // LANES // len(lab.accounts), queue % LANES
        known, jobs = board.queues[queue], first_jobs(stage, queue)
        if lane not in (QUICK, BUDGETED) or known["least"] == 0 or not jobs:
            continue
        gpus = board.stays["gpus"][jobs].tolist()
        larger = int(lab.clusters["node_gpus"][cluster]) + 1
        assert known["least"] == min(room(stage, cluster, one)[0] or larger for one in gpus)
        assert (known["few"], known["many"]) == (min(gpus), max(gpus))
        assert known["least_s"] == min(most_s, lab.jobs["min_runtime_s"][jobs].min())
        assert known["saved"] == board.stays["saved"][jobs].any()


def check_unbudgeted(stage: Stage, cluster: int) -> bool:
    """The same of the unbudgeted jobs of all accounts, in the order in which they are asked; if known."""
    stays, queues, n = stage.board.stays, stage.board.queues, len(stage.lab.accounts)
    lists = [row * LANES + UNBUDGETED for row in range(cluster * n + 1, (cluster + 1) * n)]
    if (queues["least"][lists] == 0).any():
        return False
    waiting = {queue: first_jobs(stage, queue) for queue in lists}
    asked: dict[int, list[int]] = {queue: [] for queue in lists}
    for _ in range(stage.policy.depth):
        heads = {queue: jobs[0] for queue, jobs in waiting.items() if jobs}
        if heads:
            turns_of = {
                q: (stays["preempted"][job] // STOPS_A_ROUND, stays["submit_s"][job], job)
                for q, job in heads.items()
            }
            first = min(turns_of, key=lambda queue: turns_of[queue])
            asked[first].append(waiting[first].pop(0))
    never = 1 << 40
    for queue, jobs in asked.items():
        rooms = [room(stage, cluster, int(stays["gpus"][job])) for job in jobs]
        assert queues["least"][queue] == min((size for size, nodes in rooms if nodes == 1), default=never)
        gangs = min((nodes for _, nodes in rooms if nodes > 1), default=never)
        assert queues["nodes"][queue] in ((0, gangs) if gangs < never else (never,))
        assert queues["deeper"][queue] == (queues["n"][queue] > len(jobs))
    return True


def check_largest(stage: Stage) -> None:
    """The largest budgeted attempt of each account, where it is known, and how many are so large."""
    stays, rows = stage.board.stays, stage.board.standings
    held: dict[int, dict[int, int]] = {}
    for node in range(len(stage.board.posts)):
        for job in stage.board.on_node[node, : stage.board.posts["n_jobs"][node]].tolist():
            if stays["budgeted"][job]:
                row = int(stays["cluster"][job]) * len(stage.lab.accounts) + int(stays["account"][job])
                held.setdefault(row, {})[job] = int(stays["gpus"][job])
    for row in range(len(rows)):
        gpus = list(held.get(row, {}).values())
        assert rows["charged"][row] == sum(gpus)
        if rows["largest"][row] > 0:
            largest = max(gpus)
            assert (rows["largest"][row], rows["n_largest"][row]) == (largest, gpus.count(largest))


def crowded(seed: int) -> dict[str, Any]:
    """Eight nodes, one of them the pool, and far more work than they hold, half of it unbudgeted."""
    chance = np.random.default_rng(seed)
    jobs = [
        {
            "account": f"a{chance.integers(3)}",
            "gpus": int(chance.choice([1, 1, 2, 3, 4, 4, 8, 12])),
            "min_runtime": int(chance.choice([0, 0, 600, 3600])),
            "runtime": int(chance.integers(600, 2 * HOUR)),
            "submit": int(chance.integers(0, 3 * HOUR)),
            "priority": int(chance.integers(0, 2)),
        }
        for _ in range(90)
    ]
    cluster = {"nodes": 8, "gpus_per_node": 4}
    accounts = {f"a{k}": {"share": "33%"} for k in range(3)}
    return {"lab": {"lab": "crowd", "clusters": {"main": cluster}, "accounts": accounts}, "jobs": jobs}


@pytest.mark.parametrize("seed", range(6))
def test_nor_does_it_in_a_crowd(seed: int) -> None:
    knobs = {"pool_nodes": 1, "depth": 3 if seed % 2 else 40}
    story, all_story = (played(crowded(seed), thorough=thorough, **knobs)[0] for thorough in (False, True))
    assert story == all_story


def gangs_in_line(seed: int) -> dict[str, Any]:
    """Ten nodes, two of them the pool and some of another type; one small job for every two gangs waits."""
    chance = np.random.default_rng(seed)
    jobs = [
        {
            "account": f"a{chance.integers(3)}",
            "gpus": int(chance.choice([1, 4, 8, 8, 12, 12])),
            "min_runtime": int(chance.choice([0, 600, 3600, 3600])),
            "runtime": int(chance.integers(600, 2 * HOUR)),
            "submit": int(chance.integers(0, HOUR)),
            **({"gpu": "old"} if chance.random() < 0.1 else {}),
        }
        for _ in range(90)
    ]
    nodes = [{"name": f"n{k}", "gpus": 4, "gpu": "new" if k < 7 else "old"} for k in range(10)]
    accounts = {f"a{k}": {"share": "33%"} for k in range(3)}
    return {
        "lab": {"lab": "line", "clusters": {"main": {"nodes": nodes}}, "accounts": accounts},
        "jobs": jobs,
    }


@pytest.mark.parametrize("seed", range(6))
def test_nor_does_it_where_gangs_stand_in_line(seed: int) -> None:
    knobs = {"pool_nodes": 2, "depth": 5 if seed % 2 else 40}
    story, all_story = (
        played(gangs_in_line(seed), thorough=thorough, **knobs)[0] for thorough in (False, True)
    )
    assert story == all_story


def one_node_free() -> dict[str, Any]:
    """Thirty gangs of two nodes wait for hours while one node is free; others come and go beside them."""
    long = {"account": "b", "gpus": 3, "min_runtime": 8 * HOUR, "runtime": 8 * HOUR, "count": 7}
    gangs = {"account": "a", "gpus": 8, "min_runtime": HOUR, "runtime": HOUR, "count": 30}
    small = {"account": "b", "gpus": 1, "min_runtime": HOUR, "runtime": 500}
    jobs = [long, gangs | {"submit": 10}, *(small | {"submit": 600 * k} for k in range(1, 40))]
    accounts = {"a": {"share": "50%"}, "b": {"share": "50%"}}
    cluster = {"nodes": 8, "gpus_per_node": 4}
    return {"lab": {"lab": "one", "clusters": {"main": cluster}, "accounts": accounts}, "jobs": jobs}


def test_free_nodes_are_not_looked_for_again_for_a_gang_that_found_too_few() -> None:
    stage = staged(one_node_free(), until_s=7 * HOUR)
    set_policy(stage, pool_nodes=0, plan_above_gpus=32)
    played = sum(1 for _ in turns(stage))
    assert played > 70
    assert (stage.board.stays["attempt"][7:37] == 0).all()
    assert stage.board.counts["tried"][0] < 3 * played


def check_known(stage: Stage) -> int:
    """All of it; gives of how many clusters the unbudgeted jobs were known."""
    check_lists(stage)
    check_largest(stage)
    return sum(check_unbudgeted(stage, cluster) for cluster in range(len(stage.lab.clusters)))


@pytest.mark.slow
@pytest.mark.parametrize("depth", [3, Policy().depth])
@tried
@given(scenario=scenarios())
def test_what_is_known_of_lists_and_accounts_is_kept_up(depth: int, scenario: dict[str, Any]) -> None:
    stage = staged(scenario)
    set_policy(stage, depth=depth, pool_nodes=depth % 2)
    for _ in turns(stage):
        check_known(stage)


@pytest.mark.parametrize("depth", [3, Policy().depth])
def test_and_so_it_is_in_a_crowd(depth: int) -> None:
    stage = staged(crowded(depth))
    set_policy(stage, depth=depth, pool_nodes=1)
    assert sum(check_known(stage) for _ in turns(stage)) > 20
