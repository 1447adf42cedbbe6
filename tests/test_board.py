"""The board: kept up = rebuilt from the record, at every turn; what a turn may write to and what not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from stepping import Ledger, change, record_of, said, staged, turns
from strategies import scenarios
from tenure.core.board import Board, Lab, as_kernels_want
from tenure.core.decide import copy_of, decide
from tenure.core.kernel import COMPILED, entry
from tenure.core.policy import Policy
from tenure.core.rebuild import rebuild
from tenure.core.words import NONE, Phase

pytestmark = pytest.mark.core
SCENARIOS = Path(__file__).parent / "scenarios"
HOUR = 3600
EXAMPLES = int(os.environ.get("TENURE_EXAMPLES", "12"))
tried = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
#: Claims, plans, drains, failures, limits, two clusters, several shares.
CHOSEN = (
    *("case_03", "case_05", "case_11", "case_14", "case_19", "case_22"),
    *("s17_a_promise", "s17_nothing", "s19_a_draining", "s19_a_node_that", "s20_a_dead"),
)
POSTS = (
    "plan_s",
    "closed_s",
    "free",
    "pledged",
    "freeing",
    "avail",
    "soft",
    "lax",
    "lax_room",
    "n_jobs",
    "plan",
    "state",
    "pool",
    "counted",
    "kind",
)


def world(name: str) -> Any:
    found = sorted(SCENARIOS.glob(f"{name}*.yaml"))
    assert found, name
    return found[0]


# --- comparing ----------------------------------------------------------------------------------------


def parts_that_differ(lab: Lab, policy: Policy, kept: Board, built: Board, now_s: int) -> list[str]:
    """What is not the same on both boards; scratch space, stale links and sums of old times aside."""
    differ = [f"posts.{name}" for name in POSTS if (kept.posts[name] != built.posts[name]).any()]
    for name in (
        "free",
        "healthy",
        "n_waiting",
        "n_sick",
        "n_closing",
        "n_plans",
        "plan_above",
        "bound_gpus",
        "pool_nodes",
    ):
        if (kept.scenes[name] != built.scenes[name]).any():
            differ.append(f"scenes.{name}")
    for name in ("rooms", "levels"):
        if (getattr(kept, name) != getattr(built, name)).any():
            differ.append(name)
    for name in ("held", "unbudgeted"):
        if (kept.purses[name] != built.purses[name]).any():
            differ.append(f"purses.{name}")
    leaf = np.tile(lab.accounts["first_child"] == NONE, len(lab.clusters))
    for name in ("demand", "charged", "running", "protected", "quick", "plan", "entitled_ugpu", "due_ugpu"):
        if (kept.standings[name][leaf] != built.standings[name][leaf]).any():
            differ.append(f"standings.{name}")
    if over_lookback(policy, kept, now_s) != over_lookback(policy, built, now_s):
        differ.append("sums over the lookback")
    for name in ("head", "tail", "n", "gpus"):
        if (kept.queues[name] != built.queues[name]).any():
            differ.append(f"queues.{name}")
    listed = kept.entries["queue"] != NONE
    if (kept.entries["queue"] != built.entries["queue"]).any():
        differ.append("entries.queue")
    for name in ("next", "prev", "gpus", "min_runtime_s", "typed"):
        if (kept.entries[name][listed] != built.entries[name][listed]).any():
            differ.append(f"entries.{name}")
    if claims(kept) != claims(built):
        differ.append("claims")
    for node in range(len(kept.posts)):
        n = int(kept.posts["n_jobs"][node])
        if kept.on_node[node, :n].tolist() != built.on_node[node, :n].tolist():
            differ.append(f"on_node[{node}]")
    return differ + stays_that_differ(kept, built)


def stays_that_differ(kept: Board, built: Board) -> list[str]:
    differ = [
        name
        for name in ("soft", "quick", "plan", "budgeted")
        if (kept.stays[name] != built.stays[name]).any()
    ]
    placed = np.flatnonzero(np.isin(kept.stays["phase"], (Phase.RUNNING, Phase.STOPPING, Phase.CLAIMING)))
    for job in placed.tolist():
        if nodes_of(kept, job) != nodes_of(built, job):
            differ.append(f"nodes of {job}")
    return [f"stays.{name}" for name in differ]


def nodes_of(board: Board, job: int) -> list[int]:
    chain = "next_of_claim" if board.stays["phase"][job] == Phase.CLAIMING else "next_of_gang"
    nodes = [int(board.stays["node"][job])]
    while len(nodes) < board.stays["n_nodes"][job]:
        nodes.append(int(board.posts[chain][nodes[-1]]))
    return nodes


def claims(board: Board) -> list[int]:
    return board.claims[: int(board.counts["n_claims"][0])].tolist()


def over_lookback(policy: Policy, board: Board, now_s: int) -> list[list[int]]:
    """Use, due and entitlement of each standing over the lookback: both cursors brought up by hand."""
    rows = board.standings
    past_s = max(0, now_s - policy.lookback_s)
    found = []
    for now, then, rate in (
        ("used_gpu_s", "past_used_gpu_s", "charged"),
        ("owed_ugpu_s", "past_owed_ugpu_s", "due_ugpu"),
        ("titled_ugpu_s", "past_titled_ugpu_s", "entitled_ugpu"),
    ):
        head = rows[now] + rows[rate] * (now_s - rows["since_s"])
        tail = rows[then] + rows[f"past_{rate}"] * np.maximum(0, past_s - rows["past_since_s"])
        found.append((head - tail).tolist())
    return found


# --- kept up = rebuilt --------------------------------------------------------------------------------


def play_and_compare(source: Any, *, until_s: int | None = None, every: int = 1) -> int:
    stage, ledger, played = staged(source, until_s=until_s), Ledger(), 0
    for now_s in turns(stage, ledger):
        played += 1
        if played % every:
            continue
        built = rebuild(stage.lab, stage.policy, record_of(stage, ledger), now_s)
        differ = parts_that_differ(stage.lab, stage.policy, stage.board, built, now_s)
        assert differ == [], f"turn {played}, second {now_s}"
    return played


@pytest.mark.slow
@pytest.mark.parametrize("name", CHOSEN)
def test_kept_up_is_rebuilt(name: str) -> None:
    assert play_and_compare(world(name), until_s=31 * HOUR, every=1) >= 5


@pytest.mark.slow
@tried
@given(scenarios())
def test_kept_up_is_rebuilt_whatever_happens(scenario: dict[str, Any]) -> None:
    play_and_compare(scenario)


@tried
@given(scenarios())
def test_a_play_goes_on_from_a_rebuilt_board_as_if_nothing_had_happened(scenario: dict[str, Any]) -> None:
    through = staged(scenario)
    for _ in turns(through):
        pass
    stage, ledger = staged(scenario), Ledger()
    for number, now_s in enumerate(turns(stage, ledger)):
        if number % 3 == 0:
            change(stage, ledger, rebuild(stage.lab, stage.policy, record_of(stage, ledger), now_s))
    assert said(stage) == said(through)


# --- what a turn writes to ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", CHOSEN[:3])
def test_decide_answers_the_same_and_leaves_its_arguments_alone(name: str) -> None:
    stage = staged(world(name), until_s=3 * HOUR)
    for now_s in turns(stage):
        lab, board = stage.lab, copy_of(stage.board)
        before = [table.copy() for table in (*lab, *board)]
        first, again = (decide(lab, board, stage.policy, now_s + 300) for _ in range(2))
        assert all((one == other).all() for one, other in zip((*lab, *board), before, strict=True))
        assert all((one == other).all() for one, other in zip(first, again, strict=True))


def spoil(lab: Any, job: int) -> None:
    lab.jobs.gpus[job] = 1


def test_no_kernel_can_write_to_the_lab() -> None:
    lab = staged(world(CHOSEN[0])).lab
    spoiler = entry(spoil)
    if COMPILED:
        from numba.core.errors import TypingError

        with pytest.raises(TypingError, match=r"[Rr]ead-?only|Cannot"):
            spoiler(as_kernels_want(lab), 0)
    else:
        with pytest.raises(ValueError, match="read-only"):
            spoiler(as_kernels_want(lab), 0)
