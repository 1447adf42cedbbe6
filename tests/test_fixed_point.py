"""S16: without arrivals, ends or changes of order by time alone, turns come to rest."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from stepping import Ledger, staged, turns
from strategies import scenarios
from tenure.core.decide import decide
from tenure.core.words import Happened

pytestmark = pytest.mark.core
SCENARIOS = Path(__file__).parent / "scenarios"
EXAMPLES = int(os.environ.get("TENURE_EXAMPLES", "12"))
MOVES = (
    Happened.STARTED,
    Happened.CLAIMED,
    Happened.UNCLAIMED,
    Happened.STOPPING,
    Happened.PLANNED,
    Happened.UNPLANNED,
)
tried = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.parametrize("name", ["case_02", "case_16"])
def test_at_most_one_stop_in_a_thousand_turns(name: str) -> None:
    (path,) = SCENARIOS.glob(f"{name}*.yaml")
    stage, ledger, stops, played = staged(path), Ledger(), 0, 0
    read = 0
    for _ in turns(stage, ledger):
        said = stage.board.out["event"][: stage.board.counts["n_out"][0]]
        stops += int((said[read if read <= len(said) else 0 :] == Happened.STOPPING).sum())
        played, read = played + 1, len(said)
    assert stops <= 1
    assert played >= 900


@pytest.mark.slow
@tried
@given(scenarios())
def test_a_turn_leaves_nothing_for_another_at_its_instant(scenario: dict[str, Any]) -> None:
    """The same turn again adds nothing and undoes nothing, save that a promise for this instant is kept.

    And save where it says itself that another is due at once, for what lies deeper than it looked.
    """
    stage, ledger = staged(scenario), Ledger()
    for now_s in turns(stage, ledger):
        board = stage.board
        if board.counts["more"][0]:
            continue
        due_now = board.plans["open"] & (board.plans["at_s"] == now_s)
        if due_now.any():
            board = decide(stage.lab, board, stage.policy, now_s)
        after = decide(stage.lab, board, stage.policy, now_s)
        said = after.out["event"][: after.counts["n_out"][0]]
        assert not np.isin(said, MOVES).any(), (now_s, said)
