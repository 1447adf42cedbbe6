"""Closings told to a live turn: what may start before, and the node drains when it is time."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepping import staged
from tenure.core.board import as_kernels_want
from tenure.core.live import NEWS, News, live_turn_entry, next_instant_entry
from tenure.core.tables import columns, empty
from tenure.core.words import NEVER_S, NONE, Happened, NodeState, Phase
from tenure.simulator.simulate import Stage

HOUR = 3600
LAB: dict[str, Any] = {
    "lab": {
        "clusters": {"jupiter": {"nodes": 2, "gpus_per_node": 8}},
        "accounts": {"a": {"share": "100%"}},
    },
    "until": "1d",
    "jobs": [
        {"id": "short", "account": "a", "gpus": 8, "min_runtime": "1h", "runtime": "30h"},
        {"id": "long", "account": "a", "gpus": 8, "min_runtime": "6h", "runtime": "30h"},
        {"id": "third", "account": "a", "gpus": 8, "min_runtime": "6h", "runtime": "30h"},
    ],
}
SHORT, LONG, THIRD = 0, 1, 2


def turn(stage: Stage, now_s: int, *told: tuple[int, int, int]) -> None:
    """A live turn that hears (what, row, value), all at this instant."""
    news = empty(max(1, len(told)), NEWS, note=NONE, cluster=NONE)
    for k, (what, row, value) in enumerate(told):
        news["t"][k], news["what"][k], news["row"][k], news["value"][k] = now_s, what, row, value
    lab, board = as_kernels_want(stage.lab), as_kernels_want(stage.board)
    live_turn_entry(lab, board, stage.policy, columns(news), len(told), 1, now_s)


def due_s(stage: Stage, now_s: int) -> int:
    lab, board = as_kernels_want(stage.lab), as_kernels_want(stage.board)
    return int(next_instant_entry(lab, board, stage.policy, now_s))


def test_until_a_node_closes_only_what_is_past_its_protection_by_then_starts_there() -> None:
    stage = staged(LAB)
    turn(stage, 0, (News.CLOSE, 0, 4 * HOUR), *((News.SUBMIT, job, 0) for job in (SHORT, LONG, THIRD)))
    stays = stage.board.stays
    assert stays["phase"].tolist() == [Phase.RUNNING, Phase.RUNNING, Phase.WAITING]
    assert stays["node"][[SHORT, LONG]].tolist() == [0, 1]
    told = stage.board.out[: int(stage.board.counts["n_out"][0])]
    (node,) = told[told["event"] == Happened.NODE]
    assert (node["by"], node["code"], node["x"]) == (0, NodeState.UP, 4 * HOUR)


def test_at_the_instant_the_turn_lets_it_drain() -> None:
    stage = staged(LAB)
    turn(stage, 0, (News.CLOSE, 0, 1000), (News.CLOSE, 1, NEVER_S))
    assert due_s(stage, 900) == 1000
    turn(stage, 999)
    assert stage.board.posts["state"].tolist() == [NodeState.UP, NodeState.UP]
    turn(stage, 1000, (News.SUBMIT, SHORT, 0))
    assert stage.board.posts["state"].tolist() == [NodeState.DRAINED, NodeState.UP]
    assert stage.board.scenes["n_closing"].tolist() == [0]
    assert stage.board.scenes["healthy"].tolist() == [8]
    assert stage.board.stays["node"][SHORT] == 1
    turn(stage, 2000, (News.NODE, 0, int(NodeState.UP)), (News.SUBMIT, LONG, 0))
    assert (stage.board.posts["closed_s"] == NEVER_S).all()
    assert stage.board.stays["node"][LONG] == 0


def test_a_closing_may_be_taken_back_or_moved() -> None:
    stage = staged(LAB)
    turn(stage, 0, (News.CLOSE, 0, 1000), (News.CLOSE, 1, 1000))
    turn(stage, 10, (News.CLOSE, 0, NEVER_S), (News.CLOSE, 1, 2000))
    assert stage.board.scenes["n_closing"].tolist() == [1]
    turn(stage, 1000, (News.SUBMIT, LONG, 0))
    assert np.array_equal(stage.board.posts["state"], [NodeState.UP, NodeState.UP])
    assert stage.board.stays["node"][LONG] == 0
    turn(stage, 2000)
    assert stage.board.posts["state"].tolist() == [NodeState.UP, NodeState.DRAINED]


def test_a_claim_that_would_reach_past_a_closing_falls() -> None:
    stage = staged({**LAB, "jobs": [{**LAB["jobs"][0], "min_runtime": 0}, *LAB["jobs"][1:]]})
    turn(stage, 0, (News.NODE, 1, int(NodeState.DOWN)), (News.SUBMIT, SHORT, 0))
    turn(stage, 60, (News.SUBMIT, LONG, 0))
    assert stage.board.stays["phase"][[SHORT, LONG]].tolist() == [Phase.STOPPING, Phase.CLAIMING]
    turn(stage, 61, (News.CLOSE, 0, 4 * HOUR))
    assert stage.board.stays["phase"][LONG] == Phase.WAITING
    assert stage.board.posts["pledged"].tolist() == [0, 0]
