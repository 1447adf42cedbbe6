"""Is it all there, and is it what was written? Compared with the manifest, file by file."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256 as hasher

from tenure.checkpoints import layout
from tenure.checkpoints.places import CHUNK, Place
from tenure.checkpoints.words import Checkpoint, Incomplete, Manifest

Progress = Callable[[int], None]  #: told how many bytes more were read


def against(
    place: Place, folder: str, manifest: Manifest, *, deep: bool, progress: Progress | None = None
) -> list[str]:
    """What is wrong with the files of a save, one line each; sizes only, or (`deep`) every byte."""
    there = place.files(folder)
    wrong = []
    for file in manifest.files:
        path = f"{folder}/{file.name}"
        seen = there.get(path)
        if seen is None:
            wrong.append(f"{file.name} is missing")
        elif seen.bytes != file.bytes:
            wrong.append(f"{file.name} has {seen.bytes} bytes, {file.bytes} were written")
        elif deep and _digest(place, path, progress) != file.sha256:
            wrong.append(f"{file.name} is altered: its hash is another")
    return wrong


def _digest(place: Place, path: str, progress: Progress | None) -> str:
    digest = hasher()
    try:
        with place.open(path) as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
                if progress is not None:
                    progress(len(chunk))
    except FileNotFoundError:
        return "gone"
    return digest.hexdigest()


def manifest_of(place: Place, checkpoint: Checkpoint) -> Manifest:
    """The manifest that was committed. Incomplete where it is missing or not that one."""
    path = f"{checkpoint.path}/{layout.MANIFEST}"
    try:
        data = place.read(path)
    except FileNotFoundError:
        raise Incomplete(f"{checkpoint.name}: MANIFEST.json is missing") from None
    if layout.sha256(data) != checkpoint.manifest_sha256:
        raise Incomplete(f"{checkpoint.name}: MANIFEST.json is not the one that was committed")
    return layout.read_manifest(data, path)
