"""Death at every step of saving, committing, copying and pruning: what was good before stays good."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stores import KINDS, Dead, Mortal, again, dies_at_every_step, open_new, s3_server, save
from tenure.checkpoints import AlreadyCommitted, Keep, NothingUsable, Store, StoreFull


@pytest.fixture(scope="module")
def s3():
    with s3_server() as options:
        yield options


def sound(store: Store) -> list[int]:
    """Steps of all checkpoints; each must verify to the byte."""
    steps = []
    for one in store.checkpoints():
        assert store.verify(one, deep=True) == []
        steps.append(one.step)
    return steps


@pytest.mark.parametrize("kind", KINDS)
def test_a_save_that_dies_anywhere_leaves_the_older_one_to_resume_from(kind, tmp_path, s3):
    store = open_new(kind, tmp_path, s3)
    first = save(store, 1)

    def act(mortal):
        try:
            save(mortal, 2)
        except AlreadyCommitted:
            pass  # it died after its commit

    def look():
        newest = again(store, s3).newest_verified(deep=True)
        assert newest is not None
        assert newest == first or newest.step == 2
        assert set(sound(store)) in ({1}, {1, 2})

    deaths = dies_at_every_step(store, act, look)
    assert deaths >= 8
    assert again(store, s3).newest_verified(deep=True).step == 2


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_save_that_dies_is_told_of_and_never_taken_for_a_new_run(kind, tmp_path, s3):
    seen = set()
    for at in range(1, 12):
        store = open_new(kind, tmp_path, s3)
        assert store.newest_verified() is None  # nothing was ever saved
        place = store.place
        store.place = Mortal(place, at, after=True)
        try:
            save(store, 1)
            died = False
        except Dead:
            died = True
        store.place = place
        try:
            newest = again(store, s3).newest_verified(deep=True)
            seen.add("nothing" if newest is None else "whole")
        except NothingUsable:
            seen.add("refused")
        if not died:
            break
    assert seen >= {"refused", "whole"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_that_dies_anywhere_goes_on_where_it_was_and_leaves_both_stores_sound(kind, tmp_path, s3):
    here, there = open_new(kind, tmp_path, s3), open_new("folder", tmp_path, s3)
    save(there, 1)
    source = save(here, 7)

    def look():
        assert set(sound(there)) in ({1}, {1, 7})
        assert again(there, s3).newest_verified(deep=True) is not None
        assert sound(here) == [7]

    deaths = dies_at_every_step(there, lambda mortal: here.copy(source, mortal), look)
    assert deaths >= 5
    assert again(there, s3).newest_verified(deep=True) == source
    assert there.manifest(source) == here.manifest(source)


@pytest.mark.parametrize("kind", KINDS)
def test_pruning_that_dies_anywhere_never_takes_the_newest_and_is_ended_by_the_next(kind, tmp_path, s3):
    store = open_new(kind, tmp_path, s3)
    for step in range(1, 5):
        save(store, step, final=step == 2)

    def look():
        steps = sound(store)
        assert steps[-1] == 4
        assert 2 in steps
        assert again(store, s3).newest_verified(deep=True).step == 4

    deaths = dies_at_every_step(store, lambda mortal: mortal.prune(Keep(last=1)), look)
    assert deaths >= 8
    assert sound(store) == [2, 4]
    left = {path.split("/")[1] for path in store.place.files("ckpt")}
    assert left == {"2-1", "4-1"}, "nothing half pruned is left"


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_attempt_that_dies_while_it_takes_over_takes_over_the_second_time(kind, tmp_path, s3):
    store = open_new(kind, tmp_path, s3)
    first = save(store, 3)
    dies_at_every_step(
        store, lambda mortal: mortal.take_over(2, first), lambda: again(store, s3).newest_verified(deep=True)
    )
    assert save(store, 4, attempt=2).step == 4


def test_a_disk_that_is_full_at_any_step_is_told_of_and_costs_no_older_checkpoint(tmp_path):
    store = open_new("folder", tmp_path, None)
    save(store, 1)
    place, refused = store.place, 0
    for at in range(1, 12):
        store.place = Mortal(place, at, after=False, wrong=StoreFull("no room to write"))
        try:
            save(store, 2)
            break
        except StoreFull:
            refused += 1
        except AlreadyCommitted:
            break
        finally:
            store.place = place
        assert sound(store) == [1]
    assert refused >= 4
    assert sound(store) == [1, 2]


SAVER = """
import sys
from tenure.checkpoints import Keep, Store
store = Store(sys.argv[1], "r")
newest = store.newest_verified(deep=True)
attempt = int(sys.argv[2])
store.take_over(attempt, newest)
step = 0 if newest is None else newest.step
print("begun", flush=True)
while True:
    step += 1
    saving = store.begin(step, attempt)
    for part in range(4):
        saving.add_bytes(f"{part}.bin", bytes([step % 251]) * 200_000)
    saving.commit(step * 100)
    store.prune(Keep(last=2, grace_s=0.0))
"""


def test_a_trainer_killed_again_and_again_resumes_from_what_verifies(tmp_path):
    """Real processes and SIGKILL: no step is lost that was committed, but for the pruned ones."""
    last = 0
    for attempt in range(1, 13):
        process = subprocess.Popen(
            [sys.executable, "-c", SAVER, str(tmp_path), str(attempt)],
            stdout=subprocess.PIPE,
            env=os.environ | {"TENURE_PLAIN": "1"},
        )
        try:
            assert process.stdout.readline() == b"begun\n"
            time.sleep(0.05 + 0.037 * attempt)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
            process.stdout.close()
        store = Store(str(tmp_path), "r")
        newest = store.newest_verified(deep=True) if any(Path(tmp_path).rglob("MANIFEST.json")) else None
        if newest is not None:
            assert newest.step >= last
            last = newest.step
    assert last >= 5
