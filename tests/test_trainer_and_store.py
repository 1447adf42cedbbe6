"""A trainer whose store fills up, loses its network or its clock goes on or stops cleanly, and says which."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from hook_world import Clocks, beat, hook_of
from stores import s3_server
from tenure.checkpoints import ClockOff, Store, StoreFull, StoreUnavailable
from trainer_breaker import Told, broken_together, content

SEEDS = range(int(os.environ.get("TENURE_BREAKER_SEEDS", "25")))


@pytest.fixture
def quick_folder(tmp_path):
    """In memory where there is such a place: each file is written through to the disk otherwise."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        yield Path(name)


@pytest.mark.slow
def test_whatever_breaks_nothing_committed_is_lost_and_nothing_is_said_that_is_not_so(quick_folder):
    total = Told()
    for seed in SEEDS:
        folder = quick_folder / str(seed)
        folder.mkdir()
        try:
            told = broken_together(folder, seed)
        except AssertionError as wrong:
            raise AssertionError(f"TENURE_BREAKER_SEEDS: seed {seed}: {wrong}") from wrong
        total.lives += told.lives
        total.faults += told.faults
        total.saves += told.saves
        total.failed_saves += told.failed_saves
        total.pruned += told.pruned
    assert {"died", "drained", "drained-incomplete"} <= set(total.lives)
    assert len(total.faults) >= 8
    assert total.saves > 50
    assert total.failed_saves > 20
    assert total.pruned > 10


def saving_every_step(store: Store, hook, steps: range) -> Counter[bool]:
    came = Counter()
    for step in steps:
        hook.poll(step, step * 10)
        with hook.saving(step) as save, store.begin(step, 1) as saving:
            saving.add_bytes("w.bin", content(step) * 400)
            saving.commit(step * 10)
        came[save.committed] += 1
    return came


def test_training_goes_on_while_a_real_disk_is_full_and_saves_again_when_there_is_room(tmp_path):
    mounted = tmp_path / "small"
    mounted.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(mounted)], capture_output=True, check=False
    ).returncode:
        pytest.skip("a small disk can only be mounted by root")
    try:
        store = Store(str(mounted), "r")
        (tmp_path / "hook").mkdir()
        hook = hook_of(tmp_path / "hook", Clocks(), store_errors=(OSError, StoreUnavailable))
        came = saving_every_step(store, hook, range(1, 21))
        assert came[True] >= 5
        assert came[False] >= 5
        said = beat(tmp_path / "hook")
        assert said["failed_saves"] == came[False]
        assert "no room" in str(said["trouble"])
        newest = store.newest_verified(deep=True)
        assert newest.step == said["committed_step"] == came[True]
        assert len(store.found()) == came[True], "what failed takes no room"
        from tenure.checkpoints import Keep

        store.prune(Keep(last=1))
        assert saving_every_step(store, hook, range(21, 24)) == {True: 3}
        said = beat(tmp_path / "hook")
        assert said["failed_saves"] == 0
        assert "no room" not in str(said["trouble"])
        assert store.newest_verified(deep=True).step == 23
        assert hook.leave() == 0
    finally:
        subprocess.run(["umount", str(mounted)], check=True)


@pytest.mark.slow
def test_a_network_that_goes_and_does_not_come_back_ends_in_75_and_the_older_checkpoint(tmp_path):
    (tmp_path / "hook").mkdir()
    with s3_server() as options:
        quick = options | {"config_kwargs": {"connect_timeout": 1, "retries": {"max_attempts": 0}}}
        store = Store("s3://kept/gone", "r", quick)
        store.place.fs.retries = 1
        hook = hook_of(tmp_path / "hook", Clocks(), store_errors=(OSError, StoreUnavailable))
        assert saving_every_step(store, hook, range(1, 3)) == {True: 2}
    assert saving_every_step(store, hook, range(3, 5)) == {False: 2}
    said = beat(tmp_path / "hook")
    assert (said["step"], said["committed_step"]) == (4, 2)
    assert "could not" in str(said["trouble"])
    assert hook.leave() == 75
    assert beat(tmp_path / "hook")["state"] == "drained-incomplete"


@pytest.mark.parametrize("wrong", [StoreFull, ClockOff, StoreUnavailable])
def test_each_of_them_is_the_stores_fault_and_swallowed_as_one(wrong, tmp_path):
    hook = hook_of(tmp_path, Clocks(), store_errors=(OSError, StoreUnavailable))
    hook.poll(1, 10)
    with hook.saving(1) as save:
        raise wrong("as it says")
    assert not save.committed
    assert "as it says" in str(beat(tmp_path)["trouble"])
