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

from tenure.checkpoints import fence, saving, verifying
from tenure.checkpoints.places import CHUNK, HALF, Place, Seen
from tenure.checkpoints.words import AlreadyCommitted, Checkpoint, File, Incomplete, Manifest

Progress = Callable[[int], None]  #: told how many bytes more are there, and then how many more were read back


class Way(NamedTuple):
    """What a copy is: bytes still to go, and seconds at a bandwidth (None: none was given)."""

    bytes: int
    of_bytes: int
    seconds: float | None


def way(here: Place, there: Place, checkpoint: Checkpoint, bytes_per_s: float | None = None) -> Way:
    """How far it is. Files that are there with their size are counted as there."""
    manifest = verifying.manifest_of(here, checkpoint)
    folder = saving.claim(there, *_try(checkpoint), make=False)
    present = {} if folder is None else there.files(folder)
    left = sum(file.bytes for file in manifest.files if not _same_size(present, folder, file))
    return Way(left, manifest.bytes, None if bytes_per_s is None else left / bytes_per_s)


def copy(here: Place, there: Place, checkpoint: Checkpoint, progress: Progress | None = None) -> Checkpoint:
    """
    Copy and commit it there. Raises Incomplete where the source is not sound; Fenced, AlreadyCommitted by
    what stands there. Repeated, it ends as if it had been done once.
    """
    manifest, written = verifying.manifest_and_bytes(here, checkpoint)
    fence.check(there, manifest.attempt)
    made = saving.standing(there, checkpoint.step, deep=False)
    if made is not None and made.manifest_sha256 == checkpoint.manifest_sha256:
        return made
    if made is not None:
        raise AlreadyCommitted(f"step {made.step} is committed there already, by another save: {made.name}")
    folder = saving.claim(there, *_try(checkpoint))
    assert folder is not None
    present = there.files(folder)
    for file in manifest.files:
        if not _same_size(present, folder, file):
            _bring(here, there, checkpoint, folder, file, progress)
        elif progress is not None:
            progress(file.bytes)
    try:
        return saving.commit(there, folder, manifest, written, progress=progress)
    except Incomplete:  # a file that was there already and is not the same is brought again, once
        for name in verifying.wrong_files(there, folder, manifest, deep=True):
            file = next(file for file in manifest.files if file.name == name)
            _bring(here, there, checkpoint, folder, file, None)
        return saving.commit(there, folder, manifest, written)


def _try(checkpoint: Checkpoint) -> tuple[int, int, str]:
    """Whose try a copy is: of all who copy the same bytes, so that one goes on where another was cut off."""
    return checkpoint.step, checkpoint.attempt, checkpoint.manifest_sha256


def _same_size(present: dict[str, Seen], folder: str | None, file: File) -> bool:
    seen = present.get(f"{folder}/{file.name}")
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


def _bring(
    here: Place, there: Place, checkpoint: Checkpoint, folder: str, file: File, progress: Progress | None
) -> None:
    def pieces() -> Iterator[bytes]:
        with here.open(f"{checkpoint.path}/{file.name}") as source:
            while piece := source.read(CHUNK):
                yield piece
                if progress is not None:
                    progress(len(piece))

    try:
        there.stream(f"{folder}/{file.name}", pieces())
    except FileNotFoundError:
        raise Incomplete(f"{checkpoint.name}: {file.name} is missing") from None
