"""How does a save become a checkpoint, though any step of it may be its last?

Files first, each hashed on its way; then what each writer wrote (`PART-<rank>.json`); then MANIFEST.json;
then everything is read back against it; and only then the commit, which is made once. Until that exists there
is no checkpoint, so a save cut off anywhere leaves the older ones as they were. Each attempt writes to a
folder of its own: nobody overwrites what another reads.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256 as hasher
from pathlib import Path
from typing import Any

from tenure.checkpoints import fence, layout, verifying
from tenure.checkpoints.places import CHUNK, Place
from tenure.checkpoints.words import (
    AlreadyCommitted,
    Checkpoint,
    File,
    Incomplete,
    Manifest,
    StoreError,
)


class Saving:
    """One writer's part in one save. A rank adds its files; one of them commits for all."""

    def __init__(
        self,
        place: Place,
        run: str,
        step: int,
        attempt: int,
        *,
        rank: int = 0,
        writers: int = 1,
        token: str = "",
        now: Callable[[], float] = time.time,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        if step < 0 or attempt < 0 or not 0 <= rank < writers:
            raise ValueError(f"no save of step {step}, attempt {attempt} by writer {rank} of {writers}")
        self.run, self.step, self.attempt, self.rank, self.writers = run, step, attempt, rank, writers
        self.folder = layout.save_of(step, attempt)
        self._place, self._token, self._now, self._wait = place, token, now, wait
        self._files: dict[str, File] = {}
        self._told = False

    def add_bytes(self, name: str, data: bytes) -> File:
        """A small file from memory."""
        return self.add_stream(name, iter([data]))

    def add_file(self, path: str | os.PathLike[str], name: str | None = None) -> File:
        """A file from this machine's disk, under its own name or another."""
        source = Path(path)
        with source.open("rb") as opened:
            return self.add_stream(name or source.name, iter(lambda: opened.read(CHUNK), b""))

    def add_directory(self, path: str | os.PathLike[str], under: str = "") -> list[File]:
        """All files below a directory, in the order of their names."""
        root = Path(path)
        if not root.is_dir():
            raise StoreError(f"{root} is no directory")
        found = sorted(file for file in root.rglob("*") if file.is_file())
        prefix = f"{under.strip('/')}/" if under else ""
        return [self.add_file(file, prefix + file.relative_to(root).as_posix()) for file in found]

    def add_stream(self, name: str, chunks: Iterable[bytes]) -> File:
        """A file piece by piece; hashed as it goes by."""
        layout.check_file(name)
        if self._told:
            raise StoreError("this writer has said that it is done")
        digest, size = hasher(), 0

        def counted() -> Iterator[bytes]:
            nonlocal size
            for chunk in chunks:
                digest.update(chunk)
                size += len(chunk)
                yield chunk

        self._place.stream(f"{self.folder}/{name}", counted())
        self._files[name] = File(name, size, digest.hexdigest())
        return self._files[name]

    def done(self) -> None:
        """This writer's files are all there: say so to whoever commits. May be repeated."""
        told = {
            "rank": self.rank,
            "token": self._token,
            "files": [file._asdict() for file in self._files.values()],
        }
        self._place.write(f"{self.folder}/{layout.PART}{self.rank}.json", json.dumps(told).encode())
        self._told = True

    def commit(
        self,
        tokens: int,
        *,
        final: bool = False,
        parent: int | None = None,
        window: str = "",
        framework: str = "",
        world: Mapping[str, Any] | None = None,
        loader: Mapping[str, Any] | None = None,
        patience_s: float = 600.0,
        read_back: bool = True,
    ) -> Checkpoint:
        """
        Make it a checkpoint: wait for all writers, write the manifest, verify, commit.

        `tokens`: trained on in all, up to this step. `patience_s`: so long for the other writers. With
        `read_back` every byte is read again and hashed; without it only sizes are compared.
        Raises Incomplete, Fenced, AlreadyCommitted, StoreUnavailable. May be repeated until it succeeds.
        """
        fence.check(self._place, self.attempt)
        if not self._told:
            self.done()
        files = self._all_files(patience_s)
        if not files:
            raise Incomplete(f"step {self.step} has no files")
        manifest = Manifest(
            run=self.run,
            step=self.step,
            attempt=self.attempt,
            tokens=int(tokens),
            files=tuple(files),
            at=self._now(),
            writer=f"{socket.gethostname()}:{os.getpid()}",
            framework=framework,
            parent=parent,
            window=window,
            final=final,
            world=dict(world or {}),
            loader=dict(loader or {}),
        )
        return commit(self._place, manifest, read_back=read_back)

    def _all_files(self, patience_s: float) -> list[File]:
        """What all writers wrote. Incomplete where one is not done in time."""
        until = time.monotonic() + patience_s
        missing = list(range(self.writers))
        parts: dict[int, list[File]] = {}
        while True:
            for rank in list(missing):
                try:
                    told = json.loads(self._place.read(f"{self.folder}/{layout.PART}{rank}.json"))
                except FileNotFoundError:
                    continue
                if told.get("token", "") != self._token:
                    continue  # of an earlier try of the same save, by a process that is no more
                parts[rank] = [File(f["name"], f["bytes"], f["sha256"]) for f in told["files"]]
                missing.remove(rank)
            if not missing:
                break
            if time.monotonic() >= until:
                ranks = ", ".join(map(str, missing[:8]))
                raise Incomplete(
                    f"step {self.step}: nothing was heard of ranks {ranks} in {patience_s:.0f} s"
                )
            self._wait(0.2)
        files = [file for rank in range(self.writers) for file in parts[rank]]
        double = [name for name, times in Counter(file.name for file in files).items() if times > 1]
        if double:
            raise Incomplete(f"step {self.step}: two writers wrote {double[0]}")
        return sorted(files)


def commit(place: Place, manifest: Manifest, *, read_back: bool = True) -> Checkpoint:
    """Write the manifest, hold every file against it, and commit. The end of every save and every copy."""
    written = layout.manifest_bytes(manifest)
    folder = layout.save_of(manifest.step, manifest.attempt)
    place.write(f"{folder}/{layout.MANIFEST}", written)
    wrong = verifying.against(place, folder, manifest, deep=read_back)
    if wrong:
        raise Incomplete(f"step {manifest.step}: " + "; ".join(wrong[:3]))
    fence.check(place, manifest.attempt)  # once more: verifying takes long
    data = layout.commit_bytes(manifest, written)
    path = layout.committed_of(manifest.step)
    made = layout.read_commit(data, path)
    try:
        place.create(path, data)
    except FileExistsError:
        _ours(place, path, data, manifest)
    point(place, made)
    return made


def _ours(place: Place, path: str, data: bytes, manifest: Manifest) -> None:
    """The commit is there already: by our own hand, where its answer was lost, or by another's."""
    there = place.read(path)
    if there == data:
        return
    other = layout.read_commit(there, path)
    if fence.void(
        fence.fences(place), other
    ):  # a stale attempt's, which does not count: the step is free again
        place.write(path, data)
        return
    raise AlreadyCommitted(
        f"step {manifest.step} was committed by attempt {other.attempt} already; nothing was changed"
    )


def point(place: Place, newest: Checkpoint) -> None:
    """Let LATEST name it, unless it names a newer one. A hint: a failure to write it changes nothing."""
    try:
        named = json.loads(place.read(layout.LATEST))
        if (named["attempt"], named["step"]) > (newest.attempt, newest.step):
            return
    except FileNotFoundError:
        pass
    except (ValueError, KeyError, TypeError):
        pass  # altered by somebody else: written anew
    told = {"step": newest.step, "attempt": newest.attempt, "path": newest.path, "tokens": newest.tokens}
    place.write(layout.LATEST, json.dumps(told, sort_keys=True).encode())
