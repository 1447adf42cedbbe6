"""What people have complained of in how checkpoints are kept, each held by a test."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from stores import KINDS, again, open_new, s3_server, save
from tenure.checkpoints import AlreadyCommitted, Keep, NothingUsable, Store


@pytest.fixture(scope="module")
def s3():
    with s3_server() as options:
        yield options


@pytest.fixture(params=KINDS)
def store(request, tmp_path, s3):
    return open_new(request.param, tmp_path, s3)


ASYNC_SAVER = """
import pathlib, sys, time
import torch
from tenure.checkpoints import Store
from tenure.checkpoints.adapters import torch_distributed as dcp
url, scratch, mark = sys.argv[1:]
store = Store(url, "r")
dcp.save(store, 1, 1, {"w": torch.full((1000,), 1.0)}, 100, scratch=scratch)
really = store.place.stream
def slow(path, chunks):
    pathlib.Path(mark).touch()
    time.sleep(600)  # staged, and on its way to a store that takes long
store.place.stream = slow
future = dcp.save_async(store, 2, 1, {"w": torch.full((1000,), 2.0)}, 200, scratch=scratch)
print("async_save returned", flush=True)
future.result()
"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")
def test_25_latest_moves_only_when_an_asynchronous_save_is_durable(tmp_path):
    """KempnerForge#102: `latest` advanced before an async save was durable; clean-up took the good one."""
    torch = pytest.importorskip("torch")
    from tenure.checkpoints.adapters import torch_distributed as dcp

    url, mark = str(tmp_path / "store"), tmp_path / "staged"
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", ASYNC_SAVER, url, str(tmp_path / "scratch"), str(mark)],
        stdout=subprocess.PIPE,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    store = Store(url, "r")

    def the_old_one_is_there_and_loads() -> None:
        newest = store.newest_verified(deep=True)
        assert newest is not None
        assert newest.step == 1
        assert b'"step": 1' in store.place.read("LATEST")
        state = {"w": torch.zeros(1000)}
        dcp.load(store, newest, state, scratch=str(tmp_path / "load"))
        assert float(state["w"].sum()) == 1000.0
        assert dcp.check(store, newest, scratch=str(tmp_path / "check")) == []

    try:
        assert process.stdout.readline() == b"async_save returned\n"
        until = time.monotonic() + 300
        while not mark.exists() and time.monotonic() < until:
            time.sleep(0.05)
        assert mark.exists()
        the_old_one_is_there_and_loads()
        store.prune(Keep(last=1))
        the_old_one_is_there_and_loads()
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    the_old_one_is_there_and_loads()
    store.prune(Keep(last=1, grace_s=-1))
    the_old_one_is_there_and_loads()
    assert [one.name for one in store.found()] == ["1-1"], "what was cut off is away, the good one is not"


@pytest.mark.slow
def test_26_a_last_checkpoint_that_is_incomplete_is_passed_over_for_the_one_before(store, tmp_path):
    """transformers#35782, #35525: the last checkpoint is incomplete and the resume fails."""
    folder = tmp_path / "checkpoint-1"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"weights" * 1000)
    (folder / "trainer_state.json").write_text("{}")
    for step in (1, 2, 3):
        saving = store.begin(step, 1)
        saving.add_directory(folder)
        if step < 3:
            saving.commit(step * 100)
    damaged = store.checkpoints()[-1]
    store.place.write(f"{damaged.path}/model.safetensors", b"weights" * 999)
    newest = store.newest_verified()
    assert newest is not None
    assert newest.step == 1, "3 was cut off, 2 is cut short"
    store.download(newest, str(tmp_path / "resumed"))
    assert (tmp_path / "resumed" / "model.safetensors").read_bytes() == b"weights" * 1000
    again_saved = save(store, 2)
    assert store.newest_verified(deep=True) == again_saved, "the damaged step can be saved again"


@pytest.mark.slow
def test_27_a_store_that_is_not_empty_is_never_begun_at_step_0_without_a_word(store, s3):
    """verl#7952: the tracker was never written, and the run restarted silently at step 0."""
    assert store.newest_verified() is None
    made = save(store, 50)
    store.place.delete(["LATEST"])
    assert again(store, s3).newest_verified() == made, "LATEST is a hint: nothing rests on it"
    store.place.delete(["COMMITTED/50"])
    with pytest.raises(NothingUsable, match="must be said"):
        again(store, s3).newest_verified()
    assert again(store, s3).newest_verified(from_nothing=True) is None, "a person may say so"
    store.adopt(50, 1)
    assert again(store, s3).newest_verified() == made, "or say that it is one"


def test_28_a_copy_is_a_checkpoint_and_one_by_other_means_is_never_deleted(tmp_path):
    """orbax#394: a copied checkpoint lacks its commit file and is deleted as temporary."""
    store, other = Store(str(tmp_path / "a"), "r"), Store(str(tmp_path / "b"), "r")
    made = save(store, 10)
    shutil.copytree(tmp_path / "a/run/r/ckpt/10-1", tmp_path / "b/run/r/ckpt/10-1")  # cp, rsync, rclone …
    shutil.copytree(tmp_path / "a/run/r/ckpt/10-1", tmp_path / "b/run/r/ckpt/5-1")
    os.unlink(tmp_path / "b/run/r/ckpt/5-1/MANIFEST.json")  # … cut off
    save(other, 20)
    for _ in range(2):
        other.prune(Keep(last=1, grace_s=-1))
    assert {one.name: one.state for one in other.found()} == {
        "5-1": "partial",
        "10-1": "whole",
        "20-1": "committed",
    }
    assert other.adopt(10, 1) == made
    assert [one.step for one in other.checkpoints() if not other.verify(one, deep=True)] == [10, 20]

    third = Store(str(tmp_path / "c"), "r")
    assert store.copy(made, third) == made
    third.prune(Keep(last=1, grace_s=-1))
    assert third.newest_verified(deep=True) == made, "our own copy is one, and stays"
    with contextlib.suppress(AlreadyCommitted):
        store.copy(made, third)
    assert third.newest_verified(deep=True) == made
