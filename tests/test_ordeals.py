"""Labs that live while everything around them fails: nothing lost, nothing twice (see ordeal.py)."""

from __future__ import annotations

import os
import random
import time

import pytest

from ordeal import lived

#: Seeds for each database, at most, and how long they may take together; `make ordeals` lives through 2,000.
MOST = int(os.environ.get("TENURE_ORDEALS", "200"))
SECONDS = float(os.environ.get("TENURE_ORDEAL_SECONDS", "75"))
ALWAYS = (0, 1, 2, 4, 9)  #: each broke a promise once


@pytest.mark.slow
@pytest.mark.parametrize("seed", ALWAYS)
def test_what_broke_a_promise_once_breaks_none(seed: int) -> None:
    ordeal = lived(seed)
    assert ordeal.wrongs == [], f"python tests/ordeal.py {seed}"
    assert ordeal.turns > 20


def ordeals(url: str | None) -> int:
    """Live through seeds that nobody has seen before until the time is over; how many they were."""
    first, until, n = random.SystemRandom().randrange(10**6, 10**9), time.monotonic() + SECONDS, 0
    deaths = 0
    for seed in range(first, first + MOST):
        ordeal = lived(seed, url)
        assert ordeal.wrongs == [], f"python tests/ordeal.py {seed}{' ' + url if url else ''}"
        n, deaths = n + 1, deaths + ordeal.deaths
        if time.monotonic() > until or url:
            break
    print(f"{n} ordeals, {deaths} deaths of the server")
    return n


@pytest.mark.slow
def test_nothing_is_lost_and_nothing_done_twice_whatever_fails() -> None:
    assert ordeals(None) >= 1


@pytest.mark.slow
@pytest.mark.parametrize("again", range(8))
def test_nor_on_postgresql(postgresql_url: str, again: int) -> None:
    assert ordeals(postgresql_url) == 1
