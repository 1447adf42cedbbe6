"""What people complain of about trainers told to leave: each complaint, and that it does not happen."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gangs import Gang, needs_torch
from hook_world import NO_SIGNALS, Clocks, beat, hook_of, put
from tenure.checkpoints.store import Store
from tenure.trainer import DRAIN, Hook, Place, Times
from tenure.trainer.signals import Signals

TESTS = Path(__file__).parent


def newest_step(folder: Path) -> int:
    found = Store(str(folder / "store"), "example").newest_verified(deep=True)
    return -1 if found is None else found.step


def all_stepped(beats: dict[int, dict[str, object]], world: int, step: int = 2) -> bool:
    return len(beats) == world and all(int(str(beat["step"])) >= step for beat in beats.values())


# --- 21 ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_21_a_save_of_90_s_survives_a_sigterm_to_the_launcher(tmp_path: Path) -> None:
    """pytorch#119856, #68258, #192815: workers are killed 30 s after SIGTERM, in the middle of their save."""
    odd = {"TEST_SAVE_S": 90}
    with Gang(tmp_path, 1, steps=100_000, by="tenure", pace=0.05, odd=odd) as gang:
        gang.until(lambda beats: all_stepped(beats, 2))
        began = time.monotonic()
        gang.processes[0].send_signal(signal.SIGTERM)
        assert gang.wait(600) == [0], gang.told()
        assert time.monotonic() - began > 90
        beats = gang.beats()
    assert {beat["state"] for beat in beats.values()} == {"drained"}
    assert {beat["committed_step"] for beat in beats.values()} == {newest_step(tmp_path)}
    assert beats[0]["save_p99_s"] > 90


@pytest.mark.slow
def test_21_torchrun_itself_cuts_the_save_off_and_a_request_does_not(tmp_path: Path) -> None:
    """pytorch#119856, scaled: a save longer than torchrun's patience. A drain that comes as data is whole."""
    odd = {"TEST_SAVE_S": 6, "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": 2}
    with Gang(tmp_path / "signal", 1, steps=100_000, by="torchrun", pace=0.05, odd=odd) as gang:
        gang.until(lambda beats: all_stepped(beats, 2))
        gang.processes[0].send_signal(signal.SIGTERM)
        assert gang.wait() != [0]
    assert newest_step_or_none(tmp_path / "signal") is None, "if this is whole, torchrun no longer kills"
    with Gang(tmp_path / "request", 1, steps=100_000, by="torchrun", pace=0.05, odd=odd) as gang:
        gang.until(lambda beats: all_stepped(beats, 2))
        gang.ask("drain", "d")
        assert gang.wait() == [0], gang.told()
        assert {beat["state"] for beat in gang.beats().values()} == {"drained"}


def newest_step_or_none(folder: Path) -> int | None:
    saved = Store(str(folder / "store"), "example").checkpoints()
    return saved[-1].step if saved else None


# --- 22 ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_22_a_signal_to_one_rank_of_four_lets_all_save_the_same_step_and_leave(tmp_path: Path) -> None:
    """pytorch-lightning#20806: ranks that disagree about a SIGTERM wait for each other for ever."""
    with Gang(tmp_path, 1, steps=100_000, world=4, pace=0.05) as gang:
        gang.until(lambda beats: all_stepped(beats, 4))
        gang.processes[3].send_signal(signal.SIGTERM)
        assert gang.wait() == [0, 0, 0, 0], gang.told()
        beats = gang.beats()
    assert {beat["state"] for beat in beats.values()} == {"drained"}
    assert len({beat["step"] for beat in beats.values()}) == 1
    assert {beat["committed_step"] for beat in beats.values()} == {newest_step(tmp_path)}


