"""The hook in trouble: its folder, its disk, its clock, its store. Else: test_trainer_hook.py."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hook_world import NO_SIGNALS, Clocks, beat, hook_of, put
from tenure.trainer import CHECKPOINT, CONTINUE, DRAIN, Hook, Place, SaveFailed, Times
from tenure.trainer.folder import Folder
from tenure.trainer.signals import Signals


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


def test_a_folder_that_goes_away_is_said_and_its_deadlines_hold(tmp_path: Path, clocks: Clocks) -> None:
    folder = tmp_path / "hook"
    folder.mkdir()
    put(folder, "window.json", attempt=1, drain_at=clocks.wall + 100, ends_at=clocks.wall + 200)
    hook = hook_of(folder, clocks)
    folder.rename(tmp_path / "elsewhere")
    clocks.pass_s(50)
    assert hook.poll(1, 1).do == CONTINUE
    assert any("cannot be read" in line and "deadlines known before hold" in line for line in hook.troubles)
    clocks.pass_s(50)
    assert hook.poll(2, 2).do == DRAIN
    (tmp_path / "elsewhere").rename(folder)
    hook.watcher.turn()
    assert not any("cannot be read" in line for line in hook.troubles), "what is over is no trouble any more"


def test_a_folder_that_never_was_there_says_that_no_deadline_is_known(tmp_path: Path, clocks: Clocks) -> None:
    (tmp_path / "file").write_text("")
    hook = hook_of(tmp_path / "file" / "hook", clocks)
    assert hook.poll(1, 1).do == CONTINUE
    assert any("no deadline is known" in line for line in hook.troubles)
    assert hook.leave() == 75


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", place], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no file system of its own can be mounted here")
    yield place
    subprocess.run(["umount", "-l", place], check=False)


def test_on_a_full_disk_training_goes_on_and_the_newest_heartbeat_still_tells(
    small_disk: Path, clocks: Clocks
) -> None:
    hook = hook_of(small_disk, clocks)
    hook.poll(1, 1)
    with (small_disk / "filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
        while filler.write(b"x" * 4096):
            pass
    for step in range(2, 40):
        clocks.pass_s(61)
        assert hook.poll(step, step).do == CONTINUE
    assert beat(small_disk)["step"] >= 38, "written over the room it has"
    assert any("is full" in line and "training goes on" in line for line in hook.troubles)
    (small_disk / "filler").unlink()
    clocks.pass_s(61)
    hook.poll(40, 40)
    assert hook.troubles == ()
    lines = (small_disk / "heartbeats-0.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["step"] == 40


@pytest.mark.slow
def test_a_folder_that_hangs_holds_up_no_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs = threading.Event()
    real = Folder.read

    def read(self: Folder, name: str) -> object:
        if threading.current_thread() is not threading.main_thread():
            hangs.wait(600)
        return real(self, name)

    times = Times(look_s=0.01, silent_s=0.2, last_s=0.1)
    put(tmp_path, "window.json", attempt=1, drain_at=time.time() + 1.0, ends_at=time.time() + 600)
    hook = Hook(tmp_path, Place(attempt=1), times=times, signals=Signals(NO_SIGNALS), env={})
    monkeypatch.setattr(Folder, "read", read)
    began, longest, answers = time.monotonic(), 0.0, []
    time.sleep(0.05)
    while time.monotonic() - began < 120 and not (answers and answers[-1].drains):
        before = time.monotonic()
        answers.append(hook.poll(len(answers) + 1, 1.0))
        longest = max(longest, time.monotonic() - before)
        time.sleep(0.01)
    assert answers[-1].drains, "by the deadline known before"
    assert any("has not answered" in line and "training goes on" in line for line in hook.troubles)
    assert longest < 60, "it waits for no answer"
    assert hook.leave() == 75
    hangs.set()


@pytest.mark.parametrize("jump", [-3600.0, 3600.0])
def test_a_clock_that_is_set_never_makes_it_late(tmp_path: Path, clocks: Clocks, jump: float) -> None:
    put(tmp_path, "window.json", attempt=1, drain_at=clocks.wall + 600, ends_at=clocks.wall + 700)
    hook = hook_of(tmp_path, clocks)
    clocks.pass_s(100)
    assert hook.poll(1, 1).do == CONTINUE
    clocks.wall += jump
    answer = hook.poll(2, 2)
    assert answer.do == (DRAIN if jump > 0 else CONTINUE)
    assert any("the clock was set" in line for line in hook.troubles)
    assert abs(float(beat(tmp_path)["clock_jumped_s"]) - jump) < 1 or jump < 0
    clocks.pass_s(500)
    assert hook.poll(3, 3).do == DRAIN, "600 s have passed, whatever the clock shows"


def test_a_clock_behind_the_controllers_is_led_by_it(tmp_path: Path, clocks: Clocks) -> None:
    truth = clocks.wall + 300
    put(tmp_path, "window.json", attempt=1, drain_at=truth + 60, ends_at=truth + 90, written_at=truth)
    hook = hook_of(tmp_path, clocks)
    assert any("behind the controller's" in line for line in hook.troubles)
    clocks.pass_s(60)
    assert hook.poll(1, 1).do == DRAIN


def test_a_save_that_the_store_refuses_is_said_and_training_goes_on(tmp_path: Path, clocks: Clocks) -> None:
    hook = hook_of(tmp_path, clocks)
    hook.poll(1, 1)
    with hook.saving(1) as good:
        pass
    assert good.committed
    hook.poll(2, 2)
    with hook.saving(2) as saving:
        raise OSError(28, "No space left on device")
    assert not saving.committed
    assert any("training goes on" in line and "newest is of step 1" in line for line in hook.troubles)
    hook.poll(3, 3)
    with hook.saving(3):
        pass
    assert hook.troubles == ()
    hook.poll(4, 4)
    with pytest.raises(ZeroDivisionError), hook.saving(4):
        raise ZeroDivisionError
    assert any("training stops" in line for line in hook.troubles)


def test_a_save_that_fails_elsewhere_is_not_committed_here(tmp_path: Path, clocks: Clocks) -> None:
    worst = 1
    hook = hook_of(tmp_path, clocks, agree=lambda numbers: [max(numbers[0], worst), numbers[1]])
    with hook.saving(1) as saving:
        pass
    assert not saving.committed
    assert hook.progress.committed_step == -1
    worst = 2
    with pytest.raises(SaveFailed), hook.saving(2):
        pass


def test_a_save_that_goes_on_behind_counts_when_it_is_durable(tmp_path: Path, clocks: Clocks) -> None:
    hook = hook_of(tmp_path, clocks)
    hook.poll(1, 10)
    with hook.saving(1, 10) as saving:
        saving.later = True
    assert hook.progress.committed_step == -1
    clocks.pass_s(40)
    hook.poll(2, 20)
    hook.committed(1, 10)
    assert (hook.progress.committed_step, hook.progress.committed_tokens) == (1, 10.0)
    assert hook.progress.saves.quantile(0.99) == 40.0


def test_ranks_that_see_a_request_at_different_times_save_once(tmp_path: Path, clocks: Clocks) -> None:
    seen = hook_of(tmp_path, clocks)
    put(tmp_path, "request.json", id="r", kind="checkpoint", deadline=None, reason="")
    agreed: list[list[int]] = []

    def first(numbers: list[int]) -> list[int]:
        agreed.append(list(numbers))
        return list(numbers)

    seen.agree = first
    assert seen.poll(1, 1).do == CHECKPOINT
    (tmp_path / "request.json").rename(tmp_path / "later")
    blind = hook_of(tmp_path, clocks, place=Place(1, 2, 1, 1), agree=lambda numbers: agreed[0])
    assert blind.poll(1, 1)[:3] == (CHECKPOINT, None, "another rank was asked")
    (tmp_path / "later").rename(tmp_path / "request.json")
    blind.agree = lambda numbers: numbers
    assert blind.poll(2, 2).do == CONTINUE, "it is the one that was acted on already"
    assert blind.progress.answered == "r"
