"""How does a save become a checkpoint, though any step of it may be its last?

Files first, each hashed on its way; then what each writer wrote (`PART-<rank>.json`); then MANIFEST.json;
then everything is read back against it; and only then the commit, which is made once. Until that exists there
is no checkpoint, so a save cut off anywhere leaves the older ones as they were. Each try writes to a
folder of its own: nobody overwrites what another reads.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import socket
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256 as hasher
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tenure.checkpoints import fence, layout, verifying
from tenure.checkpoints.places import CHUNK, Place
from tenure.checkpoints.words import (
    AlreadyCommitted,
    Checkpoint,
    Fenced,
    File,
    Incomplete,
    Manifest,
    StoreError,
    StoreFull,
    StoreUnavailable,
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
        self._place, self._now, self._wait = place, now, wait
        self._token = token or ("" if writers > 1 else uuid.uuid4().hex)
        self.folder = claim(place, step, attempt, self._token) or ""
        self._files: dict[str, File] = {}
        self._begun: set[str] = set()
        self._told = False
        self._manifest: Manifest | None = None

    def __enter__(self) -> Self:
        """`with store.begin(…) as saving:` gives up what fails within it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, wrong: BaseException | None, where: TracebackType | None
    ) -> None:
        if kind is not None:
            self.give_up()

    def give_up(self) -> None:
        """
        Take away what this writer wrote, as far as the store can be reached: a full one has need of it.

        What was sent to be committed without an answer is left: it may be a checkpoint.
        """
        if self._manifest is not None:
            return
        own = [layout.MANIFEST, layout.WRITER] if self.writers == 1 else []
        names = [*sorted(self._begun), f"{layout.PART}{self.rank}.json", *own]
        with contextlib.suppress(StoreUnavailable):
            if not self._is_committed():
                self._place.delete([f"{self.folder}/{name}" for name in names])

    def _is_committed(self) -> bool:
        path = layout.committed_of(self.step)
        try:
            return layout.read_commit(self._place.read(path), path).path == self.folder
        except (FileNotFoundError, Incomplete):
            return False

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

        self._begun.add(name)
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
        if self._manifest is not None:  # repeated: the same bytes, so that it is the same commit
            return self._committed(self._manifest, read_back)
        fence.check(self._place, self.attempt)
        if not self._told:
            self.done()
        files = self._all_files(patience_s)
        if not files:
            raise Incomplete(f"step {self.step} has no files")
        self._manifest = Manifest(
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
        return self._committed(self._manifest, read_back)

    def _committed(self, manifest: Manifest, read_back: bool) -> Checkpoint:
        try:
            return commit(self._place, self.folder, manifest, read_back=read_back)
        except (AlreadyCommitted, Fenced, Incomplete, StoreFull):
            self._manifest = None  # certainly not committed: made anew where it is tried again
            raise

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


def claim(place: Place, step: int, attempt: int, token: str, *, make: bool = True) -> str | None:
    """
    The folder of a try of its own: whoever makes WRITER.json first has it, with all who share its token.

    An earlier try of the same attempt may still be writing, so nobody ever writes where another does.
    With `make` false nothing is made: None where the try has no folder yet.
    """
    for again in itertools.count():
        folder = layout.save_of(step, attempt, again)
        path = f"{folder}/{layout.WRITER}"
        present = place.files(folder)
        if not present:
            if not make:
                return None
            with contextlib.suppress(FileExistsError):
                place.create(path, json.dumps({"token": token, "where": place.where}).encode())
            present = place.files(folder)
        if f"{folder}/{layout.MARK}" not in present and _whose(place, path) == token:
            return folder
    raise AssertionError("unreachable")


def _whose(place: Place, path: str) -> str | None:
    try:
        return str(json.loads(place.read(path))["token"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None  # of a copy by other means, or altered


def commit(
    place: Place,
    folder: str,
    manifest: Manifest,
    written: bytes | None = None,
    *,
    read_back: bool = True,
    progress: verifying.Progress | None = None,
) -> Checkpoint:
    """
    Write the manifest, hold every file against it, and commit. The end of every save and every copy.

    `written`: the manifest's bytes where they are given. Repeated with the same, it is done once.
    """
    written = layout.manifest_bytes(manifest) if written is None else written
    data = layout.commit_bytes(manifest, written, folder)
    path = layout.committed_of(manifest.step)
    made = layout.read_commit(data, path)
    with contextlib.suppress(FileNotFoundError, Incomplete):
        stands = layout.read_commit(place.read(path), path)
        if stands.path == folder:
            return stands  # the answer to an earlier try was lost
    place.write(f"{folder}/{layout.MANIFEST}", written)
    wrong = verifying.against(place, folder, manifest, deep=read_back, trusting=True, progress=progress)
    if wrong:
        raise Incomplete(f"step {manifest.step}: " + "; ".join(wrong[:3]))
    fence.check(place, manifest.attempt)  # once more: verifying takes long
    while not _made(place, path, data, manifest):
        pass
    point(place, made)
    return made


def _made(place: Place, path: str, data: bytes, manifest: Manifest) -> bool:
    """Make the commit, once; False where what stood there has changed in between."""
    try:
        place.create(path, data)
        return True
    except FileExistsError:
        pass
    try:
        there = place.read(path)
    except FileNotFoundError:
        return False  # it was pruned in between
    if there == data:
        return True  # by our own hand: the answer was lost
    other = _stands(place, there, path, deep=True)
    if other is None:
        return place.swap(path, there, data)
    raise AlreadyCommitted(
        f"step {manifest.step} was committed by attempt {other.attempt} already; nothing was changed"
    )


def standing(place: Place, step: int, *, deep: bool) -> Checkpoint | None:
    """The checkpoint that holds a step; None where there is none."""
    path = layout.committed_of(step)
    try:
        return _stands(place, place.read(path), path, deep=deep)
    except FileNotFoundError:
        return None


def _stands(place: Place, there: bytes, path: str, *, deep: bool) -> Checkpoint | None:
    """What a commit stands for; None where it is a stale attempt's or not whole: then the step is free."""
    try:
        other = layout.read_commit(there, path)
        if fence.void(fence.fences(place), other):
            return None
        manifest = verifying.manifest_of(place, other)
    except Incomplete:
        return None
    return None if verifying.against(place, other.path, manifest, deep=deep) else other


def point(place: Place, newest: Checkpoint) -> None:
    """Let LATEST name it, unless it names a newer one. A hint: unwritten, nothing is lost."""
    told = {"step": newest.step, "attempt": newest.attempt, "path": newest.path, "tokens": newest.tokens}
    data = json.dumps(told, sort_keys=True).encode()
    with contextlib.suppress(StoreUnavailable):
        for _ in range(10):
            try:
                named = place.read(layout.LATEST)
            except FileNotFoundError:
                with contextlib.suppress(FileExistsError):
                    place.create(layout.LATEST, data)
                    return
                continue
            if _newer(named, newest) or place.swap(layout.LATEST, named, data):
                return


def _newer(named: bytes, than: Checkpoint) -> bool:
    try:
        told = json.loads(named)
        return (int(told["attempt"]), int(told["step"])) >= (than.attempt, than.step)
    except (ValueError, KeyError, TypeError):
        return False  # altered by somebody else: written anew
