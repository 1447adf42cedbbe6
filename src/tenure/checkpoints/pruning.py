"""How is room made without ever losing the only good checkpoint, though it be cut off at any step?

A folder is marked, its commit removed, then its files, its mark last: what is cut off between is either still
a checkpoint or known to be going. Ages are told by the store's own clock, so a machine whose clock is wrong
deletes nothing too soon. What was brought here by other means, and what does not look like ours, is left.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Collection, Sequence
from itertools import takewhile
from math import inf
from typing import NamedTuple

from tenure.checkpoints import layout
from tenure.checkpoints.findings import COMMITTED as COUNTS
from tenure.checkpoints.findings import GOING, PARTIAL, VOID, WHOLE, Found, found
from tenure.checkpoints.places import Place
from tenure.checkpoints.retention import Keep, Verdict, judge
from tenure.checkpoints.verifying import note_sound, sound_at
from tenure.checkpoints.words import Checkpoint, NothingUsable

READING = "READING"
FRESH_S = 86400.0  #: what was read in full and found sound so lately is not read again before others go

Progress = Callable[[float, str], None]  #: told which part is done, from 0 to 1, and what is being done


class Pruned(NamedTuple):
    """What was let go, or would be."""

    verdicts: list[Verdict]
    deleted: list[str]  #: names (step-attempt)
    cut_off: list[str]  #: of these, saves that never were checkpoints
    bytes: int


class _Bar:
    """Where pruning is: half of the way is verifying, the rest is letting go."""

    def __init__(self, progress: Progress | None, of_bytes: int) -> None:
        self._progress, self._of, self._read, self._whole = progress, max(1, of_bytes), 0, 0

    def read(self, more: int, name: str) -> None:
        self._read += more
        self._tell(0.5 * self._read / self._of, f"reading {name}")

    def verified(self, one: Checkpoint) -> None:
        self._whole += one.bytes
        self._read = self._whole
        self._tell(0.5 * self._read / self._of, f"verified {one.name}")

    def in_full(self, one: Checkpoint) -> None:
        self._tell(0.5, f"reading {one.name} in full, before an older one goes")

    def going(self, part: float, one: Found) -> None:
        self._tell(0.5 + 0.5 * part, f"letting {one.name} go")

    def _tell(self, part: float, doing: str) -> None:
        if self._progress is not None:
            self._progress(min(1.0, part), doing)


def store_now(place: Place) -> float:
    """The store's clock: when it says that a file was written which was written now."""
    path = f"CLOCK/{uuid.uuid4().hex}"
    place.write(path, b"tick")
    try:
        return next(seen.at for name, seen in place.files("CLOCK").items() if name == path)
    finally:
        place.delete([path])


def prune(
    place: Place,
    verify: Callable[[Checkpoint, Callable[[int], None]], list[str]],
    keep: Keep,
    *,
    in_full: Callable[[Checkpoint], list[str]],
    reading: Collection[str] = (),
    dry: bool = False,
    progress: Progress | None = None,
) -> Pruned:
    """
    Let go what `keep` does not keep. `reading`: names (step-attempt) besides those that said so in the store.

    `verify`: what is wrong with one; it tells how many bytes more it has read. `in_full`: the same by every
    byte, asked before anything goes: one that is newer and stays must be sound, not only of the right size.
    NothingUsable where checkpoints stand and none of them verifies: then nothing is deleted.
    """
    now = store_now(place)
    everything = found(place)
    standing = [one.committed for one in everything if one.state == COUNTS and one.committed is not None]
    bar = _Bar(progress, sum(one.bytes for one in standing))
    wrong = {}
    for one in standing:
        wrong[one.name] = verify(one, lambda more, name=one.name: bar.read(more, name))  # type: ignore[misc]
        bar.verified(one)
    at = sound_at(place, standing)
    known = {one.name for one in standing if now - at.get(one.name, -inf) < FRESH_S}
    while True:
        sound = [one for one in standing if not wrong[one.name]]
        unsound = [one for one in standing if wrong[one.name]]
        if standing and not sound:
            raise NothingUsable(
                f"none of {len(standing)} checkpoints verifies ({wrong[standing[-1].name][0]}): all are kept"
            )
        verdicts = judge(sound, unsound, keep, set(reading) | readers(place, now))
        going = {verdict.checkpoint.name for verdict in verdicts if not verdict.kept}
        doubtful = _doubtful(sound, going, known)
        if doubtful is None:
            break
        bar.in_full(doubtful)
        wrong[doubtful.name] = in_full(doubtful)
        known.add(doubtful.name)
        if not dry and not wrong[doubtful.name]:
            note_sound(place, doubtful)
    newest = max((one.step for one in sound), default=-1)
    cut_off = [
        one
        for one in everything
        if one.state == GOING or (_left_over(one, newest) and now - one.newest_at > keep.grace_s)
    ]
    leaving = [one for one in everything if one.name in going] + cut_off
    if not dry:
        for gone, found_one in enumerate(leaving):
            bar.going(gone / len(leaving), found_one)
            _let_go(place, found_one)
        place.delete([path for path, until in _leases(place).items() if until[1] <= now])
    return Pruned(
        verdicts,
        [one.name for one in leaving],
        [one.name for one in cut_off],
        sum(one.bytes for one in leaving),
    )


def _doubtful(
    sound: Sequence[Checkpoint], going: Collection[str], known: Collection[str]
) -> Checkpoint | None:
    """What is to be read in full before those `going` may go: the newest; None: one above is known."""
    newest_first = sorted(sound, key=lambda one: (one.step, one.attempt), reverse=True)
    above = list(takewhile(lambda one: one.name not in going, newest_first))
    if not going or any(one.name in known for one in above):
        return None
    return above[0]


def _left_over(one: Found, newest: int) -> bool:
    """What nobody will finish. What was brought by other means is left: nobody knows what it is worth."""
    if one.state == VOID:
        return bool(one.paths)
    return one.ours and (one.state == PARTIAL or (one.state == WHOLE and one.step <= newest))


def _let_go(place: Place, one: Found) -> None:
    folder = f"{layout.SAVES}/{one.name}"
    mark, writer = f"{folder}/{layout.MARK}", f"{folder}/{layout.WRITER}"
    place.write(mark, b"")
    if one.state == COUNTS:  # a void one's is left: a newer attempt may be taking it over at this moment
        place.delete([layout.committed_of(one.step)])
    place.delete([path for path in one.paths if path not in (mark, writer)])
    place.delete([f"{layout.VERIFIED}/{one.name}"])
    place.delete([writer])  # from now on the name is free for another try
    place.delete([mark])


def readers(place: Place, now: float) -> set[str]:
    """Names of what somebody reads just now."""
    return {name for name, until in _leases(place).values() if until > now}


def _leases(place: Place) -> dict[str, tuple[str, float]]:
    leases = {}
    for path in place.files(READING):
        try:
            told = json.loads(place.read(path))
            leases[path] = (str(told["name"]), float(told["until"]))
        except FileNotFoundError:
            continue
        except (ValueError, KeyError, TypeError):
            continue  # not ours
    return leases
