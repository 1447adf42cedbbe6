"""Real gangs over gloo: drained, killed and resumed they learn the same, bit for bit, whoever starts them."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gangs import Gang
from tenure.checkpoints.store import Store
from tenure.runs.heartbeats import read_beats, stall_of
from tenure.runs.pilot import read_pilot

STEPS = 40

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """The losses of a gang that nobody interrupts."""
    with Gang(tmp_path_factory.mktemp("whole"), 1, steps=STEPS) as gang:
        assert gang.wait() == [0, 0], gang.told()
        assert {beat["state"] for beat in gang.beats().values()} == {"finished"}
        return gang.losses()


@pytest.mark.parametrize("by", ["spawn", "torchrun"])
def test_drained_killed_and_resumed_a_gang_learns_the_same(
    tmp_path: Path, whole: dict[int, str], by: str
) -> None:
    store = Store(str(tmp_path / "store"), "example")
    with Gang(tmp_path, 1, steps=STEPS, by=by, pace=0.1) as gang:
        gang.until(lambda beats: len(beats) == 2 and min(beat["step"] for beat in beats.values()) >= 3)
        gang.ask("drain", "d1")
        assert set(gang.wait()) == {0}, gang.told()
        beats = gang.beats()
        assert {beat["state"] for beat in beats.values()} == {"drained"}
        assert {beat["answered"] for beat in beats.values()} == {"d1"}
        left = beats[0]["step"]
        assert {beat["committed_step"] for beat in beats.values()} == {left}
        newest = store.newest_verified(deep=True)
        assert newest is not None
        assert (newest.step, newest.tokens, newest.attempt) == (left, beats[0]["tokens"], 1)
    gang.hook.joinpath("request.json").unlink()
    odd = {"TEST_RANK": 1, "TEST_KILL_STEP": left + 9}
    with Gang(tmp_path, 2, steps=STEPS, by=by, save_every=5, odd=odd) as gang:
        codes = gang.wait()
        assert any(code != 0 for code in codes), "one rank was killed: the others cannot go on"
    assert store.newest_verified() != newest
    with Gang(tmp_path, 3, steps=STEPS, by=by) as gang:
        assert set(gang.wait()) == {0}, gang.told()
        assert gang.losses() == whole
        assert read_pilot(gang.hook, nodes=2).failures == 1


def test_where_the_controller_is_dead_the_window_still_ends_in_a_verified_checkpoint(tmp_path: Path) -> None:
    with Gang(tmp_path, 1, steps=100_000, pace=0.05) as gang:
        gang.until(lambda beats: len(beats) == 2 and min(beat["step"] for beat in beats.values()) >= 1)
        now = time.time()
        gang.put("window.json", run="example", attempt=1, window="w", checkpoint_at=now + 3,
                 drain_at=now + 14, ends_at=now + 300, margin_s=280)  # fmt: skip
        assert gang.wait() == [0, 0], gang.told()
        assert time.time() < now + 300
        told = gang.beats()[0]
    lines = (gang.hook / "heartbeats-0.jsonl").read_text()
    assert "window-checkpoint-1" in lines
    assert told["answered"].startswith("window-drain-1")
    saved = [one.step for one in Store(str(tmp_path / "store"), "example").checkpoints()]
    assert len(saved) == 2, "one to be safe, one at the end"
    assert saved[-1] == told["step"]


def test_a_rank_that_hangs_is_named_while_the_collective_still_waits(tmp_path: Path) -> None:
    odd = {"TEST_RANK": 1, "TEST_HANG_STEP": 12}
    with Gang(tmp_path, 1, steps=100, pace=0.05, odd=odd) as gang:
        gang.until(lambda beats: len(beats) == 2 and min(beat["step"] for beat in beats.values()) >= 11)
        stall, end = None, time.time() + 180
        while stall is None and time.time() < end:
            beats = read_beats(gang.hook)
            if all(beat.where for beat in beats.values()):
                stall = stall_of(beats, time.time(), least_s=3.0)
            time.sleep(0.2)
        assert stall is not None
        assert stall.since_s >= 3.0
        assert stall.behind == (1,), stall.text
        assert "gang_job.py" in stall.text
        assert "all_reduce" in stall.text
        assert stall.steps == {0: 11, 1: 11}, "the step that never ended was not told as done"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(place)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no file system of its own can be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=False)


def test_a_gang_whose_store_is_full_trains_on_says_so_and_saves_again_when_there_is_room(
    small_disk: Path, tmp_path: Path
) -> None:
    (tmp_path / "store").symlink_to(small_disk)
    with Gang(tmp_path, 1, steps=100_000, pace=0.02, save_every=5) as gang:
        gang.until(lambda beats: any("failed" in beat["trouble"] for beat in beats.values()))
        told = [beat["trouble"] for beat in gang.beats().values() if beat["trouble"]]
        assert any("training goes on" in line and "the newest is of step" in line for line in told)
        at = gang.beats()[0]
        assert at["committed_step"] > 0
        gang.until(lambda beats: min(beat["step"] for beat in beats.values()) > at["step"] + 10)
        store = Store(str(tmp_path / "store"), "example")
        assert store.newest_verified() is not None, "what was committed stands"
        subprocess.run(["mount", "-o", "remount,size=8m", str(small_disk)], check=True)
        gang.until(
            lambda beats: all(beat["committed_step"] > at["committed_step"] for beat in beats.values())
        )
        gang.until(lambda beats: not any(beat["trouble"] for beat in beats.values()))
        gang.ask("drain", "d")
        assert gang.wait() == [0, 0], gang.told()
        assert {beat["state"] for beat in gang.beats().values()} == {"drained"}


def test_a_gang_whose_store_is_gone_at_the_end_leaves_with_75_and_says_so(tmp_path: Path) -> None:
    with Gang(tmp_path, 1, steps=100_000, pace=0.02, save_every=5) as gang:
        gang.until(lambda beats: len(beats) == 2 and all(b["committed_step"] >= 5 for b in beats.values()))
        (tmp_path / "store").rename(tmp_path / "away")
        (tmp_path / "store").write_text("not a store")
        gang.ask("drain", "d")
        assert gang.wait() == [75, 75], gang.told()
        beats = gang.beats()
    assert {beat["state"] for beat in beats.values()} == {"drained-incomplete"}
    assert all("the save of step" in beat["trouble"] for beat in beats.values())
    kept = Store(str(tmp_path / "away"), "example").newest_verified()
    assert kept is not None
    assert {beat["committed_step"] for beat in beats.values()} == {kept.step}
