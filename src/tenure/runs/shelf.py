"""How does a controller read a run's store, and a rehearsed trainer write to it?"""

from __future__ import annotations

from collections.abc import Callable

from tenure.checkpoints.retention import Keep
from tenure.checkpoints.store import Store
from tenure.checkpoints.words import AlreadyCommitted, Checkpoint, NothingUsable, StoreError
from tenure.runs.look import NOTHING_KEPT, Kept
from tenure.runs.parts import NothingHolds, PartSilent

PRUNE_EVERY = 8  #: saves


class StoreShelf:
    """A `parts.Shelf` of a store; all that a store cannot answer is silence: nothing is begun from it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._whole: dict[Kept, Kept] = {}  #: what reading every byte led to, by the newest by size

    def newest(self, read: Callable[[int], None] | None = None) -> Kept:
        """The newest that verifies; with `read`, every byte of it, once."""
        try:
            found = _kept(self.store.newest_verified())
            if found in self._whole:
                return self._whole[found]
            if read is not None and found != NOTHING_KEPT:
                self._whole[found] = _kept(self.store.newest_verified(deep=True, progress=read))
                return self._whole[found]
        except NothingUsable as wrong:
            raise NothingHolds(str(wrong)) from wrong
        except StoreError as wrong:
            raise PartSilent(str(wrong)) from wrong
        return found


def _kept(found: Checkpoint | None) -> Kept:
    return NOTHING_KEPT if found is None else Kept(found.step, float(found.tokens), found.attempt)


class StoreVault(StoreShelf):
    """A `drawn.Vault`: small real checkpoints. `keep`: how many are left when it prunes."""

    def __init__(self, store: Store, keep: Keep | None = None) -> None:
        super().__init__(store)
        self._keep = keep or Keep(last=3)
        self._saves = 0

    def take_over(self, attempt: int) -> None:
        """From now on nothing older commits."""
        self.store.take_over(attempt, self.store.newest_verified())

    def commit(self, step: int, attempt: int, tokens: float) -> None:
        """A save of one file."""
        try:
            saving = self.store.begin(step, attempt)
            saving.add_bytes("state", f"{step} {attempt} {tokens}".encode())
            saving.commit(round(tokens), framework="drawn")
        except AlreadyCommitted:
            return
        self._saves += 1
        if self._saves % PRUNE_EVERY == 0:
            self.store.prune(self._keep)
