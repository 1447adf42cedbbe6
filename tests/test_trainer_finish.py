"""A run that has done all its steps ends with a verified checkpoint of the last, or says it has none."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from gangs import Gang
from hook_world import Clocks, beat, hook_of
from tenure.checkpoints.store import Store
from tenure.trainer.torch_loop import run

JOBS = Path(__file__).parent / "trainers"


@pytest.mark.parametrize(("save_every", "saved"), [(0, [7]), (3, [3, 6, 7]), (7, [7]), (100, [7])])
def test_the_last_step_is_saved_once_whatever_save_every_is(
    tmp_path: Path, save_every: int, saved: list[int]
) -> None:
    env = {"TENURE_DONE": str(tmp_path / "done")}
    hook, came = hook_of(tmp_path / "hook", Clocks(), env=env), []
    code = run(
        hook, range(1, 8), lambda step: None, lambda step, tokens: came.append(step), float, save_every
    )
    assert (code, came) == (0, saved)
    assert beat(tmp_path / "hook")["committed_step"] == 7
    assert beat(tmp_path / "hook")["state"] == "finished"
    assert (tmp_path / "done").exists()


def test_a_last_save_is_tried_again_and_one_that_never_came_is_no_finished_run(tmp_path: Path) -> None:
    env = {"TENURE_DONE": str(tmp_path / "done")}

    def ended(fails: int, folder: Path) -> tuple[int, list[int]]:
        came: list[int] = []

        def save(step: int, tokens: float) -> None:
            came.append(step)
            if len(came) <= fails:
                raise OSError(28, "No space left on device")

        return run(hook_of(folder, Clocks(), env=env), range(1, 8), lambda step: None, save, float), came

    assert ended(9, tmp_path / "never") == (75, [7, 7, 7])
    assert beat(tmp_path / "never")["state"] == "drained-incomplete"
    assert not (tmp_path / "done").exists(), "whoever started it must not take it for done"
    assert ended(2, tmp_path / "third") == (0, [7, 7, 7])
    assert (tmp_path / "done").exists()


def test_one_that_has_nothing_left_to_do_saves_nothing(tmp_path: Path) -> None:
    came: list[int] = []
    hook = hook_of(tmp_path, Clocks())
    assert run(hook, range(8, 8), lambda step: None, lambda step, tokens: came.append(step), float) == 0
    assert came == []


@pytest.mark.slow
def test_a_gang_of_two_ends_with_a_verified_checkpoint_of_its_last_step(tmp_path: Path) -> None:
    with Gang(tmp_path, 1, steps=7, save_every=3) as gang:
        assert gang.wait() == [0, 0], gang.told()
        beats = gang.beats()
    assert {(one["state"], one["committed_step"]) for one in beats.values()} == {("finished", 7)}
    store = Store(str(tmp_path / "store"), "example")
    assert [one.step for one in store.checkpoints()] == [3, 6, 7]
    newest = store.newest_verified(deep=True)
    assert newest is not None
    assert newest.step == 7


def needs(*libraries: str) -> None:
    for library in libraries:
        if importlib.util.find_spec(library) is None:
            pytest.skip(f"{library} is not installed")


@pytest.mark.slow
def test_lightnings_last_step_is_kept_though_nobody_asked_for_any_save(tmp_path: Path) -> None:
    needs("torch", "lightning")
    with Gang(tmp_path, 1, steps=7, job=JOBS / "lightning_gang_job.py") as gang:
        assert gang.wait() == [0, 0], gang.told()
        beats = gang.beats()
    assert {(one["state"], one["committed_step"]) for one in beats.values()} == {("finished", 7)}
    assert [path.name for path in (tmp_path / "store").glob("*.ckpt")] == ["step-7.ckpt"]


@pytest.mark.slow
def test_two_ranks_of_hugging_face_drained_and_resumed_learn_the_same_bit_for_bit(tmp_path: Path) -> None:
    needs("torch", "transformers", "accelerate")
    job = JOBS / "transformers_gang_job.py"
    with Gang(tmp_path / "whole", 1, steps=12, by="torchrun", job=job) as gang:
        assert set(gang.wait()) == {0}, gang.told()
        beats = gang.beats()
        whole = gang.losses()
    assert len(whole) == 12
    assert {(one["state"], one["committed_step"]) for one in beats.values()} == {("finished", 12)}

    odd = {"TEST_SIGNAL_STEP": 5}
    with Gang(tmp_path, 1, steps=12, by="torchrun", job=job, odd=odd) as gang:
        assert set(gang.wait()) == {0}, gang.told()
        beats = gang.beats()
    assert {(one["state"], one["committed_step"]) for one in beats.values()} == {("drained", 5)}
    with Gang(tmp_path, 2, steps=12, by="torchrun", job=job) as gang:
        assert set(gang.wait()) == {0}, gang.told()
        assert min(gang.losses_of(2)) == 6
        assert gang.losses() == whole
    store = Store(str(tmp_path / "store"), "example")
    assert [one.step for one in store.checkpoints()] == [5, 12]
    assert all(store.verify(one, deep=True) == [] for one in store.checkpoints())
