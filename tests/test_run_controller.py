"""The controller carries a run: through windows, failures, restarts; by a provider in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from run_world import DAY, START, World, run_of
from tenure.ledger.opening import open_database


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, open_database(tmp_path / "runs.db"), run_of(tmp_path))


def test_a_run_lives_through_one_window_to_a_verified_end(world: World) -> None:
    world.provider.lend(START, START + 3 * DAY, 4)
    world.controller()
    world.live(START + 4 * DAY, world.done)
    state = world.state
    assert state.phase == "done"
    assert state.final is not None
    assert world.vault.newest().tokens >= world.run.tokens * 0.999999
    assert not world.provider.alive
    assert world.modes() == set()
