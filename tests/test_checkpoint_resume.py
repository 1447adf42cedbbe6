"""What a run resumes from is read to the last byte first: what rotted at rest is passed over, and said."""

from __future__ import annotations

import logging

import pytest

from stores import save
from tenure.checkpoints import AlreadyCommitted, Fenced, NothingUsable, Store

SIZE = 1000


@pytest.fixture
def store(tmp_path):
    made = Store(str(tmp_path), "r")
    for step in (1, 2, 3):
        save(made, step, size=SIZE)
    return made


def rot(store: Store, step: int) -> None:
    """A byte of it turns, in place: its length stays."""
    path = store.place.root / f"ckpt/{step}-1/model/a.bin"
    data = bytearray(path.read_bytes())
    data[SIZE // 2] ^= 1
    path.write_bytes(data)


def test_a_shard_that_rotted_at_rest_is_not_resumed_from_and_it_is_said_loudly(store, caplog):
    rot(store, 3)
    with caplog.at_level(logging.INFO, "tenure.checkpoints"):
        found = store.resume(2)
    assert found.step == 2
    loud = [line.getMessage() for line in caplog.records if line.levelno >= logging.WARNING]
    assert len(loud) == 1
    assert "3-1 is not resumed from: model/a.bin is altered" in loud[0]
    assert "2-1 is taken" in loud[0]
    cost = [line.getMessage() for line in caplog.records if line.levelno == logging.INFO]
    assert f"{2 * (SIZE + 10):,} bytes" in cost[-1], "what the reading cost"
    with pytest.raises(Fenced):
        store.begin(4, 1)
    assert [one.step for one in store.checkpoints()] == [1, 2], "what nobody resumed from counts no more"


def test_who_will_not_wait_for_the_reading_turns_it_off(store, caplog):
    rot(store, 3)
    with caplog.at_level(logging.INFO, "tenure.checkpoints"):
        assert store.resume(2, deep=False).step == 3
    assert "sizes alone" in caplog.text


def test_where_all_are_rotten_it_does_not_begin_at_step_0(store):
    for step in (1, 2, 3):
        rot(store, step)
    with pytest.raises(NothingUsable):
        store.resume(2)
    assert store.resume(2, from_nothing=True) is None


def test_a_new_store_is_resumed_from_nothing_without_a_word(tmp_path, caplog):
    with caplog.at_level(logging.INFO, "tenure.checkpoints"):
        assert Store(str(tmp_path / "new"), "r").resume(1) is None
    assert caplog.records == []


def test_the_step_that_rotted_can_be_saved_again_by_the_attempt_that_saved_it(store):
    """A launcher that restarts its workers keeps the attempt's number."""
    rot(store, 3)
    assert store.resume(1).step == 2
    made = save(store, 3)
    assert made.name == "3-1.1"
    assert store.newest_verified(deep=True) == made
    with pytest.raises(AlreadyCommitted):
        save(store, 3)
