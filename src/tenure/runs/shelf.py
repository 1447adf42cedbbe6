"""How does a controller read a run's store, and a rehearsed trainer write to it?"""

from __future__ import annotations

from tenure.checkpoints.retention import Keep
from tenure.checkpoints.store import Store
from tenure.checkpoints.words import AlreadyCommitted, StoreError
from tenure.runs.look import NOTHING_KEPT, Kept
from tenure.runs.parts import PartSilent

PRUNE_EVERY = 8  #: saves


class StoreShelf:
    """A `parts.Shelf` of a store; all that a store cannot answer is silence: nothing is begun from it."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def newest(self) -> Kept:
        """The newest that verifies."""
        try:
            found = self.store.newest_verified()
        except StoreError as wrong:
            raise PartSilent(str(wrong)) from wrong
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
