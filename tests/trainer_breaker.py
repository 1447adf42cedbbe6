"""
A trainer and its store, broken together: drawn faults of disk, network and clock, and what must hold.

A run is many lives of one trainer over one store. In each life the store may fill up, vanish, lose answers to
what it did, or call this machine's clock wrong; the wall clock may jump; the process may die at any change it
makes to the store; a window ends and its drain is due. After each life somebody looks with eyes of their own.
"""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from hook_world import Clocks, beat, hook_of, put
from stores import Dead
from tenure.checkpoints import (
    AlreadyCommitted,
    Checkpoint,
    ClockOff,
    Keep,
    NothingUsable,
    Store,
    StoreFull,
    StoreUnavailable,
)
from tenure.trainer import Place

FAULTS = (StoreFull, StoreUnavailable, ClockOff)
SAVE_EVERY, TOKENS = 4, 512


@dataclass
class Breaking:
    """A place in which each change may fail before it, fail after it (the answer is lost), or be the last."""

    place: Any
    chance: random.Random
    wrong: float = 0.0  #: of a change to fail
    death: float = 0.0  #: of a change to be the last
    out: type[StoreUnavailable] | None = None  #: everything fails so, until it is None again
    dead: bool = False
    seen: Counter[str] = field(default_factory=Counter)

    @property
    def where(self) -> str:
        return self.place.where

    def _fails(self, when: str) -> None:
        if self.dead:
            raise Dead
        if self.chance.random() < self.death:
            self.dead = True
            self.seen["deaths"] += 1
            raise Dead
        if self.out is not None:
            self.seen[f"{self.out.__name__}, for a while"] += 1
            raise self.out("it is so for a while")
        if self.chance.random() < self.wrong:
            fault = self.chance.choice(FAULTS)
            self.seen[f"{fault.__name__}, {when}"] += 1
            raise fault(f"{when} the change")

    @contextlib.contextmanager
    def _change(self) -> Iterator[None]:
        self._fails("before")
        yield
        self._fails("after")

    def create(self, path: str, data: bytes) -> None:
        with self._change():
            self.place.create(path, data)

    def write(self, path: str, data: bytes) -> None:
        with self._change():
            self.place.write(path, data)

    def swap(self, path: str, seen: bytes, data: bytes) -> bool:
        with self._change():
            return self.place.swap(path, seen, data)

    def stream(self, path: str, chunks: Iterator[bytes]) -> None:
        with self._change():
            self.place.stream(path, chunks)

    def delete(self, paths: list[str]) -> None:
        for path in paths:
            with self._change():
                self.place.delete([path])

    def _look(self) -> Any:
        if self.dead:
            raise Dead
        if self.out is not None:
            self.seen[f"{self.out.__name__}, for a while"] += 1
            raise self.out("it is so for a while")
        return self.place

    def read(self, path: str) -> bytes:
        return self._look().read(path)

    def open(self, path: str) -> IO[bytes]:
        return self._look().open(path)

    def files(self, folder: str) -> Any:
        return self._look().files(folder)

    def sha256(self, path: str) -> str | None:
        return self._look().sha256(path)


@dataclass
class Told:
    """What became of a run."""

    lives: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    steps: int = 0
    saves: int = 0
    failed_saves: int = 0
    pruned: int = 0


def content(step: int) -> bytes:
    """What a checkpoint of a step holds: as much as tells a mixture of two."""
    return step.to_bytes(4, "big") * 64


def sound(store: Store) -> Checkpoint | None:
    """The newest, every byte of it, and that it is what its step was."""
    try:
        newest = store.newest_verified(deep=True)
    except NothingUsable:  # the first save was whole and its commit was not made: a person may adopt it
        return None
    if newest is not None:
        assert store.read(newest, "w.bin") == content(newest.step)
    return newest


