"""The hook by itself: one process, files, signals. In trouble: test_trainer_trouble.py; gangs: …_gangs.py."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hook_world import Clocks, beat, hook_of, put
from tenure.trainer import CHECKPOINT, CONTINUE, DRAIN, place_of
from tenure.trainer.signals import Signals


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture
def usual_signals() -> Iterator[None]:
    before = {which: signal.getsignal(which) for which in (signal.SIGTERM, signal.SIGUSR2)}
    yield
    for which, handler in before.items():
        signal.signal(which, handler)


def test_nothing_asked_is_go_on_and_the_heartbeat_says_how_far(tmp_path: Path, clocks: Clocks) -> None:
    hook = hook_of(tmp_path, clocks)
    for step in (1, 2, 3):
        clocks.pass_s(20)
        assert hook.poll(step, step * 100.0).do == CONTINUE
    told = beat(tmp_path)
    assert (told["step"], told["tokens"], told["step_s"], told["state"]) == (3, 300.0, 20.0, "train")
    assert told["at"] == clocks.wall
    assert told["spent_s"] == {"starting": 20.0, "train": 40.0}


def test_a_request_is_acted_on_once(tmp_path: Path, clocks: Clocks) -> None:
    hook = hook_of(tmp_path, clocks)
    put(tmp_path, "request.json", id="a", kind="checkpoint", deadline=clocks.wall + 60, reason="why not")
    answer = hook.poll(1, 1)
    assert (answer.do, answer.deadline, answer.request) == (CHECKPOINT, clocks.wall + 60, "a")
    assert hook.poll(2, 2).do == CONTINUE
    assert beat(tmp_path)["answered"] == "a"
    put(tmp_path, "request.json", id="b", kind="checkpoint", deadline=None, reason="again")
    assert hook.poll(3, 3).do == CHECKPOINT


def test_a_drain_that_saved_its_last_step_leaves_with_0_else_with_75(tmp_path: Path, clocks: Clocks) -> None:
    for saves, code, state in ((True, 0, "drained"), (False, 75, "drained-incomplete")):
        hook = hook_of(tmp_path / state, clocks)
        put(tmp_path / state, "request.json", id="d", kind="drain", deadline=None, reason="")
        answer = hook.poll(7, 700)
        assert answer.drains
        assert answer.saves
        if saves:
            with hook.saving(7, 700):
                clocks.pass_s(30)
        assert hook.poll(7, 700).drains, "a drain stays one"
        assert hook.leave() == code
        told = beat(tmp_path / state)
        assert told["state"] == state
        assert told["committed_step"] == (7 if saves else -1)
        assert told["save_p99_s"] == (30.0 if saves else 0.0)


def test_a_request_of_another_attempt_is_not_ours(tmp_path: Path, clocks: Clocks) -> None:
    hook = hook_of(tmp_path, clocks)
    put(tmp_path, "request.json", id="old", kind="drain", deadline=None, reason="", attempt=0)
    put(tmp_path, "window.json", attempt=0, drain_at=1.0, ends_at=2.0)
    assert hook.poll(1, 1).do == CONTINUE
    put(tmp_path, "request.json", id="ours", kind="drain", deadline=None, reason="", attempt=1)
    assert hook.poll(2, 2).do == DRAIN


def test_without_a_controller_the_window_itself_asks_for_the_save_and_the_drain(
    tmp_path: Path, clocks: Clocks
) -> None:
    began = clocks.wall
    put(
        tmp_path,
        "window.json",
        attempt=1,
        checkpoint_at=began + 100,
        drain_at=began + 200,
        ends_at=began + 300,
    )
    hook = hook_of(tmp_path, clocks)
    said = {}
    for step in range(1, 30):
        clocks.pass_s(10)
        answer = hook.poll(step, step)
        if answer.saves:
            said[answer.do] = clocks.wall - began
            assert answer.deadline == began + (300 if answer.drains else 200)
            with hook.saving(step):
                clocks.pass_s(5)
        if answer.drains:
            break
    assert said[CHECKPOINT] == 100
    assert 200 <= said[DRAIN] <= 210
    assert hook.leave() == 0


def test_the_controllers_own_ladder_leaves_room_for_its_checkpoint(tmp_path: Path, clocks: Clocks) -> None:
    """No save was measured yet: the trainer goes by the length that the controller's deadlines hold."""
    ends, save, step_s = clocks.wall + 2000, 120.0, 5.0
    put(tmp_path, "window.json", attempt=1, margin_s=60, ends_at=ends,
        checkpoint_at=ends - 60 - 2 * save, drain_at=ends - 60 - save - step_s)  # fmt: skip
    hook = hook_of(tmp_path, clocks)
    said = []
    for step in range(1, 1000):
        clocks.pass_s(step_s)
        answer = hook.poll(step, step)
        if answer.saves:
            said.append(answer.do)
            with hook.saving(step):
                clocks.pass_s(save)
        if answer.drains:
            break
    assert said == [CHECKPOINT, DRAIN]
    assert hook.leave() == 0
    assert clocks.wall <= ends - 60 + 2 * step_s, "two steps of the margin are used, once"


