"""What lies in a store, whether or not it was ever committed?"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import NamedTuple

from tenure.checkpoints import fence, layout, verifying
from tenure.checkpoints.places import Place, Seen
from tenure.checkpoints.words import Checkpoint, Incomplete

COMMITTED = "committed"  #: it counts
VOID = "void"  #: committed late, by an attempt that another had taken over from
WHOLE = (
    "whole"  #: never committed, though its manifest and all files are there: perhaps a copy by other means
)
PARTIAL = "partial"  #: never committed, and not all there: being written, or cut off
GOING = "going"  #: half pruned
UNREADABLE = "unreadable"  #: its commit is damaged


class Found(NamedTuple):
    """A save as it lies in the store."""

    step: int
    attempt: int
    name: str  #: step-attempt, and which try again: the name of its folder
    state: str
    bytes: int  #: of all its files, as listed
    newest_at: float  #: when the last of its files was written, by the store's clock; 0 where it has none
    committed: Checkpoint | None
    paths: tuple[str, ...]  #: all its files
    ours: bool = False  #: never committed, and begun in this very place: nothing that was brought here


def found(place: Place) -> list[Found]:
    """Everything, by step and attempt. Files that do not look like a save's are left out, and alone."""
    saves: dict[str, dict[str, Seen]] = defaultdict(dict)
    for path, seen in place.files(layout.SAVES).items():
        parts = path.split("/")
        if len(parts) > 2 and layout.SAVE.fullmatch(parts[1]):
            saves[parts[1]][path] = seen
    commits, damaged = _commits(place)
    for one in commits.values():
        saves.setdefault(one.name, {})
    standing = fence.fences(place)
    everything = [_one(place, name, files, commits, standing) for name, files in saves.items()]
    everything += [Found(step, 0, str(step), UNREADABLE, 0, 0.0, None, ()) for step in damaged]
    return sorted(everything, key=lambda one: (one.step, one.attempt, one.name))


def only_begun(one: Found) -> bool:
    """Whether it was begun here and cut off before it was whole, and so can be nobody's checkpoint.

    What was brought by other means is another matter: the rest of it may be where it came from.
    """
    return (
        one.state == PARTIAL and one.ours and f"{layout.SAVES}/{one.name}/{layout.MANIFEST}" not in one.paths
    )


def _ours(place: Place, folder: str) -> bool:
    try:
        return bool(json.loads(place.read(f"{folder}/{layout.WRITER}")).get("where") == place.where)
    except (FileNotFoundError, ValueError, AttributeError):
        return False


def _commits(place: Place) -> tuple[dict[int, Checkpoint], list[int]]:
    commits: dict[int, Checkpoint] = {}
    damaged = []
    for path in place.files(layout.COMMITTED):
        name = path.rsplit("/", 1)[-1]
        if not name.isdigit():
            continue
        try:
            made = layout.read_commit(place.read(path), path)
        except FileNotFoundError:
            continue  # pruned a moment ago
        except Incomplete:
            made = None
        if made is None or made.step != int(name):
            damaged.append(int(name))
        else:
            commits[made.step] = made
    return commits, damaged


def _one(
    place: Place,
    name: str,
    files: dict[str, Seen],
    commits: dict[int, Checkpoint],
    standing: list[fence.Fence],
) -> Found:
    folder = f"{layout.SAVES}/{name}"
    step, attempt = (int(number) for number in name.split(".")[0].split("-"))
    commit = commits.get(step)
    ours = commit if commit is not None and commit.path == folder else None
    if ours is not None:
        state = VOID if fence.void(standing, ours) else COMMITTED
    elif f"{folder}/{layout.MARK}" in files:
        state = GOING
    else:
        state = _uncommitted(place, folder, files)
    return Found(
        step,
        attempt,
        name,
        state,
        sum(seen.bytes for seen in files.values()),
        max((seen.at for seen in files.values()), default=0.0),
        ours,
        tuple(sorted(files)),
        state in (PARTIAL, WHOLE) and _ours(place, folder),
    )


def _uncommitted(place: Place, folder: str, files: dict[str, Seen]) -> str:
    path = f"{folder}/{layout.MANIFEST}"
    if path not in files:
        return PARTIAL
    try:
        manifest = layout.read_manifest(place.read(path), path)
    except (FileNotFoundError, Incomplete):
        return PARTIAL
    return PARTIAL if verifying.against(place, folder, manifest, deep=False) else WHOLE
