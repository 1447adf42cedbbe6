"""Any history of saves, deaths, attempts, damage, copies and prunings, beside a plain list."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from stores import Dead, Mortal, save
from tenure.checkpoints import AlreadyCommitted, Keep, NothingUsable, Store, StoreFull

LIVES = 10_000  #: more points than there are: nothing breaks
POINT = st.one_of(st.just(LIVES), st.integers(1, 30))
WRONG = st.sampled_from([Dead, StoreFull])


class Histories(RuleBasedStateMachine):
    """The oracle: `good`, the steps that are committed and sound, each with its attempt; `damaged` ones."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        self.store = Store(f"{self.folder}/a", "r")
        self.other = Store(f"{self.folder}/b", "r")
        self.good: dict[int, int] = {}
        self.damaged: set[int] = set()
        self.there: set[int] = set()
        self.attempt, self.step = 1, 0

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    def _broken(self, store: Store, point: int, wrong: type[BaseException], act) -> bool:
        """Whether `act` came to its end, on a store that breaks at a point."""
        place = store.place
        store.place = Mortal(place, point, wrong())
        try:
            act()
        except wrong:
            return False
        finally:
            store.place = place
        return True

    @rule(on=st.integers(1, 3), point=POINT, wrong=WRONG, again=st.booleans())
    def save(self, on: int, point: int, wrong: type[BaseException], again: bool) -> None:
        self.step += on
        for at in (point, LIVES) if again else (point,):
            try:
                done = self._broken(self.store, at, wrong, lambda: save(self.store, self.step, self.attempt))
            except AlreadyCommitted:
                done = True
            if done or any(one.step == self.step for one in self.store.checkpoints()):
                self.good[self.step] = self.attempt
                self.damaged.discard(self.step)

    @rule(back=st.integers(0, 2))
    def take_over(self, back: int) -> None:
        """A new attempt, from the newest or one before it, where somebody chose to."""
        sound = sorted(self.good)
        chosen = sound[-1 - back] if len(sound) > back else None
        standing = {one.step: one for one in self.store.checkpoints()}
        self.attempt += 1
        self.store.take_over(self.attempt, standing[chosen] if chosen is not None else None)
        self.step = chosen or 0
        self.good = {step: by for step, by in self.good.items() if step <= self.step}
        self.damaged = {step for step in self.damaged if step <= self.step}

    @precondition(lambda self: len(self.good) > 1)
    @rule()
    def damage_the_newest(self) -> None:
        newest = max(self.good)
        one = next(one for one in self.store.checkpoints() if one.step == newest)
        self.store.place.write(f"{one.path}/b.bin", b"")
        del self.good[newest]
        self.damaged.add(newest)

    @precondition(lambda self: self.good)
    @rule(last=st.integers(1, 3), point=POINT, wrong=WRONG)
    def prune(self, last: int, point: int, wrong: type[BaseException]) -> None:
        keeps = sorted(self.good)[-last:]
        done = self._broken(self.store, point, wrong, lambda: self.store.prune(Keep(last=last, grace_s=1e6)))
        left = {one.step for one in self.store.checkpoints()} - self.damaged
        assert set(keeps) <= left <= set(self.good)
        if done:
            assert left == set(keeps)
        self.good = {step: by for step, by in self.good.items() if step in left}

    @precondition(lambda self: self.good)
    @rule(point=POINT, wrong=WRONG)
    def copy_the_newest(self, point: int, wrong: type[BaseException]) -> None:
        newest = self.store.newest_verified()
        assert newest is not None
        try:
            if self._broken(self.other, point, wrong, lambda: self.store.copy(newest, self.other)):
                self.there.add(newest.step)
        except AlreadyCommitted:
            assert any(one.step == newest.step for one in self.other.checkpoints())

    @invariant()
    def what_must_be_there_is_there_to_the_byte(self) -> None:
        standing = {one.step: one for one in self.store.checkpoints()}
        assert set(standing) == set(self.good) | self.damaged
        for step, attempt in self.good.items():
            assert standing[step].attempt == attempt
            assert self.store.verify(standing[step], deep=True) == []
        try:
            newest = self.store.newest_verified(deep=True)
        except NothingUsable:
            assert not self.good
        else:
            assert (newest.step if newest else None) == max(self.good, default=None)
        copied = {one.step for one in self.other.checkpoints() if not self.other.verify(one, deep=True)}
        assert self.there <= copied
        assert len(copied) == len(self.other.checkpoints()), "a copy is whole or not there"


TestHistories = pytest.mark.slow(Histories.TestCase)
TestHistories.settings = settings(
    max_examples=int(os.environ.get("TENURE_HISTORIES", "60")),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