@pytest.mark.slow
def test_22_lightning_on_two_ranks_too(tmp_path: Path) -> None:
    """pytorch-lightning#20806, on Lightning itself: its own handler broadcasts from inside the signal."""
    needs_torch()
    pytest.importorskip("lightning")
    (tmp_path / "hook").mkdir()
    job = TESTS / "trainers" / "lightning_gang_job.py"
    with Gang(tmp_path, 1, steps=100_000, job=job) as gang:
        gang.until(lambda beats: all_stepped(beats, 2))
        gang.processes[1].send_signal(signal.SIGTERM)
        assert gang.wait() == [0, 0], gang.told()
        beats = gang.beats()
    assert {beat["state"] for beat in beats.values()} == {"drained"}
    assert len({(beat["step"], beat["committed_step"]) for beat in beats.values()}) == 1


# --- 23 ---------------------------------------------------------------------------------------------


def test_23_a_drain_asked_in_an_evaluation_is_taken_up_at_its_next_piece(tmp_path: Path) -> None:
    """goodfire-ai/spd#677: a save on signal fired 0 of 6 times, in evaluation, warm-up and compilation."""
    clocks = Clocks()
    for kind in ("eval", "warm-up", "data"):
        folder = tmp_path / kind
        hook = hook_of(folder, clocks)
        hook.poll(10, 10)
        for piece in range(5):
            if piece == 3:
                put(folder, "request.json", id="d", kind="drain", deadline=clocks.wall + 60, reason="")
            clocks.pass_s(1)
            answer = hook.alive(kind) if kind == "data" else hook.poll(10, 10, kind)
            assert answer.drains == (piece >= 3)
        assert hook.poll(10, 10, kind).drains, "agreed at the latest here"
        with hook.saving(10):
            pass
        assert hook.leave() == 0
        assert beat(folder)["committed_step"] == 10


def test_23_where_nothing_polls_a_drain_is_told_as_unsafe_within_its_bound(tmp_path: Path) -> None:
    """goodfire-ai/spd#677, while a compiler runs: nobody could save, and somebody must know it."""
    times = Times(look_s=0.02, beat_s=0.05, honour_s=0.3, still_s=0.3)
    hook = Hook(tmp_path, Place(attempt=1), times=times, signals=Signals(NO_SIGNALS), env={})
    with contextlib.closing(hook):
        hook.poll(4, 4)
        put(
            tmp_path,
            "request.json",
            id="d",
            kind="drain",
            deadline=time.time() + 600,
            reason="the window ends",
        )
        given_up, told = time.monotonic() + 60, ""
        while not told and time.monotonic() < given_up:  # the main thread is busy: it does not poll
            time.sleep(0.02)
            told = str(beat(tmp_path)["unsafe"])
        assert "drain (the window ends) was asked" in told
        assert "no poll since step 4 (train)" in told
        assert "test_23" in str(beat(tmp_path)["where"]), "and where it is"
        assert hook.poll(5, 5).do == DRAIN, "late, and taken up all the same"
        assert not hook.unsafe


# --- 24 ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_24_a_sigterm_to_the_whole_process_group_leaves_the_data_workers_alive_until_the_save(
    tmp_path: Path,
) -> None:
    """KempnerForge#177: SIGTERM ends data workers first; the resume takes a directory without metadata."""
    job = TESTS / "trainers" / "loader_job.py"
    odd = {"TEST_WORKERS": "ignore", "TEST_ONCE": tmp_path / "once"}
    with Gang(tmp_path, 1, steps=100_000, world=1, pace=0.02, odd=odd, job=job) as gang:
        gang.until(lambda beats: all_stepped(beats, 1, step=5))
        os.killpg(gang.processes[0].pid, signal.SIGTERM)
        assert gang.wait() == [0], gang.told()
        left = gang.beats()[0]
    assert left["state"] == "drained"
    assert newest_step(tmp_path) == left["step"]
    half = tmp_path / "store" / "run" / "example" / "ckpt" / f"{left['step'] + 50}-2"
    half.mkdir(parents=True)
    (half / "model.pt").write_bytes(b"half a save")
    with Gang(tmp_path, 3, steps=left["step"] + 3, world=1, odd=odd, job=job) as gang:
        assert gang.wait() == [0], gang.told()
        assert min(gang.losses_of(3)) == left["step"] + 1, "after the newest that verifies"


