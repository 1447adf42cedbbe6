"""One save answers all that asked for it: a window's own deadline, whoever carries the run, an engine."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from gangs import Gang
from hook_world import Clocks, beat, hook_of, put
from tenure.checkpoints.store import Store
from tenure.runs.hook import Hook as ControllersHook
from tenure.trainer import Hook, Place
from tenure.trainer.agreement import mark

STEP_S, SAVE_S = 1.0, 0.4


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


def stepped(hook: Hook, clocks: Clocks, first: int, last: int) -> list[int]:
    """Steps after which it saved (a drain ends it); each save takes SAVE_S."""
    saved = []
    for step in range(first, last + 1):
        clocks.pass_s(STEP_S)
        answer = hook.poll(step, step)
        if answer.saves:
            saved.append(step)
            with hook.saving(step):
                clocks.pass_s(SAVE_S)
        if answer.drains:
            break
    return saved


def window(folder: Path, began: float, until: float) -> None:
    put(folder, "window.json", attempt=1, checkpoint_at=began + 10, drain_at=began + 40, ends_at=until)


def near_the_end(folder: Path, began: float, until: float, which: str = "near") -> None:
    put(folder, "request.json", id=which, kind="checkpoint", deadline=began + 40, reason="the end is near",
        attempt=1, until=until)  # fmt: skip


@pytest.mark.parametrize("late_s", [0, 1, 3, 6], ids="asked {} s after the trainer's own deadline".format)
def test_the_windows_own_checkpoint_answers_the_controllers_request_for_it(
    tmp_path: Path, clocks: Clocks, late_s: int
) -> None:
    began, until = clocks.wall, clocks.wall + 60
    window(tmp_path, began, until)
    hook = hook_of(tmp_path, clocks)
    saved = stepped(hook, clocks, 1, 9 + late_s)
    near_the_end(tmp_path, began, until)
    saved += stepped(hook, clocks, 10 + late_s, 25)
    assert len(saved) == 1
    assert beat(tmp_path)["answered"] == "near"


def test_the_controllers_request_answers_the_own_deadline(tmp_path: Path, clocks: Clocks) -> None:
    """The controller believes in a slower save and asks earlier than the trainer would."""
    began, until = clocks.wall, clocks.wall + 60
    window(tmp_path, began, until)
    hook = hook_of(tmp_path, clocks)
    saved = stepped(hook, clocks, 1, 5)
    near_the_end(tmp_path, began, until)
    saved += stepped(hook, clocks, 6, 25)
    assert saved == [6]


def test_a_longer_window_is_saved_for_again(tmp_path: Path, clocks: Clocks) -> None:
    began, until = clocks.wall, clocks.wall + 60
    window(tmp_path, began, until)
    hook = hook_of(tmp_path, clocks)
    assert len(stepped(hook, clocks, 1, 15)) == 1
    window(tmp_path, clocks.wall, until + 60)
    near_the_end(tmp_path, clocks.wall, until + 60)
    assert len(stepped(hook, clocks, 16, 40)) == 1


def test_a_save_that_failed_answers_only_what_it_was_begun_for(tmp_path: Path, clocks: Clocks) -> None:
    """The other one is a second try, which is as good as any."""
    began, until = clocks.wall, clocks.wall + 60
    window(tmp_path, began, until)
    near_the_end(tmp_path, began, until)
    hook = hook_of(tmp_path, clocks)
    clocks.pass_s(STEP_S)
    assert hook.poll(1, 1).saves
    with hook.saving(1):
        raise OSError(28, "No space left on device")
    assert stepped(hook, clocks, 2, 25) == [10]


def test_what_is_asked_while_a_save_is_under_way_is_not_answered_by_it(
    tmp_path: Path, clocks: Clocks
) -> None:
    """Its steps are older than the request: nobody knows what was asked for."""
    hook = hook_of(tmp_path, clocks)
    clocks.pass_s(1)
    hook.poll(1, 1)
    with hook.saving(1):
        put(tmp_path, "request.json", id="now", kind="checkpoint", deadline=None, reason="an upgrade")
        clocks.pass_s(1)
    assert hook.poll(2, 2).saves


def test_a_save_that_nobody_asked_for_answers_what_was_asked_before_it(
    tmp_path: Path, clocks: Clocks
) -> None:
    hook = hook_of(tmp_path, clocks, every=10)
    put(tmp_path, "request.json", id="now", kind="checkpoint", deadline=None, reason="an upgrade")
    clocks.pass_s(1)
    hook.poll(9, 9)
    with hook.saving(9):
        clocks.pass_s(1)
    clocks.pass_s(1)
    assert not hook.poll(10, 10).saves
    assert beat(tmp_path)["answered"] == "now"


def test_a_drain_is_never_answered_by_a_save(tmp_path: Path, clocks: Clocks) -> None:
    hook = hook_of(tmp_path, clocks, every=10)
    put(tmp_path, "request.json", id="leave", kind="drain", deadline=None, reason="enough")
    clocks.pass_s(1)
    hook.poll(9, 9)
    with hook.saving(9):
        pass
    assert hook.poll(10, 10).drains


def test_a_notice_and_a_request_are_answered_by_one_save(tmp_path: Path, clocks: Clocks) -> None:
    hook = hook_of(tmp_path / "hook", clocks, env={"TENURE_NOTICE": str(tmp_path / "notice")})
    (tmp_path / "notice").write_text(f"{clocks.wall + 120:.0f}\n")
    put(tmp_path / "hook", "request.json", id="r", kind="checkpoint", deadline=None, reason="")
    assert len(stepped(hook, clocks, 1, 5)) == 1


def test_a_rank_that_hears_of_the_request_later_than_the_others_does_not_ask_for_another(
    tmp_path: Path, clocks: Clocks
) -> None:
    """The save was begun for another rank's request; this one's own deadline was due by then, too."""
    began, until = clocks.wall, clocks.wall + 60
    window(tmp_path, began, until)
    blind = hook_of(tmp_path, clocks, place=Place(1, 2, 1, 1))
    own = blind.agree
    blind.agree = lambda numbers: [1 << 48 | mark("near"), numbers[1]]
    clocks.pass_s(11)
    assert blind.poll(1, 1).reason == "another rank was asked"
    blind.agree = own
    with blind.saving(1):
        clocks.pass_s(SAVE_S)
    near_the_end(tmp_path, began, until)
    assert stepped(blind, clocks, 2, 15) == []


def test_what_the_controller_writes_is_dated_and_the_same_again_is_the_same(tmp_path: Path) -> None:
    clocks = Clocks()
    told = ControllersHook(tmp_path, lambda: clocks.wall)
    body = {"run": "r", "attempt": 1, "window": "w", "drain_at": None}
    told.tell_window(body)
    told.ask({"id": "c", "kind": "checkpoint", "deadline": None, "reason": ""})
    for name in ("window.json", "request.json"):
        assert json.loads((tmp_path / name).read_text())["written_at"] == clocks.wall
    clocks.pass_s(60)
    assert told.window() == body, "or a controller would write it anew at each look"
    request = told.request()
    assert request is not None
    assert request["id"] == "c"


def test_a_trainer_whose_clock_is_behind_is_led_by_the_controllers(tmp_path: Path, clocks: Clocks) -> None:
    ahead = clocks.wall + 300
    ControllersHook(tmp_path, lambda: ahead).tell_window({"attempt": 1, "drain_at": ahead, "ends_at": None})
    hook = hook_of(tmp_path, clocks)
    assert hook.poll(1, 1).drains
    assert any("behind the controller's" in line for line in hook.troubles)


@pytest.mark.slow
def test_a_gang_of_two_saves_once_for_its_own_deadline_and_the_controllers_request(tmp_path: Path) -> None:
    with Gang(tmp_path, 1, steps=100_000, pace=0.05) as gang:
        gang.until(lambda beats: len(beats) == 2 and min(beat["step"] for beat in beats.values()) >= 1)
        now = time.time()
        ends = now + 3600
        gang.put("window.json", run="example", attempt=1, window="w", checkpoint_at=now, drain_at=ends - 60,
                 ends_at=ends, margin_s=30)  # fmt: skip
        gang.until(lambda beats: all(beat["committed_step"] > 0 for beat in beats.values()))
        gang.put("request.json", id="near", kind="checkpoint", deadline=ends - 60, reason="the end is near",
                 attempt=1, until=ends)  # fmt: skip
        gang.until(lambda beats: {beat["answered"] for beat in beats.values()} == {"near"})
        gang.ask("drain", "leave")
        assert gang.wait() == [0, 0], gang.told()
        left = gang.beats()[0]["step"]
    saved = [one.step for one in Store(str(tmp_path / "store"), "example").checkpoints()]
    assert len(saved) == 2, "one for the end that is near, and that of the drain"
    assert saved[-1] == left