def test_slower_saves_pull_the_own_deadline_forward(tmp_path: Path, clocks: Clocks) -> None:
    """The controller's deadlines were worked out when a save took 20 s; it takes 90 s by now."""
    began = clocks.wall
    ends = began + 1000
    put(
        tmp_path,
        "window.json",
        attempt=1,
        checkpoint_at=ends - 80,
        drain_at=ends - 60,
        ends_at=ends,
        margin_s=30,
    )
    hook = hook_of(tmp_path, clocks)
    hook.poll(1, 1)
    with hook.saving(1):
        clocks.pass_s(90)
    said = {}
    for step in range(2, 200):
        clocks.pass_s(5)
        answer = hook.poll(step, step)
        if answer.saves:
            said.setdefault(answer.do, clocks.wall - began)
        if answer.drains:
            break
    assert said[CHECKPOINT] == 775, "two saves and three steps before the margin"
    assert said[DRAIN] == 875, "a save and a step before the margin"


def test_an_extension_moves_the_deadlines(tmp_path: Path, clocks: Clocks) -> None:
    began = clocks.wall
    put(tmp_path, "window.json", attempt=1, checkpoint_at=began + 10, drain_at=began + 50, ends_at=began + 60)
    hook = hook_of(tmp_path, clocks)
    clocks.pass_s(20)
    assert hook.poll(1, 1).do == CHECKPOINT
    put(
        tmp_path,
        "window.json",
        attempt=1,
        checkpoint_at=began + 910,
        drain_at=began + 950,
        ends_at=began + 960,
    )
    clocks.pass_s(100)
    assert hook.poll(2, 2).do == CONTINUE
    for step in range(3, 11):
        clocks.pass_s(10)
        assert hook.poll(step, step).do == CONTINUE
    put(
        tmp_path,
        "window.json",
        attempt=1,
        checkpoint_at=clocks.wall + 1,
        drain_at=began + 950,
        ends_at=began + 960,
    )
    clocks.pass_s(10)
    assert hook.poll(11, 3).do == CHECKPOINT, "of the longer window, asked anew"


@pytest.mark.parametrize("wrong", ["{", "[]", '{"id": 3, "kind": "drain"}', '{"id": "x", "kind": "explode"}'])
def test_a_wrong_request_is_said_and_not_obeyed(tmp_path: Path, clocks: Clocks, wrong: str) -> None:
    hook = hook_of(tmp_path, clocks)
    (tmp_path / "request.json").write_text(wrong)
    assert hook.poll(1, 1).do == CONTINUE
    if "kind" in wrong:
        assert "request.json" in " ".join(hook.troubles)


def test_a_torn_window_leaves_the_one_before_in_force(tmp_path: Path, clocks: Clocks) -> None:
    put(tmp_path, "window.json", attempt=1, drain_at=clocks.wall + 10, ends_at=clocks.wall + 20)
    hook = hook_of(tmp_path, clocks)
    (tmp_path / "window.json").write_text('{"attempt": 1, "dra')
    clocks.pass_s(10)
    assert hook.poll(1, 1).do == DRAIN


# --- who am I, signals ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "place"),
    [
        ({}, (0, 1, 0, 0, "alone")),
        ({"TENURE_JOB": "j", "TENURE_ATTEMPT": "3"}, (0, 1, 0, 3, "tenure")),
        ({"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "TENURE_RUN_ATTEMPT": "2",
          "TENURE_ATTEMPT": "9"},
         (5, 8, 1, 2, "torchrun")),
        ({"SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1", "SLURM_STEP_ID": "0",
          "SLURM_RESTART_COUNT": "4"}, (5, 8, 1, 4, "slurm")),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}, (0, 1, 0, 0, "alone")),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_STEP_ID": "0", "RANK": "3", "WORLD_SIZE": "4"},
         (3, 4, 0, 0, "torchrun")),
    ],
)  # fmt: skip
def test_it_knows_its_rank_from_whoever_started_it(env: dict[str, str], place: tuple[object, ...]) -> None:
    assert place_of(env)[:5] == place


def test_an_environment_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="which rank is this"):
        place_of({"RANK": "4", "WORLD_SIZE": "4"})
    with pytest.raises(ValueError, match="no whole number"):
        place_of({"RANK": "first"})


def test_signals_only_set_a_flag_and_forked_workers_ignore_them(
    tmp_path: Path, clocks: Clocks, usual_signals: None
) -> None:
    hook = hook_of(tmp_path, clocks, signals=Signals())
    worker = os.fork()
    if worker == 0:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.05)
        os._exit(7 if not hook.signals.heard else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]) == 7, "the worker lives on and hears nothing"
    assert hook.poll(1, 1).do == CONTINUE
    os.kill(os.getpid(), signal.SIGUSR2)
    answer = hook.poll(2, 2)
    assert (answer.do, answer.reason) == (DRAIN, "SIGUSR2 came")
    with hook.saving(2):
        pass
    assert hook.leave() == 0
    os.kill(os.getpid(), signal.SIGTERM)  # told again while it leaves: it still ends with 0
    again = hook_of(tmp_path / "again", clocks, signals=Signals())
    again.close()
    assert signal.getsignal(signal.SIGTERM) == hook.signals._hear