@pytest.mark.slow
def test_24_without_it_the_signal_takes_the_workers_away(tmp_path: Path) -> None:
    """KempnerForge#177: what the test before would see of a loader whose workers are left as they are."""
    job = TESTS / "trainers" / "loader_job.py"
    odd = {"TEST_WORKERS": "plain", "TEST_ONCE": tmp_path / "once"}
    with Gang(tmp_path, 1, steps=100_000, world=1, pace=0.3, odd=odd, job=job) as gang:
        gang.until(lambda beats: all_stepped(beats, 1, step=3))
        os.killpg(gang.processes[0].pid, signal.SIGTERM)
        assert gang.wait() != [0]
        assert "DataLoader worker" in gang.told()
    assert newest_step_or_none(tmp_path) is None, "if this saves, workers outlive the signal by themselves"


# --- 29 ---------------------------------------------------------------------------------------------


class Device:
    """Kernels under way; whoever leaves while there are any breaks it."""

    def __init__(self) -> None:
        self.under_way, self.synced_at = 0, -1.0

    def launch(self) -> None:
        self.under_way += 1

    def sync(self) -> None:
        self.under_way, self.synced_at = 0, time.monotonic()


@pytest.fixture
def usual_signals() -> Iterator[None]:
    before = {which: signal.getsignal(which) for which in (signal.SIGTERM, signal.SIGUSR2)}
    yield
    for which, handler in before.items():
        signal.signal(which, handler)


def test_29_nothing_is_cut_off_inside_a_step_and_the_device_is_done_before_it_is_left(
    tmp_path: Path, usual_signals: None
) -> None:
    """ai2cm/ace#1438: a collective aborted in mid-kernel faulted the switch, and the node was cordoned."""
    clocks, device = Clocks(), Device()
    state_at_sync: list[object] = []

    def sync() -> None:
        state_at_sync.append(beat(tmp_path)["state"])
        device.sync()

    hook = hook_of(tmp_path, clocks, signals=Signals(), sync=sync)
    hook.poll(1, 1)
    device.launch()
    os.kill(os.getpid(), signal.SIGTERM)  # in the middle of a step
    device.launch()
    assert device.under_way == 2, "the handler has touched nothing"
    assert not state_at_sync
    answer = hook.poll(2, 2)
    assert answer.drains
    assert not state_at_sync, "polling does not hold up the device"
    with hook.saving(2):
        pass
    assert hook.leave() == 0
    assert device.under_way == 0
    assert state_at_sync == ["draining"], "first the device, then the word that it has left"
    assert threading.active_count() >= 1


# --- 30 ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("save_s", [20.0, 110.0, 400.0])
def test_30_the_lead_is_what_saves_have_taken_not_a_constant(tmp_path: Path, save_s: float) -> None:
    """ray#66225: a save slower than the drain window is killed."""
    clocks = Clocks()
    began = clocks.wall
    ends, margin = began + 3600, 30.0
    # the controller's deadlines were worked out before any save was measured: 60 s
    put(tmp_path, "window.json", attempt=1, checkpoint_at=ends - 150, drain_at=ends - 91, ends_at=ends,
        margin_s=margin)  # fmt: skip
    hook = hook_of(tmp_path, clocks)
    step, committed = 0, {}
    while True:
        step += 1
        clocks.pass_s(2)
        answer = hook.poll(step, step)
        if answer.saves or step in (50, 300):
            with hook.saving(step):
                clocks.pass_s(save_s)
            committed[step] = clocks.wall
        if answer.drains:
            break
        assert clocks.wall < ends, "it was taken down while it trained"
    assert hook.leave() == 0
    assert committed[step] <= ends - margin, f"{ends - committed[step]:.0f} s before the end"
    lost = ends - margin - committed[step]
    assert lost <= max(60.0, 2.0 * 2) + 2, "and no earlier than it must"
    lines = [json.loads(line) for line in (tmp_path / "heartbeats-0.jsonl").read_text().splitlines()]
    assert any(str(line["answered"]).startswith("window-checkpoint") for line in lines)
