"""Death at every step of saving, committing, copying and pruning: what was good before stays good."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stores import Mortal, again, at_every_point, open_new, s3_server, save
from tenure.checkpoints import AlreadyCommitted, Fenced, Keep, NothingUsable, Store, StoreFull


@pytest.fixture(scope="module")
def s3():
    with s3_server() as options:
        yield options


BOTH = ["folder", pytest.param("s3", marks=pytest.mark.slow)]  # some hundred requests for each place to die


def sound(store: Store) -> list[int]:
    """Steps of all checkpoints; each must verify to the byte."""
    steps = []
    for one in store.checkpoints():
        assert store.verify(one, deep=True) == []
        steps.append(one.step)
    return steps


def saved_all_the_same(store: Store, step: int, **told: object) -> None:
    """A save, by somebody who is content where it is committed already."""
    with contextlib.suppress(AlreadyCommitted):
        save(store, step, **told)


@pytest.mark.slow
@pytest.mark.parametrize("kind", BOTH)
def test_a_save_that_dies_anywhere_leaves_the_older_one_to_resume_from(kind, tmp_path, s3):
    def make():
        store = open_new(kind, tmp_path, s3)
        save(store, 1)
        return store

    def look(store):
        newest = again(store, s3).newest_verified(deep=True)
        steps = sound(store)
        assert steps in ([1], [1, 2])
        assert newest is not None
        assert newest.step == steps[-1]

    deaths = at_every_point(make, lambda store: saved_all_the_same(store, 2), look)
    assert deaths >= 16


@pytest.mark.parametrize("kind", BOTH)
def test_a_first_save_cut_off_is_begun_anew_and_one_that_was_whole_is_never_passed_over(kind, tmp_path, s3):
    seen = []

    def look(store):
        try:
            newest = again(store, s3).newest_verified(deep=True)
            seen.append("nothing" if newest is None else "whole")
        except NothingUsable:
            seen.append("refused")

    deaths = at_every_point(
        lambda: open_new(kind, tmp_path, s3), lambda store: saved_all_the_same(store, 1), look
    )
    after_death, after_a_second_try = seen[:-1:2], seen[1::2]
    assert deaths == len(after_death) >= 16
    assert set(after_a_second_try) == {"whole"}
    assert sorted(set(after_death)) == ["nothing", "refused", "whole"]
    assert after_death == sorted(after_death, key=["nothing", "refused", "whole"].index)


@pytest.mark.parametrize("kind", BOTH)
def test_a_copy_that_dies_anywhere_goes_on_where_it_was_and_leaves_both_stores_sound(kind, tmp_path, s3):
    here = open_new("folder", tmp_path, s3)
    source = save(here, 7)
    moved = []

    def make():
        there = open_new(kind, tmp_path, s3)
        save(there, 1)
        return there

    def act(there):
        moved.append(0)
        assert here.copy(source, there) == source

    def look(there):
        assert sound(there) in ([1], [1, 7])
        assert again(there, s3).newest_verified(deep=True) is not None
        assert sound(here) == [7]
        assert len({path.split("/")[1] for path in there.place.files("ckpt") if "/7-" in path}) <= 1

    deaths = at_every_point(make, act, look)
    assert deaths >= 12


@pytest.mark.slow
@pytest.mark.parametrize("kind", BOTH)
def test_pruning_that_dies_anywhere_never_takes_the_newest_and_is_ended_by_the_next(kind, tmp_path, s3):
    def make():
        store = open_new(kind, tmp_path, s3)
        for step in (1, 2, 3) if kind == "folder" else (2, 3):
            save(store, step, final=step == 2 and kind == "folder")
        return store

    def look(store):
        steps = sound(store)
        assert steps[-1] == 3
        assert 2 in steps or kind == "s3"
        assert again(store, s3).newest_verified(deep=True).step == 3

    def act(store):
        store.prune(Keep(last=1))
        left = {path.split("/")[1] for path in store.place.files("ckpt")}
        kept = {"2-1", "3-1"} if kind == "folder" else {"3-1"}
        assert left == kept, "nothing half pruned is left"

    deaths = at_every_point(make, act, look)
    assert deaths >= 16


@pytest.mark.parametrize("kind", BOTH)
def test_a_new_attempt_that_dies_while_it_takes_over_takes_over_the_second_time(kind, tmp_path, s3):
    def make():
        store = open_new(kind, tmp_path, s3)
        save(store, 3)
        return store

    def act(store):
        store.take_over(2, store.newest_verified())
        with pytest.raises(Fenced):
            store.begin(4, 1)

    deaths = at_every_point(make, act, lambda store: sound(store) == [3])
    assert deaths >= 1


def test_a_disk_that_is_full_at_any_step_is_told_of_and_costs_no_older_checkpoint(tmp_path):
    def make():
        store = open_new("folder", tmp_path, None)
        save(store, 1)
        return store

    def act(store):
        with contextlib.suppress(AlreadyCommitted), store.begin(2, 1) as saving:
            saving.add_bytes("model/a.bin", b"x" * 1000)
            saving.commit(200)

    def look(store):
        assert sound(store) in ([1], [1, 2])

    class Full(StoreFull):
        """As a disk says it."""

    deaths = at_every_point(make, act, look, Full)
    assert deaths >= 8


def test_a_save_that_found_no_room_takes_away_what_it_wrote(tmp_path):
    store = open_new("folder", tmp_path, None)
    save(store, 1)
    before = store.place.files("")
    place = store.place
    store.place = Mortal(place, 8, StoreFull("no room"))

    def saved() -> None:
        with store.begin(2, 1) as saving:
            for name in ("a.bin", "b.bin", "c.bin"):
                saving.add_bytes(name, b"x" * 1000)

    with pytest.raises(StoreFull):
        saved()
    store.place = place
    assert store.place.files("") == before


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


def _past(last: int, name: str) -> bool:
    return name.isdigit() and int(name) > last  # not one half of which is there


@pytest.mark.slow
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
            if attempt > 4:  # the first are killed however far they came; these went on from what was there
                while not any(_past(last, path.name) for path in Path(tmp_path).rglob("COMMITTED/*")):
                    assert process.poll() is None
                    time.sleep(0.01)
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