class Run:
    """Lives of one trainer."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.chance, self.told = folder, random.Random(seed), Told()
        self.clocks = Clocks()
        self.known = 0  #: a step that is committed for sure, by what trainers said

    def life(self, attempt: int) -> str:
        """One attempt from its resume to its end; what the end was."""
        chance = self.chance
        hook_folder = self.folder / f"hook-{attempt}"
        hook_folder.mkdir()
        store = Store(str(self.folder / "store"), "r")
        whole = store.place
        calm = chance.random() < 0.3
        place = Breaking(
            whole,
            chance,
            wrong=0.0 if calm else chance.choice([0.01, 0.1, 0.4]),
            death=chance.choice([0.0, 0.01, 0.05]),
        )
        hook = hook_of(
            hook_folder,
            self.clocks,
            place=Place(attempt=attempt),
            store_errors=(OSError, StoreUnavailable),
        )
        begun = self.clocks.steady
        ends = chance.randint(10, 150)
        put(hook_folder, "window.json", **self._window(attempt, ends))
        ended = "died"
        try:
            ended = self._train(store, place, hook, attempt)
        except Dead:
            store.place = whole
        assert self.clocks.steady - begun <= ends + 60 or ended in ("died", "unreachable"), "it left in time"
        store.place = whole
        self._look(store, hook_folder, ended)
        self.told.faults += place.seen
        self.told.lives[ended] += 1
        return ended

    def _window(self, attempt: int, ends: float) -> dict[str, object]:
        now = self.clocks.wall
        return {
            "run": "r",
            "attempt": attempt,
            "window": f"w{attempt}",
            "ends_at": now + ends,
            "checkpoint_at": now + ends * 0.7,
            "drain_at": now + ends * 0.8,
            "margin_s": 5.0,
            "written_at": now,
        }

    def _train(self, store: Store, place: Breaking, hook: Any, attempt: int) -> str:
        try:
            newest = store.newest_verified(deep=True, from_nothing=self.known == 0)
            store.place = place  # type: ignore[assignment]
            store.take_over(attempt, newest)
        except StoreUnavailable:
            return "unreachable"  # nothing is begun from a store that does not answer
        assert (0 if newest is None else newest.step) >= self.known, "nothing that was committed is lost"
        step = 0 if newest is None else newest.step
        while True:
            step += 1
            self.told.steps += 1
            self._weather(place)
            self.clocks.pass_s(self.chance.uniform(0.5, 2.0))
            answer = hook.poll(step, step * TOKENS)
            if answer.saves or step % SAVE_EVERY == 0:
                self._save(store, hook, step, attempt)
            if answer.drains:
                code = hook.leave()
                assert (code == 0) == (hook.progress.committed_step == step)
                return "drained" if code == 0 else "drained-incomplete"

    def _weather(self, place: Breaking) -> None:
        chance = self.chance
        if place.out is None and place.wrong and chance.random() < 0.03:
            place.out = chance.choice(FAULTS)
        elif place.out is not None and chance.random() < 0.2:
            place.out = None
        if chance.random() < 0.01:
            self.clocks.wall += chance.choice([-86_400.0, -30.0, 30.0])

    def _save(self, store: Store, hook: Any, step: int, attempt: int) -> None:
        with hook.saving(step, step * TOKENS) as save, contextlib.suppress(AlreadyCommitted):
            with store.begin(step, attempt) as saving:
                saving.add_bytes("w.bin", content(step))
                self.clocks.pass_s(self.chance.uniform(0.1, 3.0))
                saving.commit(step * TOKENS)
        self.told.saves += save.committed
        self.told.failed_saves += not save.committed
        if save.committed:
            self.known = max(self.known, step)
            if self.chance.random() < 0.3:
                with contextlib.suppress(StoreUnavailable):
                    self.told.pruned += len(store.prune(Keep(last=2, grace_s=0.0)).deleted)

    def _look(self, store: Store, hook_folder: Path, ended: str) -> None:
        newest = sound(store)
        have = 0 if newest is None else newest.step
        assert have >= self.known, f"step {self.known} was said to be committed, {have} is there"
        for one in store.checkpoints():
            assert store.verify(one, deep=True) == [] or one.step < have, "what counts is whole"
        if ended.startswith("drained"):
            said = beat(hook_folder)
            assert said["state"] == ended
            assert int(str(said["committed_step"])) <= have, "it does not say more than is there"
            if ended == "drained":
                assert int(str(said["step"])) == have, "drained means that the last step is kept"


def broken_together(folder: Path, seed: int, lives: int = 8) -> Told:
    """A run of so many lives; AssertionError where something does not hold."""
    run = Run(folder, seed)
    for attempt in range(1, lives + 1):
        run.life(attempt)
    return run.told
