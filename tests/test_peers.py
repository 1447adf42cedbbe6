"""Start times job by job against other people's programs and a second way (see peer_starts.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from naive_queues import easy, first_come
from peer_starts import CUTS, DRAWN, FILE, TRACES, digest, work
from test_known_values import through_tenure

pytestmark = pytest.mark.core
TOLD: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
SECOND_WAY = {"fifo": first_come, "fifo-backfill": easy}
HERE = [*DRAWN, *(CUTS if (TRACES / "swf").is_dir() else ())]


def test_all_logs_were_played_by_the_peers() -> None:
    assert list(TOLD) == [*DRAWN, *CUTS]


@pytest.mark.slow
@pytest.mark.parametrize("policy", SECOND_WAY)
@pytest.mark.parametrize("name", HERE)
def test_starts_are_those_of_the_peers(name: str, policy: str, tmp_path: Path) -> None:
    processors, asks = work(name)
    starts, _ = through_tenure(asks, (1, processors), policy, tmp_path)
    assert digest(starts) == TOLD[name][policy]


@pytest.mark.parametrize("policy", SECOND_WAY)
@pytest.mark.parametrize("name", DRAWN)
def test_the_second_way_is_right_too(name: str, policy: str) -> None:
    processors, asks = work(name)
    assert digest(SECOND_WAY[policy](asks, 1, processors)) == TOLD[name][policy]
