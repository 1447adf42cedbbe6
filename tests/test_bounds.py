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
from tenure.core.board import KINDS
from tenure.core.places import LAX, RIPE, WAYS, WORD
from tenure.core.policy import Order
from tenure.core.words import NONE
from tenure.simulator.simulate import Stage

pytestmark = pytest.mark.core
SCENARIOS = Path(__file__).parent / "scenarios"
HOUR = 3600
EXAMPLES = int(os.environ.get("TENURE_EXAMPLES", "12"))
tried = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="TENURE_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
#: Claims, plans, savers, limits, drains, failures, two clusters.
CHOSEN = ("case_03", "case_05", "case_11", "case_14", "case_19", "case_22", "s08", "s17", "s19")


def world(name: str) -> Any:
    found = sorted(SCENARIOS.glob(f"{name}*.yaml"))
    if not found:
        pytest.skip(f"no scenario {name}")
    return found[0]


def played(source: Any, *, thorough: bool, order: int = Order.TARGETS, until_s: int | None = None) -> Any:
    stage = staged(source, until_s=until_s)
    stage.policy = stage.policy._replace(order=order)
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
