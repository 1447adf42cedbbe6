"""Who tries tokens that open nothing must wait after a while; whoever has a token does not notice."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from live_lab import Small
from tenure.service.live.desk import Desk
from tenure.web.app import create_app
from tenure.web.throttle import MOST_ADDRESSES, MOST_FAILURES, STRETCH_S, Throttle


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Small]:
    one = Small(tmp_path)
    yield one
    one.ledger.close()


def test_after_too_many_wrong_tokens_only_known_ones_are_looked_up(small: Small) -> None:
    desk = Desk(small.lab, small.ledger, small.daemon, small.engine, now=small.clock.now)
    app = create_app(desk)
    known, late = (small.ledger.create_token("ann", created=small.clock.now()) for _ in range(2))

    async def asked(token: str) -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://lab") as http:
            return await http.get("/api/v1/nodes", headers={"Authorization": f"Bearer {token}"})

    def ask(token: str) -> httpx.Response:
        return asyncio.run(asked(token))

    assert ask(known).status_code == 200
    assert {ask(f"tenure_{n}").status_code for n in range(MOST_FAILURES)} == {401}
    refused = ask("tenure_more")
    assert refused.status_code == 429
    assert 0 < int(refused.headers["retry-after"]) <= STRETCH_S
    assert "too many" in refused.json()["error"]
    assert ask(known).status_code == 200
    assert ask(late).status_code == 429
    app.state.throttle._now = lambda: 1e12
    assert ask(late).status_code == 200


def test_addresses_are_counted_apart_and_not_for_ever() -> None:
    now = [0.0]
    throttle = Throttle(2, lambda: now[0])
    for _ in range(2):
        assert throttle.wait_s("a", "x") == 0
        throttle.failed("a")
    assert throttle.wait_s("a", "x") == STRETCH_S
    assert throttle.wait_s("b", "x") == 0
    throttle.passed("x")
    assert throttle.wait_s("a", "x") == 0
    now[0] = STRETCH_S
    assert throttle.wait_s("a", "y") == 0
    for n in range(MOST_ADDRESSES + 10):
        throttle.failed(f"address {n}")
    assert len(throttle._failures) == MOST_ADDRESSES
