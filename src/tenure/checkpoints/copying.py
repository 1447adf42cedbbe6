"""How does a checkpoint get to another store, such as one in the next window's region? File by file.

A copy is a save like any other: nothing counts until all is verified and committed there. Cut off anywhere it
is begun again and goes on with what is not there yet.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from hashlib import sha256 as hasher
from pathlib import Path
from typing import NamedTuple

from tenure.checkpoints import fence, layout, saving, verifying
from tenure.checkpoints.places import CHUNK, HALF, Place, Seen
from tenure.checkpoints.words import Checkpoint, File, Incomplete, Manifest

Progress = Callable[[int], None]  #: told how many bytes more are there


class Way(NamedTuple):
    """What a copy is: bytes still to go, and seconds at a bandwidth (None: none was given)."""

    bytes: int
    of_bytes: int
    seconds: float | None


def way(here: Place, there: Place, checkpoint: Checkpoint, bytes_per_s: float | None = None) -> Way:
    """How far it is. Files that are there with their size are counted as there."""
    manifest = verifying.manifest_of(here, checkpoint)
    present = there.files(checkpoint.path)
    left = sum(file.bytes for file in manifest.files if not _same_size(present, checkpoint, file))
    return Way(left, manifest.bytes, None if bytes_per_s is None else left / bytes_per_s)


def copy(here: Place, there: Place, checkpoint: Checkpoint, progress: Progress | None = None) -> Checkpoint:
    """
    Copy and commit it there. Raises Incomplete where the source is not sound; Fenced, AlreadyCommitted by
    what stands there. Repeated, it ends as if it had been done once.
    """
    manifest = verifying.manifest_of(here, checkpoint)
    fence.check(there, manifest.attempt)
    try:
        made = layout.read_commit(
            there.read(layout.committed_of(checkpoint.step)), layout.committed_of(checkpoint.step)
        )
    except FileNotFoundError:
        made = None
    if made == checkpoint and not verifying.against(there, made.path, manifest, deep=False):
        return made
    present = there.files(checkpoint.path)
    for file in manifest.files:
        if not _same_size(present, checkpoint, file):
            _bring(here, there, checkpoint, file, progress)
        elif progress is not None:
            progress(file.bytes)
    return _settle(here, there, checkpoint, manifest)


def _settle(here: Place, there: Place, checkpoint: Checkpoint, manifest: Manifest) -> Checkpoint:
    """Verify and commit; a file that was there already and is not the same is brought again, once."""
    try:
        return saving.commit(there, manifest)
    except Incomplete:
        wrong = {
            line.split(" ", 1)[0] for line in verifying.against(there, checkpoint.path, manifest, deep=True)
        }
        for file in manifest.files:
            if file.name.split(" ", 1)[0] in wrong:
                _bring(here, there, checkpoint, file, None)
        return saving.commit(there, manifest)


def _same_size(present: dict[str, Seen], checkpoint: Checkpoint, file: File) -> bool:
    seen = present.get(f"{checkpoint.path}/{file.name}")
    return seen is not None and seen.bytes == file.bytes


def download(
    here: Place, checkpoint: Checkpoint, manifest: Manifest, to: str, progress: Progress | None = None
) -> None:
    """All files of a checkpoint into a directory, each hashed on its way. Incomplete."""
    root = Path(to)
    for file in manifest.files:
        target = root / file.name
        target.parent.mkdir(parents=True, exist_ok=True)
        half = target.with_name(f"{HALF}{target.name}")
        digest = hasher()
        try:
            with here.open(f"{checkpoint.path}/{file.name}") as source, half.open("wb") as out:
                while piece := source.read(CHUNK):
                    digest.update(piece)
                    out.write(piece)
                    if progress is not None:
                        progress(len(piece))
        except FileNotFoundError:
            raise Incomplete(f"{checkpoint.name}: {file.name} is missing") from None
        if digest.hexdigest() != file.sha256:
            half.unlink()
            raise Incomplete(f"{checkpoint.name}: {file.name} is altered: its hash is another")
        os.replace(half, target)


def _bring(here: Place, there: Place, checkpoint: Checkpoint, file: File, progress: Progress | None) -> None:
    path = f"{checkpoint.path}/{file.name}"

    def pieces() -> Iterator[bytes]:
        with here.open(path) as source:
            while piece := source.read(CHUNK):
                yield piece
                if progress is not None:
                    progress(len(piece))

    try:
        there.stream(path, pieces())
    except FileNotFoundError:
        raise Incomplete(f"{checkpoint.name}: {file.name} is missing") from None
