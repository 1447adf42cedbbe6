"""Is it all there, and is it what was written? Compared with the manifest, file by file."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from hashlib import sha256 as hasher

from tenure.checkpoints import layout
from tenure.checkpoints.places import CHUNK, Place
from tenure.checkpoints.words import Checkpoint, Incomplete, Manifest

Progress = Callable[[int], None]  #: told how many bytes more were read


def against(
    place: Place,
    folder: str,
    manifest: Manifest,
    *,
    deep: bool,
    trusting: bool = False,
    progress: Progress | None = None,
) -> list[str]:
    """
    What is wrong with the files of a save, one line each; sizes only, or (`deep`) every byte.

    `trusting`: a hash that the store itself took of what it was sent is believed, and nothing read.
    """
    wrong = wrong_files(place, folder, manifest, deep=deep, trusting=trusting, progress=progress)
    return list(wrong.values())


def wrong_files(
    place: Place,
    folder: str,
    manifest: Manifest,
    *,
    deep: bool,
    trusting: bool = False,
    progress: Progress | None = None,
) -> dict[str, str]:
    """As `against`, by the file's name."""
    there = place.files(folder)
    wrong: dict[str, str] = {}
    for file in manifest.files:
        path = f"{folder}/{file.name}"
        seen = there.get(path)
        if seen is None:
            wrong[file.name] = f"{file.name} is missing"
        elif seen.bytes != file.bytes:
            wrong[file.name] = f"{file.name} has {seen.bytes} bytes, {file.bytes} were written"
        elif deep and _digest(place, path, file.bytes, trusting, progress) != file.sha256:
            wrong[file.name] = f"{file.name} is altered: its hash is another"
    return wrong


def _digest(place: Place, path: str, size: int, trusting: bool, progress: Progress | None) -> str:
    digest = hasher()
    try:
        kept = place.sha256(path) if trusting else None
        if kept is not None:
            if progress is not None:
                progress(size)
            return kept
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
    return manifest_and_bytes(place, checkpoint)[0]


def manifest_and_bytes(place: Place, checkpoint: Checkpoint) -> tuple[Manifest, bytes]:
    """As `manifest_of`, and how it is written."""
    path = f"{checkpoint.path}/{layout.MANIFEST}"
    try:
        data = place.read(path)
    except FileNotFoundError:
        raise Incomplete(f"{checkpoint.name}: MANIFEST.json is missing") from None
    if layout.sha256(data) != checkpoint.manifest_sha256:
        raise Incomplete(f"{checkpoint.name}: MANIFEST.json is not the one that was committed")
    return layout.read_manifest(data, path), data


def note_sound(place: Place, checkpoint: Checkpoint) -> None:
    """Its every byte was read just now, and is what was written."""
    told = json.dumps({"manifest_sha256": checkpoint.manifest_sha256}).encode()
    place.write(f"{layout.VERIFIED}/{checkpoint.name}", told)


def note_unsound(place: Place, checkpoint: Checkpoint) -> None:
    """Nobody may go by what was noted of it before."""
    place.delete([f"{layout.VERIFIED}/{checkpoint.name}"])


def sound_at(place: Place, checkpoints: Sequence[Checkpoint]) -> dict[str, float]:
    """When each was last read in full and found sound, by the store's clock; never: left out."""
    there = place.files(layout.VERIFIED)
    found: dict[str, float] = {}
    for one in checkpoints:
        path = f"{layout.VERIFIED}/{one.name}"
        if path not in there:
            continue
        with contextlib.suppress(FileNotFoundError, ValueError, KeyError, TypeError):
            if json.loads(place.read(path))["manifest_sha256"] == one.manifest_sha256:  # not of one before it
                found[one.name] = there[path].at
    return found
