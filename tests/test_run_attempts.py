"""One attempt at a time: the next begins when the last is seen to be gone, from a checkpoint read in full."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from run_world import DAY, HOUR, START, World, run_of
from tenure.checkpoints.store import Store
from tenure.runs.drawn import Draws
from tenure.runs.hook import Hook
from tenure.runs.look import Kept, TrainerSeen
from tenure.runs.parts import NothingHolds, PartSilent
from tenure.runs.shelf import StoreShelf

HANGS = Draws(7, 3000.0, failures_per_node_day=0.0, save_every_s=3600.0, hangs_per_day=6.0)


def hanging(folder: Path) -> World:
    """A run whose trainer hangs, and does not end when it is told to."""
    world = World(folder, None, run_of(folder, alarms={"stall": "20m", "silent": "40m"}), HANGS)
    world.provider.lend(START, START + 3 * DAY, 4)
    world.controller()
    return world


def stops(world: World) -> list[int]:
    return [event.body["attempt"] for event in world.pages.events if event.kind == "attempt_stopping"]


def test_the_next_attempt_waits_until_the_last_is_seen_to_be_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = hanging(tmp_path)
    told: list[int] = []
    with monkeypatch.context() as patched:
        patched.setattr(world.trainer, "stop", told.append)  # it goes on saving
        world.live(START + 2 * DAY, lambda: bool(stops(world)))
        world.live(world.clock.now() + 540.0)
        assert told
        assert len(world.state.attempts) == 1
        assert world.state.attempts[0].ended is None
        assert "trainer not ended" not in world.modes()
        world.kill()
        world.live(world.clock.now() + 1000.0)
        world.controller("two")
        before = len(told)
        world.live(world.clock.now() + 400.0)
        assert len(told) > before  # the first may have died before it told it
        assert len(world.state.attempts) == 1
        assert "trainer not ended" in world.modes()
        assert world.trainer.process is not None
    world.live(world.clock.now() + HOUR)
    assert [one.end for one in world.state.attempts] == ["failed", ""]
    assert "trainer not ended" not in world.state.alarms


def test_a_silent_engine_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = hanging(tmp_path)
    world.live(START + 2 * DAY, lambda: world.trainer.process is not None)

    def silent(attempt: int) -> TrainerSeen:
        raise PartSilent("drawn")

    with monkeypatch.context() as patched:
        patched.setattr(world.trainer, "seen", silent)
        world.live(START + 2 * DAY, lambda: bool(stops(world)))
        world.live(world.clock.now() + HOUR)
        assert len(world.state.attempts) == 1
        assert "trainer not ended" in world.modes()
    world.live(world.clock.now() + HOUR)
    assert len(world.state.attempts) == 2


@pytest.mark.parametrize("outage", ["controller", "hook"])
def test_a_heartbeat_that_is_old_at_the_first_look_is_no_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outage: str
) -> None:
    keys = {"stall": "10m", "silent": "20m"}
    world = World(tmp_path, None, run_of(tmp_path, alarms=keys))
    world.provider.lend(START, START + 3 * DAY, 4)
    world.controller()
    world.live(START + 5 * HOUR)
    with monkeypatch.context() as patched:
        patched.setattr(world.trainer, "_beat", lambda one: None)  # the folder takes nothing
        if outage == "controller":
            world.kill()
        else:
            patched.setattr(Hook, "beats", lambda hook, attempt: {})
        world.live(START + 7 * HOUR)
        if outage == "hook":
            patched.undo()
            patched.setattr(world.trainer, "_beat", lambda one: None)
        else:
            world.controller("two")
        world.live(world.clock.now() + 400.0)  # read again, and old
        assert not stops(world)
    world.live(START + 12 * HOUR)
    assert len(world.state.attempts) == 1
    assert not stops(world)


def save(store: Store, step: int) -> None:
    saving = store.begin(step, 1)
    saving.add_bytes("state", b"%d" % step * 100)
    saving.commit(step * 1000)


def data_of(folder: Path, step: int) -> Path:
    wanted = b"%d" % step * 100
    return next(path for path in folder.rglob("*") if path.is_file() and path.read_bytes() == wanted)


def test_the_last_checkpoint_is_read_in_full_once_and_nothing_usable_is_said(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"), "example")
    shelf = StoreShelf(store)
    save(store, 1)
    save(store, 2)
    rotten = data_of(tmp_path, 2)
    rotten.write_bytes(b"x" * 100)  # of the right size
    assert shelf.newest().step == 2
    read: list[int] = []
    assert shelf.newest(read.append) == Kept(1, 1000.0, 1)
    assert read
    read.clear()
    assert shelf.newest(read.append).step == 1
    assert shelf.newest().step == 1  # what was found out stays known
    assert not read
    data_of(tmp_path, 1).write_bytes(b"")
    with pytest.raises(NothingHolds, match="none can be used"):
        StoreShelf(store).newest(read.append)


@pytest.mark.slow
def test_a_run_is_not_finished_by_a_checkpoint_that_only_has_the_right_size(tmp_path: Path) -> None:
    world = World(tmp_path, None, run_of(tmp_path))
    world.provider.lend(START, START + 3 * DAY, 4)
    kept = world.vault.newest
    asked: list[float] = []

    def newest(read: object = None) -> Kept:
        found = kept()
        if read is not None:
            asked.append(found.tokens)
            return Kept(1, 1000.0, 1)
        return found

    world.vault.newest = newest  # type: ignore[method-assign, assignment]
    world.controller()
    world.live(START + 2.4 * DAY)
    assert asked
    assert world.state.final is None
    assert "lost final checkpoint" in world.modes()


def test_a_store_in_which_nothing_can_be_used_is_an_alarm_of_its_own(tmp_path: Path) -> None:
    world = World(tmp_path, None, run_of(tmp_path))
    world.provider.lend(START, START + 3 * DAY, 4)

    def newest(read: object = None) -> Kept:
        raise NothingHolds("it holds 3 saves and none can be used")

    world.vault.newest = newest  # type: ignore[method-assign]
    world.controller()
    world.live(START + 2 * HOUR)
    assert not world.state.attempts
    assert "none can be used" in world.state.alarms["nothing usable"]["text"]
    assert "store silent" not in world.modes()
    assert json.dumps(dict(world.state.alarms["nothing usable"]))


def test_a_store_that_is_empty_where_the_run_has_kept_something_begins_nothing_anew(tmp_path: Path) -> None:
    world = World(tmp_path, None, run_of(tmp_path))
    world.provider.lend(START, START + 3 * DAY, 4)
    world.controller()
    world.live(START + 6 * HOUR)
    world.book(world.clock.now).ask("drain_asked", {"by": "ann"})
    world.live(START + 8 * HOUR)
    kept = world.vault.newest()
    assert (world.state.phase, len(world.state.attempts)) == ("paused", 1)
    there, world.vault.commits = world.vault.commits, []  # its disk is not mounted
    world.book(world.clock.now).ask("resume_asked", {"by": "ann"})
    world.live(START + 10 * HOUR)
    assert len(world.state.attempts) == 1, "step 0 again would throw away what is kept"
    text = world.state.alarms["nothing usable"]["text"]
    assert "empty" in text
    assert f"{kept.tokens:,.0f}" in text
    world.vault.commits = there
    world.live(START + 12 * HOUR)
    assert world.state.attempts[-1].from_tokens == kept.tokens
    assert "nothing usable" not in world.state.alarms
