"""The record of a running lab is compacted once a day, and no figure changes by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from live_lab import LAB, Small
from tenure.core.words import Phase
from tenure.ledger.records import LedgerUnavailable
from tenure.service.audits import audit
from tenure.service.live.compacting import AGAIN_S, Compactor, kept_s
from tenure.service.live.desk import Desk
from tenure.settings.errors import BadInput
from tenure.settings.lab import lab_of

DAY = 86400


def desk_of(small: Small) -> Desk:
    return Desk(small.lab, small.ledger, small.daemon, small.engine, now=small.clock.now)


def measured(small: Small) -> dict[str, Any]:
    path = small.folder / "story.jsonl"
    path.write_text("".join(small.ledger.story_lines(None, small.t)))
    return audit(path).measures


@pytest.mark.slow
def test_what_is_older_than_is_kept_is_compacted_once_a_day(tmp_path: Path) -> None:
    small = Small(tmp_path, LAB | {"live": {"keep": "1d"}, "policy": {"lookback": "2d"}})
    desk = desk_of(small)
    assert kept_s(desk) == 2 * DAY
    compactor = Compactor(desk)
    done = []
    for day in range(4):
        small.submit("a", 16, min_runtime="1h")
        small.submit("b/x", 8)
        small.to((day + 1) * DAY - 600)
        before = measured(small)
        done.append(compactor.look())
        assert compactor.look() is None
        assert Compactor(desk).look() is None  # a server that starts anew knows of the last time
        assert measured(small) == before
        small.to((day + 1) * DAY)
    assert [one is not None and one.turns > 0 for one in done] == [False, False, True, True]
    first, newest = small.ledger.turn(2), small.ledger.turn(small.ledger.last_turn())
    assert first is not None
    assert newest is not None
    assert (first.patch is None, newest.patch is None) == (True, False)
    small.wake_up()
    small.settle()
    assert small.phase(small.submit("a", 8)) == Phase.RUNNING


def test_a_record_that_does_not_answer_is_compacted_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = Small(tmp_path)
    small.submit("a", 8)
    small.to(9 * DAY)
    compactor = Compactor(desk_of(small))

    def silent(before_t: int) -> None:
        raise LedgerUnavailable("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(small.ledger, "compact", silent)
        assert compactor.look() is None
    assert compactor.look() is None
    small.clock.set(small.clock.now() + AGAIN_S)
    assert compactor.look() is not None


def test_a_record_is_kept_for_a_day_at_least() -> None:
    with pytest.raises(BadInput, match="keep"):
        lab_of(LAB | {"live": {"keep": "1h"}})
