"""The server is killed at instants nobody chose; what runs goes on, ends once, and is charged as it ran."""

from __future__ import annotations

import os

import pytest

from kills import killed

#: `make kills` takes more than 500 of them.
KILLS = int(os.environ.get("TENURE_KILLS", "120"))


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "share"), [("local", 0.5), ("fake", 0.5)])
def test_nothing_is_lost_and_nothing_started_twice_however_often_it_is_killed(
    engine: str, share: float
) -> None:
    killing = killed(engine, round(KILLS * share))
    assert killing.wrongs == [], f"python tests/kills.py {engine} {killing.kills}"
    assert killing.asked > 10


@pytest.mark.slow
def test_nor_over_postgresql(postgresql_url: str) -> None:
    killing = killed("fake", 10, postgresql_url)
    assert killing.wrongs == []
