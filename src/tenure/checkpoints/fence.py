"""Who may commit? Only the newest attempt; and what an older one commits late does not count.

An attempt begins by making its fence, once, in which it says where it resumed from. A fence and a commit
cannot be made in one step, so an older attempt may get a commit in just after it: the fence itself says which
of the older ones' commits were seen. Later ones are void, and a resume never finds them.
"""

from __future__ import annotations

import contextlib
import json
import sys
from typing import NamedTuple

from tenure.checkpoints import layout
from tenure.checkpoints.places import Place
from tenure.checkpoints.words import Checkpoint, Fenced, StoreError


class Fence(NamedTuple):
    """From `attempt` on, older attempts may not commit; theirs past `step` are void (None: all are)."""

    attempt: int
    step: int | None


def fences(place: Place) -> list[Fence]:
    """All of a run, oldest first."""
    found = []
    for path in place.files(layout.FENCES):
        number = path.rsplit("/", 1)[-1]
        if not number.isdigit():
            continue
        found.append(_read(place, path, int(number)))
    return sorted(found, key=lambda one: one.attempt)


def _read(place: Place, path: str, attempt: int) -> Fence:
    try:
        step = json.loads(place.read(path))["step"]
        return Fence(attempt, None if step is None else int(step))
    except (ValueError, KeyError, TypeError):
        return Fence(attempt, sys.maxsize)  # altered: it still keeps older attempts out, and voids nothing


def raise_fence(place: Place, attempt: int, resumed: Checkpoint | None) -> Fence:
    """
    Keep older attempts out. Repeated, it gives the fence as it was made. Fenced where a newer one stands;
    StoreError where the store lets two make the same file, for then nobody can be kept out.
    """
    check(place, attempt)
    step = None if resumed is None else resumed.step
    path = f"{layout.FENCES}/{attempt}"
    data = json.dumps({"attempt": attempt, "step": step}).encode()
    with contextlib.suppress(FileExistsError):
        place.create(path, data)
        place.create(path, data)  # a store that takes it a second time keeps nobody out
        raise StoreError(f"this store does not refuse to make {path} twice: it cannot tell who was first")
    check(place, attempt)
    return _read(place, path, attempt)


def check(place: Place, attempt: int) -> None:
    """Raises Fenced where a newer attempt has taken over."""
    newest = standing(place)
    if newest is not None and newest > attempt:
        raise Fenced(f"attempt {newest} has taken over: attempt {attempt} may not commit any more")


def standing(place: Place) -> int | None:
    """The newest attempt that has made its fence; None before the first."""
    names = [path.rsplit("/", 1)[-1] for path in place.files(layout.FENCES)]
    return max((int(name) for name in names if name.isdigit()), default=None)


def void(standing: list[Fence], commit: Checkpoint) -> bool:
    """Whether a commit came after a newer attempt had made its fence without having seen it."""
    return any(
        fence.attempt > commit.attempt and (fence.step is None or commit.step > fence.step)
        for fence in standing
    )
