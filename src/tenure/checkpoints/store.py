"""The store of one run: begin a save, find what to resume from, verify, copy, prune.

It lives outside every capacity window: in a bucket or on a disk that no window takes with it.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from tenure.checkpoints import copying, fence, findings, layout, pruning, retention, saving, verifying
from tenure.checkpoints.places import Place, open_place
from tenure.checkpoints.saving import Saving
from tenure.checkpoints.words import (
    AlreadyCommitted,
    Checkpoint,
    Incomplete,
    Manifest,
    NothingUsable,
)

log = logging.getLogger("tenure.checkpoints")


class Store:
    """All checkpoints of one run at one place. Safe to open anywhere, any number of times."""

    def __init__(
        self,
        url: str,
        run: str,
        options: Mapping[str, Any] | None = None,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`url`: where all runs lie; `options`: of fsspec. StoreError for a scheme that is not to be had."""
        self.url, self.run = url, layout.check_run(run)
        self.place: Place = open_place(f"{url.rstrip('/')}/run/{run}", options)
        self._now = now

    # --- saving ------------------------------------------------------------------------------------------

    def take_over(self, attempt: int, resumed: Checkpoint | None) -> fence.Fence:
        """A new attempt begins, from what it resumed: no older one commits any more. Fenced."""
        return fence.raise_fence(self.place, attempt, resumed)

    def begin(self, step: int, attempt: int, *, rank: int = 0, writers: int = 1, token: str = "") -> Saving:
        """
        One writer's part in a save of `step` (`rank` of `writers`).

        `token`: where several write, something they share and an earlier try of the same save did not have,
        such as the launcher's run id and its count of restarts. Fenced, AlreadyCommitted.
        """
        fence.check(self.place, attempt)
        if rank == 0 and (fence.standing(self.place) or 0) < attempt:
            # nobody said that this attempt takes over: it does so now, from what is committed by now
            known = self.checkpoints()
            fence.raise_fence(self.place, attempt, known[-1] if known else None)
        made = saving.standing(self.place, step, deep=False)
        # read in full only here, where the same attempt comes to a step again: it may have rotted since
        if made is not None and made.attempt == attempt and saving.standing(self.place, step, deep=True):
            raise AlreadyCommitted(f"step {step} was committed by this attempt already")
        return Saving(
            self.place, self.run, step, attempt, rank=rank, writers=writers, token=token, now=self._now
        )

    def adopt(self, step: int, attempt: int, again: int = 0) -> Checkpoint:
        """Commit a save that is whole and never was: a copy by other means, or a writer that died."""
        folder = layout.save_of(step, attempt, again)
        path = f"{folder}/{layout.MANIFEST}"
        try:
            written = self.place.read(path)
        except FileNotFoundError:
            raise Incomplete(f"{step}-{attempt} has no manifest: it was never whole") from None
        manifest = layout.read_manifest(written, path)
        if (manifest.step, manifest.attempt) != (step, attempt):
            raise Incomplete(f"{path} is of {manifest.step}-{manifest.attempt}")
        return saving.commit(self.place, folder, manifest, written)

    # --- reading -----------------------------------------------------------------------------------------

    def checkpoints(self) -> list[Checkpoint]:
        """All that are committed and count, oldest first; not verified. Commits that cannot be read are not
        among them (`found` shows them)."""
        return [
            one.committed
            for one in self.found()
            if one.state == findings.COMMITTED and one.committed is not None
        ]

    def found(self) -> list[findings.Found]:
        """Everything that lies in the store, by step and attempt."""
        return findings.found(self.place)

    def newest_verified(
        self,
        *,
        deep: bool = False,
        from_nothing: bool = False,
        progress: verifying.Progress | None = None,
    ) -> Checkpoint | None:
        """
        What to resume from: the newest that verifies. None only where nothing was ever saved, or nothing but
        a first save was begun here and cut off.

        Sizes are compared, or (`deep`) every byte. Raises NothingUsable where the store holds something and
        none of it can be used: beginning at step 0 is then for a person to decide, who says `from_nothing`.
        """
        return self._newest(deep, from_nothing, progress)[0]

    def resume(
        self,
        attempt: int,
        *,
        deep: bool = True,
        from_nothing: bool = False,
        progress: verifying.Progress | None = None,
    ) -> Checkpoint | None:
        """
        What an attempt begins from, and its fence: no older one commits any more. As `newest_verified`.

        Every byte is read and hashed first, unless `deep` is false; what that cost is logged, and loudly each
        newer checkpoint that is passed over. Fenced, NothingUsable.
        """
        begun, read = time.monotonic(), 0

        def counted(more: int) -> None:
            nonlocal read
            read += more
            if progress is not None:
                progress(more)

        newest, wrong = self._newest(deep, from_nothing, counted)
        taken = "nothing" if newest is None else newest.name
        for name, why in wrong:
            log.warning("%s is not resumed from: %s; %s is taken", name, why, taken)
        if newest is not None:
            how = (
                f"{read:,} bytes were read in {time.monotonic() - begun:.1f} s" if deep else "by sizes alone"
            )
            log.info("attempt %d resumes from %s of %s: %s", attempt, taken, self.run, how)
        self.take_over(attempt, newest)
        return newest

    def _newest(
        self, deep: bool, from_nothing: bool, progress: verifying.Progress | None
    ) -> tuple[Checkpoint | None, list[tuple[str, str]]]:
        """The newest that verifies; (name, what is wrong) of each that is newer."""
        everything = self.found()
        said: list[tuple[str, str]] = []
        for one in reversed(everything):
            if one.state != findings.COMMITTED or one.committed is None:
                continue
            wrong = self.verify(one.committed, deep=deep, progress=progress)
            if not wrong:
                return one.committed, said
            said.append((one.committed.name, wrong[0]))
        if not from_nothing and not all(findings.only_begun(one) for one in everything):
            more = "; ".join(f"{name}: {why}" for name, why in said[:3]) or "none was ever committed"
            raise NothingUsable(
                f"{self.url} holds {len(everything)} saves of {self.run} and none can be used ({more}). "
                "To begin at step 0 all the same must be said."
            )
        return None, said

    def manifest(self, checkpoint: Checkpoint) -> Manifest:
        """Its manifest. Incomplete."""
        return verifying.manifest_of(self.place, checkpoint)

    def verify(
        self, checkpoint: Checkpoint, *, deep: bool = False, progress: verifying.Progress | None = None
    ) -> list[str]:
        """What is wrong with it, one line each; empty where it is sound."""
        try:
            manifest = self.manifest(checkpoint)
        except Incomplete as wrong:
            return [str(wrong)]
        return verifying.against(self.place, checkpoint.path, manifest, deep=deep, progress=progress)

    def note_sound(self, checkpoint: Checkpoint) -> None:
        """Its every byte was read just now (`verify` with `deep`), and nothing was wrong."""
        verifying.note_sound(self.place, checkpoint)

    def note_unsound(self, checkpoint: Checkpoint) -> None:
        """It was read in full, and something was wrong: what was noted of it before is not so any more."""
        verifying.note_unsound(self.place, checkpoint)

    def due(self, older_s: float) -> list[Checkpoint]:
        """Those not read in full and found sound for so long, by the store's clock: longest first."""
        known = self.checkpoints()
        at = verifying.sound_at(self.place, known)
        before = pruning.store_now(self.place) - older_s
        late = [one for one in known if at.get(one.name, -math.inf) < before]
        return sorted(late, key=lambda one: at.get(one.name, -math.inf))

    def read(self, checkpoint: Checkpoint, name: str) -> bytes:
        """One of its files, held against its hash. Incomplete."""
        file = next((one for one in self.manifest(checkpoint).files if one.name == name), None)
        if file is None:
            raise Incomplete(f"{checkpoint.name} has no file {name}")
        try:
            data = self.place.read(f"{checkpoint.path}/{name}")
        except FileNotFoundError:
            raise Incomplete(f"{checkpoint.name}: {name} is missing") from None
        if len(data) != file.bytes or layout.sha256(data) != file.sha256:
            raise Incomplete(f"{checkpoint.name}: {name} is altered")
        return data

    def download(
        self, checkpoint: Checkpoint, to: str, *, progress: verifying.Progress | None = None
    ) -> None:
        """All its files into a directory, each held against its hash. Incomplete."""
        copying.download(self.place, checkpoint, self.manifest(checkpoint), to, progress)

    def reading(self, checkpoint: Checkpoint, who: str, for_s: float) -> None:
        """Somebody reads it for so long: it is not pruned meanwhile. Repeated, it is for so long from now."""
        told = {"name": checkpoint.name, "until": pruning.store_now(self.place) + for_s}
        self.place.write(f"{pruning.READING}/{layout.check_run(who)}", json.dumps(told).encode())

    # --- elsewhere, and away -----------------------------------------------------------------------------

    def way(self, checkpoint: Checkpoint, other: Store, bytes_per_s: float | None = None) -> copying.Way:
        """How many bytes a copy still has to bring, and how long that takes."""
        return copying.way(self.place, other.place, checkpoint, bytes_per_s)

    def copy(
        self, checkpoint: Checkpoint, other: Store, *, progress: copying.Progress | None = None
    ) -> Checkpoint:
        """Copy it to another store and commit it there. Repeatable."""
        return copying.copy(self.place, other.place, checkpoint, progress)

    def prune(
        self,
        keep: retention.Keep,
        *,
        reading: Collection[str] = (),
        dry: bool = False,
        deep: bool = False,
        progress: pruning.Progress | None = None,
    ) -> pruning.Pruned:
        """
        Let go what the rule does not keep; see `retention.judge`. `dry`: only say what would go.

        Before one goes, a newer one that stays is read in full, unless that was done within a day.
        """

        def verify(one: Checkpoint, read: verifying.Progress) -> list[str]:
            return self.verify(one, deep=deep, progress=read)

        def in_full(one: Checkpoint) -> list[str]:
            return [] if deep else self.verify(one, deep=True)  # with `deep` it was read just now

        return pruning.prune(
            self.place, verify, keep, in_full=in_full, reading=reading, dry=dry, progress=progress
        )