def test_slurms_own_end_is_a_window_until_somebody_says_more(tmp_path: Path, clocks: Clocks) -> None:
    env = {"SLURM_JOB_END_TIME": str(int(clocks.wall + 100))}
    hook = hook_of(tmp_path, clocks, env=env)
    clocks.pass_s(50)
    assert hook.poll(1, 1).do == CONTINUE
    clocks.pass_s(51)
    assert hook.poll(2, 2).do == DRAIN


def test_saved_and_done_are_touched_for_the_engine(tmp_path: Path, clocks: Clocks) -> None:
    env = {"TENURE_SAVED": str(tmp_path / "saved"), "TENURE_DONE": str(tmp_path / "done")}
    hook = hook_of(tmp_path / "hook", clocks, env=env)
    hook.poll(1, 1)
    assert not (tmp_path / "saved").exists()
    with hook.saving(1):
        pass
    assert (tmp_path / "saved").exists()
    assert hook.finish() == 0
    assert (tmp_path / "done").exists()
    assert beat(tmp_path / "hook")["state"] == "finished"


def test_a_notice_asks_for_one_save(tmp_path: Path, clocks: Clocks) -> None:
    hook = hook_of(tmp_path / "hook", clocks, env={"TENURE_NOTICE": str(tmp_path / "notice")})
    assert hook.poll(1, 1).do == CONTINUE
    (tmp_path / "notice").write_text(f"{clocks.wall + 120:.0f}\n")
    assert hook.poll(2, 2).do == CHECKPOINT
    assert hook.poll(3, 3).do == CONTINUE


def test_a_trainer_needs_nothing_but_the_standard_library() -> None:
    text = (
        "import sys; import tenure.trainer as t, tenure.trainer.torchrun\n"
        "h = t.Hook(None, env={}); h.poll(1, 1)\n"
        "known = set(sys.stdlib_module_names) | {'__main__', 'tenure'}\n"
        "outside = {m.split('.')[0] for m in sys.modules} - known\n"
        "own = {m for m in sys.modules if m.startswith('tenure.') and not m.startswith('tenure.trainer')};"
        "print(sorted(o for o in outside if not o.startswith('_')), sorted(own)); sys.exit(h.leave())"
    )
    ran = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=600)
    assert ran.stdout.strip() == "[] []", ran
    assert ran.returncode == 75


# --- further ----------------------------------------------------------------------------------------


def test_a_large_gang_agrees_every_tenth_step_only(tmp_path: Path, clocks: Clocks) -> None:
    agreed = []
    hook = hook_of(tmp_path, clocks, every=10, agree=lambda numbers: agreed.append(1) or list(numbers))
    put(tmp_path, "request.json", id="d", kind="drain", deadline=None, reason="")
    said = [hook.poll(step, step).do for step in range(1, 11)]
    assert said == [CONTINUE] * 9 + [DRAIN]
    assert len(agreed) == 1


def test_a_drain_that_takes_longer_than_its_deadline_says_so(tmp_path: Path, clocks: Clocks) -> None:
    hook = hook_of(tmp_path, clocks)
    put(tmp_path, "request.json", id="d", kind="drain", deadline=clocks.wall + 30, reason="")
    assert hook.poll(1, 1).drains
    with hook.saving(1):
        clocks.pass_s(31)
        hook.watcher.turn()
        assert any("deadline is over" in line for line in hook.troubles)
    assert hook.leave() == 0, "late, and whole"


def test_a_fault_of_the_hook_itself_ends_no_training(tmp_path: Path, clocks: Clocks) -> None:
    put(tmp_path, "window.json", attempt=1, drain_at=clocks.wall + 100, ends_at=clocks.wall + 200)
    hook = hook_of(tmp_path, clocks)

    def broken() -> dict[str, object]:
        raise RuntimeError("a fault")

    hook.watcher.body = broken
    assert hook.poll(1, 1).do == CONTINUE
    assert any("the hook itself failed" in line for line in hook.troubles)
    clocks.pass_s(100)
    assert hook.poll(2, 2).do == DRAIN


def test_a_checkpoint_that_would_hold_up_the_drain_is_not_begun(tmp_path: Path, clocks: Clocks) -> None:
    put(tmp_path, "window.json", attempt=1, drain_at=clocks.wall + 500, ends_at=clocks.wall + 600)
    hook = hook_of(tmp_path, clocks)
    hook.poll(1, 1)
    with hook.saving(1):
        clocks.pass_s(60)
    assert hook.room_for_save()
    clocks.pass_s(400)
    put(tmp_path, "request.json", id="c", kind="checkpoint", deadline=None, reason="")
    assert hook.poll(1, 1).do == CONTINUE, "40 s before the drain, a save takes 60"
    assert not hook.room_for_save()
    clocks.pass_s(40)
    assert hook.poll(1, 1).do == DRAIN
